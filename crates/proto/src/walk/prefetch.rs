//! Prefetches the memory that the next walkers of a queue will read.

use std::hint::black_box;

use super::walker::Walker;
use crate::graphshare::Part;

/// Walkers whose memory is prefetched together. A step waits for three dependent reads; those of
/// different walkers overlap.
///
/// Ours. Between 32 and 160 walks at once the engine on one machine shows no difference
/// (`docs/protocols/walk.md`).
pub(super) const PREFETCHED: usize = 32;

/// Prefetches the row of each walker, then the edge of its next draw, then the owner of the vertex
/// to which that edge leads. No result depends on what is read. The first read is made for all
/// walkers, then the second, then the third: a processor looks a few hundred instructions ahead,
/// which covers only a few walkers if each makes all its reads in turn.
pub(super) fn rows<'a>(part: &Part, walkers: impl Iterator<Item = &'a Walker>) {
    let mut edges = [0; PREFETCHED];
    let (mut count, mut read) = (0, 0);
    for (edge, walker) in edges.iter_mut().zip(walkers) {
        read ^= part.place_ahead(walker.at);
        *edge = part.edge_ahead(walker.at, walker.peek());
        count += 1;
    }
    let mut targets = [0; PREFETCHED];
    for (target, &edge) in targets.iter_mut().zip(&edges[..count]) {
        *target = part.target_ahead(edge);
    }
    let places = targets[..count].iter().map(|&target| part.place_ahead(target));
    black_box(places.fold(read, |read, place| read ^ place));
}

/// Prefetches the owners of the vertices of walkers that have arrived.
pub(super) fn owners<'a>(part: &Part, walkers: impl Iterator<Item = &'a Walker>) {
    black_box(walkers.fold(0, |read, walker| read ^ part.place_ahead(walker.at)));
}
