//! Statistics of a graph.

use paceline_proto::walk::Graph;

/// Statistics of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Vertices.
    pub vertices: u64,
    /// Edges; an undirected one counts twice.
    pub edges: u64,
    /// Outgoing edges of a vertex.
    pub degrees: Degrees,
    /// Vertices without outgoing edges.
    pub dead_ends: u64,
    /// Dead ends that have no incoming edges either.
    pub isolated: u64,
    /// Edges from a vertex to itself.
    pub self_loops: u64,
    /// Edges with the same source and target as an earlier one.
    pub duplicates: u64,
    /// Weakly connected components. An isolated vertex is one.
    pub components: u64,
    /// Vertices of the largest component.
    pub component_vertices_max: u64,
}

/// Distribution of out-degrees. All 0 for a graph without vertices.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Degrees {
    /// Least.
    pub min: u64,
    /// Half of the vertices have at most this degree.
    pub median: u64,
    /// Mean.
    pub mean: f64,
    /// 99 of 100 vertices have at most this degree.
    pub p99: u64,
    /// Most.
    pub max: u64,
}

impl Statistics {
    /// Computes the statistics of a graph. Reads each edge a few times; takes 12 bytes a vertex
    /// meanwhile.
    pub fn of(graph: &Graph) -> Statistics {
        let vertices = graph.vertices();
        let mut degrees: Vec<u64> =
            graph.offsets().windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mut is_reached = vec![false; vertices as usize];
        let mut components = Components::new(vertices);
        let (mut self_loops, mut duplicates) = (0, 0);
        for from in 0..vertices {
            let row = graph.row_of(from);
            duplicates += row.targets.windows(2).filter(|pair| pair[0] == pair[1]).count() as u64;
            for &to in row.targets {
                is_reached[to as usize] = true;
                if to == from {
                    self_loops += 1;
                } else {
                    components.join(from, to);
                }
            }
        }
        let dead_ends = degrees.iter().filter(|&&degree| degree == 0).count() as u64;
        let is_isolated = |(degree, is_reached): &(&u64, &bool)| **degree == 0 && !**is_reached;
        let isolated = degrees.iter().zip(&is_reached).filter(is_isolated).count() as u64;
        let (components, component_vertices_max) = components.count();
        Statistics {
            vertices: vertices.into(),
            edges: graph.edges(),
            degrees: Degrees::of(&mut degrees),
            dead_ends,
            isolated,
            self_loops,
            duplicates,
            components,
            component_vertices_max,
        }
    }
}

impl Degrees {
    fn of(degrees: &mut [u64]) -> Degrees {
        degrees.sort_unstable();
        let (Some(&min), Some(&max)) = (degrees.first(), degrees.last()) else {
            return Degrees::default();
        };
        // The `percent`th percentile, by nearest rank.
        let rank = |percent: usize| degrees[(degrees.len() * percent).div_ceil(100) - 1];
        let mean = degrees.iter().sum::<u64>() as f64 / degrees.len() as f64;
        Degrees { min, median: rank(50), mean, p99: rank(99), max }
    }
}

/// A union-find structure over vertices. Source: Tarjan, *Efficiency of a Good But Not Linear Set
/// Union Algorithm*, JACM 1975; with path halving, and the lower number as the root.
struct Components {
    parents: Vec<u32>,
}

impl Components {
    fn new(vertices: u32) -> Components {
        Components { parents: (0..vertices).collect() }
    }

    fn root(&mut self, mut vertex: u32) -> u32 {
        loop {
            let parent = self.parents[vertex as usize];
            if parent == vertex {
                return vertex;
            }
            let above = self.parents[parent as usize];
            self.parents[vertex as usize] = above;
            vertex = above;
        }
    }

    fn join(&mut self, a: u32, b: u32) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b) as usize] = a.min(b);
    }

    /// How many there are, and the size of the largest.
    fn count(mut self) -> (u64, u64) {
        let mut sizes = vec![0u32; self.parents.len()];
        for vertex in 0..self.parents.len() as u32 {
            sizes[self.root(vertex) as usize] += 1;
        }
        let count = sizes.iter().filter(|&&size| size > 0).count() as u64;
        (count, sizes.into_iter().max().unwrap_or(0).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Blocks;

    #[test]
    fn every_number_of_a_small_graph_is_right() {
        // 0 -> 1 twice, 1 -> 1, 2 -> 1, 3 alone, 4 -> 5.
        let edges = [(0, 1), (0, 1), (1, 1), (2, 1), (4, 5)];
        let found = Statistics::of(&Graph::from_edges(6, edges).unwrap());
        let degrees = Degrees { min: 0, median: 1, mean: 5.0 / 6.0, p99: 2, max: 2 };
        let expected = Statistics {
            vertices: 6,
            edges: 5,
            degrees,
            dead_ends: 2,
            isolated: 1,
            self_loops: 1,
            duplicates: 1,
            components: 3,
            component_vertices_max: 3,
        };
        assert_eq!(found, expected);
    }

    #[test]
    fn blocks_that_nothing_joins_are_components() {
        let blocks = Blocks::new(vec![100, 300], vec![vec![0.3, 0.0], vec![0.0, 0.3]]).unwrap();
        let found = Statistics::of(&blocks.generate(1));
        assert_eq!((found.components, found.component_vertices_max), (2, 300));
    }

    #[test]
    fn a_graph_of_nothing_has_numbers_too() {
        let found = Statistics::of(&Graph::new(vec![0], vec![]).unwrap());
        assert_eq!((found.vertices, found.components, found.degrees.max), (0, 0, 0));
    }
}
