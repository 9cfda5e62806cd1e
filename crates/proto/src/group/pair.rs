//! Messages from one member to one other: the two ends of a pair, without a network.
//!
//! Blocks are numbered from the first message of the pair on, through all views that contain both.
//! So the receiver recognises duplicates of blocks that are sent again after a broken stream or in
//! the next view.

use std::collections::VecDeque;

use super::correlated::{Correlation, CorrelationId};
use super::direct::Direct;
use crate::core::{Instant, Member, Payload, ViewId};
use crate::parts::block_flow::{Assembly, Credit, Flight};

/// Settings that must be equal at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Largest block.
    pub(super) block_bytes_max: usize,
    /// Largest message.
    pub(super) message_bytes_max: usize,
    /// Bytes that were sent and are not consumed, heads included.
    pub(super) window_bytes: usize,
    /// Bytes that were sent and are not acknowledged: what one pair adds to the load of a hop.
    pub(super) hop_bytes: usize,
}

/// The bytes of the window that a block takes.
fn cost(payload: &Payload) -> usize {
    Direct::HEAD_BYTES + payload.len()
}

/// A message that is not wholly acknowledged.
#[derive(Debug)]
struct DirectMessage {
    payload: Payload,
    ticket: u64,
    /// The request that it is or answers.
    head: Option<CorrelationId>,
    /// The number of its first block.
    first: u64,
    blocks: u16,
}

impl DirectMessage {
    /// What it takes of the queue, bytes. Requests and refusals take nothing: they are bounded by
    /// the requests that a member may leave unanswered.
    fn queued_bytes(&self) -> usize {
        if self.is_reported() { cost(&self.payload) } else { 0 }
    }

    /// The application hears what became of the message, by its ticket.
    fn is_reported(&self) -> bool {
        !self.head.is_some_and(|head| head.correlation != Correlation::Reply)
    }
}

/// A block to send.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) block: Direct,
    /// The request that its message is or answers.
    pub(super) head: Option<CorrelationId>,
    /// It was sent before.
    pub(super) is_again: bool,
}

/// The sending end.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) to: Member,
    /// The stream stands; else blocks wait until it does.
    pub(super) is_open: bool,
    messages: VecDeque<DirectMessage>,
    queued_bytes: usize,
    // Numbers: of the next message, of the next block to send, and of the first one never sent.
    accepted: u64,
    next: u64,
    unsent: u64,
    // Acknowledged by the other end: all blocks below these have been received, and consumed.
    received: u64,
    consumed: u64,
    // What each block from `consumed` to `unsent` takes of the window.
    flight: Flight,
    // The same of the blocks from `received` to `next`.
    hop_bytes: usize,
    /// When to send a probe, unless the other end acknowledges before.
    pub(super) probe_at: Instant,
    /// Probes sent since the other end last answered.
    pub(super) probes: u32,
}

/// How far the messages to one member are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Blocks that the other has.
    pub(super) received: u64,
    /// It has not all that was sent, or the stream is down. Else what waits here waits for its
    /// application.
    pub(super) is_under_way: bool,
}

impl Outbound {
    pub(super) fn new(to: Member) -> Outbound {
        Outbound {
            to,
            is_open: true,
            messages: VecDeque::new(),
            queued_bytes: 0,
            accepted: 0,
            next: 0,
            unsent: 0,
            received: 0,
            consumed: 0,
            flight: Flight::default(),
            hop_bytes: 0,
            probe_at: Instant::MAX,
            probes: 0,
        }
    }

    /// Bytes that wait or are not acknowledged, a head for each message included.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// True if something is not acknowledged.
    pub(super) fn is_waiting(&self) -> bool {
        !self.messages.is_empty()
    }

    /// How far it is; `None` if all is acknowledged.
    pub(super) fn progress(&self) -> Option<Progress> {
        let is_under_way = self.next > self.received || !self.is_open;
        self.is_waiting().then_some(Progress { received: self.received, is_under_way })
    }

    /// Takes a message of the application, or one that is or answers the request of `head`.
    pub(super) fn push(
        &mut self,
        payload: Payload,
        ticket: u64,
        head: Option<CorrelationId>,
        limits: Limits,
    ) {
        let blocks = payload.len().div_ceil(limits.block_bytes_max).max(1) as u16;
        let message = DirectMessage { payload, ticket, head, first: self.accepted, blocks };
        self.queued_bytes += message.queued_bytes();
        self.messages.push_back(message);
        self.accepted += u64::from(blocks);
    }

    /// Retransmits all unacknowledged blocks: the stream broke, or another view began.
    pub(super) fn go_back(&mut self) {
        self.next = self.received;
        self.hop_bytes = 0;
    }

    /// The next block, if the stream and the window have room.
    pub(super) fn next_block(&mut self, view: ViewId, sender: u64, limits: Limits) -> Option<Next> {
        if !self.is_open || self.next == self.accepted {
            return None;
        }
        let place = self.messages.partition_point(|message| message.first <= self.next) - 1;
        let message = &self.messages[place];
        let index = (self.next - message.first) as u16;
        let start = usize::from(index) * limits.block_bytes_max;
        let end = (start + limits.block_bytes_max).min(message.payload.len());
        let payload = message.payload.slice(start..end);
        let bytes = cost(&payload);
        if self.hop_bytes > 0 && self.hop_bytes + bytes > limits.hop_bytes {
            return None;
        }
        let is_new = self.next == self.unsent;
        if is_new {
            if self.flight.bytes() > 0 && self.flight.bytes() + bytes > limits.window_bytes {
                return None;
            }
            self.flight.send(bytes);
            self.unsent += 1;
        }
        self.hop_bytes += bytes;
        self.next += 1;
        let block = Direct {
            view,
            sender,
            receiver: self.to.incarnation,
            number: self.next - 1,
            index,
            count: message.blocks,
            checksum: 0,
            payload,
        };
        let block = Direct { checksum: block.computed_checksum(), ..block };
        Some(Next { block, head: message.head, is_again: !is_new })
    }

    /// The other end acknowledges; returns the tickets of messages that it has completely. False if
    /// it acknowledges blocks that were never sent.
    pub(super) fn acknowledge(
        &mut self,
        received: u64,
        consumed: u64,
        mut is_there: impl FnMut(u64),
    ) -> bool {
        if received > self.unsent || consumed > received {
            return false;
        }
        if received > self.received || consumed > self.consumed {
            self.probes = 0;
        }
        if received > self.received {
            let place = |number: u64| (number - self.consumed) as usize;
            let sent = place(self.received)..place(received.min(self.next).max(self.received));
            self.hop_bytes -= self.flight.bytes_of(sent);
            self.received = received;
            self.next = self.next.max(received);
        }
        self.flight.consume(consumed.saturating_sub(self.consumed));
        self.consumed = self.consumed.max(consumed);
        while let Some(message) = self.messages.front() {
            if message.first + u64::from(message.blocks) > self.received {
                break;
            }
            self.queued_bytes -= message.queued_bytes();
            is_there(message.ticket);
            self.messages.pop_front();
        }
        true
    }

    /// The tickets of what was not acknowledged, oldest first. Requests and refusals have none.
    pub(super) fn tickets(&self) -> impl Iterator<Item = u64> {
        self.messages.iter().filter(|message| message.is_reported()).map(|message| message.ticket)
    }
}

/// Why a block was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It is here already.
    Duplicate,
    /// Blocks before it are missing: the stream has lost them, and they will be sent again.
    Gap,
    /// It is beyond what this member granted.
    BeyondCredit,
    /// It does not continue its message, which an honest sender never does.
    Misfit,
}

/// The receiving end.
#[derive(Debug)]
pub(super) struct Inbound {
    pub(super) from: Member,
    // All blocks below this are here.
    received: u64,
    credit: Credit,
    assembly: Assembly,
    // What the blocks in assembly from the credit on take of the window.
    assembly_held_bytes: usize,
    // Bytes consumed since the last acknowledgement.
    untold_bytes: usize,
}

impl Inbound {
    pub(super) fn new(from: Member) -> Inbound {
        Inbound {
            from,
            received: 0,
            credit: Credit::default(),
            assembly: Assembly::default(),
            assembly_held_bytes: 0,
            untold_bytes: 0,
        }
    }

    /// Bytes that are held for the sender: delivered and not consumed, or in assembly.
    pub(super) fn memory_bytes(&self) -> usize {
        self.credit.unconsumed_bytes() + self.assembly.bytes()
    }

    /// What the blocks from the credit on take of the window.
    fn held_bytes(&self) -> usize {
        self.credit.unconsumed_bytes() + self.assembly_held_bytes
    }

    /// The acknowledgement for the sender: all blocks below the first number have been received,
    /// and all below the second consumed.
    pub(super) fn marks(&mut self) -> (u64, u64) {
        self.untold_bytes = 0;
        (self.received, self.credit.granted())
    }

    /// Takes a block; the message if that makes it whole, with the number after its last block. One
    /// that is not for the application counts as consumed with those before it.
    pub(super) fn take(
        &mut self,
        block: Direct,
        is_for_application: bool,
        limits: Limits,
    ) -> Result<Option<(u64, Payload)>, Refusal> {
        if block.number < self.received {
            return Err(Refusal::Duplicate);
        }
        if block.number > self.received {
            return Err(Refusal::Gap);
        }
        let bytes = cost(&block.payload);
        if self.held_bytes() > 0 && self.held_bytes() + bytes > limits.window_bytes {
            return Err(Refusal::BeyondCredit);
        }
        let fits = block.payload.len() <= limits.block_bytes_max
            && self.assembly.fits(block.index, &block.payload, limits.message_bytes_max);
        if !fits {
            return Err(Refusal::Misfit);
        }
        self.received += 1;
        self.assembly_held_bytes += bytes;
        let Some(whole) = self.assembly.add(block.payload, block.count) else {
            self.grant();
            return Ok(None);
        };
        if is_for_application {
            self.credit.deliver(self.received, std::mem::take(&mut self.assembly_held_bytes));
        } else {
            self.grant();
        }
        Ok(Some((self.received, whole)))
    }

    /// The application consumed all messages that end at or below `through`. True if enough was
    /// consumed to acknowledge now; less goes with the next acknowledgement, or with the answer to
    /// a probe.
    pub(super) fn consume(&mut self, through: u64, limits: Limits) -> bool {
        self.untold_bytes += self.credit.consume(through);
        self.grant();
        self.untold_bytes >= limits.window_bytes / 4
    }

    /// While nothing waits for the application the blocks in assembly take no credit.
    fn grant(&mut self) {
        self.credit.grant(self.received);
        if self.credit.is_all_consumed() {
            self.untold_bytes += std::mem::take(&mut self.assembly_held_bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::NodeId;

    const LIMITS: Limits = Limits {
        block_bytes_max: 10,
        message_bytes_max: 100,
        window_bytes: 4 * (Direct::HEAD_BYTES + 10),
        hop_bytes: 2 * (Direct::HEAD_BYTES + 10),
    };
    const PEER: Member = Member { node: NodeId(1), incarnation: 9 };

    fn sent(out: &mut Outbound) -> Vec<Direct> {
        let next = || out.next_block(ViewId(1), 7, LIMITS).map(|next| next.block);
        std::iter::from_fn(next).collect()
    }

    fn numbers(out: &mut Outbound) -> Vec<u64> {
        sent(out).iter().map(|block| block.number).collect()
    }

    fn acknowledge(out: &mut Outbound, received: u64, consumed: u64) -> Vec<u64> {
        let mut there = Vec::new();
        assert!(out.acknowledge(received, consumed, |ticket| there.push(ticket)));
        there
    }

    #[test]
    fn a_message_is_cut_and_put_together_and_one_longer_than_the_window_gets_through() {
        let (mut out, mut inbound) = (Outbound::new(PEER), Inbound::new(PEER));
        let payload = Payload::from((0..95).collect::<Vec<u8>>());
        out.push(payload.clone(), 1, None, LIMITS);
        out.push(Payload::Zeros(0), 2, None, LIMITS);
        let (mut told, mut whole) = (Vec::new(), Vec::new());
        for _ in 0..20 {
            for block in sent(&mut out) {
                whole.extend(inbound.take(block, true, LIMITS).unwrap());
            }
            let (received, granted) = inbound.marks();
            told.extend(acknowledge(&mut out, received, granted));
        }
        assert_eq!(whole, [(10, payload), (11, Payload::Zeros(0))]);
        assert_eq!(told, [1, 2]);
        assert!(!out.is_waiting() && out.queued_bytes() == 0);
        inbound.consume(11, LIMITS);
        assert_eq!((inbound.marks(), inbound.held_bytes()), ((11, 11), 0));
    }

    #[test]
    fn a_hop_carries_its_share_and_a_reader_that_stands_still_gets_no_more_than_a_window() {
        let (mut out, mut inbound) = (Outbound::new(PEER), Inbound::new(PEER));
        (0..9).for_each(|ticket| out.push(Payload::Zeros(10), ticket, None, LIMITS));
        let mut take = |out: &mut Outbound| {
            let blocks = sent(out);
            let numbers: Vec<u64> = blocks.iter().map(|block| block.number).collect();
            blocks.into_iter().for_each(|block| {
                inbound.take(block, true, LIMITS).unwrap();
            });
            let (received, granted) = inbound.marks();
            acknowledge(out, received, granted);
            numbers
        };
        assert_eq!(take(&mut out), [0, 1]);
        assert_eq!(take(&mut out), [2, 3]);
        assert_eq!(take(&mut out), [] as [u64; 0]);
        let beyond = Direct { number: 4, ..block(0, 1, 10) };
        assert_eq!(inbound.take(beyond, true, LIMITS), Err(Refusal::BeyondCredit));
        assert!(inbound.consume(1, LIMITS), "a quarter of the window");
        assert_eq!(inbound.marks(), (4, 1));
        acknowledge(&mut out, 4, 1);
        assert_eq!(numbers(&mut out), [4]);
    }

    #[test]
    fn what_is_sent_again_bears_its_number_and_is_taken_once() {
        let (mut out, mut inbound) = (Outbound::new(PEER), Inbound::new(PEER));
        (0..3).for_each(|ticket| out.push(Payload::Zeros(10), ticket, None, LIMITS));
        let first = sent(&mut out);
        inbound.take(first[0].clone(), true, LIMITS).unwrap();
        out.is_open = false;
        out.go_back();
        assert_eq!(numbers(&mut out), [] as [u64; 0], "the stream is down");
        out.is_open = true;
        let again = sent(&mut out);
        assert_eq!(again.iter().map(|block| block.number).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(inbound.take(again[0].clone(), true, LIMITS), Err(Refusal::Duplicate));
        assert_eq!(
            inbound.take(Direct { number: 2, ..block(0, 1, 10) }, true, LIMITS),
            Err(Refusal::Gap)
        );
        inbound.take(again[1].clone(), true, LIMITS).unwrap();
        // The acknowledgement of what went out before the stream broke counts as well.
        out.go_back();
        assert_eq!(acknowledge(&mut out, 2, 0), [0, 1]);
        assert_eq!(numbers(&mut out), [2]);
        assert_eq!(out.tickets().collect::<Vec<_>>(), [2]);
        assert!(!out.acknowledge(4, 0, |_| ()), "never sent");
        assert!(!out.acknowledge(2, 3, |_| ()), "consumed before it came");
        assert_eq!(acknowledge(&mut out, 1, 0), [] as [u64; 0], "old news");
    }

    #[test]
    fn blocks_that_form_no_message_are_refused() {
        let mut inbound = Inbound::new(PEER);
        assert_eq!(inbound.take(block(1, 2, 10), true, LIMITS), Err(Refusal::Misfit));
        assert_eq!(inbound.take(block(0, 1, 11), true, LIMITS), Err(Refusal::Misfit));
        assert_eq!(inbound.take(block(0, 1, 10), true, LIMITS), Ok(Some((1, Payload::Zeros(10)))));
    }

    fn block(index: u16, count: u16, bytes: u32) -> Direct {
        Direct {
            view: ViewId(1),
            sender: 7,
            receiver: 9,
            number: 0,
            index,
            count,
            checksum: 0,
            payload: Payload::Zeros(bytes),
        }
    }
}
