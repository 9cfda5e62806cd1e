use paceline_proto::core::Rng;

use super::*;

const CITIES: &str = r#"<?xml version="1.0" encoding="utf-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
  <key attr.name="label" attr.type="string" for="node" id="d1"/>
  <key attr.name="Latitude" attr.type="double" for="node" id="d2"/>
  <key attr.name="Longitude" attr.type="double" for="node" id="d3"/>
  <key attr.name="LinkSpeedRaw" attr.type="double" for="edge" id="d4"/>
  <key attr.name="delay" attr.type="string" for="edge" id="d5"/>
  <key attr.name="bandwidth" attr.type="string" for="edge" id="d6"><default>2Mbps</default></key>
  <graph edgedefault="undirected">
    <data key="d9">of no concern</data>
    <node id="0">
      <data key="d1">New York</data>
      <data key="d2">40.71427</data>
      <data key="d3">-74.00597</data>
    </node>
    <node id="1">
      <data key="d1">Chicago</data>
      <data key="d2">41.85003</data>
      <data key="d3">-87.65005</data>
    </node>
    <node id="2"><data key="d1">Exchange</data></node>
    <node id="3"><data key="d1">Exchange</data></node>
    <node id="n4"/>
    <edge source="0" target="1"><data key="d4">10000000000.0</data></edge>
    <edge source="1" target="2"><data key="d5"> 5ms </data></edge>
    <edge source="2" target="3"><data key="d6">64kbps</data></edge>
    <edge source="3" target="n4"><data key="d6">64kbps</data><data key="d5">2ms</data></edge>
    <edge source="n4" target="3"><data key="d6">32kbps</data><data key="d5">1ms</data></edge>
  </graph>
</graphml>
"#;

fn defaults() -> Defaults {
    Defaults { delay: Some(Duration::from_millis(3)), queue_packets: Some(9), rate: None }
}

fn said(text: &str) -> String {
    read("cities.graphml", text, &Defaults::default()).unwrap_err().to_string()
}

/// A file with these elements in its graph.
fn with(elements: &str) -> String {
    format!("<graphml>\n<graph edgedefault=\"directed\">\n{elements}\n</graph>\n</graphml>\n")
}

const TWO: &str = "<node id=\"a\"/><node id=\"b\"/>\n";

#[test]
fn a_file_of_the_zoos_kind_gives_names_rates_and_delays() {
    let graph = read("cities.graphml", CITIES, &defaults()).unwrap();
    assert_eq!(graph.nodes(), ["New York", "Chicago", "Exchange-2", "Exchange-3", "n4"]);
    let links: Vec<_> = graph
        .links()
        .iter()
        .map(|link| {
            let rates = link.rates.map(Rate::bits_per_second);
            (link.name.as_str(), rates, link.delay.as_millis(), link.queue_packets)
        })
        .collect();
    assert_eq!(
        links,
        [
            ("New York-Chicago", [10_000_000_000; 2], 5, Some(9)),
            ("Chicago-Exchange-2", [2_000_000; 2], 5, Some(9)),
            ("Exchange-2-Exchange-3", [64_000; 2], 3, Some(9)),
            ("Exchange-3-n4", [96_000; 2], 1, Some(9)),
        ]
    );
    // 1,144 km as the crow flies, 5.7 ms in fibre.
    let delay = graph.links()[0].delay.as_secs_f64() * 1e3;
    assert!((5.70..5.75).contains(&delay), "{delay} ms");
}

#[test]
fn distances_on_the_globe_are_right() {
    let quarter = EARTH_RADIUS_KM * std::f64::consts::FRAC_PI_2;
    let near = |found: f64, expected: f64| (found - expected).abs() < 1e-6;
    assert!(near(great_circle_km((0.0, 0.0), (90.0, 17.0)), quarter));
    assert!(near(great_circle_km((0.0, 10.0), (0.0, 100.0)), quarter));
    assert!(near(great_circle_km((0.0, -170.0), (0.0, 100.0)), quarter));
    assert!(near(great_circle_km((0.0, 0.0), (0.0, 180.0)), 2.0 * quarter));
    assert_eq!(great_circle_km((50.0, 7.0), (50.0, 7.0)), 0.0);
}

#[test]
fn a_directed_edge_is_one_direction_unless_it_is_alone() {
    let text = with(
        "<node id=\"a\"/><node id=\"b\"/><node id=\"c\"/>\
         <edge source=\"a\" target=\"b\"><data key=\"rate\">5Mbps</data></edge>\
         <edge source=\"b\" target=\"a\"><data key=\"rate\">1Mbps</data></edge>\
         <edge source=\"c\" target=\"b\"><data key=\"rate\">2Mbps</data></edge>\
         <edge source=\"a\" target=\"c\" directed=\"false\"><data key=\"rate\">3Mbps</data></edge>",
    );
    let graph = read("cities.graphml", &text, &defaults()).unwrap();
    let rates: Vec<_> = graph
        .links()
        .iter()
        .map(|link| link.rates.map(|rate| rate.bits_per_second() / 1_000_000))
        .collect();
    assert_eq!(rates, [[5, 1], [2, 2], [3, 3]]);
}

#[test]
fn a_mistake_is_shown_where_it_stands_with_what_would_be_right() {
    let text = format!("{TWO}<edge source=\"a\" target=\"zz\"/>");
    assert_eq!(
        said(&with(&text)),
        "cities.graphml:4:26: there is no node with the id `zz`\n\
         \x20 |\n\
         4 | <edge source=\"a\" target=\"zz\"/>\n\
         \x20 |                          ^^\n\
         \x20 = accepted: the id of a <node>"
    );
    let text = CITIES.replace("64kbps", "64");
    assert_eq!(
        said(&text),
        "cities.graphml:26:48: `64` has no unit\n\
         \x20  |\n\
         26 |     <edge source=\"2\" target=\"3\"><data key=\"d6\">64</data></edge>\n\
         \x20  |                                                ^^\n\
         \x20  = accepted: a rate above zero with a unit: 10Mbps, 1.5Gbps, 500kbit"
    );
}

#[test]
fn each_kind_of_mistake_has_its_line_and_words() {
    let edge = |data: &str| format!("{TWO}<edge source=\"a\" target=\"b\">\n{data}</edge>");
    let data = |key: &str, value: &str| edge(&format!("<data key=\"{key}\">{value}</data>"));
    let rate = "<data key=\"rate\">1Mbps</data>";
    for (elements, line, words) in [
        ("<node id=\"a\"/>\n<node id=\"a\"/>".to_owned(), 4, "the node id `a` is taken"),
        ("<node/>".to_owned(), 3, "the node has no id"),
        (format!("{TWO}<edge target=\"b\"/>"), 4, "the edge has no source"),
        (edge(""), 4, "the edge has no rate"),
        (edge(rate), 4, "the edge has no delay, and `a` has no coordinates"),
        (data("LinkSpeedRaw", "0.0"), 5, "`0.0` is not a rate"),
        (data("LinkSpeedRaw", "-1e9"), 5, "`-1e9` is not a rate"),
        (data("linkspeedraw", "fast"), 5, "accepted: bits a second"),
        (data("bandwidth", "0Mbps"), 5, "the rate `0Mbps` is zero"),
        (edge(&format!("{rate}<data key=\"latency\">5</data>")), 5, "`5` has no unit"),
        (
            "<node id=\"a\">\n<data key=\"lat\">91</data></node>".to_owned(),
            4,
            "`91` is not a coordinate",
        ),
        ("<hyperedge/>".to_owned(), 3, "a hyperedge is not a link"),
        (
            format!(
                "{TWO}<edge source=\"b\" target=\"b\">{rate}<data key=\"delay\">1ms</data></edge>"
            ),
            4,
            "a link connects `b` with itself",
        ),
    ] {
        let said = said(&with(&elements));
        assert!(said.starts_with(&format!("cities.graphml:{line}:")), "{said}");
        assert!(said.contains(words), "{said}");
    }
    assert!(said(&with(TWO)).contains("cities.graphml: no path leads from `a` to `b`"));
    assert!(said(&with("")).contains("cities.graphml: the network has no nodes"));
    assert!(said("<graphml/>").contains("the file has no graph"));
    assert!(said("<graphml><graph/>\n<graph/></graphml>").starts_with("cities.graphml:2:1:"));
    assert!(said("<gexf/>").contains("<gexf> is not GraphML"));
    assert!(said("<graphml>\n  <graph></graphml>").starts_with("cities.graphml:2:"));
    assert!(said("").contains("not XML"));
    let bomb = "<!DOCTYPE a [<!ENTITY b \"c\">]><graphml/>";
    assert!(said(bomb).contains("not XML"));
}

#[test]
fn a_value_with_entities_is_shown_as_it_is_written() {
    let edge = "<edge source=\"a\" target=\"b\"><data key=\"rate\">é&lt;ééé</data></edge>";
    let said = said(&with(&format!("{TWO}{edge}")));
    assert!(said.contains("`é<ééé` does not begin with a number"), "{said}");
    assert!(said.contains("| <edge") && said.contains(" ^^^^^^^^\n"), "{said}");
}

#[test]
fn damaged_files_are_refused_and_never_panic() {
    let pieces = ["\"", "<", ">", "&", "é", "\0", "-", "1e999", "\n", "</node>", "0", ";"];
    let mut refused = 0;
    for seed in 0..3_000 {
        let rng = &mut Rng::new(seed, 3);
        let mut text = CITIES.to_owned();
        for _ in 0..=rng.below(3) {
            let from = rng.below(text.len() as u32) as usize;
            let to = (from + rng.below(12) as usize).min(text.len());
            if text.is_char_boundary(from) && text.is_char_boundary(to) {
                let piece = pieces[rng.below(pieces.len() as u32) as usize];
                text.replace_range(from..to, piece);
            }
        }
        if let Err(error) = read("cities.graphml", &text, &defaults()) {
            assert!(error.to_string().starts_with("cities.graphml"), "seed {seed}: {error}");
            refused += 1;
        }
    }
    assert!(refused > 1_000, "{refused}");
}
