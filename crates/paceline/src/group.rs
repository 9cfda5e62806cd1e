use bytes::Bytes;
use paceline_net::{Events, Node, Stats, TrySubmitError};
use paceline_proto::chain::{Chain, Command, Config, Event, Topology, Urgency};
use paceline_proto::core::NodeId;
use thiserror::Error;

/// Messages that are consumed before their credit goes back together.
const CONSUMED_TOGETHER: usize = 8;

/// Why a message was not accepted; nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BroadcastError {
    /// It is larger than the group allows.
    #[error("message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The group's limit.
        bytes_max: usize,
    },
    /// The host has stopped.
    #[error("the host has stopped")]
    Closed,
}

/// Why a message was not accepted at once; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TryBroadcastError {
    /// Too much waits already; here is the message again.
    #[error("as much waits as is admitted")]
    WouldBlock(Bytes),
    /// It would not be accepted later either.
    #[error(transparent)]
    Refused(#[from] BroadcastError),
}

/// The sending side of a group. Clones send as the same member.
#[derive(Clone)]
pub struct Group {
    node: Node<Chain>,
    message_bytes_max: usize,
    topology: Option<Topology>,
    urgency: Urgency,
}

impl Group {
    pub(crate) fn new(node: Node<Chain>, config: &Config) -> Group {
        let message_bytes_max = config.message_bytes_max();
        Group { node, message_bytes_max, topology: None, urgency: Urgency::Throughput }
    }

    /// The same group, sending in this way whatever is configured.
    pub fn with_topology(&self, topology: Topology) -> Group {
        Group { topology: Some(topology), ..self.clone() }
    }

    /// The same group; where the planner chooses, it cares for this.
    pub fn with_urgency(&self, urgency: Urgency) -> Group {
        Group { urgency, ..self.clone() }
    }

    /// Sends a message to every member, oneself included, as soon as it is admitted. Once this
    /// returns it is accepted: it will reach every member that lives.
    ///
    /// # Errors
    /// If the message is too large or the host has stopped.
    pub async fn broadcast(&self, payload: impl Into<Bytes>) -> Result<(), BroadcastError> {
        let payload = payload.into();
        let bytes = self.checked_len(&payload)?;
        let submitted = self.node.submit(self.command(payload), bytes).await;
        submitted.map_err(|_| BroadcastError::Closed)
    }

    /// Sends a message if it is admitted now.
    ///
    /// # Errors
    /// [`TryBroadcastError::WouldBlock`] gives it back if too much waits.
    pub fn try_broadcast(&self, payload: impl Into<Bytes>) -> Result<(), TryBroadcastError> {
        let payload = payload.into();
        let bytes = self.checked_len(&payload)?;
        match self.node.try_submit(self.command(payload.clone()), bytes) {
            Ok(()) => Ok(()),
            Err(TrySubmitError::WouldBlock(_)) => Err(TryBroadcastError::WouldBlock(payload)),
            Err(TrySubmitError::Closed(_)) => Err(BroadcastError::Closed.into()),
        }
    }

    /// What the node counted.
    pub fn stats(&self) -> Stats {
        self.node.stats()
    }

    /// Sends what waits, for a bounded time, and stops the host.
    pub async fn stop(&self) {
        self.node.stop().await;
    }

    fn checked_len(&self, payload: &Bytes) -> Result<usize, BroadcastError> {
        let (bytes, bytes_max) = (payload.len(), self.message_bytes_max);
        if bytes > bytes_max {
            return Err(BroadcastError::TooLarge { bytes, bytes_max });
        }
        Ok(bytes)
    }

    fn command(&self, payload: Bytes) -> Command {
        let (topology, urgency) = (self.topology, self.urgency);
        Command::Broadcast { payload: payload.into(), topology, urgency }
    }
}

/// A message that reached this member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Who sent it.
    pub origin: NodeId,
    /// The origin's incarnation: another number after each start.
    pub incarnation: u64,
    /// The number of its first block at its origin; rises with every message.
    pub seq: u64,
    /// The message.
    pub payload: Bytes,
}

/// The receiving side of a group: every message of every member, oneself included, once, and of
/// each member in the order in which it sent.
///
/// Asking for the next message says that the last one is done with. Who does not ask slows the
/// senders down; nothing is lost.
pub struct Deliveries {
    node: Node<Chain>,
    events: Events<Chain>,
    // What was handed out or is done with, not yet told to the protocol: by origin, the end.
    consumed: Vec<(NodeId, u64)>,
    consumed_messages: usize,
}

impl Deliveries {
    pub(crate) fn new(node: Node<Chain>, events: Events<Chain>) -> Deliveries {
        Deliveries { node, events, consumed: Vec::new(), consumed_messages: 0 }
    }

    /// The next message; `None` once the host has stopped and all were received.
    pub async fn recv(&mut self) -> Option<Delivery> {
        loop {
            let event = match self.events.try_recv() {
                Some(event) => event,
                None => {
                    self.return_credit();
                    self.events.recv().await?
                }
            };
            if let Some(delivery) = self.take(event) {
                return Some(delivery);
            }
        }
    }

    /// The next message if there is one now.
    pub fn try_recv(&mut self) -> Option<Delivery> {
        while let Some(event) = self.events.try_recv() {
            if let Some(delivery) = self.take(event) {
                return Some(delivery);
            }
        }
        self.return_credit();
        None
    }

    fn take(&mut self, event: Event) -> Option<Delivery> {
        if self.consumed_messages >= CONSUMED_TOGETHER {
            self.return_credit();
        }
        // `Rejected` cannot come: the size was checked, and a host is in its roster.
        let Event::Delivered { origin, incarnation, seq, end, payload } = event else {
            return None;
        };
        self.consumed_messages += 1;
        match self.consumed.iter_mut().find(|(known, _)| *known == origin) {
            Some((_, through)) => *through = end,
            None => self.consumed.push((origin, end)),
        }
        Some(Delivery { origin, incarnation, seq, payload: payload.to_bytes() })
    }

    fn return_credit(&mut self) {
        self.consumed_messages = 0;
        for (origin, end) in self.consumed.drain(..) {
            // After a stop nobody needs the credit.
            let _ = self.node.command(Command::Consumed { origin, end });
        }
    }
}
