//! State that a driver shares with the handles to its node, and its ends of their queues.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use crate::admission::Admission;
use crate::chassis::machine::Machine;
use crate::events::{EventGate, Waiting};
use crate::stats::SharedStats;

/// How a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped {
    /// Stream bytes that could not be handed to the kernel in time.
    pub abandoned_bytes: usize,
}

/// Orders of the application to the driver, with `O` for those of its kind. The driver handles them
/// even while the node is paused.
pub(crate) enum Control<O> {
    /// An order of this kind of driver.
    Order(O),
    /// Flush and stop.
    Stop(oneshot::Sender<Stopped>),
}

/// State shared by driver and handles.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) admission: Admission,
    pub(crate) stats: SharedStats,
    pub(crate) local_addr: SocketAddr,
    pub(crate) datagram_receive_bytes: usize,
    pub(crate) waiting: Arc<Waiting>,
}

/// The driver's end.
pub(crate) struct DriverEnds<O> {
    pub(crate) machine: Box<dyn Machine>,
    pub(crate) controls: mpsc::UnboundedReceiver<Control<O>>,
    pub(crate) gate: EventGate,
    pub(crate) common: Arc<Common>,
}
