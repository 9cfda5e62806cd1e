//! Chances, how long walks are, and why a kind of walk is invalid.

use thiserror::Error;

/// When a walk ends, if no dead end comes before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Length {
    /// After this many steps.
    Steps(u32),
    /// At each vertex with this chance, the first included, and after `steps_max` at the latest.
    /// Drawn before the walk begins.
    Geometric {
        /// The chance to end at a vertex: the paper's alpha.
        end: Chance,
        /// The most steps.
        steps_max: u32,
    },
}

impl Length {
    /// The most steps of any walk.
    pub const STEPS_MAX: u32 = 1 << 20;

    /// How many steps a walk may take.
    pub fn steps_max(self) -> u32 {
        match self {
            Length::Steps(steps) => steps,
            Length::Geometric { steps_max, .. } => steps_max,
        }
    }
}

/// A probability, in parts of 2^64: compared with 64-bit draws, the same on every machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Chance(u64);

impl Chance {
    /// A probability of 0 to 1. Its error is below 2^-53.
    pub fn new(probability: f64) -> Result<Chance, KindError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(KindError::Chance(probability.to_string()));
        }
        // Saturates: 1 falls short by 2^-64.
        Ok(Chance((probability * 18_446_744_073_709_551_616.0) as u64))
    }

    /// As a number of 0 to 1.
    pub fn probability(self) -> f64 {
        self.0 as f64 / 18_446_744_073_709_551_616.0
    }

    /// This many parts of 2^64.
    pub fn from_parts(parts: u64) -> Chance {
        Chance(parts)
    }

    /// In parts of 2^64.
    pub fn parts(self) -> u64 {
        self.0
    }

    /// True with this probability.
    pub fn takes(self, draw: u64) -> bool {
        draw < self.0
    }
}

/// Why a kind of walk is invalid. The caller that asked for it is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KindError {
    /// A probability outside 0 to 1.
    #[error("{0} is not a probability: expected 0 to 1")]
    Chance(String),
    /// A parameter of node2vec out of range.
    #[error("node2vec's {name} is {value}: 0.01 to 100 is possible")]
    Node2Vec {
        /// `p` or `q`.
        name: &'static str,
        /// What it was to be.
        value: String,
    },
    /// A metapath of no labels, or of too many.
    #[error("a metapath of {0} labels: 1 to 255 are possible")]
    Metapath(usize),
    /// A walk of too many steps.
    #[error("walks of {0} steps: {max} are the most", max = Length::STEPS_MAX)]
    Steps(u32),
    /// The walk selects by labels, and the graph has none.
    #[error("the graph's edges have no labels, which a metapath goes by")]
    Unlabelled,
}
