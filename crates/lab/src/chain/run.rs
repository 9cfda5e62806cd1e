use std::path::Path;
use std::sync::Arc;
use std::time::Instant as WallClock;

use paceline_proto::chain::Topology;
use paceline_sim::Codec;

use super::compare::Compared;
use super::figures::{Measured, figures};
use super::ring::Hops;
use super::{Broadcast, Ledger, Measure};
use crate::LabError;
use crate::progress::Progress;
use crate::run::{Metric, RunResult};
use crate::scenario::Scenario;
use crate::world::{Outcome, Simulated, run_on_loopback, simulate_traced};

/// Runs a broadcast scenario in the simulator, and writes a trace of it to a file if there is one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let broadcast = Broadcast::read(scenario)?;
    let started = WallClock::now();
    let (ledger, outcome, hops) = simulate_one(&broadcast, scenario, seed, trace, progress)?;
    let mut baseline = None;
    if broadcast.plan().measure == Measure::Gain {
        let direct = broadcast.with_topology(Topology::Unicast);
        let (ledger, outcome, _) = simulate_one(&direct, scenario, seed, None, progress)?;
        baseline = Some(ledger.bytes_per_node_per_second(outcome.ended));
    }
    let compared = Compared::runs(&broadcast, scenario, seed, progress)?;
    let measured = Measured {
        ledger: &ledger,
        outcome: &outcome,
        hops: Some(&hops),
        baseline,
        compared: &compared,
    };
    let mut result = result(&broadcast, scenario, seed, &measured);
    result.drawings = hops.drawings(scenario.topology.nodes);
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Runs a broadcast scenario on loopback sockets: with a process for each node if there is a
/// program to start, else all in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let broadcast = Arc::new(Broadcast::read(&scenario)?);
    let problem = match broadcast.plan().measure {
        Measure::Gain | Measure::Incast | Measure::Latency => {
            "these figures compare simulated runs"
        }
        Measure::Rounds => "figures = \"rounds\" counts in times of one block on a simulated link",
        Measure::Transmissions => "figures = \"transmissions\" counts what only the simulator sees",
        Measure::Fairness => "figures = \"fairness\" judges shares of links, and loopback has none",
        Measure::Deliveries | Measure::Throughput | Measure::Progress => "",
    };
    if !problem.is_empty() {
        return Err(LabError::Unsupported(format!("{problem}; use --on sim")));
    }
    let started = WallClock::now();
    let (ledger, outcome) = run_on_loopback(&broadcast, &scenario, seed, program, progress)?;
    let measured =
        Measured { ledger: &ledger, outcome: &outcome, hops: None, baseline: None, compared: &[] };
    let mut result = result(&broadcast, &scenario, seed, &measured);
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

pub(super) fn simulate_one(
    broadcast: &Broadcast,
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<(Ledger, Outcome, Hops), LabError> {
    let codec = if broadcast.plan().check_wire { Codec::CheckWire } else { Codec::Typed };
    let simulated = Simulated { scenario, seed, codec, trace };
    let mut hops = Hops::default();
    let spread = (!broadcast.plan().spread.is_zero()).then(|| broadcast.spread_by(seed));
    let broadcast = spread.as_ref().unwrap_or(broadcast);
    let (ledger, outcome) = simulate_traced(broadcast, &simulated, &mut hops, progress)?;
    Ok((ledger, outcome, hops))
}

/// What a run gives, in whichever world it ran.
fn result(
    broadcast: &Broadcast,
    scenario: &Scenario,
    seed: u64,
    measured: &Measured<'_>,
) -> RunResult {
    let mut result = summed_up(broadcast, measured.ledger, measured.outcome);
    let figures = figures(broadcast, scenario, measured).into_iter();
    result.figures = figures.map(|f| f.with_run(&scenario.name, seed, &result)).collect();
    result
}

/// What a run gives, but for its figures.
pub(crate) fn summed_up(broadcast: &Broadcast, ledger: &Ledger, outcome: &Outcome) -> RunResult {
    let mut result = RunResult {
        summary: summary(broadcast, ledger, outcome),
        series: ledger.series(),
        events: outcome.events,
        digest: outcome.digest.clone(),
        deliveries: Some(ledger.deliveries_digest()),
        starved: ledger.starved().iter().map(|node| node.0).collect(),
        ..RunResult::default()
    };
    let counters = outcome.counters.sorted();
    result.summary.extend(counters.into_iter().map(|(name, n)| Metric::new(name, n as f64, "")));
    result
}

/// The ledger's summary. Only a run that sends so many messages and no more can miss one: in a run
/// without end, what was not delivered at the end was on its way.
fn summary(broadcast: &Broadcast, ledger: &Ledger, outcome: &Outcome) -> Vec<Metric> {
    let mut summary = ledger.summary(outcome.ended);
    if broadcast.plan().messages.is_none() || outcome.is_stopped {
        let missing = summary.iter_mut().find(|metric| metric.metric == "messages_missing");
        missing.into_iter().for_each(|metric| metric.metric = "messages_in_flight".into());
    }
    if let Some(bytes) = outcome.driver_bytes_per_node {
        summary.push(Metric::new("driver_bytes_per_node", bytes, "B"));
    }
    if outcome.is_stopped {
        summary.push(Metric::new("stopped_early", 1.0, ""));
    }
    summary
}
