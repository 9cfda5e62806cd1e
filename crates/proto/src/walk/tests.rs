//! Walks on small graphs beside what is exact.

mod bench;
mod changes;
mod codec;
mod graph_messages;
mod homes;
mod server;
mod steps;

use std::sync::Arc;

use super::*;

/// A triangle 0-1-2 with a tail 2-3, both ways.
fn kite() -> Graph {
    let ways = [(0, 1), (1, 2), (0, 2), (2, 3)];
    Graph::from_edges(4, ways.iter().flat_map(|&(a, b)| [(a, b), (b, a)])).unwrap()
}

fn path(kind: &Kind, graph: &impl Adjacency, mut walker: Walker) -> Vec<Vertex> {
    let mut path = vec![walker.at];
    while let Step::To(vertex) = kind.step(&mut walker, graph) {
        path.push(vertex);
    }
    path
}

#[test]
fn a_walk_has_its_steps_and_each_is_an_edge() {
    let graph = kite();
    for kind in [Kind::Uniform, Kind::Weighted, Kind::Node2Vec(Node2Vec::new(0.5, 2.0).unwrap())] {
        for walk in 0..100 {
            let path = path(&kind, &graph, Walker::new(7, walk, 3, Length::Steps(20)));
            assert_eq!(path.len(), 21);
            assert!(path.windows(2).all(|pair| graph.row_of(pair[0]).leads_to(pair[1])));
        }
    }
}

#[test]
fn lengths_are_geometric() {
    let end = Chance::new(0.2).unwrap();
    let length = Length::Geometric { end, steps_max: 1000 };
    let mut counts = [0u32; 12];
    let walks = 1_000_000;
    for walk in 0..walks {
        let steps = Walker::new(1, walk, 0, length).steps_left as usize;
        counts[steps.min(11)] += 1;
    }
    for (steps, &count) in counts[..11].iter().enumerate() {
        let expected = walks as f64 * 0.2 * 0.8f64.powi(steps as i32);
        let off = (f64::from(count) - expected).abs();
        assert!(off < 5.0 * expected.sqrt(), "{count} of {steps} steps where {expected} are due");
    }
}

/// How often walks that went 1 -> 2 go on to 0, 1 and 3.
#[test]
fn node2vec_goes_on_by_where_it_came_from() {
    let graph = kite();
    let (p, q) = (0.25, 4.0);
    let kind = Kind::Node2Vec(Node2Vec::new(p, q).unwrap());
    let mut counts = [0u32; 4];
    for walk in 0..200_000 {
        let mut walker = Walker::new(9, walk, 1, Length::Steps(5));
        (walker.previous, walker.at) = (1, 2);
        let Step::To(vertex) = kind.step(&mut walker, &graph) else { panic!("a dead end") };
        counts[vertex as usize] += 1;
    }
    // From 2: back to 1 with 1/p, to 0, which 1 leads to, with 1, to 3 with 1/q.
    let total = 1.0 / p + 1.0 + 1.0 / q;
    for (vertex, bias) in [(0, 1.0), (1, 1.0 / p), (3, 1.0 / q)] {
        let expected = 200_000.0 * bias / total;
        let off = (f64::from(counts[vertex]) - expected).abs();
        assert!(off < 5.0 * expected.sqrt(), "{} of {expected} to {vertex}", counts[vertex]);
    }
}

/// The even or the odd vertices of a graph.
struct Half<'a>(&'a Graph, u32);

impl Adjacency for Half<'_> {
    fn row(&self, vertex: Vertex) -> Option<Row<'_>> {
        (vertex % 2 == self.1).then(|| self.0.row_of(vertex))
    }
}

#[test]
fn a_walk_that_is_carried_from_part_to_part_takes_the_same_path() {
    let graph = kite();
    let kinds = [Kind::Uniform, Kind::Node2Vec(Node2Vec::new(0.1, 10.0).unwrap())];
    for kind in kinds {
        for walk in 0..200 {
            let walker = Walker::new(3, walk, 0, Length::Steps(30));
            let whole = path(&kind, &graph, walker);
            let (mut walker, mut parted, mut part) = (walker, vec![walker.at], 0);
            loop {
                match kind.step(&mut walker, &Half(&graph, part)) {
                    Step::To(vertex) => parted.push(vertex),
                    Step::Need(vertex) => part = vertex % 2,
                    Step::Done | Step::DeadEnd => break,
                }
            }
            assert_eq!(whole, parted);
        }
    }
}

#[test]
fn metapaths_take_labels_by_turns_and_restarts_return() {
    // 0 -a-> 1 -b-> 0, 0 -b-> 2, 1 -a-> 2; 2 is a dead end.
    let graph = Graph::from_edges(3, [(0, 1), (0, 2), (1, 0), (1, 2)]).unwrap();
    let graph = graph.with_labels(vec![b'a', b'b', b'b', b'a']).unwrap();
    let kind = Kind::Metapath(Arc::from(*b"ab"));
    kind.check(graph.is_labelled()).unwrap();
    let around = path(&kind, &graph, Walker::new(1, 1, 0, Length::Steps(6)));
    assert_eq!(around, [0, 1, 0, 1, 0, 1, 0]);
    let to_its_end = path(&kind, &graph, Walker::new(1, 1, 1, Length::Steps(6)));
    assert_eq!(to_its_end, [1, 2]);
    let kind = Kind::Restart(Chance::new(0.5).unwrap());
    let long = path(&kind, &graph, Walker::new(1, 1, 0, Length::Steps(1000)));
    assert_eq!(long.len(), 1001);
    let back = long.windows(2).filter(|pair| pair[0] == 2).all(|pair| pair[1] == 0);
    assert!(back, "a dead end leads back to the source");
}

#[test]
fn a_kind_that_makes_no_sense_is_refused() {
    assert!(Kind::Metapath(Arc::from([])).check(true).is_err());
    assert!(Kind::Metapath(Arc::from([1])).check(false).is_err());
    assert!(Chance::new(-0.1).is_err() && Chance::new(f64::NAN).is_err());
    assert!(Node2Vec::new(1.0, 0.0).is_err() && Node2Vec::new(f64::NAN, 1.0).is_err());
    assert_eq!(Chance::new(1.0).unwrap().probability(), 1.0);
}
