//! Many walks of one thread at once, so that memory answers them together.
//!
//! A step has two halves. In the first the walk's row has come into the cache; the walk draws its
//! place there, and asks for it. In the second the edge has come; the walk goes along it, and asks
//! for the row it leads to. In each pass one half of the walks take the first half of a step while
//! the others take the second, by turns, so that edges, which come from farther away, are asked for
//! all the time: that is a fifth faster than a pass of all for each. A walk that ends makes room
//! for the next at once.

use std::ops::Range;

use paceline_proto::walk::{Chance, Graph, Kind, NOWHERE, Step, Vertex, Walker};

use super::deliberate::Deliberation;
use super::job::Job;
use super::paths::Rows;
use super::prefetch::prefetch;
use crate::memory;

/// Walks under way at once, for each thread.
pub const WIDTH: usize = 64;

/// A graph, made ready for walks.
pub struct Ground<'a> {
    pub graph: &'a Graph,
    /// The offsets in half the space, if they fit: more of them stay in the cache, which is worth a
    /// third of the speed.
    narrow: Option<Vec<u32>>,
}

impl<'a> Ground<'a> {
    /// Takes 4 bytes a vertex, and some milliseconds.
    pub fn new(graph: &'a Graph) -> Ground<'a> {
        memory::consolidate(graph.targets());
        graph.aliases().map(memory::consolidate);
        graph.labels().map(memory::consolidate);
        if u32::try_from(graph.edges()).is_err() {
            return Ground::wide(graph);
        }
        let mut narrow: Vec<u32> = memory::zeros(graph.offsets().len());
        for (narrow, &offset) in narrow.iter_mut().zip(graph.offsets()) {
            *narrow = offset as u32;
        }
        Ground { graph, narrow: Some(narrow) }
    }

    /// With the offsets as they are.
    pub fn wide(graph: &'a Graph) -> Ground<'a> {
        memory::consolidate(graph.offsets());
        Ground { graph, narrow: None }
    }
}

/// A place where a row begins or ends.
pub trait Offset: Copy {
    fn place(self) -> usize;
}

impl Offset for u32 {
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
}

impl Offset for u64 {
    #[inline(always)]
    fn place(self) -> usize {
        self as usize
    }
}

/// What walks go by, for a block of a job.
pub struct Kernel<'a> {
    pub job: &'a Job<'a>,
    pub ground: &'a Ground<'a>,
}

/// A walk under way: a cache line.
#[repr(align(64))]
struct Slot {
    walker: Walker,
    /// Its edge's place in the targets, between the halves of a step; or one of those below.
    edge: usize,
    /// Where its next vertex goes.
    out: usize,
    /// Where its path ends, if no dead end comes before.
    end: usize,
}

/// No edge leads on.
pub const DEAD_END: usize = usize::MAX;

/// Back to the source.
const HOME: usize = usize::MAX - 1;

impl<'a> Kernel<'a> {
    pub fn new(job: &'a Job<'a>, ground: &'a Ground<'a>) -> Kernel<'a> {
        Kernel { job, ground }
    }

    /// Writes the paths of these walks into an array that has these rows for them, and returns the
    /// number of steps. Behind dead ends it writes [`NOWHERE`].
    pub fn fill(&self, walks: Range<u64>, rows: &Rows, out: &mut [Vertex]) -> u64 {
        match &self.ground.narrow {
            Some(narrow) => self.fill_by(narrow, walks, rows, out),
            None => self.fill_by(self.ground.graph.offsets(), walks, rows, out),
        }
    }

    fn fill_by<O: Offset>(
        &self,
        offsets: &[O],
        walks: Range<u64>,
        rows: &Rows,
        out: &mut [Vertex],
    ) -> u64 {
        match self.job.kind {
            Kind::Weighted if self.ground.graph.is_weighted() => {
                self.deliberate(offsets, walks, rows, out, &Deliberation::weighted())
            }
            Kind::Uniform | Kind::Weighted => self.interleave(offsets, walks, rows, out, &Uniform),
            Kind::Restart(back) => self.interleave(offsets, walks, rows, out, &Restart(*back)),
            Kind::Node2Vec(bias) => {
                self.deliberate(offsets, walks, rows, out, &Deliberation::node2vec(*bias))
            }
            // It reads a row's labels from end to end, which the processor foresees by itself.
            Kind::Metapath(_) => self.plain(walks, rows, out),
        }
    }

    /// One walk after the other, of any kind.
    fn plain(&self, walks: Range<u64>, rows: &Rows, out: &mut [Vertex]) -> u64 {
        let first = walks.start;
        let mut steps = 0;
        for walk in walks {
            let path = &mut out[rows.of((walk - first) as usize)];
            let mut walker = self.job.walker(walk);
            path[0] = walker.at;
            loop {
                match self.job.kind.step(&mut walker, self.ground.graph) {
                    Step::To(vertex) => path[walker.steps as usize] = vertex,
                    // Only of a walk that gives others a turn: all vertices are here.
                    Step::Need(_) => {}
                    Step::Done | Step::DeadEnd => break,
                }
            }
            steps += u64::from(walker.steps);
            path[walker.steps as usize + 1..].fill(NOWHERE);
        }
        steps
    }

    fn interleave<O: Offset, C: Choice>(
        &self,
        offsets: &[O],
        walks: Range<u64>,
        rows: &Rows,
        out: &mut [Vertex],
        choice: &C,
    ) -> u64 {
        let targets = self.ground.graph.targets();
        let first = walks.start;
        let mut waiting = walks;
        let mut steps = out.len() as u64 - (waiting.end - waiting.start);
        // The next walk that has a step to take, with its source written.
        let mut begin = |out: &mut [Vertex]| {
            waiting.find_map(|walk| {
                let walker = self.job.walker(walk);
                let row = rows.of((walk - first) as usize);
                out[row.start] = walker.at;
                prefetch(offsets, walker.at as usize);
                let slot = Slot { walker, edge: 0, out: row.start + 1, end: row.end };
                (slot.out < slot.end).then_some(slot)
            })
        };
        let choose = |slot: &mut Slot| {
            let at = slot.walker.at as usize;
            // Checking bounds costs nothing that can be measured beside waiting for memory.
            let (begin, end) = (offsets[at], offsets[at + 1]);
            let count = end.place() - begin.place();
            slot.edge = choice.edge(&mut slot.walker, begin.place(), count);
            prefetch(targets, slot.edge);
        };
        // True if the walk has ended.
        let mut go = |slot: &mut Slot, out: &mut [Vertex]| {
            if slot.edge == DEAD_END {
                out[slot.out..slot.end].fill(NOWHERE);
                steps -= (slot.end - slot.out) as u64;
                slot.out = slot.end;
                return true;
            }
            let at = if C::GOES_HOME && slot.edge == HOME {
                slot.walker.source
            } else {
                targets[slot.edge]
            };
            prefetch(offsets, at as usize);
            slot.walker.at = at;
            out[slot.out] = at;
            slot.out += 1;
            slot.out == slot.end
        };
        let mut some = |out: &mut [Vertex]| -> Vec<Slot> {
            std::iter::from_fn(|| begin(out)).take(WIDTH / 2).collect()
        };
        let mut going = some(out);
        going.iter_mut().for_each(choose);
        let mut choosing = some(out);
        while !(going.is_empty() && choosing.is_empty()) {
            let mut has_ended = false;
            for (going, choosing) in going.iter_mut().zip(&mut choosing) {
                choose(choosing);
                has_ended |= go(going, out);
            }
            // Towards the end one half is smaller.
            let both = going.len().min(choosing.len());
            choosing[both..].iter_mut().for_each(choose);
            for slot in &mut going[both..] {
                has_ended |= go(slot, out);
            }
            if has_ended {
                going.retain_mut(|slot| {
                    slot.out < slot.end || begin(out).map(|next| *slot = next).is_some()
                });
            }
            std::mem::swap(&mut going, &mut choosing);
        }
        steps
    }
}

/// How a walk chooses an edge of its row.
trait Choice {
    /// True if it can answer [`HOME`].
    const GOES_HOME: bool;

    /// One of the `count` edges from `begin` on, or [`DEAD_END`], or [`HOME`].
    fn edge(&self, walker: &mut Walker, begin: usize, count: usize) -> usize;
}

struct Uniform;

impl Choice for Uniform {
    const GOES_HOME: bool = false;

    #[inline(always)]
    fn edge(&self, walker: &mut Walker, begin: usize, count: usize) -> usize {
        let place = (u128::from(walker.draw()) * count as u128) >> 64;
        if count == 0 { DEAD_END } else { begin + place as usize }
    }
}

struct Restart(Chance);

impl Choice for Restart {
    const GOES_HOME: bool = true;

    #[inline(always)]
    fn edge(&self, walker: &mut Walker, begin: usize, count: usize) -> usize {
        if self.0.takes(walker.draw()) {
            return HOME;
        }
        match Uniform.edge(walker, begin, count) {
            DEAD_END => HOME,
            edge => edge,
        }
    }
}
