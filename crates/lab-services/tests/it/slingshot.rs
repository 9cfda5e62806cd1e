//! What receivers lose comes back, in both worlds, and figures are runs of the protocol.

use std::sync::Arc;

use paceline_lab::Quiet;
use paceline_lab::figure::{Scale, Settings, table};
use paceline_lab::run::RunResult;
use paceline_lab::scenario::Scenario;
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::services::reproduction;
use paceline_lab_services::{run_on_sockets, simulate};

/// Ids of `reproduce slingshot`.
const FIGURES: usize = 115;
/// Those of them without a band.
const SHOWN: usize = 3;

fn scenario(name: &str, sets: &[&str]) -> Scenario {
    CATALOG.load(name).unwrap().with_sets(sets).unwrap().resolve().unwrap()
}

fn value(result: &RunResult, name: &str) -> f64 {
    let metric = result.summary.iter().find(|metric| metric.metric == name);
    metric.unwrap_or_else(|| panic!("there is no {name}")).value
}

#[test]
fn every_figure_is_inside_its_band() {
    let reproduction = reproduction("slingshot").unwrap();
    let settings = Settings { scale: Scale::Quick, ..Settings::default() };
    let figures = (reproduction.figures)(&settings, &Quiet).unwrap();
    print!("{}", table(&figures));
    assert_eq!(figures.len(), FIGURES);
    assert!(figures.iter().all(|figure| figure.pass), "{}", table(&figures));
    let judged = figures.iter().filter(|figure| figure.verdict() != "shown").count();
    assert_eq!(judged, FIGURES - SHOWN, "{}", table(&figures));
    let sections = (reproduction.sections)(&figures, &settings, &Quiet).unwrap();
    let headings: Vec<&str> = sections.iter().map(|section| &*section.heading).collect();
    assert_eq!(headings, ["Time of recovery", "Group size and senders", "Bursts and codes"]);
}

/// The commands of the documentation whose page this is that run a scenario.
fn documented_runs() -> Vec<(String, Vec<String>)> {
    let page = include_str!("../../../../docs/protocols/slingshot.md");
    let commands = page.split("`paceline run ").skip(1).filter_map(|rest| rest.split('`').next());
    let runs = commands.map(|command| {
        let mut words = command.split_whitespace();
        let name = words.next().expect("a scenario").to_owned();
        let words: Vec<&str> = words.collect();
        let sets = words.windows(2).filter(|pair| pair[0] == "--set");
        (name, sets.map(|pair| pair[1].to_owned()).collect())
    });
    runs.collect()
}

#[test]
fn every_documented_run_shows_a_figure_with_a_verdict() {
    let runs = documented_runs();
    assert!(runs.len() >= 10, "{runs:?}");
    let mut problems = Vec::new();
    for (name, sets) in runs {
        let sets: Vec<&str> = sets.iter().map(String::as_str).collect();
        // As long as the small runs of the same figures.
        let short = match &*name {
            "slingshot/repair" | "slingshot/throughput" => None,
            "slingshot/bursts" => Some("duration=30s"),
            "slingshot/slow" => Some("duration=102s"),
            "slingshot/groups" => Some("duration=20s"),
            _ => Some("duration=12s"),
        };
        let sets: Vec<&str> = sets.into_iter().chain(short).collect();
        let result = simulate(&scenario(&name, &sets), 1).unwrap();
        println!("{name} {sets:?}\n{}", table(&result.figures));
        let is_judged = result.figures.iter().any(|figure| figure.verdict() == "ok");
        if !is_judged || result.figures.iter().any(|figure| !figure.pass) {
            problems.push(format!("{name} {sets:?}\n{}", table(&result.figures)));
        }
    }
    assert!(problems.is_empty(), "no figure, or one out of its band:\n{}", problems.concat());
}

#[test]
fn other_settings_give_the_same_ids_without_a_verdict() {
    let reproduction = reproduction("slingshot").unwrap();
    let sets = ["members=6", "r=4", "c=2", "loss=3%", "rate=800/s", "code=xor"];
    let sets = sets.map(str::to_owned).to_vec();
    let settings = Settings { scale: Scale::Quick, sets, seed: Some(4), ..Settings::default() };
    let figures = (reproduction.figures)(&settings, &Quiet).unwrap();
    assert_eq!(figures.len(), FIGURES);
    assert_eq!(figures[0].id, "slingshot/recovered/r8-c3");
    assert!(figures.iter().all(|figure| figure.verdict() == "shown"), "{}", table(&figures));
}

#[test]
fn without_repairs_and_questions_nothing_comes_back() {
    let sets = ["repairs=false", "duration=4s", "topology.nodes=16"];
    let result = simulate(&scenario("slingshot/paper", &sets), 1).unwrap();
    assert!(value(&result, "packets_lost") > 100.0);
    for name in ["recovered", "packets_recovered", "packets_pulled", "overhead"] {
        assert_eq!(value(&result, name), 0.0, "{name}");
    }
}

#[test]
fn digests_are_equal_again_and_through_the_codec() {
    for code in ["protocol.stagger=4", "protocol.code=rlc"] {
        let run = |sets: &[&str]| {
            let sets = [&["duration=3s", code], sets].concat();
            simulate(&scenario("slingshot/repair", &sets), 5).unwrap()
        };
        let (first, again, codec) = (run(&[]), run(&[]), run(&["protocol.check_wire=true"]));
        assert!(first.digest.is_some());
        assert_eq!(first.digest, again.digest, "{code}");
        assert_eq!(first.digest, codec.digest, "{code} through the codec");
        assert_eq!(first.deliveries, codec.deliveries, "{code}");
    }
}

#[test]
fn all_is_delivered_in_both_worlds_as_it_comes_and_in_order() {
    for order in ["unordered", "fifo"] {
        let order = format!("order={order}");
        let sets = [&*order, "lost_after=2s"];
        let scenario = Arc::new(scenario("slingshot/repair", &sets));
        let simulated = simulate(&scenario, 1).unwrap();
        let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
        for result in [&simulated, &real] {
            assert!(value(result, "packets_lost") > 100.0, "{order}: {:?}", result.summary);
            for name in ["packets_reported_lost", "packets_untold"] {
                assert_eq!(value(result, name), 0.0, "{order}: {:?}", result.summary);
            }
        }
        assert_eq!(simulated.deliveries, real.deliveries, "{order}");
    }
}

/// Eight members that lose one packet in fifty on its way.
const COMPARED: &str = r#"
name = "compared"
duration = "7s"

[topology]
kind = "star"
nodes = 8
rate = "1Gbit"
delay = "50us"
loss = "2%"
datagram = "1472B"

[protocol]
kind = "nak"

[workload]
rate = "500/s"
size = "512B"
start = "500ms"
spacing = "drawn"

[measure]
warmup = "500ms"
drain = "4s"
"#;

fn compared(sets: &[&str]) -> Scenario {
    let file = CATALOG.parse("compared.toml", COMPARED).unwrap();
    file.with_sets(sets).unwrap().resolve().unwrap()
}

#[test]
fn what_it_is_compared_with_brings_all_back_in_both_worlds() {
    for sets in [
        &["protocol.kind=srm", "protocol.distance=1ms", "protocol.reports=own"][..],
        &["protocol.kind=srm", "protocol.distance=1ms", "timers=adaptive", "order=fifo"],
        &["protocol.kind=nak"],
        &["protocol.kind=nak", "protocol.answer=group", "protocol.order=fifo"],
        &["protocol.kind=digest-pull"],
        &["protocol.kind=ack"],
        &["protocol.kind=ack", "protocol.order=fifo"],
        &["protocol.kind=gossip", "protocol.gossip_every=20ms", "rounds_held=100"],
        &["protocol.kind=gossip", "protocol.gossip_every=20ms", "rounds_held=100", "order=fifo"],
    ] {
        let scenario = Arc::new(compared(sets));
        let simulated = simulate(&scenario, 1).unwrap();
        let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
        for result in [&simulated, &real] {
            assert!(value(result, "packets_lost") > 50.0, "{sets:?}: {:?}", result.summary);
            for name in ["packets_reported_lost", "packets_untold", "packets_recovered"] {
                assert_eq!(value(result, name), 0.0, "{sets:?}: {:?}", result.summary);
            }
            assert_eq!(value(result, "back"), 1.0, "{sets:?}");
            assert!(value(result, "overhead") > 0.0, "{sets:?}");
        }
        assert_eq!(simulated.deliveries, real.deliveries, "{sets:?}");
    }
}

#[test]
fn repairs_by_senders_bring_nearly_all_back_in_both_worlds() {
    let sets = ["protocol.kind=sender-fec", "protocol.c=4", "protocol.flush_after=50ms"];
    let scenario = Arc::new(compared(&sets));
    let simulated = simulate(&scenario, 1).unwrap();
    let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
    for result in [&simulated, &real] {
        assert!(value(result, "packets_lost") > 50.0, "{:?}", result.summary);
        assert!(value(result, "recovered") > 0.99, "{:?}", result.summary);
        assert_eq!(value(result, "packets_pulled"), 0.0, "{:?}", result.summary);
        assert_eq!(value(result, "packets_untold"), 0.0, "{:?}", result.summary);
        assert!(value(result, "overhead") > 0.3, "{:?}", result.summary);
    }
}

#[test]
fn digests_of_what_it_is_compared_with_are_equal_again_and_through_the_codec() {
    for kind in ["srm", "nak", "digest-pull", "sender-fec", "ack", "gossip"] {
        let kind = format!("protocol.kind={kind}");
        let run = |check: &str| simulate(&compared(&[&kind, check]), 5).unwrap();
        let [first, again] = [(); 2].map(|()| run("protocol.check_wire=false"));
        let codec = run("protocol.check_wire=true");
        assert!(first.digest.is_some());
        assert_eq!(first.digest, again.digest, "{kind}");
        assert_eq!(first.digest, codec.digest, "{kind} through the codec");
    }
}

#[test]
fn what_receivers_lose_comes_back_on_sockets_as_well() {
    let sets =
        ["topology.loss=0", "topology.receive_loss=3%", "protocol.pull=false", "protocol.c=5"];
    let scenario = Arc::new(scenario("slingshot/repair", &sets));
    let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
    assert!(value(&real, "packets_lost") > 300.0, "{:?}", real.summary);
    assert!(value(&real, "recovered") > 0.85, "{:?}", real.summary);
    assert!(value(&real, "emulated_receive_loss") > 300.0, "{:?}", real.summary);
}
