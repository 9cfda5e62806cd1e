//! Benchmarks: how fast Paceline itself is, on the machine at hand.
#![forbid(unsafe_code)]

pub mod broadcast;
pub mod coding;
pub mod crossings;
pub mod fetch;
pub mod local_walk;
pub mod mircc;
pub mod multicast;
mod netns;
pub mod overlay;
pub mod packets;
pub mod peers;
pub mod simulator;
pub mod slingshot;
pub mod walk;

use paceline_lab::machine::Machine;
use serde::Serialize;

/// Numbers of nodes from 1,000 to the largest, each ten times the one before.
fn sizes(nodes_max: u32) -> Vec<u32> {
    let smallest = 1_000.min(nodes_max);
    let grow = |&nodes: &u32| nodes.checked_mul(10).filter(|&next| next <= nodes_max);
    std::iter::successors(Some(smallest), grow).collect()
}

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
