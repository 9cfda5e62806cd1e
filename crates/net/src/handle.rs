//! The handle to a running driver, and the ends of its queues.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

use paceline_proto::core::Protocol;
use paceline_proto::host::{Input, NodeParts};
use tokio::sync::{mpsc, oneshot};

use crate::chassis::ends::{Common, Control, DriverEnds, Stopped};
use crate::chassis::machine::{Hosted, Submitted, queued};
use crate::chassis::services::{ServiceEnds, ServiceShared};
use crate::description::{PeerMismatch, ServiceDescription};
use crate::error::{Closed, TrySubmitError};
use crate::events::{EventGate, Events, event_queue};
use crate::observer::Observer;
use crate::record::ServiceNumber;
use crate::stats::Stats;

/// The kind of a node: the orders of its driver, and the state of its handles.
pub trait Kind: Clone {
    /// An order that only this kind of driver accepts.
    type Order;
}

/// A handle to a running node, of either kind: [`Node`](crate::Node) or
/// [`FaceNode`](crate::FaceNode). Clones lead to the same node; when the last one is dropped the
/// node sends what is queued and stops.
pub struct Handle<P: Protocol, K: Kind> {
    inputs: mpsc::UnboundedSender<Submitted<P>>,
    node: NodeEnds<K::Order>,
    pub(crate) number: ServiceNumber,
    service: Arc<ServiceShared>,
    pub(crate) kind: K,
}

/// A node's ends of the queue to its driver.
pub(crate) struct NodeEnds<O> {
    controls: mpsc::UnboundedSender<Control<O>>,
    pub(crate) common: Arc<Common>,
}

impl<O> fmt::Debug for NodeEnds<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeEnds").field("common", &self.common).finish_non_exhaustive()
    }
}

impl<O> Clone for NodeEnds<O> {
    fn clone(&self) -> Self {
        NodeEnds { controls: self.controls.clone(), common: Arc::clone(&self.common) }
    }
}

impl<O> NodeEnds<O> {
    /// The ends of the queue of a node with this UDP socket. `events_bytes_max` unread bytes of
    /// events hold the node back. It stays without a service while `kept` is there.
    pub(crate) fn new(
        socket: (&std::net::UdpSocket, SocketAddr),
        events_bytes_max: usize,
        kept: Weak<()>,
    ) -> (NodeEnds<O>, DriverEnds<O>) {
        let (controls, controls_out) = mpsc::unbounded_channel();
        let gate = EventGate::new(events_bytes_max);
        let common = Arc::new(Common::new(socket, gate.waiting()));
        let ends = DriverEnds { kept, controls: controls_out, gate, common: Arc::clone(&common) };
        (NodeEnds { controls, common }, ends)
    }

    /// The ends of the queues of a service. `None` if the node has one of this number.
    pub(crate) fn service<P: Hosted, K: Kind<Order = O>>(
        &self,
        kind: K,
        (number, description): (ServiceNumber, Option<ServiceDescription>),
        parts: NodeParts<P>,
    ) -> Option<(Handle<P, K>, Events<P>, ServiceEnds)> {
        if !self.common.reserve(number, description.as_ref()) {
            return None;
        }
        let (inputs, inputs_out) = mpsc::unbounded_channel();
        let shared = Arc::new(ServiceShared::default());
        let (sender, events) = event_queue(&self.common.waiting, &shared.departure);
        let machine = queued(parts, inputs_out, sender);
        let ends = ServiceEnds { number, description, machine, shared: Arc::clone(&shared) };
        let handle = Handle { inputs, node: self.clone(), number, service: shared, kind };
        Some((handle, events, ends))
    }

    /// Passes an order to the driver.
    pub(crate) fn order(&self, order: O) -> Result<(), Closed> {
        self.controls.send(Control::Order(order)).map_err(|_| Closed)
    }

    /// Asks the driver for an end, and awaits it. Returns at once if it has already stopped.
    pub(crate) async fn stop(
        &self,
        control: impl FnOnce(oneshot::Sender<Stopped>) -> Control<O>,
    ) -> Stopped {
        let stopped = Stopped { abandoned_bytes: 0 };
        let (reply, answer) = oneshot::channel();
        match self.controls.send(control(reply)) {
            Ok(()) => answer.await.unwrap_or(stopped),
            Err(_) => stopped,
        }
    }

    /// The driver's counts at the end of its last turn.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.common.stats.snapshot();
        stats.held.events_bytes = self.common.waiting.bytes();
        stats
    }
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
        if !self.service.admission.try_take(bytes) {
            return Err(TrySubmitError::WouldBlock(command));
        }
        self.inputs.send((Input::Command(command), bytes)).map_err(|unsent| match unsent.0 {
            (Input::Command(command), _) => TrySubmitError::Closed(command),
            (Input::View(_), _) => unreachable!("a command was sent"),
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
        self.service.admission.take(bytes).await;
        self.input(Input::Command(make()), bytes)
    }

    /// Passes a command that needs no admission: the return of credits, a query.
    ///
    /// The queue to the protocol does not bound these, so their number must be bounded by
    /// something else, such as the events they answer.
    ///
    /// # Errors
    /// If the node has stopped; the command is dropped.
    pub fn command(&self, command: P::Command) -> Result<(), Closed> {
        self.input(Input::Command(command), 0)
    }

    /// Passes an input that was admitted with this number of bytes.
    pub(crate) fn input(&self, input: Input<P>, bytes: usize) -> Result<(), Closed> {
        self.inputs.send((input, bytes)).map_err(|_| Closed)
    }

    /// Passes an order to the driver.
    pub(crate) fn order(&self, order: K::Order) -> Result<(), Closed> {
        self.node.order(order)
    }

    /// Ends the service, after the commands submitted so far. If it is the node's only one, and no
    /// [`Endpoint`](crate::Endpoint) leads to the node, the node stops: it sends its queues and
    /// flushes its streams for at most `stop_within`, and closes its sockets. Else what the service
    /// has queued leaves while the node runs. Returns at once if the service has already ended.
    pub async fn stop(&self) -> Stopped {
        self.node.stop(|reply| Control::Stop(self.number, reply)).await
    }

    /// Waits until the protocol has left, as it was asked to, or the service has ended. True if it
    /// has left. The application need not read its events meanwhile.
    pub async fn departed(&self) -> bool {
        self.service.departure.departed().await
    }

    /// A handle that does not keep the service.
    pub fn downgrade(&self) -> WeakHandle<P, K> {
        WeakHandle {
            inputs: self.inputs.downgrade(),
            controls: self.node.controls.downgrade(),
            common: Arc::clone(&self.node.common),
            number: self.number,
            service: Arc::downgrade(&self.service),
            kind: self.kind.clone(),
        }
    }

    /// The counts of the service and of its node at the end of the last turn.
    pub fn stats(&self) -> Stats {
        let mut stats = self.node.stats();
        self.service.counters().drain_into(&mut stats.counters);
        stats
    }

    /// The number of the service.
    pub fn number(&self) -> ServiceNumber {
        self.number
    }

    /// Peers that got messages of this service and do not run it, 64 at most.
    pub fn mismatches(&self) -> Vec<PeerMismatch> {
        self.service.mismatches()
    }

    /// Reads what the service counts, and does not keep it.
    pub fn observer(&self) -> Observer {
        Observer::new(Arc::downgrade(&self.service))
    }

    /// The address that the node listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.node.common.local_addr
    }

    /// The receive buffer of the UDP socket that the kernel granted, in bytes: on Linux twice the
    /// requested size, at most twice `net.core.rmem_max`. 0 if unknown.
    pub fn datagram_receive_bytes(&self) -> usize {
        self.node.common.datagram_receive_bytes
    }
}

impl<P: Protocol, K: Kind> Clone for Handle<P, K> {
    fn clone(&self) -> Self {
        Handle {
            inputs: self.inputs.clone(),
            node: self.node.clone(),
            number: self.number,
            service: Arc::clone(&self.service),
            kind: self.kind.clone(),
        }
    }
}

/// Leads to a service and does not keep it; made by [`Handle::downgrade`].
pub struct WeakHandle<P: Protocol, K: Kind> {
    inputs: mpsc::WeakUnboundedSender<Submitted<P>>,
    controls: mpsc::WeakUnboundedSender<Control<K::Order>>,
    common: Arc<Common>,
    number: ServiceNumber,
    service: Weak<ServiceShared>,
    kind: K,
}

impl<P: Protocol, K: Kind> WeakHandle<P, K> {
    /// A handle, if another one is there.
    pub fn upgrade(&self) -> Option<Handle<P, K>> {
        let (controls, common) = (self.controls.upgrade()?, Arc::clone(&self.common));
        Some(Handle {
            inputs: self.inputs.upgrade()?,
            node: NodeEnds { controls, common },
            number: self.number,
            service: self.service.upgrade()?,
            kind: self.kind.clone(),
        })
    }
}
