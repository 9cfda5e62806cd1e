//! `paceline bench mircc`: what it costs to simulate named data, beside another simulator, and to
//! forward it.

mod exchanges;
mod ns3;
mod simulation;

use std::time::Duration;

use paceline_lab::{LabError, Progress};
use serde::Serialize;

pub use exchanges::Exchanges;
pub use simulation::Simulation;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How often each simulator runs; the least time counts.
    pub rounds: u32,
    /// How long the forwarder is measured.
    pub duration: Duration,
    /// Interests that are pending meanwhile.
    pub pending: usize,
}

/// A row.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Row {
    /// A simulation.
    Simulation(Simulation),
    /// A forwarder on loopback.
    Forwarder(Exchanges),
}

/// Runs all of it. ns-3's rows are there if `PACELINE_PYTHON_NS3` says where it is.
pub fn run(settings: Settings, progress: &dyn Progress) -> Result<Vec<Row>, LabError> {
    let kinds = exchanges::Kind::ALL;
    let steps = settings.rounds as usize + kinds.len();
    progress.start(steps as u64, "mircc");
    let mut finished = 0;
    let mut step = || {
        progress.inc(1);
        finished += 1;
        if progress.stopped() {
            return Err(LabError::Stopped { finished, total: steps });
        }
        Ok(())
    };
    let mut rows = Vec::new();
    let (mut ours, mut theirs) = (None, [const { None }; ns3::KINDS.len()]);
    for _ in 0..settings.rounds {
        // By turns, so that what else the machine does meets all of them.
        simulation::keep_faster(&mut ours, simulation::run()?);
        if let Some(python) = ns3::interpreter() {
            for (held, flows) in theirs.iter_mut().zip(ns3::KINDS) {
                simulation::keep_faster(held, ns3::run(&python, flows)?);
            }
        }
        step()?;
    }
    let cpu_seconds = ours.as_ref().map_or(f64::NAN, |ours| ours.cpu_seconds);
    for theirs in theirs.iter_mut().flatten() {
        theirs.times = Some(theirs.cpu_seconds / cpu_seconds);
    }
    rows.extend(ours.into_iter().chain(theirs.into_iter().flatten()).map(Row::Simulation));
    for kind in kinds {
        rows.push(Row::Forwarder(exchanges::run(kind, settings)?));
        step()?;
    }
    progress.finish();
    Ok(rows)
}
