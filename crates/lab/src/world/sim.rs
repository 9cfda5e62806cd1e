//! A scenario in simulated time, whatever the protocol is.

use std::cell::Ref;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, View};
use paceline_sim::{Fault as SimFault, FaultSupport, NetworkConfig, Shape, SimConfig, Streams};

use super::application::next_due;
use super::{Outcome, Start, Trial, UNTIL_RESUMED, Workload};
use crate::scenario::{Fault, Topology};

/// Parts of the simulated time; progress is shown after each.
const PIECES: u32 = 200;

/// A simulation of one service, or of several on the same nodes.
pub(super) trait Simulation {
    /// The services.
    fn services(&self) -> Vec<Ref<'_, dyn Workload>>;

    /// Installs a view of a service at a node, at the start.
    fn install_view(&mut self, service: usize, node: NodeId, view: Arc<View>);

    /// Gives a node that starts at this time what its applications ask for.
    fn begin(&mut self, at: Instant, node: NodeId, start: Start);

    /// Makes a node leave at this time, where nodes leave.
    fn leave(&mut self, at: Instant, node: NodeId);

    /// Puts a fault on the network or on nodes, at this time.
    fn fault(&mut self, at: Instant, fault: SimFault);

    /// Wakes a node's application of a service at this time.
    fn wake(&mut self, service: usize, at: Instant, node: NodeId);

    /// Lets a service note what was counted until now.
    fn note_mark(&mut self, service: usize);

    /// Goes on until this time, or until all services are done.
    fn run_until(&mut self, until: Instant);

    /// True while anything is left to happen.
    fn has_events(&self) -> bool;

    /// How it went until now.
    fn outcome(&self) -> Outcome;
}

/// The simulator's configuration for a trial, whatever runs on its nodes.
pub(super) fn config(trial: &Trial<'_>) -> SimConfig {
    let topology = &trial.scenario.topology;
    let mut config = SimConfig::new(topology.nodes as usize, trial.seed);
    config.network = network_config(topology);
    config.datagram_bytes_max = topology.datagram_bytes_max;
    if !trial.scenario.faults.is_empty() {
        config.faults = FaultSupport::Any;
    }
    config
}

/// The simulator's configuration for a trial of a service.
pub(super) fn config_of(service: &dyn Workload, trial: &Trial<'_>) -> SimConfig {
    let mut config = config(trial);
    if let Some(wires) = service.wires() {
        config.network.shape = Shape::Mesh;
        // Such a service has no streams, and a mesh no ports.
        config.network.streams = Streams::Lossless;
        config.network.rate_bits_per_second = None;
        config.network.wires = Some(wires);
    }
    config.codec = service.codec();
    config
}

/// Runs a simulation that has not begun, to the end of its scenario.
pub(super) fn drive(simulation: &mut dyn Simulation, trial: &Trial<'_>) -> Outcome {
    let Trial { scenario, progress, .. } = *trial;
    let nodes = || (0..scenario.topology.nodes).map(NodeId::from);
    let views: Vec<_> = simulation.services().iter().map(|service| service.view()).collect();
    for (service, view) in views.iter().enumerate() {
        let Some(view) = view else { continue };
        nodes().for_each(|node| simulation.install_view(service, node, view.clone()));
    }
    nodes().for_each(|node| simulation.begin(Instant::ZERO, node, Start::First));
    for fault in &scenario.faults {
        let at = Instant::ZERO + fault.at;
        for sim_fault in sim_faults(&fault.fault) {
            simulation.fault(at, sim_fault);
        }
        match &fault.fault {
            Fault::Restart(restarted) => {
                restarted.iter().for_each(|&node| simulation.begin(at, node, Start::Again));
            }
            Fault::Leave(leavers) => leavers.iter().for_each(|&node| simulation.leave(at, node)),
            _ => {}
        }
    }
    let first_due = |service: &dyn Workload| -> Vec<_> {
        let active = service.active_nodes().into_iter();
        active.filter_map(|node| Some((service.due(node, 0)?, node))).collect()
    };
    let due: Vec<_> = simulation.services().iter().map(|service| first_due(&**service)).collect();
    for (service, due) in due.into_iter().enumerate() {
        due.into_iter().for_each(|(at, node)| simulation.wake(service, at, node));
    }
    progress.start(u64::from(PIECES), &scenario.name);
    let mut is_stopped = false;
    let mut marks = marks(simulation).into_iter().peekable();
    for piece in 1..=PIECES {
        // The last piece ends exactly where the run does.
        let left_out = scenario.duration / PIECES * (PIECES - piece);
        let until = scenario.duration - left_out;
        while let Some((mark, service)) = marks.next_if(|&(mark, _)| mark <= until) {
            // What happens at the mark comes after it.
            if let Some(before) = mark.checked_sub(Duration::from_nanos(1)) {
                simulation.run_until(Instant::ZERO + before);
            }
            let is_done = simulation.services()[service].is_done();
            if !is_done {
                simulation.note_mark(service);
            }
        }
        simulation.run_until(Instant::ZERO + until);
        progress.inc(1);
        is_stopped = progress.stopped() && piece < PIECES;
        let is_done = || simulation.services().iter().all(|service| service.is_done());
        if is_stopped || !simulation.has_events() || is_done() {
            break;
        }
    }
    progress.finish();
    let outcome = simulation.outcome();
    let digest = outcome.digest.filter(|_| !is_stopped);
    Outcome { is_stopped, digest, ..outcome }
}

/// When which service notes what was counted, in order of time.
fn marks(simulation: &dyn Simulation) -> Vec<(Duration, usize)> {
    let services = simulation.services();
    let of = |(service, workload): (usize, &Ref<'_, dyn Workload>)| {
        workload.marks().into_iter().map(move |mark| (mark, service))
    };
    let mut marks: Vec<_> = services.iter().enumerate().flat_map(of).collect();
    marks.sort();
    marks
}

/// The scenario's network as the simulator takes it.
pub fn network_config(topology: &Topology) -> NetworkConfig {
    NetworkConfig {
        shape: topology.kind,
        rate_bits_per_second: Some(topology.rate.bits_per_second()),
        port_rates: Vec::new(),
        overhead: topology.overhead,
        queue_bytes_max: topology.queue_bytes,
        link: topology.link,
        multicast: topology.multicast,
        receive_loss: topology.receive_loss,
        streams: topology.streams,
        wires: None,
    }
}

fn sim_faults(fault: &Fault) -> Vec<SimFault> {
    let each = |nodes: &[NodeId], fault: fn(NodeId) -> SimFault| {
        nodes.iter().map(|&node| fault(node)).collect()
    };
    match fault {
        Fault::Crash(nodes) => each(nodes, SimFault::Crash),
        Fault::Restart(nodes) => each(nodes, SimFault::Restart),
        Fault::Pause(nodes) => each(nodes, |node| SimFault::Pause(node, UNTIL_RESUMED)),
        Fault::Resume(nodes) => each(nodes, SimFault::Resume),
        Fault::Partition(groups) => vec![SimFault::Partition(groups.clone())],
        Fault::Heal => vec![SimFault::Heal],
        Fault::Leave(_) => Vec::new(),
        Fault::Reset { from, to } => {
            let after = Duration::from_millis(20);
            vec![SimFault::Reset(*from, *to, after), SimFault::Reset(*to, *from, after)]
        }
        Fault::Link { from, to, faults } => {
            vec![SimFault::Link { from: from.clone(), to: to.clone(), link: *faults }]
        }
    }
}

/// How far the applications of all nodes are.
pub(super) struct Work {
    // By node. Asked for after each call of a handler.
    nodes: Vec<NodeWork>,
}

/// How far an application is.
#[derive(Clone, Copy, Default)]
struct NodeWork {
    // Pieces submitted.
    done: u64,
    // When the next one is due; `None` after the last.
    due: Option<Instant>,
}

impl Work {
    /// Nothing is submitted yet.
    pub(super) fn of_all(service: &dyn Workload) -> Work {
        let active = service.active_nodes();
        let places = active.iter().map(|node| node.index() + 1).max().unwrap_or(0);
        let mut nodes = vec![NodeWork::default(); places];
        for node in active {
            nodes[node.index()].due = service.due(node, 0);
        }
        Work { nodes }
    }

    /// The number of the piece of work that is due at this node, if one is.
    pub(super) fn number_due(&self, node: NodeId, at: Instant) -> Option<u64> {
        let work = self.nodes.get(node.index())?;
        work.due.is_some_and(|due| due <= at).then_some(work.done)
    }

    /// That piece was submitted. When the next one is due, if there is one.
    pub(super) fn submitted(&mut self, service: &dyn Workload, node: NodeId) -> Option<Instant> {
        let work = &mut self.nodes[node.index()];
        work.done += 1;
        work.due = service.due(node, work.done);
        work.due
    }

    /// The node has started again: what was due before is not submitted any more.
    pub(super) fn restarted(&mut self, service: &dyn Workload, node: NodeId, at: Instant) {
        if let Some(work) = self.nodes.get_mut(node.index())
            && work.due.is_some()
        {
            work.done = next_due(service, node, work.done, at);
            work.due = service.due(node, work.done);
        }
    }
}
