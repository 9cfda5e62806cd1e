//! One run of a service in either world, as every service has it.

use std::fmt::{Debug, Display};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use paceline_net::Hosted;
use paceline_proto::core::Protocol;
use paceline_sim::{Codec, Observer, Trace};

use super::{
    Launch, Outcome, Service, Sockets, node_command, run_processes, run_sockets, simulate,
};
use crate::LabError;
use crate::progress::Progress;
use crate::scenario::Scenario;

/// How a simulated run is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Simulated<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The seed.
    pub seed: u64,
    /// Whether messages pass through their encoding.
    pub codec: Codec,
    /// Where a trace goes, if one is wanted.
    pub trace: Option<&'a Path>,
}

/// Runs a service in the simulator, seeing `observer`, and writes a trace of it to a file if there
/// is one.
pub fn simulate_traced<S: Service>(
    service: &S,
    run: &Simulated<'_>,
    observer: &mut dyn Observer<S::Protocol>,
    progress: &dyn Progress,
) -> Result<(S::Ledger, Outcome), LabError>
where
    S::Protocol: Protocol<Message: Display, Timer: Debug> + 'static,
{
    let Simulated { scenario, seed, codec, trace } = *run;
    let Some(path) = trace else {
        return Ok(simulate(service, scenario, seed, codec, observer, progress));
    };
    let file = File::create(path).map_err(LabError::write(path))?;
    let mut observers = (Trace::new(BufWriter::new(file)), observer);
    let simulated = simulate(service, scenario, seed, codec, &mut observers, progress);
    observers.0.finish().map_err(LabError::write(path))?;
    Ok(simulated)
}

/// Runs a service on loopback sockets: with a process for each node if there is a program to start,
/// else all in this one.
pub fn run_on_loopback<S>(
    service: &Arc<S>,
    scenario: &Arc<Scenario>,
    seed: u64,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<(S::Ledger, Outcome), LabError>
where
    S: Service<Ledger: Send> + Send + 'static,
    S::Protocol: Hosted,
{
    let Some(program) = program else {
        return run_sockets(service.clone(), scenario, seed, progress);
    };
    let command = |_| node_command(program);
    let launch = Launch { command: &command, sockets: &|_| Sockets::default() };
    run_processes(&**service, scenario, seed, &launch, progress)
}
