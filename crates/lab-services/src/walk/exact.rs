//! Exact expected values of walks.

use paceline_graph::walk::ExactLengths;
use paceline_proto::walk::{Graph, Length};

/// Mean hops of uniform walks, as many from each vertex. Walks end early at dead ends, so the mean
/// may be below that of their lengths.
pub(super) fn mean_hops(graph: &Graph, length: Length) -> f64 {
    ExactLengths::of(graph, length, &vec![1.0; graph.vertices() as usize], 1e-12).mean()
}
