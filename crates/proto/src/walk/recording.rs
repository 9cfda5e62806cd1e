//! A server's record of the rows that walkers draw from.

use std::cell::Cell;

use crate::graphshare::{Adjacency, Part, Row, Vertex};

/// A part that notes of which version the row was that a walker drew its edge from.
pub(super) struct RecordingPart<'a> {
    pub(super) part: &'a Part,
    pub(super) at: Vertex,
    pub(super) drawn: &'a Cell<u32>,
}

impl Adjacency for RecordingPart<'_> {
    fn row(&self, vertex: Vertex) -> Option<Row<'_>> {
        let row = self.part.row(vertex)?;
        if vertex == self.at {
            self.drawn.set(self.part.version(vertex));
        }
        Some(row)
    }
}
