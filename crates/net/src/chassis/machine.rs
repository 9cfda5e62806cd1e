//! What a driver adds to a machine: the queues from and to the application.

use std::task::{Context as TaskContext, Poll};
use std::vec::Drain;

use paceline_proto::core::{Counters, Protocol};
use paceline_proto::host::{Application, Input, Machine, NodeParts, Typed};
use tokio::sync::mpsc;

use crate::events::EventSender;

/// A machine with the application's queues.
pub(crate) trait QueuedMachine: Machine + Send {
    /// Takes up to `at_most` inputs from the application's queue, one
    /// [`Call::Input`](paceline_proto::host::Call) each. Ready with 0 once every handle is gone;
    /// pending if there are none now.
    fn poll_inputs(&mut self, cx: &mut TaskContext<'_>, at_most: usize) -> Poll<usize>;

    /// Lets no further input into the application's queue.
    fn close_inputs(&mut self);

    /// How many inputs wait in the application's queue.
    fn inputs_waiting(&self) -> usize;

    /// Bytes that the application may submit in all: those handled, and what the protocol admits
    /// beyond them.
    fn admitted_bytes(&self) -> u64;
}

/// What the application sends to the protocol, and the bytes that it was admitted with.
pub(crate) type Submitted<P> = (Input<P>, usize);

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

/// The driver's ends of the application's queues.
pub(crate) struct Queues<P: Hosted> {
    inputs: mpsc::UnboundedReceiver<Submitted<P>>,
    // Inputs taken from the queue, the next one last.
    taken: Vec<Submitted<P>>,
    handled_bytes: u64,
    events: EventSender<P>,
}

/// [`queued`] for a protocol.
pub(crate) type Queued<P> = fn(
    NodeParts<P>,
    mpsc::UnboundedReceiver<Submitted<P>>,
    EventSender<P>,
) -> Box<dyn QueuedMachine>;

/// A protocol between its application's queues. Never inlined, so that a crate that starts a node
/// with a protocol that [`crate::instances`] names takes its machine from there.
#[inline(never)]
pub(crate) fn queued<P: Hosted>(
    parts: NodeParts<P>,
    inputs: mpsc::UnboundedReceiver<Submitted<P>>,
    events: EventSender<P>,
) -> Box<dyn QueuedMachine> {
    let queues = Queues { inputs, taken: Vec::new(), handled_bytes: 0, events };
    Box::new(Typed::new(parts, queues))
}

impl<P: Hosted> Application<P> for Queues<P> {
    fn next_input(&mut self) -> Input<P> {
        let (input, bytes) = self.taken.pop().expect("an input was taken before the call");
        self.handled_bytes += bytes as u64;
        input
    }

    fn tell(&mut self, events: Drain<'_, P::Event>, counters: &mut Counters) {
        self.events.send_all(events, counters);
    }
}

impl<P: Hosted> QueuedMachine for Typed<P, Queues<P>> {
    fn poll_inputs(&mut self, cx: &mut TaskContext<'_>, at_most: usize) -> Poll<usize> {
        let queues = self.application_mut();
        debug_assert!(queues.taken.is_empty(), "each input that was taken is called for");
        let polled = queues.inputs.poll_recv_many(cx, &mut queues.taken, at_most);
        queues.taken.reverse();
        polled
    }

    fn close_inputs(&mut self) {
        self.application_mut().inputs.close();
    }

    fn inputs_waiting(&self) -> usize {
        self.application().inputs.len()
    }

    fn admitted_bytes(&self) -> u64 {
        self.application().handled_bytes.saturating_add(self.admission() as u64)
    }
}
