use std::time::Duration;

use paceline_proto::core::{Instant, NodeId, Protocol};
use paceline_sim::{
    Codec, Fault as SimFault, FaultSupport, NetworkConfig, Observer, Reply, Shape, Sim, SimConfig,
    Streams,
};

use super::application::next_due;
use super::{Answer, Outcome, Service, Start};
use crate::progress::Progress;
use crate::scenario::{Fault, Scenario, Topology};

/// Pieces of simulated time after each of which progress is told.
const PIECES: u32 = 200;

/// Runs a service in the simulator, seeing `observer` (a checker, or nothing) along the way.
pub fn simulate<S: Service>(
    service: &S,
    scenario: &Scenario,
    seed: u64,
    codec: Codec,
    observer: &mut dyn Observer<S::Protocol>,
    progress: &dyn Progress,
) -> (S::Ledger, Outcome)
where
    S::Protocol: 'static,
{
    let nodes = scenario.topology.nodes;
    let mut config = SimConfig::new(nodes as usize, seed);
    config.network = network_config(&scenario.topology);
    if let Some(wires) = service.wires() {
        config.network.shape = Shape::Mesh;
        // Such a service has no streams, and a mesh no ports.
        config.network.streams = Streams::Lossless;
        config.network.rate_bits_per_second = None;
        config.network.wires = Some(wires);
    }
    config.datagram_bytes_max = scenario.topology.datagram_bytes_max;
    config.codec = codec;
    if !scenario.faults.is_empty() {
        config.faults = FaultSupport::Any;
    }
    let protocols = |node| service.protocol(node);
    let mut sim = Sim::new(config, service.shared().clone(), protocols);
    if let Some(view) = service.view() {
        for node in (0..nodes).map(NodeId) {
            sim.view_at(Instant::ZERO, node, view.clone());
        }
    }
    for node in (0..nodes).map(NodeId) {
        if let Some((after, command)) = service.begin(node, Start::First) {
            sim.command_at(Instant::ZERO + after, node, command);
        }
    }
    for fault in &scenario.faults {
        let at = Instant::ZERO + fault.at;
        for sim_fault in sim_faults(&fault.fault) {
            sim.fault_at(at, sim_fault);
        }
        match &fault.fault {
            Fault::Restart(restarted) => {
                for &node in restarted {
                    if let Some((after, command)) = service.begin(node, Start::Again) {
                        sim.command_at(at + after, node, command);
                    }
                }
            }
            Fault::Leave(leavers) => {
                for &node in leavers {
                    if let Some(command) = service.leave() {
                        sim.command_at(at, node, command);
                    }
                }
            }
            _ => {}
        }
    }
    let active = service.active_nodes();
    let mut work =
        vec![Work::default(); active.iter().map(|node| node.index() + 1).max().unwrap_or(0)];
    for node in active {
        let due = service.due(node, 0);
        work[node.index()] = Work { done: 0, due };
        if let Some(at) = due {
            sim.wake_at(at, node);
        }
    }
    let applications =
        Applications { service, ledger: service.ledger(), work, answers: Vec::new() };
    let mut observers = (applications, observer);
    progress.start(u64::from(PIECES), &scenario.name);
    let mut is_stopped = false;
    let mut marks = service.marks().into_iter().peekable();
    for piece in 1..=PIECES {
        // The last piece ends exactly where the run does.
        let left_out = scenario.duration / PIECES * (PIECES - piece);
        let until = scenario.duration - left_out;
        while let Some(mark) = marks.next_if(|&mark| mark <= until) {
            // What happens at the mark comes after it.
            if let Some(before) = mark.checked_sub(Duration::from_nanos(1)) {
                sim.run_until(Instant::ZERO + before, &mut observers);
            }
            if !service.is_done(&observers.0.ledger) {
                service.note_mark(&mut observers.0.ledger, sim.counters());
            }
        }
        sim.run_until(Instant::ZERO + until, &mut observers);
        progress.inc(1);
        is_stopped = progress.stopped() && piece < PIECES;
        if is_stopped || sim.events_pending() == 0 || service.is_done(&observers.0.ledger) {
            break;
        }
    }
    progress.finish();
    let outcome = Outcome {
        is_stopped,
        ended: sim.now(),
        events: sim.events_handled(),
        digest: (!is_stopped).then(|| sim.digest().to_string()),
        counters: sim.counters().clone(),
        driver_bytes_per_node: Some(sim.driver_bytes_per_node()),
        cpu: None,
    };
    (observers.0.ledger, outcome)
}

/// The scenario's network as the simulator takes it.
pub fn network_config(topology: &Topology) -> NetworkConfig {
    NetworkConfig {
        shape: topology.kind,
        rate_bits_per_second: Some(topology.rate.bits_per_second()),
        overhead: topology.overhead,
        queue_bytes_max: topology.queue_bytes,
        link: topology.link,
        multicast: topology.multicast,
        receive_loss: topology.receive_loss,
        streams: topology.streams,
        wires: None,
    }
}

/// The longest pause; a scenario's pauses end by a fault of their own.
const UNTIL_RESUMED: Duration = Duration::from_secs(1 << 32);

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

/// The applications of all nodes: they submit what is due as they find room.
struct Applications<'a, S: Service> {
    service: &'a S,
    ledger: S::Ledger,
    // By node. Asked for after each call of a handler.
    work: Vec<Work>,
    answers: Vec<Answer<S>>,
}

/// How far an application is.
#[derive(Clone, Copy, Default)]
struct Work {
    // Pieces submitted.
    done: u64,
    // When the next one is; none if there is none.
    due: Option<Instant>,
}

impl<S: Service> Applications<'_, S> {
    fn pump(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &S::Protocol,
        reply: &mut Reply<S::Protocol>,
    ) {
        let Some(work) = self.work.get_mut(node.index()) else { return };
        if work.due.is_none_or(|due| due > at) {
            return;
        }
        if self.service.is_ready(&self.ledger, node) && protocol.admission() > 0 {
            reply.submit(self.service.submit(&mut self.ledger, at, node, work.done));
            work.done += 1;
            work.due = self.service.due(node, work.done);
            if let Some(next) = work.due.filter(|&next| next > at) {
                reply.wake(next - at, node);
            }
        }
    }
}

impl<S: Service> Observer<S::Protocol> for Applications<'_, S> {
    fn on_event(
        &mut self,
        at: Instant,
        node: NodeId,
        event: &<S::Protocol as Protocol>::Event,
        reply: &mut Reply<S::Protocol>,
    ) {
        self.service.observe(&mut self.ledger, at, node, event, &mut self.answers);
        for (after, command) in self.answers.drain(..) {
            reply.command(after, node, command);
        }
        if self.service.is_done(&self.ledger) {
            reply.stop();
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &SimFault) {
        if let SimFault::Restart(node) = fault
            && let Some(work) = self.work.get_mut(node.index())
            && work.due.is_some()
        {
            work.done = next_due(self.service, *node, work.done, at);
            work.due = self.service.due(*node, work.done);
        }
    }

    fn after_call(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &S::Protocol,
        reply: &mut Reply<S::Protocol>,
    ) {
        self.pump(at, node, protocol, reply);
    }

    fn on_wake(
        &mut self,
        at: Instant,
        node: NodeId,
        protocol: &S::Protocol,
        reply: &mut Reply<S::Protocol>,
    ) {
        self.pump(at, node, protocol, reply);
    }
}
