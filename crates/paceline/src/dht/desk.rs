//! Pending requests: hands the node's replies to the callers that wait for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use paceline_net::Events;
use paceline_proto::core::NodeId;
use paceline_proto::overlay::{Event, Key, Outcome, Overlay, RejectReason};
use tokio::sync::{OwnedSemaphorePermit, broadcast, mpsc, oneshot, watch};

use super::DhtStat;
use super::disk::{Disk, Write};
use super::error::DiskError;

/// A reply to a request, under its number; a request has several.
pub enum Told {
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
    told: mpsc::UnboundedSender<(u64, Told)>,
    open: usize,
    // Released when all outcomes have come, whether or not the caller has read them.
    _permit: OwnedSemaphorePermit,
}

#[derive(Default)]
struct Open {
    is_closed: bool,
    requests: HashMap<u64, Asked>,
    described: HashMap<u64, oneshot::Sender<DhtStat>>,
    // `None` once the node has stopped, so that readers end.
    deliveries: Option<broadcast::Sender<Delivery>>,
}

/// Deliveries that wait for each reader.
const DELIVERIES_MAX: usize = 1024;

/// A payload that was sent to keys for which this host is responsible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The host or guest that sent it.
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
    /// The next one; `None` once the host has stopped.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            match self.deliveries.recv().await {
                Ok(delivery) => return Some(delivery),
                Err(broadcast::error::RecvError::Lagged(count)) => self.missed += count,
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }

    /// Deliveries that were dropped because this reader was too slow.
    pub fn missed(&self) -> u64 {
        self.missed
    }
}

/// The pending requests of all callers.
pub struct Desk {
    open: Mutex<Open>,
    phase: watch::Sender<Phase>,
}

impl Desk {
    pub fn new() -> Desk {
        let deliveries = Some(broadcast::Sender::new(DELIVERIES_MAX));
        let open = Mutex::new(Open { deliveries, ..Open::default() });
        Desk { open, phase: watch::Sender::new(Phase::Starting) }
    }

    pub fn deliveries(&self) -> Deliveries {
        let subscribed = self.lock().deliveries.as_ref().map(broadcast::Sender::subscribe);
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
        told: mpsc::UnboundedSender<(u64, Told)>,
    ) {
        let mut open = self.lock();
        if open.is_closed {
            // The receiver may have stopped waiting.
            let _ = told.send((id, Told::Closed));
        } else {
            open.requests.insert(id, Asked { told, open: keys, _permit: permit });
        }
    }

    pub fn expect_description(&self, id: u64) -> oneshot::Receiver<DhtStat> {
        let (told, description) = oneshot::channel();
        let mut open = self.lock();
        if !open.is_closed {
            open.described.insert(id, told);
        }
        description
    }

    /// Delivers the node's events until it stops or the disk fails.
    pub async fn serve(self: Arc<Desk>, mut events: Events<Overlay>, disk: Option<Disk>) {
        let failed = match disk {
            None => {
                while let Some(event) = events.recv().await {
                    self.hand_out(event);
                }
                None
            }
            Some(disk) => self.serve_and_write(&mut events, disk).await.err(),
        };
        let mut open = self.lock();
        open.is_closed = true;
        for (id, asked) in open.requests.drain() {
            let _ = asked.told.send((id, Told::Closed));
        }
        open.described.clear();
        open.deliveries = None;
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
                let mut open = self.lock();
                let Some(asked) = open.requests.get_mut(&id) else { return };
                asked.open = asked.open.saturating_sub(outcomes.len());
                for (key, outcome) in outcomes {
                    // The receiver may have stopped waiting.
                    let _ = asked.told.send((id, Told::Outcome(key, outcome)));
                }
                if asked.open == 0 {
                    open.requests.remove(&id);
                }
            }
            Event::Rejected { id, reason } => {
                if let Some(asked) = self.lock().requests.remove(&id) {
                    let _ = asked.told.send((id, Told::Rejected(reason)));
                }
            }
            Event::Described { id, role, contacts, is_settled, missing, values, bytes } => {
                if let Some(told) = self.lock().described.remove(&id) {
                    let stat = DhtStat { role, contacts, is_settled, missing, values, bytes };
                    let _ = told.send(stat);
                }
            }
            Event::Delivered { origin, keys, payload } => {
                let payload = payload.to_bytes();
                if let Some(deliveries) = &self.lock().deliveries {
                    // Without a reader the delivery is dropped.
                    let _ = deliveries.send(Delivery { origin, keys, payload });
                }
            }
            // There is no file if there is no disk.
            Event::Persist { .. } | Event::Erase { .. } => {}
        }
    }

    // A panic while the lock is held leaves the state intact.
    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
