//! Walks that have not begun.

use std::ops::Range;

use paceline_proto::walk::{NOWHERE, Vertex, Walker};

use super::ground::Offset;
use super::job::Job;
use super::paths::Rows;
use super::prefetch::prefetch;

/// Walks under way at once, for each thread.
pub const WIDTH: usize = 64;

/// So many walks before its turn a source's row is asked for.
const SOON: u64 = 16;

/// The walks of a block that have not begun.
pub struct Waiting<'a, O> {
    job: &'a Job<'a>,
    /// Where each vertex's row begins, and one more.
    pub offsets: &'a [O],
    rows: &'a Rows,
    /// The number of the first walk, whose path is the first of the rows.
    first: u64,
    walks: Range<u64>,
    /// Whether a walk goes on if its source is a dead end.
    goes_home: bool,
    /// Steps that all walks of the block take, less those that dead ends spared so far.
    pub steps: u64,
}

impl<'a, O: Offset> Waiting<'a, O> {
    /// These walks, whose rows have so many entries in all.
    pub fn new(
        job: &'a Job<'a>,
        offsets: &'a [O],
        walks: Range<u64>,
        rows: &'a Rows,
        entries: u64,
        goes_home: bool,
    ) -> Waiting<'a, O> {
        let steps = entries - (walks.end - walks.start);
        Waiting { job, offsets, rows, first: walks.start, walks, goes_home, steps }
    }

    /// Begins the next walk that has a step to take: its source is written. Answers where the
    /// first of its next vertices goes, and where they end; the same place twice if none is left.
    //
    // By no other way than `walker` and two registers: a copy would wait until the paths before it
    // have come to the cache.
    #[inline(never)]
    pub fn next(&mut self, walker: &mut Walker, out: &mut [Vertex]) -> (usize, usize) {
        while let Some(walk) = self.walks.next() {
            let soon = walk + SOON;
            if soon < self.walks.end {
                prefetch(self.offsets, self.job.source(soon) as usize);
            }
            let source = self.job.source(walk);
            let path = self.rows.of((walk - self.first) as usize);
            out[path.start] = source;
            let (begin, at) = (path.start + 1, source as usize);
            if self.offsets[at].place() == self.offsets[at + 1].place() && !self.goes_home {
                self.forgo(&mut out[begin..path.end]);
            } else if begin < path.end {
                *walker = self.job.walker(walk);
                return (begin, path.end);
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
