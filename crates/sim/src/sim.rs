//! The driver: one queue of events, one handler call at a time.

mod outputs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{
    Context, Counters, Instant, Lane, NodeId, Outbox, PeerState, Protocol, Rng, View, mix,
};
use paceline_proto::ndn::PACKET_BYTES_MAX;
use paceline_proto::parts::slab::Slab;

use crate::counters;
use crate::fault::Fault;
use crate::groups::Groups;
use crate::network::{LinkRule, Network, NetworkConfig, NodeBacklog, Overhead, Shape};
use crate::observer::{Input, Observer, Reply};
use crate::queue::RadixHeap;
use crate::trace::Digest;
use crate::wires::Wires;

/// Datagrams held for a paused node, bytes; Linux's default receive buffer.
const PAUSED_DATAGRAM_BYTES_MAX: usize = 212_992;

/// Events at one instant beyond which the run is taken for a loop without delay.
const EVENTS_AT_ONE_INSTANT_MAX: u64 = 50_000_000;

/// Whether messages are moved as values or pass through their encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Codec {
    /// Messages are moved as values and charged `wire_len`.
    #[default]
    Typed,
    /// Every message is encoded, decoded and encoded again; any difference ends the run.
    CheckWire,
}

/// Whether faults that concern single nodes or pairs may be injected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FaultSupport {
    /// None will be: pairs of nodes need no state, a run of a million nodes stays small.
    #[default]
    None,
    /// Any may be.
    Any,
}

/// What a run needs besides the protocol.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// How many nodes: 1 to about four million.
    pub nodes: usize,
    /// The root of all randomness.
    pub seed: u64,
    /// What lies between the nodes.
    pub network: NetworkConfig,
    /// Typed or through the codec. The digest is the same.
    pub codec: Codec,
    /// Whether faults may be injected.
    pub faults: FaultSupport,
    /// The largest message on the datagram lane, bytes. Default 1,200.
    pub datagram_bytes_max: usize,
    /// Most sends one handler call may ask for, one to a group among them being one; more ends the
    /// run. Default 1 Mi.
    pub sends_per_call_max: usize,
}

impl SimConfig {
    /// A run of `nodes` nodes over perfect links of unlimited rate.
    pub fn new(nodes: usize, seed: u64) -> SimConfig {
        SimConfig {
            nodes,
            seed,
            network: NetworkConfig::default(),
            codec: Codec::Typed,
            faults: FaultSupport::None,
            datagram_bytes_max: 1_200,
            sends_per_call_max: 1 << 20,
        }
    }

    /// A run of `nodes` nodes that exchange NDN packets over these wires only. Forwarders pace by
    /// the bytes of a packet, so a link adds none.
    pub fn of_forwarders(nodes: usize, seed: u64, wires: Wires) -> SimConfig {
        SimConfig {
            network: NetworkConfig {
                shape: Shape::Mesh,
                overhead: Overhead::None,
                wires: Some(Arc::new(wires)),
                ..NetworkConfig::default()
            },
            datagram_bytes_max: PACKET_BYTES_MAX,
            ..SimConfig::new(nodes, seed)
        }
    }
}

/// A node in what there is most of: those of a simulation are numbered from 0, so half of an id
/// says which one it is.
#[derive(Clone, Copy)]
struct Place(u32);

impl Place {
    fn of(node: NodeId) -> Place {
        Place(node.index() as u32)
    }

    fn node(self) -> NodeId {
        NodeId::from(self.0)
    }
}

enum Event<P: Protocol> {
    Arrive {
        from: Place,
        to: Place,
        lane: Lane,
        incarnation: u32,
        stream: u32,
        // The message's length, so that it is computed once.
        bytes: u32,
        message: P::Message,
    },
    Timer {
        node: NodeId,
        incarnation: u32,
        timer: P::Timer,
    },
    PortFree {
        node: NodeId,
    },
    // A packet of a stream, or a timer of one, by its number in the network.
    Packet {
        slot: u32,
    },
    Drained {
        node: NodeId,
        to: NodeId,
    },
    Command {
        node: NodeId,
        // Boxed, or it would decide the size of every event.
        command: Box<P::Command>,
    },
    View {
        node: NodeId,
        view: Arc<View>,
    },
    Peer {
        node: NodeId,
        peer: NodeId,
        state: PeerState,
    },
    Resume {
        node: NodeId,
    },
    Wake {
        node: NodeId,
    },
    Fault(Box<Fault>),
}

/// The bit of a slot's number that says that the slot is one of a timer.
const TIMER: u32 = 1 << 31;

struct ArmedTimer<T> {
    node: Place,
    incarnation: u32,
    timer: T,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Running,
    Paused,
    Crashed,
}

struct Slot<P> {
    protocol: P,
    rng: Rng,
    // How often the node started; names its incarnation.
    starts: u32,
    life: Life,
}

/// A node wants to hear when its backlog to another has fallen.
#[derive(Clone, Copy)]
struct Drain {
    below_bytes: usize,
    // When an event looks at it; `MAX` if what frees the port or heals the network does.
    look_at: Instant,
}

/// A run: nodes, the network between them, and what will happen next.
pub struct Sim<'a, P: Protocol> {
    config: SimConfig,
    shared: Arc<P::Shared>,
    make: Box<dyn FnMut(NodeId) -> P + 'a>,
    now: Instant,
    nodes: Vec<Slot<P>>,
    network: Network<P::Message>,
    groups: Groups,
    queue: RadixHeap<u32>,
    events: Slab<Event<P>>,
    // Timers apart from the other events, which are several times as large: at rest, most of what
    // waits is timers.
    timers: Slab<ArmedTimer<P::Timer>>,
    drains: BTreeMap<(NodeId, NodeId), Drain>,
    held: BTreeMap<NodeId, Vec<Event<P>>>,
    // Nodes that crash within a handler call: the number of messages that leave before, and whether
    // the application gets the events.
    amid: BTreeMap<NodeId, (usize, bool)>,
    // Of the message to a group that is being sent.
    receivers: Vec<NodeId>,
    outbox: Outbox<P>,
    reply: Reply<P>,
    // Whether the present observer is shown every call: a virtual call each is a few percent of a
    // run that is as fast as can be.
    is_observed: bool,
    counters: Counters,
    digest: Digest,
    handled: u64,
    handled_at_instant: u64,
}

impl<'a, P: Protocol> Sim<'a, P> {
    /// A run whose nodes `make` builds, also after a restart. Every node has been started when
    /// this returns; what `handle_start` asked for lies in the queue.
    pub fn new(
        config: SimConfig,
        shared: Arc<P::Shared>,
        make: impl FnMut(NodeId) -> P + 'a,
    ) -> Sim<'a, P> {
        Sim::boxed(config, shared, Box::new(make))
    }

    // Never inlined, as are the other entries to what is large: then a crate that uses the
    // simulator of a protocol that [`crate::instances`] names takes the code from there.
    #[inline(never)]
    pub(crate) fn boxed(
        config: SimConfig,
        shared: Arc<P::Shared>,
        make: Box<dyn FnMut(NodeId) -> P + 'a>,
    ) -> Sim<'a, P> {
        let has_faults = config.faults == FaultSupport::Any;
        let network = Network::new(config.network.clone(), config.nodes, config.seed, has_faults);
        let mut sim = Sim {
            shared,
            make,
            now: Instant::ZERO,
            nodes: Vec::with_capacity(config.nodes),
            network,
            groups: Groups::default(),
            queue: RadixHeap::default(),
            events: Slab::default(),
            timers: Slab::default(),
            drains: BTreeMap::new(),
            held: BTreeMap::new(),
            amid: BTreeMap::new(),
            receivers: Vec::new(),
            outbox: Outbox::default(),
            reply: Reply::default(),
            is_observed: false,
            counters: Counters::default(),
            digest: Digest::default(),
            handled: 0,
            handled_at_instant: 0,
            config,
        };
        for node in (0..sim.config.nodes as u64).map(NodeId) {
            let protocol = (sim.make)(node);
            let rng = Rng::new(sim.config.seed, node.0);
            sim.nodes.push(Slot { protocol, rng, starts: 1, life: Life::Running });
        }
        for node in (0..sim.config.nodes as u64).map(NodeId) {
            sim.call(node, &mut (), |protocol, cx| protocol.handle_start(cx));
        }
        sim
    }

    /// Gives a node a command at this time, or now if it has passed.
    #[inline(never)]
    pub fn command_at(&mut self, at: Instant, node: NodeId, command: P::Command) {
        self.push(at, Event::Command { node, command: Box::new(command) });
    }

    /// Calls [`Observer::on_wake`] for a node at this time.
    pub fn wake_at(&mut self, at: Instant, node: NodeId) {
        self.push(at, Event::Wake { node });
    }

    /// Installs a view at a node at this time.
    pub fn view_at(&mut self, at: Instant, node: NodeId, view: Arc<View>) {
        self.push(at, Event::View { node, view });
    }

    /// Injects a fault at this time.
    ///
    /// # Panics
    /// If the run was configured with [`FaultSupport::None`].
    pub fn fault_at(&mut self, at: Instant, fault: Fault) {
        assert!(self.config.faults == FaultSupport::Any, "this run was configured without faults");
        self.push(at, Event::Fault(Box::new(fault)));
    }

    /// Handles events up to and including `until`, or until nothing is left or an observer stops
    /// the run. Returns how many were handled.
    #[inline(never)]
    pub fn run_until(&mut self, until: Instant, observer: &mut dyn Observer<P>) -> u64 {
        let before = self.handled;
        self.is_observed = observer.is_watching();
        while self.step_until(until.as_nanos(), observer) {
            if std::mem::take(&mut self.reply.is_stop_wanted) {
                break;
            }
        }
        self.handled - before
    }

    /// Handles one event. False if there was none.
    #[inline(never)]
    pub fn step(&mut self, observer: &mut dyn Observer<P>) -> bool {
        self.is_observed = observer.is_watching();
        self.step_until(u64::MAX, observer)
    }

    fn step_until(&mut self, until: u64, observer: &mut dyn Observer<P>) -> bool {
        let Some((time, slot)) = self.queue.pop_until(until) else {
            return false;
        };
        let time = Instant::from_nanos(time);
        self.handled_at_instant = if time == self.now { self.handled_at_instant + 1 } else { 0 };
        assert!(self.handled_at_instant < EVENTS_AT_ONE_INSTANT_MAX, "time stands still at {time}");
        self.now = time;
        self.handled += 1;
        if slot & TIMER == 0 {
            let event = self.events.take(slot);
            self.handle(event, observer);
        } else {
            let ArmedTimer { node, incarnation, timer } = self.timers.take(slot & !TIMER);
            let node = node.node();
            self.handle(Event::Timer { node, incarnation, timer }, observer);
        }
        true
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The protocol of a node, for reading.
    pub fn node(&self, node: NodeId) -> &P {
        &self.nodes[node.index()].protocol
    }

    /// True unless the node crashed and was not restarted.
    pub fn is_alive(&self, node: NodeId) -> bool {
        self.nodes[node.index()].life != Life::Crashed
    }

    /// What the nodes share.
    pub fn shared(&self) -> &Arc<P::Shared> {
        &self.shared
    }

    /// The incarnation of a node: another number after each restart.
    pub fn incarnation(&self, node: NodeId) -> u64 {
        incarnation(self.config.seed, node, self.nodes[node.index()].starts)
    }

    /// The hash of what happened so far.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Events handled so far.
    pub fn events_handled(&self) -> u64 {
        self.handled
    }

    /// Events that wait.
    pub fn events_pending(&self) -> usize {
        self.queue.len()
    }

    /// What protocols and network counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes a node that the driver itself holds: node table and ports, beyond the protocol's
    /// state.
    pub fn driver_bytes_per_node(&self) -> f64 {
        let slots = self.nodes.capacity() * (size_of::<Slot<P>>() - size_of::<P>());
        (slots + self.network.memory_bytes()) as f64 / self.nodes.len().max(1) as f64
    }

    /// Bytes held for what waits: events, and messages for a port.
    pub fn queue_bytes(&self) -> usize {
        self.queue.memory_bytes()
            + self.events.memory_bytes()
            + self.timers.memory_bytes()
            + self.network.queue_bytes()
    }

    fn push(&mut self, at: Instant, event: Event<P>) {
        let slot = self.events.insert(event);
        debug_assert!(slot & TIMER == 0, "fewer than 2^31 events wait");
        self.queue.push(at.max(self.now).as_nanos(), slot);
    }

    fn push_timer(&mut self, at: Instant, timer: ArmedTimer<P::Timer>) {
        let slot = self.timers.insert(timer);
        self.queue.push(at.max(self.now).as_nanos(), slot | TIMER);
    }

    fn handle(&mut self, event: Event<P>, observer: &mut dyn Observer<P>) {
        let node = match &event {
            Event::Arrive { to, .. } => Some(to.node()),
            Event::Timer { node, .. }
            | Event::Drained { node, .. }
            | Event::Command { node, .. }
            | Event::View { node, .. }
            | Event::Peer { node, .. }
            | Event::Wake { node } => Some(*node),
            Event::PortFree { .. }
            | Event::Packet { .. }
            | Event::Resume { .. }
            | Event::Fault(_) => None,
        };
        if let Some(node) = node {
            match self.nodes[node.index()].life {
                Life::Running => {}
                Life::Crashed => return self.counters.add(counters::TO_CRASHED, 1),
                Life::Paused => return self.hold(node, event),
            }
        }
        match event {
            Event::Arrive { from, to, lane, incarnation, stream, bytes, message } => {
                let (from, to) = (from.node(), to.node());
                let is_stale = incarnation != self.nodes[from.index()].starts
                    || (lane == Lane::Stream && stream != self.network.stream_epoch(from, to));
                if is_stale {
                    return self.counters.add(counters::CUT_OFF, 1);
                }
                self.fold(1, to, from.0 << 32 | u64::from(bytes));
                self.show(to, &Input::Message { from, message: &message }, observer);
                self.call(to, observer, |protocol, cx| protocol.handle_message(cx, from, message));
            }
            Event::Timer { node, incarnation, timer } => {
                if incarnation == self.nodes[node.index()].starts {
                    self.fold(2, node, 0);
                    self.show(node, &Input::Timer(timer), observer);
                    self.call(node, observer, |protocol, cx| protocol.handle_timer(cx, timer));
                }
            }
            Event::PortFree { node } => self.port_free(node, observer),
            Event::Packet { slot } => {
                self.network.handle_packet(self.now, slot);
                self.take_from_streams();
            }
            Event::Drained { node, to } => self.look_at_drain(node, to, observer),
            Event::Command { node, command } => {
                let command = *command;
                self.fold(3, node, 0);
                self.show(node, &Input::Command(&command), observer);
                self.call(node, observer, |protocol, cx| protocol.handle_command(cx, command));
            }
            Event::View { node, view } => {
                self.fold(4, node, view.id().0);
                self.show(node, &Input::View(&view), observer);
                self.call(node, observer, |protocol, cx| protocol.handle_view(cx, &view));
            }
            Event::Peer { node, peer, state } => {
                if let PeerState::Up { .. } = state {
                    if !self.is_alive(peer) {
                        return; // It crashed since; its restart tells.
                    }
                    self.network.pair(node, peer).is_down = false;
                }
                self.fold(5, node, peer.0);
                self.show(node, &Input::Peer { peer, state }, observer);
                self.call(node, observer, |protocol, cx| protocol.handle_peer(cx, peer, state));
            }
            Event::Resume { node } => self.resume(node, observer),
            Event::Wake { node } => {
                let protocol = &self.nodes[node.index()].protocol;
                observer.on_wake(self.now, node, protocol, &mut self.reply);
                self.take_replies(node, observer);
            }
            Event::Fault(fault) => self.fault(*fault, observer),
        }
    }

    /// Shows the observer that a handler is about to be called.
    fn show(&self, node: NodeId, input: &Input<'_, P>, observer: &mut dyn Observer<P>) {
        if self.is_observed {
            let protocol = &self.nodes[node.index()].protocol;
            observer.before_call(self.now, node, protocol, input);
        }
    }

    /// Calls one handler of one node, then whatever its application submits upon that.
    fn call(
        &mut self,
        node: NodeId,
        observer: &mut dyn Observer<P>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        self.call_once(node, observer, handler);
        // Only an observer replies.
        if self.is_observed {
            self.take_replies(node, observer);
        }
    }

    /// Calls one handler of one node and carries out what it asked for.
    fn call_once(
        &mut self,
        node: NodeId,
        observer: &mut dyn Observer<P>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        let slot = &mut self.nodes[node.index()];
        let backlog = NodeBacklog { network: &self.network, now: self.now, node };
        let mut context = Context {
            now: self.now,
            node,
            incarnation: incarnation(self.config.seed, node, slot.starts),
            host: None,
            shared: &*self.shared,
            rng: &mut slot.rng,
            outbox: &mut self.outbox,
            backlog: &backlog,
            datagram_bytes_max: self.config.datagram_bytes_max,
        };
        handler(&mut slot.protocol, &mut context);
        if !self.amid.is_empty() && self.cut_short(node) {
            self.carry_out(node, observer);
            self.counters.add(counters::CRASHED_AMID, 1);
            return self.fault(Fault::Crash(node), observer);
        }
        self.carry_out(node, observer);
        if self.is_observed {
            let protocol = &self.nodes[node.index()].protocol;
            observer.after_call(self.now, node, protocol, &mut self.reply);
        }
    }

    fn hold(&mut self, node: NodeId, event: Event<P>) {
        let held = self.held.entry(node).or_default();
        let datagram_bytes = |event: &Event<P>| match event {
            Event::Arrive { lane: Lane::Datagram, bytes, .. } => *bytes as usize,
            _ => 0,
        };
        let bytes = datagram_bytes(&event);
        if bytes > 0
            && held.iter().map(datagram_bytes).sum::<usize>() + bytes > PAUSED_DATAGRAM_BYTES_MAX
        {
            return self.counters.add(counters::SOCKET_FULL, 1);
        }
        held.push(event);
    }

    fn resume(&mut self, node: NodeId, observer: &mut dyn Observer<P>) {
        if self.nodes[node.index()].life != Life::Paused {
            return;
        }
        self.nodes[node.index()].life = Life::Running;
        for event in self.held.remove(&node).unwrap_or_default() {
            self.handle(event, observer);
        }
    }

    fn fault(&mut self, fault: Fault, observer: &mut dyn Observer<P>) {
        self.fold(8, NodeId(0), self.handled);
        observer.on_fault(self.now, &fault);
        match fault {
            Fault::Crash(node) => self.crash(node),
            Fault::CrashAmid { node, sends, tells } => _ = self.amid.insert(node, (sends, tells)),
            Fault::Restart(node) => self.restart(node, observer),
            Fault::Pause(node, time) => {
                if self.nodes[node.index()].life == Life::Running {
                    self.nodes[node.index()].life = Life::Paused;
                    self.push(self.now + time, Event::Resume { node });
                }
            }
            Fault::Resume(node) => self.resume(node, observer),
            Fault::Partition(groups) => self.network.partition(&groups),
            Fault::Block(from, to) => self.network.block(from, to),
            Fault::Sever(from, to) => self.network.sever(from, to),
            Fault::Heal => {
                for (from, to, queued) in self.network.heal() {
                    let (lane, bytes) = (queued.lane, queued.bytes);
                    let sent = self.network.transmit(self.now, from, to, queued);
                    self.dispatch(from, to, lane, bytes, sent);
                    self.watch_drain(from, to);
                }
            }
            Fault::Reset(from, to, time) => self.reset(from, to, time),
            Fault::Link { from, to, link } => self.network.set_link(LinkRule { from, to, link }),
        }
    }

    fn crash(&mut self, node: NodeId) {
        self.amid.remove(&node);
        if self.nodes[node.index()].life == Life::Crashed {
            return;
        }
        self.nodes[node.index()].life = Life::Crashed;
        self.held.remove(&node);
        self.drains.retain(|&(from, _), _| from != node);
        self.network.discard_queued(node);
        self.groups.forget(node);
        for peer in self.network.neighbours(node) {
            self.network.reset(node, peer);
            self.network.reset(peer, node);
            self.push(self.now, Event::Peer { node: peer, peer: node, state: PeerState::Down });
        }
    }

    fn restart(&mut self, node: NodeId, observer: &mut dyn Observer<P>) {
        if self.nodes[node.index()].life != Life::Crashed {
            return;
        }
        let protocol = (self.make)(node);
        let slot = &mut self.nodes[node.index()];
        slot.protocol = protocol;
        slot.starts += 1;
        slot.life = Life::Running;
        let up = PeerState::Up { incarnation: self.incarnation(node) };
        for peer in self.network.neighbours(node) {
            if self.is_alive(peer) {
                self.network.pair(node, peer).is_down = false;
                self.push(self.now, Event::Peer { node: peer, peer: node, state: up });
            } else {
                self.push(self.now, Event::Peer { node, peer, state: PeerState::Down });
            }
        }
        self.show(node, &Input::Start, observer);
        self.call(node, observer, |protocol, cx| protocol.handle_start(cx));
    }

    fn reset(&mut self, from: NodeId, to: NodeId, up_after: Duration) {
        let was_down = self.network.pair(from, to).is_down;
        self.network.reset(from, to);
        self.watch_drain(from, to);
        if was_down {
            return;
        }
        let up = PeerState::Up { incarnation: self.incarnation(to) };
        self.push(self.now, Event::Peer { node: from, peer: to, state: PeerState::Down });
        if self.nodes[to.index()].life != Life::Crashed {
            self.push(self.now + up_after, Event::Peer { node: from, peer: to, state: up });
        }
    }

    fn fold(&mut self, kind: u64, node: NodeId, detail: u64) {
        self.digest.fold(self.now.as_nanos() ^ kind << 60, detail ^ node.0 << 40);
    }
}

/// A nonzero number for the `starts`-th start of a node.
fn incarnation(seed: u64, node: NodeId, starts: u32) -> u64 {
    mix(seed ^ mix(node.0 << 32 | u64::from(starts))) | 1
}
