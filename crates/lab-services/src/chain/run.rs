use paceline_lab::LabError;
use paceline_lab::experiment::Experiment;
use paceline_lab::figure::Figure;
use paceline_lab::run::{Metric, RunResult, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Outcome, Trial};
use paceline_proto::chain::Topology;

use super::compare::Compared;
use super::figures::figures;
use super::measured::Measured;
use super::ring::Hops;
use super::simulated::simulate_one;
use super::{Broadcast, Measure};

impl Experiment for Broadcast {
    type Watch = Hops;
    type Measured = Measured;

    fn prepare(scenario: &Scenario, seed: u64, world: WorldKind) -> Result<Broadcast, LabError> {
        let broadcast = Broadcast::read(scenario)?;
        match world {
            WorldKind::Sim => Ok(broadcast.spread_by(seed)),
            WorldKind::Sockets => match only_simulated(broadcast.plan().measure) {
                None => Ok(broadcast),
                Some(why) => Err(LabError::Unsupported(format!("{why}; use --on sim"))),
            },
        }
    }

    fn watch(&self) -> Hops {
        Hops::default()
    }

    fn judge(
        self,
        trial: &Trial<'_>,
        outcome: Outcome,
        hops: Option<Hops>,
    ) -> Result<Measured, LabError> {
        let Trial { scenario, seed, progress, .. } = *trial;
        let mut measured =
            Measured { broadcast: self, outcome, hops, baseline: None, compared: Vec::new() };
        if trial.kind() == WorldKind::Sim {
            let broadcast = &measured.broadcast;
            if broadcast.plan().measure == Measure::Gain {
                let direct = broadcast.with_topology(Topology::Unicast);
                let (direct, outcome, _) = simulate_one(&direct, trial)?;
                let rate = direct.ledger().bytes_per_node_per_second(outcome.ended);
                measured.baseline = Some(rate);
            }
            measured.compared = Compared::runs(&measured.broadcast, scenario, seed, progress)?;
        }
        Ok(measured)
    }

    fn result(trial: &Trial<'_>, measured: &Measured) -> Result<RunResult, LabError> {
        let mut result = run_result(&measured.broadcast, &measured.outcome);
        if let Some(hops) = &measured.hops {
            result.drawings = hops.drawings(trial.scenario.topology.nodes);
        }
        Ok(result)
    }

    fn figures(trial: &Trial<'_>, measured: &Measured) -> Result<Vec<Figure>, LabError> {
        Ok(figures(&measured.broadcast, trial.scenario, measured))
    }
}

/// Why figures need the simulator; none if they do not.
fn only_simulated(measure: Measure) -> Option<&'static str> {
    match measure {
        Measure::Gain | Measure::Incast | Measure::Latency => {
            Some("these figures compare simulated runs")
        }
        Measure::Rounds => {
            Some("figures = \"rounds\" measures times of a block on a simulated link")
        }
        Measure::Transmissions => {
            Some("figures = \"transmissions\" counts what only the simulator observes")
        }
        Measure::Fairness => {
            Some("figures = \"fairness\" compares shares of link rates, and loopback has no links")
        }
        Measure::Deliveries | Measure::Throughput | Measure::Progress => None,
    }
}

/// What a run gives, but for its figures.
pub(crate) fn run_result(broadcast: &Broadcast, outcome: &Outcome) -> RunResult {
    let ledger = broadcast.ledger();
    RunResult {
        series: ledger.series(),
        deliveries: Some(ledger.deliveries_digest()),
        starved: ledger.starved().iter().map(|node| node.0).collect(),
        ..outcome.result(summary(broadcast, outcome))
    }
}

/// The ledger's summary. Only a run that sends a number of messages and ends can miss one: in a run
/// without end, what was not delivered at the end was on its way.
fn summary(broadcast: &Broadcast, outcome: &Outcome) -> Vec<Metric> {
    let mut summary = broadcast.ledger().summary(outcome.ended);
    if broadcast.plan().messages.is_none() || outcome.is_stopped {
        let missing = summary.iter_mut().find(|metric| metric.metric == "messages_missing");
        missing.into_iter().for_each(|metric| metric.metric = "messages_in_flight".into());
    }
    summary.extend(outcome.driver_bytes());
    summary
}
