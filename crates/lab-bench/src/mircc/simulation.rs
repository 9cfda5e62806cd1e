use std::time::Duration;

use paceline_lab::LabError;
use paceline_lab::machine::thread_cpu;
use paceline_lab::world::{Trial, simulate};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::mircc::{Fetching, Settings};
use serde::Serialize;

/// Flows that share the link.
pub(super) const FLOWS: u32 = 8;
/// Rate of the link.
pub(super) const BITS_PER_SECOND: u64 = 100_000_000;
/// Simulated time.
pub(super) const SIMULATED: Duration = Duration::from_secs(20);
/// Bytes of a Data with all that is around it on the link.
pub(super) const DATA_BYTES: u32 = 1_100;

/// What it cost to simulate eight flows that share a link of 100 Mbit/s for 20 s.
#[derive(Clone, Debug, Serialize)]
pub struct Simulation {
    /// `paceline` or `ns-3`.
    pub simulator: &'static str,
    /// What the flows are: `mircc`; in ns-3 `requests` at a steady pace, or `tcp`.
    pub flows: &'static str,
    /// Its version.
    pub version: String,
    /// How it was built, as far as it says.
    pub build: Vec<String>,
    /// Processor time, seconds: the least of the rounds.
    pub cpu_seconds: f64,
    /// Data that reached a consumer.
    pub data_packets: u64,
    /// Events handled.
    pub events: u64,
    /// Processor time over that of Paceline in the same run; null without the other.
    pub times: Option<f64>,
}

/// Of the same simulation twice, that which took less.
pub(super) fn keep_faster(held: &mut Option<Simulation>, new: Simulation) {
    if held.as_ref().is_none_or(|held| new.cpu_seconds < held.cpu_seconds) {
        *held = Some(new);
    }
}

/// Runs it here: the same code as `paceline run`, with rates, paths and all that is noted of flows.
pub(super) fn run() -> Result<Simulation, LabError> {
    let (seconds, nodes) = (SIMULATED.as_secs(), 2 * FLOWS + 2);
    let text = format!(
        "name = \"bench/mircc\"\nduration = \"{seconds}s\"\n[topology]\nnodes = {nodes}\n\
         [protocol]\nkind = \"mircc\"\n[workload]\nnetwork = \"dumbbell\"\nflows = {FLOWS}\n\
         bottleneck = \"{BITS_PER_SECOND}bit\"\n"
    );
    let scenario = CATALOG.parse("bench mircc", &text)?.resolve()?;
    let service = Fetching::new(Settings::read(&scenario, scenario.seed)?)?;
    let before = thread_cpu();
    let trial = Trial::simulated(&scenario, scenario.seed);
    let (service, outcome) = simulate(service, &trial, &mut ())?;
    let cpu = thread_cpu().saturating_sub(before);
    let ledger = service.ledger();
    if let Some(problem) = &ledger.broken {
        return Err(LabError::Run(problem.clone()));
    }
    Ok(Simulation {
        simulator: "paceline",
        flows: "mircc",
        version: env!("CARGO_PKG_VERSION").to_owned(),
        build: Vec::new(),
        cpu_seconds: cpu.as_secs_f64(),
        data_packets: ledger.flows().iter().map(|flow| flow.segments).sum(),
        events: outcome.events,
        times: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_is_full_while_it_is_measured() {
        let simulation = run().expect("it runs");
        let bits = simulation.data_packets as f64 * f64::from(DATA_BYTES) * 8.0;
        let full = bits / SIMULATED.as_secs_f64() / BITS_PER_SECOND as f64;
        assert!((0.92..0.96).contains(&full), "{full} of the link");
        assert!(simulation.cpu_seconds > 0.0 && simulation.events > simulation.data_packets);
    }
}
