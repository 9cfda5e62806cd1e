use crate::core::Rng;

/// The coefficients of a repair's packets, in the order in which the repair names them.
///
/// All of them follow from a seed that the repair carries. Seed 0 makes each of them 1, so the
/// repair is an exclusive or; any other seed draws them from 1 to 255, uniformly.
#[derive(Clone, Debug)]
pub struct Coefficients {
    /// None if all are 1.
    rng: Option<Rng>,
    /// Bytes drawn and not yet used, the next one lowest; none if all is zero.
    drawn: u32,
}

impl Coefficients {
    /// The seed of an exclusive or.
    pub const XOR: u32 = 0;
    /// Keeps the draws apart from others with an equal seed.
    const STREAM: u64 = 0x666563;

    /// Those of a seed.
    pub fn new(seed: u32) -> Coefficients {
        let rng = (seed != Self::XOR).then(|| Rng::new(u64::from(seed), Self::STREAM));
        Coefficients { rng, drawn: 0 }
    }
}

impl Iterator for Coefficients {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let Some(rng) = &mut self.rng else { return Some(1) };
        loop {
            while self.drawn != 0 {
                let coefficient = self.drawn as u8;
                self.drawn >>= 8;
                if coefficient != 0 {
                    return Some(coefficient);
                }
            }
            self.drawn = rng.next_u32();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: both ends must draw the same for as long as the repair's format lives.
    #[test]
    fn a_seed_stands_for_these_coefficients() {
        let of = |seed| Coefficients::new(seed).take(8).collect::<Vec<_>>();
        assert_eq!(of(0), [1; 8]);
        assert_eq!(of(1), GOLDEN[0]);
        assert_eq!(of(0xFFFF_FFFF), GOLDEN[1]);
    }

    const GOLDEN: [[u8; 8]; 2] =
        [[18, 37, 87, 241, 87, 211, 128, 37], [43, 225, 56, 249, 164, 254, 193, 192]];

    #[test]
    fn coefficients_are_uniform_and_never_zero() {
        let mut seen = [0u32; 256];
        for seed in 1..=255 {
            Coefficients::new(seed).take(1_000).for_each(|of| seen[usize::from(of)] += 1);
        }
        assert_eq!(seen[0], 0);
        // The expected count is 1,000; its standard deviation is 32.
        assert!(seen[1..].iter().all(|count| (850..1_150).contains(count)), "{seen:?}");
    }
}
