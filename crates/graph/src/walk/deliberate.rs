//! Walks that look at more than one place before they take a step.
//!
//! A weighted step reads a column of its row's alias table, and then the edge that it names. A step
//! of node2vec draws candidates until one is accepted, and may search the last vertex's row for
//! each. So a walk is in one of several phases, and each turn brings it to where it next waits for
//! memory.

use paceline_proto::walk::{Alias, Chance, Graph, NOWHERE, Node2Vec, Vertex, Walker};

use super::ground::Offset;
use super::prefetch::prefetch;
use super::waiting::{WIDTH, Waiting};

/// A graph, and by what candidates are judged.
pub struct Deliberation<'a> {
    graph: &'a Graph,
    /// Chances of node2vec to accept one that leads back, one near the last vertex, another one.
    /// None of a walk that takes every candidate.
    chances: Option<[Chance; 3]>,
}

/// What a walk waits for.
#[derive(Clone, Copy, Default)]
enum Phase {
    /// Its row's offsets.
    #[default]
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

#[derive(Clone, Default)]
struct Slot {
    phase: Phase,
    walker: Walker,
    row: Span,
    last_row: Span,
    out: usize,
    end: usize,
}

impl Slot {
    /// Begins the next walk in this slot. False if no walk waits.
    #[inline(always)]
    fn begin<O: Offset>(&mut self, waiting: &mut Waiting<'_, O>, out: &mut [Vertex]) -> bool {
        self.phase = Phase::Row;
        (self.out, self.end) = waiting.next(&mut self.walker, out);
        self.out < self.end
    }
}

/// What becomes of a walk at its turn.
enum Turn {
    Waits,
    Goes(Vertex),
    DeadEnd,
}

/// Entries that a search looks through one by one: a cache line of them.
const LINE: usize = 16;

impl<'a> Deliberation<'a> {
    pub fn weighted(graph: &'a Graph) -> Deliberation<'a> {
        Deliberation { graph, chances: None }
    }

    pub fn node2vec(graph: &'a Graph, bias: Node2Vec) -> Deliberation<'a> {
        Deliberation { graph, chances: Some(bias.chances()) }
    }

    /// Writes the paths of all that wait, and returns the number of steps.
    pub fn walk<O: Offset>(&self, mut waiting: Waiting<'_, O>, out: &mut [Vertex]) -> u64 {
        let offsets = waiting.offsets;
        let mut slots = vec![Slot::default(); WIDTH];
        slots.retain_mut(|slot| slot.begin(&mut waiting, out));
        while !slots.is_empty() {
            let mut all_go_on = true;
            for slot in &mut slots {
                match self.turn(offsets, slot) {
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
                        waiting.forgo(&mut out[slot.out..slot.end]);
                        slot.out = slot.end;
                    }
                }
                if slot.out == slot.end {
                    all_go_on &= slot.begin(&mut waiting, out);
                }
            }
            if !all_go_on {
                slots.retain(|slot| slot.out < slot.end);
            }
        }
        waiting.steps
    }

    /// Goes on with a walk up to where it waits again.
    #[inline(always)]
    fn turn<O: Offset>(&self, offsets: &[O], slot: &mut Slot) -> Turn {
        let targets = self.graph.targets();
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
                let columns = self.graph.aliases().unwrap_or(&[]);
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
                let (Some([back, near, far]), true) =
                    (self.chances, slot.walker.previous != NOWHERE)
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
                let Some([_, near, far]) = self.chances else { return Turn::Goes(candidate) };
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
        slot.phase = match self.graph.aliases() {
            Some(columns) => {
                prefetch(columns, begin + place);
                Phase::Column(draw)
            }
            None => {
                prefetch(self.graph.targets(), begin + place);
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
