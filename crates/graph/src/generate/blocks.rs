//! The stochastic block model: the probability of an edge depends on the blocks of its ends.
//!
//! Source: Holland, Laskey and Leinhardt, *Stochastic Blockmodels: First Steps*, Social Networks
//! 1983. Pairs that are not joined are skipped by geometric draws: Batagelj and Brandes, *Efficient
//! Generation of Large Random Networks*, Physical Review E 2005.

use std::ops::Range;

use paceline_proto::core::Rng;
use paceline_proto::walk::{Graph, Vertex};
use rayon::prelude::*;

use super::GenerateError;
use crate::csr::{Edges, Options, Rows};

/// A graph of blocks: undirected, each edge both ways, without self-loops and duplicates.
///
/// The vertices of the first block come first, and so on.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    sizes: Vec<u32>,
    probabilities: Vec<Vec<f64>>,
}

/// Expected edges of one stream of random numbers.
const CHUNK_EDGES: f64 = 65_536.0;

/// Some of the pairs between two blocks, or within one.
struct Chunk {
    blocks: (usize, usize),
    pairs: Range<u64>,
    stream: u64,
}

impl Blocks {
    /// Blocks of these sizes in vertices, and the probability of an edge between a vertex of block
    /// `a` and one of block `b` as `probabilities[a][b]`.
    pub fn new(sizes: Vec<u32>, probabilities: Vec<Vec<f64>>) -> Result<Blocks, GenerateError> {
        let vertices: u64 = sizes.iter().copied().map(u64::from).sum();
        if vertices == 0 || vertices > Graph::VERTICES_MAX {
            return Err(GenerateError::Vertices(vertices));
        }
        let blocks = sizes.len();
        let matrix = |found: String| GenerateError::Matrix { blocks, found };
        if probabilities.len() != blocks {
            return Err(matrix(format!("the matrix has {} rows", probabilities.len())));
        }
        for (a, row) in probabilities.iter().enumerate() {
            if row.len() != blocks {
                return Err(matrix(format!("row {a} has {}", row.len())));
            }
            for (b, &probability) in row.iter().enumerate() {
                if !(0.0..=1.0).contains(&probability) {
                    return Err(GenerateError::Probability(probability.to_string()));
                }
                // Rows before this one are known to be of the right length.
                if b < a && probability != probabilities[b][a] {
                    let other = probabilities[b][a];
                    let found = format!("{a} to {b} is {probability}, {b} to {a} is {other}");
                    return Err(matrix(found));
                }
            }
        }
        Ok(Blocks { sizes, probabilities })
    }

    /// The sizes of the blocks, vertices.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// Draws the graph. The time grows with the edges, not with the pairs.
    pub fn generate(&self, seed: u64) -> Graph {
        let begins: Vec<u32> = self
            .sizes
            .iter()
            .scan(0, |next, &size| Some(std::mem::replace(next, *next + size)))
            .collect();
        let parts: Vec<Vec<(Vertex, Vertex)>> =
            self.chunks().par_iter().map(|chunk| self.draw(chunk, &begins, seed)).collect();
        let ends = parts.concat();
        let options = Options { undirected: true, ..Options::default() };
        let rows = Rows::new(self.sizes.iter().sum(), Edges { ends, ..Edges::default() }, options);
        rows.into_graph().expect("all edges lead to vertices, and rows are sorted").0
    }

    fn chunks(&self) -> Vec<Chunk> {
        let mut chunks = Vec::new();
        for a in 0..self.sizes.len() {
            for b in 0..=a {
                let (size, other) = (u64::from(self.sizes[a]), u64::from(self.sizes[b]));
                let probability = self.probabilities[a][b];
                if probability == 0.0 {
                    continue;
                }
                let pairs = if a == b { size * size.saturating_sub(1) / 2 } else { size * other };
                let step = (CHUNK_EDGES / probability).ceil() as u64;
                let mut begin = 0;
                while begin < pairs {
                    let end = pairs.min(begin.saturating_add(step));
                    let stream = chunks.len() as u64;
                    chunks.push(Chunk { blocks: (a, b), pairs: begin..end, stream });
                    begin = end;
                }
            }
        }
        chunks
    }

    /// The pairs of a chunk that are joined.
    fn draw(&self, chunk: &Chunk, begins: &[u32], seed: u64) -> Vec<(Vertex, Vertex)> {
        let (a, b) = chunk.blocks;
        let mut rng = Rng::new(seed, chunk.stream);
        // 0 if the probability is 1, and then no pair is skipped.
        let scale = 1.0 / (-self.probabilities[a][b]).ln_1p();
        let mut ends = Vec::new();
        let mut pair = chunk.pairs.start;
        // Within a block pair `k` is (row, column) with column < row and row (row - 1) / 2 <= k.
        let mut row = u64::midpoint(1, (8 * u128::from(pair) + 1).isqrt() as u64);
        loop {
            // A draw of 0 gives 0: nothing is skipped. Too large a number saturates.
            let skipped = ((1.0 - rng.unit()).ln() * scale) as u64;
            pair = pair.saturating_add(skipped);
            if pair >= chunk.pairs.end {
                return ends;
            }
            let (from, to) = if a == b {
                while row * (row + 1) / 2 <= pair {
                    row += 1;
                }
                (row, pair - row * (row - 1) / 2)
            } else {
                let other = u64::from(self.sizes[b]);
                (pair / other, pair % other)
            };
            ends.push((begins[a] + from as u32, begins[b] + to as u32));
            pair += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(graph: &Graph, sizes: &[u32]) -> Vec<Vec<u64>> {
        let block: Vec<usize> = sizes
            .iter()
            .enumerate()
            .flat_map(|(block, &size)| std::iter::repeat_n(block, size as usize))
            .collect();
        let mut counts = vec![vec![0; sizes.len()]; sizes.len()];
        for from in 0..graph.vertices() {
            for &to in graph.row_of(from).targets {
                counts[block[from as usize]][block[to as usize]] += 1;
            }
        }
        counts
    }

    #[test]
    fn blocks_are_joined_as_often_as_they_are_likely() {
        let sizes = vec![300, 1000, 50];
        let probabilities = vec![vec![0.01, 0.05, 0.0], vec![0.05, 0.2, 0.5], vec![0.0, 0.5, 1.0]];
        let blocks = Blocks::new(sizes.clone(), probabilities.clone()).unwrap();
        let graph = blocks.generate(4);
        let counts = counts(&graph, &sizes);
        for (a, row) in counts.iter().enumerate() {
            for (b, &count) in row.iter().enumerate() {
                let (size, other) = (f64::from(sizes[a]), f64::from(sizes[b]));
                let pairs = if a == b { size * (size - 1.0) } else { size * other };
                let expected = pairs * probabilities[a][b];
                // Within a block each edge is counted twice.
                let deviation = (2.0 * expected * (1.0 - probabilities[a][b])).sqrt();
                let off = (count as f64 - expected).abs();
                assert!(off <= 5.0 * deviation, "{a} {b}: {count} for {expected}");
            }
        }
        for vertex in 0..graph.vertices() {
            let row = graph.row_of(vertex);
            assert!(row.targets.windows(2).all(|pair| pair[0] < pair[1]) && !row.leads_to(vertex));
            assert!(row.targets.iter().all(|&to| graph.row_of(to).leads_to(vertex)));
        }
    }

    #[test]
    fn every_pair_of_a_block_is_as_likely_as_any_other() {
        let blocks = Blocks::new(vec![5], vec![vec![0.3]]).unwrap();
        let mut counts = [[0u32; 5]; 5];
        for seed in 0..10_000 {
            let graph = blocks.generate(seed);
            for from in 0..5 {
                graph.row_of(from).targets.iter().for_each(|&to| {
                    counts[from as usize][to as usize] += 1;
                });
            }
        }
        for (from, row) in counts.iter().enumerate() {
            for (to, &count) in row.iter().enumerate() {
                let expected = if from == to { 0.0 } else { 3000.0 };
                assert!((f64::from(count) - expected).abs() < 230.0, "{counts:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_graph_with_one_thread_and_many() {
        // Several chunks.
        let blocks = Blocks::new(vec![2000, 500], vec![vec![0.2, 0.1], vec![0.1, 0.2]]).unwrap();
        let here = blocks.generate(7);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(here, pool.install(|| blocks.generate(7)));
        assert_ne!(here, blocks.generate(8));
    }

    #[test]
    fn what_is_no_matrix_of_the_blocks_is_refused() {
        let refused = |sizes: &[u32], rows: &[&[f64]]| {
            let rows = rows.iter().map(|row| row.to_vec()).collect();
            Blocks::new(sizes.to_vec(), rows).unwrap_err().to_string()
        };
        assert!(refused(&[], &[]).contains("0 vertices"));
        assert!(refused(&[1, 2], &[&[0.1, 0.2]]).contains("the matrix has 1 rows"));
        assert!(refused(&[1, 2], &[&[0.1, 0.2], &[0.2]]).contains("row 1 has 1"));
        assert!(refused(&[1], &[&[1.1]]).contains("1.1 is not a probability"));
        let skew = refused(&[1, 2], &[&[0.1, 0.2], &[0.3, 0.1]]);
        assert!(skew.contains("1 to 0 is 0.3, 0 to 1 is 0.2"), "{skew}");
    }
}
