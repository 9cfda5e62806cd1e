use std::path::Path;
use std::sync::Arc;
use std::time::Instant as WallClock;

use paceline_sim::Codec;

use super::figures::{Measured, figures};
use super::tracks::Tracks;
use super::{Measure, Members};
use crate::LabError;
use crate::chain::{Ledger, summed_up};
use crate::progress::Progress;
use crate::run::{Metric, RunResult};
use crate::scenario::Scenario;
use crate::world::{Outcome, Simulated, run_on_loopback, simulate_traced};

/// Runs a group scenario in the simulator, and writes a trace of it to a file if there is one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let members = Members::read(scenario)?;
    let started = WallClock::now();
    let check_wire = members.broadcast().plan().check_wire;
    let codec = if check_wire { Codec::CheckWire } else { Codec::Typed };
    let simulated = Simulated { scenario, seed, codec, trace };
    let mut tracks = Tracks::default();
    let (ledger, outcome) = simulate_traced(&members, &simulated, &mut tracks, progress)?;
    let mut result = result(&members, scenario, seed, &ledger, &outcome);
    if members.measure == Measure::Repair {
        result.drawings = tracks.drawings(scenario);
    }
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Runs a group scenario on loopback sockets: with a process for each node if there is a program
/// to start, else all in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let members = Arc::new(Members::read(&scenario)?);
    let started = WallClock::now();
    let (ledger, outcome) = run_on_loopback(&members, &scenario, seed, program, progress)?;
    let mut result = result(&members, &scenario, seed, &ledger, &outcome);
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

fn result(
    members: &Members,
    scenario: &Scenario,
    seed: u64,
    ledger: &Ledger,
    outcome: &Outcome,
) -> RunResult {
    let mut result = summed_up(members.broadcast(), ledger, outcome);
    let views = ledger.nodes().iter().flat_map(|node| &node.views).map(|view| view.view).max();
    result.summary.push(Metric::new("views", views.unwrap_or(0) as f64, ""));
    let excluded: u64 = ledger.nodes().iter().map(|node| node.excluded).sum();
    result.summary.push(Metric::new("members_excluded", excluded as f64, ""));
    let silence = ledger.attendants().map(|node| node.silence_nanos_max).max().unwrap_or(0);
    result.summary.push(Metric::new("silence_max", silence as f64 / 1e9, "s"));
    let measured = Measured { members, scenario, ledger };
    let figures = figures(&measured).into_iter();
    result.figures = figures.map(|f| f.with_run(&scenario.name, seed, &result)).collect();
    result
}
