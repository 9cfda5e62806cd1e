//! Rates on networks drawn at random, held against the oracles.

use std::sync::LazyLock;

use paceline_lab::run::RunResult;
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::mircc::topology::{Flows, Random, Routing, Ways};

const NETWORKS: u64 = 50;

/// The runs over several paths, which two tests look at.
static SEVERAL: LazyLock<Vec<Said>> = LazyLock::new(|| all(Ways::Several));

/// What a run on a network says.
struct Said {
    seed: u64,
    from_oracle: f64,
    from_max_min: f64,
    link_full: f64,
    least: f64,
    near_fixed_point: f64,
    changes: f64,
    moves: f64,
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
    let scenario = CATALOG.parse("random.toml", &text).unwrap().resolve().unwrap();
    let result = paceline_lab_services::simulate(&scenario, seed).expect("it runs");
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
        near_fixed_point: value("window_1_near_fixed_point"),
        changes: value("window_1_changes"),
        moves: value("mircc_moves"),
        least: (1..=flows).map(share).fold(f64::INFINITY, f64::min),
    }
}

fn value(result: &RunResult, name: &str) -> f64 {
    let metric = result.summary.iter().find(|metric| metric.metric == name);
    // A counter that never counted is not there.
    metric.map_or(0.0, |metric| metric.value)
}

fn all(ways: Ways) -> Vec<Said> {
    let mut said: Vec<Said> = std::thread::scope(|scope| {
        let part = |first: u64| (first..=NETWORKS).step_by(2).map(move |seed| run(seed, ways));
        let other = scope.spawn(move || part(2).collect::<Vec<_>>());
        part(1).chain(other.join().expect("each network runs")).collect()
    });
    said.sort_by_key(|said| said.seed);
    for said in &said {
        println!(
            "{ways:?} {}: {:.1} % from the oracle, {:.1} % from multipath max-min, least {:.2}, \
             near a fixed point {:.2} of the time, {} changes, {} moves",
            said.seed,
            said.from_oracle * 100.0,
            said.from_max_min * 100.0,
            said.least,
            said.near_fixed_point,
            said.changes,
            said.moves
        );
        assert_eq!(said.link_full, 0.0, "network {}: no link drops anything", said.seed);
        // Two classes are not max-min, and here the least share of it that a flow has is 0.54.
        assert!(said.least > 0.5, "network {}: a flow has {} of its share", said.seed, said.least);
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
    let said = &*SEVERAL;
    let near = |most: f64| said.iter().filter(|said| said.from_oracle <= most).count();
    assert!(near(0.15) >= 50, "{} of {NETWORKS} within 15 %", near(0.15));
    assert!(near(0.05) >= 48, "{} of {NETWORKS} within 5 %", near(0.05));
    let mut joint = 0;
    for said in said {
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

#[test]
fn over_several_paths_rates_stay_where_they_have_settled() {
    let said = &*SEVERAL;
    let moves: f64 = said.iter().map(|said| said.moves).sum();
    assert!(moves <= 2.0 * NETWORKS as f64, "{moves} moves in 20 s");
    let changes: f64 = said.iter().map(|said| said.changes).sum();
    assert!(changes <= 0.0, "{changes} changes from one fixed point to another in 50 networks");
    let near = said.iter().filter(|said| said.near_fixed_point >= 0.8).count();
    assert!(near >= 49, "{near} of {NETWORKS} are near a fixed point most of the time");
    let steady = said.iter().filter(|said| said.near_fixed_point == 1.0).count();
    assert!(steady >= 47, "{steady} of {NETWORKS} are near a fixed point in each half second");
}
