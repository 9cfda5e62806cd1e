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

    /// Adds a walker that goes on to `to`; what is full by it leaves.
    pub(super) fn push_walker(
        &mut self,
        (config, datagram_bytes_max): (&BundleConfig, usize),
        now: Instant,
        to: NodeId,
        head: &Arc<Head>,
        walker: Traveller,
        mut leave: impl FnMut(Leaving),
    ) {
        let (first, more) = (head.bundle_bytes(), head.walker_bytes(&walker));
        let mut walkers = SmallVec::new();
        if config.walkers_max == 1 {
            walkers.push(walker);
            let message = Message::Walkers { head: head.clone(), walkers };
            return leave(leaving(to, message, first + more, datagram_bytes_max));
        }
        let key = (to, head.job, Direction::On);
        let limit = datagram_bytes_max.min(MESSAGE_BYTES_MAX);
        self.make_room(key, more, limit, &mut leave);
        self.begin(now);
        let open = self.open.entry(key).or_insert_with(|| {
            let message = Message::Walkers { head: head.clone(), walkers };
            Bundle { message, bytes: first }
        });
        open.bytes += more;
        let Message::Walkers { walkers, .. } = &mut open.message else { return };
        walkers.push(walker);
        let count = walkers.len();
        self.leave_if_full(key, count, (config, limit), &mut leave);
    }

    /// Adds a walk that has ended, for its home `to`; what is full by it leaves.
    pub(super) fn push_ended(
        &mut self,
        (config, datagram_bytes_max): (&BundleConfig, usize),
        now: Instant,
        head: &Head,
        walk: Ended,
        mut leave: impl FnMut(Leaving),
    ) {
        let (to, job, keeps_paths) = (head.home, head.job, head.keeps_paths);
        let (first, more) = (ended_head_bytes(), walk.bytes());
        let mut walks = SmallVec::new();
        if config.walkers_max == 1 {
            walks.push(walk);
            let message = Message::Ended { job, keeps_paths, walks };
            return leave(leaving(to, message, first + more, datagram_bytes_max));
        }
        let key = (to, job, Direction::Home);
        let limit = datagram_bytes_max.min(MESSAGE_BYTES_MAX);
        self.make_room(key, more, limit, &mut leave);
        self.begin(now);
        let open = self.open.entry(key).or_insert_with(|| {
            let message = Message::Ended { job, keeps_paths, walks };
            Bundle { message, bytes: first }
        });
        open.bytes += more;
        let Message::Ended { walks, .. } = &mut open.message else { return };
        walks.push(walk);
        let count = walks.len();
        self.leave_if_full(key, count, (config, limit), &mut leave);
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

    /// Lets a bundle leave that so many bytes more would make too long.
    fn make_room(
        &mut self,
        key: (NodeId, u64, Direction),
        more: usize,
        limit: usize,
        leave: &mut impl FnMut(Leaving),
    ) {
        if self.open.get(&key).is_some_and(|bundle| bundle.bytes + more > limit) {
            self.let_leave(key, limit, leave);
        }
    }

    fn begin(&mut self, now: Instant) {
        self.oldest.get_or_insert(now);
        self.walkers += 1;
    }

    fn leave_if_full(
        &mut self,
        key: (NodeId, u64, Direction),
        count: usize,
        (config, limit): (&BundleConfig, usize),
        leave: &mut impl FnMut(Leaving),
    ) {
        if count >= config.walkers_max || self.open.get(&key).is_some_and(|b| b.bytes >= limit) {
            self.let_leave(key, limit, leave);
        }
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
