//! Send queue of datagrams, in trains that leave with one call each.
//!
//! A datagram joins the train of its address if it is not longer than the train's datagrams, so
//! copies of messages to a group gather by peer. Order is kept for each address. Between addresses
//! it is not, with one exception: no datagram for a node overtakes an earlier one for a multicast
//! address.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use bytes::BytesMut;
use paceline_proto::core::Counters;

use crate::counters;
use crate::sys::Part;

/// Most bytes of one train.
const TRAIN_BYTES_MAX: usize = 60_000;
/// Most datagrams of one train.
pub(crate) const TRAIN_LENGTH_MAX: usize = 64;
/// Payload of an Ethernet packet with IPv4, and with IPv6. The kernel does not cut trains into
/// longer ones: a train of such would be refused as if nothing could be cut.
const PACKET_BYTES_MAX: [usize; 2] = [1_472, 1_452];
/// Bytes of spent train buffers that are kept. Each grows to the most that was ever in it, so in
/// time all of them would to [`TRAIN_BYTES_MAX`].
const SPARE_BYTES_MAX: usize = 256 << 10;

/// Datagrams for one address, all but the last of one size.
#[derive(Debug)]
struct Train {
    to: SocketAddr,
    segment_bytes: usize,
    length_max: usize,
    bytes: BytesMut,
}

impl Train {
    fn datagrams(&self) -> usize {
        self.bytes.len().div_ceil(self.segment_bytes)
    }

    /// Where the last datagram begins, and how long it may be: no longer than the others.
    fn last(&self, bytes_max: usize) -> (usize, usize) {
        let from = (self.datagrams() - 1) * self.segment_bytes;
        let room = (TRAIN_BYTES_MAX - from).min(bytes_max);
        (from, if from == 0 { room } else { room.min(self.segment_bytes) })
    }

    fn takes(&self, bytes: usize) -> bool {
        bytes <= self.segment_bytes
            && self.bytes.len().is_multiple_of(self.segment_bytes)
            && self.bytes.len() + bytes <= TRAIN_BYTES_MAX
            && self.datagrams() < self.length_max
    }
}

/// All trains, in the order in which they leave.
#[derive(Debug)]
pub(crate) struct Trains {
    trains: VecDeque<Train>,
    // How many of them, from the first on, are in the form in which they leave.
    ready: usize,
    // How many trains were there before the first.
    left: u64,
    // The number of the train that an address's next datagram may join, counted from the beginning.
    open: BTreeMap<SocketAddr, u64>,
    // The address that was queued for last, with its open train: found without a search.
    latest: Option<(SocketAddr, u64)>,
    queued_bytes: usize,
    queue_bytes_max: usize,
    length_max: usize,
    spare: Vec<BytesMut>,
    spare_bytes: usize,
}

impl Trains {
    /// No trains yet. They hold at most `queue_bytes_max` bytes, and each `length_max` datagrams.
    pub(crate) fn new(queue_bytes_max: usize, length_max: usize) -> Trains {
        Trains {
            trains: VecDeque::new(),
            ready: 0,
            left: 0,
            open: BTreeMap::new(),
            latest: None,
            queued_bytes: 0,
            queue_bytes_max,
            length_max,
            spare: Vec::new(),
            spare_bytes: 0,
        }
    }

    /// Queues one datagram of `bytes` bytes, which `write` appends.
    pub(crate) fn push(
        &mut self,
        to: SocketAddr,
        bytes: usize,
        counters: &mut Counters,
        write: impl FnOnce(&mut BytesMut),
    ) {
        let place = match self.open_place(to).filter(|&place| self.trains[place].takes(bytes)) {
            Some(place) => place,
            None => self.add(to, bytes),
        };
        self.latest = Some((to, self.left + place as u64));
        let train = &mut self.trains[place];
        let before = train.bytes.len();
        write(&mut train.bytes);
        debug_assert_eq!(train.bytes.len() - before, bytes, "`wire_len` is exact");
        self.queued_bytes += bytes;
        while self.queued_bytes > self.queue_bytes_max && self.trains.len() > 1 {
            counters.add(counters::DATAGRAM_QUEUE_OVERFLOW, self.drop_oldest() as u64);
        }
    }

    /// Lengthens the last datagram for this address, if it still waits, and `growth` says of its
    /// bytes by how many, and it gets no longer than `bytes_max` and its train permits. `write`
    /// finds the datagram at the end of the buffer, from the given place on. False if not.
    pub(crate) fn lengthen(
        &mut self,
        to: SocketAddr,
        bytes_max: usize,
        growth: impl FnOnce(&[u8]) -> Option<usize>,
        write: impl FnOnce(&mut BytesMut, usize),
    ) -> bool {
        let Some(place) = self.open_place(to) else { return false };
        let train = &mut self.trains[place];
        let (from, bytes_max) = train.last(bytes_max.min(cut_bytes_max(to)));
        let last = &train.bytes[from..];
        let Some(more) = growth(last).filter(|more| last.len() + more <= bytes_max) else {
            return false;
        };
        let before = train.bytes.len();
        write(&mut train.bytes, from);
        debug_assert_eq!(train.bytes.len() - before, more, "the growth is exact");
        if from == 0 {
            train.segment_bytes = train.bytes.len();
        }
        self.queued_bytes += more;
        true
    }

    /// Brings the datagrams that wait into the form in which they leave, if they are not in it:
    /// `cover` gets each and appends that form, or nothing if the datagram is not to leave. Later
    /// ones do not join or lengthen them.
    pub(crate) fn cover(
        &mut self,
        counters: &mut Counters,
        mut cover: impl FnMut(&[u8], &mut BytesMut),
    ) {
        if self.ready == self.trains.len() {
            return;
        }
        self.fence();
        let mut covered = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= covered.capacity();
        for train in self.trains.split_off(self.ready) {
            self.queued_bytes -= train.bytes.len();
            for datagram in train.bytes.chunks(train.segment_bytes) {
                covered.clear();
                cover(datagram, &mut covered);
                if !covered.is_empty() {
                    self.push(train.to, covered.len(), counters, |out| {
                        out.extend_from_slice(&covered);
                    });
                }
            }
            self.recycle(train.bytes);
        }
        self.recycle(covered);
        self.fence();
        self.ready = self.trains.len();
    }

    /// Drops the oldest train; returns its number of datagrams, 0 if no train waits.
    pub(crate) fn drop_oldest(&mut self) -> usize {
        if self.trains.is_empty() {
            return 0;
        }
        let oldest = self.remove_first();
        let datagrams = oldest.datagrams();
        self.recycle(oldest.bytes);
        datagrams
    }

    /// Bytes that wait.
    pub(crate) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Keeps order: later datagrams leave after all that are queued now.
    pub(crate) fn fence(&mut self) {
        self.open.clear();
        self.latest = None;
    }

    /// The parts of the queue in order, each with at most `segments_max` datagrams.
    pub(crate) fn parts(&self, segments_max: usize) -> impl Iterator<Item = Part<'_>> {
        self.trains.iter().flat_map(move |train| {
            let parts = train.bytes.chunks(train.segment_bytes * segments_max);
            let segment_bytes = train.segment_bytes;
            parts.map(move |bytes| Part { to: train.to, bytes, segment_bytes })
        })
    }

    /// Removes the first part, of this many bytes.
    pub(crate) fn remove_part(&mut self, bytes: usize) {
        let first = self.trains.front_mut().expect("it had a part");
        if bytes < first.bytes.len() {
            self.queued_bytes -= bytes;
            drop(first.bytes.split_to(bytes));
        } else {
            let first = self.remove_first();
            self.recycle(first.bytes);
        }
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.trains.is_empty()
    }

    /// The train that the address's next datagram may join.
    fn open_place(&self, to: SocketAddr) -> Option<usize> {
        let number = match self.latest {
            Some((latest, number)) if latest == to => number,
            _ => *self.open.get(&to)?,
        };
        Some((number - self.left) as usize)
    }

    fn add(&mut self, to: SocketAddr, segment_bytes: usize) -> usize {
        if to.ip().is_multicast() {
            self.fence();
        }
        let place = self.trains.len();
        self.open.insert(to, self.left + place as u64);
        let bytes = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= bytes.capacity();
        let length_max = if segment_bytes <= cut_bytes_max(to) { self.length_max } else { 1 };
        self.trains.push_back(Train { to, segment_bytes, length_max, bytes });
        place
    }

    fn remove_first(&mut self) -> Train {
        let first = self.trains.pop_front().expect("there is one");
        if self.open.get(&first.to) == Some(&self.left) {
            self.open.remove(&first.to);
        }
        self.latest.take_if(|(_, number)| *number == self.left);
        self.left += 1;
        self.ready = self.ready.saturating_sub(1);
        self.queued_bytes -= first.bytes.len();
        first
    }

    fn recycle(&mut self, mut buffer: BytesMut) {
        buffer.clear();
        if self.spare_bytes + buffer.capacity() <= SPARE_BYTES_MAX {
            self.spare_bytes += buffer.capacity();
            self.spare.push(buffer);
        }
    }
}

/// The longest datagrams of a train to this address.
fn cut_bytes_max(to: SocketAddr) -> usize {
    match to.ip().to_canonical() {
        ip if ip.is_loopback() => TRAIN_BYTES_MAX,
        IpAddr::V4(_) => PACKET_BYTES_MAX[0],
        IpAddr::V6(_) => PACKET_BYTES_MAX[1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn push(trains: &mut Trains, to: SocketAddr, bytes: usize) {
        trains.push(to, bytes, &mut Counters::default(), |out| {
            out.extend_from_slice(&[7; 1000][..bytes]);
        });
    }

    fn parts(trains: &Trains, segments_max: usize) -> Vec<(u16, usize)> {
        let parts = trains.parts(segments_max);
        parts.map(|part| (part.to.port(), part.datagrams())).collect()
    }

    #[test]
    fn equal_datagrams_to_one_address_share_a_train_and_a_longer_one_starts_another() {
        let mut trains = Trains::new(1 << 20, TRAIN_LENGTH_MAX);
        for bytes in [500, 500, 100, 500, 501] {
            push(&mut trains, addr(1), bytes);
        }
        assert_eq!(parts(&trains, 64), [(1, 3), (1, 1), (1, 1)], "a shorter one ends its train");
        assert_eq!(parts(&trains, 2), [(1, 2), (1, 1), (1, 1), (1, 1)]);
        trains.remove_part(1000);
        assert_eq!((parts(&trains, 64), trains.queued_bytes), (vec![(1, 1); 3], 1101));
    }

    #[test]
    fn datagrams_that_the_network_cuts_go_one_by_one() {
        let mut trains = Trains::new(1 << 20, TRAIN_LENGTH_MAX);
        let away: SocketAddr = ([10, 0, 0, 1], 2).into();
        for bytes in [1_472, 1_472, 1_473, 1_473] {
            for to in [addr(1), away] {
                trains.push(to, bytes, &mut Counters::default(), |out| {
                    out.extend_from_slice(&[7; 1_473][..bytes]);
                });
            }
        }
        assert_eq!(parts(&trains, 64), [(1, 2), (2, 2), (1, 2), (2, 1), (2, 1)]);
    }

    #[test]
    fn copies_for_several_peers_gather_by_peer() {
        let mut trains = Trains::new(1 << 20, TRAIN_LENGTH_MAX);
        for _ in 0..3 {
            for port in [1, 2, 3] {
                push(&mut trains, addr(port), 500);
            }
        }
        assert_eq!(parts(&trains, 64), [(1, 3), (2, 3), (3, 3)]);
        trains.remove_part(1500);
        push(&mut trains, addr(1), 500);
        push(&mut trains, addr(3), 500);
        assert_eq!(parts(&trains, 64), [(2, 3), (3, 4), (1, 1)]);
        for bytes in [1500, 2000, 500] {
            trains.remove_part(bytes);
        }
        assert!(trains.is_empty() && trains.open.is_empty());
        assert_eq!(trains.queued_bytes, 0);
    }

    #[test]
    fn nothing_for_a_node_gets_ahead_of_what_was_sent_to_a_group_before_it() {
        let mut trains = Trains::new(1 << 20, TRAIN_LENGTH_MAX);
        let [group, other]: [SocketAddr; 2] = [11, 12].map(|port| ([239, 192, 0, 1], port).into());
        push(&mut trains, addr(1), 500);
        push(&mut trains, group, 500);
        push(&mut trains, addr(1), 500);
        push(&mut trains, group, 500);
        assert_eq!(parts(&trains, 64), [(1, 1), (11, 2), (1, 1)]);
        push(&mut trains, other, 500);
        push(&mut trains, addr(1), 500);
        push(&mut trains, group, 500);
        let after = [(12, 1), (1, 1), (11, 1)];
        assert_eq!(parts(&trains, 64)[3..], after);
        trains.fence();
        push(&mut trains, group, 500);
        assert_eq!(parts(&trains, 64)[3..], [after.as_slice(), &[(11, 1)]].concat());
    }

    #[test]
    fn what_is_covered_keeps_its_order_and_takes_no_more() {
        let mut trains = Trains::new(1 << 20, TRAIN_LENGTH_MAX);
        for (port, bytes) in [(1, 500), (2, 500), (1, 500), (1, 100), (1, 300)] {
            push(&mut trains, addr(port), bytes);
        }
        let mut counters = Counters::default();
        let mut seen = Vec::new();
        trains.cover(&mut counters, |datagram, out| {
            seen.push(datagram.len());
            if datagram.len() != 300 {
                out.extend_from_slice(datagram);
                out.extend_from_slice(&[9; 16]);
            }
        });
        assert_eq!(seen, [500, 500, 100, 500, 300]);
        assert_eq!((parts(&trains, 64), trains.queued_bytes), (vec![(1, 3), (2, 1)], 1664));
        // A later one would have joined the second train.
        push(&mut trains, addr(2), 500);
        assert_eq!(parts(&trains, 64), [(1, 3), (2, 1), (2, 1)]);
        trains.remove_part(1148);
        let mut covered = Vec::new();
        trains.cover(&mut counters, |datagram, out| {
            covered.push(datagram.len());
            out.extend_from_slice(&[1; 516]);
        });
        assert_eq!((covered, parts(&trains, 64)), (vec![500], vec![(2, 1), (2, 1)]));
        trains.cover(&mut counters, |_, _| unreachable!("all are covered"));
        trains.remove_part(516);
        trains.remove_part(516);
        assert!(trains.is_empty() && trains.queued_bytes == 0 && counters.is_empty());
    }

    #[test]
    fn a_full_queue_drops_the_oldest_and_counts_it() {
        let mut trains = Trains::new(1200, TRAIN_LENGTH_MAX);
        let mut counters = Counters::default();
        for port in [1, 2, 3] {
            trains.push(addr(port), 500, &mut counters, |out| out.extend_from_slice(&[7; 500]));
        }
        assert_eq!(parts(&trains, 64), [(2, 1), (3, 1)]);
        assert_eq!(counters.count("datagram_queue_overflow"), 1);
        assert_eq!((trains.queued_bytes, trains.open.len()), (1000, 2));
    }

    #[test]
    fn little_memory_is_kept_of_bursts_of_any_number_and_length() {
        let (mut trains, mut counters) = (Trains::new(16 << 20, 64), Counters::default());
        for burst in 1..=200 {
            for number in 0..burst {
                let bytes = 1 + (number * 7_919) % 60_000;
                let write = |buffer: &mut BytesMut| buffer.resize(bytes, 0);
                trains.push(addr(number as u16), bytes, &mut counters, write);
            }
            while trains.drop_oldest() > 0 {}
            let kept: usize = trains.spare.iter().map(BytesMut::capacity).sum();
            assert_eq!(kept, trains.spare_bytes);
            assert!(kept > 0 && kept <= SPARE_BYTES_MAX, "{kept} bytes after {burst} trains");
        }
        assert!(trains.spare.len() >= 4);
    }
}
