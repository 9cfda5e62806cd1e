//! Scenario files, sweeps, run folders, the papers' figures and reports.
//!
//! Nothing in these modules knows a protocol: [`scenario`] reads what to run, [`sweep`] runs it
//! over a grid, [`run`] keeps what came out, [`figure`] compares it with what was published and
//! [`report`] shows it.
#![forbid(unsafe_code)]

mod error;
pub mod figure;
mod machine;
mod progress;
pub mod report;
pub mod run;
pub mod scenario;
pub mod sweep;

pub use error::LabError;
pub use machine::Machine;
pub use progress::{Progress, Quiet};
