//! The services of the laboratory: how each reads a scenario, runs it and judges it, and the
//! papers' figures.
//!
//! [`kinds`] lists the values of `[protocol] kind`, [`catalog`] gives them to the readers of
//! scenarios, and only [`services`] selects a protocol by them.
#![forbid(unsafe_code)]

pub mod catalog;
pub mod chain;
pub mod counters;
pub mod group;
pub mod kinds;
pub mod mircc;
pub mod overlay;
mod scenarios;
pub mod schema;
pub mod services;
mod several;
pub mod slingshot;
pub mod tour;
pub mod walk;

pub use services::serve_control;

use std::path::Path;
use std::sync::Arc;

use paceline_lab::run::RunResult;
use paceline_lab::scenario::Scenario;
use paceline_lab::world::{Trial, World};
use paceline_lab::{LabError, Progress};
use paceline_sim::Streams;

/// Runs a scenario in the simulator.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<RunResult, LabError> {
    services::run(&Trial::simulated(scenario, seed))
}

/// The same, saying how far it is, and writing what happens to a file if there is one. Once the
/// user stops it, what was measured until then is given, with the metric `stopped_early` and
/// without a digest.
pub fn simulate_watched(
    scenario: &Scenario,
    seed: u64,
    trace: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    services::run(&Trial { scenario, seed, world: World::Simulator { trace }, progress })
}

/// Runs a scenario on loopback sockets. With a `program` every node is a process of its own,
/// started as `program node --control`; else all nodes run in this one.
pub fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<RunResult, LabError> {
    if scenario.topology.streams != Streams::Lossless {
        let problem = "streams = \"tcp\" is a model of the simulator, and sockets use the kernel's \
                       TCP; use --on sim, or --set streams=lossless";
        return Err(LabError::Unsupported(problem.to_owned()));
    }
    let (scenario, world) = (&*scenario, World::Loopback { program });
    services::run(&Trial { scenario, seed, world, progress })
}
