//! The binomial pipeline's schedule: the sender, the receiver and the block of each transfer in
//! each step.
//!
//! Positions 0 to 2^l - 1 (l = floor(log2 N)) are the vertices of a hypercube; at step j partners
//! along dimension j mod l exchange blocks, and the origin, position 0, sends block j. The
//! remaining positions double up at vertices 1, 2, ...: such a pair shares its vertex's exchanges,
//! one member taking the step's incoming block while the other sends the outgoing one, and hands
//! on what the other lacks; one step more and both have all.

use std::collections::BTreeSet;

/// One member's transfers in one step. Blocks are counted within the message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// Position to send to, and the block.
    pub send: Option<(usize, usize)>,
    /// Position to receive from, and the block.
    pub receive: Option<(usize, usize)>,
}

/// The steps of one member for one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
}

impl Schedule {
    /// The schedule of the member at `position` of `members` for a message of `blocks` blocks.
    /// Takes time proportional to blocks times log2(members).
    ///
    /// # Panics
    /// If `position` is not below `members`, or there is no block.
    pub fn new(members: usize, position: usize, blocks: usize) -> Schedule {
        assert!(
            position < members && blocks > 0,
            "position {position} of {members}, {blocks} blocks"
        );
        if members == 1 {
            return Schedule { steps: Vec::new() };
        }
        let cube = Cube { members, dimensions: members.ilog2() as usize, blocks };
        let vertex = cube.vertex_of(position);
        let own = cube.vertex_steps(vertex);
        let partners: Vec<Vec<VertexStep>> = (0..cube.dimensions)
            .map(|dimension| cube.vertex_steps(vertex ^ (1 << dimension)))
            .collect();
        let steps = own.iter().enumerate().map(|(number, step)| {
            let partner = &partners[number % cube.dimensions][number];
            let mut mine = Step::default();
            if let (Some((sender, block)), Some((receiver, _))) = (step.out, partner.incoming)
                && sender == position
            {
                mine.send = Some((receiver, block));
            }
            if let (Some((receiver, block)), Some((sender, _))) = (step.incoming, partner.out)
                && receiver == position
            {
                mine.receive = Some((sender, block));
            }
            for &(sender, receiver, block) in step.within.iter().flatten() {
                if sender == position {
                    mine.send = Some((receiver, block));
                } else if receiver == position {
                    mine.receive = Some((sender, block));
                }
            }
            mine
        });
        Schedule { steps: steps.collect() }
    }

    /// The steps in order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// The transfers at one vertex in one step: positions and blocks.
#[derive(Clone, Debug, Default)]
struct VertexStep {
    out: Option<(usize, usize)>,
    incoming: Option<(usize, usize)>,
    // Sender, receiver, block: between the two members of the vertex.
    within: [Option<(usize, usize, usize)>; 2],
}

struct Cube {
    members: usize,
    dimensions: usize,
    blocks: usize,
}

impl Cube {
    fn vertices(&self) -> usize {
        1 << self.dimensions
    }

    /// Steps in which vertices exchange; pairs need one more.
    fn exchanges(&self) -> usize {
        self.blocks + self.dimensions - 1
    }

    fn vertex_of(&self, position: usize) -> usize {
        if position < self.vertices() { position } else { position - self.vertices() + 1 }
    }

    fn twin_of(&self, vertex: usize) -> Option<usize> {
        let twin = vertex + self.vertices() - 1;
        (vertex > 0 && twin < self.members).then_some(twin)
    }

    /// The block that a vertex would send at a step, counted as if the message had no end.
    fn endless(&self, vertex: usize, step: usize) -> Option<usize> {
        if vertex == 0 {
            return Some(step);
        }
        let dimension = step % self.dimensions;
        let rotated = (vertex >> dimension) | (vertex << (self.dimensions - dimension));
        let rotated = rotated & (self.vertices() - 1);
        if rotated == 1 {
            return None; // The partner is the origin.
        }
        // The set dimension that the exchanges reached longest ago names the block.
        (step + rotated.trailing_zeros() as usize).checked_sub(self.dimensions)
    }

    /// The block that a vertex sends at a step, if its partner lacks it.
    fn sent(&self, vertex: usize, step: usize) -> Option<usize> {
        if step >= self.exchanges() {
            return None;
        }
        let endless = self.endless(vertex, step)?;
        let last = self.blocks - 1;
        if endless <= last {
            return Some(endless);
        }
        // Past the end all blocks are the last one; the partner may have it from a step since.
        let partner = vertex ^ (1 << (step % self.dimensions));
        let has_it = (last..step).any(|earlier| {
            let neighbour = partner ^ (1 << (earlier % self.dimensions));
            self.endless(neighbour, earlier).is_some_and(|block| block >= last)
        });
        (!has_it).then_some(last)
    }

    fn vertex_steps(&self, vertex: usize) -> Vec<VertexStep> {
        let partner = |step: usize| vertex ^ (1 << (step % self.dimensions));
        let exchange = |step| (self.sent(vertex, step), self.sent(partner(step), step));
        let Some(twin) = self.twin_of(vertex) else {
            return (0..self.exchanges() + 1)
                .map(|step| {
                    let (out, incoming) = exchange(step);
                    VertexStep {
                        out: out.map(|block| (vertex, block)),
                        incoming: incoming.map(|block| (vertex, block)),
                        within: [None; 2],
                    }
                })
                .collect();
        };
        let mut pair = Pair { positions: [vertex, twin], lead: [BTreeSet::new(), BTreeSet::new()] };
        (0..self.exchanges() + 1)
            .map(|step| {
                let (out, incoming) = exchange(step);
                pair.step(out, incoming)
            })
            .collect()
    }
}

/// The two members of a vertex and what each has that the other lacks: at most one block or two.
struct Pair {
    positions: [usize; 2],
    lead: [BTreeSet<usize>; 2],
}

impl Pair {
    fn step(&mut self, out: Option<usize>, incoming: Option<usize>) -> VertexStep {
        // If only one member of the pair has the outgoing block, it sends that. Otherwise the one
        // with the smaller lead sends, so that the other can hand on its lead meanwhile.
        let sender =
            out.map(|block| match (self.lead[0].contains(&block), self.lead[1].contains(&block)) {
                (true, _) => 0,
                (_, true) => 1,
                _ => usize::from(self.lead[1].len() < self.lead[0].len()),
            });
        let receiver = incoming.map(|_| match sender {
            Some(sender) => 1 - sender,
            None => usize::from(self.lead[1].len() > self.lead[0].len()),
        });
        let mut within = [None; 2];
        for (giver, given) in within.iter_mut().enumerate() {
            let taker = 1 - giver;
            let is_free = sender != Some(giver) && receiver != Some(taker);
            if is_free && let Some(block) = self.lead[giver].first().copied() {
                *given = Some((self.positions[giver], self.positions[taker], block));
            }
        }
        for (giver, given) in within.iter().enumerate() {
            if let Some((_, _, block)) = given {
                self.lead[giver].remove(block);
            }
        }
        if let (Some(receiver), Some(block)) = (receiver, incoming) {
            self.lead[receiver].insert(block);
        }
        VertexStep {
            out: sender.zip(out).map(|(who, block)| (self.positions[who], block)),
            incoming: receiver.zip(incoming).map(|(who, block)| (self.positions[who], block)),
            within,
        }
    }
}

/// A message on its way through the pipeline at one member.
#[derive(Debug)]
pub(super) struct Transfer {
    /// The number of its first block.
    pub(super) first: u64,
    pub(super) blocks: u16,
    schedule: Schedule,
    next_step: usize,
}

impl Transfer {
    pub(super) fn new(members: usize, position: usize, first: u64, blocks: u16) -> Transfer {
        let schedule = Schedule::new(members, position, usize::from(blocks));
        Transfer { first, blocks, schedule, next_step: 0 }
    }

    pub(super) fn ends_below(&self, seq: u64) -> bool {
        self.first + u64::from(self.blocks) <= seq
    }

    /// True if it shares blocks with a message of `blocks` blocks from `first` on.
    pub(super) fn overlaps(&self, first: u64, blocks: u16) -> bool {
        first < self.first + u64::from(self.blocks) && self.first < first + u64::from(blocks)
    }

    /// The next send that may happen: its step's block is here, and so is every block that earlier
    /// steps should have brought. Gives the receiver's position and the block's number.
    pub(super) fn next_send(&mut self, has: impl Fn(u64) -> bool) -> Option<(usize, u64)> {
        while let Some(step) = self.schedule.steps().get(self.next_step) {
            if let Some((to, block)) = step.send {
                let seq = self.first + block as u64;
                if !has(seq) {
                    return None;
                }
                return Some((to, seq));
            }
            if !self.take_step(&has) {
                return None;
            }
        }
        None
    }

    /// The present step's send was made: goes on if what the step brings is here.
    pub(super) fn sent(&mut self) {
        let step = &mut self.schedule.steps[self.next_step];
        step.send = None;
    }

    fn take_step(&mut self, has: &impl Fn(u64) -> bool) -> bool {
        let step = self.schedule.steps()[self.next_step];
        let is_here = step.receive.is_none_or(|(_, block)| has(self.first + block as u64));
        self.next_step += usize::from(is_here);
        is_here
    }
}

#[cfg(test)]
mod tests {
    use super::super::Topology;
    use super::*;

    /// Carries out the schedules of all members; returns the step after which all have all blocks.
    fn run(members: usize, blocks: usize) -> usize {
        let schedules: Vec<Schedule> =
            (0..members).map(|position| Schedule::new(members, position, blocks)).collect();
        let mut has = vec![BTreeSet::new(); members];
        has[0].extend(0..blocks);
        let mut complete = 0;
        for number in 0..schedules[0].steps().len() {
            let before = has.clone();
            for position in 0..members {
                let step = schedules[position].steps()[number];
                if let Some((to, block)) = step.send {
                    assert!(
                        before[position].contains(&block),
                        "{position} sends {block} too early"
                    );
                    let matching = schedules[to].steps()[number].receive;
                    assert_eq!(matching, Some((position, block)), "of {members}, {blocks} blocks");
                    assert!(has[to].insert(block), "{to} has {block} already");
                    complete = number + 1;
                }
                if let Some((from, block)) = step.receive {
                    let matching = schedules[from].steps()[number].send;
                    assert_eq!(matching, Some((position, block)), "of {members}, {blocks} blocks");
                }
            }
        }
        assert!(
            has.iter().all(|blocks_of| blocks_of.len() == blocks),
            "{members}, {blocks} blocks"
        );
        complete
    }

    #[test]
    fn every_member_gets_every_block_once_in_as_many_steps_as_the_closed_form_says() {
        for members in 2..70 {
            for blocks in [1, 2, 3, 5, 10, 17, 100] {
                let rounds = Topology::Pipeline.rounds(members, blocks as u64) as usize;
                let steps = run(members, blocks);
                assert!(steps <= rounds, "{members} members, {blocks} blocks: {steps} > {rounds}");
            }
        }
        assert_eq!(run(64, 100), 105);
        assert_eq!(run(10, 10), 13);
    }

    /// True if all members get all blocks when the origin never runs more than `window` blocks
    /// ahead of the slowest member.
    fn completes_with_window(members: usize, blocks: usize, window: usize) -> bool {
        let transfer = |position| Transfer::new(members, position, 0, blocks as u16);
        let mut transfers: Vec<Transfer> = (0..members).map(transfer).collect();
        let mut received = vec![vec![false; blocks]; members];
        let mut everywhere = 0;
        loop {
            let mut has_moved = false;
            for position in 0..members {
                let limit = if position == 0 { everywhere + window } else { blocks };
                let has: Vec<bool> = match position {
                    0 => (0..blocks).map(|block| block < limit).collect(),
                    _ => received[position].clone(),
                };
                while let Some((to, seq)) = transfers[position].next_send(|seq| has[seq as usize]) {
                    transfers[position].sent();
                    received[to][seq as usize] = true;
                    has_moved = true;
                }
            }
            while everywhere < blocks && received[1..].iter().all(|has| has[everywhere]) {
                everywhere += 1;
                has_moved = true;
            }
            if everywhere == blocks || !has_moved {
                return everywhere == blocks;
            }
        }
    }

    #[test]
    fn a_window_of_two_blocks_lets_every_message_through_and_one_block_does_not() {
        for members in 2..70 {
            for blocks in [2, 3, 5, 9, 20] {
                assert!(completes_with_window(members, blocks, 2), "{members}, {blocks} blocks");
            }
        }
        // Of a pair, one member waits for the next block before it hands on the last.
        assert!(!completes_with_window(6, 3, 1));
    }
}
