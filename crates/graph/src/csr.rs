//! Builds rows from edges in any order.

use paceline_proto::walk::{Graph, GraphError, Vertex};

use crate::memory;

/// How edges are changed before they become rows. Default: not at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Adds each edge in both directions; a self-loop once.
    pub undirected: bool,
    /// Merges edges between the same vertices (and with the same label) into one, with the sum of
    /// their weights. If an undirected graph lists each edge in both directions, the weight
    /// doubles.
    pub dedupe: bool,
    /// Drops self-loops.
    pub drop_self_loops: bool,
}

/// Edges in any order, with their weights and labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edges {
    /// The source and the target of each edge.
    pub ends: Vec<(Vertex, Vertex)>,
    /// Their weights, in the same order, if they have any.
    pub weights: Option<Vec<f32>>,
    /// Their labels, in the same order, if they have any.
    pub labels: Option<Vec<u8>>,
}

/// Compressed sparse rows: the arrays of a [`Graph`], with the weights as they were given.
///
/// Rows are sorted by target, then by label and weight.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Where each row begins, and the number of edges.
    pub offsets: Vec<u64>,
    /// The target of each edge, row by row.
    pub targets: Vec<Vertex>,
    /// Their weights, if they have any.
    pub weights: Option<Vec<f32>>,
    /// Their labels, if they have any.
    pub labels: Option<Vec<u8>>,
}

impl Rows {
    /// The rows of these edges between `vertices` vertices.
    ///
    /// Takes 8 bytes for each given edge, 4 for each edge of the rows and 16 for each vertex;
    /// weights and labels add 4 and 1 for each edge of both kinds.
    ///
    /// # Panics
    ///
    /// If an edge has an end that is not a vertex, or the number of weights or labels is not that
    /// of the edges.
    pub fn new(vertices: u32, edges: Edges, options: Options) -> Rows {
        let Edges { ends, weights, labels } = edges;
        assert!(weights.as_ref().is_none_or(|weights| weights.len() == ends.len()));
        assert!(labels.as_ref().is_none_or(|labels| labels.len() == ends.len()));
        let ways = |(from, to): (Vertex, Vertex)| Ways::new(from, to, options);
        let mut offsets: Vec<u64> = memory::zeros(vertices as usize + 1);
        for (from, _) in ends.iter().copied().flat_map(ways) {
            offsets[from as usize + 1] += 1;
        }
        for vertex in 0..vertices as usize {
            offsets[vertex + 1] += offsets[vertex];
        }
        let count = offsets[vertices as usize] as usize;
        let mut targets: Vec<Vertex> = memory::zeros(count);
        let mut row_weights = weights.as_ref().map(|_| vec![0.0; count]);
        let mut row_labels = labels.as_ref().map(|_| vec![0; count]);
        let mut next = offsets.clone();
        for (edge, &end) in ends.iter().enumerate() {
            for (from, to) in ways(end) {
                assert!(
                    to < vertices,
                    "edge {edge} leads to vertex {to}, but there are only \
                    {vertices} vertices"
                );
                let place = next[from as usize] as usize;
                next[from as usize] += 1;
                targets[place] = to;
                if let (Some(row), Some(given)) = (&mut row_weights, &weights) {
                    row[place] = given[edge];
                }
                if let (Some(row), Some(given)) = (&mut row_labels, &labels) {
                    row[place] = given[edge];
                }
            }
        }
        drop((ends, weights, labels, next));
        let mut rows = Rows { offsets, targets, weights: row_weights, labels: row_labels };
        rows.sort();
        if options.dedupe {
            rows.dedupe();
        }
        rows
    }

    /// The graph of these rows, and the weights as they were given.
    pub fn into_graph(self) -> Result<(Graph, Option<Vec<f32>>), GraphError> {
        let mut graph = Graph::new(self.offsets, self.targets)?;
        if let Some(weights) = &self.weights {
            graph = graph.with_weights(weights)?;
        }
        if let Some(labels) = self.labels {
            graph = graph.with_labels(labels)?;
        }
        Ok((graph, self.weights))
    }

    /// Rebuilds the rows with these options.
    pub fn rebuilt(self, options: Options) -> Rows {
        let vertices = self.offsets.len() - 1;
        let mut ends = Vec::with_capacity(self.targets.len());
        for (from, pair) in self.offsets.windows(2).enumerate() {
            let row = &self.targets[pair[0] as usize..pair[1] as usize];
            ends.extend(row.iter().map(|&to| (from as Vertex, to)));
        }
        let Rows { offsets, targets, weights, labels } = self;
        drop((offsets, targets));
        Rows::new(vertices as u32, Edges { ends, weights, labels }, options)
    }

    /// Sorts each row.
    pub fn sort(&mut self) {
        let slice = Slice {
            targets: &mut self.targets,
            weights: self.weights.as_deref_mut(),
            labels: self.labels.as_deref_mut(),
        };
        slice.sort(&self.offsets, &mut Vec::new());
    }

    fn dedupe(&mut self) {
        let mut kept = 0;
        let mut begin = 0;
        for vertex in 0..self.offsets.len() - 1 {
            let end = self.offsets[vertex + 1] as usize;
            let first = kept;
            for edge in begin..end {
                let label = self.labels.as_ref().map(|labels| labels[edge]);
                let is_again = kept > first
                    && self.targets[kept - 1] == self.targets[edge]
                    && self.labels.as_ref().map(|labels| labels[kept - 1]) == label;
                if is_again {
                    if let Some(weights) = &mut self.weights {
                        weights[kept - 1] += weights[edge];
                    }
                    continue;
                }
                self.targets[kept] = self.targets[edge];
                if let Some(weights) = &mut self.weights {
                    weights[kept] = weights[edge];
                }
                if let Some(labels) = &mut self.labels {
                    labels[kept] = labels[edge];
                }
                kept += 1;
            }
            begin = end;
            self.offsets[vertex + 1] = kept as u64;
        }
        self.targets.truncate(kept);
        self.targets.shrink_to_fit();
        if let Some(weights) = &mut self.weights {
            weights.truncate(kept);
            weights.shrink_to_fit();
        }
        if let Some(labels) = &mut self.labels {
            labels.truncate(kept);
            labels.shrink_to_fit();
        }
    }
}

/// The directions in which an edge enters the rows: none, one or both.
struct Ways {
    ends: (Vertex, Vertex),
    left: u8,
}

impl Ways {
    fn new(from: Vertex, to: Vertex, options: Options) -> Ways {
        let left = match from == to {
            true => u8::from(!options.drop_self_loops),
            false => 1 + u8::from(options.undirected),
        };
        Ways { ends: (from, to), left }
    }
}

impl Iterator for Ways {
    type Item = (Vertex, Vertex);

    fn next(&mut self) -> Option<(Vertex, Vertex)> {
        self.left = self.left.checked_sub(1)?;
        let (from, to) = self.ends;
        self.ends = (to, from);
        Some((from, to))
    }
}

/// Some neighbouring rows.
struct Slice<'a> {
    targets: &'a mut [Vertex],
    weights: Option<&'a mut [f32]>,
    labels: Option<&'a mut [u8]>,
}

/// An edge of a row that is being sorted.
type Loose = (Vertex, u8, f32);

impl Slice<'_> {
    /// Fewest edges for which several threads sort rows.
    const EDGES_MIN: usize = 1 << 16;

    /// Sorts the rows that begin and end at `offsets`, of which the first begins at this slice.
    fn sort(mut self, offsets: &[u64], scratch: &mut Vec<Loose>) {
        let rows = offsets.len() - 1;
        if rows > 1 && self.targets.len() > Slice::EDGES_MIN {
            let middle = rows / 2;
            let edges = (offsets[middle] - offsets[0]) as usize;
            let (low, high) = self.split(edges);
            rayon::join(
                || low.sort(&offsets[..=middle], &mut Vec::new()),
                || high.sort(&offsets[middle..], &mut Vec::new()),
            );
            return;
        }
        let Slice { targets, mut weights, mut labels } = self;
        for pair in offsets.windows(2) {
            let row = (pair[0] - offsets[0]) as usize..(pair[1] - offsets[0]) as usize;
            if weights.is_none() && labels.is_none() {
                targets[row].sort_unstable();
                continue;
            }
            scratch.clear();
            scratch.extend(row.clone().map(|edge| {
                let label = labels.as_deref().map_or(0, |labels| labels[edge]);
                (targets[edge], label, weights.as_deref().map_or(0.0, |weights| weights[edge]))
            }));
            scratch.sort_unstable_by(|a, b| {
                (a.0, a.1).cmp(&(b.0, b.1)).then_with(|| a.2.total_cmp(&b.2))
            });
            for (edge, &(target, label, weight)) in row.zip(scratch.iter()) {
                targets[edge] = target;
                if let Some(weights) = weights.as_deref_mut() {
                    weights[edge] = weight;
                }
                if let Some(labels) = labels.as_deref_mut() {
                    labels[edge] = label;
                }
            }
        }
    }

    fn split(&mut self, edges: usize) -> (Slice<'_>, Slice<'_>) {
        let (low, high) = self.targets.split_at_mut(edges);
        let weights = self.weights.as_deref_mut().map(|weights| weights.split_at_mut(edges));
        let labels = self.labels.as_deref_mut().map(|labels| labels.split_at_mut(edges));
        let (low_weights, high_weights) = weights.unzip();
        let (low_labels, high_labels) = labels.unzip();
        (
            Slice { targets: low, weights: low_weights, labels: low_labels },
            Slice { targets: high, weights: high_weights, labels: high_labels },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges() -> Edges {
        Edges {
            ends: vec![(2, 0), (0, 1), (1, 1), (0, 1), (1, 0), (0, 2)],
            weights: Some(vec![6.0, 2.0, 3.0, 1.0, 5.0, 4.0]),
            labels: Some(vec![b'f', b'a', b'c', b'a', b'e', b'd']),
        }
    }

    #[test]
    fn what_an_edge_carries_goes_with_it() {
        let rows = Rows::new(4, edges(), Options::default());
        assert_eq!(rows.offsets, [0, 3, 5, 6, 6]);
        assert_eq!(rows.targets, [1, 1, 2, 0, 1, 0]);
        assert_eq!(rows.weights.as_deref().unwrap(), [1.0, 2.0, 4.0, 5.0, 3.0, 6.0]);
        assert_eq!(rows.labels.as_deref().unwrap(), b"aadecf");
        let (graph, weights) = rows.into_graph().unwrap();
        assert!(graph.is_weighted() && graph.is_labelled() && weights.unwrap().len() == 6);
    }

    #[test]
    fn duplicates_of_one_label_become_one_edge_with_their_weight() {
        let options = Options { dedupe: true, drop_self_loops: true, ..Options::default() };
        let rows = Rows::new(3, edges(), options);
        assert_eq!((&*rows.offsets, &*rows.targets), (&[0, 2, 3, 4][..], &[1, 2, 0, 0][..]));
        assert_eq!(rows.weights.unwrap(), [3.0, 4.0, 5.0, 6.0]);
        let mut differing = edges();
        differing.labels = Some(vec![0, 1, 2, 3, 4, 5]);
        assert_eq!(Rows::new(3, differing, options).targets, [1, 1, 2, 0, 0]);
    }

    #[test]
    fn an_undirected_edge_goes_both_ways_and_a_self_loop_once() {
        let edges = Edges { ends: vec![(0, 1), (1, 1)], ..Edges::default() };
        let rows = Rows::new(2, edges, Options { undirected: true, ..Options::default() });
        assert_eq!((&*rows.offsets, &*rows.targets), (&[0, 1, 3][..], &[1, 0, 1][..]));
    }

    #[test]
    fn rows_sorted_by_many_threads_are_as_those_of_the_plain_constructor() {
        let mut rng = paceline_proto::core::Rng::new(1, 1);
        let ends: Vec<_> = (0..400_000).map(|_| (rng.below(1000), rng.below(1000))).collect();
        let plain = Graph::from_edges(1000, ends.iter().copied()).unwrap();
        let rows = Rows::new(1000, Edges { ends, ..Edges::default() }, Options::default());
        assert_eq!(rows.into_graph().unwrap().0, plain);
    }
}
