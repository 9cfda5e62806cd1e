//! Benchmarks: how fast Paceline itself is, on the machine at hand.

pub mod broadcast;
pub mod overlay;
pub mod simulator;

use serde::Serialize;

use crate::machine::Machine;

/// What every `bench --json` prints: `{"machine":{..},"results":[..]}`.
#[derive(Debug, Serialize)]
pub struct Bench<R> {
    /// What measured.
    pub machine: Machine,
    /// The rows.
    pub results: Vec<R>,
}

impl<R> Bench<R> {
    /// Rows measured on this machine, just now.
    pub fn new(results: Vec<R>) -> Bench<R> {
        Bench { machine: Machine::observe(), results }
    }
}
