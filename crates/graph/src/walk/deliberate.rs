//! Walks that look at more than one place before they take a step.
//!
//! A weighted step reads a column of its row's alias table, and then the edge that it names. A step
//! of node2vec draws candidates until one is accepted, and may search the last vertex's row for
//! each. So a walk is in one of several phases, and each turn brings it to where it next waits for
//! memory.

use std::ops::Range;

use paceline_proto::walk::{Alias, Chance, NOWHERE, Node2Vec, Vertex, Walker};

use super::kernel::{Kernel, Offset, WIDTH};
use super::paths::Rows;
use super::prefetch::prefetch;

/// By what candidates are judged.
pub struct Deliberation {
    /// Chances of node2vec to accept one that leads back, one near the last vertex, another one.
    /// None of a walk that takes every candidate.
    chances: Option<[Chance; 3]>,
}

impl Deliberation {
    pub fn weighted() -> Deliberation {
        Deliberation { chances: None }
    }

    pub fn node2vec(bias: Node2Vec) -> Deliberation {
        Deliberation { chances: Some(bias.chances()) }
    }
}

/// What a walk waits for.
#[derive(Clone, Copy)]
enum Phase {
    /// Its row's offsets.
    Row,
    /// The column of the alias table that this draw falls on.
    Column(u64),
    /// This edge's target: a candidate.
    Edge(usize),
    /// The middle of these entries of the last vertex's row, where the candidate may be.
    Search(Vertex, usize, usize),
}

/// Some edges: from the first to behind the last.
type Span = (usize, usize);

struct Slot {
    phase: Phase,
    walker: Walker,
    row: Span,
    last_row: Span,
    out: usize,
    end: usize,
}

/// What becomes of a walk at its turn.
enum Turn {
    Waits,
    Goes(Vertex),
    DeadEnd,
}

/// Entries that a search looks through one by one: a cache line of them.
const LINE: usize = 16;

impl Kernel<'_> {
    pub(super) fn deliberate<O: Offset>(
        &self,
        offsets: &[O],
        walks: Range<u64>,
        rows: &Rows,
        out: &mut [Vertex],
        deliberation: &Deliberation,
    ) -> u64 {
        let first = walks.start;
        let mut waiting = walks;
        let mut steps = out.len() as u64 - (waiting.end - waiting.start);
        let mut begin = |out: &mut [Vertex]| {
            waiting.find_map(|walk| {
                let walker = self.job.walker(walk);
                let path = rows.of((walk - first) as usize);
                out[path.start] = walker.at;
                prefetch(offsets, walker.at as usize);
                let (out, end) = (path.start + 1, path.end);
                let (row, last_row) = ((0, 0), (0, 0));
                let slot = Slot { phase: Phase::Row, walker, row, last_row, out, end };
                (slot.out < slot.end).then_some(slot)
            })
        };
        let mut slots: Vec<Slot> = std::iter::from_fn(|| begin(out)).take(WIDTH).collect();
        while !slots.is_empty() {
            let mut has_ended = false;
            for slot in &mut slots {
                match self.turn(offsets, slot, deliberation) {
                    Turn::Waits => continue,
                    Turn::Goes(vertex) => {
                        prefetch(offsets, vertex as usize);
                        slot.walker.previous = slot.walker.at;
                        slot.walker.at = vertex;
                        slot.last_row = slot.row;
                        slot.phase = Phase::Row;
                        out[slot.out] = vertex;
                        slot.out += 1;
                    }
                    Turn::DeadEnd => {
                        out[slot.out..slot.end].fill(NOWHERE);
                        steps -= (slot.end - slot.out) as u64;
                        slot.out = slot.end;
                    }
                }
                has_ended |= slot.out == slot.end;
            }
            if has_ended {
                slots.retain_mut(|slot| {
                    slot.out < slot.end || begin(out).map(|next| *slot = next).is_some()
                });
            }
        }
        steps
    }

    /// Goes on with a walk up to where it waits again.
    #[inline(always)]
    fn turn<O: Offset>(&self, offsets: &[O], slot: &mut Slot, by: &Deliberation) -> Turn {
        let targets = self.ground.graph.targets();
        match slot.phase {
            Phase::Row => {
                let at = slot.walker.at as usize;
                slot.row = (offsets[at].place(), offsets[at + 1].place());
                if slot.row.0 == slot.row.1 {
                    return Turn::DeadEnd;
                }
                self.propose(slot);
                Turn::Waits
            }
            Phase::Column(draw) => {
                let columns = self.ground.graph.aliases().unwrap_or(&[]);
                match Alias::pick(&columns[slot.row.0..slot.row.1], draw) {
                    Some(place) => {
                        prefetch(targets, slot.row.0 + place);
                        slot.phase = Phase::Edge(slot.row.0 + place);
                        Turn::Waits
                    }
                    None => Turn::DeadEnd,
                }
            }
            Phase::Edge(edge) => {
                let candidate = targets[edge];
                let (Some([back, near, far]), true) = (by.chances, slot.walker.previous != NOWHERE)
                else {
                    return Turn::Goes(candidate);
                };
                let draw = slot.walker.peek();
                if candidate == slot.walker.previous {
                    return self.judge(slot, candidate, back);
                }
                if near.min(far).takes(draw) || !near.max(far).takes(draw) {
                    return self.judge(slot, candidate, near.min(far));
                }
                let (low, high) = slot.last_row;
                prefetch(targets, low + (high - low) / 2);
                slot.phase = Phase::Search(candidate, low, high);
                Turn::Waits
            }
            Phase::Search(candidate, mut low, mut high) => {
                let Some([_, near, far]) = by.chances else { return Turn::Goes(candidate) };
                if high - low > LINE {
                    let middle = low + (high - low) / 2;
                    if targets[middle] <= candidate {
                        low = middle;
                    } else {
                        high = middle;
                    }
                    let next = low + (high - low) / 2;
                    prefetch(targets, next);
                    slot.phase = Phase::Search(candidate, low, high);
                    return Turn::Waits;
                }
                let is_near = targets[low..high].contains(&candidate);
                self.judge(slot, candidate, if is_near { near } else { far })
            }
        }
    }

    /// Draws a candidate, and asks for it.
    #[inline(always)]
    fn propose(&self, slot: &mut Slot) {
        let (begin, end) = slot.row;
        let draw = slot.walker.draw();
        // Below the number of edges, since there is one at least.
        let place = ((u128::from(draw) * (end - begin) as u128) >> 64) as usize;
        slot.phase = match self.ground.graph.aliases() {
            Some(columns) => {
                prefetch(columns, begin + place);
                Phase::Column(draw)
            }
            None => {
                prefetch(self.ground.graph.targets(), begin + place);
                Phase::Edge(begin + place)
            }
        };
    }

    /// Takes the draw that accepts a candidate with this chance, or proposes the next.
    #[inline(always)]
    fn judge(&self, slot: &mut Slot, candidate: Vertex, chance: Chance) -> Turn {
        if chance.takes(slot.walker.draw()) {
            return Turn::Goes(candidate);
        }
        self.propose(slot);
        Turn::Waits
    }
}
