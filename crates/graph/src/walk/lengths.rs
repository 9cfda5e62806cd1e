//! Lengths of walks: measured, and exact.

use paceline_proto::walk::{Graph, Length, Vertex, Walker};
use rayon::prelude::*;

use super::paths::Paths;
use crate::chi_square;

/// How many steps walks of a job took, and how many of them ended early.
///
/// It takes 8 bytes for each step of the longest walk.
#[derive(Clone, Debug, PartialEq)]
pub struct Lengths {
    seed: u64,
    length: Length,
    walks: Vec<u64>,
    dead_ends: u64,
}

impl Lengths {
    /// No walks yet. Seed and length must be the job's.
    pub fn new(seed: u64, length: Length) -> Lengths {
        Lengths { seed, length, walks: Vec::new(), dead_ends: 0 }
    }

    /// Adds these paths. A path without any vertex is not a walk.
    pub fn append(&mut self, paths: &Paths) {
        for (walk, path) in paths.iter() {
            let Some((&source, behind)) = path.split_first() else { continue };
            let steps = behind.len();
            if self.walks.len() <= steps {
                self.walks.resize(steps + 1, 0);
            }
            self.walks[steps] += 1;
            let drawn = match self.length {
                Length::Steps(steps) => steps,
                Length::Geometric { .. } => {
                    Walker::new(self.seed, walk, source, self.length).steps_left
                }
            };
            self.dead_ends += u64::from((steps as u64) < u64::from(drawn));
        }
    }

    /// How many walks took each number of steps.
    pub fn walks_by_steps(&self) -> &[u64] {
        &self.walks
    }

    /// Walks counted.
    pub fn walks(&self) -> u64 {
        self.walks.iter().sum()
    }

    /// Steps that they took.
    pub fn steps(&self) -> u64 {
        (0..).zip(&self.walks).map(|(steps, walks)| steps * walks).sum()
    }

    /// Walks that a dead end cut short.
    pub fn dead_ends(&self) -> u64 {
        self.dead_ends
    }

    /// Steps of a walk on average; 0 if there are no walks.
    pub fn mean(&self) -> f64 {
        self.steps() as f64 / self.walks().max(1) as f64
    }

    /// The probability that walks with these exact shares deviate at least as much.
    pub fn p_value(&self, exact: &ExactLengths) -> f64 {
        let all = self.walks() as f64;
        let shares = exact.shares();
        let seen = |steps: usize| self.walks.get(steps).copied().unwrap_or(0);
        // The last share is that of all longer walks as well.
        let last = shares.len() - 1;
        let longer = (last..self.walks.len()).map(seen).sum::<u64>();
        let bins = (0..last).map(|steps| (seen(steps), shares[steps] * all));
        chi_square::p_value(bins.chain([(longer, shares[last] * all)]))
    }
}

/// The exact distribution of lengths of uniform walks, computed over all vertices step by step.
#[derive(Clone, Debug, PartialEq)]
pub struct ExactLengths {
    /// For each number of steps, the share of walks with at least as many.
    at_least: Vec<f64>,
}

/// Parts of the vertices that threads handle in parallel. A fixed number, so that sums and their
/// rounding do not depend on the machine.
const PARTS: usize = 4;

impl ExactLengths {
    /// Lengths of walks whose sources are drawn with these weights. Lengths beyond the one that a
    /// share of `share_min` of all walks reaches are counted together.
    ///
    /// A length is drawn before the walk, which also ends at a dead end. So the share of walks of
    /// `k` steps or more is the chance to draw `k` or more, times the share of endless walks that
    /// can take `k` steps: only the latter needs the graph. It reads all edges for each step if a
    /// walk can come to a dead end, and once if none can; and takes 40 bytes a vertex.
    ///
    /// # Panics
    ///
    /// If the number of weights is not that of the vertices.
    pub fn of(graph: &Graph, length: Length, weights: &[f64], share_min: f64) -> ExactLengths {
        assert_eq!(weights.len(), graph.vertices() as usize);
        let is_dead_end = |vertex: Vertex| graph.row_of(vertex).targets.is_empty();
        let ends_on_the_way = graph.targets().par_iter().any(|&to| is_dead_end(to));
        let all: f64 = weights.iter().sum();
        let mut there: Vec<f64> = weights.iter().map(|weight| weight / all.max(1e-300)).collect();
        let mut found = 1.0;
        let mut at_least = vec![1.0];
        for steps in 1..=length.steps_max() {
            if steps == 1 && !ends_on_the_way {
                let ends = (0..graph.vertices()).filter(|&vertex| is_dead_end(vertex));
                found = 1.0 - ends.map(|vertex| there[vertex as usize]).sum::<f64>();
            } else if ends_on_the_way {
                (there, found) = step(graph, &there);
            }
            let drawn = match length {
                Length::Steps(_) => 1.0,
                Length::Geometric { end, .. } => (1.0 - end.probability()).powi(steps as i32),
            };
            if found * drawn < share_min || found * drawn <= 0.0 {
                break;
            }
            at_least.push(found * drawn);
        }
        ExactLengths { at_least }
    }

    /// The share of walks by number of steps; the last includes all longer walks.
    pub fn shares(&self) -> Vec<f64> {
        let next = self.at_least[1..].iter().copied().chain([0.0]);
        self.at_least.iter().zip(next).map(|(share, next)| share - next).collect()
    }

    /// The mean number of steps. Merged lengths count as the least of them.
    pub fn mean(&self) -> f64 {
        self.at_least[1..].iter().sum()
    }
}

/// The distribution of walks after a step, and the share of walks that had an edge to take.
fn step(graph: &Graph, there: &[f64]) -> (Vec<f64>, f64) {
    let size = there.len().div_ceil(PARTS).max(1);
    let part = |(place, there): (usize, &[f64])| {
        let mut next = vec![0.0; graph.vertices() as usize];
        let mut moved = 0.0;
        for (vertex, &share) in (place * size..).zip(there) {
            let targets = graph.row_of(vertex as Vertex).targets;
            if share == 0.0 || targets.is_empty() {
                continue;
            }
            moved += share;
            let each = share / targets.len() as f64;
            targets.iter().for_each(|&to| next[to as usize] += each);
        }
        (next, moved)
    };
    let parts: Vec<_> = there.par_chunks(size).enumerate().map(part).collect();
    let mut parts = parts.into_iter();
    let (mut next, mut moved) = parts.next().unwrap_or_default();
    for (more, also) in parts {
        next.iter_mut().zip(more).for_each(|(next, more)| *next += more);
        moved += also;
    }
    (next, moved)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rmat;
    use crate::walk::Job;
    use paceline_proto::walk::{Chance, Kind};

    fn geometric(end: f64, steps_max: u32) -> Length {
        Length::Geometric { end: Chance::new(end).unwrap(), steps_max }
    }

    fn exact(graph: &Graph, length: Length) -> ExactLengths {
        ExactLengths::of(graph, length, &vec![1.0; graph.vertices() as usize], 1e-12)
    }

    #[test]
    fn steps_are_those_of_the_length_but_for_dead_ends() {
        let pair = Graph::from_edges(2, [(0, 1), (1, 0)]).unwrap();
        assert!((exact(&pair, geometric(0.2, 10_000)).mean() - 4.0).abs() < 1e-6);
        let with_isolated = Graph::from_edges(4, [(0, 1), (1, 0)]).unwrap();
        assert!((exact(&with_isolated, geometric(0.2, 10_000)).mean() - 2.0).abs() < 1e-6);
        let to_an_end = Graph::from_edges(2, [(0, 1)]).unwrap();
        assert_eq!(exact(&to_an_end, Length::Steps(5)).shares(), [0.5, 0.5]);
        assert_eq!(exact(&pair, Length::Steps(2)).shares(), [0.0, 0.0, 1.0]);
        // 0 -> 1 and 2 evenly; 1 -> 0; 2 is a dead end. From 0 only.
        let graph = Graph::from_edges(3, [(0, 1), (0, 2), (1, 0)]).unwrap();
        let found = ExactLengths::of(&graph, geometric(0.5, 3), &[1.0, 0.0, 0.0], 1e-12);
        assert_eq!(found.shares(), [0.5, 0.375, 0.0625, 0.0625]);
    }

    #[test]
    fn walks_have_the_lengths_that_are_exact_and_survivors_have_not() {
        let graph = Rmat { edge_factor: 3, ..Rmat::new(10) }.generate(3).unwrap();
        let (length, seed) = (geometric(0.2, 60), 9);
        let job = Job::new(&graph, &Kind::Uniform, length, seed).unwrap();
        let job = job.with_walks_per_source(100);
        let (mut counted, mut survivors) = (Lengths::new(seed, length), Lengths::new(seed, length));
        let (paths, summary) = job.keep().unwrap();
        counted.append(&paths);
        for (walk, path) in paths.iter() {
            // Every other walk of four steps or more is lost.
            if path.len() <= 4 || walk % 2 > 0 {
                let mut one = Paths::empty(walk);
                one.push(path);
                survivors.append(&one);
            }
        }
        assert_eq!((counted.walks(), counted.steps()), (summary.walks, summary.steps));
        let cut = paths.iter().filter(|(walk, path)| {
            (path.len() as u32 - 1) < Walker::new(seed, *walk, path[0], length).steps_left
        });
        assert_eq!(counted.dead_ends(), cut.count() as u64);
        assert!(counted.dead_ends() > 1000);
        let exact = exact(&graph, length);
        assert!((counted.mean() / exact.mean() - 1.0).abs() < 0.02);
        assert!(counted.p_value(&exact) > 1e-3, "{}", counted.p_value(&exact));
        assert!(survivors.p_value(&exact) < 1e-6, "{}", survivors.p_value(&exact));
    }

    #[test]
    fn long_walks_are_taken_together() {
        let pair = Graph::from_edges(2, [(0, 1), (1, 0)]).unwrap();
        let (length, seed) = (geometric(0.2, 1000), 1);
        let job = Job::new(&pair, &Kind::Uniform, length, seed).unwrap();
        let mut counted = Lengths::new(seed, length);
        counted.append(&job.with_walks_per_source(5000).keep().unwrap().0);
        let exact = ExactLengths::of(&pair, length, &[1.0, 1.0], 1e-3);
        assert_eq!(exact.shares().len(), 31);
        assert!(counted.walks_by_steps().len() > 31 && counted.p_value(&exact) > 1e-3);
    }

    #[test]
    fn a_graph_of_nothing_has_walks_of_nothing() {
        let found = exact(&Graph::new(vec![0], vec![]).unwrap(), Length::Steps(3));
        assert!(found.shares().iter().sum::<f64>() <= 1.0 + 1e-9);
        assert_eq!(Lengths::new(1, Length::Steps(3)).mean(), 0.0);
    }
}
