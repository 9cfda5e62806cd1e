//! Ids of files and vertices of graphs.

use std::path::Path;

use paceline_proto::walk::{Graph, Vertex};
use rayon::prelude::*;

use super::NamedGraph;
use super::error::FileError;
use crate::csr::{self, Rows};

/// The external ids of a graph's vertices, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(Kind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The numbers of the vertices themselves.
    Identity(u32),
    /// These.
    Sorted(Vec<u64>),
}

impl Ids {
    /// The numbers of the vertices as their ids.
    pub fn identity(vertices: u32) -> Ids {
        Ids(Kind::Identity(vertices))
    }

    /// Ids that must ascend; `None` if they do not, or are too many.
    pub fn sorted(ids: Vec<u64>) -> Option<Ids> {
        let vertices = u32::try_from(ids.len()).ok()?;
        if ids.windows(2).any(|pair| pair[0] >= pair[1]) {
            return None;
        }
        // Ascending without gaps from 0 on if the last says so.
        let is_identity = ids.last().is_none_or(|&last| last == u64::from(vertices) - 1);
        Some(if is_identity { Ids::identity(vertices) } else { Ids(Kind::Sorted(ids)) })
    }

    /// The id of a vertex.
    ///
    /// # Panics
    ///
    /// If there is no such vertex.
    pub fn id(&self, vertex: Vertex) -> u64 {
        match &self.0 {
            Kind::Identity(vertices) => {
                assert!(vertex < *vertices, "there is no vertex {vertex} among {vertices}");
                vertex.into()
            }
            Kind::Sorted(ids) => ids[vertex as usize],
        }
    }

    /// The vertex with this id, if it exists.
    pub fn vertex(&self, id: u64) -> Option<Vertex> {
        match &self.0 {
            Kind::Identity(vertices) => (id < u64::from(*vertices)).then_some(id as Vertex),
            Kind::Sorted(ids) => ids.binary_search(&id).ok().map(|vertex| vertex as Vertex),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Kind::Identity(vertices) => *vertices as usize,
            Kind::Sorted(ids) => ids.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if each vertex has its number as its id.
    pub fn is_identity(&self) -> bool {
        matches!(self.0, Kind::Identity(_))
    }
}

/// Edges between ids, in half the space if these are small.
pub enum EdgeEnds {
    Narrow(Vec<(u32, u32)>),
    Wide(Vec<(u64, u64)>),
}

impl EdgeEnds {
    fn len(&self) -> usize {
        match self {
            EdgeEnds::Narrow(ends) => ends.len(),
            EdgeEnds::Wide(ends) => ends.len(),
        }
    }

    fn ids(&self) -> Box<dyn Iterator<Item = u64> + '_> {
        match self {
            EdgeEnds::Narrow(ends) => {
                Box::new(ends.iter().flat_map(|&(from, to)| [from.into(), to.into()]))
            }
            EdgeEnds::Wide(ends) => Box::new(ends.iter().flat_map(|&(from, to)| [from, to])),
        }
    }
}

/// Edges as they are read, piece by piece.
#[derive(Default)]
pub struct Loose {
    pieces: Vec<EdgeEnds>,
    edges: usize,
    id_max: Option<u64>,
    weights: Vec<f32>,
    labels: Vec<u8>,
}

impl Loose {
    /// More edges; `weights` and `labels` are as many, or none for all edges of a file.
    pub fn append(&mut self, ends: Vec<(u64, u64)>, weights: &[f32], labels: &[u8]) {
        let Some(max) = ends.iter().map(|&(from, to)| from.max(to)).max() else { return };
        self.id_max = self.id_max.max(Some(max));
        self.edges += ends.len();
        self.pieces.push(match u32::try_from(max) {
            Ok(_) => {
                let narrow = |&(from, to): &(u64, u64)| (from as u32, to as u32);
                EdgeEnds::Narrow(ends.iter().map(narrow).collect())
            }
            Err(_) => EdgeEnds::Wide(ends),
        });
        self.weights.extend_from_slice(weights);
        self.labels.extend_from_slice(labels);
    }

    pub fn is_empty(&self) -> bool {
        self.edges == 0
    }

    pub fn edges(&self) -> usize {
        self.edges
    }

    /// The graph of these edges. If all ids are below `vertices`, it has that many vertices and
    /// keeps the ids.
    pub fn into_graph(
        self,
        path: &Path,
        vertices: Option<u32>,
        options: csr::Options,
    ) -> Result<NamedGraph, FileError> {
        let kept = vertices.filter(|&vertices| self.id_max.is_none_or(|m| m < vertices.into()));
        let ranks = match kept {
            Some(vertices) => Ranks::Identity(vertices),
            None => Ranks::of(&self),
        };
        let vertices = ranks.len();
        if vertices > Graph::VERTICES_MAX {
            let wrong = format!(
                "{vertices} different ids, more than the maximum of {}",
                Graph::VERTICES_MAX
            );
            return Err(FileError::content(path, wrong));
        }
        let mut ends: Vec<(Vertex, Vertex)> = Vec::with_capacity(self.edges);
        // Each piece is freed once it is converted.
        for piece in self.pieces {
            match piece {
                EdgeEnds::Narrow(piece) => ends.par_extend(
                    piece
                        .par_iter()
                        .map(|&(from, to)| (ranks.of_id(from.into()), ranks.of_id(to.into()))),
                ),
                EdgeEnds::Wide(piece) => ends.par_extend(
                    piece.par_iter().map(|&(from, to)| (ranks.of_id(from), ranks.of_id(to))),
                ),
            }
        }
        let ids = ranks.into_ids();
        let weights = (!self.weights.is_empty()).then_some(self.weights);
        let labels = (!self.labels.is_empty()).then_some(self.labels);
        let rows = Rows::new(vertices as u32, csr::Edges { ends, weights, labels }, options);
        let (graph, weights) = rows.into_graph().map_err(|e| FileError::graph(path, e))?;
        Ok(NamedGraph { graph, ids, weights })
    }
}

/// The place of each id among all, in ascending order.
enum Ranks {
    Identity(u32),
    /// A bit for each id that there is, and how many there are before each word of them.
    Bits(Vec<u64>, Vec<u32>),
    Sorted(Vec<u64>),
}

impl Ranks {
    fn of(loose: &Loose) -> Ranks {
        let Some(max) = loose.id_max else { return Ranks::Identity(0) };
        // 12 bytes for 64 ids that are possible, against 8 for each edge.
        let words = max / 64 + 1;
        if words <= (loose.edges as u64 / 2).max(1 << 16) {
            let mut bits = vec![0u64; words as usize];
            for id in loose.pieces.iter().flat_map(EdgeEnds::ids) {
                bits[(id / 64) as usize] |= 1 << (id % 64);
            }
            let mut before = 0;
            let ranks = bits.iter().map(|word| {
                let rank = before;
                before += word.count_ones();
                rank
            });
            let ranks = ranks.collect();
            // Without gaps there is nothing to look up.
            if u64::from(before) == max + 1 {
                return Ranks::Identity(before);
            }
            return Ranks::Bits(bits, ranks);
        }
        let mut sorted: Vec<u64> = Vec::new();
        let mut fresh: Vec<u64> = Vec::new();
        for piece in &loose.pieces {
            fresh.reserve(2 * piece.len());
            fresh.extend(piece.ids());
            // Rarely enough that merging does not add up, often enough that there are few copies.
            if fresh.len() > sorted.len().max(1 << 20) {
                sorted = merged(sorted, &mut fresh);
            }
        }
        Ranks::Sorted(merged(sorted, &mut fresh))
    }

    fn len(&self) -> u64 {
        match self {
            Ranks::Identity(vertices) => (*vertices).into(),
            Ranks::Bits(bits, _) => bits.iter().map(|word| u64::from(word.count_ones())).sum(),
            Ranks::Sorted(ids) => ids.len() as u64,
        }
    }

    fn of_id(&self, id: u64) -> Vertex {
        match self {
            Ranks::Identity(_) => id as Vertex,
            Ranks::Bits(bits, ranks) => {
                let word = (id / 64) as usize;
                ranks[word] + (bits[word] & ((1 << (id % 64)) - 1)).count_ones()
            }
            // It is there, since the ids of all edges are.
            Ranks::Sorted(ids) => ids.partition_point(|&other| other < id) as Vertex,
        }
    }

    fn into_ids(self) -> Ids {
        Ids(match self {
            Ranks::Identity(vertices) => Kind::Identity(vertices),
            Ranks::Bits(bits, _) => Kind::Sorted(
                (0..)
                    .zip(&bits)
                    .flat_map(|(word, &bits)| {
                        let is_set = move |bit: &u64| bits >> bit & 1 == 1;
                        (0..64).filter(is_set).map(move |bit| 64 * word + bit)
                    })
                    .collect(),
            ),
            Ranks::Sorted(ids) => Kind::Sorted(ids),
        })
    }
}

/// Ids that ascend, with others that do not yet; these go.
fn merged(sorted: Vec<u64>, fresh: &mut Vec<u64>) -> Vec<u64> {
    fresh.par_sort_unstable();
    fresh.dedup();
    let mut both = Vec::with_capacity(sorted.len() + fresh.len());
    let (mut a, mut b) = (sorted.into_iter().peekable(), fresh.drain(..).peekable());
    while let (Some(&left), Some(&right)) = (a.peek(), b.peek()) {
        both.push(left.min(right));
        if left <= right {
            a.next();
        }
        if right <= left {
            b.next();
        }
    }
    both.extend(a);
    both.extend(b);
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_lead_there_and_back() {
        let ids = Ids::sorted(vec![3, 7, 1 << 40]).unwrap();
        assert_eq!((ids.id(2), ids.vertex(7), ids.vertex(8)), (1 << 40, Some(1), None));
        assert!(!ids.is_identity() && ids.len() == 3);
        let ids = Ids::sorted(vec![0, 1, 2]).unwrap();
        assert!(ids.is_identity() && ids.vertex(3).is_none() && ids.id(2) == 2);
        assert!(Ids::sorted(vec![1, 1]).is_none() && Ids::sorted(vec![]).unwrap().is_empty());
    }

    #[test]
    fn merging_keeps_each_id_once() {
        let mut fresh = vec![9, 1, 4, 9, 12];
        assert_eq!(merged(vec![1, 5, 9], &mut fresh), [1, 4, 5, 9, 12]);
        assert_eq!(merged(vec![], &mut vec![2, 2]), [2]);
    }

    #[test]
    fn many_wide_ids_are_ranked_like_few() {
        let mut loose = Loose::default();
        let id = |edge: u64| paceline_proto::core::mix(edge % 40_000);
        let mut expected = Vec::new();
        for piece in 0..40 {
            let edges = (0..30_000).map(|edge| (id(piece * 7 + edge), id(edge * 3)));
            let edges: Vec<_> = edges.collect();
            expected.extend_from_slice(&edges);
            loose.append(edges, &[], &[]);
        }
        let NamedGraph { graph, ids, .. } =
            loose.into_graph(Path::new("x"), None, csr::Options::default()).unwrap();
        let row = |from| graph.row_of(from).targets.iter().map(move |&to| (from, to));
        let found = (0..graph.vertices()).flat_map(row);
        let found: Vec<_> = found.map(|(from, to)| (ids.id(from), ids.id(to))).collect();
        expected.sort_unstable();
        assert!(found == expected);
    }
}
