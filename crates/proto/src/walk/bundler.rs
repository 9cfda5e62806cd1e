//! Walkers that leave for the same server, as one datagram.

use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use super::message::{Ended, Head, MESSAGE_BYTES_MAX, Message, Traveller, ended_head_bytes};
use super::waits::Waits;
use crate::core::{Context, Instant, Lane, NodeId, Protocol};
use crate::graphshare::BundleConfig;

/// Places that are kept while nothing waits in them, so that the next walkers find their own.
const KEPT_MAX: usize = 64;

/// Bundles that have not left, by receiver and job: each key holds one kind of message.
#[derive(Debug, Default)]
pub(super) struct Bundler {
    /// By their keys. Nothing may wait in some of them.
    open: Vec<(Key, Bundle)>,
    /// The last two places that were looked up: walkers come in bursts.
    latest: [usize; 2],
    /// Since when the oldest of these waits.
    oldest: Option<Instant>,
    walkers: usize,
    waits: Waits,
    /// When `flush` was last called, and about how long after the call before.
    looked: Instant,
    pause: Duration,
}

/// The receiver; the job, by its home and number; whether it goes on or home.
type Key = (NodeId, (NodeId, u64), Direction);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Direction {
    On,
    Home,
}

#[derive(Debug)]
struct Bundle {
    message: Message,
    bytes: usize,
    /// Arrival times and counts: walkers that came in the same call count together.
    came: SmallVec<[(Instant, u32); 4]>,
}

/// What the server's worker does after a [`flush`](Bundler::flush).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worker {
    /// It has no walker to serve: none in a bundle gets company soon.
    Idle,
    /// It serves walkers, and a timer calls when a bundle has waited long enough.
    Timed,
    /// It serves walkers, and the next call comes at an unknown time.
    Untimed,
}

/// An item that leaves the server.
pub(super) enum BundleItem {
    /// A walker that goes on.
    Walker(Traveller),
    /// A walk that has ended, on its way home.
    Ended(Ended),
}

impl BundleItem {
    fn direction(&self) -> Direction {
        match self {
            BundleItem::Walker(_) => Direction::On,
            BundleItem::Ended(_) => Direction::Home,
        }
    }

    /// Bytes of a message without any, and of this one in it.
    fn bytes(&self, head: &Head) -> (usize, usize) {
        match self {
            BundleItem::Walker(walker) => (head.bundle_bytes(), head.walker_bytes(walker)),
            BundleItem::Ended(walk) => (ended_head_bytes(), walk.bytes()),
        }
    }

    /// A message for it, still empty.
    fn message(&self, head: &Arc<Head>) -> Message {
        match self {
            BundleItem::Walker(_) => {
                Message::Walkers { head: head.clone(), walkers: SmallVec::new() }
            }
            BundleItem::Ended(_) => {
                let (job, trail) = (head.job, head.trail);
                Message::Ended { job, trail, walks: SmallVec::new() }
            }
        }
    }

    /// Goes into a message that was made for its like.
    fn load(self, message: &mut Message) {
        match (self, message) {
            (BundleItem::Walker(walker), Message::Walkers { walkers, .. }) => walkers.push(walker),
            (BundleItem::Ended(walk), Message::Ended { walks, .. }) => walks.push(walk),
            _ => unreachable!("each direction has messages of its own"),
        }
    }
}

impl Bundle {
    /// Takes what waits, and leaves room for the next.
    fn take(&mut self) -> Message {
        match &mut self.message {
            Message::Walkers { head, walkers } => {
                let walkers = take(walkers);
                Message::Walkers { head: head.clone(), walkers }
            }
            Message::Ended { job, trail, walks } => {
                let walks = take(walks);
                Message::Ended { job: *job, trail: *trail, walks }
            }
            Message::Graph(..) | Message::Barrier(_) => {
                unreachable!("only walkers and ended walks are bundled")
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.came.is_empty()
    }

    /// True if what has this head may go with it: a job's home may say of it now this, now that.
    fn is_of(&self, head: &Arc<Head>) -> bool {
        match &self.message {
            Message::Walkers { head: of, .. } => Arc::ptr_eq(of, head) || **of == **head,
            Message::Ended { trail, .. } => *trail == head.trail,
            Message::Graph(..) | Message::Barrier(_) => false,
        }
    }
}

/// Takes what is in it. Keeps capacity, so that a small bundle does not shrink the buffer of the
/// next large one.
fn take<T>(waiting: &mut SmallVec<[T; 1]>) -> SmallVec<[T; 1]> {
    let room = waiting.len().max(waiting.capacity() * 7 / 8);
    std::mem::replace(waiting, SmallVec::with_capacity(room))
}

impl Bundler {
    /// Walkers that wait here.
    pub(super) fn walkers(&self) -> usize {
        self.walkers
    }

    /// Waiting messages, with their receivers.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (NodeId, &Message)> {
        let waiting = self.open.iter().filter(|(_, bundle)| !bundle.is_empty());
        waiting.map(|((to, _, _), bundle)| (*to, &bundle.message))
    }

    /// The arrival time of the oldest waiting walker.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.oldest
    }

    /// How long walkers have waited here.
    pub(super) fn waits(&self) -> Waits {
        self.waits
    }

    /// Adds what is on its way to `to`; what is full by it leaves.
    pub(super) fn send<P: Protocol<Message = Message>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &BundleConfig,
        to: NodeId,
        head: &Arc<Head>,
        item: BundleItem,
    ) {
        let (first, more) = item.bytes(head);
        if config.walkers_max == 1 {
            let mut message = item.message(head);
            item.load(&mut message);
            return leave(cx, to, message, first + more);
        }
        let (now, limit) = (cx.now, limit(cx));
        let place = self.place((to, (head.home, head.job), item.direction()), head, &item);
        let bundle = &self.open[place].1;
        let is_of = bundle.is_of(head);
        if !bundle.is_empty() && (!is_of || bundle.bytes + more > limit) {
            self.send_bundle(cx, config, place);
        }
        if !is_of {
            self.open[place].1.message = item.message(head);
        }
        self.oldest.get_or_insert(now);
        self.walkers += 1;
        let bundle = &mut self.open[place].1;
        if bundle.is_empty() {
            bundle.bytes = first;
        }
        match bundle.came.last_mut().filter(|(at, _)| *at == now) {
            Some((_, count)) => *count += 1,
            None => bundle.came.push((now, 1)),
        }
        bundle.bytes += more;
        item.load(&mut bundle.message);
        if bundle.message.walkers() >= config.walkers_max || bundle.bytes >= limit {
            self.send_bundle(cx, config, place);
        }
    }

    /// Sends the bundles whose oldest walker has waited for `deadline`, or may have before the next
    /// call; all of them if the worker is idle.
    pub(super) fn flush<P: Protocol<Message = Message>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &BundleConfig,
        worker: Worker,
    ) {
        if config.walkers_max == 1 {
            return;
        }
        let now = cx.now;
        if now > self.looked {
            let pause = now.since(self.looked).min(config.deadline);
            self.pause = pause.max(self.pause * 3 / 4);
            self.looked = now;
        }
        let next = match worker {
            Worker::Timed => now,
            Worker::Idle | Worker::Untimed => now + self.pause,
        };
        let is_due = |since: Instant| {
            let until = since + config.deadline;
            worker == Worker::Idle || now >= until || next > until
        };
        if !self.oldest.is_some_and(is_due) {
            return;
        }
        let mut oldest: Option<Instant> = None;
        for place in 0..self.open.len() {
            let Some(&(since, _)) = self.open[place].1.came.first() else { continue };
            if is_due(since) {
                self.send_bundle(cx, config, place);
            } else {
                oldest = Some(oldest.map_or(since, |oldest| oldest.min(since)));
            }
        }
        self.oldest = oldest;
        if self.open.len() > KEPT_MAX && oldest.is_none() {
            self.open.clear();
        }
    }

    /// The place of the bundle for this key. Opens a bundle if the key has none.
    fn place(&mut self, key: Key, head: &Arc<Head>, item: &BundleItem) -> usize {
        let is_it = |place: &usize| self.open.get(*place).is_some_and(|(of, _)| *of == key);
        let [latest, before] = self.latest;
        let place = if is_it(&latest) {
            return latest;
        } else if is_it(&before) {
            before
        } else {
            match self.open.binary_search_by(|(of, _)| of.cmp(&key)) {
                Ok(place) => place,
                Err(place) => {
                    let came = SmallVec::new();
                    let bundle = Bundle { message: item.message(head), bytes: 0, came };
                    self.open.insert(place, (key, bundle));
                    place
                }
            }
        };
        self.latest = [place, latest];
        let bundle = &mut self.open[place].1;
        if let Message::Walkers { head: of, .. } = &mut bundle.message
            && bundle.came.is_empty()
            && !Arc::ptr_eq(of, head)
        {
            // The bundle is empty, and the job's description may have changed since the last
            // walker.
            *of = head.clone();
        }
        place
    }

    fn send_bundle<P: Protocol<Message = Message>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &BundleConfig,
        place: usize,
    ) {
        let ((to, _, _), bundle) = &mut self.open[place];
        for (at, walkers) in bundle.came.drain(..) {
            self.waits.count(cx.now.since(at), config.deadline, walkers.into());
            self.walkers -= walkers as usize;
        }
        leave(cx, *to, bundle.take(), bundle.bytes);
        // The walker that is the oldest now came no earlier than the previous oldest.
        if self.walkers == 0 {
            self.oldest = None;
        }
    }
}

/// The most bytes of a message that others wait for.
fn limit<P: Protocol>(cx: &Context<'_, P>) -> usize {
    cx.datagram_bytes_max.min(MESSAGE_BYTES_MAX)
}

/// A message leaves as a datagram, or, if a single walker is too long for one, on the stream.
fn leave<P: Protocol<Message = Message>>(
    cx: &mut Context<'_, P>,
    to: NodeId,
    message: Message,
    bytes: usize,
) {
    let lane = if bytes <= limit(cx) { Lane::Datagram } else { Lane::Stream };
    cx.send(to, lane, message);
}
