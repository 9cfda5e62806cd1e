//! Pending requests: hands the node's replies to the callers that wait for them.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use paceline_net::{Events, Pending};
use paceline_proto::core::NodeId;
use paceline_proto::overlay::{Event, Key, Outcome, Overlay, RejectReason};
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, oneshot, watch};

use super::DhtStat;
use super::disk::{Disk, Write};
use super::error::DiskError;
use crate::lock;
use crate::reader::TryRecvError;

/// A reply to a request, under its number; a request has several.
pub enum DhtReply {
    /// What became of a key.
    Outcome(Key, Outcome),
    /// It was not accepted.
    Rejected(RejectReason),
    /// The node has stopped.
    Closed,
}

/// The state of membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Joining.
    Starting,
    /// A member.
    In,
    /// No host answered.
    Unanswered,
    /// It has left.
    Left,
    /// The host has stopped, perhaps because its disk failed.
    Ended(Option<DiskError>),
}

struct Asked {
    reply_to: mpsc::UnboundedSender<(u64, DhtReply)>,
    open: usize,
    // Released when all outcomes have come, whether or not the caller has read them.
    _permit: OwnedSemaphorePermit,
}

/// Deliveries that wait for each reader.
const DELIVERIES_MAX: usize = 1024;

/// A payload that was sent to keys for which this host is responsible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The host or client that sent it.
    pub origin: NodeId,
    /// The keys for which this host is responsible, of those it was sent to: [`Key::of`] each.
    pub keys: Vec<Key>,
    /// The payload.
    pub payload: Bytes,
}

/// Payloads that reach this host by [`Dht::send_all`](super::Dht::send_all), from the call of
/// [`Dht::deliveries`](super::Dht::deliveries) on. 1,024 wait for each reader; the oldest of more
/// are dropped and counted.
#[derive(Debug)]
pub struct Deliveries {
    deliveries: broadcast::Receiver<Delivery>,
    missed: u64,
}

impl Deliveries {
    /// The next one; `None` once the service has ended.
    pub async fn recv(&mut self) -> Option<Delivery> {
        loop {
            match self.deliveries.recv().await {
                Ok(delivery) => return Some(delivery),
                Err(broadcast::error::RecvError::Lagged(count)) => self.missed += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// The next one if there is one now.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`] if no delivery waits; [`TryRecvError::Closed`] if the service has
    /// ended.
    pub fn try_recv(&mut self) -> Result<Delivery, TryRecvError> {
        loop {
            match self.deliveries.try_recv() {
                Ok(delivery) => return Ok(delivery),
                Err(broadcast::error::TryRecvError::Lagged(count)) => self.missed += count,
                Err(broadcast::error::TryRecvError::Empty) => return Err(TryRecvError::Empty),
                Err(broadcast::error::TryRecvError::Closed) => return Err(TryRecvError::Closed),
            }
        }
    }

    /// Deliveries that were dropped because this reader was too slow.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// The pending requests of all callers.
pub struct PendingReplies {
    requests: Pending<u64, Asked>,
    descriptions: Pending<u64, oneshot::Sender<DhtStat>>,
    // `None` once the node has stopped, so that readers end.
    deliveries: Mutex<Option<broadcast::Sender<Delivery>>>,
    phase: watch::Sender<Phase>,
}

impl PendingReplies {
    pub fn new() -> PendingReplies {
        PendingReplies {
            requests: Pending::default(),
            descriptions: Pending::default(),
            deliveries: Mutex::new(Some(broadcast::Sender::new(DELIVERIES_MAX))),
            phase: watch::Sender::new(Phase::Starting),
        }
    }

    pub fn deliveries(&self) -> Deliveries {
        let subscribed = lock(&self.deliveries).as_ref().map(broadcast::Sender::subscribe);
        // A host that has stopped: the receiver ends at once.
        let deliveries = subscribed.unwrap_or_else(|| broadcast::Sender::new(1).subscribe());
        Deliveries { deliveries, missed: 0 }
    }

    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Registers a request for this many keys.
    pub fn expect(
        &self,
        id: u64,
        keys: usize,
        permit: OwnedSemaphorePermit,
        reply_to: mpsc::UnboundedSender<(u64, DhtReply)>,
    ) {
        let asked = Asked { reply_to, open: keys, _permit: permit };
        if let Err(asked) = self.requests.add(id, asked) {
            // The receiver may have stopped waiting.
            let _ = asked.reply_to.send((id, DhtReply::Closed));
        }
    }

    pub fn expect_description(&self, id: u64) -> oneshot::Receiver<DhtStat> {
        self.descriptions.expect(id)
    }

    /// Delivers the node's events until it stops or the disk fails.
    pub async fn serve(self: Arc<PendingReplies>, mut events: Events<Overlay>, disk: Option<Disk>) {
        let failed = match disk {
            None => {
                while let Some(event) = events.recv().await {
                    self.hand_out(event);
                }
                None
            }
            Some(disk) => self.serve_and_write(&mut events, disk).await.err(),
        };
        for (id, asked) in self.requests.close() {
            let _ = asked.reply_to.send((id, DhtReply::Closed));
        }
        self.descriptions.close();
        *lock(&self.deliveries) = None;
        self.phase.send_replace(Phase::Ended(failed));
    }

    async fn serve_and_write(
        &self,
        events: &mut Events<Overlay>,
        mut disk: Disk,
    ) -> Result<(), DiskError> {
        loop {
            let event = tokio::select! {
                // A disk that fails ends the host, whether there is more to write or not.
                ended = disk.ended() => return ended,
                event = events.recv() => event,
            };
            let is_taken = match event {
                None => return disk.close().await,
                Some(Event::Persist { number, record }) => {
                    disk.write(Write::Keep(number, record)).await
                }
                Some(Event::Erase { key }) => disk.write(Write::Erase(key)).await,
                Some(event) => {
                    self.hand_out(event);
                    true
                }
            };
            if !is_taken {
                return disk.ended().await;
            }
        }
    }

    fn hand_out(&self, event: Event) {
        match event {
            Event::Joined => drop(self.phase.send_replace(Phase::In)),
            Event::Left => drop(self.phase.send_replace(Phase::Left)),
            Event::JoinFailed { .. } => drop(self.phase.send_replace(Phase::Unanswered)),
            Event::Outcome { id, outcomes } => {
                let is_last = self.requests.with(&id, |asked| {
                    asked.open = asked.open.saturating_sub(outcomes.len());
                    for (key, outcome) in outcomes {
                        // The receiver may have stopped waiting.
                        let _ = asked.reply_to.send((id, DhtReply::Outcome(key, outcome)));
                    }
                    asked.open == 0
                });
                if is_last == Some(true) {
                    self.requests.remove(&id);
                }
            }
            Event::Rejected { id, reason } => {
                if let Some(asked) = self.requests.remove(&id) {
                    let _ = asked.reply_to.send((id, DhtReply::Rejected(reason)));
                }
            }
            Event::Described { id, role, contacts, is_settled, missing, values, bytes } => {
                let stat = DhtStat { role, contacts, is_settled, missing, values, bytes };
                self.descriptions.answer(&id, stat);
            }
            Event::Delivered { origin, keys, payload } => {
                let payload = payload.to_bytes();
                if let Some(deliveries) = &*lock(&self.deliveries) {
                    // Without a reader the delivery is dropped.
                    let _ = deliveries.send(Delivery { origin, keys, payload });
                }
            }
            // There is no file if there is no disk.
            Event::Persist { .. } | Event::Erase { .. } => {}
        }
    }
}
