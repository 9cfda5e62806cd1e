//! The network: everything between a send and an arrival.
//!
//! Two shapes. A **star** is one cut-through switch with a full-duplex port a node: the first bit
//! of a message enters the receiver's port as it leaves the sender, so an idle path costs one
//! transmission, not two, and many senders to one receiver queue at its port. A **mesh** gives each
//! ordered pair of nodes a link of its own.
//!
//! A message to a group takes the same paths to each member. A star may support multicast: then the
//! message leaves its sender's port once, and the switch copies it.
//!
//! Faults are independent of the shape: a directed pair of nodes has state only once it needs some.

mod config;
mod segments;
mod waiting;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use paceline_proto::core::{
    Backlog, Copies, CounterId, EndBuffer, GroupId, Instant, Lane, LinkFaults, LinkState, Loss,
    NodeId, Rng, Wire, mix,
};

pub use config::{Multicast, NetworkConfig, Shape};
pub use paceline_proto::core::Overhead;

use crate::counters;
use crate::links::Links;
use crate::tcp::{Streams, Tcp};
use waiting::Waiting;

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    Node(NodeId),
    // By multicast: always a datagram.
    Group(GroupId),
}

/// A message that waits for its node's port.
#[derive(Debug)]
pub(crate) struct Queued<M> {
    pub(crate) to: To,
    pub(crate) lane: Lane,
    pub(crate) message: M,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
struct Port {
    sends_until: Instant,
    receives_until: Instant,
    // Index into `Network::queues`, or NO_QUEUE.
    queue: u32,
}

const NO_QUEUE: u32 = u32::MAX;

/// Places that an idle queue keeps.
const QUEUE_KEPT: usize = 64;

#[derive(Debug)]
struct PortQueue<M> {
    messages: VecDeque<Queued<M>>,
    stream_bytes: Vec<(NodeId, usize)>,
}

/// What only some directed pairs of nodes need.
#[derive(Debug)]
pub(crate) struct Pair<M> {
    link: LinkState,
    rng: Rng,
    sends_until: Instant,
    last_stream_arrival: Instant,
    /// Raised by each reset; what is in flight under an older one is lost.
    pub(crate) stream_epoch: u32,
    /// The sender was notified that the stream is down.
    pub(crate) is_down: bool,
    stalled: VecDeque<Queued<M>>,
}

/// How the links from some nodes to some others behave.
#[derive(Debug)]
pub(crate) struct LinkRule {
    pub(crate) from: Option<Vec<NodeId>>,
    pub(crate) to: Option<Vec<NodeId>>,
    pub(crate) link: LinkFaults,
}

/// When a message arrives: none, one or two copies.
pub(crate) type Arrivals = [Option<Instant>; 2];

pub(crate) struct Network<M> {
    pub(crate) config: NetworkConfig,
    seed: u64,
    ports: Vec<Port>,
    queues: Vec<PortQueue<M>>,
    idle_queues: Vec<u32>,
    pairs: BTreeMap<(NodeId, NodeId), Pair<M>>,
    // Of a mesh whose pairs need no other state.
    links: Links,
    // Of a mesh.
    waiting: Waiting,
    blocked: BTreeSet<(NodeId, NodeId)>,
    // Links that carry nothing until the end of the run.
    severed: BTreeSet<(NodeId, NodeId)>,
    // Links that behave otherwise than configured, the latest rule last.
    rules: Vec<LinkRule>,
    groups: Option<BTreeMap<NodeId, u32>>,
    needs_pairs: bool,
    // By node; none if nothing gets lost there.
    end_buffers: Vec<EndBuffer>,
    // Where streams behave as TCP: all that waits for ports is there.
    tcp: Option<Tcp<M, Queued<M>>>,
    // Bytes on the wire, and the time that they take.
    last_airtime: Cell<(u64, Duration)>,
}

/// What became of a message that was handed to the network.
pub(crate) enum Sent<M> {
    /// It is on its way.
    Arrives(Arrivals, M),
    /// It waits behind others; `port_free` is set if the caller must call back then.
    Waits { port_free: Option<Instant> },
    /// It waits for the link to carry something again, which is out of order for this reason.
    Stalls(CounterId),
    /// It is gone, for this reason.
    Dropped(CounterId),
}

/// What a port that may be free sends next.
pub(crate) enum NextQueued<M> {
    /// It is busy until then: ask again.
    Later(Instant),
    /// Nothing waits any more.
    Nothing,
    /// This message, which the caller transmits.
    Message(Queued<M>),
    /// A packet of a stream to this node, which has left; or an acknowledgement.
    Packet(NodeId),
}

impl<M: Wire> Network<M> {
    pub(crate) fn new(
        config: NetworkConfig,
        nodes: usize,
        seed: u64,
        has_faults: bool,
    ) -> Network<M> {
        let port =
            Port { sends_until: Instant::ZERO, receives_until: Instant::ZERO, queue: NO_QUEUE };
        let needs_pairs = has_faults || !config.link.is_steady();
        assert!(
            config.port_rates.is_empty()
                || config.shape == Shape::Star && matches!(config.streams, Streams::Lossless),
            "ports with rates of their own are those of a star, without TCP"
        );
        let ports = if config.shape == Shape::Star { vec![port; nodes] } else { Vec::new() };
        let tcp = match config.streams {
            Streams::Lossless => None,
            Streams::Tcp(tcp) => {
                assert!(config.shape == Shape::Star, "ports that drop are those of a star");
                Some(Tcp::new(tcp, nodes, seed))
            }
        };
        let lossy = if config.receive_loss == Loss::None { 0 } else { nodes as u32 };
        Network {
            config,
            seed,
            ports,
            queues: Vec::new(),
            idle_queues: Vec::new(),
            pairs: BTreeMap::new(),
            links: Links::default(),
            waiting: Waiting::default(),
            blocked: BTreeSet::new(),
            severed: BTreeSet::new(),
            rules: Vec::new(),
            groups: None,
            needs_pairs,
            end_buffers: (0..lossy.into()).map(|node| EndBuffer::new(seed, NodeId(node))).collect(),
            tcp,
            last_airtime: Cell::new((0, Duration::ZERO)),
        }
    }

    /// Takes a message from a node for another one.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        queued: Queued<M>,
    ) -> Sent<M> {
        if self.needs_pairs && self.pair(from, to).is_down && queued.lane == Lane::Stream {
            return Sent::Dropped(counters::SENT_WHILE_DOWN);
        }
        if self.tcp.is_some() {
            return Sent::Waits { port_free: self.submit(now, from, queued) };
        }
        match self.wait(now, from, queued) {
            Ok(port_free) => Sent::Waits { port_free },
            Err(queued) => self.transmit(now, from, to, queued),
        }
    }

    /// Lets a message wait for its node's port. `Err` gives it back if the port is free. `Ok` says
    /// when to call [`Network::next_queued`], if no call is scheduled yet.
    pub(crate) fn wait(
        &mut self,
        now: Instant,
        from: NodeId,
        queued: Queued<M>,
    ) -> Result<Option<Instant>, Queued<M>> {
        if self.config.shape == Shape::Mesh {
            return Err(queued);
        }
        if self.tcp.is_some() {
            return Ok(self.submit(now, from, queued));
        }
        let port = &mut self.ports[from.index()];
        if port.queue == NO_QUEUE && port.sends_until <= now {
            return Err(queued);
        }
        let mut port_free = None;
        if port.queue == NO_QUEUE {
            port_free = Some(port.sends_until);
            port.queue = self.idle_queues.pop().unwrap_or_else(|| {
                self.queues.push(PortQueue { messages: VecDeque::new(), stream_bytes: Vec::new() });
                self.queues.len() as u32 - 1
            });
        }
        let queue = &mut self.queues[port.queue as usize];
        if let (Lane::Stream, To::Node(peer)) = (queued.lane, queued.to) {
            match queue.stream_bytes.iter_mut().find(|(to, _)| *to == peer) {
                Some((_, bytes)) => *bytes += queued.bytes,
                None => queue.stream_bytes.push((peer, queued.bytes)),
            }
        }
        queue.messages.push_back(queued);
        Ok(port_free)
    }

    /// The port of `from` may be free: takes the next message that waits for it.
    pub(crate) fn next_queued(&mut self, now: Instant, from: NodeId) -> NextQueued<M> {
        let port = &mut self.ports[from.index()];
        if port.sends_until > now {
            return NextQueued::Later(port.sends_until);
        }
        if self.tcp.is_some() {
            return self.next_packet(now, from);
        }
        if port.queue == NO_QUEUE {
            return NextQueued::Nothing;
        }
        let queue = &mut self.queues[port.queue as usize];
        let Some(next) = queue.messages.pop_front() else {
            queue.stream_bytes.clear();
            // A burst does not keep its memory forever.
            queue.messages.shrink_to(QUEUE_KEPT);
            self.idle_queues.push(port.queue);
            port.queue = NO_QUEUE;
            return NextQueued::Nothing;
        };
        if let (Lane::Stream, To::Node(peer)) = (next.lane, next.to) {
            let place = queue.stream_bytes.iter().position(|(to, _)| *to == peer);
            let place = place.expect("queued stream bytes are counted");
            queue.stream_bytes[place].1 -= next.bytes;
            if queue.stream_bytes[place].1 == 0 {
                queue.stream_bytes.swap_remove(place);
            }
        }
        NextQueued::Message(next)
    }

    /// Puts a message on the link.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        from: NodeId,
        to: NodeId,
        queued: Queued<M>,
    ) -> Sent<M> {
        let copies = match self.draw(from, to, queued.lane) {
            Ok(copies) => copies,
            Err(dropped) if queued.lane == Lane::Datagram || dropped == counters::NO_WIRE => {
                return Sent::Dropped(dropped);
            }
            Err(why) => {
                self.pair(from, to).stalled.push_back(queued);
                return Sent::Stalls(why);
            }
        };
        let leaves = self.leave(now, from, queued.lane, queued.bytes);
        match self.reach(from, to, queued.lane, queued.bytes, leaves, copies) {
            Ok(arrivals) => Sent::Arrives(arrivals, queued.message),
            Err(dropped) => Sent::Dropped(dropped),
        }
    }

    /// A message to a group leaves its node: occupies the port once, however many will get it.
    pub(crate) fn leave_for_group(&mut self, now: Instant, from: NodeId, bytes: usize) -> Instant {
        self.leave(now, from, Lane::Datagram, bytes)
    }

    /// When a message to a group that left at `leaves` arrives at one of its members, or why it
    /// does not.
    pub(crate) fn reach_member(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: usize,
        leaves: Instant,
    ) -> Result<Arrivals, CounterId> {
        let copies = self.draw(from, to, Lane::Datagram)?;
        self.reach(from, to, Lane::Datagram, bytes, leaves, copies)
    }

    /// What the link does to the next message; `Err` if it lets none pass at present.
    fn draw(&mut self, from: NodeId, to: NodeId, lane: Lane) -> Result<Copies, CounterId> {
        let wire = match &self.config.wires {
            Some(wires) => wires.delay(from, to).ok_or(counters::NO_WIRE)?,
            None => Duration::ZERO,
        };
        if !self.needs_pairs {
            return Ok(Copies::One(self.config.link.delay + wire));
        }
        let is_severed = self.severed.contains(&(from, to));
        let is_blocked = self.is_blocked(from, to);
        let mut faults = self.link(from, to);
        faults.delay += wire;
        let pair = self.pair(from, to);
        if is_severed {
            return Err(counters::SEVERED);
        }
        if is_blocked || !pair.stalled.is_empty() {
            return Err(counters::PARTITIONED);
        }
        Ok(pair.link.draw(&faults, lane, &mut pair.rng))
    }

    /// Occupies the port of a node for one message; gives the instant at which it begins to leave.
    fn leave(&mut self, now: Instant, from: NodeId, lane: Lane, bytes: usize) -> Instant {
        let airtime = self.airtime_at(from, self.config.overhead.charge(lane, bytes));
        match self.config.shape {
            Shape::Star => {
                // The port is free already, except when a healed partition lets a batch through.
                let port = &mut self.ports[from.index()];
                let leaves = port.sends_until.max(now);
                port.sends_until = leaves + airtime;
                leaves
            }
            Shape::Mesh => now,
        }
    }

    fn reach(
        &mut self,
        from: NodeId,
        to: NodeId,
        lane: Lane,
        bytes: usize,
        leaves: Instant,
        copies: Copies,
    ) -> Result<Arrivals, CounterId> {
        let (queue_bytes_max, rate) = (self.config.queue_bytes_max, self.config.rate_of(to));
        if rate.is_none() {
            // Nothing takes time, so nothing waits.
            return self.arrive(from, to, lane, leaves, copies);
        }
        let wire_bytes = self.config.overhead.charge(lane, bytes);
        let mut airtime = self.airtime_at(to, wire_bytes);
        if !self.config.port_rates.is_empty() {
            airtime = airtime.max(self.airtime_at(from, wire_bytes));
        }
        let port_bytes_max = self.tcp.as_ref().map(|tcp| tcp.config.port_bytes_max);
        let busy_until = match self.config.shape {
            Shape::Star => &mut self.ports[to.index()].receives_until,
            Shape::Mesh if self.needs_pairs => &mut self.pair(from, to).sends_until,
            // On a mesh nothing waits for a port: it leaves now.
            Shape::Mesh => self.links.sends_until(leaves, from, to),
        };
        let start = leaves.max(*busy_until);
        if port_bytes_max.is_some_and(|most| !has_room(most, rate, start - leaves, wire_bytes)) {
            return Err(counters::PORT_FULL);
        }
        if lane == Lane::Datagram && exceeds(queue_bytes_max, rate, start - leaves) {
            return Err(counters::QUEUE_FULL);
        }
        let arrival = start + airtime;
        *busy_until = arrival;
        if self.config.shape == Shape::Mesh && lane == Lane::Stream && start > leaves {
            self.waiting.push(leaves, from, to, start, bytes);
        }
        self.arrive(from, to, lane, arrival, copies)
    }

    /// The instants at which the copies arrive, of a message whose last bit is on the link.
    fn arrive(
        &mut self,
        from: NodeId,
        to: NodeId,
        lane: Lane,
        arrival: Instant,
        copies: Copies,
    ) -> Result<Arrivals, CounterId> {
        let arrivals = match copies {
            Copies::None => return Err(counters::LOST),
            Copies::One(delay) => [Some(self.in_order(from, to, lane, arrival + delay)), None],
            Copies::Two(first, second) => [Some(arrival + first), Some(arrival + second)],
        };
        self.enter(to, lane, arrivals)
    }

    /// The copies that the receiver's end buffer keeps.
    fn enter(&mut self, to: NodeId, lane: Lane, arrivals: Arrivals) -> Result<Arrivals, CounterId> {
        let Some(buffer) = self.end_buffers.get_mut(to.index()).filter(|_| lane == Lane::Datagram)
        else {
            return Ok(arrivals);
        };
        let loss = self.config.receive_loss;
        let kept = arrivals.map(|arrival| arrival.filter(|_| !buffer.loses(loss)));
        if kept == [None; 2] { Err(counters::LOST_AT_RECEIVER) } else { Ok(kept) }
    }

    /// A stream keeps its order whatever the jitter.
    fn in_order(&mut self, from: NodeId, to: NodeId, lane: Lane, arrival: Instant) -> Instant {
        if !self.needs_pairs || lane == Lane::Datagram {
            return arrival;
        }
        let pair = self.pair(from, to);
        pair.last_stream_arrival = pair.last_stream_arrival.max(arrival);
        pair.last_stream_arrival
    }

    /// The time that the port of a node takes for these bytes.
    fn airtime_at(&self, node: NodeId, bytes: u64) -> Duration {
        if self.config.port_rates.is_empty() {
            return self.airtime(bytes);
        }
        let rate = self.config.rate_of(node);
        let nanos = rate.map(|rate| (bytes * 8_000_000_000).div_ceil(rate));
        nanos.map_or(Duration::ZERO, Duration::from_nanos)
    }

    fn airtime(&self, bytes: u64) -> Duration {
        match self.config.rate_bits_per_second {
            None => Duration::ZERO,
            Some(rate) => match self.last_airtime.get() {
                // Most messages are as long as the one before, and a division takes long.
                (known, airtime) if known == bytes => airtime,
                _ => {
                    let airtime = Duration::from_nanos((bytes * 8_000_000_000).div_ceil(rate));
                    self.last_airtime.set((bytes, airtime));
                    airtime
                }
            },
        }
    }

    /// The instant at which the backlog of a mesh link falls below this many bytes, if nothing is
    /// added. `None` where another event tells: a port becomes free, or a partition heals.
    pub(crate) fn drains_at(
        &self,
        from: NodeId,
        to: NodeId,
        below_bytes: usize,
    ) -> Option<Instant> {
        let stalls = self.pairs.get(&(from, to)).is_some_and(|pair| !pair.stalled.is_empty());
        if self.config.shape == Shape::Star || stalls {
            return None;
        }
        self.waiting.falls_below(from, to, below_bytes)
    }

    pub(crate) fn pair(&mut self, from: NodeId, to: NodeId) -> &mut Pair<M> {
        let seed = self.seed;
        self.pairs.entry((from, to)).or_insert_with(|| Pair {
            link: LinkState::default(),
            rng: Rng::new(seed, mix(from.0 << 32 | to.0) ^ 0x11_4e_15),
            sends_until: Instant::ZERO,
            last_stream_arrival: Instant::ZERO,
            stream_epoch: 0,
            is_down: false,
            stalled: VecDeque::new(),
        })
    }

    pub(crate) fn stream_epoch(&self, from: NodeId, to: NodeId) -> u32 {
        if !self.needs_pairs {
            return 0;
        }
        self.pairs.get(&(from, to)).map_or(0, |pair| pair.stream_epoch)
    }

    fn is_blocked(&self, from: NodeId, to: NodeId) -> bool {
        if self.blocked.contains(&(from, to)) {
            return true;
        }
        let Some(groups) = &self.groups else {
            return false;
        };
        groups.get(&from) != groups.get(&to)
    }

    /// Cuts the network into groups; a node in no group is with the other unnamed ones.
    pub(crate) fn partition(&mut self, groups: &[Vec<NodeId>]) {
        let named =
            (1..).zip(groups).flat_map(|(number, group)| group.iter().map(move |&n| (n, number)));
        self.groups = Some(named.collect());
    }

    /// Cuts one direction between two nodes.
    pub(crate) fn block(&mut self, from: NodeId, to: NodeId) {
        self.blocked.insert((from, to));
    }

    /// Cuts one direction between two nodes permanently.
    pub(crate) fn sever(&mut self, from: NodeId, to: NodeId) {
        self.severed.insert((from, to));
    }

    /// Heals all partitions; gives back what stalled, by sender, in order.
    pub(crate) fn heal(&mut self) -> Vec<(NodeId, NodeId, Queued<M>)> {
        self.groups = None;
        self.blocked.clear();
        let mut stalled = Vec::new();
        let severed = &self.severed;
        for (&(from, to), pair) in self.pairs.iter_mut().filter(|(link, _)| !severed.contains(link))
        {
            stalled.extend(pair.stalled.drain(..).map(|queued| (from, to, queued)));
        }
        stalled
    }

    /// Breaks the stream from `from` to `to`: what is queued, stalled or in flight is lost.
    pub(crate) fn reset(&mut self, from: NodeId, to: NodeId) {
        let pair = self.pair(from, to);
        pair.stream_epoch += 1;
        pair.is_down = true;
        pair.stalled.clear();
        self.waiting.forget(|sender, receiver| (sender, receiver) == (from, to));
        if let Some(tcp) = &mut self.tcp {
            tcp.reset(from, to);
        }
        let Some(port) = self.ports.get(from.index()).filter(|port| port.queue != NO_QUEUE) else {
            return;
        };
        let queue = &mut self.queues[port.queue as usize];
        queue.messages.retain(|queued| queued.to != To::Node(to) || queued.lane == Lane::Datagram);
        queue.stream_bytes.retain(|&(peer, _)| peer != to);
    }

    /// Forgets what waits for the port of a node that is gone.
    pub(crate) fn discard_queued(&mut self, node: NodeId) {
        self.waiting.forget(|from, _| from == node);
        if let Some(tcp) = &mut self.tcp {
            tcp.discard(node);
        }
        let Some(port) = self.ports.get(node.index()).filter(|port| port.queue != NO_QUEUE) else {
            return;
        };
        let queue = &mut self.queues[port.queue as usize];
        queue.messages.clear();
        queue.stream_bytes.clear();
    }

    /// Every sender that has state towards `to`, or that `to` has state towards.
    pub(crate) fn neighbours(&self, node: NodeId) -> Vec<NodeId> {
        let mut neighbours: Vec<NodeId> = self
            .pairs
            .keys()
            .filter_map(|&(from, to)| (to == node).then_some(from).or((from == node).then_some(to)))
            .collect();
        neighbours.sort_unstable();
        neighbours.dedup();
        neighbours
    }

    /// Changes the behaviour of some links; `None` stands for every node.
    pub(crate) fn set_link(&mut self, rule: LinkRule) {
        if rule.from.is_none() && rule.to.is_none() {
            self.rules.clear();
        }
        self.rules.push(rule);
    }

    fn link(&self, from: NodeId, to: NodeId) -> LinkFaults {
        let names =
            |nodes: &Option<Vec<NodeId>>, node| nodes.as_ref().is_none_or(|n| n.contains(&node));
        let rule =
            self.rules.iter().rev().find(|rule| names(&rule.from, from) && names(&rule.to, to));
        rule.map_or(self.config.link, |rule| rule.link)
    }

    /// Bytes held for nodes and pairs of nodes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.ports.capacity() * size_of::<Port>()
            + self.pairs.len() * (size_of::<Pair<M>>() + 24)
            + self.links.memory_bytes()
            + self.waiting.memory_bytes()
    }

    /// Bytes held for messages that wait for a port.
    pub(crate) fn queue_bytes(&self) -> usize {
        let messages: usize = self.queues.iter().map(|queue| queue.messages.capacity()).sum();
        let streams = self.tcp.as_ref().map_or(0, Tcp::memory_bytes);
        messages * size_of::<Queued<M>>() + streams
    }

    /// Bytes of datagrams that wait for the port of a node, to the receiver to which most wait. On
    /// a mesh none wait for others.
    pub(crate) fn datagram_backlog_bytes(&self, from: NodeId) -> usize {
        if let Some(tcp) = &self.tcp {
            return datagram_bytes(tcp.messages(from));
        }
        match self.ports.get(from.index()).map(|port| port.queue) {
            None | Some(NO_QUEUE) => 0,
            Some(queue) => datagram_bytes(self.queues[queue as usize].messages.iter()),
        }
    }

    pub(crate) fn backlog_bytes(&self, now: Instant, from: NodeId, to: NodeId) -> usize {
        if let Some(tcp) = &self.tcp {
            return tcp.unsent(from, to);
        }
        let pair = if self.needs_pairs { self.pairs.get(&(from, to)) } else { None };
        let stalled = pair.map_or(0, |pair| pair.stalled.iter().map(|queued| queued.bytes).sum());
        let waiting = match self.config.shape {
            Shape::Star => match self.ports[from.index()].queue {
                NO_QUEUE => 0,
                queue => {
                    let queue = &self.queues[queue as usize];
                    queue
                        .stream_bytes
                        .iter()
                        .find(|&&(peer, _)| peer == to)
                        .map_or(0, |&(_, bytes)| bytes)
                }
            },
            Shape::Mesh => self.waiting.bytes(now, from, to),
        };
        stalled + waiting
    }
}

/// Bytes of datagrams that wait, to the receiver to which most wait.
fn datagram_bytes<'a, M: 'a>(waiting: impl Iterator<Item = &'a Queued<M>>) -> usize {
    let mut by_node: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut to_groups = 0;
    for queued in waiting.filter(|queued| queued.lane == Lane::Datagram) {
        match queued.to {
            To::Node(to) => *by_node.entry(to).or_default() += queued.bytes,
            To::Group(_) => to_groups += queued.bytes,
        }
    }
    to_groups + by_node.into_values().max().unwrap_or(0)
}

/// True if a port at which a message waits for `wait` holds more than `bytes_max` bytes.
fn exceeds(bytes_max: Option<u64>, rate_bits_per_second: Option<u64>, wait: Duration) -> bool {
    match (bytes_max, rate_bits_per_second) {
        (Some(limit), Some(rate)) => wait.as_secs_f64() * rate as f64 / 8.0 > limit as f64,
        _ => false,
    }
}

/// Whether the buffer of a port has room for a packet that would wait there for `wait`.
fn has_room(bytes_max: u64, rate: Option<u64>, wait: Duration, wire_bytes: u64) -> bool {
    let waiting = wait.as_nanos() * u128::from(rate.unwrap_or(0)) / 8_000_000_000;
    waiting + u128::from(wire_bytes) <= u128::from(bytes_max)
}

/// The network as one node's protocol asks about it.
pub(crate) struct NodeBacklog<'a, M> {
    pub(crate) network: &'a Network<M>,
    pub(crate) now: Instant,
    pub(crate) node: NodeId,
}

impl<M: Wire> Backlog for NodeBacklog<'_, M> {
    fn backlog_bytes(&self, to: NodeId) -> usize {
        self.network.backlog_bytes(self.now, self.node, to)
    }

    fn datagram_backlog_bytes(&self) -> usize {
        self.network.datagram_backlog_bytes(self.node)
    }
}
