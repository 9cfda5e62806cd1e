//! Fragments: how a message that is longer than a packet is cut, and what each part says of it.

use bytes::{Buf, BufMut, BytesMut};

use super::seq::SEQ_MAX;
use crate::core::Payload;

/// The head of a fragment, in front of its part of the message.
///
/// ```text
/// index 2    packets 2    bytes of the message 4
/// ```
///
/// The packets of a message have consecutive numbers and equal lengths but for the last one, which
/// may be shorter. So the three fields determine the length of each fragment, and the number of a
/// fragment those of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its place among the packets of the message: 0, 1, 2, ...
    pub index: u16,
    /// How many packets the message has, at least 2.
    pub packets: u16,
    /// How long the message is.
    pub bytes: u32,
}

impl Fragment {
    /// Bytes of the head.
    pub const HEAD_BYTES: usize = 8;

    /// The first fragment of a message of this length, if a packet carries `payload_bytes_max`.
    /// `None` if it would have too many, or one.
    pub fn first(bytes: usize, payload_bytes_max: usize) -> Option<Fragment> {
        let part_bytes_max = payload_bytes_max.checked_sub(Fragment::HEAD_BYTES)?;
        let packets = bytes.checked_div(part_bytes_max)?;
        let packets = packets + usize::from(packets * part_bytes_max < bytes);
        let packets = u16::try_from(packets).ok().filter(|&packets| packets > 1)?;
        Some(Fragment { index: 0, packets, bytes: u32::try_from(bytes).ok()? })
    }

    /// Reads the head of a packet with this number and payload. `None` if it contradicts itself:
    /// the lengths and numbers that it implies are impossible.
    pub fn read(seq: u64, payload: &Payload) -> Option<Fragment> {
        let part_bytes = payload.len().checked_sub(Fragment::HEAD_BYTES)?;
        let mut head = &payload.slice(0..Fragment::HEAD_BYTES).to_bytes()[..];
        let fragment =
            Fragment { index: head.get_u16(), packets: head.get_u16(), bytes: head.get_u32() };
        let Fragment { index, packets, .. } = fragment;
        let is_sound = packets > 1
            && index < packets
            && part_bytes > 0
            && fragment.part().len() == part_bytes
            && fragment.packets_needed() == u32::from(packets)
            && seq >= u64::from(index)
            && fragment.end(seq) <= SEQ_MAX;
        is_sound.then_some(fragment)
    }

    /// The fragment after this one; `None` after the last.
    pub fn next(self) -> Option<Fragment> {
        let index = self.index + 1;
        (index < self.packets).then_some(Fragment { index, ..self })
    }

    /// The number of the message's first packet, if this one has number `seq`.
    pub fn first_seq(self, seq: u64) -> u64 {
        seq - u64::from(self.index)
    }

    /// The number after that of the message's last packet, if this one has number `seq`.
    pub fn end(self, seq: u64) -> u64 {
        self.first_seq(seq) + u64::from(self.packets)
    }

    /// The packet that carries this part of the message.
    pub fn packet(self, message: &Payload) -> Payload {
        let part = message.slice(self.part());
        let mut packet = BytesMut::with_capacity(Fragment::HEAD_BYTES + part.len());
        packet.put_u16(self.index);
        packet.put_u16(self.packets);
        packet.put_u32(self.bytes);
        part.for_each_chunk(|chunk| packet.put_slice(chunk));
        Payload::from(packet.freeze())
    }

    /// Where this part is in the message.
    fn part(self) -> std::ops::Range<usize> {
        let (part_bytes, bytes) = (self.part_bytes(), self.bytes as usize);
        let from = (usize::from(self.index) * part_bytes).min(bytes);
        from..(from + part_bytes).min(bytes)
    }

    /// The length of all parts but the last.
    fn part_bytes(self) -> usize {
        (self.bytes as usize).div_ceil(usize::from(self.packets.max(1)))
    }

    /// How many parts of that length a message has.
    fn packets_needed(self) -> u32 {
        self.bytes.div_ceil((self.part_bytes() as u32).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fragments(message: &Payload, payload_bytes_max: usize) -> Vec<Payload> {
        let first = Fragment::first(message.len(), payload_bytes_max).expect("it needs several");
        (0..first.packets).map(|index| Fragment { index, ..first }.packet(message)).collect()
    }

    #[test]
    fn the_parts_of_a_message_are_the_message_and_each_fits_a_packet() {
        for (bytes, payload_bytes_max) in
            [(1_001, 1_000), (2_000, 1_000), (1 << 16, 1_091), (1 << 20, 1_338), (5, 10), (7, 9)]
        {
            let message = Payload::from(Vec::from_iter((0..bytes).map(|at| (at % 251) as u8)));
            let packets = fragments(&message, payload_bytes_max);
            let mut parts = Vec::new();
            for (index, packet) in (0..).zip(&packets) {
                assert!(packet.len() <= payload_bytes_max, "{bytes} {payload_bytes_max}");
                let seq = 40 + u64::from(index);
                let fragment = Fragment::read(seq, packet).expect("it was cut so");
                assert_eq!((fragment.index, fragment.first_seq(seq)), (index, 40));
                assert_eq!(fragment.end(seq), 40 + packets.len() as u64);
                parts.push(packet.slice(Fragment::HEAD_BYTES..packet.len()));
            }
            assert_eq!(Payload::concat(&parts), message, "{bytes} {payload_bytes_max}");
        }
        assert_eq!(Fragment::first(992, 1_000), None, "one packet is no fragment");
        assert_eq!(Fragment::first(10, 8), None, "no room behind the head");
        assert_eq!(Fragment::first(1 << 20, 9), None, "more parts than can be numbered");
    }

    #[test]
    fn a_fragment_that_contradicts_itself_is_refused() {
        let good = |index, packets, bytes| Fragment { index, packets, bytes };
        let packet = |fragment: Fragment, part: usize| {
            let head = fragment.packet(&Payload::Zeros(fragment.bytes)).slice(0..8);
            Payload::concat(&[head, Payload::Zeros(part as u32)])
        };
        let read = |seq, fragment, part| Fragment::read(seq, &packet(fragment, part));
        assert!(read(9, good(2, 3, 25), 7).is_some());
        for (seq, fragment, part) in [
            (9, good(3, 3, 25), 7),
            (9, good(0, 1, 7), 7),
            (9, good(0, 0, 7), 7),
            (9, good(2, 3, 25), 8),
            (9, good(1, 3, 25), 7),
            (9, good(3, 4, 5), 0),
            (9, good(0, 65_535, 2), 1),
            (9, good(0, 3, 0), 0),
            (1, good(2, 3, 25), 7),
            (SEQ_MAX, good(2, 3, 25), 7),
        ] {
            assert_eq!(read(seq, fragment, part), None, "{seq} {fragment:?} {part}");
        }
        assert_eq!(Fragment::read(0, &Payload::from("short")), None);
    }
}
