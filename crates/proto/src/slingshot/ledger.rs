//! Events for the application, and how many of them it has not consumed yet.

use std::ops::Range;
use std::time::Duration;

use super::assembly::{Assembled, PART_OVERHEAD_BYTES};
use super::counters::LedgerCounts;
use super::held::{Held, Source, Way};
use super::interface::{Event, How};
use super::steering::Tally;
use super::{Config, Order};
use crate::core::{Context, Protocol};

/// Reports packets to the application, and keeps the counts that all flows of a member share.
///
/// It serves every protocol with the events of this one, so that they are compared by the same
/// book.
#[derive(Debug)]
pub struct Ledger {
    pub(super) counts: &'static LedgerCounts,
    pub(super) order: Order,
    deadline: Duration,
    unread_max: usize,
    unread: usize,
    overrun: u64,
    // Reported before the next event, so that adjacent losses are merged.
    losing: Option<(Source, u64, u64)>,
    /// Counts of packets since this was last taken.
    pub(super) tally: Tally,
    /// In time is what comes within this time.
    within: Duration,
    /// Packets that are missing.
    pub(super) missing: usize,
    /// Packets that are kept, and their bytes.
    pub(super) held_packets: usize,
    pub(super) held_bytes: usize,
    /// Messages of several packets.
    pub(super) messages: MessageTally,
    /// Bytes of incomplete messages, at most.
    messages_bytes_max: usize,
}

/// What a member counts of messages of several packets, since the counts were last taken.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageTally {
    /// Delivered.
    pub(super) delivered: u64,
    /// Given up.
    pub(super) lost: u64,
    /// Of these, for lack of room.
    pub(super) overflowed: u64,
    /// Packets of messages that will not be delivered.
    pub(super) unneeded: u64,
    /// Bytes of incomplete messages at present.
    pub(super) held_bytes: usize,
}

impl Ledger {
    /// The ledger of a member with this configuration and these counters.
    pub fn new(config: &Config, counts: &'static LedgerCounts) -> Ledger {
        Ledger {
            counts,
            order: config.order,
            deadline: config.deadline,
            unread_max: config.unread_max.unwrap_or(usize::MAX),
            unread: 0,
            overrun: 0,
            losing: None,
            tally: Tally::default(),
            within: config.target.map_or(config.deadline, |target| target.within),
            missing: 0,
            held_packets: 0,
            held_bytes: 0,
            messages: MessageTally::default(),
            messages_bytes_max: config.bytes_max,
        }
    }

    /// Packets that are missing, of all flows.
    pub fn packets_missing(&self) -> usize {
        self.missing
    }

    /// Packets that are kept, of all flows, and their bytes.
    pub fn packets_held(&self) -> (usize, usize) {
        (self.held_packets, self.held_bytes)
    }

    /// Notes when and how a packet came.
    pub(super) fn count(&mut self, held: &Held) {
        self.tally.latest = held.arrived;
        match held.way {
            Way::Direct => {
                self.tally.direct += 1;
                self.tally.direct_bytes += held.payload.len() as u64;
            }
            Way::Recovered | Way::Pulled => {
                self.tally.missed = self.tally.missed.saturating_add(1);
                let is_in_time = held.arrived.since(held.since) <= self.within;
                self.tally.in_time += u64::from(is_in_time);
            }
        }
    }

    /// Notes that a packet came from its sender after it had come another way.
    pub(super) fn count_overtaken(&mut self, bytes: usize) {
        self.tally.overtaken += 1;
        self.tally.direct_bytes += bytes as u64;
    }

    /// Delivers a packet to the application.
    pub(super) fn deliver<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        source: &Source,
        seq: u64,
        held: &Held,
    ) {
        self.flush(cx);
        if !self.takes(cx, 1) {
            return;
        }
        let after = held.arrived.since(held.since);
        let how = How::new(held.way, after);
        let is_late = after > self.deadline;
        self.count_part(cx, held.way);
        if is_late {
            cx.count(self.counts.late, 1);
        }
        cx.deliver(Event::Delivered {
            group: source.group,
            sender: source.sender,
            incarnation: source.incarnation.unwrap_or(0),
            seq,
            packets: 1,
            payload: held.payload.clone(),
            how,
            is_late,
        });
    }

    /// Counts a packet that is delivered, or that has become a part of a message.
    pub(super) fn count_part<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        way: Way,
    ) {
        let counter = match way {
            Way::Direct => self.counts.direct,
            Way::Recovered => self.counts.recovered,
            Way::Pulled => self.counts.pulled,
        };
        cx.count(counter, 1);
    }

    /// True if there is room for a packet of an incomplete message, where the messages of its
    /// sender have `of_sender` bytes: half of all room is one sender's at most.
    pub(super) fn has_room_for_part(&self, of_sender: usize, held: &Held) -> bool {
        let bytes = held.payload.len() + PART_OVERHEAD_BYTES;
        self.messages.held_bytes + bytes <= self.messages_bytes_max
            && of_sender + bytes <= self.messages_bytes_max / 2
    }

    /// Delivers a message of several packets to the application.
    pub(super) fn deliver_message<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        source: &Source,
        message: Assembled,
    ) {
        self.flush(cx);
        let Assembled { first, packets, payload, since, way } = message;
        if !self.takes(cx, packets.into()) {
            return;
        }
        // It counts as one event of each of its packets.
        self.unread = self.unread.saturating_add(packets as usize - 1);
        let after = cx.now.since(since);
        let is_late = after > self.deadline;
        self.messages.delivered += 1;
        if is_late {
            cx.count(self.counts.late, packets.into());
        }
        cx.deliver(Event::Delivered {
            group: source.group,
            sender: source.sender,
            incarnation: source.incarnation.unwrap_or(0),
            seq: first,
            packets,
            payload,
            how: How::new(way, after),
            is_late,
        });
    }

    /// Reports a message of several packets lost, of which `came` came.
    pub(super) fn lose_message<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        source: &Source,
        seqs: Range<u64>,
        came: u32,
    ) {
        self.flush(cx);
        self.report_lost(cx, source, seqs, came);
    }

    /// Notes packets that are given up. [`Ledger::flush`] reports them at the latest.
    pub(super) fn note_lost<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        source: &Source,
        first: u64,
        end: u64,
    ) {
        if first >= end {
            return;
        }
        // A member may claim any number of packets, and again after each start.
        self.tally.missed = self.tally.missed.saturating_add(end - first);
        match &mut self.losing {
            Some((same, _, last)) if same == source && *last == first => *last = end,
            _ => {
                self.flush(cx);
                self.losing = Some((*source, first, end));
            }
        }
    }

    /// Reports noted losses to the application.
    pub fn flush<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>) {
        let Some((source, first, end)) = self.losing.take() else { return };
        self.report_lost(cx, &source, first..end, 0);
    }

    fn report_lost<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        source: &Source,
        seqs: Range<u64>,
        came: u32,
    ) {
        let Range { start: first, end } = seqs;
        cx.count(self.counts.lost, end - first);
        if self.takes(cx, end - first) {
            cx.deliver(Event::Lost {
                group: source.group,
                sender: source.sender,
                incarnation: source.incarnation.unwrap_or(0),
                first,
                end,
                came,
            });
        }
    }

    /// The application has consumed `events` events.
    pub fn consumed<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>, events: usize) {
        self.unread = self.unread.saturating_sub(events);
        if self.overrun > 0 && self.unread < self.unread_max {
            self.unread += 1;
            cx.deliver(Event::Overrun { packets: std::mem::take(&mut self.overrun) });
        }
    }

    /// True if the application has room for one more event; else its packets count as overrun.
    fn takes<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>, packets: u64) -> bool {
        // An overrun is reported before any later event, so that its position is known.
        let has_room = self.unread < self.unread_max && self.overrun == 0;
        if has_room {
            self.unread = self.unread.saturating_add(1);
        } else {
            self.overrun = self.overrun.saturating_add(packets);
            cx.count(self.counts.overrun, packets);
        }
        has_room
    }
}
