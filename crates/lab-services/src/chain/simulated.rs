use paceline_lab::LabError;
use paceline_lab::world::{Outcome, Trial, simulate};

use super::Broadcast;
use super::ring::Hops;

/// Simulates this broadcast from its beginning, whatever it has noted before, without a trace.
pub(super) fn simulate_one(
    broadcast: &Broadcast,
    trial: &Trial<'_>,
) -> Result<(Broadcast, Outcome, Hops), LabError> {
    let broadcast = broadcast.spread_by(trial.seed);
    let mut hops = Hops::default();
    let simulated = Trial::simulated(trial.scenario, trial.seed);
    let trial = Trial { progress: trial.progress, ..simulated };
    let (broadcast, outcome) = simulate(broadcast, &trial, &mut hops)?;
    Ok((broadcast, outcome, hops))
}
