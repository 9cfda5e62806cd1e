use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use paceline_sim::Codec;

use super::figures::figures_of_run;
use super::ledger::{Flow, Ledger};
use super::report::rates_plot;
use super::windows::{Held, Oracles, Steadiness};
use super::{Fetching, Settings};
use crate::LabError;
use crate::progress::Progress;
use crate::run::{Metric, RunResult, Sample};
use crate::scenario::Scenario;
use crate::world::{Outcome, Prepared, Simulated, run_on_loopback, simulate_traced};

/// What a run gave, before it is summed up.
pub(super) struct Measured {
    pub(super) settings: Settings,
    pub(super) ledger: Ledger,
    pub(super) outcome: Outcome,
    /// Its windows, each beside the oracles.
    pub(super) held: Vec<Held>,
}

/// Runs a scenario of named data in the simulator, and writes a trace of it to a file if there is
/// one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let started = WallClock::now();
    let measured = measured(scenario, seed, trace, progress)?;
    let mut result = summed_up(&measured)?;
    let figures = figures_of_run(scenario, &measured)?.into_iter();
    result.figures = figures.map(|f| f.with_run(&scenario.name, seed, &result)).collect();
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

/// The same, not summed up.
pub(super) fn measured(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Measured, LabError> {
    let service = Fetching::new(Settings::read(scenario, seed)?)?;
    let codec = if service.settings().check_wire { Codec::CheckWire } else { Codec::Typed };
    let simulated = Simulated { scenario, seed, codec, trace };
    let (ledger, outcome) = simulate_traced(&service, &simulated, &mut (), progress)?;
    judged(&service, ledger, outcome)
}

fn judged(service: &Fetching, ledger: Ledger, outcome: Outcome) -> Result<Measured, LabError> {
    let settings = service.settings().clone();
    if let Some(problem) = &ledger.broken {
        return Err(LabError::Run(problem.clone()));
    }
    let mut held = Vec::new();
    // Flows that end when they are done have no windows that a plan knows.
    if settings.plan.is_open_ended() && !outcome.is_stopped {
        let oracles = Oracles::new(&settings)?;
        for window in oracles.windows() {
            held.push(oracles.hold(&ledger, window)?);
        }
    }
    Ok(Measured { settings, ledger, outcome, held })
}

/// Runs a scenario of named data on loopback sockets: with a process for each node if there is a
/// program to start, else all in this one. Delays of links are the simulator's alone.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let started = WallClock::now();
    let settings = Settings::read(&scenario, seed)?.on_sockets();
    let service = Arc::new(Fetching::new(settings)?);
    let (ledger, outcome) = run_on_loopback(&service, &scenario, seed, program, progress)?;
    let mut result = summed_up(&judged(&service, ledger, outcome)?)?;
    result.wall_s = started.elapsed().as_secs_f64();
    Ok(result)
}

/// Runs one node of such a scenario as a parent process says.
pub fn serve(prepared: Prepared) -> Result<(), LabError> {
    let settings = Settings::read(prepared.scenario(), prepared.seed());
    prepared.serve(settings.and_then(|settings| Fetching::new(settings.on_sockets())))
}

fn summed_up(measured: &Measured) -> Result<RunResult, LabError> {
    let Measured { settings, ledger, outcome, held } = measured;
    let ended = Duration::from_nanos(outcome.ended.as_nanos());
    let flows = ledger.flows();
    let count = |f: &dyn Fn(&Flow) -> u64| flows.iter().map(f).sum::<u64>() as f64;
    let mut summary = vec![
        Metric::new("flows", flows.len() as f64, ""),
        Metric::new("flows_whole", count(&|flow| u64::from(flow.is_whole)), ""),
        Metric::new("segments", count(&|flow| flow.segments), ""),
    ];
    let mbit = |rate: f64| rate / 1e6;
    for (number, held) in (1..).zip(held) {
        let Held { window, .. } = held;
        let name = |flow: usize, what: &str| format!("window_{number}_flow_{}_{what}", flow + 1);
        let (from, until) = (window.from.as_secs_f64(), window.until.as_secs_f64());
        summary.push(Metric::new(format!("window_{number}_from"), from, "s"));
        summary.push(Metric::new(format!("window_{number}_until"), until, "s"));
        let (primary, secondary) = (&held.dual.primary, held.dual.secondary_totals());
        for (place, &flow) in window.flows.iter().enumerate() {
            let [own_primary, own_secondary] = held.measured[place];
            let rows = [
                ("primary", own_primary),
                ("secondary", own_secondary),
                ("oracle_primary", primary[place]),
                ("oracle_secondary", secondary[place]),
                ("max_min", held.max_min[place]),
            ];
            summary.extend(
                rows.map(|(what, rate)| Metric::new(name(flow, what), mbit(rate), "Mbit/s")),
            );
        }
        let distances =
            [("from_oracle", held.distance()), ("from_max_min", held.distance_max_min())];
        summary.extend(
            distances.map(|(what, distance)| {
                Metric::new(format!("window_{number}_{what}"), distance, "")
            }),
        );
        let Steadiness { parts, near, changes } = held.steadiness;
        if parts > 0 {
            let near = f64::from(near) / f64::from(parts);
            let steadiness = [("near_fixed_point", near), ("changes", f64::from(changes))];
            summary.extend(
                steadiness.map(|(what, n)| Metric::new(format!("window_{number}_{what}"), n, "")),
            );
        }
    }
    let goodputs = flows.iter().filter_map(|flow| flow.goodput(ended));
    let goodput = goodputs.clone().sum::<f64>() / goodputs.count().max(1) as f64;
    summary.push(Metric::new("goodput_mean", mbit(goodput), "Mbit/s"));
    let took: Vec<f64> = flows.iter().filter_map(|flow| Some(flow.took()?.as_secs_f64())).collect();
    if !took.is_empty() {
        let mean = took.iter().sum::<f64>() / took.len() as f64;
        summary.push(Metric::new("took_mean", mean, "s"));
        summary.push(Metric::new("took_max", took.iter().copied().fold(0.0, f64::max), "s"));
    }
    if let Some(cpu) = outcome.cpu {
        let of_run = cpu.as_secs_f64() / outcome.ended.as_secs_f64();
        summary.push(Metric::new("processor_time", of_run, "cores"));
    }
    summary.push(Metric::new("ended", ended.as_secs_f64(), "s"));
    if outcome.is_stopped {
        summary.push(Metric::new("stopped_early", 1.0, ""));
    }
    let counters = outcome.counters.sorted();
    summary.extend(counters.into_iter().map(|(name, n)| Metric::new(name, n as f64, "")));
    let is_stopped = outcome.is_stopped;
    Ok(RunResult {
        summary,
        series: series(settings, ledger, ended),
        drawings: vec![rates_plot("Rates of flows", settings, ledger, ended)],
        events: outcome.events,
        digest: outcome.digest.clone(),
        deliveries: (!is_stopped).then(|| ledger.deliveries()),
        ..RunResult::default()
    })
}

/// Points of a series.
const POINTS: u32 = 400;

/// Rates of the flows over the run, or the time that each took.
fn series(settings: &Settings, ledger: &Ledger, ended: Duration) -> Vec<Sample> {
    let node = |flow: usize| {
        let consumer = settings.plan.steps[flow].consumer;
        settings.graph.consumers()[consumer].node as u32
    };
    let mut samples = Vec::new();
    let flows = || ledger.flows().iter().enumerate();
    if settings.plan.steps.len() <= 16 {
        let step = (ended / POINTS).max(super::ledger::BIN * 5);
        for place in 0..POINTS {
            let (from, until) = (step * place, step * (place + 1));
            if until > ended {
                break;
            }
            for (flow, held) in flows() {
                let classes = held.rates(from, until);
                for (class, rate) in ["primary", "secondary"].into_iter().zip(classes) {
                    let metric = format!("flow_{}_{class}_mbit_per_s", flow + 1);
                    let sample =
                        Sample::at_node(until.as_secs_f64(), node(flow), metric, rate / 1e6);
                    samples.push(sample);
                }
            }
        }
    }
    for (flow, held) in flows() {
        if let Some((took, ended)) = held.took().zip(held.ended()) {
            let metric = format!("flow_{}_took_s", flow + 1);
            let at = ended.as_secs_f64();
            samples.push(Sample::at_node(at, node(flow), metric, took.as_secs_f64()));
        }
    }
    samples.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    samples
}
