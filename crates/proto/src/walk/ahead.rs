//! What the next walkers of a queue will read, read together.

use std::hint::black_box;

use super::graph::{Adjacency, Vertex};
use super::walker::Walker;

/// Walkers that are looked at together. A step waits for two reads of memory, one after the other;
/// those of different walkers do not wait for each other.
pub(super) const AHEAD: usize = 16;

/// Reads the row of each walker and the edge that its next draw falls on, so that they are near
/// once it takes its step. Nothing hangs on what is read.
pub(super) fn touch<'a>(graph: &impl Adjacency, walkers: impl Iterator<Item = &'a Walker>) {
    let mut read: Vertex = 0;
    for walker in walkers {
        let Some(row) = graph.row(walker.at) else { continue };
        let place = (u128::from(walker.peek()) * row.targets.len() as u128) >> 64;
        read ^= row.targets.get(place as usize).copied().unwrap_or_default();
    }
    black_box(read);
}
