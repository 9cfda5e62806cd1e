//! What a server checks of walkers that come, and notes of rows that they draw from.

use std::cell::Cell;

use super::graph::{Adjacency, Row, Vertex};
use super::message::{DETOURS_MAX, Head, Traveller};
use super::part::Part;
use super::server::Server;
use super::walker::NOWHERE;

impl Server {
    /// True if a walker is one that could have been sent here in good faith.
    pub(super) fn is_plausible(&self, head: &Head, traveller: &Traveller) -> bool {
        let Traveller { walker, path, detours, .. } = traveller;
        // Where rows change, vertices come to be that this server has not heard of.
        let vertices = if self.plan == 0 { self.part.vertices() } else { NOWHERE };
        let optional = |vertex| vertex == NOWHERE || vertex < vertices;
        walker.at < vertices
            && optional(walker.previous)
            && optional(walker.candidate)
            && optional(walker.source)
            && *detours <= DETOURS_MAX
            && path.len() == head.trail.words() * walker.steps as usize
    }
}

/// A part that notes of which version the row was that a walker drew its edge from.
pub(super) struct Noting<'a> {
    pub(super) part: &'a Part,
    pub(super) at: Vertex,
    pub(super) drawn: &'a Cell<u32>,
}

impl Adjacency for Noting<'_> {
    fn row(&self, vertex: Vertex) -> Option<Row<'_>> {
        let row = self.part.row(vertex)?;
        if vertex == self.at {
            self.drawn.set(self.part.version(vertex));
        }
        Some(row)
    }
}
