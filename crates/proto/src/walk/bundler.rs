//! Walkers that leave for the same server, as one datagram.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::config::BundleConfig;
use super::message::{Ended, Head, MESSAGE_BYTES_MAX, Message, Traveller, ended_head_bytes};
use crate::core::{Instant, Lane, NodeId};

/// What is on its way out, by receiver and job: each key holds one kind of message.
#[derive(Debug, Default)]
pub(super) struct Bundler {
    open: BTreeMap<(NodeId, u64, Direction), Bundle>,
    /// Since when the oldest of these waits.
    oldest: Option<Instant>,
    walkers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    On,
    Home,
}

#[derive(Debug)]
struct Bundle {
    message: Message,
    bytes: usize,
}

/// What is to leave.
pub(super) enum Cargo {
    /// A walker that goes on.
    Walker(Traveller),
    /// A walk that has ended, on its way home.
    Ended(Ended),
}

impl Cargo {
    fn direction(&self) -> Direction {
        match self {
            Cargo::Walker(_) => Direction::On,
            Cargo::Ended(_) => Direction::Home,
        }
    }

    /// Bytes of a message without any, and of this one in it.
    fn bytes(&self, head: &Head) -> (usize, usize) {
        match self {
            Cargo::Walker(walker) => (head.bundle_bytes(), head.walker_bytes(walker)),
            Cargo::Ended(walk) => (ended_head_bytes(), walk.bytes()),
        }
    }

    /// A message for it, still empty.
    fn message(&self, head: &Arc<Head>) -> Message {
        match self {
            Cargo::Walker(_) => Message::Walkers { head: head.clone(), walkers: SmallVec::new() },
            Cargo::Ended(_) => {
                let (job, keeps_paths) = (head.job, head.keeps_paths);
                Message::Ended { job, keeps_paths, walks: SmallVec::new() }
            }
        }
    }

    /// Goes into a message that was made for its like.
    fn load(self, message: &mut Message) {
        match (self, message) {
            (Cargo::Walker(walker), Message::Walkers { walkers, .. }) => walkers.push(walker),
            (Cargo::Ended(walk), Message::Ended { walks, .. }) => walks.push(walk),
            _ => unreachable!("each direction has messages of its own"),
        }
    }
}

/// What leaves: the receiver, how, and the message.
pub(super) type Leaving = (NodeId, Lane, Message);

impl Bundler {
    /// Walkers that wait here.
    pub(super) fn walkers(&self) -> usize {
        self.walkers
    }

    /// What waits, and for whom.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (NodeId, &Message)> {
        self.open.iter().map(|((to, _, _), bundle)| (*to, &bundle.message))
    }

    /// Adds what is on its way to `to`; what is full by it leaves.
    pub(super) fn push(
        &mut self,
        (config, datagram_bytes_max): (&BundleConfig, usize),
        now: Instant,
        to: NodeId,
        head: &Arc<Head>,
        cargo: Cargo,
        mut leave: impl FnMut(Leaving),
    ) {
        let (first, more) = cargo.bytes(head);
        if config.walkers_max == 1 {
            let mut message = cargo.message(head);
            cargo.load(&mut message);
            return leave(leaving(to, message, first + more, datagram_bytes_max));
        }
        let key = (to, head.job, cargo.direction());
        let limit = datagram_bytes_max.min(MESSAGE_BYTES_MAX);
        if self.open.get(&key).is_some_and(|bundle| bundle.bytes + more > limit) {
            self.let_leave(key, limit, &mut leave);
        }
        self.oldest.get_or_insert(now);
        self.walkers += 1;
        let open = self
            .open
            .entry(key)
            .or_insert_with(|| Bundle { message: cargo.message(head), bytes: first });
        open.bytes += more;
        cargo.load(&mut open.message);
        if open.message.walkers() >= config.walkers_max || open.bytes >= limit {
            self.let_leave(key, limit, &mut leave);
        }
    }

    /// Lets all leave if `is_idle`, else if the oldest has waited for `deadline`.
    pub(super) fn flush(
        &mut self,
        (config, datagram_bytes_max): (&BundleConfig, usize),
        now: Instant,
        is_idle: bool,
        mut leave: impl FnMut(Leaving),
    ) {
        let Some(oldest) = self.oldest else { return };
        if !is_idle && now.since(oldest) < config.deadline {
            return;
        }
        let limit = datagram_bytes_max.min(MESSAGE_BYTES_MAX);
        while let Some(((to, _, _), bundle)) = self.open.pop_first() {
            leave(leaving(to, bundle.message, bundle.bytes, limit));
        }
        (self.oldest, self.walkers) = (None, 0);
    }

    fn let_leave(
        &mut self,
        key: (NodeId, u64, Direction),
        limit: usize,
        leave: &mut impl FnMut(Leaving),
    ) {
        let Some(bundle) = self.open.remove(&key) else { return };
        self.walkers -= bundle.message.walkers();
        leave(leaving(key.0, bundle.message, bundle.bytes, limit));
        // Whoever is the oldest now has waited no longer than the one before.
        if self.open.is_empty() {
            self.oldest = None;
        }
    }
}

/// A message leaves as a datagram, or, if a single walker is too long for one, on the stream.
fn leaving(to: NodeId, message: Message, bytes: usize, datagram_bytes_max: usize) -> Leaving {
    let lane = if bytes <= datagram_bytes_max { Lane::Datagram } else { Lane::Stream };
    (to, lane, message)
}
