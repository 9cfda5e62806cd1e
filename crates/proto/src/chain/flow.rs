use std::collections::VecDeque;

use super::Topology;
use super::message::{Frame, Lengths};
use super::pipeline::Transfer;
use crate::core::{Instant, Payload, ViewId};
use crate::parts::block_flow::{Assembly, Credit};

/// A block as a member holds it: what [`Frame`] carries beyond its place on a hop.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) payload: Payload,
    pub(super) checksum: u32,
    pub(super) index: u16,
    pub(super) count: u16,
    pub(super) topology: Topology,
    /// Times it may still be forwarded from here.
    pub(super) hops_left: u32,
    pub(super) lengths: Lengths,
}

impl Block {
    /// What it takes of a window.
    pub(super) fn window_bytes(&self) -> usize {
        self.payload.len() + self.lengths.window_bytes()
    }

    /// What it takes of a hop.
    pub(super) fn frame_bytes(&self) -> usize {
        Frame::HEAD_BYTES + self.lengths.bytes_more() + self.payload.len()
    }
}

/// A message all of whose blocks have come, in order.
#[derive(Debug)]
pub(super) struct Complete {
    /// Its number at its origin: 0, 1, 2, ...
    pub(super) number: u64,
    /// Blocks below this are consumed once the message is.
    pub(super) end: u64,
    pub(super) payload: Payload,
}

/// Limits on what a member holds of one origin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    /// Blocks from the credit on.
    pub(super) window_blocks: usize,
    /// Bytes held for others.
    pub(super) window_bytes: usize,
    /// Bytes delivered and not consumed.
    pub(super) unconsumed_bytes_max: usize,
}

/// Why a block was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is here already.
    Duplicate,
    /// It is beyond what this member granted.
    BeyondCredit,
}

/// The blocks of one origin at one member, from the oldest that some member may lack.
#[derive(Debug)]
pub(super) struct Flow {
    /// The origin's rank.
    pub(super) rank: u32,
    /// The origin's incarnation; the first one seen in a view stays.
    pub(super) incarnation: u64,
    /// Every member has all blocks below this; they were freed here.
    pub(super) stable: u64,
    // Blocks from `stable` on; `None` where one is still missing.
    held: VecDeque<Option<Block>>,
    /// Bytes of the blocks held.
    pub(super) held_bytes: usize,
    /// Bytes of all blocks that were taken.
    pub(super) received_bytes: u64,
    /// All blocks below this are here.
    pub(super) received: u64,
    /// Messages that were delivered.
    delivered: u64,
    credit: Credit,
    assembly: Assembly,
    pub(super) acknowledged_received: u64,
    pub(super) acknowledged_consumed: u64,
    /// Bytes that have come since the last acknowledgement.
    pub(super) unacknowledged_bytes: usize,
    /// Bytes that were consumed since then.
    pub(super) unacknowledged_consumed_bytes: usize,
    /// When to remind the origin, should it not have called the blocks here stable.
    pub(super) remind_at: Instant,
    /// Reminders sent since the origin last called a block stable.
    pub(super) reminders: u32,
    /// Messages of this origin that are on their way through the pipeline.
    pub(super) transfers: Vec<Transfer>,
}

impl Flow {
    pub(super) fn new(rank: u32, incarnation: u64) -> Flow {
        Flow {
            rank,
            incarnation,
            stable: 0,
            held: VecDeque::new(),
            held_bytes: 0,
            received_bytes: 0,
            received: 0,
            delivered: 0,
            credit: Credit::default(),
            assembly: Assembly::default(),
            acknowledged_received: 0,
            acknowledged_consumed: 0,
            unacknowledged_bytes: 0,
            unacknowledged_consumed_bytes: 0,
            remind_at: Instant::MAX,
            reminders: 0,
            transfers: Vec::new(),
        }
    }

    /// True if the block is here or was.
    pub(super) fn has(&self, seq: u64) -> bool {
        seq < self.received || self.block(seq).is_some()
    }

    /// The block, unless it is missing or freed.
    pub(super) fn block(&self, seq: u64) -> Option<&Block> {
        self.held.get(usize::try_from(seq.checked_sub(self.stable)?).ok()?)?.as_ref()
    }

    /// Blocks held because some member may lack them.
    pub(super) fn is_unstable(&self) -> bool {
        !self.held.is_empty()
    }

    /// The credit given to the origin: blocks below it are consumed, or moved to assembly while
    /// nothing else waited for the application. Never falls.
    pub(super) fn credit(&self) -> u64 {
        self.credit.granted()
    }

    /// Takes a block, if it is within the window from the credit on and there is room.
    pub(super) fn insert(&mut self, seq: u64, block: Block, room: Room) -> Result<(), Refusal> {
        if self.has(seq) {
            return Err(Refusal::Duplicate);
        }
        let is_beyond = seq >= self.credit() + room.window_blocks as u64
            || self.held_bytes + block.window_bytes() > room.window_bytes
            || self.credit.unconsumed_bytes() > room.unconsumed_bytes_max;
        if is_beyond {
            return Err(Refusal::BeyondCredit);
        }
        self.held_bytes += block.window_bytes();
        self.received_bytes += block.payload.len() as u64;
        self.unacknowledged_bytes += block.payload.len();
        let place = (seq - self.stable) as usize;
        if place >= self.held.len() {
            self.held.extend((self.held.len()..place).map(|_| None));
            self.held.push_back(Some(block));
        } else {
            self.held[place] = Some(block);
        }
        Ok(())
    }

    /// Moves on over the blocks that are now in order; gives complete messages to `deliver`.
    /// Returns how many blocks did not fit together, which an honest origin never sends.
    pub(super) fn advance(
        &mut self,
        message_bytes_max: usize,
        mut deliver: impl FnMut(Complete),
    ) -> u64 {
        let mut misfits = 0;
        while let Some(block) = self.block(self.received) {
            let (index, count, payload) = (block.index, block.count, block.payload.clone());
            let (lengths, window_bytes) = (block.lengths.clone(), block.lengths.window_bytes());
            self.received += 1;
            if !self.assembly.fits(index, &payload, message_bytes_max) {
                misfits += 1;
                self.assembly.clear();
                continue;
            }
            let Some(payload) = self.assembly.add(payload, count) else {
                self.credit.grant(self.received);
                continue;
            };
            let end = self.received;
            self.credit.deliver(end, payload.len() + window_bytes);
            let first = self.delivered;
            let Some(lengths) = lengths.several() else {
                self.delivered += 1;
                deliver(Complete { number: first, end, payload });
                continue;
            };
            self.delivered += lengths.len() as u64;
            let mut start = 0;
            for (number, &length) in (first..).zip(lengths) {
                // The block is consumed with the last of its messages.
                let end = if number + 1 == self.delivered { end } else { end - 1 };
                let through = start + usize::from(length);
                deliver(Complete { number, end, payload: payload.slice(start..through) });
                start = through;
            }
        }
        self.credit.grant(self.received);
        misfits
    }

    /// Delivered messages that were not consumed, oldest first: the number after the last block,
    /// blocks and bytes.
    pub(super) fn unconsumed(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.credit.unconsumed()
    }

    /// The application consumed all messages that end at or below `through`.
    pub(super) fn consume(&mut self, through: u64) {
        self.unacknowledged_consumed_bytes += self.credit.consume(through);
        self.credit.grant(self.received);
    }

    /// The next send of the transfer that starts at `first`, as the receiver's position and the
    /// block's number.
    pub(super) fn next_transfer_send(&mut self, first: u64) -> Option<(usize, u64)> {
        let place = self.transfers.iter().position(|transfer| transfer.first == first)?;
        let mut transfer = self.transfers.swap_remove(place);
        let next = transfer.next_send(|seq| self.has(seq));
        if next.is_some() {
            transfer.sent();
        }
        self.transfers.push(transfer);
        next
    }

    /// Every member has the blocks below `stable`: frees them. Returns how many.
    pub(super) fn free(&mut self, stable: u64) -> u64 {
        let stable = stable.min(self.received);
        if stable <= self.stable {
            return 0;
        }
        let freed = stable - self.stable;
        for block in self.held.drain(..freed as usize) {
            self.held_bytes -= block.map_or(0, |block| block.window_bytes());
        }
        self.stable = stable;
        self.reminders = 0;
        self.transfers.retain(|transfer| !transfer.ends_below(stable));
        freed
    }

    /// The frame that forwards a held block; `None` if every member has it.
    pub(super) fn frame(&self, view: ViewId, seq: u64, link: u64) -> Option<Frame> {
        let block = self.block(seq)?;
        Some(Frame {
            view,
            origin: self.rank,
            incarnation: self.incarnation,
            seq,
            index: block.index,
            count: block.count,
            topology: block.topology,
            checksum: block.checksum,
            stable_lag: (seq - self.stable) as u32,
            link,
            hops_left: block.hops_left.saturating_sub(1),
            lengths: block.lengths.clone(),
            payload: block.payload.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(index: u16, count: u16, bytes: u32) -> Block {
        let topology = Topology::Chain;
        let (payload, lengths) = (Payload::Zeros(bytes), Lengths::default());
        Block { payload, checksum: 0, index, count, topology, hops_left: 1, lengths }
    }

    fn room(window_blocks: usize, bytes: usize) -> Room {
        Room { window_blocks, window_bytes: bytes, unconsumed_bytes_max: bytes }
    }

    fn delivered(flow: &mut Flow) -> Vec<(u64, usize)> {
        let mut messages = Vec::new();
        flow.advance(1000, |message| messages.push((message.number, message.payload.len())));
        messages
    }

    #[test]
    fn blocks_out_of_order_are_delivered_as_whole_messages_in_order() {
        let mut flow = Flow::new(0, 1);
        flow.insert(2, block(0, 1, 5), room(16, 1000)).unwrap();
        flow.insert(1, block(1, 2, 3), room(16, 1000)).unwrap();
        assert_eq!(delivered(&mut flow), []);
        flow.insert(0, block(0, 2, 4), room(16, 1000)).unwrap();
        assert_eq!(delivered(&mut flow), [(0, 7), (1, 5)]);
        assert_eq!(flow.insert(1, block(1, 2, 3), room(16, 1000)), Err(Refusal::Duplicate));
    }

    #[test]
    fn credit_returns_when_the_application_consumed_and_for_blocks_in_assembly() {
        let mut flow = Flow::new(0, 1);
        flow.insert(0, block(0, 3, 1), room(2, 1000)).unwrap();
        flow.insert(1, block(1, 3, 1), room(2, 1000)).unwrap();
        delivered(&mut flow);
        assert_eq!(flow.credit(), 2, "a message longer than the window must get through");
        flow.insert(2, block(2, 3, 1), room(2, 1000)).unwrap();
        delivered(&mut flow);
        assert_eq!(flow.credit(), 2, "delivered, not consumed");
        flow.insert(3, block(0, 1, 1), room(2, 1000)).unwrap();
        assert_eq!(flow.insert(4, block(0, 1, 1), room(2, 1000)), Err(Refusal::BeyondCredit));
        delivered(&mut flow);
        flow.consume(3);
        assert_eq!(flow.credit(), 3);
        flow.insert(4, block(0, 1, 1), room(2, 1000)).unwrap();
    }

    #[test]
    fn a_block_of_several_messages_is_consumed_with_the_last_of_them() {
        let mut flow = Flow::new(0, 1);
        let lengths = Lengths::of(vec![3, 0, 4]);
        flow.insert(0, block(0, 1, 5), room(2, 1000)).unwrap();
        flow.insert(1, Block { lengths, ..block(0, 1, 7) }, room(2, 1000)).unwrap();
        let mut messages = Vec::new();
        flow.advance(1000, |message| {
            messages.push((message.number, message.end, message.payload.len()));
        });
        assert_eq!(messages, [(0, 1, 5), (1, 1, 3), (2, 1, 0), (3, 2, 4)]);
        // Each of several messages counts for 64 bytes beside its own.
        assert_eq!(flow.held_bytes, 5 + 7 + 3 * 64);
        messages[..3].iter().for_each(|&(_, end, _)| flow.consume(end));
        assert_eq!(flow.credit(), 1);
        flow.consume(messages[3].1);
        assert_eq!(flow.credit(), 2);
        flow.free(2);
        assert_eq!(flow.held_bytes, 0);
    }

    #[test]
    fn only_stable_blocks_are_freed() {
        let mut flow = Flow::new(0, 1);
        (0..3).for_each(|seq| flow.insert(seq, block(0, 1, 1), room(8, 100)).unwrap());
        delivered(&mut flow);
        assert_eq!(flow.free(2), 2);
        assert!(flow.block(1).is_none() && flow.has(1) && flow.block(2).is_some());
        assert_eq!(flow.free(9), 1, "never beyond what was received");
    }

    #[test]
    fn a_block_that_does_not_continue_its_message_is_counted_and_not_delivered() {
        let mut flow = Flow::new(0, 1);
        flow.insert(0, block(1, 2, 1), room(8, 100)).unwrap();
        assert_eq!(flow.advance(100, |_| panic!("delivered")), 1);
        assert_eq!(flow.credit(), 1);
    }
}
