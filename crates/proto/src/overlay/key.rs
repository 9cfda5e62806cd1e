use std::fmt;
use std::ops::{Add, BitXor, Sub};
use std::str::FromStr;

use bytes::{Buf, BufMut, Bytes};

use crate::core::Rng;
use crate::core::field::{Field, check_room};
use crate::core::{DecodeError, NodeId, Payload, mix};

/// A point of the identifier space: 160 bits, big-endian. Keys of data and of nodes share it.
///
/// Arithmetic is modulo 2^160.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    // Most significant first, so that the derived order is that of the numbers.
    high: u64,
    middle: u64,
    low: u32,
}

impl Key {
    /// Bits of a key.
    pub const BITS: u32 = 160;
    /// Bytes of a key.
    pub const BYTES: usize = 20;
    /// Digits of four bits.
    pub const DIGITS: u32 = Key::BITS / 4;
    /// The smallest key.
    pub const ZERO: Key = Key { high: 0, middle: 0, low: 0 };
    /// The largest key.
    pub const MAX: Key = Key { high: u64::MAX, middle: u64::MAX, low: u32::MAX };

    /// Where a name lies: the first 160 bits of its BLAKE3 hash.
    pub fn of(name: &[u8]) -> Key {
        let mut bytes = [0; Key::BYTES];
        bytes.copy_from_slice(&blake3::hash(name).as_bytes()[..Key::BYTES]);
        Key::from_bytes(bytes)
    }

    /// The key of these bytes, the most significant first.
    pub fn from_bytes(bytes: [u8; Key::BYTES]) -> Key {
        let word = |from: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[from..from + 8]);
            u64::from_be_bytes(word)
        };
        let low = u32::from_be_bytes([bytes[16], bytes[17], bytes[18], bytes[19]]);
        Key { high: word(0), middle: word(8), low }
    }

    /// The bytes of this key, the most significant first.
    pub fn to_bytes(self) -> [u8; Key::BYTES] {
        let mut bytes = [0; Key::BYTES];
        bytes[..8].copy_from_slice(&self.high.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.middle.to_be_bytes());
        bytes[16..].copy_from_slice(&self.low.to_be_bytes());
        bytes
    }

    /// 2 to the power of `exponent`, which is below 160.
    pub fn power_of_two(exponent: u32) -> Key {
        match exponent {
            0..32 => Key { low: 1 << exponent, ..Key::ZERO },
            32..96 => Key { middle: 1 << (exponent - 32), ..Key::ZERO },
            _ => Key { high: 1 << (exponent - 96), ..Key::ZERO },
        }
    }

    /// How far it is from here to `to`, going up and round.
    pub fn clockwise_to(self, to: Key) -> Key {
        to - self
    }

    /// True if this key lies in the interval that begins after `from` and ends with `to`, going
    /// up and round. The whole circle if `from` is `to`.
    pub fn is_in(self, from: Key, to: Key) -> bool {
        from == to || (from != self && from.clockwise_to(self) <= from.clockwise_to(to))
    }

    /// True if this key lies strictly between the two, going up and round. All but `from` if
    /// `from` is `to`.
    pub fn is_between(self, from: Key, to: Key) -> bool {
        self != to && self != from && self.is_in(from, to)
    }

    /// How many of the first bits are 0: 160 for key 0.
    pub fn leading_zeros(self) -> u32 {
        match (self.high, self.middle) {
            (0, 0) => 128 + self.low.leading_zeros(),
            (0, middle) => 64 + middle.leading_zeros(),
            (high, _) => high.leading_zeros(),
        }
    }

    /// The digit of four bits at this place; the first has place 0.
    pub fn digit(self, place: u32) -> u8 {
        let word = match place {
            0..16 => self.high >> (60 - 4 * place),
            16..32 => self.middle >> (124 - 4 * place),
            _ => u64::from(self.low) >> (156 - 4 * place),
        };
        (word & 0xf) as u8
    }

    /// This key with another digit of four bits at this place.
    pub fn with_digit(self, place: u32, digit: u8) -> Key {
        let change = Key::from(u64::from(digit ^ self.digit(place)));
        self ^ change.shifted_left(4 * (Key::DIGITS - 1 - place))
    }

    /// For each place the digit here less the one there, modulo 16.
    pub fn digits_less(self, other: Key) -> Key {
        // All places at once: the top bit of each digit keeps a borrow from the next.
        fn less(x: u64, y: u64) -> u64 {
            const TOP: u64 = 0x8888_8888_8888_8888;
            ((x | TOP) - (y & !TOP)) ^ ((x ^ !y) & TOP)
        }
        Key {
            high: less(self.high, other.high),
            middle: less(self.middle, other.middle),
            low: less(u64::from(self.low), u64::from(other.low)) as u32,
        }
    }

    /// The largest key that has the same first `bits` bits.
    pub fn last_of_prefix(self, bits: u32) -> Key {
        let rest = Key::MAX.shifted_right(bits);
        Key {
            high: self.high | rest.high,
            middle: self.middle | rest.middle,
            low: self.low | rest.low,
        }
    }

    /// The first `bits` bits as a number; `bits` is at most 64.
    pub fn prefix(self, bits: u32) -> u64 {
        self.high.checked_shr(64 - bits).unwrap_or(0)
    }

    /// How many of the first digits the two share.
    pub fn digits_shared(self, other: Key) -> u32 {
        (self ^ other).leading_zeros() / 4
    }

    /// Moved up by `bits`; what leaves at the top is lost.
    pub fn shifted_left(self, bits: u32) -> Key {
        Key::from_wide(shift(self.to_wide(), i64::from(bits)))
    }

    /// Moved down by `bits`; what leaves at the bottom is lost.
    pub fn shifted_right(self, bits: u32) -> Key {
        Key::from_wide(shift(self.to_wide(), -i64::from(bits)))
    }

    // The upper 32 bits and the lower 128.
    fn to_wide(self) -> (u32, u128) {
        let lower =
            (u128::from(self.high) << 96) | (u128::from(self.middle) << 32) | u128::from(self.low);
        ((self.high >> 32) as u32, lower)
    }

    fn from_wide((upper, lower): (u32, u128)) -> Key {
        Key {
            high: (u64::from(upper) << 32) | (lower >> 96) as u64,
            middle: (lower >> 32) as u64,
            low: lower as u32,
        }
    }
}

fn shift((upper, lower): (u32, u128), left: i64) -> (u32, u128) {
    let bits = left.unsigned_abs() as u32;
    if left == 0 {
        (upper, lower)
    } else if left > 0 {
        let carried = if bits < 128 { lower >> (128 - bits) } else { lower << (bits - 128) };
        let kept = upper.checked_shl(bits).unwrap_or(0);
        (kept | carried as u32, lower.checked_shl(bits).unwrap_or(0))
    } else {
        let wide = u128::from(upper);
        let carried = if bits < 128 { wide << (128 - bits) } else { wide >> (bits - 128) };
        let kept = lower.checked_shr(bits).unwrap_or(0);
        (upper.checked_shr(bits).unwrap_or(0), kept | carried)
    }
}

impl Field for Key {
    const BYTES_MIN: usize = Key::BYTES;

    #[inline]
    fn bytes(_: &Key) -> usize {
        Key::BYTES
    }

    #[inline]
    fn put<'a>(key: &'a Key, head: &mut impl BufMut) -> Option<&'a Payload> {
        head.put_slice(&key.to_bytes());
        None
    }

    #[inline]
    fn take(bytes: &mut Bytes, _: &'static str) -> Result<Key, DecodeError> {
        check_room(bytes, Key::BYTES)?;
        let mut key = [0; Key::BYTES];
        bytes.copy_to_slice(&mut key);
        Ok(Key::from_bytes(key))
    }

    fn any(rng: &mut Rng) -> Key {
        Key { high: rng.next_u64(), middle: rng.next_u64(), low: rng.next_u32() }
    }
}

impl From<u64> for Key {
    fn from(number: u64) -> Key {
        Key::from_wide((0, u128::from(number)))
    }
}

impl Add for Key {
    type Output = Key;

    fn add(self, other: Key) -> Key {
        let (low, carry) = self.low.overflowing_add(other.low);
        let (middle, first) = self.middle.overflowing_add(other.middle);
        let (middle, second) = middle.overflowing_add(u64::from(carry));
        let high = self.high.wrapping_add(other.high);
        let high = high.wrapping_add(u64::from(first)).wrapping_add(u64::from(second));
        Key { high, middle, low }
    }
}

impl Sub for Key {
    type Output = Key;

    fn sub(self, other: Key) -> Key {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        let (middle, first) = self.middle.overflowing_sub(other.middle);
        let (middle, second) = middle.overflowing_sub(u64::from(borrow));
        let high = self.high.wrapping_sub(other.high);
        let high = high.wrapping_sub(u64::from(first)).wrapping_sub(u64::from(second));
        Key { high, middle, low }
    }
}

impl BitXor for Key {
    type Output = Key;

    fn bitxor(self, other: Key) -> Key {
        Key {
            high: self.high ^ other.high,
            middle: self.middle ^ other.middle,
            low: self.low ^ other.low,
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}{:08x}", self.high, self.middle, self.low)
    }
}

/// What is no [`Key`]: expected is the form of its `Display`, 40 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKey;

impl fmt::Display for InvalidKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected the hash of a key: 40 hexadecimal digits")
    }
}

impl std::error::Error for InvalidKey {}

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Key, InvalidKey> {
        let is_whole = text.len() == 2 * Key::BYTES;
        if !is_whole || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidKey);
        }
        let word = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| InvalidKey);
        let low = u32::from_str_radix(&text[32..], 16).map_err(|_| InvalidKey)?;
        Ok(Key { high: word(&text[..16])?, middle: word(&text[16..32])?, low })
    }
}

/// Where the nodes of an overlay lie: a function of their handles.
///
/// Tables hold handles only, four bytes each; the key of a node is computed, never requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    salt: u64,
}

impl Space {
    /// The space of this salt: the same for all nodes of an overlay.
    pub fn new(salt: u64) -> Space {
        Space { salt }
    }

    /// The salt of the space.
    pub(super) fn salt(self) -> u64 {
        self.salt
    }

    /// Where a node lies.
    pub fn key(&self, node: NodeId) -> Key {
        let high = mix(self.salt ^ node.0.rotate_left(8));
        let middle = mix(high ^ self.salt.rotate_left(17));
        Key { high, middle, low: mix(middle) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn small(n: u64) -> Key {
        Key::from_wide((0, u128::from(n)))
    }

    #[test]
    fn intervals_wrap_round_the_end() {
        assert!(small(5).is_in(small(3), small(5)));
        assert!(!small(3).is_in(small(3), small(5)));
        assert!(small(1).is_in(Key::MAX, small(1)));
        assert!(small(0).is_in(Key::MAX, small(1)));
        assert!(!small(2).is_in(Key::MAX, small(1)));
        assert!(small(2).is_in(small(7), small(7)));
        assert!(small(2).is_between(small(7), small(7)));
        assert!(!small(7).is_between(small(7), small(7)));
        assert!(!small(5).is_between(small(3), small(5)));
    }

    #[test]
    fn powers_digits_and_prefixes() {
        for exponent in 0..160 {
            let power = Key::power_of_two(exponent);
            assert_eq!(power.leading_zeros(), 159 - exponent);
            assert_eq!(power, small(1).shifted_left(exponent));
            assert_eq!(power.shifted_right(exponent), small(1));
        }
        let mut bytes = [0; 20];
        (bytes[0], bytes[1], bytes[19]) = (0x12, 0x34, 0x56);
        let key = Key::from_bytes(bytes);
        let digits = [0, 1, 2, 3, 4, 38, 39].map(|place| key.digit(place));
        assert_eq!(digits, [1, 2, 3, 4, 0, 5, 6]);
        assert_eq!(key.digits_shared(key + small(1)), 39);
        assert_eq!(key.digits_shared(key), 40);
    }

    #[test]
    fn nodes_lie_apart_and_evenly() {
        let space = Space::new(7);
        let mut keys: Vec<Key> = (0..4096).map(|node| space.key(NodeId(node))).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 4096);
        let mut count = [0u32; 16];
        keys.iter().for_each(|key| count[usize::from(key.digit(0))] += 1);
        assert!(count.iter().all(|&n| (190..330).contains(&n)), "{count:?}");
        assert_ne!(Space::new(8).key(NodeId(1)), space.key(NodeId(1)));
    }

    proptest! {
        #[test]
        fn keys_are_their_bytes_and_a_ring(
            a in any::<[u8; 20]>(),
            b in any::<[u8; 20]>(),
            bits in 0u32..170,
        ) {
            let (x, y) = (Key::from_bytes(a), Key::from_bytes(b));
            prop_assert_eq!(x.to_bytes(), a);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x + (y - x), y);
            prop_assert_eq!((x ^ y) ^ y, x);
            prop_assert_eq!(x - y, Key::ZERO - (y - x));
            let less: Vec<u8> = (0..40).map(|at| (16 + x.digit(at) - y.digit(at)) % 16).collect();
            let digits: Vec<u8> = (0..40).map(|at| x.digits_less(y).digit(at)).collect();
            prop_assert_eq!(digits, less);
            prop_assert_eq!(x.with_digit(bits % 40, y.digit(3)).digit(bits % 40), y.digit(3));
            let cut = bits.min(160);
            let last = x.last_of_prefix(cut);
            prop_assert_eq!(last.shifted_right(160 - cut), x.shifted_right(160 - cut));
            prop_assert!(cut == 160 || (last + small(1)).shifted_left(cut) == Key::ZERO);
            prop_assert_eq!(small(x.prefix(bits % 65)), x.shifted_right(160 - bits % 65));
            let hex: String = a.iter().map(|byte| format!("{byte:02x}")).collect();
            prop_assert_eq!(x.to_string(), hex.clone());
            prop_assert_eq!(hex.parse::<Key>(), Ok(x));
            prop_assert_eq!(hex[1..].parse::<Key>(), Err(InvalidKey));
            prop_assert_eq!(format!("+{}", &hex[1..]).parse::<Key>(), Err(InvalidKey));
            // Shifting is doubling.
            let doubled = (0..bits).fold(x, |key, _| key + key);
            prop_assert_eq!(x.shifted_left(bits), doubled);
            prop_assert_eq!(x.shifted_left(bits).shifted_right(bits).shifted_left(bits), doubled);
        }
    }
}
