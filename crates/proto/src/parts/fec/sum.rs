use bytes::BytesMut;

use super::gf256;
use crate::core::Payload;

/// A sum of packets, each times a coefficient, as a repair carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// The sum of the packets' lengths: each of the four bytes on its own, times the same
    /// coefficients. If no packet has more than 65,535 bytes, the upper half is zero and need not
    /// be sent.
    pub lengths: u32,
    /// The sum of the packets' bytes, as long as the longest.
    pub body: Payload,
}

/// Where a sum of packets is computed. The buffer is kept from one sum to the next.
///
/// Adding a packet a second time with the same coefficient takes it out again. A packet of
/// `Payload::Zeros` takes neither time nor memory, and a sum of such packets is `Zeros` itself.
#[derive(Debug, Default)]
pub struct Sum {
    lengths: u32,
    /// Bytes of the longest packet.
    len: usize,
    /// The first bytes of the sum, at most `len`. Zeros follow.
    body: BytesMut,
}

impl Sum {
    /// A sum of no packets, with capacity for packets of `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Sum {
        Sum { body: BytesMut::with_capacity(bytes), ..Sum::default() }
    }

    /// Back to a sum of nothing.
    pub fn clear(&mut self) {
        self.lengths = 0;
        self.len = 0;
        self.body.clear();
    }

    /// Adds a packet, or takes it out: the exclusive or of all that is added is the sum.
    pub fn add(&mut self, packet: &Payload) {
        self.add_times(packet, 1);
    }

    /// Adds a packet times a coefficient, or takes it out.
    pub fn add_times(&mut self, packet: &Payload, coefficient: u8) {
        self.add_parts(packet.len() as u32, packet.len(), bytes_of(packet), coefficient);
    }

    /// Adds what a repair carries, as it is.
    pub fn add_coded(&mut self, coded: &Coded) {
        self.add_parts(coded.lengths, coded.body.len(), bytes_of(&coded.body), 1);
    }

    /// Adds another sum times a coefficient.
    pub fn add_sum_times(&mut self, other: &Sum, coefficient: u8) {
        self.add_parts(other.lengths, other.len, &other.body, coefficient);
    }

    /// What a repair carries; back to a sum of nothing.
    ///
    /// The buffer goes with it, and is taken back by the next sum if the repair is gone by then.
    pub fn take_coded(&mut self) -> Coded {
        let (lengths, len) = (self.lengths, self.len);
        Coded { lengths, body: self.take_body(len) }
    }

    /// The packet that is left, once all others have been taken out; back to a sum of nothing.
    /// `None` if it is not one packet: its length and its bytes contradict each other.
    pub fn take_packet(&mut self) -> Option<Payload> {
        let len = self.lengths as usize;
        let is_packet = len <= self.len
            && self.body.iter().skip(len).all(|&beyond_its_end| beyond_its_end == 0);
        if !is_packet {
            self.clear();
            return None;
        }
        Some(self.take_body(len))
    }

    /// Bytes of the longest packet, whether they are in memory or not.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the packets, if any, have no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn add_parts(&mut self, lengths: u32, len: usize, bytes: &[u8], coefficient: u8) {
        if coefficient == 0 {
            return;
        }
        let times = |byte| gf256::multiply(byte, coefficient);
        self.lengths ^= u32::from_be_bytes(lengths.to_be_bytes().map(times));
        self.len = self.len.max(len);
        // What is beyond the sum's bytes so far is added to zeros.
        let (over, beyond) = bytes.split_at(bytes.len().min(self.body.len()));
        gf256::multiply_add(&mut self.body, over, coefficient);
        if coefficient == 1 {
            self.body.extend_from_slice(beyond);
        } else if !beyond.is_empty() {
            let old = self.body.len();
            self.body.resize(bytes.len(), 0);
            gf256::multiply_add(&mut self.body[old..], beyond, coefficient);
        }
    }

    fn take_body(&mut self, len: usize) -> Payload {
        let payload = if self.body.is_empty() {
            Payload::Zeros(len as u32)
        } else {
            self.body.resize(len, 0);
            Payload::Bytes(self.body.split().freeze())
        };
        self.clear();
        payload
    }
}

/// The bytes that are in memory; zeros need not be.
fn bytes_of(payload: &Payload) -> &[u8] {
    match payload {
        Payload::Bytes(bytes) => bytes,
        Payload::Zeros(_) => &[],
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;

    fn packets() -> impl Strategy<Value = Vec<Payload>> {
        let real = proptest::collection::vec(any::<u8>(), 0..80).prop_map(Payload::from);
        let zeros = (0u32..80).prop_map(Payload::Zeros);
        proptest::collection::vec(prop_oneof![3 => real, 1 => zeros], 1..12)
    }

    /// A packet as RFC 8681 sends it through the code: length, bytes, and zeros up to the longest.
    fn symbol(packet: &Payload, len: usize) -> Vec<u8> {
        let mut symbol = (packet.len() as u32).to_be_bytes().to_vec();
        symbol.extend_from_slice(&packet.to_bytes());
        symbol.resize(4 + len, 0);
        symbol
    }

    proptest! {
        #[test]
        fn a_sum_is_that_of_length_and_bytes_padded_with_zeros(packets in packets(), seed: u8) {
            let mut sum = Sum::default();
            let len = packets.iter().map(Payload::len).max().unwrap_or(0);
            let mut expected = vec![0; 4 + len];
            for (number, packet) in packets.iter().enumerate() {
                let coefficient = seed.wrapping_mul(number as u8);
                sum.add_times(packet, coefficient);
                // A packet that is not in the sum does not lengthen it either.
                if coefficient > 0 {
                    for (sum, term) in expected.iter_mut().zip(symbol(packet, len)) {
                        *sum ^= gf256::multiply(term, coefficient);
                    }
                }
            }
            let coded = sum.take_coded();
            let body = coded.body.to_bytes();
            prop_assert_eq!(&coded.lengths.to_be_bytes(), &expected[..4]);
            prop_assert_eq!(&expected[4..][..body.len()], &body);
            prop_assert!(expected[4..][body.len()..].iter().all(|&byte| byte == 0));
        }

        #[test]
        fn one_packet_is_what_all_others_taken_out_leave(packets in packets(), which: usize) {
            let mut sum = Sum::default();
            packets.iter().for_each(|packet| sum.add(packet));
            let coded = sum.take_coded();
            let mut left = Sum::default();
            left.add_coded(&coded);
            let lost = which % packets.len();
            let others = packets.iter().enumerate().filter(|&(number, _)| number != lost);
            others.for_each(|(_, packet)| left.add(packet));
            prop_assert_eq!(left.take_packet(), Some(packets[lost].clone()));
        }
    }

    #[test]
    fn zeros_stay_out_of_memory() {
        let mut sum = Sum::default();
        (1..9).for_each(|number| sum.add_times(&Payload::Zeros(number * 1_000_000), number as u8));
        let coded = sum.take_coded();
        assert!(matches!(coded.body, Payload::Zeros(8_000_000)), "{:?}", coded.body.len());
        assert_eq!(sum.body.capacity(), 0);
    }

    #[test]
    fn what_contradicts_itself_is_no_packet() {
        let mut sum = Sum::default();
        for (lengths, body) in [(3, "ab"), (1, "ab"), (1 << 31, "ab")] {
            sum.add_coded(&Coded { lengths, body: Payload::from(body) });
            assert_eq!(sum.take_packet(), None, "{lengths}");
            assert!(sum.is_empty());
        }
        let body = Payload::from(Bytes::from_static(b"ab\0"));
        sum.add_coded(&Coded { lengths: 2, body });
        assert_eq!(sum.take_packet(), Some(Payload::from("ab")));
    }

    #[test]
    fn the_buffer_is_taken_back_when_the_repair_is_gone() {
        let mut sum = Sum::with_capacity(64);
        let place = sum.body.as_ptr();
        for round in 0..100 {
            sum.add(&Payload::from(vec![round; 64]));
            sum.add(&Payload::from(vec![1; 60]));
            assert_eq!(sum.body.as_ptr(), place, "round {round}");
            drop(sum.take_coded());
        }
    }
}
