//! The blocks that wait for a hop: a queue for each origin, served in turn
//! ([deficit round robin](crate::parts::deficit_rounds)).

use std::collections::VecDeque;

use crate::parts::deficit_rounds::DeficitRounds;

/// What a queue's deficit rises by at each visit, bytes. Blocks above it wait for several visits.
/// Some small messages leave at a visit, and a block of 8,000 bytes at every second one.
pub(super) const QUANTUM_BYTES: usize = 4096;

/// A block that waits for a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// The origin's rank.
    pub(super) origin: u32,
    /// The block's number at its origin.
    pub(super) seq: u64,
    /// Its bytes on the wire.
    pub(super) bytes: usize,
}

/// The blocks of one origin.
#[derive(Debug)]
struct Line {
    origin: u32,
    bytes: usize,
    blocks: VecDeque<(u64, u32)>,
}

/// The blocks that wait for a hop, by origin.
#[derive(Debug, Default)]
pub(super) struct FairQueue {
    // None is empty.
    lines: DeficitRounds<Line>,
}

impl FairQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Blocks of this origin that wait, and their bytes.
    pub(super) fn waiting_of(&self, origin: u32) -> (usize, usize) {
        let line = self.lines.iter().find(|line| line.origin == origin);
        line.map_or((0, 0), |line| (line.blocks.len(), line.bytes))
    }

    /// Adds a block behind those of its origin. An origin without any is served last in the round.
    pub(super) fn push(&mut self, block: Waiting) {
        let Waiting { origin, seq, bytes } = block;
        let entry = (seq, bytes as u32);
        if let Some(line) = self.lines.iter_mut().find(|line| line.origin == origin) {
            line.bytes += bytes;
            line.blocks.push_back(entry);
            return;
        }
        self.lines.push(Line { origin, bytes, blocks: VecDeque::from([entry]) });
    }

    /// The origins of the blocks that wait.
    pub(super) fn origins(&self) -> impl Iterator<Item = u32> {
        self.lines.iter().map(|line| line.origin)
    }

    /// Takes the block whose turn it is among those of the origins that may leave; `None` if none
    /// may. An origin whose last block leaves keeps no deficit.
    pub(super) fn pop(&mut self, may_leave: impl Fn(u32) -> bool) -> Option<Waiting> {
        let head = |line: &mut Line| {
            let &(_, bytes) = line.blocks.front().expect("no line is empty");
            may_leave(line.origin).then_some(bytes as usize)
        };
        let line = self.lines.next(|_| QUANTUM_BYTES, head)?;
        let (seq, bytes) = line.blocks.pop_front().expect("it has a block that may leave");
        let (origin, bytes) = (line.origin, bytes as usize);
        line.bytes -= bytes;
        if line.blocks.is_empty() {
            self.lines.remove_first();
        }
        Some(Waiting { origin, seq, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(origin: u32, seq: u64, bytes: usize) -> Waiting {
        Waiting { origin, seq, bytes }
    }

    /// Serves `served` bytes of origins that always have blocks of these sizes waiting; returns the
    /// bytes of each.
    fn shares(sizes: &[usize], served: usize) -> Vec<usize> {
        let mut queue = FairQueue::default();
        let mut next = vec![0; sizes.len()];
        let mut bytes = vec![0; sizes.len()];
        let refill = |queue: &mut FairQueue, next: &mut [u64]| {
            for (origin, &size) in sizes.iter().enumerate() {
                while queue.waiting_of(origin as u32).1 < 2 * size.max(QUANTUM_BYTES) {
                    queue.push(block(origin as u32, next[origin], size));
                    next[origin] += 1;
                }
            }
        };
        refill(&mut queue, &mut next);
        while bytes.iter().sum::<usize>() < served {
            let left = queue.pop(|_| true).expect("every origin has blocks waiting");
            bytes[left.origin as usize] += left.bytes;
            refill(&mut queue, &mut next);
        }
        bytes
    }

    #[test]
    fn origins_get_equal_bytes_whatever_the_size_of_their_blocks() {
        for sizes in [&[8054, 8054][..], &[254, 65_590], &[1, 300, 8054, 65_590, 4096, 4097]] {
            let bytes = shares(sizes, 8_000_000);
            let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
            // A quantum and the longest block, for each of the two (Lemma 2).
            assert!(most - least <= 2 * (QUANTUM_BYTES + 65_590), "{sizes:?}: {bytes:?}");
        }
    }

    #[test]
    fn the_blocks_of_an_origin_leave_in_order_and_all_of_them() {
        let mut queue = FairQueue::default();
        for seq in 0..50 {
            (0..3).for_each(|origin| queue.push(block(origin, seq, 100 * (1 + seq as usize))));
        }
        let mut next = [0; 3];
        while let Some(left) = queue.pop(|_| true) {
            assert_eq!(left.seq, next[left.origin as usize]);
            next[left.origin as usize] += 1;
        }
        assert_eq!(next, [50; 3]);
        assert!(queue.is_empty() && queue.waiting_of(0) == (0, 0));
    }

    #[test]
    fn an_origin_that_rested_waits_at_most_a_round_and_has_saved_nothing() {
        let mut queue = FairQueue::default();
        (0..40).for_each(|seq| queue.push(block(0, seq, 4096)));
        (0..10).for_each(|_| assert_eq!(queue.pop(|_| true).map(|left| left.origin), Some(0)));
        (0..3).for_each(|seq| queue.push(block(1, seq, 4096)));
        let order: Vec<u32> = (0..6).map(|_| queue.pop(|_| true).unwrap().origin).collect();
        assert_eq!(order, [1, 0, 1, 0, 1, 0]);
    }
}
