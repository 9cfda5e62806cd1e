//! Many walks of one thread at once, so that memory answers them together.
//!
//! A step has two halves. In the first the walk's row is in the cache; the walk draws an edge, and
//! prefetches it. In the second the edge is in the cache; the walk follows it, and prefetches the
//! next row. In each pass one half of the walks take the first half of a step while the others take
//! the second, by turns, so that edges, which come from farther away, are prefetched all the time:
//! that is a fifth faster than a pass of all for each. A new walk takes the slot of a finished one
//! at once.

use paceline_proto::walk::{Chance, Kind, NOWHERE, Step, Vertex, Walker};

use super::deliberate::Deliberation;
use super::ground::{Ground, Offset};
use super::job::Job;
use super::prefetch::prefetch;
use super::waiting::{Block, WIDTH, Waiting};

/// The parameters of the walks in a block of a job.
pub struct Kernel<'a> {
    pub job: &'a Job<'a>,
    pub ground: &'a Ground<'a>,
}

/// A walk under way: a cache line.
#[derive(Clone, Default)]
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

impl Slot {
    /// Begins the next walk in this slot. False if no walk waits.
    #[inline(always)]
    fn begin<O: Offset>(&mut self, waiting: &mut Waiting<'_, O>, out: &mut [Vertex]) -> bool {
        (self.out, self.end) = waiting.next(&mut self.walker, out);
        self.out < self.end
    }
}

/// No edge leads on.
const DEAD_END: usize = usize::MAX;

/// Back to the source.
const HOME: usize = usize::MAX - 1;

impl<'a> Kernel<'a> {
    pub fn new(job: &'a Job<'a>, ground: &'a Ground<'a>) -> Kernel<'a> {
        Kernel { job, ground }
    }

    /// Writes the paths of a block's walks into its array, and returns the number of steps. Behind
    /// dead ends it writes [`NOWHERE`].
    pub fn fill(&self, block: Block<'_>, out: &mut [Vertex]) -> u64 {
        match &self.ground.narrow {
            Some(narrow) => self.fill_by(narrow, block, out),
            None => self.fill_by(self.ground.graph.offsets(), block, out),
        }
    }

    fn fill_by<O: Offset>(&self, offsets: &[O], block: Block<'_>, out: &mut [Vertex]) -> u64 {
        let graph = self.ground.graph;
        let waiting = |block| Waiting::new(self.job, offsets, block, out.len());
        match self.job.kind {
            Kind::Weighted if graph.is_weighted() => {
                Deliberation::weighted(graph).walk(waiting(block), out)
            }
            Kind::Uniform | Kind::Weighted => self.interleave(waiting(block), out, &Uniform),
            Kind::Restart(back) => self.interleave(waiting(block), out, &Restart(*back)),
            Kind::Node2Vec(bias) => Deliberation::node2vec(graph, *bias).walk(waiting(block), out),
            // It reads a row's labels from end to end, which the hardware prefetcher predicts.
            Kind::Metapath(_) => self.plain(block, out),
        }
    }

    /// One walk after the other, of any kind.
    fn plain(&self, block: Block<'_>, out: &mut [Vertex]) -> u64 {
        let mut steps = 0;
        for walk in block.walks.clone() {
            let path = &mut out[block.path(walk)];
            let mut walker = self.job.walker(walk);
            path[0] = walker.at;
            // A walk whose source is a dead end has no room for more.
            while walker.steps as usize + 1 < path.len() {
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
        mut waiting: Waiting<'_, O>,
        out: &mut [Vertex],
        choice: &C,
    ) -> u64 {
        let (offsets, targets) = (waiting.offsets, self.ground.graph.targets());
        let choose = |slot: &mut Slot| {
            let at = slot.walker.at as usize;
            // Checking bounds costs nothing that can be measured beside waiting for memory.
            let (begin, end) = (offsets[at], offsets[at + 1]);
            let count = end.place() - begin.place();
            slot.edge = choice.edge(&mut slot.walker, begin.place(), count);
            prefetch(targets, slot.edge);
        };
        // True if the walk goes on, or another in its stead.
        let go = |slot: &mut Slot, waiting: &mut Waiting<'_, O>, out: &mut [Vertex]| {
            if slot.edge == DEAD_END {
                waiting.forgo(&mut out[slot.out..slot.end]);
            } else {
                let at = if C::GOES_HOME && slot.edge == HOME {
                    slot.walker.source
                } else {
                    targets[slot.edge]
                };
                prefetch(offsets, at as usize);
                slot.walker.at = at;
                out[slot.out] = at;
                slot.out += 1;
                if slot.out < slot.end {
                    return true;
                }
            }
            slot.begin(waiting, out)
        };
        let mut some = |out: &mut [Vertex]| -> Vec<Slot> {
            let mut slots = vec![Slot::default(); WIDTH / 2];
            slots.retain_mut(|slot| slot.begin(&mut waiting, out));
            slots
        };
        let mut going = some(out);
        going.iter_mut().for_each(choose);
        let mut choosing = some(out);
        while !(going.is_empty() && choosing.is_empty()) {
            let mut all_go_on = true;
            for (going, choosing) in going.iter_mut().zip(&mut choosing) {
                choose(choosing);
                all_go_on &= go(going, &mut waiting, out);
            }
            // Towards the end one half is smaller.
            let both = going.len().min(choosing.len());
            choosing[both..].iter_mut().for_each(choose);
            for slot in &mut going[both..] {
                all_go_on &= go(slot, &mut waiting, out);
            }
            if !all_go_on {
                going.retain(|slot| slot.out < slot.end);
            }
            std::mem::swap(&mut going, &mut choosing);
        }
        waiting.steps
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
