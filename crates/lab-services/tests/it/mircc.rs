//! The scenarios of MIRCC: what chance and place must not change, and both worlds.

use std::sync::Arc;

use paceline_lab::Quiet;
use paceline_lab::figure::Figure;
use paceline_lab::scenario::Scenario;
use paceline_lab_services::catalog::CATALOG;

fn load(name: &str, sets: &[&str]) -> Scenario {
    CATALOG.load(name).unwrap().with_sets(sets).unwrap().resolve().unwrap()
}

fn figures(name: &str, sets: &[&str], seed: u64) -> Vec<Figure> {
    paceline_lab_services::simulate(&load(name, sets), seed).expect("it runs").figures
}

fn assert_within(figures: &[Figure], count: usize, what: &str) {
    assert_eq!(figures.len(), count, "{what}");
    for figure in figures {
        assert!(figure.pass, "{what}: {} is {}, not {}", figure.id, figure.measured, figure.band());
    }
}

#[test]
fn rates_behind_a_joint_link_are_the_same_whatever_is_drawn() {
    for seed in 1..=20 {
        let found = figures("mircc/slingshot-15-12-9", &[], seed);
        assert_within(&found, 13, &format!("15-12-9, seed {seed}"));
    }
}

#[test]
fn it_makes_no_difference_on_which_branch_the_second_producer_is() {
    for scenario in ["mircc/slingshot-15-12-9", "mircc/slingshot-15-10-10"] {
        for second in ["second=left", "second=right"] {
            let found = figures(scenario, &[second], 1);
            assert_within(&found, 13, &format!("{scenario}, {second}"));
        }
    }
}

#[test]
fn messages_and_their_bytes_give_the_same_run() {
    let run = |check: &str| {
        let scenario = load("mircc/slingshot-15-12-9", &["duration=6s", "step=2s", check]);
        paceline_lab_services::simulate(&scenario, 3).unwrap()
    };
    let (typed, checked) = (run("check_wire=false"), run("check_wire=true"));
    assert_eq!(typed.digest, checked.digest);
    assert_eq!(typed.deliveries, checked.deliveries);
}

#[test]
fn what_is_fetched_is_the_same_in_both_worlds() {
    let sets = ["segments=50", "duration=30s", "signature=digest"];
    let scenario = load("mircc/abilene", &sets);
    let simulated = paceline_lab_services::simulate(&scenario, 1).unwrap();
    let real = paceline_lab_services::run_on_sockets(Arc::new(scenario), 1, None, &Quiet).unwrap();
    assert!(simulated.deliveries.is_some());
    assert_eq!(simulated.deliveries, real.deliveries);
}

#[test]
fn what_cannot_work_is_said_with_key_and_remedy() {
    for (sets, said) in [
        (&["nodes=5"][..], "[topology] nodes = 4"),
        (&["joint=0Mbit"], "`joint` is zero"),
        (&["headroom=0.99"], "shaper_headroom is 0.98, expected above the controller's"),
        (&["headroom=1.5"], "headroom is 1.5, expected above 0, at most 1"),
        (&["protocol.eta=0.9"], "`eta` is called `headroom` now"),
        (&["segment=9000B"], "`segment` is out of range"),
        (&["segment=1000B", "datagram=1100B"], "datagram of 1160 bytes"),
        (&["controller=tcp"], "`controller` cannot be"),
        (&["network=file", "file=/nowhere.graphml"], "/nowhere.graphml"),
        (&["upper=3Mbit"], "unknown key `upper`"),
    ] {
        let scenario = load("mircc/slingshot-15-12-9", sets);
        let error = paceline_lab_services::simulate(&scenario, 1).unwrap_err();
        assert!(error.to_string().contains(said), "{sets:?}: {error}");
        assert_eq!(error.exit_status(), 2, "{sets:?}");
    }
}

#[test]
fn mircc_settles_sooner_than_rcp_and_uses_more_of_a_slow_link() {
    let of = |scenario: &str, controller: &str| figures(scenario, &[controller], 1);
    let measured = |scenario: &str| {
        let [own, rcp] = ["controller=mircc", "controller=rcp"].map(|set| of(scenario, set));
        assert_eq!(own.len(), rcp.len());
        own.into_iter().zip(rcp).map(|(own, rcp)| (own.id, own.measured, rcp.measured))
    };
    let mut steps = 0;
    for (id, own, rcp) in measured("mircc/convergence") {
        assert!(own <= 0.75 * rcp, "{id}: {own} ms, RCP {rcp} ms");
        steps += 1;
    }
    assert_eq!(steps, 6);
    for (id, own, rcp) in measured("mircc/low-rate") {
        assert!(own >= rcp + 0.04, "{id}: {own} of C, RCP {rcp}");
    }
}
