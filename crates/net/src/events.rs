//! The queue of events from a protocol to its application, and the count of its unread bytes.
//!
//! The queue itself has no bound: events that the application asked for, and those that a protocol
//! bounds by credit, always fit. Peers cause the rest ([`Protocol::event_bytes`]): while the
//! configured number of its bytes is unread the driver stops reading peers, and resumes once half
//! of them are received. No event is dropped. Events of timers, which neither peers nor the
//! application cause, are always queued.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use paceline_proto::core::{Counters, Protocol};
use tokio::sync::mpsc;

use crate::counters;
use crate::departure::Departure;

/// The events of the protocol, in order. Dropping it discards later events.
///
/// An application that does not receive stops its node from reading: this happens once
/// [`NodeConfig::with_events_bytes_max`](crate::NodeConfig::with_events_bytes_max) bytes are unread
/// that no credit of the protocol bounds.
pub struct Events<P: Protocol> {
    events: mpsc::UnboundedReceiver<P::Event>,
    waiting: Arc<Waiting>,
}

impl<P: Protocol> Events<P> {
    /// The next event; `None` once the node has stopped and all were received.
    pub async fn recv(&mut self) -> Option<P::Event> {
        let event = self.events.recv().await?;
        self.waiting.remove(P::event_bytes(&event));
        Some(event)
    }

    /// The next event if there is one now.
    pub fn try_recv(&mut self) -> Option<P::Event> {
        let event = self.events.try_recv().ok()?;
        self.waiting.remove(P::event_bytes(&event));
        Some(event)
    }

    /// True once the node has stopped or the service has ended. Events may still wait.
    pub fn is_closed(&self) -> bool {
        self.events.is_closed()
    }

    /// Waits for an event, then appends up to `limit` of them to `events`. Returns how many; 0
    /// once the node has stopped and all were received.
    pub async fn recv_many(&mut self, events: &mut Vec<P::Event>, limit: usize) -> usize {
        let before = events.len();
        let count = self.events.recv_many(events, limit).await;
        self.waiting.remove(events[before..].iter().map(P::event_bytes).sum());
        count
    }
}

impl<P: Protocol> Drop for Events<P> {
    fn drop(&mut self) {
        // No event will be received any more, so the driver must not wait for it.
        self.events.close();
        while self.try_recv().is_some() {}
    }
}

/// The protocol's end of the queue.
pub(crate) struct EventSender<P: Protocol> {
    events: mpsc::UnboundedSender<P::Event>,
    waiting: Arc<Waiting>,
    departure: Arc<Departure>,
}

/// The driver's view of the queues of all services: whether unread events stop it from reading
/// peers.
#[derive(Debug)]
pub(crate) struct EventGate {
    waiting: Arc<Waiting>,
    bytes_max: usize,
    is_holding: bool,
}

/// The queue of a service, whose unread bytes count with those of all queues of the node.
pub(crate) fn event_queue<P: Protocol>(
    waiting: &Arc<Waiting>,
    departure: &Arc<Departure>,
) -> (EventSender<P>, Events<P>) {
    let (sender, events) = mpsc::unbounded_channel();
    let (waiting, departure) = (Arc::clone(waiting), Arc::clone(departure));
    let sender = EventSender { events: sender, waiting: Arc::clone(&waiting), departure };
    (sender, Events { events, waiting })
}

impl<P: Protocol> EventSender<P> {
    /// Passes events on. Counts those whose receiver was dropped.
    pub(crate) fn send_all(&self, events: impl Iterator<Item = P::Event>, counters: &mut Counters) {
        for event in events {
            let bytes = P::event_bytes(&event);
            if P::is_departure(&event) {
                self.departure.note_left();
            }
            // Before it is sent: its receiver takes it off.
            self.waiting.add(bytes);
            if self.events.send(event).is_err() {
                self.waiting.remove(bytes);
                counters.add(counters::EVENT_DISCARDED, 1);
            }
        }
    }
}

impl EventGate {
    /// The gate of a driver that stops reading peers at `bytes_max` unread bytes.
    pub(crate) fn new(bytes_max: usize) -> EventGate {
        let waiting = Arc::new(Waiting { release_at: bytes_max / 2, ..Waiting::default() });
        EventGate { waiting, bytes_max, is_holding: false }
    }

    /// The count of unread bytes.
    pub(crate) fn waiting(&self) -> Arc<Waiting> {
        self.waiting.clone()
    }

    /// `waker` is woken once the driver may go on.
    pub(crate) fn set_waker(&self, waker: Waker) {
        // Set once, when the driver is assembled.
        let _ = self.waiting.waker.set(waker);
    }

    /// True while the driver must not read from peers.
    pub(crate) fn is_holding(&mut self, counters: &mut Counters) -> bool {
        let waiting = &self.waiting;
        if !self.is_holding {
            if waiting.bytes.load(SeqCst) < self.bytes_max {
                return false;
            }
            counters.add(counters::EVENT_HELD_PEERS, 1);
            self.is_holding = true;
            waiting.is_holding.store(true, SeqCst);
        }
        // After the flag is set: what is received from now on wakes the driver.
        if waiting.bytes.load(SeqCst) <= waiting.release_at {
            waiting.is_holding.store(false, SeqCst);
            self.is_holding = false;
        }
        self.is_holding
    }
}

/// The count of unread bytes, shared by both ends.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    bytes: AtomicUsize,
    is_holding: AtomicBool,
    release_at: usize,
    waker: OnceLock<Waker>,
}

impl Waiting {
    /// Bytes of waiting events that no credit bounds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(SeqCst)
    }

    // Most events of a busy protocol count nothing, and so touch no shared state.
    fn add(&self, bytes: usize) {
        if bytes > 0 {
            self.bytes.fetch_add(bytes, SeqCst);
        }
    }

    fn remove(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let left = self.bytes.fetch_sub(bytes, SeqCst) - bytes;
        if self.is_holding.load(SeqCst)
            && left <= self.release_at
            && let Some(waker) = self.waker.get()
        {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use paceline_proto::core::{Context, DecodeError, NodeId, Payload, Wire};

    use super::*;

    /// Tells numbers, each as long as it says.
    struct Numbers;

    #[derive(Clone)]
    struct Nothing;

    impl Wire for Nothing {
        fn wire_len(&self) -> usize {
            0
        }

        fn encode(&self, _: &mut bytes::BytesMut) -> Option<&Payload> {
            None
        }

        fn decode(_: &mut bytes::Bytes) -> Result<Nothing, DecodeError> {
            Ok(Nothing)
        }
    }

    impl Protocol for Numbers {
        type Message = Nothing;
        type Timer = ();
        type Command = ();
        type Event = usize;
        type Shared = ();

        fn handle_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, _: Nothing) {}

        fn event_bytes(event: &usize) -> usize {
            *event
        }
    }

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    #[test]
    fn a_driver_is_held_at_the_bound_and_woken_at_half_of_it() {
        let mut gate = EventGate::new(100);
        let (woken, waiting) = (Arc::new(Woken::default()), gate.waiting());
        let (sender, mut events) = event_queue::<Numbers>(&waiting, &Arc::default());
        gate.set_waker(woken.clone().into());
        let mut counters = Counters::default();
        sender.send_all([30, 0, 30, 39].into_iter(), &mut counters);
        assert!(!gate.is_holding(&mut counters));
        sender.send_all([40].into_iter(), &mut counters);
        assert_eq!(waiting.bytes(), 139);
        assert!(gate.is_holding(&mut counters) && gate.is_holding(&mut counters));
        assert_eq!(counters.count("event_held_peers"), 1);
        // 109, 109 and 79 are left.
        assert_eq!([(); 3].map(|()| events.try_recv()), [Some(30), Some(0), Some(30)]);
        assert!(gate.is_holding(&mut counters));
        assert_eq!(woken.0.load(SeqCst), 0);
        assert_eq!(events.try_recv(), Some(39));
        assert_eq!(woken.0.load(SeqCst), 1);
        assert!(!gate.is_holding(&mut counters));
        assert_eq!(events.try_recv(), Some(40));
        assert_eq!((woken.0.load(SeqCst), waiting.bytes()), (1, 0));
    }

    #[test]
    fn a_queue_that_nobody_will_read_holds_nobody() {
        let mut gate = EventGate::new(100);
        let waiting = gate.waiting();
        let (sender, events) = event_queue::<Numbers>(&waiting, &Arc::default());
        let mut counters = Counters::default();
        sender.send_all([70, 70].into_iter(), &mut counters);
        assert!(gate.is_holding(&mut counters));
        drop(events);
        assert!(!gate.is_holding(&mut counters));
        sender.send_all([70, 70].into_iter(), &mut counters);
        assert!(!gate.is_holding(&mut counters));
        assert_eq!((waiting.bytes(), counters.count("event_discarded")), (0, 2));
    }
}
