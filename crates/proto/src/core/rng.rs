/// A small deterministic random number generator: PCG-XSH-RR 64/32.
///
/// 16 bytes of state, the same sequence on every platform. Each node, link and workload has a
/// stream of its own, so adding a draw in one place does not shift another.
/// Source: O'Neill, *PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for
/// Random Number Generation*, 2014. Not for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rng {
    state: u64,
    increment: u64,
}

impl Rng {
    const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

    /// Stream `stream` of the generator seeded with `seed`.
    pub fn new(seed: u64, stream: u64) -> Rng {
        let mut rng = Rng { state: 0, increment: (mix(stream) << 1) | 1 };
        rng.next_u32();
        rng.state = rng.state.wrapping_add(mix(seed));
        rng.next_u32();
        rng
    }

    /// 32 uniform bits.
    pub fn next_u32(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(Self::MULTIPLIER).wrapping_add(self.increment);
        let xor_shifted = (((old >> 18) ^ old) >> 27) as u32;
        xor_shifted.rotate_right((old >> 59) as u32)
    }

    /// 64 uniform bits.
    pub fn next_u64(&mut self) -> u64 {
        (u64::from(self.next_u32()) << 32) | u64::from(self.next_u32())
    }

    /// A uniform number in `0..bound`, without modulo bias (Lemire 2019). 0 if `bound` is 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        let threshold = bound.wrapping_neg().checked_rem(bound).unwrap_or(0);
        loop {
            let wide = u64::from(self.next_u32()) * u64::from(bound);
            if wide as u32 >= threshold {
                return (wide >> 32) as u32;
            }
        }
    }

    /// A uniform number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability; draws nothing if it is 0.
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }
}

/// Scrambles 64 bits: SplitMix64's finaliser. Neighbouring inputs give unrelated outputs.
#[inline]
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_stream_give_the_same_sequence_and_others_do_not() {
        let draw = |seed, stream| {
            let mut rng = Rng::new(seed, stream);
            (0..8).map(|_| rng.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, 1), draw(7, 1));
        assert_ne!(draw(7, 1), draw(7, 2));
        assert_ne!(draw(7, 1), draw(8, 1));
    }

    #[test]
    fn below_stays_below_and_reaches_every_value() {
        let mut rng = Rng::new(1, 1);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[rng.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (800..1200).contains(&n)), "{seen:?}");
        assert_eq!(rng.below(0), 0);
        assert_eq!(rng.below(1), 0);
    }
}
