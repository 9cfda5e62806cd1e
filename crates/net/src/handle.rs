//! What leads to a running driver and out of it: queues, counts, and the end.

use std::net::SocketAddr;
use std::sync::Arc;

use paceline_proto::core::{Context, Protocol, View};
use socket2::SockRef;
use tokio::sync::{mpsc, oneshot};

use crate::admission::Admission;
use crate::error::{Closed, TrySubmitError};
use crate::events::{EventSender, Events, Waiting, event_queue};
use crate::stats::{SharedStats, Stats};

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

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Stream bytes that could not be handed to the kernel in time.
    pub abandoned_bytes: usize,
}

/// What the application sends to the protocol, in order.
pub(crate) enum Input<P: Protocol> {
    /// A command, and the bytes that it was admitted with.
    Command(P::Command, usize),
    /// An installed view.
    View(Arc<View>),
}

impl<P: Protocol> Input<P> {
    /// The bytes that it was admitted with.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Input::Command(_, bytes) => *bytes,
            Input::View(_) => 0,
        }
    }

    /// Calls the protocol's handler for it.
    pub(crate) fn call(self, protocol: &mut P, cx: &mut Context<'_, P>) {
        match self {
            Input::Command(command, _) => protocol.handle_command(cx, command),
            Input::View(view) => protocol.handle_view(cx, &view),
        }
    }
}

/// What the application tells the driver, whose orders are `O`. Heeded even while the node is
/// paused.
pub(crate) enum Control<O> {
    /// Something that only this kind of driver knows.
    Order(O),
    /// Flush and stop.
    Stop(oneshot::Sender<Stopped>),
}

/// What driver and handles share.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) admission: Admission,
    pub(crate) stats: SharedStats,
    pub(crate) local_addr: SocketAddr,
    pub(crate) datagram_receive_bytes: usize,
    pub(crate) waiting: Arc<Waiting>,
}

/// The application's end of what leads to a running driver.
pub(crate) struct Handle<P: Protocol, O> {
    inputs: mpsc::UnboundedSender<Input<P>>,
    controls: mpsc::UnboundedSender<Control<O>>,
    pub(crate) common: Arc<Common>,
}

/// The driver's end.
pub(crate) struct Ends<P: Protocol, O> {
    pub(crate) inputs: mpsc::UnboundedReceiver<Input<P>>,
    pub(crate) controls: mpsc::UnboundedReceiver<Control<O>>,
    pub(crate) events: EventSender<P>,
    pub(crate) common: Arc<Common>,
}

/// The ends of all queues of a node with this UDP socket, which is held back at so many bytes of
/// events.
pub(crate) fn connect<P: Protocol, O>(
    udp: &std::net::UdpSocket,
    local_addr: SocketAddr,
    events_bytes_max: usize,
) -> (Handle<P, O>, Events<P>, Ends<P, O>) {
    let (inputs, inputs_out) = mpsc::unbounded_channel();
    let (controls, controls_out) = mpsc::unbounded_channel();
    let (events, events_out, waiting) = event_queue(events_bytes_max);
    let common = Arc::new(Common {
        admission: Admission::default(),
        stats: SharedStats::default(),
        local_addr,
        datagram_receive_bytes: SockRef::from(udp).recv_buffer_size().unwrap_or(0),
        waiting,
    });
    let ends =
        Ends { inputs: inputs_out, controls: controls_out, events, common: Arc::clone(&common) };
    (Handle { inputs, controls, common }, events_out, ends)
}

impl<P: Protocol, O> Handle<P, O> {
    /// Submits a command that counts `bytes`, if anything is admitted.
    pub(crate) fn try_submit(
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

    /// Makes a command once it is admitted, and submits it.
    pub(crate) async fn submit_with(
        &self,
        bytes: usize,
        make: impl FnOnce() -> P::Command,
    ) -> Result<(), Closed> {
        self.common.admission.take(bytes).await;
        self.input(Input::Command(make(), bytes))
    }

    /// Passes something that needs no admission.
    pub(crate) fn input(&self, input: Input<P>) -> Result<(), Closed> {
        self.inputs.send(input).map_err(|_| Closed)
    }

    /// Tells the driver something.
    pub(crate) fn order(&self, order: O) -> Result<(), Closed> {
        self.controls.send(Control::Order(order)).map_err(|_| Closed)
    }

    /// Stops the node and waits for its end.
    pub(crate) async fn stop(&self) -> Stopped {
        let stopped = Stopped { abandoned_bytes: 0 };
        let (reply, answer) = oneshot::channel();
        match self.controls.send(Control::Stop(reply)) {
            Ok(()) => answer.await.unwrap_or(stopped),
            Err(_) => stopped,
        }
    }

    /// What the node has counted.
    pub(crate) fn stats(&self) -> Stats {
        let mut stats = self.common.stats.snapshot();
        stats.held.events_bytes = self.common.waiting.bytes();
        stats
    }
}

impl<P: Protocol, O> Clone for Handle<P, O> {
    fn clone(&self) -> Self {
        Handle {
            inputs: self.inputs.clone(),
            controls: self.controls.clone(),
            common: Arc::clone(&self.common),
        }
    }
}
