use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use paceline_sim::Codec;

use super::figures::figures_of_run;
use super::ledger::Ledger;
use super::report::drawings;
use super::watch::Watch;
use super::{Settings, Walking, exact};
use crate::LabError;
use crate::progress::Progress;
use crate::run::{Metric, RunResult, Sample};
use crate::scenario::Scenario;
use crate::world::{
    Launch, Outcome, Prepared, Simulated, run_on_loopback, run_processes, simulate_traced,
};

/// What a run gave, before it is summed up.
pub(super) struct Measured {
    pub(super) settings: Settings,
    pub(super) ledger: Ledger,
    /// What only the simulator saw.
    pub(super) watch: Option<Watch>,
    pub(super) outcome: Outcome,
}

impl Measured {
    /// Mean time that a walker is under way, by Little's law: the walkers in queues, with workers
    /// and between servers at a time, over the walkers generated in that time. It is the delay with
    /// which a source learns what its rate does.
    pub(super) fn walk_time(&self) -> Duration {
        let Measured { settings, ledger, .. } = self;
        let homes = ledger.homes().iter().zip(settings.owners.servers());
        let walker_seconds = homes.map(|(home, &node)| {
            let served = home.visits as f64 * settings.config_of(node).service.as_secs_f64();
            let sent = (home.departed + home.returned) as f64 * settings.delay.as_secs_f64();
            home.queue_area + served + sent
        });
        let generated: u64 = ledger.homes().iter().map(|home| home.generated).sum();
        Duration::from_secs_f64(walker_seconds.sum::<f64>() / generated.max(1) as f64)
    }
}

impl Measured {
    /// The share of the run in which a server's worker has nothing to serve; none where hops take
    /// what they take.
    pub(super) fn idle(&self, server: usize) -> Option<f64> {
        let node = *self.settings.owners.servers().get(server)?;
        let service = self.settings.config_of(node).service.as_secs_f64();
        let visits = *self.watch.as_ref()?.visits.get(server)? as f64;
        let homes = self.ledger.homes().iter();
        let time = homes.filter_map(super::Home::ended_s).fold(0.0, f64::max);
        (service > 0.0 && time > 0.0).then(|| 1.0 - visits * service / time)
    }
}

/// Runs a scenario of walks in the simulator, and writes a trace of it to a file if there is one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let started = WallClock::now();
    let measured = measured(scenario, seed, trace, progress)?;
    Ok(result_of(&measured, (&scenario.name, seed), started))
}

/// The same, not summed up.
pub(super) fn measured(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Measured, LabError> {
    let service = Walking::new(Settings::read(scenario, seed)?);
    let settings = service.settings().clone();
    let codec = if settings.check_wire { Codec::CheckWire } else { Codec::Typed };
    let simulated = Simulated { scenario, seed, codec, trace };
    let mut watch = Watch::new(settings.owners.servers().len());
    let (ledger, outcome) = simulate_traced(&service, &simulated, &mut watch, progress)?;
    judged(settings, ledger, Some(watch), outcome)
}

fn judged(
    settings: Settings,
    ledger: Ledger,
    watch: Option<Watch>,
    outcome: Outcome,
) -> Result<Measured, LabError> {
    if let Some(problem) = &ledger.broken {
        return Err(LabError::Run(problem.clone()));
    }
    if !outcome.is_stopped && !ledger.is_done() {
        let late = "not all walks were done when the scenario's `duration` was over";
        return Err(LabError::Run(late.to_owned()));
    }
    Ok(Measured { settings, ledger, watch, outcome })
}

/// Runs a scenario of walks on loopback sockets: with a process for each node if there is a program
/// to start, else all in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let started = WallClock::now();
    let service = Arc::new(Walking::new(Settings::read(&scenario, seed)?));
    let (ledger, outcome) = run_on_loopback(&service, &scenario, seed, program, progress)?;
    let measured = judged(service.settings().clone(), ledger, None, outcome)?;
    Ok(result_of(&measured, (&scenario.name, seed), started))
}

/// Runs a scenario of walks with a process for each node, started like this: what the homes heard,
/// and how it went.
pub(crate) fn run_processes_of(
    scenario: &Arc<Scenario>,
    seed: u64,
    launch: &Launch<'_>,
    progress: &dyn Progress,
) -> Result<(Settings, Ledger, Outcome), LabError> {
    let service = Walking::new(Settings::read(scenario, seed)?);
    let (ledger, outcome) = run_processes(&service, scenario, seed, launch, progress)?;
    let Measured { settings, ledger, outcome, .. } =
        judged(service.settings().clone(), ledger, None, outcome)?;
    Ok((settings, ledger, outcome))
}

/// Runs one node of such a scenario as a parent process says.
pub fn serve(prepared: Prepared) -> Result<(), LabError> {
    let settings = Settings::read(prepared.scenario(), prepared.seed());
    prepared.serve(settings.map(Walking::new))
}

/// A run of this scenario and seed, which began then.
fn result_of(measured: &Measured, (name, seed): (&str, u64), started: WallClock) -> RunResult {
    let mut result = summed_up(measured);
    let figures = figures_of_run(measured).into_iter();
    result.figures = figures.map(|f| f.with_run(name, seed, &result)).collect();
    result.wall_s = started.elapsed().as_secs_f64();
    result
}

fn summed_up(measured: &Measured) -> RunResult {
    let Measured { settings, ledger, watch, outcome } = measured;
    let sum = |f: &dyn Fn(&super::Home) -> u64| ledger.homes().iter().map(f).sum::<u64>() as f64;
    let asked = sum(&|home| home.asked);
    let walks = sum(&|home| home.walks);
    let time = ledger.homes().iter().filter_map(super::Home::ended_s).fold(0.0, f64::max);
    let mut summary = vec![
        Metric::new("walks", walks, ""),
        Metric::new("walks_asked_for", asked, ""),
        Metric::new("additional", sum(&super::Home::additional), ""),
        Metric::new("time", time, "s"),
        Metric::new("mean_hops", sum(&|home| home.hops) / walks, ""),
        Metric::new("crossings_per_walk", sum(&|home| home.departed) / walks, ""),
        Metric::new("direct", sum(&|home| home.direct), ""),
        Metric::new("timeouts", sum(&|home| home.timeouts), ""),
        Metric::new("marked", sum(&|home| home.marked), ""),
    ];
    let is_uniform = settings.kind == paceline_proto::walk::Kind::Uniform;
    if is_uniform {
        let exact = exact::mean_hops(&settings.graph, settings.length);
        summary.push(Metric::new("mean_hops_exact", exact, ""));
    }
    for (node, home) in ledger.homes().iter().enumerate() {
        summary.push(Metric::new(format!("queue_mean_{node}"), home.queue_mean(), ""));
        summary.push(Metric::new(format!("dropped_{node}"), home.dropped as f64, ""));
        summary.push(Metric::new(format!("visits_{node}"), home.visits as f64, ""));
        if let Some(idle) = measured.idle(node) {
            summary.push(Metric::new(format!("idle_{node}"), idle, ""));
        }
    }
    if let Some(watch) = watch {
        summary.push(Metric::new("messages_per_walk", watch.messages as f64 / walks, ""));
        let walk_time = measured.walk_time();
        summary.push(Metric::new("walk_time", walk_time.as_secs_f64() * 1e3, "ms"));
        for pair in watch.rates.synchronisation(walk_time).into_iter().flat_map(|all| all.pairs) {
            let (one, other) = pair.servers;
            summary.push(Metric::new(format!("sync_{one}_{other}"), pair.correlation, ""));
        }
    }
    if let Some(cpu) = outcome.cpu {
        summary.push(Metric::new("processor_time", cpu.as_secs_f64(), "s"));
    }
    let ended = Duration::from_nanos(outcome.ended.as_nanos());
    summary.push(Metric::new("ended", ended.as_secs_f64(), "s"));
    if outcome.is_stopped {
        summary.push(Metric::new("stopped_early", 1.0, ""));
    }
    let counters = outcome.counters.sorted();
    summary.extend(counters.into_iter().map(|(name, n)| Metric::new(name, n as f64, "")));
    // Where walks are regenerated, which of them finish is a matter of timing.
    let is_exact = settings.method.is_exact();
    RunResult {
        summary,
        series: series(watch.as_ref()),
        drawings: drawings(measured),
        events: outcome.events,
        digest: outcome.digest.clone(),
        deliveries: (is_exact && !outcome.is_stopped).then(|| ledger.deliveries()),
        ..RunResult::default()
    }
}

/// Queues and walkers generated, over the run.
fn series(watch: Option<&Watch>) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (node, seen) in watch.iter().flat_map(|watch| &watch.samples).enumerate() {
        for sample in seen {
            let at = sample.at.as_secs_f64();
            let mut add = |metric: &'static str, value: f64| {
                samples.push(Sample::at_node(at, node as u32, metric, value));
            };
            add("queue_walkers", sample.queue as f64);
            add("generated_walkers", sample.generated as f64);
        }
    }
    samples.sort_by(|a, b| a.time_s.total_cmp(&b.time_s));
    samples
}
