//! Messages cut into numbered blocks, in order, under credit.
//!
//! The sender numbers blocks from 0 on, across messages. The receiver grants credit: the
//! application has consumed all blocks below it, and they take no part of the window. This module
//! has the parts of both ends: [`Flight`] holds the blocks under way, [`Assembly`] the incomplete
//! message, and [`Credit`] the credit.

use std::collections::VecDeque;
use std::ops::Range;

use crate::core::Payload;

/// What each block that was sent and is not consumed takes of the window.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    blocks: VecDeque<u32>,
    bytes: usize,
}

impl Flight {
    /// True if all that was sent is consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Blocks in flight.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Bytes in flight.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// A block of this many bytes is sent for the first time.
    pub(crate) fn send(&mut self, bytes: usize) {
        self.blocks.push_back(bytes as u32);
        self.bytes += bytes;
    }

    /// The oldest `count` blocks are consumed.
    pub(crate) fn consume(&mut self, count: u64) {
        for _ in 0..count {
            self.bytes -= self.blocks.pop_front().unwrap_or(0) as usize;
        }
    }

    /// Bytes of the blocks in these places, from the oldest on.
    pub(crate) fn bytes_of(&self, places: Range<usize>) -> usize {
        self.blocks.range(places).map(|&bytes| bytes as usize).sum()
    }
}

/// The message whose blocks are coming in.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    blocks: Vec<Payload>,
    bytes: usize,
}

impl Assembly {
    /// Bytes that have come of the message.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// True if the block of this index continues the message, which is then at most `bytes_max`.
    pub(crate) fn fits(&self, index: u16, payload: &Payload, bytes_max: usize) -> bool {
        usize::from(index) == self.blocks.len() && self.bytes + payload.len() <= bytes_max
    }

    /// Adds a block that fits, of a message of `count` blocks. Returns the message once it is
    /// whole.
    pub(crate) fn add(&mut self, payload: Payload, count: u16) -> Option<Payload> {
        if count == 1 {
            return Some(payload);
        }
        self.bytes += payload.len();
        self.blocks.push(payload);
        if self.blocks.len() < usize::from(count) {
            return None;
        }
        let whole = Payload::concat(&self.blocks);
        self.clear();
        Some(whole)
    }

    /// Drops what has come of the message.
    pub(crate) fn clear(&mut self) {
        self.blocks.clear();
        self.bytes = 0;
    }
}

/// The receiver's account of what its application has not consumed, and the credit that follows.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    // All blocks below this belong to messages that were consumed.
    consumed: u64,
    // All blocks below this belong to messages that were delivered.
    delivered: u64,
    granted: u64,
    // Delivered messages that were not consumed: their blocks, and what they take of the window.
    unconsumed: VecDeque<(u32, u32)>,
    unconsumed_bytes: usize,
}

impl Credit {
    /// Blocks below this take none of the window. Never falls.
    pub(crate) fn granted(&self) -> u64 {
        self.granted
    }

    /// Bytes that delivered messages take of the window until they are consumed.
    pub(crate) fn unconsumed_bytes(&self) -> usize {
        self.unconsumed_bytes
    }

    /// True if all that was delivered is consumed.
    pub(crate) fn is_all_consumed(&self) -> bool {
        self.unconsumed.is_empty()
    }

    /// Messages that were not consumed, oldest first: the number after the last block, blocks, and
    /// what they take of the window, in bytes.
    pub(crate) fn unconsumed(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.unconsumed.iter().scan(self.consumed, |end, &(blocks, bytes)| {
            *end += u64::from(blocks);
            Some((*end, blocks.into(), bytes.into()))
        })
    }

    /// The message whose last block is the one before `end` is delivered. It takes `bytes` of the
    /// window; from 4 GiB on, 4 GiB.
    pub(crate) fn deliver(&mut self, end: u64, bytes: usize) {
        // Only a sender of four thousand million blocks that form no message gets beyond the type,
        // and has less credit then.
        let blocks = u32::try_from(end - self.delivered).unwrap_or(u32::MAX);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.unconsumed.push_back((blocks, bytes));
        self.unconsumed_bytes += bytes as usize;
        self.delivered = end;
    }

    /// The application consumed all messages that end at or below `through`. Returns the bytes that
    /// they took of the window.
    pub(crate) fn consume(&mut self, through: u64) -> usize {
        let before = self.unconsumed_bytes;
        while let Some(&(blocks, bytes)) = self.unconsumed.front() {
            let end = self.consumed + u64::from(blocks);
            if end > through {
                break;
            }
            self.consumed = end;
            self.unconsumed_bytes -= bytes as usize;
            self.unconsumed.pop_front();
        }
        before - self.unconsumed_bytes
    }

    /// Grants what is consumed, and, while nothing waits for the application, all blocks below
    /// `received`: or a message longer than the window would not get through.
    pub(crate) fn grant(&mut self, received: u64) {
        let credit = if self.is_all_consumed() { received } else { self.consumed };
        self.granted = self.granted.max(credit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flight_holds_what_is_not_consumed() {
        let mut flight = Flight::default();
        [10, 20, 30].into_iter().for_each(|bytes| flight.send(bytes));
        assert_eq!((flight.blocks(), flight.bytes(), flight.bytes_of(1..3)), (3, 60, 50));
        flight.consume(2);
        assert_eq!((flight.blocks(), flight.bytes(), flight.bytes_of(0..1)), (1, 30, 30));
        flight.consume(9);
        assert!(flight.is_empty() && flight.bytes() == 0);
    }

    #[test]
    fn a_message_is_whole_with_its_last_block() {
        let mut assembly = Assembly::default();
        let block = |bytes: &'static [u8]| Payload::from(bytes.to_vec());
        assert_eq!(assembly.add(block(b"one"), 1), Some(block(b"one")));
        assert!(assembly.fits(0, &block(b"ab"), 2) && !assembly.fits(1, &block(b"ab"), 2));
        assert_eq!((assembly.add(block(b"ab"), 2), assembly.bytes()), (None, 2));
        assert!(assembly.fits(1, &block(b"c"), 3) && !assembly.fits(1, &block(b"cd"), 3));
        assert_eq!((assembly.add(block(b"c"), 2), assembly.bytes()), (Some(block(b"abc")), 0));
        assembly.add(block(b"ab"), 2);
        assembly.clear();
        assert!(assembly.fits(0, &block(b"abc"), 3) && assembly.bytes() == 0);
    }

    #[test]
    fn credit_is_what_is_consumed_or_all_that_came_while_nothing_waits() {
        let mut credit = Credit::default();
        credit.grant(2);
        assert_eq!(credit.granted(), 2, "of a message longer than the window");
        credit.deliver(3, 30);
        credit.deliver(4, 10);
        credit.grant(5);
        assert_eq!((credit.granted(), credit.unconsumed_bytes()), (2, 40), "it never falls");
        assert_eq!(credit.unconsumed().collect::<Vec<_>>(), [(3, 3, 30), (4, 1, 10)]);
        assert_eq!(credit.consume(2), 0, "a part of a message");
        assert_eq!((credit.consume(3), credit.is_all_consumed()), (30, false));
        credit.grant(5);
        assert_eq!(credit.granted(), 3);
        assert_eq!(credit.consume(u64::MAX), 10);
        credit.grant(5);
        assert!(
            credit.is_all_consumed() && credit.granted() == 5 && credit.unconsumed_bytes() == 0
        );
    }
}
