//! A row that may change.

use thiserror::Error;

use super::graph::{Alias, AliasScratch, Row, Vertex};
use crate::core::field::fields;

fields! {
    /// What is to become of a vertex.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub enum VertexChange {
        /// There is an edge to this vertex. If there is none (of this label) it is added; else it
        /// gets this weight.
        0 => Set {
            /// Where it leads.
            to: Vertex,
            /// Its weight, finite and not negative; 1 where edges have none.
            weight: f32,
            /// Its label; 0 where edges have none.
            label: u8,
        },
        /// There is not an edge to this vertex, whatever its label.
        1 => Cut {
            /// Where it would lead.
            to: Vertex,
        },
        /// There are no edges from this vertex: walks that come to it end there.
        2 => Clear,
        /// The vertex goes to another server, with its edges.
        3 => Move {
            /// The server's place among all.
            to: u16,
        },
    }
}

fields! {
    /// Why an edit is invalid. The requester is at fault; nothing has changed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
    pub enum EditFault as "fault" {
        /// A weight that is none, or is not 1 where edges have none.
        #[error("a weight is finite and not negative, and 1 where edges have none")]
        0 => Weight,
        /// A label where edges have none.
        #[error("the graph's edges have no labels")]
        1 => Label,
        /// Weights of the server's edges are not known in the form in which they can change.
        #[error("the server was given its part in a form that cannot change")]
        2 => Fixed,
        /// A row that does not fit a message.
        #[error(
            "the vertex has too many edges to move: {max} bytes are the most",
            max = OwnRow::WIRE_BYTES_MAX
        )]
        3 => TooLong,
        /// There is no room for it.
        #[error("the server has no room for more changes")]
        4 => Full,
        /// There is no such server.
        #[error("there is no such server")]
        5 => NoSuchServer,
    }
}

impl VertexChange {
    /// Checks it against what edges carry.
    pub fn check(&self, is_weighted: bool, is_labelled: bool) -> Result<(), EditFault> {
        let VertexChange::Set { weight, label, .. } = *self else { return Ok(()) };
        let is_weight =
            if is_weighted { weight.is_finite() && weight >= 0.0 } else { weight == 1.0 };
        if !is_weight {
            return Err(EditFault::Weight);
        }
        if !is_labelled && label != 0 {
            return Err(EditFault::Label);
        }
        Ok(())
    }
}

/// A vertex's edges, kept so that they can change: by target, then label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnRow {
    targets: Vec<Vertex>,
    weights: Option<Vec<f32>>,
    labels: Option<Vec<u8>>,
    aliases: Option<Vec<Alias>>,
}

impl OwnRow {
    /// Most bytes of a row in a message.
    pub const WIRE_BYTES_MAX: usize = 768 << 10;

    /// No edges.
    pub fn new(is_weighted: bool, is_labelled: bool) -> OwnRow {
        OwnRow {
            targets: Vec::new(),
            weights: is_weighted.then(Vec::new),
            labels: is_labelled.then(Vec::new),
            aliases: is_weighted.then(Vec::new),
        }
    }

    /// These edges.
    ///
    /// # Panics
    ///
    /// If there are not as many weights or labels as edges.
    pub fn of(targets: &[Vertex], weights: Option<&[f32]>, labels: Option<&[u8]>) -> OwnRow {
        assert!(weights.is_none_or(|weights| weights.len() == targets.len()));
        assert!(labels.is_none_or(|labels| labels.len() == targets.len()));
        let mut row = OwnRow {
            targets: targets.to_vec(),
            weights: weights.map(<[f32]>::to_vec),
            labels: labels.map(<[u8]>::to_vec),
            aliases: None,
        };
        row.weigh();
        row
    }

    /// As walks read it.
    pub fn row(&self) -> Row<'_> {
        Row {
            targets: &self.targets,
            aliases: self.aliases.as_deref(),
            labels: self.labels.as_deref(),
        }
    }

    /// Where its edges lead, in ascending order.
    pub fn targets(&self) -> &[Vertex] {
        &self.targets
    }

    /// Their weights, if they have any.
    pub fn weights(&self) -> Option<&[f32]> {
        self.weights.as_deref()
    }

    /// Their labels, if they have any.
    pub fn labels(&self) -> Option<&[u8]> {
        self.labels.as_deref()
    }

    /// True if its edges carry exactly these attributes.
    pub fn has(&self, weights: bool, labels: bool) -> bool {
        self.weights.is_some() == weights && self.labels.is_some() == labels
    }

    /// True if it is in order and its weights are some: what comes from elsewhere may not be.
    pub fn is_sound(&self) -> bool {
        let weigh = |weights: &[f32]| weights.iter().all(|w| w.is_finite() && *w >= 0.0);
        self.targets.is_sorted() && self.weights.as_deref().is_none_or(weigh)
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        size_of::<OwnRow>() + self.edge_bytes(4 + size_of::<Alias>())
    }

    /// Bytes of its edges in a message.
    pub fn wire_bytes(&self) -> usize {
        self.edge_bytes(4)
    }

    fn edge_bytes(&self, of_weight: usize) -> usize {
        let weights = self.weights.as_ref().map_or(0, |weights| of_weight * weights.len());
        4 * self.targets.len() + weights + self.labels.as_ref().map_or(0, Vec::len)
    }

    /// Applies a change; false if the row already was in that state.
    pub fn apply(&mut self, change: &VertexChange) -> bool {
        let is_changed = match *change {
            VertexChange::Set { to, weight, label } => self.set(to, weight, label),
            VertexChange::Cut { to } => {
                let (from, until) = self.edges_to(to);
                self.remove(from..until)
            }
            VertexChange::Clear => self.remove(0..self.targets.len()),
            VertexChange::Move { .. } => false,
        };
        if is_changed {
            self.weigh();
        }
        is_changed
    }

    fn edges_to(&self, to: Vertex) -> (usize, usize) {
        let from = self.targets.partition_point(|&target| target < to);
        (from, from + self.targets[from..].partition_point(|&target| target == to))
    }

    fn set(&mut self, to: Vertex, weight: f32, label: u8) -> bool {
        let (from, until) = self.edges_to(to);
        let is_it = |edge: &usize| self.labels.as_ref().is_none_or(|of| of[*edge] == label);
        if let Some(edge) = (from..until).find(is_it) {
            let Some(weights) = &mut self.weights else { return false };
            return std::mem::replace(&mut weights[edge], weight) != weight;
        }
        let place = match &self.labels {
            Some(labels) => from + labels[from..until].partition_point(|&other| other < label),
            None => until,
        };
        self.targets.insert(place, to);
        if let Some(weights) = &mut self.weights {
            weights.insert(place, weight);
        }
        if let Some(labels) = &mut self.labels {
            labels.insert(place, label);
        }
        true
    }

    fn remove(&mut self, edges: std::ops::Range<usize>) -> bool {
        let is_changed = !edges.is_empty();
        self.targets.drain(edges.clone());
        if let Some(weights) = &mut self.weights {
            weights.drain(edges.clone());
        }
        if let Some(labels) = &mut self.labels {
            labels.drain(edges);
        }
        is_changed
    }

    /// Draws follow the weights.
    fn weigh(&mut self) {
        let Some(weights) = &self.weights else { return };
        let mut aliases = Vec::with_capacity(weights.len());
        Alias::append_row(weights, &mut AliasScratch::default(), &mut aliases);
        self.aliases = Some(aliases);
    }
}
