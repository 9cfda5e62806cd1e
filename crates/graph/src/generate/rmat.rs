//! RMAT: edges fall into quadrants of the adjacency matrix, again and again.
//!
//! Source: Chakrabarti, Zhan and Faloutsos, *R-MAT: A Recursive Model for Graph Mining*, SDM 2004;
//! the probabilities are those of the Graph500 benchmark.

use paceline_proto::core::Rng;
use paceline_proto::walk::{Graph, Vertex};
use rayon::prelude::*;

use super::GenerateError;
use crate::csr::{Edges, Options, Rows};

/// A graph of `2^scale` vertices with a skewed distribution of degrees.
#[derive(Clone, Debug, PartialEq)]
pub struct Rmat {
    /// Vertices, as a power of two: 0 to 31.
    pub scale: u32,
    /// Edges drawn, for each vertex. Default 16.
    pub edge_factor: u32,
    /// Probabilities of the quadrants: edges within the lower half of the vertices, from the lower
    /// to the upper, from the upper to the lower, and within the upper half. Default 0.57, 0.19,
    /// 0.19, 0.05.
    pub quadrants: [f64; 4],
    /// Whether vertex ids are permuted at random, so that they do not correlate with degrees, as in
    /// Graph500. Default true.
    pub shuffle: bool,
    /// How the drawn edges are changed. Default: not at all, so directed, with duplicates and
    /// self-loops.
    pub options: Options,
}

/// Edges of one stream of random numbers.
const CHUNK: usize = 1 << 16;

impl Rmat {
    /// The defaults, with this scale.
    pub fn new(scale: u32) -> Rmat {
        Rmat {
            scale,
            edge_factor: 16,
            quadrants: [0.57, 0.19, 0.19, 0.05],
            shuffle: true,
            options: Options::default(),
        }
    }

    /// Draws the graph. Takes 8 bytes for each drawn edge besides it.
    pub fn generate(&self, seed: u64) -> Result<Graph, GenerateError> {
        if self.scale > 31 {
            return Err(GenerateError::Scale(self.scale));
        }
        if let Some(wrong) = self.quadrants.iter().find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(GenerateError::Probability(wrong.to_string()));
        }
        let sum: f64 = self.quadrants.iter().sum();
        if (sum - 1.0).abs() > 1e-6 {
            return Err(GenerateError::Quadrants(sum.to_string()));
        }
        let vertices = 1u32 << self.scale;
        let mut ends = vec![(0, 0); vertices as usize * self.edge_factor as usize];
        let bounds = self.bounds();
        ends.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, ends)| {
            // Stream 0 permutes the ids.
            let mut rng = Rng::new(seed, 1 + chunk as u64);
            ends.fill_with(|| draw(&mut rng, self.scale, bounds));
        });
        if self.shuffle {
            let ids = shuffled(vertices, &mut Rng::new(seed, 0));
            ends.par_iter_mut().for_each(|(from, to)| {
                *from = ids[*from as usize];
                *to = ids[*to as usize];
            });
        }
        let rows = Rows::new(vertices, Edges { ends, ..Edges::default() }, self.options);
        Ok(rows.into_graph().expect("all edges lead to vertices, and rows are sorted").0)
    }

    /// Upper bounds of the 32-bit draws of the first three quadrants.
    fn bounds(&self) -> [u32; 3] {
        let [a, b, c, _] = self.quadrants;
        [a, a + b, a + b + c].map(|share| (share * 4_294_967_296.0) as u32)
    }
}

fn draw(rng: &mut Rng, scale: u32, bounds: [u32; 3]) -> (Vertex, Vertex) {
    let (mut from, mut to) = (0, 0);
    for _ in 0..scale {
        let draw = rng.next_u32();
        // Without branches, since they would be unpredictable.
        let quadrant = bounds.iter().map(|&bound| u32::from(draw >= bound)).sum::<u32>();
        from = from << 1 | quadrant >> 1;
        to = to << 1 | quadrant & 1;
    }
    (from, to)
}

/// The numbers below `count` in random order. Source: Durstenfeld, *Algorithm 235*, CACM 1964.
fn shuffled(count: u32, rng: &mut Rng) -> Vec<u32> {
    let mut ids: Vec<u32> = (0..count).collect();
    for last in (1..count).rev() {
        ids.swap(last as usize, rng.below(last + 1) as usize);
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_graph_with_one_thread_and_many() {
        let rmat = Rmat::new(13);
        let here = rmat.generate(7).unwrap();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(here, pool.install(|| rmat.generate(7).unwrap()));
        assert_ne!(here, rmat.generate(8).unwrap());
        assert_eq!((here.vertices(), here.edges()), (8192, 16 * 8192));
    }

    #[test]
    fn edges_fall_into_quadrants_as_often_as_they_are_likely() {
        let rmat = Rmat { shuffle: false, ..Rmat::new(14) };
        let graph = rmat.generate(3).unwrap();
        let half = graph.vertices() / 2;
        let mut counts = [0u64; 4];
        for from in 0..graph.vertices() {
            for &to in graph.row_of(from).targets {
                counts[usize::from(from >= half) * 2 + usize::from(to >= half)] += 1;
            }
        }
        for (count, share) in counts.into_iter().zip(rmat.quadrants) {
            let expected = graph.edges() as f64 * share;
            assert!((count as f64 - expected).abs() < 5.0 * expected.sqrt(), "{counts:?}");
        }
    }

    #[test]
    fn options_are_heeded_and_shuffling_only_renames() {
        let options = Options { undirected: true, dedupe: true, drop_self_loops: true };
        let rmat = Rmat { options, ..Rmat::new(10) };
        let degrees = |graph: &Graph| {
            let mut degrees: Vec<_> =
                (0..graph.vertices()).map(|vertex| graph.row_of(vertex).targets.len()).collect();
            degrees.sort_unstable();
            degrees
        };
        let graph = rmat.generate(1).unwrap();
        for vertex in 0..graph.vertices() {
            let row = graph.row_of(vertex);
            assert!(row.targets.windows(2).all(|pair| pair[0] < pair[1]) && !row.leads_to(vertex));
            assert!(row.targets.iter().all(|&to| graph.row_of(to).leads_to(vertex)));
        }
        let plain = Rmat { shuffle: false, ..rmat }.generate(1).unwrap();
        assert_ne!(plain, graph);
        assert_eq!(degrees(&plain), degrees(&graph));
    }

    #[test]
    fn what_is_no_rmat_is_refused() {
        assert_eq!(Rmat::new(32).generate(1), Err(GenerateError::Scale(32)));
        let wrong = Rmat { quadrants: [0.5, 0.5, 0.5, 0.5], ..Rmat::new(3) }.generate(1);
        assert!(wrong.unwrap_err().to_string().contains("add up to 2"));
        let wrong = Rmat { quadrants: [1.5, -0.5, 0.0, 0.0], ..Rmat::new(3) }.generate(1);
        assert_eq!(wrong, Err(GenerateError::Probability("1.5".into())));
        assert_eq!(Rmat::new(0).generate(1).unwrap().edges(), 16);
    }
}
