use std::time::{Duration, Instant as WallClock};

use paceline_lab::LabError;
use paceline_lab::experiment::with_figures;
use paceline_lab::plot::{Axis, Plot};
use paceline_lab::run::{Metric, RunResult, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{
    self, HostedService, Outcome, Prepared, Trial, World, run_on_sockets, simulate,
};
use paceline_proto::slingshot::Slingshot;

use super::figures::{figures_of_run, figures_of_sockets};
use super::peer::Timely;
use super::setup::{Setup, WithProtocol};
use super::watched::Watched;
use super::{Ledger, Measures, Settings, Timed, Watch};
use crate::several::not_hosted;

/// Runs a scenario of multicast in time, in whichever world the trial is for.
pub fn run(trial: &Trial<'_>) -> Result<RunResult, LabError> {
    let settings = Settings::read(trial.scenario)?;
    let (measures, result) = measured(&settings, trial)?;
    let is_stopped = result.summary.iter().any(|metric| metric.metric == "stopped_early");
    let figures = match trial.kind() {
        WorldKind::Sim => figures_of_run(trial.scenario, &settings, &measures)?,
        WorldKind::Sockets if is_stopped => Vec::new(),
        WorldKind::Sockets => figures_of_sockets(trial.scenario, &settings, &measures)?,
    };
    Ok(with_figures(result, trial, figures))
}

/// Runs one node of such a scenario as a parent process says.
pub fn serve(prepared: Prepared) -> Result<(), LabError> {
    struct Serve(Prepared, Settings);
    impl WithProtocol for Serve {
        type Output = Result<(), LabError>;

        fn call<P: Timely>(self, shared: P::Shared) -> Result<(), LabError> {
            let Serve(prepared, settings) = self;
            world::serve(prepared, Ok(Timed::<Watched<P>>::new(settings, shared)))
        }
    }
    let settings = Settings::read(prepared.scenario());
    match settings.map(|settings| settings.on_sockets(prepared.scenario())) {
        Ok(settings) => settings.setup.clone().with(Serve(prepared, settings)),
        Err(error) => world::serve::<Timed<Watched<Slingshot>>>(prepared, Err(error)),
    }
}

/// What a run measured, and what it gives but for figures. Of a search for the throughput there is
/// a trace of the last run.
pub(super) fn measured(
    settings: &Settings,
    trial: &Trial<'_>,
) -> Result<(Measures, RunResult), LabError> {
    match &settings.search {
        Some(search) => search.run(trial.scenario, |settings, probe| {
            measured_once(settings, &Trial { scenario: &probe, ..*trial })
        }),
        None => measured_once(settings, trial),
    }
}

fn measured_once(
    settings: &Settings,
    trial: &Trial<'_>,
) -> Result<(Measures, RunResult), LabError> {
    settings.setup.clone().with(Measure { settings: settings.clone(), trial })
}

struct Measure<'a> {
    settings: Settings,
    trial: &'a Trial<'a>,
}

impl WithProtocol for Measure<'_> {
    type Output = Result<(Measures, RunResult), LabError>;

    fn call<P: Timely>(self, shared: P::Shared) -> Self::Output {
        let Measure { settings, trial } = self;
        let started = WallClock::now();
        let (measures, mut result) = match trial.kind() {
            WorldKind::Sim => simulated(Timed::<P>::new(settings, shared), trial)?,
            WorldKind::Sockets => {
                let settings = settings.on_sockets(trial.scenario);
                on_sockets(Timed::<Watched<P>>::new(settings, shared), trial)?
            }
        };
        result.wall_s = started.elapsed().as_secs_f64();
        Ok((measures, result))
    }
}

fn simulated<P: Timely>(
    service: Timed<P>,
    trial: &Trial<'_>,
) -> Result<(Measures, RunResult), LabError> {
    let mut watch = Watch::new(&service.settings.plan);
    let (service, outcome) = simulate(service, trial, &mut watch)?;
    seen(service, &outcome, &watch)
}

/// What a simulated run measured, and what it gives but for figures.
fn seen<P: Timely>(
    service: Timed<P>,
    outcome: &Outcome,
    watch: &Watch,
) -> Result<(Measures, RunResult), LabError> {
    let Timed { settings, ledger, .. } = service;
    let mut measures = Measures::of(&ledger, Some(watch), watch.overhead());
    measures.extra = watch.extra();
    check_promises(&ledger)?;
    let mut result = run_result(&settings, &ledger, &measures, outcome);
    let seen = [
        Metric::new("overhead_bytes", watch.overhead_bytes(), ""),
        Metric::new("other_messages", watch.others_sent as f64, ""),
    ];
    let place = result.summary.iter().position(|metric| metric.metric == "overhead");
    let place = place.map_or(0, |place| place + 1);
    result.summary.splice(place..place, seen);
    Ok((measures, result))
}

/// Reads the scenario of Slingshot as one of several services on the same nodes.
///
/// # Errors
/// If a key or value is wrong, or the scenario is of a protocol that Slingshot is compared with, or
/// searches for the throughput.
pub fn hosted(scenario: &Scenario, _seed: u64) -> Result<Box<dyn HostedService + '_>, LabError> {
    let settings = Settings::read(scenario)?;
    if settings.search.is_some() {
        let problem = "a search for the throughput runs its service alone";
        return Err(scenario.measure().error("throughput_within", problem, "a fixed rate"));
    }
    let Setup::Slingshot(shared) = settings.setup.clone() else {
        return Err(not_hosted(scenario));
    };
    let watch = Watch::new(&settings.plan);
    let service = Timed::<Slingshot>::new(settings, shared);
    Ok(world::hosted(scenario, service, watch, |service, trial, outcome, watch| {
        let settings = service.settings.clone();
        let (measures, result) = seen(service, &outcome, &watch)?;
        let figures = figures_of_run(trial.scenario, &settings, &measures)?;
        Ok(with_figures(result, trial, figures))
    }))
}

fn on_sockets<P: Timely>(
    service: Timed<P>,
    trial: &Trial<'_>,
) -> Result<(Measures, RunResult), LabError> {
    let (service, outcome) = run_on_sockets(service, trial)?;
    let Timed { settings, ledger, shared, .. } = service;
    // Packets are not seen here: what members count stands for them.
    let repairs = P::repairs_sent(&shared, &outcome.counters, settings.plan.nodes) as f64;
    let overhead = repairs / (repairs + ledger.direct().count() as f64);
    let measures = Measures::of(&ledger, None, overhead);
    // A bench prints how many packets were corrupt beside what else it measured.
    if !matches!(trial.world, World::Processes(_)) || ledger.corrupt == 0 {
        check_promises(&ledger)?;
    }
    let result = run_result(&settings, &ledger, &measures, &outcome);
    Ok((measures, result))
}

/// An error if a promise was broken.
fn check_promises(ledger: &Ledger) -> Result<(), LabError> {
    match &ledger.broken {
        Some(problem) => Err(LabError::Run(problem.clone())),
        None => Ok(()),
    }
}

fn run_result(
    settings: &Settings,
    ledger: &Ledger,
    measures: &Measures,
    outcome: &Outcome,
) -> RunResult {
    let (direct, delays) = (ledger.direct(), ledger.delays());
    let missing = measures.pairs - delays.count();
    let in_10_ms = delays.count_within(Duration::from_millis(10)) as f64 / measures.pairs as f64;
    let within = |ms| measures.recovered_within(Duration::from_millis(ms));
    let (count, ms) = (|n: usize| n as f64, "ms");
    let mut summary = vec![
        Metric::new("packets_sent", settings.plan.packets as f64, ""),
        Metric::new("packets_judged", measures.pairs as f64, ""),
        Metric::new("packets_lost", measures.lost as f64, ""),
        Metric::new("packets_recovered", count(measures.recovered_ms.len()), ""),
        Metric::new("packets_pulled", count(measures.pulled_ms.len()), ""),
        Metric::new("packets_reported_lost", measures.reported as f64, ""),
        Metric::new("packets_untold", measures.unreported as f64, ""),
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
        Metric::new("data_latency_mean", direct.mean_nanos() / 1e6, ms),
        Metric::new("data_latency_p50", direct.quantile_ms(0.5), ms),
        Metric::new("data_latency_p99", direct.quantile_ms(0.99), ms),
        Metric::new("delivery_mean", delays.mean_nanos() / 1e6, ms),
        Metric::new("delivery_p50", delays.quantile_ms(0.5), ms),
        Metric::new("delivery_p99", delays.quantile_ms(0.99), ms),
        Metric::new("delivery_p999", delays.quantile_ms(0.999), ms),
        Metric::new("delivered_within_10ms", in_10_ms, ""),
        Metric::new("packets_missing", missing as f64, ""),
    ];
    if settings.plan.datagrams > 1 {
        summary.push(Metric::new("messages_in_time", measures.in_time(), ""));
        summary.push(Metric::new("datagrams_of_a_message", settings.plan.datagrams as f64, ""));
    }
    if let Some(predicted) = settings.predicted() {
        summary.push(Metric::new("predicted_recovered", predicted.recovered(), ""));
        let mean = predicted.mean().as_secs_f64() * 1e3;
        summary.push(Metric::new("predicted_recovery_mean", mean, ms));
    }
    summary.extend(outcome.processor_time());
    summary.push(Metric::new("ended", outcome.ended.as_secs_f64(), "s"));
    summary.extend(outcome.driver_bytes());
    let drawings = match measures.recovered_ms.len() + measures.pulled_ms.len() {
        0 => Vec::new(),
        _ => vec![recovery_times("Time of recovery", &[("", measures)])],
    };
    RunResult {
        drawings,
        deliveries: (!outcome.is_stopped).then(|| ledger.deliveries()),
        ..outcome.result(summary)
    }
}

/// Which share of lost packets is back by when.
pub(super) fn recovery_times(title: &str, runs: &[(&str, &Measures)]) -> Plot {
    const POINTS: usize = 300;
    let x = Axis::new("since the expected arrival", "ms").with_log();
    let y = Axis::new("of lost packets", "").with_range(0.0, 1.0);
    runs.iter().fold(Plot::new(title, x, y), |plot, (name, measures)| {
        let back = measures.back_ms();
        let step = back.len().div_ceil(POINTS).max(1);
        let shares = back.iter().zip(1u32..).step_by(step);
        let lost = measures.lost as f64;
        // What took no time has no place on a logarithmic axis.
        plot.with_line(*name, shares.map(|(ms, n)| (ms.max(0.01), f64::from(n) / lost)))
    })
}
