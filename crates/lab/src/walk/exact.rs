//! What walks do on average, exactly.

use paceline_proto::walk::{Graph, Length};

/// Mean hops of uniform walks, as many from each vertex: the sum over steps of the share of walks
/// that take them. Walks end early at dead ends, so the mean may be below that of their lengths.
pub(super) fn mean_hops(graph: &Graph, length: Length) -> f64 {
    let vertices = graph.vertices();
    // Where walks are that are not at an end, by the share of all.
    let mut there = vec![1.0 / f64::from(vertices); vertices as usize];
    let mut hops = 0.0;
    for _ in 0..length.steps_max() {
        let go_on = match length {
            Length::Steps(_) => 1.0,
            Length::Geometric { end, .. } => 1.0 - end.probability(),
        };
        let mut next = vec![0.0; vertices as usize];
        let mut moved = 0.0;
        for vertex in 0..vertices {
            let targets = graph.row_of(vertex).targets;
            let share = there[vertex as usize] * go_on;
            if targets.is_empty() || share == 0.0 {
                continue;
            }
            moved += share;
            for &target in targets {
                next[target as usize] += share / targets.len() as f64;
            }
        }
        hops += moved;
        if moved < 1e-12 {
            break;
        }
        there = next;
    }
    hops
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_proto::walk::Chance;

    #[test]
    fn hops_are_those_of_the_length_but_for_dead_ends() {
        let end = Chance::new(0.2).unwrap();
        let length = Length::Geometric { end, steps_max: 10_000 };
        let pair = Graph::from_edges(2, [(0, 1), (1, 0)]).unwrap();
        assert!((mean_hops(&pair, length) - 4.0).abs() < 1e-6);
        let with_isolated = Graph::from_edges(4, [(0, 1), (1, 0)]).unwrap();
        assert!((mean_hops(&with_isolated, length) - 2.0).abs() < 1e-6);
        let to_an_end = Graph::from_edges(2, [(0, 1)]).unwrap();
        assert!((mean_hops(&to_an_end, Length::Steps(5)) - 0.5).abs() < 1e-9);
    }
}
