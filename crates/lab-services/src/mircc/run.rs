use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::experiment::Experiment;
use paceline_lab::figure::Figure;
use paceline_lab::run::{Metric, RunResult, Sample, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Outcome, Trial};

use super::figures::figures_of_run;
use super::ledger::{Flow, Ledger};
use super::measured::Measured;
use super::report::rates_plot;
use super::windows::{Held, Oracles, Steadiness};
use super::{Fetching, Settings};

impl Experiment for Fetching {
    type Watch = ();
    type Measured = Measured;

    /// Delays of links are the simulator's alone.
    fn prepare(scenario: &Scenario, seed: u64, world: WorldKind) -> Result<Fetching, LabError> {
        let settings = Settings::read(scenario, seed)?;
        Fetching::new(match world {
            WorldKind::Sim => settings,
            WorldKind::Sockets => settings.on_sockets(),
        })
    }

    fn watch(&self) {}

    fn judge(self, _: &Trial<'_>, outcome: Outcome, _: Option<()>) -> Result<Measured, LabError> {
        let Fetching { settings, ledger, .. } = self;
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

    fn result(_: &Trial<'_>, measured: &Measured) -> Result<RunResult, LabError> {
        Ok(run_result(measured))
    }

    fn figures(trial: &Trial<'_>, measured: &Measured) -> Result<Vec<Figure>, LabError> {
        match trial.kind() {
            WorldKind::Sim => figures_of_run(trial.scenario, measured),
            WorldKind::Sockets => Ok(Vec::new()),
        }
    }
}

fn run_result(measured: &Measured) -> RunResult {
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
    summary.extend(outcome.processor_time());
    summary.push(Metric::new("ended", ended.as_secs_f64(), "s"));
    RunResult {
        series: series(settings, ledger, ended),
        drawings: vec![rates_plot("Rates of flows", settings, ledger, ended)],
        deliveries: (!outcome.is_stopped).then(|| ledger.deliveries()),
        ..outcome.result(summary)
    }
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
