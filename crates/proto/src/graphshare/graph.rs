//! A graph in memory: compressed sparse rows, and what a walk reads of one.

use thiserror::Error;

/// A vertex: its place in the graph, from 0. The reader of a file maps the file's ids to these and
/// back.
pub type Vertex = u32;

/// A directed graph in compressed sparse rows; an undirected one has each edge both ways.
///
/// Row `v` is `targets[offsets[v]..offsets[v + 1]]`, in ascending order; duplicates are kept and
/// count as often as they stand there. 8 bytes a vertex and 4 an edge, 8 more an edge if there are
/// weights, 1 more if there are labels.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    offsets: Vec<u64>,
    targets: Vec<Vertex>,
    aliases: Option<Vec<Alias>>,
    labels: Option<Vec<u8>>,
}

/// Why rows do not form a graph. The caller that built them is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GraphError {
    /// There are more vertices than numbers for them.
    #[error("a graph of {0} vertices where {max} is the most", max = Graph::VERTICES_MAX)]
    TooManyVertices(u64),
    /// Offsets begin at something else than 0, fall, or do not end with the number of edges.
    #[error("offsets of vertex {vertex} are {from} and {to}, of {edges} edges")]
    Offsets {
        /// The first vertex whose row is impossible.
        vertex: u64,
        /// The offset at which its row begins.
        from: u64,
        /// The offset at which it ends.
        to: u64,
        /// How many edges there are.
        edges: u64,
    },
    /// An edge leads to no vertex.
    #[error("vertex {from} has an edge to {to}, and there are {vertices} vertices")]
    NoSuchVertex {
        /// Where the edge begins.
        from: Vertex,
        /// Its invalid target.
        to: Vertex,
        /// How many vertices there are.
        vertices: u64,
    },
    /// A row is not in ascending order.
    #[error("the row of vertex {0} is not in ascending order")]
    Unsorted(Vertex),
    /// Edges and what they carry are not as many.
    #[error("{edges} edges with {given} {what}")]
    Count {
        /// How many edges there are.
        edges: usize,
        /// How many were given.
        given: usize,
        /// Of what: `weights` or `labels`.
        what: &'static str,
    },
    /// A weight that is negative or not finite.
    #[error(
        "an edge of vertex {from} to {to} weighs {weight}: weights are finite and not negative"
    )]
    Weight {
        /// Where the edge begins.
        from: Vertex,
        /// Where it leads.
        to: Vertex,
        /// Its weight, as text.
        weight: String,
    },
}

impl Graph {
    /// The most vertices: one number is kept for "none".
    pub const VERTICES_MAX: u64 = u32::MAX as u64;

    /// A graph of these rows. `offsets` has one entry more than there are vertices.
    pub fn new(offsets: Vec<u64>, targets: Vec<Vertex>) -> Result<Graph, GraphError> {
        let vertices = (offsets.len() as u64).saturating_sub(1);
        if vertices > Graph::VERTICES_MAX {
            return Err(GraphError::TooManyVertices(vertices));
        }
        let edges = targets.len() as u64;
        let wrong = |vertex, from, to| GraphError::Offsets { vertex, from, to, edges };
        let (first, last) = match (offsets.first(), offsets.last()) {
            (Some(&first), Some(&last)) => (first, last),
            _ => return Err(wrong(0, 0, 0)),
        };
        if first != 0 || last != edges {
            return Err(wrong(if first != 0 { 0 } else { vertices }, first, last));
        }
        for (vertex, pair) in offsets.windows(2).enumerate() {
            if pair[0] > pair[1] || pair[1] > edges {
                return Err(wrong(vertex as u64, pair[0], pair[1]));
            }
            let row = &targets[pair[0] as usize..pair[1] as usize];
            if row.windows(2).any(|pair| pair[0] > pair[1]) {
                return Err(GraphError::Unsorted(vertex as Vertex));
            }
            // Ascending: the last is the greatest.
            if let Some(&to) = row.last().filter(|&&to| u64::from(to) >= vertices) {
                let from = vertex as Vertex;
                return Err(GraphError::NoSuchVertex { from, to, vertices });
            }
        }
        Ok(Graph { offsets, targets, aliases: None, labels: None })
    }

    /// The graph of these edges, in any order.
    pub fn from_edges(
        vertices: u32,
        edges: impl IntoIterator<Item = (Vertex, Vertex)>,
    ) -> Result<Graph, GraphError> {
        let mut edges: Vec<(Vertex, Vertex)> = edges.into_iter().collect();
        edges.sort_unstable();
        if let Some(&(from, to)) = edges.iter().find(|&&(from, to)| from.max(to) >= vertices) {
            let vertices = u64::from(vertices);
            return Err(GraphError::NoSuchVertex { from, to, vertices });
        }
        let mut offsets = vec![0; vertices as usize + 1];
        for &(from, _) in &edges {
            offsets[from as usize + 1] += 1;
        }
        for vertex in 0..vertices as usize {
            offsets[vertex + 1] += offsets[vertex];
        }
        Graph::new(offsets, edges.into_iter().map(|(_, to)| to).collect())
    }

    /// With a weight for each edge, in the order of the rows. A row whose weights are all 0 is a
    /// dead end.
    pub fn with_weights(mut self, weights: &[f32]) -> Result<Graph, GraphError> {
        if weights.len() != self.targets.len() {
            let (edges, given) = (self.targets.len(), weights.len());
            return Err(GraphError::Count { edges, given, what: "weights" });
        }
        let mut aliases = Vec::with_capacity(weights.len());
        let mut scratch = AliasScratch::default();
        for vertex in 0..self.vertices() {
            let range = self.range(vertex);
            let row = &weights[range.clone()];
            if let Some(edge) = row.iter().position(|weight| !weight.is_finite() || *weight < 0.0) {
                let (to, weight) = (self.targets[range.start + edge], row[edge].to_string());
                return Err(GraphError::Weight { from: vertex, to, weight });
            }
            Alias::append_row(row, &mut scratch, &mut aliases);
        }
        self.aliases = Some(aliases);
        Ok(self)
    }

    /// With a label for each edge, in the order of the rows.
    pub fn with_labels(mut self, labels: Vec<u8>) -> Result<Graph, GraphError> {
        if labels.len() != self.targets.len() {
            let (edges, given) = (self.targets.len(), labels.len());
            return Err(GraphError::Count { edges, given, what: "labels" });
        }
        self.labels = Some(labels);
        Ok(self)
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> u32 {
        (self.offsets.len() - 1) as u32
    }

    /// How many edges there are; an undirected one counts twice.
    pub fn edges(&self) -> u64 {
        self.targets.len() as u64
    }

    /// Where each row begins, and the number of edges.
    pub fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// Where edges lead, row by row.
    pub fn targets(&self) -> &[Vertex] {
        &self.targets
    }

    /// True if edges have weights.
    pub fn is_weighted(&self) -> bool {
        self.aliases.is_some()
    }

    /// True if edges have labels.
    pub fn is_labelled(&self) -> bool {
        self.labels.is_some()
    }

    /// The alias tables of the edges, row by row, if they have weights.
    pub fn aliases(&self) -> Option<&[Alias]> {
        self.aliases.as_deref()
    }

    /// Labels of edges, row by row, if there are any.
    pub fn labels(&self) -> Option<&[u8]> {
        self.labels.as_deref()
    }

    /// A vertex's edges.
    ///
    /// # Panics
    ///
    /// If there is no such vertex.
    #[inline]
    pub fn row_of(&self, vertex: Vertex) -> Row<'_> {
        let range = self.range(vertex);
        Row {
            targets: &self.targets[range.clone()],
            aliases: self.aliases.as_deref().map(|aliases| &aliases[range.clone()]),
            labels: self.labels.as_deref().map(|labels| &labels[range]),
        }
    }

    /// The place among all edges of the one of `vertex` that a uniform draw falls on; any place if
    /// it has none.
    #[inline]
    pub(crate) fn edge_of(&self, vertex: Vertex, draw: u64) -> u64 {
        let vertex = vertex as usize;
        let Some(&[from, to]) = self.offsets.get(vertex..vertex + 2) else { return 0 };
        from + ((u128::from(draw) * u128::from(to - from)) >> 64) as u64
    }

    /// The target of the edge at this place; vertex 0 if the place has no edge.
    #[inline]
    pub(crate) fn target_of(&self, edge: u64) -> Vertex {
        self.targets.get(edge as usize).copied().unwrap_or_default()
    }

    /// Bytes that the graph holds.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.offsets)
            + size_of_val(&*self.targets)
            + self.aliases.as_deref().map_or(0, size_of_val)
            + self.labels.as_deref().map_or(0, size_of_val)
    }

    fn range(&self, vertex: Vertex) -> std::ops::Range<usize> {
        self.offsets[vertex as usize] as usize..self.offsets[vertex as usize + 1] as usize
    }
}

/// A vertex's edges.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Where they lead, ascending.
    pub targets: &'a [Vertex],
    /// The alias table of the row, if edges have weights.
    pub aliases: Option<&'a [Alias]>,
    /// Their labels, if they have any.
    pub labels: Option<&'a [u8]>,
}

impl Row<'_> {
    /// No edges: a dead end of any kind.
    pub const EMPTY: Row<'static> = Row { targets: &[], aliases: None, labels: None };

    /// True if there is an edge to this vertex.
    pub fn leads_to(&self, vertex: Vertex) -> bool {
        self.targets.binary_search(&vertex).is_ok()
    }
}

/// A walk's access to a graph: to all of it, or to a server's part.
pub trait Adjacency {
    /// A vertex's edges, if they are here.
    fn row(&self, vertex: Vertex) -> Option<Row<'_>>;
}

impl Adjacency for Graph {
    fn row(&self, vertex: Vertex) -> Option<Row<'_>> {
        (vertex < self.vertices()).then(|| self.row_of(vertex))
    }
}

/// An edge's column in the alias table of its row: a draw of this column selects this edge with
/// probability `keep / 2^32`, else the `other`-th edge of the row.
///
/// Source: Walker, *An Efficient Method for Generating Discrete Random Variables with General
/// Distributions*, ACM TOMS 1977; built as in Vose 1991.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alias {
    keep: u32,
    other: u32,
}

/// Memory for building a row, reused from row to row.
#[derive(Default)]
pub struct AliasScratch {
    scaled: Vec<f64>,
    small: Vec<u32>,
    large: Vec<u32>,
}

impl Alias {
    /// Marks a row that weighs nothing.
    const NOTHING: Alias = Alias { keep: 0, other: u32::MAX };

    /// Appends the columns of a row of these weights, each finite and not negative.
    pub fn append_row(weights: &[f32], scratch: &mut AliasScratch, aliases: &mut Vec<Alias>) {
        let base = aliases.len();
        let total: f64 = weights.iter().copied().map(f64::from).sum();
        if total <= 0.0 {
            aliases.resize(base + weights.len(), Alias::NOTHING);
            return;
        }
        let AliasScratch { scaled, small, large } = scratch;
        scaled.clear();
        small.clear();
        large.clear();
        let mean = total / weights.len() as f64;
        scaled.extend(weights.iter().map(|&weight| f64::from(weight) / mean));
        for (column, &share) in scaled.iter().enumerate() {
            if share < 1.0 {
                small.push(column as u32)
            } else {
                large.push(column as u32)
            }
            aliases.push(Alias { keep: u32::MAX, other: column as u32 });
        }
        while let (Some(&low), Some(&high)) = (small.last(), large.last()) {
            small.pop();
            // Rounded to the nearest of 2^32 parts; an edge of weight 0 has none of them.
            let keep = (scaled[low as usize] * 4_294_967_296.0) as u32;
            aliases[base + low as usize] = Alias { keep, other: high };
            scaled[high as usize] -= 1.0 - scaled[low as usize];
            if scaled[high as usize] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // Rounding leaves columns in one of the lists that are full but for an error of 2^-50 or
        // so. One that weighs nothing is not among them unless all before it were spent on it.
        for &column in small.iter() {
            if weights[column as usize] == 0.0 {
                let heaviest =
                    (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
                let other = heaviest.unwrap_or(0) as u32;
                aliases[base + column as usize] = Alias { keep: 0, other };
            }
        }
    }

    /// The edge that a 64-bit draw takes from a row with these columns, as its place in the row;
    /// none if the row is empty or weighs nothing.
    pub fn pick(columns: &[Alias], draw: u64) -> Option<usize> {
        let wide = u128::from(draw) * columns.len() as u128;
        let column = columns.get((wide >> 64) as usize)?;
        if *column == Alias::NOTHING {
            return None;
        }
        let rest = (wide as u64 >> 32) as u32;
        let place = (wide >> 64) as usize;
        // A column that is all its own has no other.
        Some(if rest < column.keep { place } else { column.other as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Rng;

    #[test]
    fn rows_that_are_no_graph_are_refused_with_the_vertex_at_fault() {
        let refused = |offsets: &[u64], targets: &[Vertex]| {
            Graph::new(offsets.to_vec(), targets.to_vec()).unwrap_err().to_string()
        };
        assert_eq!(refused(&[], &[]), "offsets of vertex 0 are 0 and 0, of 0 edges");
        assert_eq!(refused(&[0, 2], &[0]), "offsets of vertex 1 are 0 and 2, of 1 edges");
        assert_eq!(refused(&[0, 2, 1, 2], &[0, 1]), "offsets of vertex 1 are 2 and 1, of 2 edges");
        assert_eq!(refused(&[0, 2, 2], &[1, 0]), "the row of vertex 0 is not in ascending order");
        let far = "vertex 1 has an edge to 2, and there are 2 vertices";
        assert_eq!(refused(&[0, 0, 1], &[2]), far);
        let graph = Graph::new(vec![0, 1], vec![0]).unwrap();
        let heavy = graph.clone().with_weights(&[f32::NAN]).unwrap_err().to_string();
        assert!(heavy.contains("an edge of vertex 0 to 0 weighs NaN"), "{heavy}");
        assert!(graph.with_labels(vec![]).is_err());
    }

    #[test]
    fn edges_become_sorted_rows_and_duplicates_stay() {
        let graph = Graph::from_edges(3, [(2, 1), (0, 2), (0, 1), (0, 2), (1, 1)]).unwrap();
        assert_eq!(graph.row_of(0).targets, [1, 2, 2]);
        assert_eq!(graph.row_of(1).targets, [1]);
        assert!(graph.row_of(2).leads_to(1) && !graph.row_of(2).leads_to(2));
        assert_eq!(graph.edges(), 5);
        assert!(graph.row(3).is_none());
        assert!(Graph::from_edges(2, [(0, 2)]).is_err());
    }

    #[test]
    fn edges_are_taken_as_often_as_they_weigh() {
        let mut rng = Rng::new(5, 1);
        for weights in [vec![1.0], vec![0.0, 3.0, 1.0, 0.0], vec![1e-3, 1e3, 2e3, 1.0, 7.0]] {
            let mut columns = Vec::new();
            Alias::append_row(&weights, &mut AliasScratch::default(), &mut columns);
            let mut taken = vec![0u32; weights.len()];
            for _ in 0..1_000_000 {
                taken[Alias::pick(&columns, rng.next_u64()).unwrap()] += 1;
            }
            let total: f32 = weights.iter().sum();
            for (&weight, &taken) in weights.iter().zip(&taken) {
                let expected = f64::from(weight / total) * 1e6;
                let off = (f64::from(taken) - expected).abs();
                assert!(off <= 5.0 * expected.sqrt(), "{taken} for {expected} of {weights:?}");
            }
        }
    }

    #[test]
    fn a_row_without_weight_is_a_dead_end() {
        let mut columns = Vec::new();
        Alias::append_row(&[0.0, 0.0], &mut AliasScratch::default(), &mut columns);
        assert_eq!(Alias::pick(&columns, 17), None);
        assert_eq!(Alias::pick(&[], 17), None);
    }
}
