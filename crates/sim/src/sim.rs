//! The driver: one queue of events, one handler call at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{
    Context, Counters, GroupId, Instant, Lane, NodeId, Outbox, PeerState, Protocol, Rng, View,
    Wire, decode_exact, encode_to_bytes, mix,
};

use crate::fault::Fault;
use crate::groups::Groups;
use crate::network::{
    Arrivals, LinkRule, Multicast, Network, NetworkConfig, NodeBacklog, Queued, Sent, To,
};
use crate::observer::{Input, Observer, Reply};
use crate::queue::RadixHeap;
use crate::slab::Slab;
use crate::trace::Digest;

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
}

enum Event<P: Protocol> {
    Arrive {
        from: NodeId,
        to: NodeId,
        lane: Lane,
        incarnation: u32,
        stream: u32,
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
    Drained {
        node: NodeId,
        to: NodeId,
    },
    Command {
        node: NodeId,
        command: P::Command,
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
    // Boxed, or it would decide the size of every event.
    Fault(Box<Fault>),
}

/// The bit of a slot's number that says that the slot is one of a timer.
const TIMER: u32 = 1 << 31;

struct ArmedTimer<T> {
    node: NodeId,
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
    // Of the message to a group that is being sent.
    receivers: Vec<NodeId>,
    outbox: Outbox<P>,
    reply: Reply<P>,
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
        let has_faults = config.faults == FaultSupport::Any;
        let network = Network::new(config.network.clone(), config.nodes, config.seed, has_faults);
        let mut sim = Sim {
            shared,
            make: Box::new(make),
            now: Instant::ZERO,
            nodes: Vec::with_capacity(config.nodes),
            network,
            groups: Groups::default(),
            queue: RadixHeap::default(),
            events: Slab::default(),
            timers: Slab::default(),
            drains: BTreeMap::new(),
            held: BTreeMap::new(),
            receivers: Vec::new(),
            outbox: Outbox::default(),
            reply: Reply::default(),
            counters: Counters::default(),
            digest: Digest::default(),
            handled: 0,
            handled_at_instant: 0,
            config,
        };
        for node in (0..sim.config.nodes as u32).map(NodeId) {
            let protocol = (sim.make)(node);
            let rng = Rng::new(sim.config.seed, u64::from(node.0));
            sim.nodes.push(Slot { protocol, rng, starts: 1, life: Life::Running });
        }
        for node in (0..sim.config.nodes as u32).map(NodeId) {
            sim.call(node, &mut (), |protocol, cx| protocol.handle_start(cx));
        }
        sim
    }

    /// Gives a node a command at this time, or now if it has passed.
    pub fn command_at(&mut self, at: Instant, node: NodeId, command: P::Command) {
        self.push(at, Event::Command { node, command });
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
    pub fn run_until(&mut self, until: Instant, observer: &mut impl Observer<P>) -> u64 {
        let before = self.handled;
        while self.queue.next_time().is_some_and(|time| time <= until.as_nanos()) {
            self.step(observer);
            if std::mem::take(&mut self.reply.is_stop_wanted) {
                break;
            }
        }
        self.handled - before
    }

    /// Handles one event. False if there was none.
    pub fn step(&mut self, observer: &mut impl Observer<P>) -> bool {
        let Some((time, slot)) = self.queue.pop() else {
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

    fn handle(&mut self, event: Event<P>, observer: &mut impl Observer<P>) {
        let node = match &event {
            Event::Arrive { to, .. } => Some(*to),
            Event::Timer { node, .. }
            | Event::Drained { node, .. }
            | Event::Command { node, .. }
            | Event::View { node, .. }
            | Event::Peer { node, .. }
            | Event::Wake { node } => Some(*node),
            Event::PortFree { .. } | Event::Resume { .. } | Event::Fault(_) => None,
        };
        if let Some(node) = node {
            match self.nodes[node.index()].life {
                Life::Running => {}
                Life::Crashed => return self.counters.add("sim_to_crashed", 1),
                Life::Paused => return self.hold(node, event),
            }
        }
        match event {
            Event::Arrive { from, to, lane, incarnation, stream, message } => {
                let is_stale = incarnation != self.nodes[from.index()].starts
                    || (lane == Lane::Stream && stream != self.network.stream_epoch(from, to));
                if is_stale {
                    return self.counters.add("sim_cut_off", 1);
                }
                self.fold(1, to, u64::from(from.0) << 32 | message.wire_len() as u64);
                observer.before_call(self.now, to, &Input::Message { from, message: &message });
                self.call(to, observer, |protocol, cx| protocol.handle_message(cx, from, message));
            }
            Event::Timer { node, incarnation, timer } => {
                if incarnation == self.nodes[node.index()].starts {
                    self.fold(2, node, 0);
                    observer.before_call(self.now, node, &Input::Timer(timer));
                    self.call(node, observer, |protocol, cx| protocol.handle_timer(cx, timer));
                }
            }
            Event::PortFree { node } => self.port_free(node, observer),
            Event::Drained { node, to } => self.look_at_drain(node, to, observer),
            Event::Command { node, command } => {
                self.fold(3, node, 0);
                observer.before_call(self.now, node, &Input::Command(&command));
                self.call(node, observer, |protocol, cx| protocol.handle_command(cx, command));
            }
            Event::View { node, view } => {
                self.fold(4, node, view.id().0);
                observer.before_call(self.now, node, &Input::View(&view));
                self.call(node, observer, |protocol, cx| protocol.handle_view(cx, &view));
            }
            Event::Peer { node, peer, state } => {
                if let PeerState::Up { .. } = state {
                    if !self.is_alive(peer) {
                        return; // It crashed since; its restart tells.
                    }
                    self.network.pair(node, peer).is_down = false;
                }
                self.fold(5, node, u64::from(peer.0));
                observer.before_call(self.now, node, &Input::Peer { peer, state });
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

    /// Calls one handler of one node, then whatever its application submits upon that.
    fn call(
        &mut self,
        node: NodeId,
        observer: &mut impl Observer<P>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        self.call_once(node, observer, handler);
        self.take_replies(node, observer);
    }

    /// Calls one handler of one node and carries out what it asked for.
    fn call_once(
        &mut self,
        node: NodeId,
        observer: &mut impl Observer<P>,
        handler: impl FnOnce(&mut P, &mut Context<'_, P>),
    ) {
        let slot = &mut self.nodes[node.index()];
        let backlog = NodeBacklog { network: &self.network, now: self.now, node };
        let mut context = Context {
            now: self.now,
            node,
            incarnation: incarnation(self.config.seed, node, slot.starts),
            shared: &*self.shared,
            rng: &mut slot.rng,
            outbox: &mut self.outbox,
            backlog: &backlog,
            datagram_bytes_max: self.config.datagram_bytes_max,
        };
        handler(&mut slot.protocol, &mut context);
        self.carry_out(node, observer);
        observer.after_call(self.now, node, &self.nodes[node.index()].protocol, &mut self.reply);
    }

    fn carry_out(&mut self, node: NodeId, observer: &mut impl Observer<P>) {
        // Each list is taken out only if there is something in it, and put back with its capacity.
        if !self.outbox.memberships.is_empty() {
            let mut memberships = std::mem::take(&mut self.outbox.memberships);
            for (group, membership) in memberships.drain(..) {
                observer.on_membership(self.now, node, group, membership);
                self.groups.set(group, node, membership);
            }
            self.outbox.memberships = memberships;
        }
        let count = self.outbox.sends.len() + self.outbox.group_sends.len();
        assert!(count <= self.config.sends_per_call_max, "{count} sends by one call at {node}");
        if !self.outbox.group_sends.is_empty() {
            let mut sends = std::mem::take(&mut self.outbox.group_sends);
            for (group, message) in sends.drain(..) {
                observer.on_send_group(self.now, node, group, &message);
                self.send_group(node, group, message);
            }
            self.outbox.group_sends = sends;
        }
        if !self.outbox.sends.is_empty() {
            let mut sends = std::mem::take(&mut self.outbox.sends);
            for send in sends.drain(..) {
                observer.on_send(self.now, node, send.to, send.lane, &send.message);
                self.send(node, send.to, send.lane, send.message);
            }
            self.outbox.sends = sends;
        }
        if !self.outbox.timers.is_empty() {
            let incarnation = self.nodes[node.index()].starts;
            let mut timers = std::mem::take(&mut self.outbox.timers);
            for (at, timer) in timers.drain(..) {
                self.push_timer(at, ArmedTimer { node, incarnation, timer });
            }
            self.outbox.timers = timers;
        }
        if !self.outbox.events.is_empty() {
            let mut events = std::mem::take(&mut self.outbox.events);
            for event in events.drain(..) {
                self.fold(6, node, 0);
                observer.on_event(self.now, node, &event, &mut self.reply);
            }
            self.outbox.events = events;
        }
        if !self.outbox.drains.is_empty() {
            let mut drains = std::mem::take(&mut self.outbox.drains);
            for (to, below_bytes) in drains.drain(..) {
                let look_at = Instant::MAX;
                // A backlog is never below nothing.
                let wanted = Drain { below_bytes: below_bytes.max(1), look_at };
                self.drains.entry((node, to)).or_insert(wanted).below_bytes = wanted.below_bytes;
                self.watch_drain(node, to);
            }
            self.outbox.drains = drains;
        }
        // Where a node is, the simulator knows.
        self.outbox.contacts.clear();
        for peer in std::mem::take(&mut self.outbox.disconnects) {
            self.counters.add("sim_disconnected", 1);
            if self.config.faults == FaultSupport::Any {
                self.reset(peer, node, Duration::from_secs(1));
            }
        }
        if !self.outbox.counters.is_empty() {
            self.outbox.counters.drain_into(&mut self.counters);
        }
    }

    fn take_replies(&mut self, node: NodeId, observer: &mut impl Observer<P>) {
        while let Some(command) = self.reply.submit.take() {
            self.fold(3, node, 0);
            observer.before_call(self.now, node, &Input::Command(&command));
            self.call_once(node, observer, |protocol, cx| protocol.handle_command(cx, command));
        }
        if !self.reply.commands.is_empty() {
            let mut commands = std::mem::take(&mut self.reply.commands);
            for (after, node, command) in commands.drain(..) {
                self.push(self.now + after, Event::Command { node, command });
            }
            self.reply.commands = commands;
        }
        while let Some((after, node)) = self.reply.wakes.pop() {
            self.push(self.now + after, Event::Wake { node });
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, lane: Lane, message: P::Message) {
        if to.index() >= self.nodes.len() {
            return self.counters.add("sim_unknown_destination", 1);
        }
        let bytes = message.wire_len();
        if lane == Lane::Datagram && bytes > self.config.datagram_bytes_max {
            return self.counters.add("sim_datagram_oversized", 1);
        }
        let message = self.through_codec(message);
        let queued = Queued { to: To::Node(to), lane, message, bytes };
        let sent = self.network.send(self.now, from, to, queued);
        self.dispatch(from, to, lane, sent);
    }

    fn send_group(&mut self, from: NodeId, group: GroupId, message: P::Message) {
        let bytes = message.wire_len();
        if bytes > self.config.datagram_bytes_max {
            return self.counters.add("sim_datagram_oversized", 1);
        }
        let lane = Lane::Datagram;
        let message = self.through_codec(message);
        if self.network.config.multicast == Multicast::FanOut {
            let mut receivers = std::mem::take(&mut self.receivers);
            self.groups.list(group, from, &mut receivers);
            for &to in &receivers {
                let queued = Queued { to: To::Node(to), lane, message: message.clone(), bytes };
                let sent = self.network.send(self.now, from, to, queued);
                self.dispatch(from, to, lane, sent);
            }
            self.receivers = receivers;
            return;
        }
        let queued = Queued { to: To::Group(group), lane, message, bytes };
        match self.network.wait(self.now, from, queued) {
            Ok(Some(at)) => self.push(at, Event::PortFree { node: from }),
            Ok(None) => {}
            Err(queued) => self.multicast(from, group, queued.message, bytes),
        }
    }

    /// Puts a message on the way to all members of a group. Each has its own loss and delay.
    fn multicast(&mut self, from: NodeId, group: GroupId, message: P::Message, bytes: usize) {
        let leaves = self.network.leave_for_group(self.now, from, bytes);
        let mut receivers = std::mem::take(&mut self.receivers);
        self.groups.list(group, from, &mut receivers);
        for &to in &receivers {
            match self.network.reach_member(from, to, bytes, leaves) {
                Ok(arrivals) => {
                    self.arrive(from, to, Lane::Datagram, arrivals, message.clone());
                }
                Err(counter) => self.counters.add(counter, 1),
            }
        }
        self.receivers = receivers;
    }

    fn dispatch(&mut self, from: NodeId, to: NodeId, lane: Lane, sent: Sent<P::Message>) {
        match sent {
            Sent::Arrives(arrivals, message) => self.arrive(from, to, lane, arrivals, message),
            Sent::Waits { port_free: Some(at) } => self.push(at, Event::PortFree { node: from }),
            Sent::Waits { port_free: None } | Sent::Stalls => {}
            Sent::Dropped(counter) => self.counters.add(counter, 1),
        }
    }

    fn arrive(&mut self, from: NodeId, to: NodeId, lane: Lane, at: Arrivals, message: P::Message) {
        let incarnation = self.nodes[from.index()].starts;
        let stream = match lane {
            Lane::Stream => self.network.stream_epoch(from, to),
            Lane::Datagram => 0,
        };
        let [first, second] = at;
        if let Some(at) = second {
            let message = message.clone();
            self.push(at, Event::Arrive { from, to, lane, incarnation, stream, message });
        }
        if let Some(at) = first {
            self.push(at, Event::Arrive { from, to, lane, incarnation, stream, message });
        }
    }

    fn through_codec(&self, message: P::Message) -> P::Message {
        if self.config.codec == Codec::Typed {
            return message;
        }
        let bytes = encode_to_bytes(&message);
        assert_eq!(bytes.len(), message.wire_len(), "wire_len is not what encode wrote");
        let decoded: P::Message = decode_exact(bytes.clone()).expect("what was encoded decodes");
        assert_eq!(encode_to_bytes(&decoded), bytes, "the encoding is not canonical");
        decoded
    }

    fn port_free(&mut self, node: NodeId, observer: &mut impl Observer<P>) {
        loop {
            match self.network.next_queued(self.now, node) {
                Err(later) => return self.push(later, Event::PortFree { node }),
                Ok(None) => return,
                Ok(Some(queued)) => match queued.to {
                    To::Node(to) => {
                        let lane = queued.lane;
                        let sent = self.network.transmit(self.now, node, to, queued);
                        self.dispatch(node, to, lane, sent);
                        self.check_drained(node, to, observer);
                    }
                    To::Group(group) => {
                        self.multicast(node, group, queued.message, queued.bytes);
                    }
                },
            }
        }
    }

    /// Sees to it that a drain request is looked at when its time may have come.
    fn watch_drain(&mut self, node: NodeId, to: NodeId) {
        let Some(&Drain { below_bytes, look_at }) = self.drains.get(&(node, to)) else {
            return;
        };
        let at = if self.network.backlog_bytes(self.now, node, to) < below_bytes {
            self.now
        } else if let Some(at) = self.network.drains_at(node, to, below_bytes) {
            at.max(self.now + Duration::from_nanos(1))
        } else {
            return;
        };
        if at < look_at {
            self.drains.insert((node, to), Drain { below_bytes, look_at: at });
            self.push(at, Event::Drained { node, to });
        }
    }

    /// The time has come at which a backlog was to have fallen; more may have been sent since.
    fn look_at_drain(&mut self, node: NodeId, to: NodeId, observer: &mut impl Observer<P>) {
        if let Some(drain) = self.drains.get_mut(&(node, to))
            && drain.look_at <= self.now
        {
            drain.look_at = Instant::MAX;
        }
        self.check_drained(node, to, observer);
        self.watch_drain(node, to);
    }

    fn check_drained(&mut self, node: NodeId, to: NodeId, observer: &mut impl Observer<P>) {
        let Some(&Drain { below_bytes, .. }) = self.drains.get(&(node, to)) else {
            return;
        };
        if self.network.backlog_bytes(self.now, node, to) >= below_bytes {
            return;
        }
        match self.nodes[node.index()].life {
            Life::Crashed => return,
            Life::Paused => return self.hold(node, Event::Drained { node, to }),
            Life::Running => {}
        }
        self.drains.remove(&(node, to));
        self.fold(7, node, u64::from(to.0));
        observer.before_call(self.now, node, &Input::Drained(to));
        self.call(node, observer, |protocol, cx| protocol.handle_drained(cx, to));
    }

    fn hold(&mut self, node: NodeId, event: Event<P>) {
        let held = self.held.entry(node).or_default();
        let datagram_bytes = |event: &Event<P>| match event {
            Event::Arrive { lane: Lane::Datagram, message, .. } => message.wire_len(),
            _ => 0,
        };
        let bytes = datagram_bytes(&event);
        if bytes > 0
            && held.iter().map(datagram_bytes).sum::<usize>() + bytes > PAUSED_DATAGRAM_BYTES_MAX
        {
            return self.counters.add("sim_socket_full", 1);
        }
        held.push(event);
    }

    fn resume(&mut self, node: NodeId, observer: &mut impl Observer<P>) {
        if self.nodes[node.index()].life != Life::Paused {
            return;
        }
        self.nodes[node.index()].life = Life::Running;
        for event in self.held.remove(&node).unwrap_or_default() {
            self.handle(event, observer);
        }
    }

    fn fault(&mut self, fault: Fault, observer: &mut impl Observer<P>) {
        self.fold(8, NodeId(0), self.handled);
        observer.on_fault(self.now, &fault);
        match fault {
            Fault::Crash(node) => self.crash(node),
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
            Fault::Heal => {
                for (from, to, queued) in self.network.heal() {
                    let lane = queued.lane;
                    let sent = self.network.transmit(self.now, from, to, queued);
                    self.dispatch(from, to, lane, sent);
                    self.watch_drain(from, to);
                }
            }
            Fault::Reset(from, to, time) => self.reset(from, to, time),
            Fault::Link { from, to, link } => self.network.set_link(LinkRule { from, to, link }),
        }
    }

    fn crash(&mut self, node: NodeId) {
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

    fn restart(&mut self, node: NodeId, observer: &mut impl Observer<P>) {
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
        self.digest.fold(self.now.as_nanos() ^ kind << 60, detail ^ u64::from(node.0) << 40);
    }
}

/// A nonzero number for the `starts`-th start of a node.
fn incarnation(seed: u64, node: NodeId, starts: u32) -> u64 {
    mix(seed ^ mix(u64::from(node.0) << 32 | u64::from(starts))) | 1
}
