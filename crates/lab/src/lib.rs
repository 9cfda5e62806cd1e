//! The core of the laboratory: scenario files, both worlds, sweeps, run folders, figures and
//! reports.
//!
//! No module knows a service. [`scenario`] reads what to run, [`world`] runs an [`experiment`],
//! [`sweep`] runs it over a grid, [`run`] holds the results, [`folder`] stores them, [`figure`]
//! compares them with published values, [`reproduce`] runs sets of figures, and [`plot`] and
//! [`report`] show them. Which services a scenario can name is a value, the
//! [`Catalog`](scenario::Catalog); `paceline-lab-services` has it.
#![forbid(unsafe_code)]

mod error;
pub mod experiment;
pub mod figure;
pub mod folder;
pub mod machine;
pub mod parallel;
pub mod plot;
mod progress;
pub mod report;
pub mod reproduce;
pub mod run;
pub mod scenario;
pub mod standing;
pub mod sweep;
pub mod table;
pub mod world;

pub use error::LabError;
pub use machine::Machine;
pub use progress::{Progress, Quiet, Seconds};
