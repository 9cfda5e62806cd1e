//! The boundary between drivers and protocols: bytes on one side, a protocol's types on the other.
//!
//! [`Machine`] is a protocol as a driver sees it; [`Typed`] makes one of any [`Protocol`]. Nothing
//! in a driver that uses it has a protocol for a type parameter, so such a driver is compiled once,
//! and can run several protocols.

use std::sync::Arc;
use std::vec::Drain;

use bytes::{Bytes, BytesMut};

use crate::core::{
    Backlog, Context, Counters, DecodeError, GroupId, Instant, Lane, LinkRequests, NodeId, Outbox,
    Outgoing, Payload, PeerState, Protocol, Rng, View, WatchNews, Wire,
};
use crate::parts::slab::Slab;

/// A protocol as its driver sees it.
///
/// A driver makes one call at a time and carries out its requests before the next.
pub trait Machine {
    /// Calls a handler.
    fn call(&mut self, io: &Io<'_>, call: Call);

    /// The requests of the last call that name no type of the protocol.
    fn links(&mut self) -> &mut LinkRequests;

    /// Decodes a message and keeps it for [`Call::Message`]. Calls no handler.
    ///
    /// # Errors
    /// If the bytes are not a message of the protocol.
    fn decode(&mut self, bytes: Bytes) -> Result<(), DecodeError>;

    /// Hands over the messages of the last call, those to groups first, and then its timers, each
    /// kind in call order.
    fn carry_out(&mut self, carrier: &mut dyn Carrier);

    /// Bytes that the application may submit now ([`Protocol::admission`]).
    fn admission(&self) -> usize;

    /// What the protocol has counted since the counters were last drained.
    fn counters(&mut self) -> &mut Counters;
}

/// A handler to call.
#[derive(Clone, Copy, Debug)]
pub enum Call {
    /// The node starts.
    Start,
    /// The driver learned something about a peer.
    Peer(NodeId, PeerState),
    /// The message that was decoded last arrived from this peer.
    Message(NodeId),
    /// Bytes from this peer are not a valid message.
    Undecodable(NodeId, DecodeError),
    /// The host's failure detector has news of a member that this service watches.
    Watched(NodeId, WatchNews),
    /// The timer in this slot fired.
    Timer(u32),
    /// The backlog to this peer fell below the requested mark.
    Drained(NodeId),
    /// The next input of the application.
    Input,
}

/// The inputs of a call.
pub struct Io<'a> {
    /// The present.
    pub now: Instant,
    /// The host's incarnation, if it has a failure detector.
    pub host: Option<u64>,
    /// The driver's links.
    pub backlog: &'a dyn Backlog,
    /// The largest message, in bytes, that a datagram carries.
    pub datagram_bytes_max: usize,
}

/// A driver that carries out what a protocol asks for. It calls no handler meanwhile.
pub trait Carrier {
    /// Sends a message to a node.
    fn send(&mut self, to: NodeId, lane: Lane, message: &dyn Encode);

    /// Sends a message to a group.
    fn send_group(&mut self, group: GroupId, message: &dyn Encode);

    /// Called after the last message, if any went to a single node.
    fn end_sends(&mut self);

    /// Arms the timer in this slot.
    fn arm(&mut self, at: Instant, slot: u32);
}

/// The sending half of [`Wire`], for any type of message. A driver has a message encoded in its
/// final place, so that it is not copied.
pub trait Encode {
    /// The exact encoded length in bytes, payload included.
    fn wire_len(&self) -> usize;

    /// Appends the head and returns the payload that follows it, if the message has one.
    fn encode(&self, head: &mut BytesMut) -> Option<&Payload>;
}

impl<M: Wire> Encode for M {
    fn wire_len(&self) -> usize {
        Wire::wire_len(self)
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        Wire::encode(self, head)
    }
}

/// A message in its form on the wire, for a driver that keeps it. It shares the payload.
#[derive(Clone, Debug)]
pub struct Encoded {
    head: Bytes,
    payload: Option<Payload>,
}

impl Encoded {
    /// Encodes a message.
    pub fn new(message: &dyn Encode) -> Encoded {
        let mut head = BytesMut::new();
        let payload = message.encode(&mut head).cloned();
        Encoded { head: head.freeze(), payload }
    }

    /// All of it in one piece.
    pub fn bytes(&self) -> Bytes {
        let Some(payload) = &self.payload else { return self.head.clone() };
        let mut bytes = BytesMut::with_capacity(self.head.len() + payload.len());
        bytes.extend_from_slice(&self.head);
        payload.for_each_chunk(|chunk| bytes.extend_from_slice(chunk));
        bytes.freeze()
    }
}

/// A message as it arrived.
impl From<Bytes> for Encoded {
    fn from(bytes: Bytes) -> Encoded {
        Encoded { head: bytes, payload: None }
    }
}

impl Encode for Encoded {
    fn wire_len(&self) -> usize {
        self.head.len() + self.payload.as_ref().map_or(0, Payload::len)
    }

    fn encode(&self, head: &mut BytesMut) -> Option<&Payload> {
        head.extend_from_slice(&self.head);
        self.payload.as_ref()
    }
}

/// What the application hands to the protocol.
pub enum Input<P: Protocol> {
    /// A command.
    Command(P::Command),
    /// An installed view.
    View(Arc<View>),
}

/// The driver's ends of the queues between a protocol and its application.
pub trait Application<P: Protocol> {
    /// Takes the next input: there is one for each [`Call::Input`].
    fn next_input(&mut self) -> Input<P>;

    /// Passes events on, in order.
    fn tell(&mut self, events: Drain<'_, P::Event>, counters: &mut Counters);
}

/// A protocol that has not been started, and the node that it is for.
pub struct NodeParts<P: Protocol> {
    /// The protocol.
    pub protocol: P,
    /// State that all nodes may read.
    pub shared: Arc<P::Shared>,
    /// The node as the protocol knows it.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: u64,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// A protocol, and its application.
pub struct Typed<P: Protocol, A> {
    protocol: P,
    shared: Arc<P::Shared>,
    node: NodeId,
    incarnation: u64,
    rng: Rng,
    outbox: Outbox<P>,
    timers: Slab<P::Timer>,
    decoded: Option<P::Message>,
    application: A,
}

impl<P: Protocol, A: Application<P>> Typed<P, A> {
    /// A protocol with this application.
    pub fn new(parts: NodeParts<P>, application: A) -> Typed<P, A> {
        Typed {
            protocol: parts.protocol,
            shared: parts.shared,
            node: parts.node,
            incarnation: parts.incarnation,
            rng: Rng::new(parts.seed, parts.node.0),
            outbox: Outbox::default(),
            timers: Slab::default(),
            decoded: None,
            application,
        }
    }

    /// Gives the protocol the identity of its node, before it starts.
    pub(super) fn identify(&mut self, node: NodeId, incarnation: u64, seed: u64) {
        (self.node, self.incarnation, self.rng) = (node, incarnation, Rng::new(seed, node.0));
    }

    /// The protocol, for reading.
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// What all nodes share.
    pub fn shared(&self) -> &P::Shared {
        &self.shared
    }

    /// The timer in this slot, if one is armed.
    pub fn timer(&self, slot: u32) -> Option<&P::Timer> {
        self.timers.get(slot)
    }

    /// The application.
    pub fn application(&self) -> &A {
        &self.application
    }

    /// The application, to be changed.
    pub fn application_mut(&mut self) -> &mut A {
        &mut self.application
    }
}

impl<P: Protocol, A: Application<P>> Machine for Typed<P, A> {
    fn call(&mut self, io: &Io<'_>, call: Call) {
        let cx = &mut Context {
            now: io.now,
            node: self.node,
            incarnation: self.incarnation,
            host: io.host,
            shared: &*self.shared,
            rng: &mut self.rng,
            outbox: &mut self.outbox,
            backlog: io.backlog,
            datagram_bytes_max: io.datagram_bytes_max,
        };
        let protocol = &mut self.protocol;
        match call {
            Call::Start => protocol.handle_start(cx),
            Call::Peer(peer, state) => protocol.handle_peer(cx, peer, state),
            Call::Message(from) => {
                let message = self.decoded.take().expect("a message was decoded before the call");
                protocol.handle_message(cx, from, message);
            }
            Call::Undecodable(from, error) => protocol.handle_undecodable(cx, from, error),
            Call::Watched(node, news) => protocol.handle_watched(cx, node, news),
            Call::Timer(slot) => protocol.handle_timer(cx, self.timers.take(slot)),
            Call::Drained(to) => protocol.handle_drained(cx, to),
            Call::Input => match self.application.next_input() {
                Input::Command(command) => protocol.handle_command(cx, command),
                Input::View(view) => protocol.handle_view(cx, &view),
            },
        }
        let outbox = &mut self.outbox;
        if !outbox.events.is_empty() {
            self.application.tell(outbox.events.drain(..), &mut outbox.counters);
        }
    }

    fn links(&mut self) -> &mut LinkRequests {
        &mut self.outbox.links
    }

    fn decode(&mut self, bytes: Bytes) -> Result<(), DecodeError> {
        self.decoded = Some(P::decode(&self.shared, bytes)?);
        Ok(())
    }

    fn carry_out(&mut self, carrier: &mut dyn Carrier) {
        let outbox = &mut self.outbox;
        // Each message is encoded where it lies: to move one costs as much as to encode it.
        if !outbox.group_sends.is_empty() {
            outbox.group_sends.iter().for_each(|(group, message)| {
                carrier.send_group(*group, message);
            });
            outbox.group_sends.clear();
        }
        if !outbox.sends.is_empty() {
            outbox.sends.iter().for_each(|Outgoing { to, lane, message }| {
                carrier.send(*to, *lane, message);
            });
            outbox.sends.clear();
            carrier.end_sends();
        }
        if !outbox.timers.is_empty() {
            for (at, timer) in outbox.timers.drain(..) {
                carrier.arm(at, self.timers.insert(timer));
            }
        }
    }

    fn admission(&self) -> usize {
        self.protocol.admission()
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.outbox.counters
    }
}
