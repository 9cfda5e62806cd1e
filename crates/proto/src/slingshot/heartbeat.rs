//! Heartbeats of silent senders.

use std::cmp::Reverse;

use super::counters;
use super::groups::Beat;
use super::interface::Timer;
use super::message::{Heartbeat, Message};
use super::{Cx, Slingshot};

impl Slingshot {
    /// This node has sent to a group; it may be its last packet for a while.
    pub(super) fn expect_silence(&mut self, cx: &mut Cx<'_>, group: usize) {
        let Some(after) = cx.shared.heartbeat_after else { return };
        let group = &mut self.groups[group];
        let is_queued = group.beat.is_queued;
        group.beat = Beat { due: cx.now + after, times: 0, is_queued: true };
        if !is_queued {
            self.beats.push(Reverse((group.beat.due, group.id)));
        }
    }

    /// Sends heartbeats to the groups to which this node has long sent nothing.
    pub(super) fn beat_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.beat.fired(cx.now) {
            return;
        }
        let Some(after) = cx.shared.heartbeat_after else { return };
        while let Some(Reverse((_, id))) =
            self.beats.peek().copied().filter(|beat| beat.0.0 <= cx.now)
        {
            self.beats.pop();
            let Some(place) = self.group_place(id) else { continue };
            let group = &mut self.groups[place];
            let beat = &mut group.beat;
            if beat.due <= cx.now {
                if group.is_joined {
                    let (incarnation, next) = (cx.incarnation, group.seq);
                    let heartbeat = Heartbeat { group: id, incarnation, next };
                    cx.count(counters::HEARTBEATS, 1);
                    cx.send_group(id, Message::Heartbeat(heartbeat));
                }
                beat.times += 1;
                if beat.times >= cx.shared.heartbeats_max || !group.is_joined {
                    beat.is_queued = false;
                    continue;
                }
                beat.due = cx.now + after * (1 << beat.times);
            }
            self.beats.push(Reverse((beat.due, id)));
        }
    }

    /// Sets the timer for the next heartbeat.
    pub(super) fn arm_beat(&mut self, cx: &mut Cx<'_>) {
        let Some(after) = cx.shared.heartbeat_after else { return };
        let Some(&Reverse((due, _))) = self.beats.peek() else { return };
        // The heartbeat of a later packet is due after this at the earliest.
        self.beat.set(cx, due.min(cx.now + after), Timer::Heartbeat);
    }
}
