//! The member's part in messages to one other member.
//!
//! The receiver delivers only messages sent in its present view, to its present incarnation. Block
//! numbers continue through all views. So the sender retransmits a message until it is
//! acknowledged, in the next view too, and the receiver delivers it once. When either of the two
//! leaves the view, the sender's application learns which messages were not acknowledged. Nothing
//! is sent during a view change.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::REPEAT_EVERY;
use super::correlated::{Correlated, Correlation, CorrelationId};
use super::counters;
use super::direct::Direct;
use super::interface::{Event, Role, SendFailure};
use super::message::Message;
use super::pair::{Inbound, Limits, Next, Outbound, Progress, Refusal};
use super::{Cx, Group};
use crate::core::{Lane, Member, NodeId, Payload, PeerState};

/// The longest pause between two questions to a member that acknowledges nothing.
const PROBE_AFTER_MAX: Duration = Duration::from_secs(1);

/// The ends of all pairs that this member is part of.
#[derive(Debug, Default)]
pub(super) struct Post {
    outbound: BTreeMap<NodeId, Outbound>,
    inbound: BTreeMap<NodeId, Inbound>,
}

impl Post {
    /// How far the messages to this member are; `None` while it has acknowledged all.
    pub(super) fn progress(&self, to: NodeId) -> Option<Progress> {
        self.outbound.get(&to).and_then(Outbound::progress)
    }

    /// Bytes of messages from others.
    pub(super) fn memory_bytes(&self) -> usize {
        self.inbound.values().map(Inbound::memory_bytes).sum()
    }
}

impl Group {
    /// Bytes of messages and replies to this member that it has not acknowledged, as far as they
    /// count against `direct_window_bytes`: payloads, and [`Direct::HEAD_BYTES`] for each.
    pub fn direct_bytes_queued(&self, to: NodeId) -> usize {
        self.post.outbound.get(&to).map_or(0, Outbound::queued_bytes)
    }

    fn limits(cx: &Cx<'_>) -> Limits {
        let chain = cx.shared.chain();
        Limits {
            block_bytes_max: chain.block_bytes_max(),
            message_bytes_max: chain.message_bytes_max(),
            window_bytes: cx.shared.direct_window_bytes,
            hop_bytes: chain.hop_bytes() / 2,
        }
    }

    /// As much waits for this member as may.
    pub(super) fn is_queue_full(&self, cx: &Cx<'_>, to: NodeId) -> bool {
        self.direct_bytes_queued(to) >= cx.shared.direct_window_bytes
    }

    /// Why this member may not send a message of this many bytes to a member of the view, whatever
    /// waits.
    pub(super) fn cannot_send(&self, cx: &Cx<'_>, to: Member, bytes: usize) -> Option<SendFailure> {
        let bytes_max = cx.shared.chain().message_bytes_max();
        if self.role != Role::Member {
            Some(SendFailure::NotAMember)
        } else if !self.has_primary {
            Some(SendFailure::LostPrimary)
        } else if !self.view.contains(to) {
            Some(SendFailure::NotInView)
        } else if bytes > bytes_max {
            Some(SendFailure::TooLarge { bytes, bytes_max })
        } else {
            None
        }
    }

    pub(super) fn send_to(&mut self, cx: &mut Cx<'_>, to: Member, payload: Payload, ticket: u64) {
        let failure = self
            .cannot_send(cx, to, payload.len())
            .or_else(|| (to == self.me.member).then_some(SendFailure::NotInView))
            .or_else(|| self.is_queue_full(cx, to.node).then_some(SendFailure::Full));
        if let Some(failure) = failure {
            cx.count(counters::DIRECT_REFUSED, 1);
            return cx.deliver(Event::Undelivered { ticket, failure });
        }
        self.enqueue(cx, to, None, payload, ticket);
    }

    /// Sends a message to another member of the view: one of the application, or one that is or
    /// answers the request of `head`.
    pub(super) fn enqueue(
        &mut self,
        cx: &mut Cx<'_>,
        to: Member,
        head: Option<CorrelationId>,
        payload: Payload,
        ticket: u64,
    ) {
        let out = self.post.outbound.entry(to.node).or_insert_with(|| Outbound::new(to));
        if !out.is_waiting() {
            (out.probe_at, out.probes) = (cx.now + REPEAT_EVERY, 0);
        }
        out.push(payload, ticket, head, Self::limits(cx));
        self.pump(cx, to.node);
        self.repeat_soon(cx);
    }

    /// Sends what has room.
    fn pump(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        if self.is_ending() || !self.is_member() {
            return;
        }
        let (view, sender, limits) = (self.view.id(), self.me.member.incarnation, Self::limits(cx));
        let Some(out) = self.post.outbound.get_mut(&to) else { return };
        while let Some(Next { block, head, is_again }) = out.next_block(view, sender, limits) {
            if is_again {
                cx.count(counters::DIRECT_RESENT, 1);
            }
            cx.send(to, Lane::Stream, block_message(head, block));
        }
    }

    /// A stream broke, or stands again: what was under way may be lost.
    pub(super) fn note_stream(&mut self, cx: &mut Cx<'_>, peer: NodeId, state: PeerState) {
        let Some(out) = self.post.outbound.get_mut(&peer) else { return };
        match state {
            PeerState::Down => out.is_open = false,
            PeerState::Up { .. } => {
                out.is_open = true;
                out.go_back();
                self.pump(cx, peer);
            }
            PeerState::Suspect => {}
        }
    }

    pub(super) fn receive_direct(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        head: Option<CorrelationId>,
        block: Direct,
    ) {
        if block.view > self.view.id() && self.awaits_view() {
            return self.keep_early(cx, from, block_message(head, block));
        }
        if block.view < self.view.id() && self.is_member() && self.view.rank(from).is_none() {
            self.tell_excluded(cx, from);
        }
        if block.view != self.view.id() || !self.is_member() {
            // The sender retransmits it in its next view, or reports it as undelivered.
            return cx.count(counters::DIRECT_FOREIGN_VIEW, 1);
        }
        let sender = Member { node: from, incarnation: block.sender };
        let is_mine = block.receiver == self.me.member.incarnation;
        if !is_mine || sender == self.me.member || !self.view.contains(sender) {
            return cx.count(counters::DIRECT_FOREIGN_MEMBER, 1);
        }
        let limits = Self::limits(cx);
        if usize::from(block.count) > cx.shared.chain().message_blocks_max() {
            cx.count(counters::DIRECT_MISFIT, 1);
            return cx.disconnect(from);
        }
        let view = block.view;
        let is_for_application = head.is_none_or(|head| match head.correlation {
            Correlation::Request => true,
            Correlation::Reply => self.requests.awaits(sender, head.id),
            Correlation::Refusal => false,
        });
        let inbound = self.post.inbound.entry(from).or_insert_with(|| Inbound::new(sender));
        match inbound.take(block, is_for_application, limits) {
            Ok(None) => {}
            Ok(Some((end, payload))) => match head {
                None => cx.deliver(Event::Direct { view, from: sender, end, payload }),
                Some(CorrelationId { correlation: Correlation::Request, id }) => {
                    self.take_request(cx, view, sender, id, end, payload);
                }
                Some(head) => self.take_answer(cx, sender, head, end, payload),
            },
            // Its sender does not know that it is here.
            Err(Refusal::Duplicate) => cx.count(counters::DIRECT_DUPLICATE, 1),
            Err(Refusal::Gap) => return cx.count(counters::DIRECT_GAP, 1),
            Err(Refusal::BeyondCredit) => {
                cx.count(counters::DIRECT_BEYOND_CREDIT, 1);
                return cx.disconnect(from);
            }
            Err(Refusal::Misfit) => {
                cx.count(counters::DIRECT_MISFIT, 1);
                return cx.disconnect(from);
            }
        }
        self.acknowledge_direct(cx, from);
    }

    fn acknowledge_direct(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        let receiver = self.me.member.incarnation;
        let Some(inbound) = self.post.inbound.get_mut(&to) else { return };
        let sender = inbound.from.incarnation;
        let (received, consumed) = inbound.marks();
        let message = Message::DirectAck { sender, receiver, received, consumed };
        cx.send(to, Lane::Datagram, message);
    }

    /// The numbers go on through all views, so that an acknowledgement holds in any.
    pub(super) fn receive_direct_ack(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (sender, receiver): (u64, u64),
        received: u64,
        consumed: u64,
    ) {
        let is_mine = sender == self.me.member.incarnation;
        let outbound = self.post.outbound.get_mut(&from);
        let Some(out) = outbound.filter(|out| is_mine && out.to.incarnation == receiver) else {
            return cx.count(counters::DIRECT_FOREIGN_MEMBER, 1);
        };
        let is_there = |ticket| {
            if ticket != 0 {
                cx.outbox.events.push(Event::Received { ticket });
            }
        };
        if !out.acknowledge(received, consumed, is_there) {
            return cx.count(counters::DIRECT_ACK_OUT_OF_RANGE, 1);
        }
        if out.probes == 0 {
            out.probe_at = cx.now + REPEAT_EVERY;
        }
        if let Some(rank) = self.view.rank(from) {
            self.links.note_heard(rank);
        }
        self.pump(cx, from);
    }

    pub(super) fn receive_direct_probe(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (sender, receiver): (u64, u64),
    ) {
        let inbound = self.post.inbound.get(&from);
        let is_known = inbound.is_some_and(|inbound| inbound.from.incarnation == sender);
        // If nothing has come of it yet there is nothing to say.
        if is_known && receiver == self.me.member.incarnation {
            self.acknowledge_direct(cx, from);
        }
    }

    /// The application is done with a member's messages up to the one that ended at `end`.
    pub(super) fn consumed_direct(&mut self, cx: &mut Cx<'_>, from: Member, end: u64) {
        let limits = Self::limits(cx);
        let inbound = self.post.inbound.get_mut(&from.node);
        let Some(inbound) = inbound.filter(|inbound| inbound.from == from) else { return };
        if inbound.consume(end, limits) {
            self.acknowledge_direct(cx, from.node);
        }
    }

    /// Asks those that have acknowledged nothing for a while. True if any message is under way.
    pub(super) fn probe_direct(&mut self, cx: &mut Cx<'_>) -> bool {
        let sender = self.me.member.incarnation;
        let mut is_waiting = false;
        for (&node, out) in self.post.outbound.iter_mut().filter(|(_, out)| out.is_waiting()) {
            is_waiting = true;
            if cx.now < out.probe_at {
                continue;
            }
            let pause = REPEAT_EVERY.saturating_mul(1 << out.probes.min(16));
            let pause = pause.min(PROBE_AFTER_MAX.max(REPEAT_EVERY));
            out.probes += 1;
            out.probe_at = cx.now + pause;
            let receiver = out.to.incarnation;
            cx.send(node, Lane::Datagram, Message::DirectProbe { sender, receiver });
        }
        is_waiting
    }

    /// A view was installed: what was not acknowledged is sent again in it, or is given up.
    pub(super) fn carry_direct(&mut self, cx: &mut Cx<'_>) {
        let view = self.view.clone();
        self.post.inbound.retain(|_, inbound| view.contains(inbound.from));
        let (stay, gone): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.post.outbound)
                .into_iter()
                .partition(|(_, out)| view.contains(out.to));
        self.post.outbound = stay;
        give_up(cx, gone, SendFailure::Departed);
        self.carry_requests(cx, &view);
        for to in self.post.outbound.keys().copied().collect::<Vec<_>>() {
            if let Some(out) = self.post.outbound.get_mut(&to) {
                out.go_back();
            }
            self.pump(cx, to);
        }
    }

    /// This node has left the view or the group.
    pub(super) fn give_up_direct(&mut self, cx: &mut Cx<'_>) {
        let post = std::mem::take(&mut self.post);
        give_up(cx, post.outbound, SendFailure::Parted);
        self.give_up_requests(cx);
    }
}

/// The message that brings a block.
fn block_message(head: Option<CorrelationId>, block: Direct) -> Message {
    match head {
        None => Message::Direct(block),
        Some(head) => Message::Correlated(Correlated::new(head, block)),
    }
}

fn give_up(cx: &mut Cx<'_>, outbound: BTreeMap<NodeId, Outbound>, failure: SendFailure) {
    for out in outbound.values() {
        for ticket in out.tickets() {
            cx.count(counters::DIRECT_GIVEN_UP, 1);
            cx.deliver(Event::Undelivered { ticket, failure });
        }
    }
}
