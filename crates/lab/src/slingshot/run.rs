use std::fmt::{Debug, Display};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant as WallClock};

use paceline_net::Hosted;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::slingshot::baselines::ack::Ack;
use paceline_proto::slingshot::baselines::nak::Nak;
use paceline_proto::slingshot::baselines::srm::Srm;
use paceline_sim::Codec;

use super::figures::{figures_of_run, figures_of_sockets};
use super::peer::Timely;
use super::watched::Watched;
use super::{Ledger, Measures, Settings, Setup, Timed, Watch};
use crate::LabError;
use crate::progress::Progress;
use crate::report::{Axis, Plot};
use crate::run::{Metric, RunResult};
use crate::scenario::Scenario;
use crate::world::{
    Launch, Outcome, Prepared, Service, Simulated, run_on_loopback, run_processes, simulate_traced,
};

/// Runs a scenario of multicast in time in the simulator, and writes a trace of it to a file if
/// there is one.
pub fn run(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let settings = Settings::read(scenario)?;
    let (measures, mut result) = measured(&settings, scenario, seed, trace, progress)?;
    let figures = figures_of_run(scenario, &settings, &measures)?.into_iter();
    result.figures = figures.map(|f| f.with_run(&scenario.name, seed, &result)).collect();
    Ok(result)
}

/// The same, with what was measured and without figures. Of a search for the throughput there is
/// a trace of the last run.
pub(super) fn measured(
    settings: &Settings,
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<(Measures, RunResult), LabError> {
    match &settings.search {
        Some(search) => search.run(scenario, |settings, probe| {
            measured_once(settings, &probe, seed, trace, progress)
        }),
        None => measured_once(settings, scenario, seed, trace, progress),
    }
}

fn measured_once(
    settings: &Settings,
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<(Measures, RunResult), LabError> {
    let codec = if settings.check_wire { Codec::CheckWire } else { Codec::Typed };
    let simulated = Simulated { scenario, seed, codec, trace };
    match &settings.setup {
        Setup::Slingshot(shared) => simulate::<Slingshot>(settings, shared, &simulated, progress),
        Setup::Srm(shared) => simulate::<Srm>(settings, shared, &simulated, progress),
        Setup::Nak(shared) => simulate::<Nak>(settings, shared, &simulated, progress),
        Setup::Ack(shared) => simulate::<Ack>(settings, shared, &simulated, progress),
    }
}

fn simulate<P>(
    settings: &Settings,
    shared: &P::Shared,
    simulated: &Simulated<'_>,
    progress: &dyn Progress,
) -> Result<(Measures, RunResult), LabError>
where
    P: Timely<Message: Display, Timer: Debug, Shared: Clone> + Hosted,
{
    let started = WallClock::now();
    let service = Timed::<P>::new(settings.clone(), shared.clone());
    let mut watch = Watch::new(&settings.plan);
    let (ledger, outcome) = simulate_traced(&service, simulated, &mut watch, progress)?;
    let mut measures = Measures::of(&ledger, Some(&watch), watch.overhead());
    measures.extra = watch.extra();
    check_promises(&ledger)?;
    let mut result = summed_up(settings, &ledger, &measures, &outcome);
    let seen = [
        Metric::new("overhead_bytes", watch.overhead_bytes(), ""),
        Metric::new("other_messages", watch.others_sent as f64, ""),
    ];
    let place = result.summary.iter().position(|metric| metric.metric == "overhead");
    let place = place.map_or(0, |place| place + 1);
    result.summary.splice(place..place, seen);
    result.wall_s = started.elapsed().as_secs_f64();
    Ok((measures, result))
}

/// Runs a scenario of multicast in time on loopback sockets: with a process for each node if there
/// is a program to start, else all in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    let on = Sockets { scenario: &scenario, seed, hosts: Hosts::Loopback(program), progress };
    on.run_any()
}

/// Runs a scenario of multicast in time with a process for each node, wherever these run.
pub(crate) fn run_on_processes(
    scenario: &Arc<Scenario>,
    seed: u64,
    launch: &Launch<'_>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    Sockets { scenario, seed, hosts: Hosts::Launched(launch), progress }.run_any()
}

/// Where the nodes of a run on sockets are.
#[derive(Clone, Copy)]
enum Hosts<'a> {
    /// On loopback, in this process or in one each.
    Loopback(Option<&'a Path>),
    Launched(&'a Launch<'a>),
}

/// How a scenario runs on sockets.
struct Sockets<'a> {
    scenario: &'a Arc<Scenario>,
    seed: u64,
    hosts: Hosts<'a>,
    progress: &'a dyn Progress,
}

impl Sockets<'_> {
    fn run_any(&self) -> Result<RunResult, LabError> {
        let settings = Settings::read(self.scenario)?;
        let (measures, mut result) = match &settings.search {
            Some(search) => search.run(self.scenario, |settings, probe| {
                Sockets { scenario: &Arc::new(probe), ..*self }.run_once(settings.clone())
            })?,
            None => self.run_once(settings.clone())?,
        };
        if !result.summary.iter().any(|metric| metric.metric == "stopped_early") {
            let figures = figures_of_sockets(self.scenario, &settings, &measures)?.into_iter();
            let name = &self.scenario.name;
            result.figures = figures.map(|f| f.with_run(name, self.seed, &result)).collect();
        }
        Ok(result)
    }

    fn run_once(&self, settings: Settings) -> Result<(Measures, RunResult), LabError> {
        match settings.setup.clone() {
            Setup::Slingshot(shared) => self.run::<Watched<Slingshot>>(settings, shared),
            Setup::Srm(shared) => self.run::<Watched<Srm>>(settings, shared),
            Setup::Nak(shared) => self.run::<Watched<Nak>>(settings, shared),
            Setup::Ack(shared) => self.run::<Watched<Ack>>(settings, shared),
        }
    }

    fn run<P>(
        &self,
        settings: Settings,
        shared: P::Shared,
    ) -> Result<(Measures, RunResult), LabError>
    where
        P: Timely + Hosted,
    {
        let started = WallClock::now();
        let nodes = settings.plan.nodes;
        let service = Arc::new(Timed::<P>::new(settings, shared));
        let Sockets { scenario, seed, hosts, progress } = *self;
        let (ledger, outcome) = match hosts {
            Hosts::Loopback(program) => {
                run_on_loopback(&service, scenario, seed, program, progress)?
            }
            Hosts::Launched(launch) => run_processes(&*service, scenario, seed, launch, progress)?,
        };
        // Packets are not seen here: what members count stands for them.
        let repairs = P::repairs_sent(service.shared(), &outcome.counters, nodes) as f64;
        let overhead = repairs / (repairs + ledger.direct().len() as f64);
        let measures = Measures::of(&ledger, None, overhead);
        // A bench prints how many packets were corrupt beside what else it measured.
        if !matches!(hosts, Hosts::Launched(_)) || ledger.corrupt == 0 {
            check_promises(&ledger)?;
        }
        let mut result = summed_up(service.settings(), &ledger, &measures, &outcome);
        result.wall_s = started.elapsed().as_secs_f64();
        Ok((measures, result))
    }
}

/// Runs one node of such a scenario as a parent process says.
pub fn serve(prepared: Prepared) -> Result<(), LabError> {
    let settings = match Settings::read(prepared.scenario()) {
        Ok(settings) => settings,
        Err(error) => return prepared.serve::<Timed<Watched<Slingshot>>>(Err(error)),
    };
    match settings.setup.clone() {
        Setup::Slingshot(shared) => {
            prepared.serve(Ok(Timed::<Watched<Slingshot>>::new(settings, shared)))
        }
        Setup::Srm(shared) => prepared.serve(Ok(Timed::<Watched<Srm>>::new(settings, shared))),
        Setup::Nak(shared) => prepared.serve(Ok(Timed::<Watched<Nak>>::new(settings, shared))),
        Setup::Ack(shared) => prepared.serve(Ok(Timed::<Watched<Ack>>::new(settings, shared))),
    }
}

/// An error if a promise was broken.
fn check_promises(ledger: &Ledger) -> Result<(), LabError> {
    match &ledger.broken {
        Some(problem) => Err(LabError::Run(problem.clone())),
        None => Ok(()),
    }
}

fn summed_up(
    settings: &Settings,
    ledger: &Ledger,
    measures: &Measures,
    outcome: &Outcome,
) -> RunResult {
    let direct = ledger.direct();
    let latency = |share: f64| direct.value_at_quantile(share) as f64 / 1e6;
    let within = |ms| measures.recovered_within(Duration::from_millis(ms));
    let (count, ms) = (|n: usize| n as f64, "ms");
    let mut summary = vec![
        Metric::new("packets_sent", settings.plan.packets as f64, ""),
        Metric::new("packets_judged", measures.pairs as f64, ""),
        Metric::new("packets_lost", measures.lost as f64, ""),
        Metric::new("packets_recovered", count(measures.recovered_ms.len()), ""),
        Metric::new("packets_pulled", count(measures.pulled_ms.len()), ""),
        Metric::new("packets_reported_lost", measures.reported as f64, ""),
        Metric::new("packets_untold", measures.untold as f64, ""),
        Metric::new("packets_corrupt", ledger.corrupt as f64, ""),
        Metric::new("packets_late", ledger.late as f64, ""),
        Metric::new("recovered", measures.recovered(), ""),
        Metric::new("recovered_within_10ms", within(10), ""),
        Metric::new("recovery_mean", measures.mean_ms(), ms),
        Metric::new("recovery_p50", measures.percentile_ms(0.5), ms),
        Metric::new("recovery_p99", measures.percentile_ms(0.99), ms),
        Metric::new("recovered_93_percent_by", measures.time_until_ms(0.93), ms),
        Metric::new("recovered_97_percent_by", measures.time_until_ms(0.97), ms),
        Metric::new("back", measures.back(), ""),
        Metric::new("back_mean", measures.back_mean_ms(), ms),
        Metric::new("back_50_percent_by", measures.time_until_back_ms(0.5), ms),
        Metric::new("back_97_percent_by", measures.time_until_back_ms(0.97), ms),
        Metric::new("back_99_percent_by", measures.time_until_back_ms(0.99), ms),
        Metric::new("overhead", measures.overhead, ""),
        Metric::new("data_latency_mean", ledger.direct_mean_nanos() / 1e6, ms),
        Metric::new("data_latency_p50", latency(0.5), ms),
        Metric::new("data_latency_p99", latency(0.99), ms),
    ];
    if let Some(predicted) = settings.predicted() {
        summary.push(Metric::new("predicted_recovered", predicted.recovered(), ""));
        let mean = predicted.mean().as_secs_f64() * 1e3;
        summary.push(Metric::new("predicted_recovery_mean", mean, ms));
    }
    if let Some(cpu) = outcome.cpu {
        let of_run = cpu.as_secs_f64() / outcome.ended.as_secs_f64();
        summary.push(Metric::new("processor_time", of_run, "cores"));
    }
    summary.push(Metric::new("ended", outcome.ended.as_secs_f64(), "s"));
    if let Some(bytes) = outcome.driver_bytes_per_node {
        summary.push(Metric::new("driver_bytes_per_node", bytes, "B"));
    }
    if outcome.is_stopped {
        summary.push(Metric::new("stopped_early", 1.0, ""));
    }
    let counters = outcome.counters.sorted();
    summary.extend(counters.into_iter().map(|(name, n)| Metric::new(name, n as f64, "")));
    let drawings = match measures.recovered_ms.len() + measures.pulled_ms.len() {
        0 => Vec::new(),
        _ => vec![recovery_times("Time of recovery", &[("", measures)])],
    };
    RunResult {
        summary,
        drawings,
        events: outcome.events,
        digest: outcome.digest.clone(),
        deliveries: (!outcome.is_stopped).then(|| ledger.deliveries()),
        ..RunResult::default()
    }
}

/// Which share of all that was lost is back by when.
pub(super) fn recovery_times(title: &str, runs: &[(&str, &Measures)]) -> Plot {
    const POINTS: usize = 300;
    let x = Axis::new("after it would have arrived", "ms").with_log();
    let y = Axis::new("of all that was lost", "").with_range(0.0, 1.0);
    runs.iter().fold(Plot::new(title, x, y), |plot, (name, measures)| {
        let back = measures.back_ms();
        let step = back.len().div_ceil(POINTS).max(1);
        let shares = back.iter().zip(1u32..).step_by(step);
        let lost = measures.lost as f64;
        // What took no time has no place on a logarithmic axis.
        plot.with_line(*name, shares.map(|(ms, n)| (ms.max(0.01), f64::from(n) / lost)))
    })
}
