//! Messages of several packets, put together from them.

use std::collections::VecDeque;

use super::fragment::Fragment;
use super::held::{Held, Way};
use crate::core::{Instant, Payload};

/// Bytes that a packet of an incomplete message counts for beyond its payload.
pub(super) const PART_OVERHEAD_BYTES: usize = 64;

/// What has become of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Packets of it are missing, or may still be sent.
    Open,
    /// It is lost. This many of its packets had come.
    Lost {
        /// See above.
        came: u32,
        /// The numbers from here on are reported lost already.
        end: u64,
    },
    /// It is of no concern to the application: its first packet was sent before this member heard
    /// the sender, or was reported lost before it was known to belong to a message.
    Ignored,
}

/// A message of which some packets have come.
#[derive(Debug)]
pub(super) struct Partial {
    /// The number of its first packet.
    pub(super) first: u64,
    packets: u16,
    bytes: u32,
    pub(super) progress: Progress,
    /// The first sign of any of its packets here. What others say of the time at which these came
    /// is not exact enough: a repair tells that of its first and of its last packet.
    pub(super) since: Instant,
    /// The least direct way by which any of its packets came.
    way: Way,
    /// Ascending by place. Empty unless the message is open.
    parts: Vec<(u16, Payload)>,
    held_bytes: usize,
}

impl Partial {
    /// The number after that of its last packet.
    pub(super) fn end(&self) -> u64 {
        self.first + u64::from(self.packets)
    }

    /// True once all packets have come.
    pub(super) fn is_whole(&self) -> bool {
        self.parts.len() == usize::from(self.packets)
    }

    fn contains(&self, seq: u64) -> bool {
        (self.first..self.end()).contains(&seq)
    }
}

/// A message, whole.
#[derive(Debug)]
pub(super) struct Assembled {
    pub(super) first: u64,
    pub(super) packets: u32,
    pub(super) payload: Payload,
    pub(super) since: Instant,
    pub(super) way: Way,
}

/// The messages of one sender to one group that are incomplete, wait for their turn, or were given
/// up while packets of them may still come.
///
/// Each has a packet in the window of the flow, and no two share one: there are no more of them
/// than the window has packets.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// Ascending by number, and disjoint.
    partials: VecDeque<Partial>,
    /// Bytes of the packets in them.
    held_bytes: usize,
}

impl Assembly {
    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let of_parts = |partial: &Partial| partial.parts.capacity() * size_of::<(u16, Payload)>();
        self.partials.capacity() * size_of::<Partial>()
            + self.partials.iter().map(of_parts).sum::<usize>()
    }

    /// The messages, in the order of their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Partial> {
        self.partials.iter()
    }

    /// The message that this packet is of, if it is known.
    pub(super) fn of(&self, seq: u64) -> Option<&Partial> {
        let after = self.partials.partition_point(|partial| partial.first <= seq);
        self.partials.get(after.checked_sub(1)?).filter(|partial| partial.contains(seq))
    }

    fn of_mut(&mut self, seq: u64) -> Option<&mut Partial> {
        let after = self.partials.partition_point(|partial| partial.first <= seq);
        self.partials.get_mut(after.checked_sub(1)?).filter(|partial| partial.contains(seq))
    }

    /// The number of the first message that begins after this packet.
    pub(super) fn next_after(&self, seq: u64) -> Option<u64> {
        let after = self.partials.partition_point(|partial| partial.first <= seq);
        self.partials.get(after).map(|partial| partial.first)
    }

    /// True if no known message contradicts this fragment: it has another length, or other packets.
    pub(super) fn agrees(&self, seq: u64, fragment: Fragment) -> bool {
        let (first, end) = (fragment.first_seq(seq), fragment.end(seq));
        match self.of(seq) {
            Some(known) => {
                known.first == first
                    && known.packets == fragment.packets
                    && known.bytes == fragment.bytes
            }
            None => {
                self.of(first).is_none() && self.next_after(first).is_none_or(|next| next >= end)
            }
        }
    }

    /// Begins a message, of which nothing was known.
    pub(super) fn begin(
        &mut self,
        first: u64,
        fragment: Fragment,
        since: Instant,
        progress: Progress,
    ) {
        let at = self.partials.partition_point(|partial| partial.first < first);
        let partial = Partial {
            first,
            packets: fragment.packets,
            bytes: fragment.bytes,
            progress,
            since,
            way: Way::Direct,
            parts: Vec::new(),
            held_bytes: 0,
        };
        self.partials.insert(at, partial);
    }

    /// Adds a packet to its message, if that is open. Each packet is added once.
    pub(super) fn add(&mut self, seq: u64, held: &Held) {
        let bytes = held.payload.len() + PART_OVERHEAD_BYTES;
        let Some(partial) = self.of_mut(seq) else { return };
        let index = (seq - partial.first) as u16;
        partial.since = partial.since.min(held.noted);
        partial.way = partial.way.max(held.way);
        let at = partial.parts.partition_point(|&(known, _)| known < index);
        partial.parts.insert(at, (index, held.payload.clone()));
        partial.held_bytes += bytes;
        self.held_bytes += bytes;
    }

    /// Gives a message up, and drops its packets. Returns how many there were.
    pub(super) fn close(&mut self, first: u64, end: u64) -> u32 {
        let Some(partial) = self.of_mut(first) else { return 0 };
        let came = std::mem::take(&mut partial.parts).len() as u32;
        partial.progress = Progress::Lost { came, end };
        let freed = std::mem::take(&mut partial.held_bytes);
        self.held_bytes -= freed;
        came
    }

    /// Removes a message that is whole.
    pub(super) fn take(&mut self, first: u64) -> Option<Assembled> {
        let at = self.partials.binary_search_by_key(&first, |partial| partial.first).ok()?;
        if !self.partials[at].is_whole() {
            return None;
        }
        let Partial { packets, since, way, parts, held_bytes, .. } = self.partials.remove(at)?;
        self.held_bytes -= held_bytes;
        let bare = |(_, packet): &(u16, Payload)| packet.slice(Fragment::HEAD_BYTES..packet.len());
        let parts: Vec<Payload> = parts.iter().map(bare).collect();
        let payload = Payload::concat(&parts);
        Some(Assembled { first, packets: packets.into(), payload, since, way })
    }

    /// Forgets messages that were given up, and of which no packet from `base` on is.
    pub(super) fn trim(&mut self, base: u64) {
        let is_past =
            |partial: &Partial| partial.end() <= base && partial.progress != Progress::Open;
        while self.partials.front().is_some_and(is_past) {
            self.partials.pop_front();
        }
    }

    /// Forgets all messages.
    pub(super) fn clear(&mut self) {
        *self = Assembly::default();
    }
}
