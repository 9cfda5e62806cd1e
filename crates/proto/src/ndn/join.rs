use std::fmt;

use bytes::BufMut;

use super::label::PathLabel;
use crate::core::DecodeError;

/// The rate that the primary class of one more flow would get at each hop of a path.
///
/// A stamp is the rate of flows that use a path; a join rate is the rate left for another flow.
/// Data collects one for each hop on its way back, in the order of its [`PathLabel`]. A consumer
/// compares paths by the join rates of the hops that its present path does not have.
///
/// A rate takes 16 bits: 5 bits of exponent and 11 of mantissa, `mantissa << exponent`, rounded
/// down, so 0.1 % exact from 1 Mbit/s on and at most 4.4 Tbit/s. All ones is a hop that knows none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JoinRates {
    /// The farthest hop first, as in a label.
    codes: [u16; PathLabel::HOPS_MAX],
    len: u8,
}

/// A hop without a controller, which limits nothing.
const UNKNOWN: u16 = u16::MAX;
const MANTISSA_BITS: u32 = 11;
const MANTISSA_MAX: u64 = (1 << MANTISSA_BITS) - 1;
const EXPONENT_MAX: u32 = (1 << (u16::BITS - MANTISSA_BITS)) - 1;

impl JoinRates {
    /// No hop: what Data leaves its producer with.
    pub const EMPTY: JoinRates = JoinRates { codes: [0; PathLabel::HOPS_MAX], len: 0 };

    /// Adds the rate of the hop over which Data came back, bit/s; `None` for a hop without a
    /// controller. Hops beyond those that a label can hold are left out.
    pub fn push_front(&mut self, bits_per_second: Option<u64>) {
        if let Some(free) = self.codes.get_mut(usize::from(self.len)) {
            *free = bits_per_second.map_or(UNKNOWN, encode);
            self.len += 1;
        }
    }

    /// The rates, bit/s, the nearest hop first; none for a hop that knows none.
    pub fn hops(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        self.codes[..self.len()].iter().rev().map(|&code| decode(code))
    }

    /// How many hops.
    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// True if there is no hop.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes the value of the field: two bytes a hop, the nearest first.
    pub(super) fn write(&self, out: &mut impl BufMut) {
        self.codes[..self.len()].iter().rev().for_each(|&code| out.put_u16(code));
    }

    /// Reads that value.
    pub(super) fn read(value: &[u8]) -> Result<JoinRates, DecodeError> {
        if value.is_empty() || value.len() % 2 == 1 || value.len() > 2 * PathLabel::HOPS_MAX {
            let value = value.len() as u64;
            return Err(DecodeError::OutOfRange { field: "join rates", value });
        }
        let mut rates = JoinRates::EMPTY;
        for pair in value.chunks_exact(2).rev() {
            rates.codes[rates.len()] = u16::from_be_bytes([pair[0], pair[1]]);
            rates.len += 1;
        }
        Ok(rates)
    }
}

fn encode(bits_per_second: u64) -> u16 {
    let bits = u64::BITS - bits_per_second.leading_zeros();
    let exponent = bits.saturating_sub(MANTISSA_BITS);
    if exponent > EXPONENT_MAX {
        return UNKNOWN - 1;
    }
    let code = (exponent << MANTISSA_BITS) as u16 | (bits_per_second >> exponent) as u16;
    code.min(UNKNOWN - 1)
}

fn decode(code: u16) -> Option<u64> {
    let (exponent, mantissa) = (code >> MANTISSA_BITS, u64::from(code) & MANTISSA_MAX);
    (code != UNKNOWN).then_some(mantissa << exponent)
}

impl Default for JoinRates {
    fn default() -> JoinRates {
        JoinRates::EMPTY
    }
}

impl fmt::Debug for JoinRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.hops()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_rounded_down_by_a_thousandth_at_most() {
        let mut rate = 1u64;
        while rate < 4_000_000_000_000 {
            let read = decode(encode(rate)).expect("a rate");
            assert!(read <= rate && rate - read <= rate / 1_024, "{rate} came out as {read}");
            rate += rate / 7 + 1;
        }
        for small in 0..2_048 {
            assert_eq!(decode(encode(small)), Some(small));
        }
        assert!(decode(encode(u64::MAX)) > Some(4_000_000_000_000), "it is cut, not unknown");
        assert_eq!(decode(UNKNOWN), None);
    }

    #[test]
    fn rates_come_out_nearest_first_and_survive_their_encoding() {
        let mut rates = JoinRates::EMPTY;
        [Some(9_000_000), None, Some(1_000)].into_iter().for_each(|rate| rates.push_front(rate));
        let found: Vec<_> = rates.hops().collect();
        assert_eq!(found[..2], [Some(1_000), None]);
        let mut bytes = Vec::new();
        rates.write(&mut bytes);
        assert_eq!((bytes.len(), JoinRates::read(&bytes)), (6, Ok(rates)));
        for refused in [&[][..], &[1], &[1; 3], &[1; 26]] {
            assert!(JoinRates::read(refused).is_err(), "{refused:?}");
        }
        (0..20).for_each(|_| rates.push_front(None));
        assert_eq!(rates.len(), PathLabel::HOPS_MAX);
    }
}
