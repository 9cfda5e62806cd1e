//! Random graphs. The same seed gives the same graph, whatever the number of threads.

mod blocks;
mod rmat;

pub use blocks::Blocks;
pub use rmat::Rmat;

use paceline_proto::walk::Graph;
use thiserror::Error;

/// Why a generator cannot draw a graph. The caller is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GenerateError {
    /// No vertices, or more than a graph can number.
    #[error("{0} vertices, expected 1 to {max}", max = Graph::VERTICES_MAX)]
    Vertices(u64),
    /// An edge probability that is not between 0 and 1.
    #[error("{0} is not a probability: expected 0 to 1")]
    Probability(String),
    /// The sum of RMAT's four probabilities is not 1.
    #[error("the probabilities of the quadrants add up to {0}, expected 1")]
    Quadrants(String),
    /// RMAT of a scale out of range.
    #[error("scale {0}, expected 0 to 31")]
    Scale(u32),
    /// The matrix does not match the blocks.
    #[error(
        "{blocks} blocks need a symmetric matrix of {blocks} x {blocks} probabilities: {found}"
    )]
    Matrix {
        /// How many blocks there are.
        blocks: usize,
        /// What is wrong with the matrix.
        found: String,
    },
}
