//! Rates on networks drawn at random, held against the oracles.

use paceline_lab::mircc::topology::{Flows, Random, Routing, Ways};
use paceline_lab::run::RunResult;
use paceline_lab::scenario::ScenarioFile;

const NETWORKS: u64 = 50;

/// What a run on a network says.
struct Said {
    seed: u64,
    from_oracle: f64,
    from_max_min: f64,
    link_full: f64,
    least: f64,
}

fn run(seed: u64, ways: Ways) -> Said {
    let (name, kind) = match ways {
        Ways::One => ("one", "single"),
        Ways::Several => ("several", "multi"),
    };
    let graph = Random { seed, ways, ..Random::default() }.build().expect("a network");
    let text = format!(
        "duration = \"20s\"\nseed = {seed}\n[topology]\nnodes = {}\n[protocol]\nkind = \"mircc\"\n\
         [workload]\nnetwork = \"random\"\nways = \"{name}\"\nrouting = \"{kind}\"\n",
        graph.nodes().len()
    );
    let scenario = ScenarioFile::parse("random.toml", &text).unwrap().resolve().unwrap();
    let result = paceline_lab::simulate(&scenario, seed).expect("it runs");
    let value = |name: &str| value(&result, name);
    let flows = graph.consumers().len();
    let share = |flow| {
        let rate = |what: &str| value(&format!("window_1_flow_{flow}_{what}"));
        (rate("primary") + rate("secondary")) / rate("max_min")
    };
    Said {
        seed,
        from_oracle: value("window_1_from_oracle"),
        from_max_min: value("window_1_from_max_min"),
        link_full: value("mircc_link_full"),
        least: (1..=flows).map(share).fold(f64::INFINITY, f64::min),
    }
}

fn value(result: &RunResult, name: &str) -> f64 {
    let metric = result.summary.iter().find(|metric| metric.metric == name);
    // A counter that never counted is not there.
    metric.map_or(0.0, |metric| metric.value)
}

fn all(ways: Ways) -> Vec<Said> {
    let said: Vec<Said> = (1..=NETWORKS).map(|seed| run(seed, ways)).collect();
    for said in &said {
        println!(
            "{ways:?} {}: {:.1} % from the oracle, {:.1} % from multipath max-min",
            said.seed,
            said.from_oracle * 100.0,
            said.from_max_min * 100.0
        );
        assert_eq!(said.link_full, 0.0, "network {}: no link drops anything", said.seed);
        assert!(said.least > 0.1, "network {}: nobody starves", said.seed);
    }
    said
}

#[test]
fn over_one_path_rates_are_max_min() {
    for said in all(Ways::One) {
        assert!(said.from_max_min <= 0.05, "network {}: {}", said.seed, said.from_max_min);
    }
}

#[test]
fn over_several_paths_rates_are_those_of_two_classes() {
    let said = all(Ways::Several);
    let near = said.iter().filter(|said| said.from_oracle <= 0.15).count();
    assert!(near >= 45, "{near} of {NETWORKS} within 15 %");
    let mut joint = 0;
    for said in &said {
        let graph = Random { seed: said.seed, ways: Ways::Several, ..Random::default() };
        let flows = Flows::new(&graph.build().unwrap(), Routing::Multi, 0.95, 16).unwrap();
        let max_min = flows.problem.multipath().unwrap();
        if flows.problem.has_joint_bottlenecks(&max_min) {
            joint += 1;
            assert!(said.from_max_min <= 0.10, "network {}: {}", said.seed, said.from_max_min);
        }
    }
    assert!(joint >= 3, "{joint} networks have joint bottlenecks");
}
