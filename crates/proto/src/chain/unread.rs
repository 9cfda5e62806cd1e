//! Blocks delivered in earlier views and not yet consumed count against the present window.
//!
//! Each view numbers its blocks from zero and opens full windows. A reader that has stopped would
//! therefore grant one more window at each view change. To prevent that, each member counts what
//! its application has not yet consumed from each origin that stayed, and reports the count to that
//! origin. If an origin sent blocks that a member may not have consumed, it sends that member
//! nothing in the next view until it has received the report.

use std::collections::VecDeque;

use super::counters;
use super::message::Message;
use super::own::{Own, Unconsumed};
use super::{Chain, Cx};
use crate::core::{Lane, Member, NodeId, View, ViewId};

/// One origin's messages of earlier views that this member's application has not consumed. Kept,
/// even if there are none, as long as the origin may ask for them.
#[derive(Debug)]
pub(super) struct Unread {
    origin: Member,
    // View, number after the last block, and size; oldest first.
    messages: VecDeque<(ViewId, u64, Unconsumed)>,
    unconsumed: Unconsumed,
    // The amount last reported to the origin.
    reported: Unconsumed,
}

impl Unread {
    fn new(origin: Member) -> Unread {
        let unconsumed = Unconsumed::default();
        Unread { origin, messages: VecDeque::new(), unconsumed, reported: unconsumed }
    }

    fn push(&mut self, view: ViewId, end: u64, size: Unconsumed) {
        self.messages.push_back((view, end, size));
        self.unconsumed.add(size);
    }

    /// The application consumed everything up to the message of this view that ended at `through`.
    fn consume(&mut self, view: ViewId, through: u64) {
        while let Some(&(sent_in, end, size)) = self.messages.front() {
            if (sent_in, end) > (view, through) {
                break;
            }
            self.unconsumed.subtract(size);
            self.messages.pop_front();
        }
    }
}

impl Chain {
    /// The application is done with all messages of this origin up to the one that was delivered in
    /// this view and ended at `end`: returns the origin's credit, whatever the view is by now.
    pub fn consumed_in(&mut self, cx: &mut Cx<'_>, view: ViewId, origin: NodeId, end: u64) {
        if !self.unread.is_empty() {
            self.consumed_earlier(cx, view, origin, end);
        }
        if view == self.view.id() {
            self.consumed(cx, origin, end);
        }
    }

    fn consumed_earlier(&mut self, cx: &mut Cx<'_>, view: ViewId, origin: NodeId, end: u64) {
        let Some(unread) = self.unread.iter_mut().find(|unread| unread.origin.node == origin)
        else {
            return;
        };
        unread.consume(view, end);
        let (unconsumed, reported) = (unread.unconsumed, unread.reported);
        if origin == cx.node {
            return self.settle_unconsumed(cx, origin, unconsumed);
        }
        let due_bytes = cx.shared.window_bytes as u64 / 4;
        let due_blocks = cx.shared.window_blocks as u64 / 4;
        let is_due = unconsumed != reported
            && (unconsumed.is_nothing()
                || reported.bytes - unconsumed.bytes >= due_bytes
                || reported.blocks - unconsumed.blocks >= due_blocks);
        if is_due {
            self.report_unconsumed(cx, origin);
        }
    }

    /// Bytes of this origin that were delivered in earlier views and not consumed here.
    pub(super) fn unread_bytes(&self, origin: NodeId) -> usize {
        let unread = self.unread.iter().find(|unread| unread.origin.node == origin);
        unread.map_or(0, |unread| unread.unconsumed.bytes as usize)
    }

    /// At the end of a view: keeps the unconsumed blocks of origins that are in the next view.
    /// Returns the origins whose blocks have arrived in the view that ends.
    pub(super) fn carry_unread(&mut self, next: &View) -> Vec<NodeId> {
        self.unread.retain(|unread| next.contains(unread.origin));
        let view = self.view.id();
        let mut heard = Vec::new();
        for flow in self.flows.iter().filter(|flow| flow.received > 0) {
            let origin = self.view.members()[flow.rank as usize];
            if !next.contains(origin) {
                continue;
            }
            heard.push(origin.node);
            let place = self.unread.iter().position(|unread| unread.origin == origin);
            let place = place.unwrap_or_else(|| {
                self.unread.push(Unread::new(origin));
                self.unread.len() - 1
            });
            for (end, blocks, bytes) in flow.unconsumed() {
                self.unread[place].push(view, end, Unconsumed { blocks, bytes });
            }
        }
        heard
    }

    /// What each member of the next view owes this one, as far as this one can tell.
    pub(super) fn unconsumed_by(&self, own: &Own, next: &View) -> Vec<Unconsumed> {
        let unconsumed = |member: &Member| {
            let Some(rank) = self.view.rank(member.node) else { return Unconsumed::default() };
            if self.view.members()[rank] != *member {
                Unconsumed::default()
            } else if Some(rank as u32) == self.rank {
                let unread = self.unread.iter().find(|unread| unread.origin == *member);
                unread.map_or(Unconsumed::default(), |unread| unread.unconsumed)
            } else {
                own.unconsumed_of(rank)
            }
        };
        next.members().iter().map(unconsumed).collect()
    }

    /// At the start of a view: reports to the origins whose blocks arrived in the last one, and to
    /// those that wait for credit.
    pub(super) fn tell_all_owed(&mut self, cx: &mut Cx<'_>, heard: &[NodeId]) {
        let concerned = |unread: &&Unread| {
            !unread.unconsumed.is_nothing() || heard.contains(&unread.origin.node)
        };
        let origins = self.unread.iter().filter(concerned).map(|unread| unread.origin.node);
        for origin in origins.filter(|&node| node != cx.node).collect::<Vec<_>>() {
            self.report_unconsumed(cx, origin);
        }
    }

    /// Reports to an origin how much of its blocks is unconsumed, if it waits for that.
    pub(super) fn report_unconsumed(&mut self, cx: &mut Cx<'_>, origin: NodeId) {
        let Some(unread) = self.unread.iter_mut().find(|unread| unread.origin.node == origin)
        else {
            return;
        };
        unread.reported = unread.unconsumed;
        let (origin, unconsumed) = (unread.origin, unread.unconsumed);
        self.send_unconsumed(cx, origin, unconsumed);
    }

    fn send_unconsumed(
        &self,
        cx: &mut Cx<'_>,
        origin: Member,
        Unconsumed { blocks, bytes }: Unconsumed,
    ) {
        let (view, incarnation) = (self.view.id(), origin.incarnation);
        let message = Message::Unconsumed { view, incarnation, blocks, bytes };
        cx.send(origin.node, Lane::Datagram, message);
    }

    /// Reports to an origin that nothing is unconsumed, though no block of it arrived in any view.
    /// In the last view it may have sent blocks that reached no other member.
    pub(super) fn tell_nothing_owed(&self, cx: &mut Cx<'_>, origin: Member) {
        if self.unread.iter().all(|unread| unread.origin != origin) {
            self.send_unconsumed(cx, origin, Unconsumed::default());
        }
    }

    pub(super) fn receive_unconsumed(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        incarnation: u64,
        unconsumed: Unconsumed,
    ) {
        if incarnation != cx.incarnation {
            return cx.count(counters::FOREIGN_INCARNATION, 1);
        }
        self.settle_unconsumed(cx, from, unconsumed);
    }

    fn settle_unconsumed(&mut self, cx: &mut Cx<'_>, member: NodeId, unconsumed: Unconsumed) {
        let (Some(rank), Some(own)) = (self.view.rank(member), &mut self.own) else { return };
        own.lower_unconsumed(rank, unconsumed);
        self.inject(cx);
        self.note_admission(cx);
    }
}
