//! How a walk chooses its next vertex, and when it ends.

use std::sync::Arc;

use super::chance::{Chance, KindError};
use super::walker::{NOWHERE, Walker};
use crate::graphshare::{Adjacency, Alias, Row, Vertex};

/// How a walk chooses its next vertex.
///
/// DeepWalk (Perozzi et al. 2014) is `Uniform` with [`Steps`](super::Length::Steps); personalised
/// PageRank (Fogaras et al. 2005) is `Uniform` with [`Geometric`](super::Length::Geometric), and
/// the vertices where walks end.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Each edge as likely as any other.
    Uniform,
    /// Edges by their weights; by number in a graph without.
    Weighted,
    /// Edges by where the walk came from: back with `1/p`, to a vertex that the last one leads to
    /// with 1, elsewhere with `1/q`; times weights, if there are any.
    ///
    /// Source: Grover and Leskovec, *node2vec*, KDD 2016, section 3.2; chosen by rejection, as in
    /// Yang et al., *KnightKing*, SOSP 2019.
    Node2Vec(Node2Vec),
    /// Only edges of one label at each step: the `k`-th of these for step `k`, and around again.
    /// Each such edge as likely as any other. A vertex without one is a dead end.
    Metapath(Arc<[u8]>),
    /// Back to its source with this chance at each step, else along any edge. From a dead end
    /// always back. Source: Tong, Faloutsos and Pan, *Fast Random Walk with Restart*, ICDM 2006.
    Restart(Chance),
}

/// node2vec's return and in-out parameters, as thresholds of draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node2Vec {
    p: f64,
    q: f64,
    /// Chance to be accepted of an edge back, of one to where the last vertex leads, of others.
    back: Chance,
    near: Chance,
    far: Chance,
}

impl Node2Vec {
    /// The least and the greatest p and q.
    pub const RANGE: std::ops::RangeInclusive<f64> = 0.01..=100.0;

    /// With these parameters, each 0.01 to 100.
    pub fn new(p: f64, q: f64) -> Result<Node2Vec, KindError> {
        for (name, value) in [("p", p), ("q", q)] {
            if !Node2Vec::RANGE.contains(&value) {
                return Err(KindError::Node2Vec { name, value: value.to_string() });
            }
        }
        let most = (1.0 / p).max(1.0).max(1.0 / q);
        let chance = |bias: f64| Chance::new(bias / most);
        Ok(Node2Vec { p, q, back: chance(1.0 / p)?, near: chance(1.0)?, far: chance(1.0 / q)? })
    }

    /// The return parameter.
    pub fn p(self) -> f64 {
        self.p
    }

    /// The in-out parameter.
    pub fn q(self) -> f64 {
        self.q
    }

    /// The acceptance probability of a candidate: of one that leads back, of a neighbour of the
    /// last vertex, and of any other.
    pub fn chances(self) -> [Chance; 3] {
        [self.back, self.near, self.far]
    }
}

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The walk is at this vertex now.
    To(Vertex),
    /// To go on, the walk must be where this vertex's edges are.
    Need(Vertex),
    /// The walk has all its steps.
    Done,
    /// No edge leads on.
    DeadEnd,
}

/// Candidates that a walk tries before it gives other walks a turn.
const TRIALS_MAX: u32 = 1024;

impl Kind {
    /// Checks what its constructors could not.
    pub fn check(&self, is_labelled: bool) -> Result<(), KindError> {
        match self {
            Kind::Metapath(labels) if labels.is_empty() || labels.len() > 255 => {
                Err(KindError::Metapath(labels.len()))
            }
            Kind::Metapath(_) if !is_labelled => Err(KindError::Unlabelled),
            _ => Ok(()),
        }
    }

    /// Takes a step of a walk, if what it needs is here.
    ///
    /// The draws are the walker's own, so where it happens makes no difference.
    pub fn step(&self, walker: &mut Walker, graph: &impl Adjacency) -> Step {
        if walker.steps_left == 0 {
            return Step::Done;
        }
        if let Kind::Node2Vec(bias) = self
            && walker.previous != NOWHERE
        {
            return bias.step(walker, graph);
        }
        let Some(row) = graph.row(walker.at) else { return Step::Need(walker.at) };
        let next = match self {
            Kind::Uniform => uniform(row, walker.draw()),
            Kind::Weighted | Kind::Node2Vec(_) => any(row, walker.draw()),
            Kind::Metapath(labels) => {
                let wanted = labels[walker.steps as usize % labels.len()];
                labelled(row, wanted, walker.draw())
            }
            Kind::Restart(back) => {
                let goes_back = back.takes(walker.draw());
                let next = if goes_back { None } else { uniform(row, walker.draw()) };
                Some(next.unwrap_or(walker.source))
            }
        };
        match next {
            Some(vertex) => {
                walker.go(vertex);
                Step::To(vertex)
            }
            None => Step::DeadEnd,
        }
    }
}

impl Node2Vec {
    /// A step that is not the first.
    fn step(&self, walker: &mut Walker, graph: &impl Adjacency) -> Step {
        let (lowest, highest) = (self.near.min(self.far), self.near.max(self.far));
        for _ in 0..TRIALS_MAX {
            if walker.candidate == NOWHERE {
                let Some(row) = graph.row(walker.at) else { return Step::Need(walker.at) };
                match any(row, walker.draw()) {
                    Some(candidate) => walker.candidate = candidate,
                    None => return Step::DeadEnd,
                }
            }
            // The draw that judges the candidate stays the next one until it is used, wherever.
            let draw = walker.peek();
            let candidate = walker.candidate;
            let is_accepted = if candidate == walker.previous {
                self.back.takes(draw)
            } else if lowest.takes(draw) {
                true
            } else if !highest.takes(draw) {
                false
            } else {
                let Some(last) = graph.row(walker.previous) else {
                    return Step::Need(walker.previous);
                };
                let chance = if last.leads_to(candidate) { self.near } else { self.far };
                chance.takes(draw)
            };
            walker.draw();
            walker.candidate = NOWHERE;
            if is_accepted {
                walker.go(candidate);
                return Step::To(candidate);
            }
        }
        Step::Need(walker.at)
    }
}

/// Maps a uniform draw to one of `count` places.
fn place(draw: u64, count: usize) -> usize {
    ((u128::from(draw) * count as u128) >> 64) as usize
}

fn uniform(row: Row<'_>, draw: u64) -> Option<Vertex> {
    row.targets.get(place(draw, row.targets.len())).copied()
}

fn any(row: Row<'_>, draw: u64) -> Option<Vertex> {
    match row.aliases {
        Some(aliases) => Alias::pick(aliases, draw).map(|edge| row.targets[edge]),
        None => uniform(row, draw),
    }
}

fn labelled(row: Row<'_>, wanted: u8, draw: u64) -> Option<Vertex> {
    let labels = row.labels?;
    let count = labels.iter().filter(|&&label| label == wanted).count();
    let chosen = place(draw, count);
    let mut fits = (0..labels.len()).filter(|&edge| labels[edge] == wanted);
    fits.nth(chosen).map(|edge| row.targets[edge])
}
