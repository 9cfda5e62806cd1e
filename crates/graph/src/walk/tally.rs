//! Walks of which only a part is kept: where they end, where they pass.

use paceline_proto::walk::Vertex;

use super::job::{Job, Summary};
use super::paths::Paths;

/// Where each walk of a job ended, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEnds {
    ends: Vec<Vertex>,
    walks_per_source: u32,
}

/// A vertex and how often walks ended there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// The vertex.
    pub vertex: Vertex,
    /// Walks that ended there.
    pub walks: u32,
}

impl WalkEnds {
    /// The last vertex of each walk, in the order of the walks.
    pub fn vertices(&self) -> &[Vertex] {
        &self.ends
    }

    /// For each source in turn the vertices where most of its walks ended, `count` at most, the
    /// most frequent first and of equal ones the lower first.
    ///
    /// With walks of geometric length these estimate personalised PageRank: a vertex's share of
    /// the source's walks. Source: Fogaras et al., *Towards Scaling Fully Personalized PageRank*,
    /// Internet Mathematics 2005.
    pub fn top(&self, count: usize) -> impl Iterator<Item = Vec<Ranked>> {
        let mut sorted = Vec::new();
        self.ends.chunks(self.walks_per_source.max(1) as usize).map(move |ends| {
            sorted.clear();
            sorted.extend_from_slice(ends);
            rank(&mut sorted, count)
        })
    }
}

/// The vertices that are most often among these, `count` at most, the most frequent first and of
/// equal ones the lower first. Leaves `ends` sorted.
pub(crate) fn rank(ends: &mut [Vertex], count: usize) -> Vec<Ranked> {
    ends.sort_unstable();
    let equal = ends.chunk_by(|a, b| a == b);
    let mut ranked: Vec<Ranked> =
        equal.map(|chunk| Ranked { vertex: chunk[0], walks: chunk.len() as u32 }).collect();
    ranked.sort_by_key(|ranked| std::cmp::Reverse(ranked.walks));
    ranked.truncate(count);
    ranked
}

impl Job<'_> {
    /// Where each walk ends. Takes 4 bytes a walk. If the job stops early, `WalkEnds` covers the
    /// walks up to the first that is missing.
    pub fn ends(&self) -> (WalkEnds, Summary) {
        let mut ends = Vec::with_capacity(usize::try_from(self.walks()).unwrap_or(0));
        let Ok(summary) = self.paths(|paths: &Paths| {
            ends.extend(paths.iter().map(|(_, path)| path[path.len() - 1]));
            Ok::<(), std::convert::Infallible>(())
        });
        (WalkEnds { ends, walks_per_source: self.walks_per_source() }, summary)
    }

    /// How often walks were at each vertex, their sources included. Takes 8 bytes a vertex and
    /// thread.
    pub fn visits(&self) -> (Vec<u64>, Summary) {
        let vertices = self.graph.vertices() as usize;
        let (counts, summary) = self.fold(
            || vec![0u64; vertices],
            |counts, paths| {
                for &vertex in paths.iter().flat_map(|(_, path)| path) {
                    counts[vertex as usize] += 1;
                }
            },
        );
        let sum = |mut sum: Vec<u64>, counts: Vec<u64>| {
            sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            sum
        };
        (counts.into_iter().reduce(sum).unwrap_or_else(|| vec![0; vertices]), summary)
    }
}
