//! V2: a slow member does not expel others, and is hardly ever expelled itself.
//!
//! One member of a group pauses again and again while the group sends and grows. Rule V1 of the
//! ledger, which checks each run, allows no other member to be excluded. `PACELINE_TEST_SEEDS` is
//! the number of seeds (default 200).

use crate::group_swarm;

use std::time::Duration;

use group_swarm::{Act, Scenario, at, honest, join};
use paceline_check::seeds;
use paceline_proto::core::{NodeId, Rng};
use paceline_proto::detector;
use paceline_sim::Fault;

/// Less than a crash takes to be detected.
const SHORT: Duration = Duration::from_millis(450);
/// More than that, and more than the others wait for an answer.
const LONG: Duration = Duration::from_millis(3500);
/// A member is excluded at most once in this many short pauses.
const PAUSES_AN_EXCLUSION: u64 = 1000;

/// The scenario of a seed, and how often its slow member pauses, each time for at most `longest`.
fn draw(seed: u64, longest: Duration) -> (Scenario, u64) {
    let mut rng = Rng::new(seed, 0x510);
    let nodes = 2 + rng.below(8);
    let mut scenario = Scenario::new(seed, nodes).with_traffic(&mut rng, 8);
    // Members that join later change the view while the slow one is paused.
    for node in 1..nodes {
        if rng.chance(0.5) {
            let when = at(1000 + u64::from(rng.below(8000)));
            scenario.acts[node as usize] = (when, Act::Command(NodeId::from(node), join([0])));
        }
    }
    let slow = NodeId::from(rng.below(nodes));
    let (mut when, mut pauses) = (500, 0);
    while when < 12_000 {
        let pause = 20 + u64::from(rng.below(longest.as_millis() as u32 - 20));
        let fault = Fault::Pause(slow, Duration::from_millis(pause));
        scenario.acts.push((at(when), Act::Fault(fault)));
        pauses += 1;
        when += pause + 50 + u64::from(rng.below(600));
    }
    (scenario, pauses)
}

/// Runs a seed with this detector; gives the pauses and the exclusions.
fn run(seed: u64, longest: Duration, detector: detector::Config) -> Result<[u64; 2], String> {
    let (mut scenario, pauses) = draw(seed, longest);
    let config = scenario.config.clone().with_detector(|_| detector);
    scenario.config = config.build().expect("within the ranges");
    let outcome = scenario.run(honest(&scenario.config))?;
    Ok([pauses, outcome.excluded])
}

/// Runs the seeds with the default detector.
fn run_all(longest: Duration) -> [u64; 2] {
    let run = |seed| run(seed, longest, detector::Config::default());
    let (count, [pauses, excluded]) = seeds::run_all(run);
    println!("{count} seeds: {pauses} pauses of up to {longest:?}, {excluded} exclusions");
    [pauses, excluded]
}

#[test]
fn seeds_in_which_a_member_is_slow_hardly_ever_expel_it() {
    let [pauses, excluded] = run_all(SHORT);
    let allowed = pauses / PAUSES_AN_EXCLUSION;
    assert!(excluded <= allowed, "{excluded} exclusions by {pauses} pauses, {allowed} allowed");
}

#[test]
fn seeds_in_which_a_member_stands_still_for_long_expel_nobody_else() {
    let [pauses, excluded] = run_all(LONG);
    assert!(excluded * 10 > pauses, "{excluded} exclusions by {pauses} pauses: none was long");
}

#[test]
fn a_detector_that_gives_a_slow_member_no_time_is_caught() {
    let hasty = detector::Config::default().with_suspect_for(Duration::from_millis(50));
    let ran = (0..100).filter_map(|seed| run(seed, SHORT, hasty.clone()).ok());
    let [pauses, excluded] = ran.fold([0, 0], |[a, b], [c, d]| [a + c, b + d]);
    println!("{excluded} exclusions by {pauses} pauses");
    assert!(excluded > pauses / PAUSES_AN_EXCLUSION, "the bug went unnoticed");
}

/// The first message that it handles when it resumes is not the answer that it waits for.
#[test]
fn a_leader_that_stands_still_in_a_view_change_does_not_expel_its_only_partner() {
    for step in 0..30 {
        let mut scenario = Scenario::new(1, 4);
        let joins = at(3000);
        let begins = joins + Duration::from_millis(50) + Duration::from_micros(50) * step;
        (scenario.acts[2].0, scenario.acts[3].0) = (joins, begins);
        let pause = Fault::Pause(NodeId(0), Duration::from_millis(2500));
        scenario.acts.push((begins, Act::Fault(pause)));
        let ran = scenario.run(honest(&scenario.config));
        assert!(ran.is_ok(), "{begins}: {}", ran.unwrap_err());
    }
}
