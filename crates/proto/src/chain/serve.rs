//! A hop's part: blocks join the queue of their origin and leave in turn.
//!
//! A hop serves origins by deficit round robin in bytes ([`FairQueue`](super::fair_queue)), the
//! member's own blocks being one origin among them. What was handed to the driver cannot be
//! overtaken any more, so little is: while half of `hop_bytes` waits at the driver, blocks wait
//! here.
//!
//! Full buffers cannot wait for each other in a circle. A member takes what its peers send whatever
//! its own hops do; what it may have to hold of an origin is bounded by the credit that it gave
//! that origin; and an origin's blocks move on along a path without a circle, each hop of which
//! serves them within a round. So the blocks that are on their way reach all members, whoever else
//! sends, and credit returns.

use super::chain::{Chain, Cx};
use super::fair_queue::{QUANTUM_BYTES, Waiting};
use super::link::{LinkState, OutLink, Sent, link_to};
use super::message::{Frame, Message};
use crate::core::{Lane, NodeId};

impl Chain {
    /// Sends a held block of the member of rank `origin` to the member `position` places after it,
    /// when its turn comes.
    pub(super) fn send_block(&mut self, cx: &mut Cx<'_>, origin: u32, position: usize, seq: u64) {
        let to = self.node_at(origin, position);
        let flow = self.flow_index(origin).ok();
        let Some(block) = flow.and_then(|flow| self.flows[flow].block(seq)) else {
            return; // Every member has it.
        };
        let bytes = Frame::HEAD_BYTES + block.payload.len();
        let link = link_to(&mut self.out_links, to);
        if link.state == LinkState::Open && !link.has_queue() {
            if self.hop_room(cx, to) > 0 {
                return self.release(cx, to, Sent { origin, seq });
            }
            self.ask_for_drained(cx, to);
        }
        let block = Waiting { origin, seq, bytes };
        link_to(&mut self.out_links, to).push(block);
    }

    /// Lets blocks leave on the hop to `to`, each in its turn, while it has room.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        if self.is_frozen {
            return;
        }
        let is_served = |link: &OutLink| link.state == LinkState::Open && link.has_queue();
        while self.out_link(to).is_some_and(is_served) {
            if self.hop_room(cx, to) == 0 {
                return self.ask_for_drained(cx, to);
            }
            let link = link_to(&mut self.out_links, to);
            let Some(Waiting { origin, seq, .. }) = link.pop() else { return };
            self.release(cx, to, Sent { origin, seq });
            if Some(origin) == self.rank {
                // The next own block is to wait here before its turn comes.
                self.inject(cx);
            }
        }
    }

    /// How many bytes of own blocks may join the hop to `to`. If the hop is not busy, what the
    /// driver takes. If it is, nothing, as long as this member is not [behind](super::lag); then
    /// what it sends in a turn, and two blocks at least: an origin whose queue runs empty loses the
    /// rest of its deficit.
    pub(super) fn own_room(&self, cx: &mut Cx<'_>, to: NodeId) -> usize {
        let rank = self.rank.expect("only members send");
        let link = self.out_link(to);
        let is_busy = link.is_some_and(|link| link.has_queue() || link.state != LinkState::Open);
        let room = if is_busy { 0 } else { self.hop_room(cx, to) };
        if room > 0 {
            return room;
        }
        if let Some(link) = link
            && link.lag.as_ref().is_some_and(|lag| lag.is_behind())
        {
            let (blocks, bytes) = link.waiting_of(rank);
            let turn_bytes = (cx.shared.hop_bytes / 2).max(QUANTUM_BYTES);
            return turn_bytes.saturating_sub(bytes).max(usize::from(blocks < 2));
        }
        if !is_busy {
            self.ask_for_drained(cx, to);
        }
        0
    }

    /// Puts a noted block on its hop, or says that it is not needed any more.
    pub(super) fn send_noted(&self, cx: &mut Cx<'_>, to: NodeId, link: u64, sent: Sent) {
        let view = self.view.id();
        let flow = self.flow_index(sent.origin).ok();
        let frame = flow.and_then(|flow| self.flows[flow].frame(view, sent.seq, link));
        cx.send(to, Lane::Stream, frame.map_or(Message::Skip { view, link }, Message::Data));
    }

    /// Hands a block to the driver, unless every member has it by now.
    fn release(&mut self, cx: &mut Cx<'_>, to: NodeId, sent: Sent) {
        let flow = self.flow_index(sent.origin).ok();
        let Some(block) = flow.and_then(|flow| self.flows[flow].block(sent.seq)) else { return };
        let bytes = Frame::HEAD_BYTES + block.payload.len();
        let lag_bytes_max = cx.shared.hop_bytes;
        let link = link_to(&mut self.out_links, to);
        if let (Some(own), Some(rank)) = (&self.own, self.rank) {
            let own_waits = !own.waiting.is_empty() || link.waiting_of(rank).0 > 0;
            let lag = link.lag.get_or_insert_default();
            if sent.origin == rank {
                lag.note_own(bytes, lag_bytes_max, cx.shared.queue_bytes);
            } else {
                lag.note_other(sent.origin, bytes, lag_bytes_max, own_waits);
            }
        }
        let number = link.note(sent);
        self.send_noted(cx, to, number, sent);
    }

    fn out_link(&self, to: NodeId) -> Option<&OutLink> {
        let place = self.out_links.binary_search_by_key(&to, |link| link.peer).ok()?;
        Some(&self.out_links[place])
    }

    /// Bytes that the driver takes for the hop to `to` before half of `hop_bytes` waits there.
    fn hop_room(&self, cx: &Cx<'_>, to: NodeId) -> usize {
        (cx.shared.hop_bytes / 2).saturating_sub(cx.backlog_bytes(to))
    }

    /// Asks to hear when a quarter of `hop_bytes` waits, so that several blocks leave for one
    /// wake-up.
    fn ask_for_drained(&self, cx: &mut Cx<'_>, to: NodeId) {
        cx.notify_drained(to, cx.shared.hop_bytes / 4);
    }
}
