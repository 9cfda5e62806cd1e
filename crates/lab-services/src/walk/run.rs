use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::experiment::Experiment;
use paceline_lab::figure::Figure;
use paceline_lab::run::{Metric, RunResult, Sample, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Outcome, Trial};

use super::curves::drawings;
use super::figures::figures_of_run;
use super::measured::Measured;
use super::watch::Watch;
use super::{Settings, Walking, exact};

impl Experiment for Walking {
    type Watch = Watch;
    type Measured = Measured;

    fn prepare(scenario: &Scenario, seed: u64, _world: WorldKind) -> Result<Walking, LabError> {
        Ok(Walking::new(Settings::read(scenario, seed)?))
    }

    fn watch(&self) -> Watch {
        Watch::new(self.settings.owners.servers().len())
    }

    fn judge(
        self,
        _trial: &Trial<'_>,
        outcome: Outcome,
        watch: Option<Watch>,
    ) -> Result<Measured, LabError> {
        let Walking { settings, ledger, .. } = self;
        if let Some(problem) = &ledger.broken {
            return Err(LabError::Run(problem.clone()));
        }
        if !outcome.is_stopped && !ledger.is_done() {
            let late = "walks were unfinished at the end of the scenario's `duration`";
            return Err(LabError::Run(late.to_owned()));
        }
        Ok(Measured { settings, ledger, watch, outcome })
    }

    fn result(_: &Trial<'_>, measured: &Measured) -> Result<RunResult, LabError> {
        Ok(run_result(measured))
    }

    fn figures(_: &Trial<'_>, measured: &Measured) -> Result<Vec<Figure>, LabError> {
        Ok(figures_of_run(measured))
    }
}

fn run_result(measured: &Measured) -> RunResult {
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
    // Where walks are regenerated, which of them finish is a matter of timing.
    let is_exact = settings.method.is_exact();
    RunResult {
        series: series(watch.as_ref()),
        drawings: drawings(measured),
        deliveries: (is_exact && !outcome.is_stopped).then(|| ledger.deliveries()),
        ..outcome.result(summary)
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
