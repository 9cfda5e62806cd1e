//! The boundary between drivers and protocols. A driver moves bytes and knows no protocol's types.
//!
//! [`Machine`] is a protocol as a driver sees it; [`Typed`] makes one of any [`Protocol`]. Nothing
//! else below the handles has a protocol for a type parameter, so that the drivers are compiled
//! once, with this crate, and not for each protocol by each crate that starts a node.

use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::{Bytes, BytesMut};
use paceline_proto::core::{
    Backlog, Context, Counters, DecodeError, GroupId, Instant, Lane, LinkRequests, NodeId, Outbox,
    Outgoing, Payload, PeerState, Protocol, Rng, View, Wire,
};
use paceline_proto::parts::slab::Slab;
use tokio::sync::mpsc;

use crate::events::EventSender;

/// A protocol as its driver sees it.
///
/// A driver makes one call at a time and carries out its requests before the next.
pub(crate) trait Machine: Send {
    /// Calls a handler.
    fn call(&mut self, io: &Io<'_>, call: Call);

    /// The requests of the last call that name no type of the protocol.
    fn links(&mut self) -> &mut LinkRequests;

    /// Decodes a message and keeps it for [`Call::Message`]. Calls no handler.
    fn decode(&mut self, bytes: Bytes) -> Result<(), DecodeError>;

    /// Hands over the messages of the last call, those to groups first, and then its timers, each
    /// kind in call order.
    fn carry_out(&mut self, carrier: &mut dyn Carrier);

    /// Takes up to `at_most` inputs from the application's queue, one [`Call::Input`] each.
    /// Ready with 0 once every handle is gone; pending if there are none now.
    fn poll_inputs(&mut self, cx: &mut TaskContext<'_>, at_most: usize) -> Poll<usize>;

    /// Lets no further input into the application's queue.
    fn close_inputs(&mut self);

    /// How many inputs wait in the application's queue.
    fn inputs_waiting(&self) -> usize;

    /// Bytes that the application may submit in all: those handled, and what the protocol admits
    /// beyond them.
    fn admitted_bytes(&self) -> u64;

    /// What the protocol has counted since the counters were last drained.
    fn counters(&mut self) -> &mut Counters;
}

/// A handler to call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// The node starts.
    Start,
    /// The driver learned something about a peer.
    Peer(NodeId, PeerState),
    /// The message that was decoded last arrived from this peer.
    Message(NodeId),
    /// Bytes from this peer are not a valid message.
    Undecodable(NodeId, DecodeError),
    /// The timer in this slot fired.
    Timer(u32),
    /// The backlog to this peer fell below the requested mark.
    Drained(NodeId),
    /// The next input of the application, which [`Machine::poll_inputs`] has taken.
    Input,
}

/// The inputs of a call.
pub(crate) struct Io<'a> {
    /// The present.
    pub(crate) now: Instant,
    /// The driver's links.
    pub(crate) backlog: &'a dyn Backlog,
    /// The largest message, in bytes, that a datagram carries.
    pub(crate) datagram_bytes_max: usize,
}

/// A driver that carries out what a protocol asks for. It calls no handler meanwhile.
pub(crate) trait Carrier {
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
pub(crate) trait Encode {
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

/// A message that an emulated link holds back, in its form on the wire. It shares the payload.
#[derive(Clone, Debug)]
pub(crate) struct Encoded {
    head: Bytes,
    payload: Option<Payload>,
}

impl Encoded {
    /// Encodes a message.
    pub(crate) fn new(message: &dyn Encode) -> Encoded {
        let mut head = BytesMut::new();
        let payload = message.encode(&mut head).cloned();
        Encoded { head: head.freeze(), payload }
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

/// What the application sends to the protocol, in order.
pub(crate) enum Input<P: Protocol> {
    /// A command, and the bytes that it was admitted with.
    Command(P::Command, usize),
    /// An installed view.
    View(Arc<View>),
}

impl<P: Protocol> Input<P> {
    fn bytes(&self) -> usize {
        match self {
            Input::Command(_, bytes) => *bytes,
            Input::View(_) => 0,
        }
    }
}

/// A protocol that a node can run: its parts may move to the node's task.
///
/// Implemented for every protocol that qualifies.
pub trait Hosted:
    Protocol<
        Message: Send + 'static,
        Timer: Send + 'static,
        Command: Send + 'static,
        Event: Send + 'static,
        Shared: Send + Sync + 'static,
    > + Send
    + 'static
{
}

impl<P> Hosted for P where
    P: Protocol<
            Message: Send + 'static,
            Timer: Send + 'static,
            Command: Send + 'static,
            Event: Send + 'static,
            Shared: Send + Sync + 'static,
        > + Send
        + 'static
{
}

/// A protocol that has not been started, and the node that it is for.
pub(crate) struct NodeParts<P: Hosted> {
    /// The protocol.
    pub(crate) protocol: P,
    /// State that all nodes may read.
    pub(crate) shared: Arc<P::Shared>,
    /// The node as the protocol knows it.
    pub(crate) node: NodeId,
    /// Its incarnation.
    pub(crate) incarnation: u64,
    /// Seed of its random numbers.
    pub(crate) seed: u64,
}

/// A protocol, and its ends of the application's queues.
pub(crate) struct Typed<P: Hosted> {
    protocol: P,
    shared: Arc<P::Shared>,
    node: NodeId,
    incarnation: u64,
    rng: Rng,
    outbox: Outbox<P>,
    timers: Slab<P::Timer>,
    decoded: Option<P::Message>,
    inputs: mpsc::UnboundedReceiver<Input<P>>,
    // Inputs taken from the queue, the next one last.
    taken: Vec<Input<P>>,
    handled_bytes: u64,
    events: EventSender<P>,
}

impl<P: Hosted> Typed<P> {
    /// A protocol between these queues.
    pub(crate) fn new(
        parts: NodeParts<P>,
        inputs: mpsc::UnboundedReceiver<Input<P>>,
        events: EventSender<P>,
    ) -> Typed<P> {
        Typed {
            protocol: parts.protocol,
            shared: parts.shared,
            node: parts.node,
            incarnation: parts.incarnation,
            rng: Rng::new(parts.seed, parts.node.0),
            outbox: Outbox::default(),
            timers: Slab::default(),
            decoded: None,
            inputs,
            taken: Vec::new(),
            handled_bytes: 0,
            events,
        }
    }
}

impl<P: Hosted> Machine for Typed<P> {
    fn call(&mut self, io: &Io<'_>, call: Call) {
        let cx = &mut Context {
            now: io.now,
            node: self.node,
            incarnation: self.incarnation,
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
            Call::Timer(slot) => protocol.handle_timer(cx, self.timers.take(slot)),
            Call::Drained(to) => protocol.handle_drained(cx, to),
            Call::Input => {
                let input = self.taken.pop().expect("an input was taken before the call");
                self.handled_bytes += input.bytes() as u64;
                match input {
                    Input::Command(command, _) => protocol.handle_command(cx, command),
                    Input::View(view) => protocol.handle_view(cx, &view),
                }
            }
        }
        let outbox = &mut self.outbox;
        if !outbox.events.is_empty() {
            self.events.send_all(outbox.events.drain(..), &mut outbox.counters);
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

    fn poll_inputs(&mut self, cx: &mut TaskContext<'_>, at_most: usize) -> Poll<usize> {
        debug_assert!(self.taken.is_empty(), "each input that was taken is called for");
        let polled = self.inputs.poll_recv_many(cx, &mut self.taken, at_most);
        self.taken.reverse();
        polled
    }

    fn close_inputs(&mut self) {
        self.inputs.close();
    }

    fn inputs_waiting(&self) -> usize {
        self.inputs.len()
    }

    fn admitted_bytes(&self) -> u64 {
        self.handled_bytes.saturating_add(self.protocol.admission() as u64)
    }

    fn counters(&mut self) -> &mut Counters {
        &mut self.outbox.counters
    }
}
