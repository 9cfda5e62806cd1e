//! State that a driver shares with the handles to its node, and its ends of their queues.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use socket2::SockRef;
use tokio::sync::{mpsc, oneshot};

use crate::description::ServiceDescription;
use crate::events::{EventGate, Waiting};
use crate::record::ServiceNumber;
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
    /// End a service, and the node with it if it was started for this one.
    Stop(ServiceNumber, oneshot::Sender<Stopped>),
    /// End all services, flush and stop.
    StopNode(Option<oneshot::Sender<Stopped>>),
}

/// State shared by a driver and the handles of all services.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) stats: SharedStats,
    pub(crate) local_addr: SocketAddr,
    pub(crate) datagram_receive_bytes: usize,
    pub(crate) waiting: Arc<Waiting>,
    // The numbers of the services, each with the one that its kind and name alone have.
    numbers: Mutex<BTreeMap<ServiceNumber, ServiceNumber>>,
}

impl Common {
    /// What the driver of a node with this UDP socket shares with the handles.
    pub(crate) fn new(
        (udp, local_addr): (&std::net::UdpSocket, SocketAddr),
        waiting: Arc<Waiting>,
    ) -> Common {
        Common {
            stats: SharedStats::default(),
            local_addr,
            datagram_receive_bytes: SockRef::from(udp).recv_buffer_size().unwrap_or(0),
            waiting,
            numbers: Mutex::default(),
        }
    }

    /// Reserves a number for a service; false if another service has it, or the same kind and name.
    pub(crate) fn reserve(
        &self,
        number: ServiceNumber,
        description: Option<&ServiceDescription>,
    ) -> bool {
        let named = description.map_or(number, |known| ServiceNumber::of(&known.kind, &known.name));
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free =
            !numbers.contains_key(&number) && numbers.values().all(|&known| known != named);
        if is_free {
            numbers.insert(number, named);
        }
        is_free
    }

    /// The service of this number has ended.
    pub(crate) fn release(&self, number: ServiceNumber) {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }
}

/// The driver's end.
pub(crate) struct DriverEnds<O> {
    /// There while the node must stay without a service.
    pub(crate) kept: Weak<()>,
    pub(crate) controls: mpsc::UnboundedReceiver<Control<O>>,
    pub(crate) gate: EventGate,
    pub(crate) common: Arc<Common>,
}
