//! The handle to a running driver, and the ends of its queues.

use std::net::SocketAddr;
use std::sync::Arc;

use paceline_proto::core::Protocol;
use socket2::SockRef;
use tokio::sync::{mpsc, oneshot};

use crate::admission::Admission;
use crate::chassis::ends::{Common, Control, DriverEnds, Stopped};
use crate::chassis::machine::{Hosted, Input, NodeParts, Typed};
use crate::error::{Closed, TrySubmitError};
use crate::events::{Events, event_queue};
use crate::stats::{SharedStats, Stats};

/// The kind of a node: the orders of its driver, and the state of its handles.
pub trait Kind: Clone {
    /// An order that only this kind of driver accepts.
    type Order;
}

/// A handle to a running node, of either kind: [`Node`](crate::Node) or
/// [`FaceNode`](crate::FaceNode). Clones lead to the same node; when the last one is dropped the
/// node sends what is queued and stops.
pub struct Handle<P: Protocol, K: Kind> {
    inputs: mpsc::UnboundedSender<Input<P>>,
    controls: mpsc::UnboundedSender<Control<K::Order>>,
    common: Arc<Common>,
    pub(crate) kind: K,
}

/// The ends of all queues of a node with this protocol and this UDP socket. `events_bytes_max`
/// unread bytes of events hold the node back.
pub(crate) fn connect<P: Hosted, K: Kind>(
    kind: K,
    parts: NodeParts<P>,
    (udp, local_addr): (&std::net::UdpSocket, SocketAddr),
    events_bytes_max: usize,
) -> (Handle<P, K>, Events<P>, DriverEnds<K::Order>) {
    let (inputs, inputs_out) = mpsc::unbounded_channel();
    let (controls, controls_out) = mpsc::unbounded_channel();
    let (sender, events, gate) = event_queue(events_bytes_max);
    let common = Arc::new(Common {
        admission: Admission::default(),
        stats: SharedStats::default(),
        local_addr,
        datagram_receive_bytes: SockRef::from(udp).recv_buffer_size().unwrap_or(0),
        waiting: gate.waiting(),
    });
    let machine = Box::new(Typed::new(parts, inputs_out, sender));
    let ends = DriverEnds { machine, controls: controls_out, gate, common: Arc::clone(&common) };
    (Handle { inputs, controls, common, kind }, events, ends)
}

impl<P: Protocol, K: Kind> Handle<P, K> {
    /// Submits a command that counts `bytes` against what the protocol admits. While anything is
    /// admitted one more command passes, whatever its size.
    ///
    /// # Errors
    /// Gives the command back if nothing is admitted, or the node has stopped.
    pub fn try_submit(
        &self,
        command: P::Command,
        bytes: usize,
    ) -> Result<(), TrySubmitError<P::Command>> {
        if self.inputs.is_closed() {
            return Err(TrySubmitError::Closed(command));
        }
        if !self.common.admission.try_take(bytes) {
            return Err(TrySubmitError::WouldBlock(command));
        }
        self.inputs.send(Input::Command(command, bytes)).map_err(|unsent| match unsent.0 {
            Input::Command(command, _) => TrySubmitError::Closed(command),
            Input::View(_) => unreachable!("a command was sent"),
        })
    }

    /// Submits a command as soon as the protocol admits it. Dropping the future before it is
    /// ready submits nothing.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub async fn submit(&self, command: P::Command, bytes: usize) -> Result<(), Closed> {
        self.submit_with(bytes, || command).await
    }

    /// Like [`submit`](Handle::submit), but makes the command only once it is admitted: for
    /// commands that record when they were accepted.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn submit_with(
        &self,
        bytes: usize,
        make: impl FnOnce() -> P::Command,
    ) -> Result<(), Closed> {
        self.common.admission.take(bytes).await;
        self.input(Input::Command(make(), bytes))
    }

    /// Passes a command that needs no admission: the return of credits, a query.
    ///
    /// The queue to the protocol does not bound these, so their number must be bounded by
    /// something else, such as the events they answer.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub fn command(&self, command: P::Command) -> Result<(), Closed> {
        self.input(Input::Command(command, 0))
    }

    /// Passes an input that needs no admission.
    pub(crate) fn input(&self, input: Input<P>) -> Result<(), Closed> {
        self.inputs.send(input).map_err(|_| Closed)
    }

    /// Passes an order to the driver.
    pub(crate) fn order(&self, order: K::Order) -> Result<(), Closed> {
        self.controls.send(Control::Order(order)).map_err(|_| Closed)
    }

    /// Stops the node: it sends its queues and flushes its streams for at most `stop_within`, and
    /// closes its sockets. Returns at once if it has already stopped.
    pub async fn stop(&self) -> Stopped {
        let stopped = Stopped { abandoned_bytes: 0 };
        let (reply, answer) = oneshot::channel();
        match self.controls.send(Control::Stop(reply)) {
            Ok(()) => answer.await.unwrap_or(stopped),
            Err(_) => stopped,
        }
    }

    /// The node's counts at the end of its last turn.
    pub fn stats(&self) -> Stats {
        let mut stats = self.common.stats.snapshot();
        stats.held.events_bytes = self.common.waiting.bytes();
        stats
    }

    /// The address that the node listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.common.local_addr
    }

    /// The receive buffer of the UDP socket that the kernel granted, in bytes: on Linux twice the
    /// requested size, at most twice `net.core.rmem_max`. 0 if unknown.
    pub fn datagram_receive_bytes(&self) -> usize {
        self.common.datagram_receive_bytes
    }
}

impl<P: Protocol, K: Kind> Clone for Handle<P, K> {
    fn clone(&self) -> Self {
        Handle {
            inputs: self.inputs.clone(),
            controls: self.controls.clone(),
            common: Arc::clone(&self.common),
            kind: self.kind.clone(),
        }
    }
}
