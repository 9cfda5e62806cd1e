//! The leader of a group stops between any two messages of a view change.
//!
//! The test runs a view change once and notes every control message that the leader sends or
//! handles. Then it repeats the run for each of them, and at that message kills the leader, or
//! pauses it for longer than the others wait.

use crate::group_swarm;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use group_swarm::boundary::{Case, LEADER, Log, Ran, Stop, Trigger, boundaries};
use paceline_proto::group::{Config, Group};

const SEEDS: u64 = 3;
/// Fewer messages than this are not a view change of five members.
const BOUNDARIES_MIN: usize = 20;
/// The others need so long at most to be in one view once the leader died.
const WHOLE_AGAIN: Duration = Duration::from_secs(2);
/// Longer than the detector takes to give a member up.
const PAUSE: Stop = Stop::Pause(Duration::from_secs(3));

fn honest(_: paceline_proto::core::NodeId, config: &Config) -> Group {
    Group::new(config)
}

/// Runs the cases on all cores; the first that fails ends the test.
fn run_all(cases: Vec<Case>) -> Vec<(Case, Ran)> {
    let cases = Mutex::new(cases.into_iter());
    let done = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let next = cases.lock().expect("no panic under the lock").next();
                    let Some(case) = next else { return };
                    let ran = case.run(honest);
                    done.lock().expect("no panic under the lock").push((case, ran));
                }
            });
        }
    });
    let done = done.into_inner().expect("no panic");
    let failures: Vec<&String> = done.iter().filter_map(|(_, ran)| ran.as_ref().err()).collect();
    assert!(failures.is_empty(), "{} of {} cases: {}", failures.len(), done.len(), failures[0]);
    done.into_iter().filter_map(|(case, ran)| ran.ok().map(|ran| (case, ran))).collect()
}

/// The kinds of the control messages in a log.
fn kinds(lines: &[String]) -> BTreeSet<&str> {
    lines.iter().filter_map(|line| line.split(": ").nth(1)?.split(' ').next()).collect()
}

/// Stops the leader at each boundary of each seed.
fn stop_everywhere(trigger: Trigger, stop: Stop) -> Vec<(Case, Ran)> {
    let mut cases = Vec::new();
    let mut counts = Vec::new();
    for seed in 0..SEEDS {
        let case = Case { seed, trigger, stop: None };
        let Log { sent, handled } = case.run(honest).expect("nothing stops").log;
        let wanted = ["prepare", "accept", "install"];
        assert!(wanted.iter().all(|kind| kinds(&sent).contains(kind)), "{sent:#?}");
        let wanted = ["promise", "accepted", "installed"];
        assert!(wanted.iter().all(|kind| kinds(&handled).contains(kind)), "{handled:#?}");
        let points = boundaries(&Log { sent, handled });
        assert!(points.len() >= BOUNDARIES_MIN, "only {} boundaries", points.len());
        counts.push(points.len());
        cases.extend(points.into_iter().map(|point| Case { stop: Some((point, stop)), ..case }));
    }
    println!("{trigger:?}, {stop:?}: {counts:?} boundaries");
    run_all(cases)
}

/// The leader crashes: no other member is excluded, and all others are soon in one view without it.
fn kill_everywhere(trigger: Trigger) {
    let ran = stop_everywhere(trigger, Stop::Crash);
    for (case, ran) in &ran {
        assert!(ran.excluded.is_empty(), "{case}: {:?} excluded", ran.excluded);
        assert!(ran.converged_after <= WHOLE_AGAIN, "{case}: {:?}", ran.converged_after);
    }
    summarise(&ran);
}

/// The leader comes back after the others gave it up, with what it was about to send.
fn pause_everywhere(trigger: Trigger) {
    let ran = stop_everywhere(trigger, PAUSE);
    for (case, ran) in &ran {
        let others = ran.excluded.iter().filter(|&&node| node != LEADER).count();
        assert_eq!(others, 0, "{case}: {:?} excluded", ran.excluded);
        assert!(ran.excluded.len() <= 1, "{case}: excluded {} times", ran.excluded.len());
    }
    if trigger != Trigger::LeaderLeaves {
        assert!(ran.iter().any(|(_, ran)| ran.excluded == [LEADER]), "it never came back");
    }
    summarise(&ran);
}

fn summarise(ran: &[(Case, Ran)]) {
    let slowest = ran.iter().map(|(_, ran)| ran.converged_after).max();
    let excluded = ran.iter().filter(|(_, ran)| !ran.excluded.is_empty()).count();
    let mut views = BTreeMap::new();
    for (_, ran) in ran {
        *views.entry(ran.view).or_insert(0) += 1;
    }
    println!(
        "  {} runs, in one view after {slowest:?} at the latest, {excluded} with the leader \
         excluded, last views {views:?}",
        ran.len()
    );
}

#[test]
fn the_leader_dies_at_each_message_of_a_crash() {
    kill_everywhere(Trigger::Crash);
}

#[test]
fn the_leader_pauses_at_each_message_of_a_crash() {
    pause_everywhere(Trigger::Crash);
}

#[test]
fn the_leader_dies_at_each_message_of_a_join() {
    kill_everywhere(Trigger::Join);
}

#[test]
fn the_leader_pauses_at_each_message_of_a_join() {
    pause_everywhere(Trigger::Join);
}

#[test]
fn the_leader_dies_at_each_message_of_a_leave() {
    kill_everywhere(Trigger::Leave);
}

#[test]
fn the_leader_pauses_at_each_message_of_a_leave() {
    pause_everywhere(Trigger::Leave);
}

#[test]
fn the_leader_dies_at_each_message_of_its_own_leave() {
    kill_everywhere(Trigger::LeaderLeaves);
}

#[test]
fn the_leader_pauses_at_each_message_of_its_own_leave() {
    pause_everywhere(Trigger::LeaderLeaves);
}
