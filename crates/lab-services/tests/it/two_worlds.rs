//! One scenario, two worlds: every member delivers the same messages in the same per-sender order,
//! and bundles are divided alike.

use std::sync::Arc;

use paceline_lab::Quiet;
use paceline_lab::run::RunResult;
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::{run_on_sockets, simulate};

fn value(result: &RunResult, name: &str) -> f64 {
    result.summary.iter().find(|metric| metric.metric == name).map_or(0.0, |metric| metric.value)
}

#[test]
fn sockets_deliver_what_the_simulator_delivers() {
    for topology in ["chain", "unicast", "tree", "pipeline", "auto"] {
        let sets = [format!("topology={topology}")];
        let file = CATALOG.load("chain/ten").unwrap().with_sets(sets).unwrap();
        let scenario = Arc::new(file.resolve().unwrap());
        let simulated = simulate(&scenario, 1).unwrap();
        let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
        assert_eq!(value(&real, "messages_missing"), 0.0, "{topology}: {:?}", real.summary);
        assert_eq!(value(&real, "messages_damaged"), 0.0, "{topology}");
        assert_eq!(real.deliveries, simulated.deliveries, "{topology}");
    }
}

#[test]
fn faults_on_sockets_cost_time_and_lose_nothing() {
    let file = CATALOG.load("chain/faults").unwrap();
    let scenario = Arc::new(file.resolve().unwrap());
    let simulated = simulate(&scenario, 1).unwrap();
    let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
    assert_eq!(value(&real, "messages_missing"), 0.0, "{:?}", real.summary);
    assert_eq!(real.deliveries, simulated.deliveries);
    assert!(value(&real, "chain_hop_resumed") > 0.0, "{:?}", real.summary);
}

#[test]
fn bundles_stay_whole_in_both_worlds_where_datagrams_are_long_enough() {
    for (datagram, is_divided) in [("1200B", true), ("8KiB", false)] {
        // By then all nodes take writes, also on a machine that is busy with other things: a write
        // that waits for that is not over when it is read.
        let sets = ["nodes=8", "keys=600", "bundle=100", "grouping=clustered", "start=12s"];
        let datagram = format!("datagram={datagram}");
        let sets = sets.into_iter().chain([datagram.as_str()]);
        let file = CATALOG.load("overlay/bundle").unwrap().with_sets(sets).unwrap();
        let scenario = Arc::new(file.resolve().unwrap());
        let simulated = simulate(&scenario, 1).unwrap();
        let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
        for result in [&simulated, &real] {
            assert_eq!(value(result, "keys_done"), 1200.0, "{datagram}: {:?}", result.summary);
            assert_eq!(value(result, "overlay_split") > 0.0, is_divided, "{datagram}");
            assert_eq!(value(result, "datagram_unsendable"), 0.0, "{datagram}");
        }
    }
}

#[test]
fn both_worlds_count_the_same_messages_of_each_phase() {
    // No pings, so tables do not change with traffic.
    let sets = ["nodes=8", "keys=120", "ping=off", "every=1ms", "start=8s"];
    let file = CATALOG.load("overlay/packets").unwrap().with_sets(sets).unwrap();
    let scenario = Arc::new(file.resolve().unwrap());
    let simulated = simulate(&scenario, 1).unwrap();
    let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
    let figures = |result: &RunResult| -> Vec<(String, f64)> {
        result.figures.iter().map(|figure| (figure.id.clone(), figure.measured)).collect()
    };
    assert_eq!(figures(&simulated).len(), 6, "{:?}", figures(&simulated));
    assert_eq!(figures(&real), figures(&simulated));
    let requests = ["overlay_route", "overlay_result", "overlay_find", "overlay_found"];
    let counts = |result: &RunResult| -> Vec<(u64, String, f64)> {
        let series = result.series.iter();
        let series = series.filter(|sample| requests.contains(&&*sample.metric));
        series.map(|s| (s.time_s as u64, s.metric.to_string(), s.value)).collect()
    };
    assert!(counts(&simulated).iter().any(|(_, _, count)| *count > 0.0));
    assert_eq!(counts(&real), counts(&simulated));
    assert!(real.figures.iter().all(|figure| figure.verdict() == "shown"), "no band on sockets");
}
