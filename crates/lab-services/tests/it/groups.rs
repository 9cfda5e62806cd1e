//! Groups in both worlds: a member that joins delivers everything, and a crash or leave harms no
//! other member.

use std::sync::Arc;

use paceline_check::checkers::group::GroupLedger;
use paceline_lab::Quiet;
use paceline_lab::run::RunResult;
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{self, Service, Trial};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::group::GroupScenario;
use paceline_lab_services::{run_on_sockets, simulate};

fn value(result: &RunResult, name: &str) -> f64 {
    let found = result.summary.iter().find(|metric| metric.metric == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", result.summary)).value
}

fn scenario(name: &str, sets: &[&str]) -> Arc<Scenario> {
    let file = CATALOG.load(name).unwrap().with_sets(sets).unwrap();
    Arc::new(file.resolve().unwrap())
}

#[test]
fn a_group_that_forms_on_sockets_delivers_what_the_simulator_delivers() {
    let sets = ["nodes=6", "start=1s", "messages=30", "workload.rate=100/s", "duration=20s"];
    let scenario = scenario("group/join-storm", &sets);
    let simulated = simulate(&scenario, 1).unwrap();
    let real = run_on_sockets(scenario, 1, None, &Quiet).unwrap();
    for result in [&simulated, &real] {
        assert_eq!(value(result, "messages_missing"), 0.0, "{:?}", result.summary);
        assert_eq!(value(result, "messages_damaged"), 0.0, "{:?}", result.summary);
        assert_eq!(value(result, "messages_delivered"), 6.0 * 6.0 * 30.0, "{:?}", result.summary);
        assert!(result.figures.iter().all(|figure| figure.pass), "{:?}", result.figures);
    }
    assert_eq!(real.deliveries, simulated.deliveries);
}

#[test]
fn a_crash_that_no_message_survives_but_one_is_drawn_and_repaired() {
    let drop_out = simulate(&scenario("group/drop-out", &[]), 1).unwrap();
    assert!(drop_out.figures.iter().all(|figure| figure.pass), "{:?}", drop_out.figures);
    // By flush or from a holder, three others get the messages that the crashed member did not
    // forward.
    assert_eq!(value(&drop_out, "messages_missing"), 0.0);
    assert!(value(&drop_out, "latency_max") > 300.0, "{:?}", drop_out.summary);
    let titles: Vec<&str> = drop_out.drawings.iter().map(|plot| plot.title.as_str()).collect();
    assert_eq!(titles.len(), 3, "{titles:?}");
    for drawing in &drop_out.drawings {
        assert!(drawing.to_svg().contains("member 4"), "{}", drawing.title);
    }
    // The same seed draws the same.
    let again = simulate(&scenario("group/drop-out", &[]), 1).unwrap();
    assert_eq!(again.digest, drop_out.digest);
    for (one, other) in again.drawings.iter().zip(&drop_out.drawings) {
        assert!(one.to_svg() == other.to_svg(), "{}", one.title);
    }
}

#[test]
fn groups_keep_every_promise_where_members_go_and_the_network_is_faulty() {
    let sets = ["loss=2%", "jitter=2ms", "duplicate=2%", "stream_resend_after=30ms"];
    for name in ["group/leader-killed", "group/rolling-restart", "group/partition-2-2"] {
        for seed in 1..=3 {
            let scenario = scenario(name, &sets);
            let members = GroupScenario::read(&scenario).unwrap();
            let mut promises = GroupLedger::new(members.shared());
            let trial = Trial::simulated(&scenario, seed);
            world::simulate(members, &trial, &mut promises).unwrap();
            assert!(promises.deliveries() > 0, "{name} {seed}");
            let broken = promises.violation().map(ToString::to_string);
            assert_eq!(broken, None, "{name} {seed}");
            let result = simulate(&scenario, seed).unwrap();
            assert_eq!(value(&result, "messages_damaged"), 0.0, "{name} {seed}");
            assert_eq!(result.figures[1].measured, 0.0, "{name} {seed}: {:?}", result.figures);
        }
    }
}
