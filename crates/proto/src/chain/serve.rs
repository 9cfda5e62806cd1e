//! A hop's part: blocks join the queue of their origin and leave in turn.
//!
//! A hop serves origins by deficit round robin in bytes ([`FairQueue`](super::fair_queue)); the
//! member itself is one of these origins. Blocks at the driver can no longer be overtaken, so few
//! are handed over: while half of `hop_bytes` waits at the driver, blocks wait here.
//!
//! The hops of a member share its uplink. So no origin gets further ahead of one that waits on
//! another hop than half of `hop_bytes`, counted over all hops ([`Uplink`](super::uplink)): its
//! blocks wait although their hop has room, until the other origin has caught up.
//!
//! There is no deadlock of full buffers. A member accepts what its peers send, whatever the state
//! of its own hops; the credit that it granted an origin bounds what it may have to hold of that
//! origin; and an origin's blocks travel along a path without a circle, each hop of which serves
//! them within a round. Consider the hop of a member on which the origin with the lowest tag waits.
//! No other hop holds it up: it is full, and the driver empties it, since its peer accepts what
//! arrives. So blocks under way reach all members, whatever other origins send, and credit returns.

use super::Config;
use super::fair_queue::{QUANTUM_BYTES, Waiting};
use super::link::{LinkState, OutLink, Sent, known_link, link_to};
use super::message::Message;
use super::uplink::Uplink;
use super::{Chain, Cx};
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
        let bytes = block.frame_bytes();
        let link = link_to(&mut self.out_links, to);
        if link.state == LinkState::Open && !link.has_queue() {
            if self.hop_room(cx, to) == 0 {
                self.ask_for_drained(cx, to);
            } else if may_leave(self.uplink.as_deref(), origin, self.tag_max(cx, to)) {
                return self.release(cx, to, Sent { origin, seq });
            }
        }
        if self.out_links.len() > 1 {
            let is_backlogged = self.out_links.iter().any(|link| link.waiting_of(origin).0 > 0);
            let uplink = self.uplink.get_or_insert_default();
            if !is_backlogged {
                uplink.note_backlogged(origin);
            }
        }
        let block = Waiting { origin, seq, bytes };
        link_to(&mut self.out_links, to).push(block);
    }

    /// Lets blocks leave on the hop to `to`, and then on the others, where blocks may have waited
    /// for origins that left here.
    pub(super) fn serve(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        self.serve_hop(cx, to);
        self.serve_all(cx);
    }

    /// Lets blocks leave on all hops, as long as any can. So of hops with a queue one at least is
    /// full, and the driver will say when it no longer is.
    pub(super) fn serve_all(&mut self, cx: &mut Cx<'_>) {
        let mut has_served = self.out_links.len() > 1;
        while has_served {
            has_served = false;
            for place in 0..self.out_links.len() {
                let link = &self.out_links[place];
                if link.has_queue() {
                    has_served |= self.serve_hop(cx, link.peer);
                }
            }
        }
    }

    /// Lets blocks leave on the hop to `to`, each in its turn, while it has room. False if none
    /// left.
    fn serve_hop(&mut self, cx: &mut Cx<'_>, to: NodeId) -> bool {
        let mut has_served = false;
        let is_served = |link: &OutLink| link.state == LinkState::Open && link.has_queue();
        while !self.is_frozen && self.out_link(to).is_some_and(is_served) {
            if self.hop_room(cx, to) == 0 {
                self.ask_for_drained(cx, to);
                break;
            }
            let tag_max = self.tag_max(cx, to);
            let uplink = self.uplink.as_deref();
            let link = known_link(&mut self.out_links, to).expect("it has a queue");
            let next = link.pop(|origin| may_leave(uplink, origin, tag_max));
            let Some(Waiting { origin, seq, .. }) = next else { break };
            has_served = true;
            self.release(cx, to, Sent { origin, seq });
            if Some(origin) == self.rank {
                // The next own block must wait here before its turn comes.
                self.inject(cx);
            }
        }
        has_served
    }

    /// The largest tag with which an origin's blocks may leave on the hop to `to`; none while
    /// nothing waits on other hops.
    fn tag_max(&self, cx: &Cx<'_>, to: NodeId) -> Option<u64> {
        let uplink = self.uplink.as_ref()?;
        let others = self.out_links.iter();
        let others = others.filter(|link| link.peer != to && link.state == LinkState::Open);
        let tags = others.flat_map(|link| link.waiting_origins()).map(|origin| uplink.tag(origin));
        tags.min().map(|tag| tag + cx.shared.hop_bytes as u64 / 2)
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

    /// Sends a noted block on its hop, or a skip frame if the block was freed meanwhile.
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
        let bytes = block.frame_bytes();
        let lag_bytes_max = cx.shared.hop_bytes;
        let copies = self.uplink.is_some().then(|| {
            let rank = self.rank.expect("only members send");
            block.topology.copies(self.position(sent.origin, rank), self.members())
        });
        if let (Some(uplink), Some(copies)) = (&mut self.uplink, copies) {
            uplink.note_left(sent.origin, bytes / copies);
        }
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

    pub(super) fn out_link(&self, to: NodeId) -> Option<&OutLink> {
        let place = self.out_links.binary_search_by_key(&to, |link| link.peer).ok()?;
        Some(&self.out_links[place])
    }

    fn hop_room(&self, cx: &Cx<'_>, to: NodeId) -> usize {
        hop_room(cx.shared, cx.backlog_bytes(to))
    }

    /// Asks to hear when the hop runs low, so that several blocks leave for one wake-up.
    fn ask_for_drained(&self, cx: &mut Cx<'_>, to: NodeId) {
        cx.notify_drained(to, drained_bytes(cx.shared));
    }
}

/// A hop with no more than this at the driver runs low. It is also the most that small messages
/// fill of a block: a longer block takes longer at each hop.
pub(super) fn drained_bytes(config: &Config) -> usize {
    config.hop_bytes / 4
}

/// Bytes that the driver takes for a hop before half of `hop_bytes` waits there.
pub(super) fn hop_room(config: &Config, backlog_bytes: usize) -> usize {
    (config.hop_bytes / 2).saturating_sub(backlog_bytes)
}

/// True if no origin that waits on another hop is too far behind this one.
fn may_leave(uplink: Option<&Uplink>, origin: u32, tag_max: Option<u64>) -> bool {
    match (uplink, tag_max) {
        (Some(uplink), Some(max)) => uplink.tag(origin) <= max,
        _ => true,
    }
}
