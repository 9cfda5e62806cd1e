use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{
    CounterId, Counters, DecodeError, GroupId, Instant, Lane, Membership, NodeId, PeerState, Rng,
    Terms, View, WatchList, WatchNews, Wire, decode_exact,
};

/// A protocol: one state machine per node, driven by a simulator or by sockets.
///
/// A driver calls one handler at a time. The handler changes the state and writes what should
/// happen into the [`Context`]; the driver carries it out after the handler returned.
///
/// # The contract
///
/// The obligations of a protocol:
/// - The same state, input and random numbers give the same outputs. Nothing else is read: no
///   clock, file, thread, socket or randomly ordered map.
/// - No handler blocks, panics on what a peer sent, or loops past its input plus a configured
///   bound.
/// - A kind of timer is armed at most once at a time. Timers are not cancelled: the deadline is in
///   the state, and a fire that came too early for it is ignored.
///
/// The obligations of a driver:
/// - A datagram may be lost, duplicated, reordered or late. A stream is first in, first out and
///   intact; it breaks only by [`PeerState::Down`], and then an unknown suffix is lost.
/// - Sends to one node on one lane leave in call order. What one call sends to groups leaves, in
///   call order, before what it sends to single nodes.
/// - What is sent to a group goes, as a datagram each, to every other node that has joined it.
/// - A timer fires at its time or later, never earlier.
/// - A message of an older incarnation of its sender never arrives after one of a newer.
pub trait Protocol: Sized {
    /// A message between nodes.
    type Message: Wire + Clone;
    /// Identifies a timer when it fires.
    type Timer: Copy;
    /// A request of the local application. Carries a request id if it has an answer.
    type Command;
    /// A notification to the local application. An answer echoes the request's id.
    type Event;
    /// Read-only data that all nodes of a run share: configuration, keys, a graph.
    type Shared;

    /// Reads a message from exactly these bytes: what drivers call. Default: the message's own
    /// [`Wire::decode`]. Messages whose form depends on what nodes share are read here.
    fn decode(_shared: &Self::Shared, bytes: Bytes) -> Result<Self::Message, DecodeError> {
        decode_exact(bytes)
    }

    /// What all nodes of a service need alike. Nodes that differ in it do not hear each other, and
    /// a host says why.
    fn terms(_shared: &Self::Shared) -> Terms {
        Terms::default()
    }

    /// The node starts. Called once, before anything else.
    fn handle_start(&mut self, _cx: &mut Context<'_, Self>) {}

    /// The driver learned something about a peer.
    fn handle_peer(&mut self, _cx: &mut Context<'_, Self>, _peer: NodeId, _state: PeerState) {}

    /// There is news of a member that this node watches ([`Context::watch`]).
    fn handle_watched(&mut self, _cx: &mut Context<'_, Self>, _node: NodeId, _news: WatchNews) {}

    /// A view was installed.
    fn handle_view(&mut self, _cx: &mut Context<'_, Self>, _view: &Arc<View>) {}

    /// A message arrived.
    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Self::Message);

    /// A known peer sent bytes that are not a message. Only drivers of datagrams report this.
    fn handle_undecodable(
        &mut self,
        _cx: &mut Context<'_, Self>,
        _from: NodeId,
        _error: DecodeError,
    ) {
    }

    /// A timer fired.
    fn handle_timer(&mut self, _cx: &mut Context<'_, Self>, _timer: Self::Timer) {}

    /// The local application asks for something.
    fn handle_command(&mut self, _cx: &mut Context<'_, Self>, _command: Self::Command) {}

    /// The backlog to `to` fell below the level given to [`Context::notify_drained`].
    fn handle_drained(&mut self, _cx: &mut Context<'_, Self>, _to: NodeId) {}

    /// Bytes that the application may submit now. While it is above zero one more command is taken,
    /// whatever its size; at zero `try_*` calls answer `WouldBlock`.
    fn admission(&self) -> usize {
        usize::MAX
    }

    /// Bytes that an event takes up until the application receives it; 0 for an event that answers
    /// what the application asked for, or that credits bound. A driver on sockets takes nothing
    /// from peers while too many bytes wait.
    fn event_bytes(_event: &Self::Event) -> usize {
        size_of::<Self::Event>()
    }

    /// True for the event by which a node reports that it has left, as it was asked to. A driver on
    /// sockets wakes the callers that wait for it, whether or not the application reads its events.
    fn is_departure(_event: &Self::Event) -> bool {
        false
    }
}

/// The driver's side of [`Context::backlog_bytes`] and [`Context::datagram_backlog_bytes`].
pub trait Backlog {
    /// Bytes accepted for `to` on the stream lane and not yet on the link.
    fn backlog_bytes(&self, to: NodeId) -> usize;

    /// Bytes accepted as datagrams that this host still holds, for the receiver for which it holds
    /// most; about. 0 where datagrams do not wait for others.
    fn datagram_backlog_bytes(&self) -> usize {
        0
    }
}

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing<M> {
    /// The receiver.
    pub to: NodeId,
    /// How it travels.
    pub lane: Lane,
    /// What is sent.
    pub message: M,
}

/// Requests of a handler that name no type of its protocol. Few calls make any.
#[derive(Debug, Default)]
pub struct LinkRequests {
    /// Groups to join or leave, in order. Carried out before messages are sent.
    pub memberships: Vec<(GroupId, Membership)>,
    /// Peers and the backlog in bytes below which the protocol wants to hear of them.
    pub drains: Vec<(NodeId, usize)>,
    /// Peers that broke the protocol and whose connection the driver must close.
    pub disconnects: Vec<NodeId>,
    /// Nodes and where they are, in a form that only drivers of sockets read.
    pub contacts: Vec<(NodeId, Bytes)>,
    /// The members to watch from now on, if they have changed.
    pub watch: Option<WatchList>,
    /// Watched nodes that may be down.
    pub probes: Vec<NodeId>,
}

impl LinkRequests {
    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.memberships.is_empty()
            && self.drains.is_empty()
            && self.disconnects.is_empty()
            && self.contacts.is_empty()
            && self.watch.is_none()
            && self.probes.is_empty()
    }

    /// Moves all of them to the end of others.
    pub fn append_to(&mut self, outer: &mut LinkRequests) {
        outer.memberships.append(&mut self.memberships);
        outer.drains.append(&mut self.drains);
        outer.disconnects.append(&mut self.disconnects);
        outer.contacts.append(&mut self.contacts);
        outer.watch = self.watch.take().or(outer.watch.take());
        outer.probes.append(&mut self.probes);
    }
}

/// The output of a handler. Owned and reused by the driver; readable in tests.
pub struct Outbox<P: Protocol> {
    /// What it asks of groups, streams and addresses.
    pub links: LinkRequests,
    /// Messages to send to groups, in order.
    pub group_sends: Vec<(GroupId, P::Message)>,
    /// Messages to send to single nodes, in order.
    pub sends: Vec<Outgoing<P::Message>>,
    /// Timers to arm, with the instant at which each is due.
    pub timers: Vec<(Instant, P::Timer)>,
    /// Events for the local application, in order.
    pub events: Vec<P::Event>,
    /// Counts since the driver last took them.
    pub counters: Counters,
}

impl<P: Protocol> Default for Outbox<P> {
    fn default() -> Self {
        Outbox {
            links: LinkRequests::default(),
            group_sends: Vec::new(),
            sends: Vec::new(),
            timers: Vec::new(),
            events: Vec::new(),
            counters: Counters::default(),
        }
    }
}

impl<P: Protocol> Outbox<P> {
    /// Hands all but the events to the outbox of the protocol around this one, which wraps each
    /// message, putting its head before it, and each timer. For protocols that
    /// [nest](Context::nest) another; the events are theirs to look at.
    pub fn pass_to<Q: Protocol>(
        &mut self,
        outer: &mut Outbox<Q>,
        message: impl Fn(P::Message) -> Q::Message,
        timer: impl Fn(P::Timer) -> Q::Timer,
    ) {
        self.links.append_to(&mut outer.links);
        let sends = self.group_sends.drain(..);
        outer.group_sends.extend(sends.map(|(group, inner)| (group, message(inner))));
        let sends = self.sends.drain(..);
        outer.sends.extend(sends.map(|Outgoing { to, lane, message: inner }| Outgoing {
            to,
            lane,
            message: message(inner),
        }));
        outer.timers.extend(self.timers.drain(..).map(|(at, inner)| (at, timer(inner))));
        self.counters.drain_into(&mut outer.counters);
    }
}

/// A handler's input beside its arguments, and the outbox it writes into.
pub struct Context<'a, P: Protocol> {
    /// The present.
    pub now: Instant,
    /// This node.
    pub node: NodeId,
    /// This node's incarnation: drawn at random at each start.
    pub incarnation: u64,
    /// The incarnation of the host that runs this node, if the host has a failure detector: then it
    /// watches members for its services.
    pub host: Option<u64>,
    /// Read-only data that all nodes of the run share.
    pub shared: &'a P::Shared,
    /// This node's random numbers.
    pub rng: &'a mut Rng,
    /// Where the handler writes.
    pub outbox: &'a mut Outbox<P>,
    /// The driver's links. The one virtual call of the interface, made only when a protocol asks.
    pub backlog: &'a dyn Backlog,
    /// The largest message, in bytes, that a datagram carries.
    pub datagram_bytes_max: usize,
}

impl<P: Protocol> Context<'_, P> {
    /// Sends a message.
    pub fn send(&mut self, to: NodeId, lane: Lane, message: P::Message) {
        self.outbox.sends.push(Outgoing { to, lane, message });
    }

    /// Hears from now on what is sent to `group`. Joining twice is joining once; a restart has
    /// joined none.
    pub fn join_group(&mut self, group: GroupId) {
        self.outbox.links.memberships.push((group, Membership::Joined));
    }

    /// Leaves `group`: messages sent to it from now on are not received, those under way may be.
    pub fn leave_group(&mut self, group: GroupId) {
        self.outbox.links.memberships.push((group, Membership::Left));
    }

    /// Sends a message, as a datagram, to every other node that has joined `group`; this node need
    /// not have. Where the network has multicast it is sent once, elsewhere to one after another.
    pub fn send_group(&mut self, group: GroupId, message: P::Message) {
        self.outbox.group_sends.push((group, message));
    }

    /// Asks for `timer` after this time.
    pub fn set_timer(&mut self, after: Duration, timer: P::Timer) {
        self.outbox.timers.push((self.now + after, timer));
    }

    /// Gives the driver the claimed address of a node, in a form that only drivers of sockets read.
    /// An empty address has no effect.
    pub fn note_address(&mut self, node: NodeId, address: &Bytes) {
        if !address.is_empty() {
            self.outbox.links.contacts.push((node, address.clone()));
        }
    }

    /// Tells the local application.
    pub fn deliver(&mut self, event: P::Event) {
        self.outbox.events.push(event);
    }

    /// Adds to a counter.
    pub fn count(&mut self, counter: CounterId, n: u64) {
        self.outbox.counters.add(counter, n);
    }

    /// Bytes accepted for `to` on the stream lane and not yet on the link, this outbox included.
    pub fn backlog_bytes(&self, to: NodeId) -> usize {
        let pending =
            self.outbox.sends.iter().filter(|send| send.to == to && send.lane == Lane::Stream);
        self.backlog.backlog_bytes(to) + pending.map(|send| send.message.wire_len()).sum::<usize>()
    }

    /// Bytes of datagrams that this host still holds, without this outbox, for the receiver for
    /// which it holds most; about. They are 0 while the link takes what is sent. In the simulator
    /// it is what waits at a port of a star; on sockets, what the kernel has not taken yet, and
    /// what the rate of the link, if it is known, does not permit yet.
    pub fn datagram_backlog_bytes(&self) -> usize {
        self.backlog.datagram_backlog_bytes()
    }

    /// Asks for [`Protocol::handle_drained`] once the backlog to `to` is below `below_bytes`.
    /// The latest request for a peer stands.
    pub fn notify_drained(&mut self, to: NodeId, below_bytes: usize) {
        self.outbox.links.drains.push((to, below_bytes));
    }

    /// A context for a protocol inside this one: the same node, time and links, another outbox.
    /// What it writes is the outer protocol's to pass on ([`Outbox::pass_to`]); `head_bytes` are
    /// what it puts before each of the inner one's messages.
    pub fn nest<'b, Q: Protocol>(
        &'b mut self,
        incarnation: u64,
        shared: &'b Q::Shared,
        outbox: &'b mut Outbox<Q>,
        head_bytes: usize,
    ) -> Context<'b, Q> {
        Context {
            now: self.now,
            node: self.node,
            incarnation,
            host: self.host,
            shared,
            rng: self.rng,
            outbox,
            backlog: self.backlog,
            datagram_bytes_max: self.datagram_bytes_max - head_bytes,
        }
    }

    /// Has the failure detector of the host watch these members, in place of those that this node
    /// named before. News comes by [`Protocol::handle_watched`]. Only where there is one
    /// ([`Context::host`]).
    pub fn watch(&mut self, list: WatchList) {
        self.outbox.links.watch = Some(list);
    }

    /// Has the failure detector of the host look at a watched node at once, because of a symptom
    /// such as a broken stream.
    pub fn probe(&mut self, node: NodeId) {
        self.outbox.links.probes.push(node);
    }

    /// Closes the connection to a peer that broke the protocol.
    pub fn disconnect(&mut self, peer: NodeId) {
        self.outbox.links.disconnects.push(peer);
    }
}
