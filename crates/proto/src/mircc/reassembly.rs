//! Packets that a neighbour sent in several fragments, until all of them are here.
//!
//! A sender whose link has shorter packets than its Data splits these. Source: NDNLPv2, "Indexed
//! Fragmentation". Lost fragments are not sent again, so a packet that is not whole in time is
//! dropped, and the consumer asks again.
//!
//! All is bounded, for each face by itself: one neighbour cannot take the room of another.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use crate::core::Instant;
use crate::ndn::{Fragment, Header, NackReason};
use crate::parts::deadline::Deadline;

/// Packets of a face that may be incomplete.
const PACKETS_MAX: usize = 16;
/// Bytes of their fragments.
const BYTES_MAX: usize = 64 << 10;
/// Fragments of a packet: a bit each in [`Incomplete::held`].
const FRAGMENTS_MAX: u32 = u64::BITS;
/// How long a packet may be incomplete.
const TIME_MAX: Duration = Duration::from_millis(500);

/// A packet of which some fragments are here.
#[derive(Debug)]
struct Incomplete {
    /// The sequence number of its first fragment.
    first: u64,
    since: Instant,
    /// A bit for each fragment that is here.
    held: u64,
    /// By index; empty where it is not here. Copies, since a fragment shares a larger buffer.
    parts: Vec<Box<[u8]>>,
    bytes: usize,
    link_bytes: usize,
    /// Those of the first fragment.
    header: Header,
    nack: Option<NackReason>,
}

/// A packet whose fragments are all here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reassembled {
    pub(super) header: Header,
    pub(super) nack: Option<NackReason>,
    pub(super) bytes: Bytes,
    /// What the fragments took on the link.
    pub(super) link_bytes: usize,
}

/// The fate of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Other fragments of its packet are missing.
    Waits,
    /// It was the last one.
    Whole(Reassembled),
    /// It was here already.
    Duplicate,
    /// It is beyond a bound, or contradicts what is here of its packet. That packet is kept.
    Refused,
}

/// The incomplete packets of a face.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    // The oldest first.
    packets: Vec<Incomplete>,
    bytes: usize,
    /// When to check the oldest packet.
    pub(super) timer: Deadline,
    /// Packets that were dropped for lack of time or room and are not yet reported.
    dropped: u64,
}

impl Reassembly {
    /// Takes in a fragment, which took `link_bytes` on the link.
    pub(super) fn add(
        &mut self,
        now: Instant,
        header: Header,
        fragment: &Fragment,
        link_bytes: usize,
    ) -> Added {
        self.expire(now);
        let (first, index) = (fragment.first(), fragment.index);
        let count = fragment.count;
        let len = fragment.bytes.len();
        if !(2..=FRAGMENTS_MAX).contains(&count) || index >= count || len == 0 || len > BYTES_MAX {
            return Added::Refused;
        }
        let known = self.packets.iter().position(|packet| packet.first == first);
        if let Some(packet) = known.map(|place| &self.packets[place]) {
            if packet.parts.len() != count as usize || packet.bytes + len > BYTES_MAX {
                return Added::Refused;
            }
            if packet.held & 1 << index != 0 {
                return Added::Duplicate;
            }
        }
        self.make_room(first, len, known.is_none());
        let place = self.packets.iter().position(|packet| packet.first == first);
        let place = place.unwrap_or_else(|| {
            self.packets.push(Incomplete::new(first, now, count));
            self.packets.len() - 1
        });
        let packet = &mut self.packets[place];
        packet.held |= 1 << index;
        packet.parts[index as usize] = fragment.bytes[..].into();
        packet.bytes += len;
        packet.link_bytes += link_bytes;
        self.bytes += len;
        if index == 0 {
            (packet.header, packet.nack) = (header, fragment.nack);
        }
        if packet.held.count_ones() < count {
            return Added::Waits;
        }
        let packet = self.packets.remove(place);
        self.bytes -= packet.bytes;
        Added::Whole(packet.join())
    }

    /// Drops the oldest packets but this one until there is room for a fragment of it.
    fn make_room(&mut self, first: u64, len: usize, is_new: bool) {
        let packets_max = PACKETS_MAX - usize::from(is_new);
        while self.packets.len() > packets_max || self.bytes + len > BYTES_MAX {
            let Some(oldest) = self.packets.iter().position(|packet| packet.first != first) else {
                return;
            };
            self.drop_at(oldest);
        }
    }

    /// Drops what has been incomplete for too long.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.packets.first().is_some_and(|oldest| now >= oldest.since + TIME_MAX) {
            self.drop_at(0);
        }
    }

    fn drop_at(&mut self, place: usize) {
        self.bytes -= self.packets.remove(place).bytes;
        self.dropped += 1;
    }

    /// Packets that were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }

    /// When to drop the oldest packet.
    pub(super) fn due(&self) -> Option<Instant> {
        self.packets.first().map(|oldest| oldest.since + TIME_MAX)
    }

    /// Bytes of memory that it holds.
    pub(super) fn memory_bytes(&self) -> usize {
        let parts = self.packets.iter().map(|packet| packet.parts.len()).sum::<usize>();
        self.bytes + parts * size_of::<Box<[u8]>>() + self.packets.len() * size_of::<Incomplete>()
    }
}

impl Incomplete {
    fn new(first: u64, since: Instant, count: u32) -> Incomplete {
        Incomplete {
            first,
            since,
            held: 0,
            parts: vec![Box::default(); count as usize],
            bytes: 0,
            link_bytes: 0,
            header: Header::default(),
            nack: None,
        }
    }

    fn join(self) -> Reassembled {
        let mut bytes = BytesMut::with_capacity(self.bytes);
        self.parts.iter().for_each(|part| bytes.extend_from_slice(part));
        Reassembled {
            header: self.header,
            nack: self.nack,
            bytes: bytes.freeze(),
            link_bytes: self.link_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn fragment(first: u64, index: u32, count: u32, bytes: &[u8]) -> Fragment {
        let sequence = first.wrapping_add(index.into());
        Fragment { sequence, index, count, nack: None, bytes: Bytes::copy_from_slice(bytes) }
    }

    fn add(held: &mut Reassembly, millis: u64, fragment: &Fragment) -> Added {
        held.add(at(millis), Header::default(), fragment, fragment.bytes.len() + 50)
    }

    fn whole(added: Added) -> Option<Vec<u8>> {
        match added {
            Added::Whole(packet) => Some(packet.bytes.to_vec()),
            _ => None,
        }
    }

    /// Parts of this many bytes.
    fn split(first: u64, content: &[u8], len: usize) -> Vec<Fragment> {
        let parts = content.chunks(len);
        let count = parts.len() as u32;
        (0..count).zip(parts).map(|(index, part)| fragment(first, index, count, part)).collect()
    }

    #[test]
    fn the_header_of_a_packet_is_that_of_its_first_fragment() {
        let mut held = Reassembly::default();
        let marked = |mark| Header { congestion_mark: mark, ..Header::default() };
        let last = fragment(u64::MAX, 1, 2, b"b");
        assert_eq!(held.add(at(0), marked(1), &last, 60), Added::Waits);
        let mut first = fragment(u64::MAX, 0, 2, b"a");
        first.nack = Some(NackReason::Congestion);
        let Added::Whole(packet) = held.add(at(1), marked(7), &first, 61) else { panic!("all") };
        assert_eq!((packet.header.congestion_mark, packet.link_bytes), (7, 121));
        assert_eq!((packet.nack, &packet.bytes[..]), (first.nack, &b"ab"[..]));
        assert_eq!((held.bytes, held.memory_bytes()), (0, 0));
    }

    #[test]
    fn a_packet_that_is_not_whole_in_time_is_dropped_and_a_late_fragment_completes_nothing() {
        let mut held = Reassembly::default();
        assert_eq!(add(&mut held, 0, &fragment(0, 0, 2, b"a")), Added::Waits);
        assert_eq!(add(&mut held, 100, &fragment(9, 0, 2, b"c")), Added::Waits);
        assert_eq!(held.due(), Some(at(500)));
        held.expire(at(499));
        assert_eq!(held.take_dropped(), 0);
        assert_eq!(add(&mut held, 500, &fragment(0, 1, 2, b"b")), Added::Waits);
        assert_eq!((held.take_dropped(), held.due()), (1, Some(at(600))));
        assert_eq!(whole(add(&mut held, 599, &fragment(9, 1, 2, b"d"))), Some(b"cd".to_vec()));
        held.expire(at(1_000));
        assert_eq!((held.take_dropped(), held.due(), held.memory_bytes()), (1, None, 0));
    }

    #[test]
    fn duplicates_and_contradictions_change_nothing() {
        let mut held = Reassembly::default();
        assert_eq!(add(&mut held, 0, &fragment(5, 0, 3, b"a")), Added::Waits);
        assert_eq!(add(&mut held, 0, &fragment(5, 0, 3, b"x")), Added::Duplicate);
        // Another count for the same packet; counts and indices that there are not.
        for (index, count) in [(1, 2), (1, 4), (3, 3), (0, 0), (0, 1), (64, 65), (0, u32::MAX)] {
            let odd = fragment(5, index, count, b"y");
            assert_eq!(add(&mut held, 0, &odd), Added::Refused, "{index}/{count}");
        }
        assert_eq!(add(&mut held, 0, &fragment(5, 1, 3, b"")), Added::Refused);
        assert_eq!(add(&mut held, 0, &fragment(5, 2, 3, b"c")), Added::Waits);
        assert_eq!(whole(add(&mut held, 0, &fragment(5, 1, 3, b"b"))), Some(b"abc".to_vec()));
        assert_eq!(held.take_dropped(), 0);
    }

    #[test]
    fn of_too_many_packets_and_too_many_bytes_the_oldest_are_dropped() {
        let mut held = Reassembly::default();
        for packet in 0..40 {
            assert_eq!(add(&mut held, packet, &fragment(packet * 2, 0, 2, b"a")), Added::Waits);
            assert!(held.packets.len() <= PACKETS_MAX);
        }
        assert_eq!(held.take_dropped(), 40 - PACKETS_MAX as u64);
        assert_eq!(whole(add(&mut held, 40, &fragment(78, 1, 2, b"b"))), Some(b"ab".to_vec()));
        assert_eq!(add(&mut held, 40, &fragment(0, 1, 2, b"b")), Added::Waits, "it was dropped");
        let large = vec![7; 30_000];
        for packet in 100..110 {
            add(&mut held, 41, &fragment(packet * 4, 0, 3, &large));
            assert!(held.bytes <= BYTES_MAX);
        }
        // A packet that is too long by itself is not made room for.
        let newest = 109 * 4;
        assert_eq!(add(&mut held, 41, &fragment(newest, 1, 3, &large)), Added::Waits);
        assert_eq!(add(&mut held, 41, &fragment(newest, 2, 3, &large)), Added::Refused);
        assert_eq!((held.packets.len(), held.bytes), (1, 60_000));
    }

    proptest! {
        #[test]
        fn packets_are_put_together_in_whatever_order_and_however_often_fragments_come(
            contents in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 101..3_000), 1..8),
            base in any::<u64>(),
            len in 50usize..100,
            order in any::<u64>(),
        ) {
            let mut rng = crate::core::Rng::new(order, 0);
            let mut first = base;
            let mut fragments = Vec::new();
            for content in &contents {
                let parts = split(first, content, len.max(content.len().div_ceil(64)));
                first = first.wrapping_add(parts.len() as u64);
                fragments.extend(parts.iter().cloned());
                // Some come twice.
                fragments.extend(parts.into_iter().filter(|_| rng.next_u32().is_multiple_of(4)));
            }
            for place in (1..fragments.len()).rev() {
                fragments.swap(place, rng.next_u64() as usize % (place + 1));
            }
            let mut held = Reassembly::default();
            let mut found: Vec<Vec<u8>> = fragments
                .iter()
                .filter_map(|fragment| whole(add(&mut held, 0, fragment)))
                .collect();
            let mut contents = contents;
            contents.sort();
            found.sort();
            found.dedup();
            prop_assert_eq!(found, contents);
        }

        #[test]
        fn whatever_comes_the_bounds_hold(
            fragments in proptest::collection::vec(
                (
                    any::<u8>(),
                    0u32..70,
                    prop_oneof![0u32..70, any::<u32>()],
                    0usize..9_000,
                    0u64..40,
                ),
                1..200),
        ) {
            let mut held = Reassembly::default();
            let mut now = 0;
            for (first, index, count, len, pause) in fragments {
                now += pause;
                let part = fragment(first.into(), index, count, &vec![1; len]);
                add(&mut held, now, &part);
                prop_assert!(held.packets.len() <= PACKETS_MAX && held.bytes <= BYTES_MAX);
                let bytes: usize = held.packets.iter().map(|packet| packet.bytes).sum();
                prop_assert_eq!(held.bytes, bytes);
                let parts = PACKETS_MAX * FRAGMENTS_MAX as usize * size_of::<Box<[u8]>>();
                let packets = PACKETS_MAX * size_of::<Incomplete>();
                prop_assert!(held.memory_bytes() <= BYTES_MAX + parts + packets);
                prop_assert!(held.packets.iter().all(|packet| at(now) < packet.since + TIME_MAX));
            }
        }
    }
}
