//! Walks that have not begun.

use std::ops::Range;

use paceline_proto::walk::{NOWHERE, Vertex, Walker};

use super::ground::Offset;
use super::job::Job;
use super::paths::Rows;
use super::prefetch::prefetch;

/// Walks under way at once, for each thread.
pub const WIDTH: usize = 64;

/// Walks of neighbouring numbers, whose paths go into one array.
#[derive(Clone)]
pub struct Block<'a> {
    pub walks: Range<u64>,
    rows: &'a Rows,
    /// The number of the walk whose path is the first of the rows.
    first: u64,
    /// The place in the rows where the array begins.
    base: usize,
}

impl<'a> Block<'a> {
    /// These walks, one at least, of those from number `first` on that have these rows. The array
    /// begins with the path of the first of them.
    pub fn new(walks: Range<u64>, rows: &'a Rows, first: u64) -> Block<'a> {
        let base = rows.of((walks.start - first) as usize).start;
        Block { walks, rows, first, base }
    }

    /// Where a walk's path goes in the array.
    pub fn path(&self, walk: u64) -> Range<usize> {
        let path = self.rows.of((walk - self.first) as usize);
        path.start - self.base..path.end - self.base
    }
}

/// The walks of a block that have not begun.
pub struct Waiting<'a, O> {
    job: &'a Job<'a>,
    /// Where each vertex's row begins, and one more.
    pub offsets: &'a [O],
    block: Block<'a>,
    /// Steps that all walks of the block take, less those that dead ends spared so far.
    pub steps: u64,
}

impl<'a, O: Offset> Waiting<'a, O> {
    /// All walks of the block; their array has `entries` entries.
    pub fn new(
        job: &'a Job<'a>,
        offsets: &'a [O],
        block: Block<'a>,
        entries: usize,
    ) -> Waiting<'a, O> {
        let steps = entries as u64 - (block.walks.end - block.walks.start);
        Waiting { job, offsets, block, steps }
    }

    /// Begins the next walk that has a step to take: its source is written. Answers where the
    /// first of its next vertices goes, and where they end; the same place twice if none is left.
    //
    // By no other way than `walker` and two registers: a copy would wait until the paths before it
    // have come to the cache.
    #[inline(never)]
    pub fn next(&mut self, walker: &mut Walker, out: &mut [Vertex]) -> (usize, usize) {
        while let Some(walk) = self.block.walks.next() {
            let source = self.job.source(walk);
            let path = self.block.path(walk);
            out[path.start] = source;
            if path.len() > 1 {
                prefetch(self.offsets, source as usize);
                *walker = self.job.walker(walk);
                return (path.start + 1, path.end);
            }
        }
        (0, 0)
    }

    /// A dead end: the rest of a path stays empty.
    pub fn forgo(&mut self, rest: &mut [Vertex]) {
        rest.fill(NOWHERE);
        self.steps -= rest.len() as u64;
    }
}
