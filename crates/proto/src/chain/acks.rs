//! Credit and stability: which blocks members have, and which can be freed.
//!
//! Each member acknowledges each origin's blocks to that origin, by datagram. The origin's frames
//! carry the number up to which its blocks are stable; an idle origin announces it once. If that
//! announcement is lost, a member that still holds blocks asks for it, less and less often.

use std::time::Duration;

use super::Config;
use super::counters;
use super::message::Message;
use super::own::Own;
use super::{Chain, Cx, Timer};
use crate::core::{Instant, Lane, NodeId};

/// Payload that is worth an acknowledgement, which takes some 100 bytes of a link. Less waits for
/// [`WORTH_BLOCKS`], or for the time.
const WORTH_BYTES: usize = 1000;

/// Blocks that are worth one however small they are.
const WORTH_BLOCKS: usize = 16;

/// The same, where a small window would have to wait for the time.
pub(super) fn small_blocks_due(config: &Config) -> u64 {
    WORTH_BLOCKS.min(config.window_blocks / 2) as u64
}

/// The longest pause between two reminders, unless acknowledgements are configured later still.
const REMIND_AFTER_MAX: Duration = Duration::from_secs(1);

/// The pause before the next reminder, after this many without an answer.
fn remind_pause(ack_after: Duration, reminders: u32) -> Duration {
    let first = ack_after.saturating_mul(4);
    first.saturating_mul(1 << reminders.min(16)).min(REMIND_AFTER_MAX.max(first))
}

impl Chain {
    /// Acknowledges progress of a flow: at once if it is large, else soon.
    pub(super) fn acknowledge_if_due(&mut self, cx: &mut Cx<'_>, flow: usize) {
        if Some(self.flows[flow].rank) == self.rank {
            return self.settle_own(cx);
        }
        let due = cx.shared.ack_blocks as u64;
        let state = &self.flows[flow];
        // A window of few large blocks is not to wait for the time that is for slow senders.
        let received = state.received - state.acknowledged_received;
        let blocks = received.max(state.credit() - state.acknowledged_consumed);
        let bytes = state.unacknowledged_bytes.max(state.unacknowledged_consumed_bytes);
        let is_worth_it = bytes >= WORTH_BYTES || blocks >= small_blocks_due(cx.shared);
        let is_due = blocks >= due && is_worth_it
            || state.unacknowledged_bytes >= cx.shared.window_bytes / 2;
        if is_due {
            self.acknowledge(cx, flow);
        } else {
            self.arm_ack(cx);
        }
    }

    pub(super) fn acknowledge(&mut self, cx: &mut Cx<'_>, flow: usize) {
        let ack_after = cx.shared.ack_after;
        let view = self.view.id();
        let flow = &mut self.flows[flow];
        flow.acknowledged_received = flow.received;
        flow.acknowledged_consumed = flow.credit();
        (flow.unacknowledged_bytes, flow.unacknowledged_consumed_bytes) = (0, 0);
        flow.remind_at = cx.now + remind_pause(ack_after, flow.reminders);
        let (received, consumed) = (flow.acknowledged_received, flow.acknowledged_consumed);
        let message = Message::Ack { view, incarnation: flow.incarnation, received, consumed };
        cx.send(self.view.node(flow.rank as usize), Lane::Datagram, message);
        self.arm_remind(cx);
    }

    pub(super) fn arm_ack(&mut self, cx: &mut Cx<'_>) {
        // Once for each block: the instant is computed only if it is wanted.
        if !self.ack.is_armed() {
            self.ack.set_after(cx, cx.shared.ack_after, Timer::Ack);
        }
    }

    pub(super) fn arm_remind(&mut self, cx: &mut Cx<'_>) {
        if self.remind.is_armed() {
            return;
        }
        let own = self.rank;
        let held = self.flows.iter().filter(|flow| Some(flow.rank) != own && flow.is_unstable());
        if let Some(at) = held.map(|flow| flow.remind_at).filter(|&at| at < Instant::MAX).min() {
            self.remind.set(cx, at.max(cx.now + cx.shared.ack_after), Timer::Remind);
        }
    }

    /// The window is closed. A member's credit may have got lost after it freed its blocks, when it
    /// has no reason left to repeat it; so the origin asks.
    pub(super) fn arm_probe(&mut self, cx: &mut Cx<'_>) {
        let Some(own) = self.own.as_mut().filter(|_| !self.probe.is_armed()) else {
            return;
        };
        own.probes = 0;
        own.probed_progress = own.progress();
        self.probe.set_after(cx, remind_pause(cx.shared.ack_after, 0), Timer::Probe);
    }

    pub(super) fn probe_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.probe.fired(cx.now) {
            return;
        }
        let (own_rank, view) = (self.rank, self.view.id());
        // With nothing in flight the window is open, and what waits waits for a hop.
        let is_waiting = |own: &&mut Box<Own>| own.is_held_back() && !own.waiting.is_empty();
        let Some(own) = self.own.as_mut().filter(is_waiting) else {
            return;
        };
        if own.probed_progress == own.progress() {
            own.probes += 1;
            for rank in own.holding_back().filter(|&rank| Some(rank as u32) != own_rank) {
                let message = Message::Probe { view, incarnation: cx.incarnation };
                cx.send(self.view.node(rank), Lane::Datagram, message);
                cx.count(counters::PROBES_SENT, 1);
            }
        } else {
            own.probes = 0;
            own.probed_progress = own.progress();
        }
        self.probe.set_after(cx, remind_pause(cx.shared.ack_after, own.probes), Timer::Probe);
    }

    pub(super) fn answer_probe(&mut self, cx: &mut Cx<'_>, from: usize, incarnation: u64) {
        let is_present = incarnation == self.view.members()[from].incarnation;
        if is_present {
            self.report_unconsumed(cx, self.view.node(from));
        }
        let Ok(flow) = self.flow_index(from as u32) else {
            // Nothing has come yet, perhaps because the origin waits for a report of unconsumed
            // blocks.
            if is_present {
                self.tell_nothing_owed(cx, self.view.members()[from]);
            }
            return;
        };
        if self.flows[flow].incarnation != incarnation {
            return cx.count(counters::FOREIGN_INCARNATION, 1);
        }
        self.acknowledge(cx, flow);
    }

    pub(super) fn ack_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.ack.fired(cx.now) {
            return;
        }
        for place in 0..self.flows.len() {
            let flow = &self.flows[place];
            let has_news = flow.received != flow.acknowledged_received
                || flow.credit() != flow.acknowledged_consumed;
            if Some(flow.rank) != self.rank && has_news {
                self.acknowledge(cx, place);
            }
        }
        let view = self.view.id();
        for link in self.in_links.iter_mut().filter(|link| link.acknowledged < link.expected) {
            link.send_ack(cx, view);
        }
        self.announce_stable(cx);
    }

    /// When idle, tells all members that all own blocks are stable. Under load, frames carry that.
    pub(super) fn announce_stable(&mut self, cx: &mut Cx<'_>) {
        let Some(own) = &mut self.own else { return };
        let stable = own.stable();
        if stable == own.announced || stable < own.next || !own.waiting.is_empty() {
            return;
        }
        own.announced = stable;
        let message = Message::Stable { view: self.view.id(), incarnation: cx.incarnation, stable };
        for member in self.view.members() {
            if member.node != cx.node {
                cx.send(member.node, Lane::Datagram, message.clone());
            }
        }
    }

    pub(super) fn remind_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.remind.fired(cx.now) {
            return;
        }
        for place in 0..self.flows.len() {
            let flow = &mut self.flows[place];
            let is_late = flow.is_unstable() && flow.remind_at <= cx.now;
            if Some(flow.rank) != self.rank && is_late {
                flow.reminders = flow.reminders.saturating_add(1);
                self.acknowledge(cx, place);
            }
        }
        self.arm_remind(cx);
    }

    pub(super) fn receive_ack(
        &mut self,
        cx: &mut Cx<'_>,
        from: usize,
        incarnation: u64,
        received: u64,
        consumed: u64,
    ) {
        let Some(own) = self.own.as_mut().filter(|_| incarnation == cx.incarnation) else {
            return cx.count(counters::FOREIGN_INCARNATION, 1);
        };
        if !own.acknowledge(from, received, consumed) {
            return cx.count(counters::ACK_OUT_OF_RANGE, 1);
        }
        // A reminder: the member holds blocks that were called stable, so that news was lost.
        if received == own.announced && received == own.next {
            let stable = own.announced;
            let message = Message::Stable { view: self.view.id(), incarnation, stable };
            cx.send(self.view.node(from), Lane::Datagram, message);
        }
        self.settle_own(cx);
        self.inject(cx);
        self.note_admission(cx);
    }

    /// Frees own blocks that became stable and counts what the own application consumed.
    pub(super) fn settle_own(&mut self, cx: &mut Cx<'_>) {
        let Some(rank) = self.rank else { return };
        let (Ok(flow), Some(own)) = (self.flow_index(rank), &mut self.own) else {
            return;
        };
        let flow = &mut self.flows[flow];
        own.raise_consumed(rank as usize, flow.credit());
        flow.free(own.stable());
        own.settle_messages();
        if own.stable() == own.next && own.announced < own.next && self.view.len() > 1 {
            self.arm_ack(cx);
        }
    }

    pub(super) fn consumed(&mut self, cx: &mut Cx<'_>, origin: NodeId, end: u64) {
        let Some(rank) = self.view.rank(origin) else {
            return;
        };
        let Ok(place) = self.flow_index(rank as u32) else {
            return;
        };
        self.flows[place].consume(end);
        self.acknowledge_if_due(cx, place);
        if Some(rank as u32) == self.rank {
            self.inject(cx);
            self.note_admission(cx);
        }
    }
}
