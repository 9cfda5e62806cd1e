use std::collections::VecDeque;

use super::message::{Frame, Lengths, MESSAGES_MAX, shared_bytes};
use super::pace::Pace;
use super::pipeline::Transfer;
use super::serve::drained_bytes;
use super::window::Window;
use super::{Config, Plan, Topology};
use crate::core::Payload;
use crate::parts::block_flow::Flight;

/// A message of this member that waits to be sent, or is half sent.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) payload: Payload,
    pub(super) blocks: u16,
    /// Blocks of it that were injected.
    pub(super) injected: u16,
    pub(super) plan: Plan,
}

/// An origin's record of its own blocks: which members have them and have consumed them, and what
/// waits.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub(super) waiting: VecDeque<Waiting>,
    /// Bytes that wait. An empty message counts as one byte, since it takes room too.
    pub(super) waiting_bytes: usize,
    pub(super) waiting_blocks: usize,
    /// The head message's way through the pipeline, if it goes that way.
    pub(super) transfer: Option<Transfer>,
    /// Small messages wait for more to share their block.
    pub(super) is_gathering: bool,
    /// The hop runs low: what waits leaves.
    pub(super) is_due: bool,
    /// The number of the next block.
    pub(super) next: u64,
    /// How fast blocks leave.
    pub(super) pace: Pace,
    /// The part of the window that messages through the pipeline may take.
    pub(super) window: Window,
    // By rank. This member's own row stays at the maximum.
    received: Watermarks,
    consumed: Watermarks,
    // The blocks from `consumed.lowest` on.
    flight: Flight,
    /// Progress of the window at the last check, and probes sent since then for credit that may
    /// have got lost.
    pub(super) probed_progress: u64,
    pub(super) probes: u32,
    /// The number up to which this member, when idle, has announced its blocks as stable.
    pub(super) announced: u64,
    // For each message that has left wholly and is not known to be everywhere: the number after
    // its last block.
    ends: VecDeque<u64>,
    /// Messages that are with every member.
    pub(super) messages_stable: u64,
    // What each member owes from earlier views, by rank, and the most of it; empty if nothing.
    unconsumed: Vec<Unconsumed>,
    unconsumed_max: Unconsumed,
}

/// A number a member, and the lowest of them, in amortised constant time.
#[derive(Debug, Default)]
struct Watermarks {
    marks: Vec<u64>,
    lowest: u64,
    // How many members are at `lowest`.
    at_lowest: usize,
}

impl Watermarks {
    fn new(members: usize) -> Watermarks {
        Watermarks { marks: vec![0; members], lowest: 0, at_lowest: members }
    }

    /// Raises a mark; never lowers one.
    fn raise(&mut self, rank: usize, mark: u64) {
        let old = self.marks[rank];
        if mark <= old {
            return;
        }
        self.marks[rank] = mark;
        if old == self.lowest {
            self.at_lowest -= 1;
            if self.at_lowest == 0 {
                self.lowest = self.marks.iter().copied().min().unwrap_or(0);
                self.at_lowest = self.marks.iter().filter(|&&mark| mark == self.lowest).count();
            }
        }
    }
}

impl Own {
    pub(super) fn new(rank: usize, members: usize) -> Own {
        let mut received = Watermarks::new(members);
        received.raise(rank, u64::MAX);
        Own { received, consumed: Watermarks::new(members), ..Own::default() }
    }

    /// How many members' marks are kept.
    pub(super) fn members(&self) -> usize {
        self.received.marks.len().min(self.consumed.marks.len())
    }

    /// Every member has the blocks below this.
    pub(super) fn stable(&self) -> u64 {
        self.received.lowest.min(self.next)
    }

    /// Every member's application has consumed the blocks below this.
    pub(super) fn consumed(&self) -> u64 {
        self.consumed.lowest
    }

    /// True if some member's application has not consumed something.
    pub(super) fn is_held_back(&self) -> bool {
        !self.flight.is_empty() || !self.unconsumed_max.is_nothing()
    }

    /// The ranks of the members that keep the window from moving.
    pub(super) fn holding_back(&self) -> impl Iterator<Item = usize> {
        (0..self.members()).filter(|&rank| self.holds_back(rank))
    }

    fn holds_back(&self, rank: usize) -> bool {
        let is_slowest =
            !self.flight.is_empty() && self.consumed.marks[rank] == self.consumed.lowest;
        is_slowest || self.unconsumed.get(rank).is_some_and(|unconsumed| !unconsumed.is_nothing())
    }

    /// The ranks of the members that have not acknowledged all blocks, or, if the window is closed,
    /// keep it so.
    pub(super) fn awaited(&self, is_closed: bool) -> impl Iterator<Item = usize> {
        let lacks = |rank: usize| self.received.marks[rank] < self.next;
        (0..self.members()).filter(move |&rank| lacks(rank) || (is_closed && self.holds_back(rank)))
    }

    /// The first block that some member has not acknowledged, and how many other members have.
    pub(super) fn first_unstable(&self) -> Option<(u64, usize)> {
        let first = self.received.lowest;
        let has = |&&mark: &&u64| mark > first;
        // This member's own mark is at the maximum.
        let have = || self.received.marks.iter().filter(has).count() - 1;
        (first < self.next).then(|| (first, have()))
    }

    /// A number that rises with whatever is consumed within a view.
    pub(super) fn progress(&self) -> u64 {
        let unconsumed = self
            .unconsumed
            .iter()
            .fold(0, |sum: u64, unconsumed| sum.saturating_add(unconsumed.bytes));
        self.consumed.lowest.wrapping_sub(unconsumed)
    }

    /// Unconsumed blocks of earlier views, by rank.
    pub(super) fn set_unconsumed(&mut self, unconsumed: Vec<Unconsumed>) {
        self.unconsumed_max =
            unconsumed.iter().copied().fold(Unconsumed::default(), Unconsumed::max);
        self.unconsumed = if self.unconsumed_max.is_nothing() { Vec::new() } else { unconsumed };
    }

    /// A member reports what it owes, which only falls.
    pub(super) fn lower_unconsumed(&mut self, rank: usize, unconsumed: Unconsumed) {
        if let Some(known) = self.unconsumed.get_mut(rank) {
            *known = known.min(unconsumed);
            let unconsumed = std::mem::take(&mut self.unconsumed);
            self.set_unconsumed(unconsumed);
        }
    }

    /// The member's debt once the view is over: unknown, unless it has consumed all.
    pub(super) fn unconsumed_of(&self, rank: usize) -> Unconsumed {
        if self.consumed.marks[rank] < self.next {
            return Unconsumed::UNKNOWN;
        }
        self.unconsumed.get(rank).copied().unwrap_or_default()
    }

    /// Blocks that some member's application has not consumed.
    pub(super) fn in_flight_blocks(&self) -> usize {
        self.flight.blocks()
    }

    /// The same in bytes.
    pub(super) fn in_flight_bytes(&self) -> usize {
        self.flight.bytes()
    }

    /// A block of this many bytes leaves.
    pub(super) fn inject(&mut self, bytes: usize) -> u64 {
        self.flight.send(bytes);
        self.next += 1;
        self.next - 1
    }

    /// How many messages at the head of the queue fit in one block together, whole ones that spread
    /// alike. If these are all that wait, also the bytes of further ones that would fit.
    pub(super) fn bundle(&self, config: &Config) -> (usize, usize) {
        let bytes_max = bundle_bytes_max(config);
        let topology = self.head();
        let mut bytes = 0;
        for (count, message) in self.waiting.iter().enumerate() {
            bytes += shared_bytes(message.payload.len());
            let is_alike = message.blocks == 1 && Some(message.plan.topology) == topology;
            if !is_alike || bytes > bytes_max || count == MESSAGES_MAX {
                return (count, 0);
            }
        }
        (self.waiting.len(), bytes_max - bytes)
    }

    /// What waits takes of a hop, about: bundled as far as it can be.
    pub(super) fn waiting_frames_bytes(&self, config: &Config) -> usize {
        let bytes = self.waiting_bytes + shared_bytes(0) * self.waiting_blocks;
        let bundles = bytes / bundle_bytes_max(config) + 1;
        self.waiting_bytes
            + 2 * self.waiting_blocks
            + bundles.min(self.waiting_blocks) * Frame::HEAD_BYTES
    }

    /// The payload of the next block and the lengths of its messages: a part of the head message,
    /// or it and what fits in one block with it.
    pub(super) fn next_block(&self, config: &Config, topology: Topology) -> (Payload, Lengths) {
        let head = self.waiting.front().expect("a head message waits");
        // The pipeline has a schedule for each message.
        let count = if topology == Topology::Pipeline { 1 } else { self.bundle(config).0 };
        if count > 1 {
            let messages = || self.waiting.iter().take(count).map(|message| &message.payload);
            let lengths = messages().map(|payload| payload.len() as u16).collect();
            let parts: Vec<Payload> = messages().cloned().collect();
            return (Payload::concat(&parts), Lengths::of(lengths));
        }
        let start = usize::from(head.injected) * config.block_bytes_max;
        let end = (start + config.block_bytes_max).min(head.payload.len());
        (head.payload.slice(start..end), Lengths::default())
    }

    /// A block of this many messages, or of these bytes of one, is the last that was injected.
    pub(super) fn note_injected(&mut self, messages: usize, bytes: usize) {
        for message in self.waiting.iter_mut().take(messages) {
            let left = if messages > 1 { message.payload.len() } else { bytes };
            self.waiting_bytes -= left.max(1);
            self.waiting_blocks -= 1;
            message.injected += 1;
            if message.injected == message.blocks {
                self.ends.push_back(self.next);
            }
        }
    }

    /// Counts the messages that have become stable.
    pub(super) fn settle_messages(&mut self) {
        let stable = self.stable();
        while self.ends.front().is_some_and(|&end| end <= stable) {
            self.ends.pop_front();
            self.messages_stable += 1;
        }
    }

    /// Messages that left wholly: the end of the view has made them stable.
    pub(super) fn messages_ended(&self) -> u64 {
        self.messages_stable + self.ends.len() as u64
    }

    /// A member acknowledged. False if it claims blocks that were never sent.
    pub(super) fn acknowledge(&mut self, rank: usize, received: u64, consumed: u64) -> bool {
        if received > self.next || consumed > received {
            return false;
        }
        self.received.raise(rank, received);
        self.raise_consumed(rank, consumed);
        true
    }

    /// This member's own application consumed.
    pub(super) fn raise_consumed(&mut self, rank: usize, consumed: u64) {
        let before = self.consumed.lowest;
        self.consumed.raise(rank, consumed);
        self.flight.consume(self.consumed.lowest - before);
    }

    /// True if the window has room for a block of this many bytes.
    pub(super) fn has_window(
        &self,
        bytes: usize,
        window_blocks: usize,
        window_bytes: usize,
    ) -> bool {
        let Unconsumed { blocks: unconsumed_blocks, bytes: unconsumed_bytes } = self.unconsumed_max;
        if self.flight.is_empty() && self.unconsumed_max.is_nothing() {
            return true;
        }
        let blocks = unconsumed_blocks.saturating_add(self.flight.blocks() as u64);
        let bytes = unconsumed_bytes.saturating_add((self.flight.bytes() + bytes) as u64);
        blocks < window_blocks as u64 && bytes <= window_bytes as u64
    }

    /// The topology of the message at the head of the queue.
    pub(super) fn head(&self) -> Option<Topology> {
        self.waiting.front().map(|message| message.plan.topology)
    }
}

/// The most that a bundle takes of a block: a longer block takes longer at each hop.
fn bundle_bytes_max(config: &Config) -> usize {
    config.block_bytes_max.min(config.message_bytes_max).min(drained_bytes(config))
}

/// An amount of messages that were delivered in earlier views and not consumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unconsumed {
    pub(super) blocks: u64,
    pub(super) bytes: u64,
}

impl Unconsumed {
    /// The value for a member that has not reported yet.
    pub(super) const UNKNOWN: Unconsumed = Unconsumed { blocks: u64::MAX, bytes: u64::MAX };

    pub(super) fn is_nothing(self) -> bool {
        self == Unconsumed::default()
    }

    pub(super) fn max(self, other: Unconsumed) -> Unconsumed {
        Unconsumed { blocks: self.blocks.max(other.blocks), bytes: self.bytes.max(other.bytes) }
    }

    pub(super) fn min(self, other: Unconsumed) -> Unconsumed {
        Unconsumed { blocks: self.blocks.min(other.blocks), bytes: self.bytes.min(other.bytes) }
    }

    pub(super) fn add(&mut self, other: Unconsumed) {
        self.blocks += other.blocks;
        self.bytes += other.bytes;
    }

    pub(super) fn subtract(&mut self, other: Unconsumed) {
        self.blocks -= other.blocks;
        self.bytes -= other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_member_decides_what_is_stable_and_what_the_window_holds() {
        let mut own = Own::new(1, 3);
        (0..4).for_each(|_| {
            own.inject(100);
        });
        assert!(own.acknowledge(0, 3, 2));
        assert_eq!((own.stable(), own.consumed()), (0, 0));
        assert!(own.acknowledge(2, 4, 1));
        assert_eq!((own.stable(), own.consumed()), (3, 0));
        own.raise_consumed(1, 4);
        assert_eq!((own.consumed(), own.in_flight_blocks(), own.in_flight_bytes()), (1, 3, 300));
        assert!(
            own.has_window(100, 4, 400)
                && !own.has_window(101, 4, 400)
                && !own.has_window(1, 3, 400)
        );
        assert!(!own.acknowledge(0, 5, 0), "more than was sent");
        assert!(own.acknowledge(0, 1, 0), "an old acknowledgement changes nothing");
        assert_eq!(own.stable(), 3);
    }
}
