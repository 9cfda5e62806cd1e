//! What the next walkers of a queue will read, read together.

use std::hint::black_box;

use super::part::Part;
use super::walker::Walker;

/// Walkers that are looked at together. A step waits for three reads of memory, one after the
/// other; those of different walkers do not wait for each other.
pub(super) const AHEAD: usize = 32;

/// Reads where the row of each walker is, then the edge that its next draw falls on, then who has
/// the vertex that it leads to, so that they are near once it takes its step. Nothing hangs on what
/// is read. Each read is made for all before the next one is made for any: a processor looks a few
/// hundred instructions ahead, which is a few walkers if each takes all its reads in turn.
pub(super) fn touch<'a>(part: &Part, walkers: impl Iterator<Item = &'a Walker>) {
    let mut edges = [0; AHEAD];
    let (mut count, mut read) = (0, 0);
    for (edge, walker) in edges.iter_mut().zip(walkers) {
        read ^= part.place_ahead(walker.at);
        *edge = part.edge_ahead(walker.at, walker.peek());
        count += 1;
    }
    let mut targets = [0; AHEAD];
    for (target, &edge) in targets.iter_mut().zip(&edges[..count]) {
        *target = part.target_ahead(edge);
    }
    let places = targets[..count].iter().map(|&target| part.place_ahead(target));
    black_box(places.fold(read, |read, place| read ^ place));
}

/// Reads who has the vertices of walkers that have come.
pub(super) fn touch_owners<'a>(part: &Part, walkers: impl Iterator<Item = &'a Walker>) {
    black_box(walkers.fold(0, |read, walker| read ^ part.place_ahead(walker.at)));
}
