use paceline_lab::LabError;
use paceline_lab::experiment::Experiment;
use paceline_lab::figure::Figure;
use paceline_lab::run::{Metric, RunResult, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Outcome, Trial};

use super::figures::figures;
use super::measured::Measured;
use super::tracks::Tracks;
use super::{GroupScenario, Measure};
use crate::chain::run_result;

impl Experiment for GroupScenario {
    type Watch = Tracks;
    type Measured = Measured;

    fn prepare(
        scenario: &Scenario,
        _seed: u64,
        _world: WorldKind,
    ) -> Result<GroupScenario, LabError> {
        GroupScenario::read(scenario)
    }

    fn watch(&self) -> Tracks {
        Tracks::default()
    }

    fn judge(
        self,
        _trial: &Trial<'_>,
        outcome: Outcome,
        tracks: Option<Tracks>,
    ) -> Result<Measured, LabError> {
        Ok(Measured { members: self, outcome, tracks })
    }

    fn result(trial: &Trial<'_>, measured: &Measured) -> Result<RunResult, LabError> {
        let Measured { members, outcome, tracks } = measured;
        let ledger = measured.ledger();
        let mut result = run_result(members.broadcast(), outcome);
        let views = ledger.nodes().iter().flat_map(|node| &node.views).map(|view| view.view).max();
        result.summary.push(Metric::new("views", views.unwrap_or(0) as f64, ""));
        let excluded: u64 = ledger.nodes().iter().map(|node| node.excluded).sum();
        result.summary.push(Metric::new("members_excluded", excluded as f64, ""));
        let silence = ledger.attendants().map(|node| node.silence_nanos_max).max().unwrap_or(0);
        result.summary.push(Metric::new("silence_max", silence as f64 / 1e9, "s"));
        if let Some(tracks) = tracks.as_ref().filter(|_| members.measure == Measure::Repair) {
            result.drawings = tracks.drawings(trial.scenario);
        }
        Ok(result)
    }

    fn figures(trial: &Trial<'_>, measured: &Measured) -> Result<Vec<Figure>, LabError> {
        Ok(figures(trial.scenario, measured))
    }
}
