use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};

use super::names::Key;
use super::{Broken, Rule};

/// How much later than its lifetime an entry may end.
const TICK: Duration = Duration::from_millis(50);
/// How long it is remembered which Interests a node saw.
const REMEMBERED: Duration = Duration::from_secs(10);
/// Interests that may end at a node before it forgets the nonce of another that has.
const ENDED_MIN: u64 = 16;

/// What a neighbour asked a node for, and was not given yet.
#[derive(Clone, Copy, Debug)]
struct Ask {
    /// Interests less answers. A copy that the link made may get none.
    open: u32,
    /// Nothing was asked since the last answer.
    is_answered: bool,
    expires_at: Instant,
    is_counted: bool,
    /// It asked by a face that is gone: its entry may stay until its time is over.
    is_of_old_face: bool,
    /// Until when an answer may come.
    kept_until: Instant,
    /// The most that its Data may be stamped with; none if none came.
    bound: Option<(u64, u64)>,
}

/// An Interest that a node saw.
#[derive(Clone, Debug, Default)]
struct Visit {
    /// When it came last; none if the node sent it itself.
    came_at: Option<Instant>,
    /// When it came last, the node waited for the Data, and this was the Interest that left last.
    came_while_pending: bool,
    /// The neighbours that it left for, when, and how many Interests had ended at the node by then.
    left: Vec<(NodeId, Instant, u64)>,
}

/// An Interest that leaves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    /// When it came; none if it is the node's own.
    pub(super) came_at: Option<Instant>,
    /// True if it had not left for another neighbour before.
    pub(super) is_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Entry(Key, NodeId),
    Ask(Key, NodeId),
    Visit(Key, u32),
}

/// What neighbours asked a node for, and which Interests it saw.
#[derive(Debug, Default)]
pub(super) struct Asks {
    asks: BTreeMap<(Key, NodeId), Ask>,
    visits: BTreeMap<(Key, u32), Visit>,
    /// The nonce that left last, by name.
    last: BTreeMap<Key, u32>,
    due: BinaryHeap<Reverse<(Instant, Due)>>,
    /// Asks whose entries may be there.
    entries: usize,
    /// Lower bound of the number of Interests that ended.
    ended: u64,
    /// Interests that were sent again after the node had evicted them from its history.
    pub(super) forgotten: u64,
}

impl Asks {
    /// Forgets what is over.
    pub(super) fn pass(&mut self, now: Instant) {
        while let Some(&Reverse((at, due))) = self.due.peek() {
            if at > now {
                return;
            }
            self.due.pop();
            match due {
                Due::Entry(key, peer) => {
                    if let Some(ask) = self.asks.get_mut(&(key, peer))
                        && ask.is_counted
                        && ask.expires_at + TICK < now
                    {
                        (ask.is_counted, ask.is_of_old_face) = (false, false);
                        self.entries -= 1;
                    }
                }
                Due::Ask(key, peer) => {
                    let ask = self.asks.get(&(key, peer));
                    if ask.is_some_and(|ask| !ask.is_counted && ask.kept_until <= now) {
                        self.asks.remove(&(key, peer));
                    }
                }
                Due::Visit(key, nonce) => {
                    self.visits.remove(&(key, nonce));
                    if self.last.get(&key) == Some(&nonce) {
                        self.last.remove(&key);
                    }
                }
            }
        }
    }

    /// A neighbour asks. The answer may wait for up to `wait_max`.
    pub(super) fn ask(
        &mut self,
        now: Instant,
        (key, nonce, peer): (Key, u32, NodeId),
        expires_at: Instant,
        wait_max: Duration,
    ) {
        let came_while_pending = self.open(now, key) > 0 && self.last.get(&key) == Some(&nonce);
        let ask = self.asks.entry((key, peer)).or_insert(Ask {
            open: 0,
            is_answered: false,
            expires_at,
            is_counted: false,
            is_of_old_face: false,
            kept_until: now,
            bound: None,
        });
        ask.open += 1;
        ask.is_answered = false;
        ask.expires_at = ask.expires_at.max(expires_at);
        self.entries += usize::from(!std::mem::replace(&mut ask.is_counted, true));
        let ends_at = ask.expires_at + TICK + Duration::from_nanos(1);
        self.due.push(Reverse((ends_at, Due::Entry(key, peer))));
        ask.kept_until = ask.kept_until.max(ends_at + wait_max);
        self.due.push(Reverse((ask.kept_until, Due::Ask(key, peer))));
        let visit = self.visits.entry((key, nonce)).or_insert_with(|| {
            self.due.push(Reverse((now + REMEMBERED, Due::Visit(key, nonce))));
            Visit::default()
        });
        // The last time: it may have been refused before.
        visit.came_at = Some(now);
        visit.came_while_pending = came_while_pending;
    }

    /// Interests for a name that wait for Data.
    fn open(&self, now: Instant, key: Key) -> u32 {
        let asks = self.asks.range((key, NodeId(0))..=(key, NodeId(u64::MAX)));
        let is_open = |ask: &Ask| {
            ask.open > 0 && !ask.is_answered && ask.expires_at > now && ask.bound.is_none()
        };
        asks.filter(|(_, ask)| is_open(ask)).map(|(_, ask)| ask.open).sum()
    }

    /// Data has arrived for the neighbours that asked; `bound` limits its stamp.
    pub(super) fn note_bound(&mut self, key: Key, bound: (u64, u64)) {
        for (_, ask) in self.asks.range_mut((key, NodeId(0))..=(key, NodeId(u64::MAX))) {
            let (primary, secondary) = ask.bound.unwrap_or((0, 0));
            ask.bound = Some((primary.max(bound.0), secondary.max(bound.1)));
        }
    }

    /// A neighbour is given Data, or refused. The most that the Data may be stamped with.
    pub(super) fn answer(
        &mut self,
        (key, peer): (Key, NodeId),
        what: &str,
    ) -> Result<Option<(u64, u64)>, Broken> {
        self.ended += 1;
        let Some(ask) = self.asks.get_mut(&(key, peer)).filter(|ask| ask.open > 0) else {
            return Err((Rule::Balance, format!("gives {peer} {what} for which it did not ask")));
        };
        ask.open -= 1;
        ask.is_answered = true;
        let bound = ask.bound;
        if ask.open == 0 {
            ask.bound = None;
        }
        if ask.open == 0 && !ask.is_of_old_face {
            self.entries -= usize::from(std::mem::replace(&mut ask.is_counted, false));
        }
        Ok(bound)
    }

    /// Something of the node's own has ended.
    pub(super) fn note_own_ended(&mut self) {
        self.ended += 1;
    }

    /// An Interest leaves for a neighbour. A strategy may send it to several, each once: one that
    /// comes back is refused, whatever next hops are left.
    pub(super) fn leave(
        &mut self,
        now: Instant,
        (key, nonce): (Key, u32),
        to: NodeId,
    ) -> Result<Left, Broken> {
        let is_last = self.last.get(&key) == Some(&nonce);
        // This one is open itself.
        let is_pending = is_last && self.open(now, key) > 1;
        let visit = self.visits.entry((key, nonce)).or_insert_with(|| {
            self.due.push(Reverse((now + REMEMBERED, Due::Visit(key, nonce))));
            Visit::default()
        });
        let earlier = visit.left.iter().position(|&(peer, ..)| peer == to);
        let earlier = earlier.map(|place| visit.left.swap_remove(place));
        if let Some((_, left_at, ended)) = earlier {
            let between = self.ended - ended;
            // Others may ask for the same while one that the node had forgotten waits to leave.
            let has_come_back = visit.came_at.is_some_and(|came_at| came_at > left_at);
            let is_pending = if has_come_back { visit.came_while_pending } else { is_pending };
            if between < ENDED_MIN || is_pending {
                let what = format!("an Interest with nonce {nonce:08x} left twice for {to}");
                return Err((Rule::Loop, what));
            }
            self.forgotten += 1;
        }
        let is_first = visit.left.is_empty() && earlier.is_none();
        visit.left.push((to, now, self.ended));
        self.last.insert(key, nonce);
        Ok(Left { came_at: visit.came_at, is_first })
    }

    /// The most entries that neighbours' Interests can have.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// A neighbour is removed: its pending Interests get no answer. Its entries may stay until they
    /// expire.
    pub(super) fn forget(&mut self, now: Instant, peer: NodeId) {
        for visit in self.visits.values_mut() {
            // A restarted neighbour has forgotten the Interests that it received.
            visit.left.retain(|&(to, ..)| to != peer);
            if visit.left.is_empty() && visit.came_at.is_some() {
                // It may have waited for that neighbour, and waits for another from now on.
                visit.came_at = Some(now);
            }
        }
        let of_peer = self.asks.iter_mut().filter(|((_, of), _)| *of == peer);
        of_peer.for_each(|(_, ask)| {
            (ask.open, ask.bound, ask.is_of_old_face) = (0, None, ask.is_counted);
        });
    }
}
