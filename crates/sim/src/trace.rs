//! What a run did, folded into one number, and the counts beside it.

use std::fmt;

/// A running 128-bit hash of everything that happened, in order.
///
/// Two runs with equal digests took the same steps at the same times. Not cryptographic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Digest {
    low: u64,
    high: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Digest { low: 0x243f_6a88_85a3_08d3, high: 0x1319_8a2e_0370_7344 }
    }
}

impl Digest {
    /// Folds two words in.
    pub fn fold(&mut self, a: u64, b: u64) {
        self.low = multiply_mix(self.low ^ a, 0x9e37_79b9_7f4a_7c15 ^ b);
        self.high =
            multiply_mix(self.high ^ b.rotate_left(32), 0xc2b2_ae3d_27d4_eb4f ^ a) ^ self.low;
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.high, self.low)
    }
}

fn multiply_mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b | 1);
    (product as u64) ^ ((product >> 64) as u64) ^ a.rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_bit_matter() {
        let digest = |words: &[(u64, u64)]| {
            let mut digest = Digest::default();
            words.iter().for_each(|&(a, b)| digest.fold(a, b));
            digest
        };
        let base = digest(&[(1, 2), (3, 4)]);
        assert_ne!(base, digest(&[(3, 4), (1, 2)]));
        assert_ne!(base, digest(&[(2, 1), (3, 4)]));
        for bit in 0..64 {
            assert_ne!(base, digest(&[(1 ^ (1 << bit), 2), (3, 4)]));
            assert_ne!(base, digest(&[(1, 2 ^ (1 << bit)), (3, 4)]));
        }
        assert_eq!(base.to_string().len(), 32);
    }
}
