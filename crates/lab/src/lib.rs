//! Scenario files, sweeps, run folders, the papers' figures and reports.
//!
//! These modules are independent of protocols: [`scenario`] reads what to run, [`sweep`] runs it
//! over a grid, [`run`] holds the results, [`folder`] stores them, [`figure`] compares them with
//! published values, and [`plot`] and [`report`] show them. [`kinds`] lists the values of
//! `[protocol] kind`, and only [`services`] selects a protocol by it.
#![forbid(unsafe_code)]

pub mod bench;
pub mod catalog;
pub mod chain;
pub mod counters;
mod error;
pub mod experiment;
pub mod figure;
pub mod folder;
pub mod group;
pub mod kinds;
pub mod machine;
pub mod mircc;
pub mod overlay;
pub mod parallel;
pub mod plot;
mod progress;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod scenario;
mod scenarios;
pub mod schema;
pub mod services;
pub mod slingshot;
pub mod standing;
pub mod sweep;
pub mod table;
pub mod tour;
pub mod walk;
pub mod world;

pub use error::LabError;
pub use machine::Machine;
pub use progress::{Progress, Quiet, Seconds};
pub use services::serve_control;

use std::path::Path;
use std::sync::Arc;

use paceline_sim::Streams;
use run::RunResult;
use scenario::Scenario;
use world::{Trial, World};

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
        let problem = "streams = \"tcp\" is a model of the simulator, and sockets have the \
                       kernel's TCP; use --on sim, or --set streams=lossless";
        return Err(LabError::Unsupported(problem.to_owned()));
    }
    let (scenario, world) = (&*scenario, World::Loopback { program });
    services::run(&Trial { scenario, seed, world, progress })
}
