//! A scenario on real sockets, every node in this process, on loopback.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use paceline_net::{Bound, EmulateChange, Exposure, Multicast, NodeConfig, Peers, Roster};
use paceline_proto::core::{Counters, Instant, Loss, NodeId};
use serde::{Deserialize, Serialize};

use super::application::{Application, SharedWorkload};
use super::node::{Clock, Hosting, RunningNode, Started};
use super::{MARK_LEAD, Outcome, Start, Trial, lock};
use crate::LabError;
use crate::progress::Seconds;
use crate::scenario::{Fault, Scenario};

/// The most nodes that one process hosts on sockets: each needs a socket for every peer it sends
/// to.
const NODES_MAX: u32 = 128;

/// How often a waiting run looks whether it was stopped.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The name of the cluster that a scenario's nodes form.
fn cluster(scenario: &Scenario, seed: u64) -> String {
    format!("{}-{seed}", scenario.name)
}

/// Runs a service on loopback sockets in real time, until it is done or its time is up.
///
/// The rate of the scenario's links is not emulated; what they do to messages is.
pub(super) fn run(hosting: Hosting, trial: &Trial<'_>) -> Result<Outcome, LabError> {
    let Trial { scenario, progress, .. } = *trial;
    check(scenario)?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let nodes = start_nodes(&hosting, scenario, trial.seed)?;
        let clock = Clock::starting_at(tokio::time::Instant::now());
        let workload = Arc::new(SharedWorkload::new(hosting.service, clock));
        let mut handles = Vec::new();
        for (id, (node, events)) in (0..).map(NodeId).zip(nodes) {
            handles.push(node.clone());
            let application =
                Application { workload: workload.clone(), id, node, start: Start::First };
            application.spawn(events, scenario);
        }
        let until = Instant::ZERO + scenario.duration;
        let mut seconds = Seconds::start(progress, scenario.duration, &scenario.name);
        let mut is_stopped = false;
        let mut marks =
            workload.with(|service| service.marks()).into_iter().map(noted_at).peekable();
        while clock.now() < until && !workload.with(|service| service.is_done()) {
            is_stopped = progress.stopped();
            if is_stopped {
                break;
            }
            let now = clock.now();
            seconds.reach(now - Instant::ZERO);
            while marks.next_if(|&mark| mark <= now).is_some() {
                let counters = counted(&handles);
                workload.with(|service| service.note_mark(&counters));
            }
            let at_most = marks.peek().map_or(LOOK_EVERY, |&mark| LOOK_EVERY.min(mark - now));
            let _ = tokio::time::timeout(at_most, workload.progress.notified()).await;
        }
        let ended = clock.now();
        drop(seconds);
        let counters = counted(&handles);
        for node in &handles {
            node.stop().await;
        }
        Ok(Outcome { is_stopped, ended, counters, ..Outcome::default() })
    })
}

/// What all these nodes counted.
fn counted(nodes: &[Arc<dyn RunningNode>]) -> Counters {
    let mut counters = Counters::default();
    nodes.iter().for_each(|node| counters.merge(&node.counters()));
    counters
}

/// When counters are noted for a mark.
pub(super) fn noted_at(mark: Duration) -> Instant {
    Instant::ZERO + mark.saturating_sub(MARK_LEAD)
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime, LabError> {
    let built = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    built.map_err(|error| LabError::Run(format!("cannot start the runtime: {error}")))
}

fn check(scenario: &Scenario) -> Result<(), LabError> {
    let nodes = scenario.topology.nodes;
    if nodes > NODES_MAX {
        return Err(LabError::Unsupported(format!(
            "{nodes} nodes on sockets in one process, at most {NODES_MAX}; --on sim takes more"
        )));
    }
    let is_process_fault = |fault: &Fault| matches!(fault, Fault::Crash(_) | Fault::Restart(_));
    if scenario.faults.iter().any(|fault| is_process_fault(&fault.fault)) {
        return Err(LabError::Unsupported(
            "a crash on sockets needs a process for each node: add --processes".to_owned(),
        ));
    }
    Ok(())
}

fn start_nodes(
    hosting: &Hosting,
    scenario: &Scenario,
    seed: u64,
) -> Result<Vec<Started>, LabError> {
    let mut bound = Vec::new();
    for id in (0..scenario.topology.nodes).map(NodeId::from) {
        bound.push(bind(hosting, scenario, id, seed, &Sockets::default())?);
    }
    let roster = (0..).map(NodeId).zip(bound.iter().map(Bound::local_addr));
    let roster = Roster::new(roster).map_err(|error| LabError::Run(error.to_string()))?;
    let mut nodes = Vec::new();
    for (id, bound) in (0..).map(NodeId).zip(bound) {
        nodes.push(start(hosting, scenario, bound, roster.clone(), id)?);
    }
    Ok(nodes)
}

/// A node's sockets, beyond what the scenario says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sockets {
    /// Where to listen; port 0 for any.
    pub bind: SocketAddr,
    /// SO_SNDBUF and SO_RCVBUF, if not the kernel's choice.
    pub buffer_bytes: Option<u32>,
    /// The port of IP multicast, for messages to groups; a copy for each receiver if none.
    pub multicast_port: Option<u16>,
    /// The most datagrams that leave with a system call, if not the usual.
    pub datagrams_together_max: Option<usize>,
}

/// A free port of loopback.
impl Default for Sockets {
    fn default() -> Self {
        let bind = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Sockets { bind, buffer_bytes: None, multicast_port: None, datagrams_together_max: None }
    }
}

/// Binds a node's sockets.
pub(super) fn bind(
    hosting: &Hosting,
    scenario: &Scenario,
    id: NodeId,
    seed: u64,
    sockets: &Sockets,
) -> Result<Bound, LabError> {
    let mut config = NodeConfig::new(cluster(scenario, seed), id)
        .with_seed(seed ^ id.0 << 32)
        .with_datagram_bytes_max(scenario.topology.datagram_bytes_max)
        .with_socket_buffer_bytes(sockets.buffer_bytes);
    if let Some(detector) = lock(&hosting.service).detector() {
        config = config.with_detector(detector);
    }
    if let Some(port) = sockets.multicast_port {
        config = config.with_multicast(Multicast::native(port));
    }
    if let Some(datagrams) = sockets.datagrams_together_max {
        config = config.with_datagrams_together_max(datagrams);
    }
    if !sockets.bind.ip().is_loopback() {
        // Only a lab of this machine's own asks for another address.
        config = config.with_exposure(Exposure::IsolatedPlaintext);
    }
    Bound::bind(sockets.bind, config).map_err(|error| LabError::Run(error.to_string()))
}

/// Starts a node with the scenario's links and view.
pub(super) fn start(
    hosting: &Hosting,
    scenario: &Scenario,
    bound: Bound,
    roster: Roster,
    id: NodeId,
) -> Result<Started, LabError> {
    let failed = |error: &dyn std::error::Error| LabError::Run(error.to_string());
    let (node, events) = (hosting.start)(id, bound, roster).map_err(|error| failed(&error))?;
    if !scenario.topology.link.is_perfect() {
        let change = EmulateChange::Faults { to: Peers::All, faults: scenario.topology.link };
        node.emulate(change).map_err(|error| failed(&error))?;
    }
    if scenario.topology.receive_loss != Loss::None {
        let change = EmulateChange::ReceiveLoss(scenario.topology.receive_loss);
        node.emulate(change).map_err(|error| failed(&error))?;
    }
    if let Some(view) = lock(&hosting.service).view() {
        node.install_view(view).map_err(|error| failed(&error))?;
    }
    Ok((node, events))
}
