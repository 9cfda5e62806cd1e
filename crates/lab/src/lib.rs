//! Scenario files, sweeps, run folders, the papers' figures and reports.
//!
//! Nothing in these modules knows a protocol: [`scenario`] reads what to run, [`sweep`] runs it
//! over a grid, [`run`] keeps what came out, [`figure`] compares it with what was published and
//! [`report`] shows it.
#![forbid(unsafe_code)]

pub mod broadcast;
mod error;
pub mod figure;
mod machine;
mod progress;
pub mod report;
pub mod run;
pub mod scenario;
pub mod sweep;
pub mod world;

pub use error::LabError;
pub use machine::Machine;
pub use progress::{Progress, Quiet};

use figure::Reproduction;
use run::RunResult;
use scenario::Scenario;

/// What `paceline reproduce` knows, by name.
pub const REPRODUCTIONS: &[Reproduction] = &[broadcast::REPRODUCTION];

/// Runs a scenario in the simulator. The one place where a protocol is chosen by name.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<RunResult, LabError> {
    match scenario.service {
        "chain" => broadcast::run(scenario, seed),
        other => Err(LabError::Unsupported(format!("`{other}` is not there yet; `chain` is"))),
    }
}
