//! Crashes within a handler call: some of its messages have left, the others have not.

use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, Rng};
use paceline_sim::Fault;

/// Counts crashes within a handler call.
pub const CRASHED_AMID: &str = "sim_crashed_amid";

/// Where no restart follows, how long a node has to come to such a call.
const WITHIN: Duration = Duration::from_millis(500);

/// Crashes of one to three of these nodes before `until`, each with its restart.
pub fn draw_crashes(rng: &mut Rng, nodes: &[NodeId], until: Instant) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..(1 + rng.below(3)).min(nodes.len() as u32) {
        let node = nodes[rng.below(nodes.len() as u32) as usize];
        let at = until.as_nanos() as f64 * 0.8 * rng.unit();
        let again = at + (until.as_nanos() as f64 - at) * rng.unit();
        faults.push((Instant::from_nanos(at as u64), Fault::Crash(node)));
        faults.push((Instant::from_nanos(again as u64), Fault::Restart(node)));
    }
    faults
}

/// The same faults, but each node that crashes does so within a handler call, after a random number
/// of its messages have left. Without such a call it crashes just before its restart.
pub fn crash_amid(rng: &mut Rng, faults: Vec<(Instant, Fault)>) -> Vec<(Instant, Fault)> {
    let mut stops = Vec::new();
    for (at, fault) in &faults {
        let Fault::Crash(node) = fault else {
            stops.push((*at, fault.clone()));
            continue;
        };
        let is_restart =
            |(when, fault): &&(Instant, Fault)| *when >= *at && *fault == Fault::Restart(*node);
        let restarts = faults.iter().filter(is_restart).map(|&(when, _)| when).min();
        let latest = restarts.unwrap_or(*at + WITHIN).as_nanos().saturating_sub(1);
        let sends = [0, 1, 2, rng.below(20) as usize][rng.below(4) as usize];
        stops.push((*at, Fault::CrashAmid { node: *node, sends, tells: rng.chance(0.5) }));
        stops.push((Instant::from_nanos(latest).max(*at), Fault::Crash(*node)));
    }
    stops
}
