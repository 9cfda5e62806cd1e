use super::*;

fn sample_report() -> Report {
    let nodes = [2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
    let scheme = |rate: fn(f64) -> f64| nodes.map(|n| (n, rate(n))).to_vec();
    let schemes = Plot::new(
        "Throughput at a receiver, one sender",
        Axis::new("nodes", "").with_log(),
        Axis::new("throughput", "MB/s").with_log(),
    )
    .with_line("chain", scheme(|_| 117.0))
    .with_line("binomial tree", scheme(|n| 117.0 / n.log2()))
    .with_line("N-1 unicast", scheme(|n| 117.0 / (n - 1.0)))
    .with_paper("published", [(4.0, 107.0)])
    .with_caption("A chain does not slow down as it grows.");
    let bars = Plot::bars("All send", ["N=4", "N=8", "N=10"], Axis::new("received", "MB/s a node"))
        .with_group("chain", [15.2, 12.6, 12.4])
        .with_group("N-1", [14.8, f64::NAN, 11.0])
        .with_paper_group("limit", [15.95, 13.7, 13.3]);
    let latencies: Vec<f64> = (0..1000).map(|n| 1.0 + f64::from(n * n % 997) / 40.0).collect();
    let later: Vec<f64> = latencies.iter().map(|v| v * 3.0).collect();
    let cdf = Plot::cdf("Latency", Axis::new("latency", "ms").with_log())
        .with_cdf("chain", &latencies)
        .with_cdf("N-1", &later);
    let series: Vec<Sample> = (0..400)
        .flat_map(|n| {
            let time_s = f64::from(n) * 0.025;
            (0..9).map(move |node| {
                let value = 6e4 * (1.0 + (time_s + f64::from(node)).sin());
                Sample::at_node(time_s, node, "queue_bytes", value)
            })
        })
        .collect();
    let figures = vec![
        Figure::new("chain/rounds-x10-n10", 18.0, "rounds").with_paper(18.0).with_band(18.0, 18.0),
        Figure::new("chain/rate", 61.0, "MB/s").with_paper(107.0).with_band(100.0, 120.0),
        Figure::new("chain/p99-ms", 24.7, "ms").with_note("shown <without> a band"),
    ];
    Report {
        title: "chain/ten".into(),
        about: "Ten nodes in a chain & one sends.".into(),
        facts: vec![("seed".into(), "7".into()), ("digest".into(), "9f86d081884c7d65".into())],
        machine: Some(Machine::observe()),
        sections: vec![
            Section { heading: "Figures".into(), figures, ..Section::default() },
            Section {
                heading: "Summary".into(),
                metrics: vec![
                    Metric::new("throughput", 117.2, "MB/s"),
                    Metric::new("lost", 0.0, ""),
                ],
                ..Section::default()
            },
            Section {
                heading: "Plots".into(),
                plots: [vec![schemes, bars, cdf], series_plots(&series)].concat(),
                ..Section::default()
            },
        ],
        scenario_toml: Some("nodes = 4 # a < b".into()),
    }
}

/// Checks that every element that opens closes, and returns how many there are.
fn well_formed(html: &str) -> usize {
    const VOID: [&str; 1] = ["meta"];
    let (mut open, mut count, mut rest) = (Vec::new(), 0, html);
    while let Some(at) = rest.find('<') {
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed.trim()), "before {:.80}", rest);
        } else if !tag.starts_with('!') && !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        count += 1;
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    count
}

#[test]
fn a_report_is_well_formed_and_needs_nothing_from_elsewhere() {
    let html = sample_report().to_html();
    if let Some(path) = std::env::var_os("PACELINE_SAMPLE_REPORT") {
        std::fs::write(path, &html).unwrap();
    }
    assert!(well_formed(&html) > 200);
    let without_namespace = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "<script", "<link", "@import", "url("] {
        assert!(!without_namespace.contains(outside), "{outside}");
    }
}

#[test]
fn a_report_contains_what_ran_and_what_came_out() {
    let html = sample_report().to_html();
    for part in [
        "<h1>chain/ten</h1>",
        "Ten nodes in a chain &#38; one sends.",
        "1 figure is out of band. Of 2 published values 1 lie in a band",
        "<code>chain/rounds-x10-n10</code>",
        "exactly 18",
        "100 to 120",
        "shown &#60;without&#62; a band",
        "prefers-color-scheme: dark",
        "@media print",
        "cores",
        "nodes = 4 # a &#60; b",
        "aria-label=\"Latency\"",
    ] {
        assert!(html.contains(part), "{part} is missing");
    }
    assert_eq!(html.matches("<svg").count(), 4);
}

#[test]
fn plots_take_the_colour_of_the_text_and_name_axes_units_and_layers() {
    let plots = &sample_report().sections[2].plots;
    let svg = plots[0].to_svg();
    assert!(svg.contains("currentColor") && !svg.contains("#010203") && !svg.contains("#000000"));
    for text in ["throughput (MB/s)", "nodes", "chain", "N-1 unicast", "published", "64"] {
        assert!(svg.contains(text), "{text}");
    }
    well_formed(&svg);
    assert!(plots[1].to_svg().contains("N=10"));
    assert!(plots[3].to_svg().contains("mean of 9 nodes"));
}

#[test]
fn a_plot_without_anything_to_show_says_so() {
    let log = Axis::new("x", "").with_log();
    let svg = Plot::new("empty", log, Axis::new("y", "")).with_line("a", [(0.0, 1.0)]).to_svg();
    assert!(svg.contains("no samples"));
}

#[test]
fn a_cdf_ends_at_one_and_its_samples_need_no_order() {
    let plot = Plot::cdf("t", Axis::new("x", "")).with_cdf("a", &[3.0, 1.0, 2.0, f64::NAN]);
    let same = Plot::cdf("t", Axis::new("x", "")).with_cdf("a", &[1.0, 2.0, 3.0]);
    assert_eq!(plot, same);
}
