//! A walker: one walk on its way.

use super::chance::Length;
use crate::core::mix;
use crate::graphshare::Vertex;

/// No vertex.
pub const NOWHERE: Vertex = Vertex::MAX;

/// What SplitMix64 adds to its state at each draw. Source: Steele, Lea, Flood, *Fast Splittable
/// Pseudorandom Number Generators*, OOPSLA 2014.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The inverse of `GAMMA` modulo 2^64, by Newton's iteration: an odd number is its own inverse
/// modulo 8, and each turn doubles the number of correct bits.
const GAMMA_INVERSE: u64 = {
    let (mut inverse, mut turn) = (GAMMA, 0);
    while turn < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(GAMMA.wrapping_mul(inverse)));
        turn += 1;
    }
    inverse
};

/// A walk on its way: where it is, and all that its next steps hang on.
///
/// Its random numbers are its own and travel with it. So the same walk of the same job takes the
/// same path wherever its steps are taken, and however often it is re-executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walker {
    /// Where it began.
    pub source: Vertex,
    /// Where it is.
    pub at: Vertex,
    /// Where it was before; [`NOWHERE`] before the first step.
    pub previous: Vertex,
    /// Where it may go next, while that is not settled (node2vec); else [`NOWHERE`].
    pub candidate: Vertex,
    /// Steps it has taken.
    pub steps: u32,
    /// Steps it is still to take.
    pub steps_left: u32,
    /// State of its random numbers.
    pub state: u64,
}

impl Walker {
    /// Walk `walk` of a job with this seed, at its source. Its length is drawn here.
    #[inline]
    pub fn new(seed: u64, walk: u64, source: Vertex, length: Length) -> Walker {
        let mut walker = Walker {
            source,
            at: source,
            previous: NOWHERE,
            candidate: NOWHERE,
            steps: 0,
            steps_left: 0,
            state: mix(mix(seed) ^ walk),
        };
        walker.steps_left = match length {
            Length::Steps(steps) => steps,
            Length::Geometric { end, steps_max } => {
                let ends = |_: &u32| !end.takes(walker.draw());
                (0..steps_max).take_while(ends).count() as u32
            }
        };
        walker
    }

    /// The next 64 random bits, which stay the next.
    #[inline]
    pub fn peek(&self) -> u64 {
        mix(self.state)
    }

    /// The next 64 random bits.
    #[inline]
    pub fn draw(&mut self) -> u64 {
        let bits = mix(self.state);
        self.state = self.state.wrapping_add(GAMMA);
        bits
    }

    /// How many numbers it has drawn since its state was this.
    #[inline]
    pub(super) fn draws_since(&self, state: u64) -> u64 {
        self.state.wrapping_sub(state).wrapping_mul(GAMMA_INVERSE)
    }

    /// Takes the step to a vertex.
    #[inline]
    pub(super) fn go(&mut self, vertex: Vertex) {
        self.previous = self.at;
        self.at = vertex;
        self.steps += 1;
        self.steps_left -= 1;
    }
}
