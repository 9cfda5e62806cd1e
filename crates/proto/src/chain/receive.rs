//! Every other member's part: a frame is checked, held, delivered and forwarded.

use super::Topology;
use super::acks::small_blocks_due;
use super::counters;
use super::flow::{Block, Complete, Flow, Refusal, Room};
use super::link::link_to;
use super::message::Frame;
use super::pipeline::Transfer;
use super::{Chain, Cx, Event};
use crate::core::NodeId;

impl Chain {
    pub(super) fn receive_frame(&mut self, cx: &mut Cx<'_>, from: NodeId, frame: Frame) {
        let Some(rank) = self.rank else {
            return cx.count(counters::NOT_A_MEMBER, 1);
        };
        if self.is_frozen {
            return cx.count(counters::AFTER_THE_VIEW, 1);
        }
        if !self.accept_link(cx, from, frame.link) {
            return;
        }
        if frame.origin as usize >= self.members() {
            return cx.count(counters::FOREIGN_ORIGIN, 1);
        }
        if frame.origin == rank {
            return cx.count(counters::OWN_FRAME_RETURNED, 1);
        }
        if frame.hops_left as usize >= self.members() {
            return cx.count(counters::HOPS_OUT_OF_RANGE, 1);
        }
        if frame.payload.len() + frame.lengths.window_bytes() > cx.shared.block_bytes_max {
            return cx.count(counters::BLOCK_OVERSIZED, 1);
        }
        if usize::from(frame.count) > cx.shared.message_blocks_max() {
            // The schedule of a pipelined message takes time and room for each of its blocks.
            return cx.count(counters::COUNT_OUT_OF_RANGE, 1);
        }
        let seq = frame.seq;
        let Some(place) = self.flow_of(cx, frame.origin, frame.incarnation) else { return };
        if u64::from(frame.stable_lag) >= cx.shared.window_blocks as u64 {
            // A window is not longer, so this member would hold more than it granted.
            cx.count(counters::BEYOND_CREDIT, 1);
            return cx.disconnect(from);
        }
        // Before the block is held, so that this member never holds more than a window, and before
        // it is forwarded, so that the next one learns it from the same frame.
        self.flows[place].free(seq.saturating_sub(u64::from(frame.stable_lag)));
        let topology = frame.topology;
        let (first, count) = (seq - u64::from(frame.index), frame.count);
        match self.take_in(cx, place, frame) {
            Ok(()) => {}
            Err(Refusal::Duplicate) => return cx.count(counters::DUPLICATE, 1),
            Err(Refusal::BeyondCredit) => {
                cx.count(counters::BEYOND_CREDIT, 1);
                return cx.disconnect(from);
            }
        }
        match topology {
            Topology::Pipeline => self.forward_pipeline(cx, place, first, count),
            _ => self.forward(cx, place, seq, topology),
        }
        self.acknowledge_if_due(cx, place);
        if self.own.is_some() {
            // While another origin's block waits for its turn, an own one must wait for the next.
            self.inject(cx);
            self.note_admission(cx);
        }
    }

    /// The flow of an origin in this incarnation, a new one if nothing of it has come yet. The view
    /// says which incarnation the origin has, and if that is not known the first one seen stays:
    /// else a member that names another one keeps its view from being flushed.
    pub(super) fn flow_of(
        &mut self,
        cx: &mut Cx<'_>,
        origin: u32,
        incarnation: u64,
    ) -> Option<usize> {
        let known = self.view.members()[origin as usize].incarnation;
        let place = self.flow_index(origin);
        let known = place.map_or(known, |place| self.flows[place].incarnation);
        if known != 0 && known != incarnation {
            cx.count(counters::FOREIGN_INCARNATION, 1);
            return None;
        }
        Some(place.unwrap_or_else(|place| {
            // In a large group few members send: no room for four.
            self.flows.reserve_exact(1);
            self.flows.insert(place, Flow::new(origin, incarnation));
            place
        }))
    }

    /// Keeps the hop's order: true if the frame is the next one.
    pub(super) fn accept_link(&mut self, cx: &mut Cx<'_>, from: NodeId, number: u64) -> bool {
        let link = link_to(&mut self.in_links, from);
        if number < link.expected {
            cx.count(counters::LINK_DUPLICATE, 1);
            return false;
        }
        if number > link.expected {
            cx.count(counters::LINK_GAP, 1);
            return false;
        }
        link.expected += 1;
        let due = (cx.shared.ack_blocks as u64).max(small_blocks_due(cx.shared));
        if link.expected - link.acknowledged >= due {
            link.send_ack(cx, self.view.id());
        } else {
            self.arm_ack(cx);
        }
        true
    }

    pub(super) fn forward(&mut self, cx: &mut Cx<'_>, flow: usize, seq: u64, topology: Topology) {
        let rank = self.rank.expect("only members receive");
        let origin = self.flows[flow].rank;
        for child in topology.children(self.position(origin, rank), self.members()) {
            self.forward_to(cx, flow, child, seq);
        }
    }

    pub(super) fn forward_pipeline(
        &mut self,
        cx: &mut Cx<'_>,
        flow: usize,
        first: u64,
        count: u16,
    ) {
        let rank = self.rank.expect("only members receive");
        let members = self.members();
        let position = self.position(self.flows[flow].rank, rank);
        if !self.flows[flow].transfers.iter().any(|transfer| transfer.first == first) {
            if self.flows[flow].transfers.iter().any(|transfer| transfer.overlaps(first, count)) {
                return cx.count(counters::MISFIT_BLOCK, 1);
            }
            let transfer = Transfer::new(members, position, first, count);
            self.flows[flow].transfers.push(transfer);
        }
        while let Some((to, seq)) = self.flows[flow].next_transfer_send(first) {
            self.forward_to(cx, flow, to, seq);
        }
    }

    pub(super) fn forward_to(&mut self, cx: &mut Cx<'_>, flow: usize, position: usize, seq: u64) {
        let held = &self.flows[flow];
        // A block is freed once every member has it, so no successor lacks it.
        let Some(block) = held.block(seq) else { return };
        if block.hops_left == 0 {
            return cx.count(counters::HOPS_EXHAUSTED, 1);
        }
        self.send_block(cx, held.rank, position, seq);
    }

    /// Holds a block and delivers the messages that it completes.
    pub(super) fn take_in(
        &mut self,
        cx: &mut Cx<'_>,
        flow: usize,
        frame: Frame,
    ) -> Result<(), Refusal> {
        let config = cx.shared;
        let unread = match self.unread.is_empty() {
            true => 0,
            false => self.unread_bytes(self.view.node(frame.origin as usize)),
        };
        let unconsumed_bytes_max = config.window_bytes + config.message_bytes_max;
        let room = Room {
            window_blocks: config.window_blocks,
            window_bytes: config.window_bytes,
            unconsumed_bytes_max: unconsumed_bytes_max.saturating_sub(unread),
        };
        self.take_in_with(cx, flow, frame, room)
    }

    pub(super) fn take_in_with(
        &mut self,
        cx: &mut Cx<'_>,
        flow: usize,
        frame: Frame,
        room: Room,
    ) -> Result<(), Refusal> {
        let config = cx.shared;
        let flow = &mut self.flows[flow];
        let Frame { checksum, index, count, topology, hops_left, lengths, payload, .. } = frame;
        let block = Block { payload, checksum, index, count, topology, hops_left, lengths };
        flow.insert(frame.seq, block, room)?;
        let (origin, incarnation) = (self.view.node(flow.rank as usize), flow.incarnation);
        let misfits = flow.advance(config.message_bytes_max, |complete| {
            let Complete { number, end, payload } = complete;
            cx.deliver(Event::Delivered { origin, incarnation, seq: number, end, payload });
        });
        if misfits > 0 {
            cx.count(counters::MISFIT_BLOCK, misfits);
        }
        Ok(())
    }
}
