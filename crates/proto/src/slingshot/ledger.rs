//! Events for the application, and how many of them it has not consumed yet.

use std::time::Duration;

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
        let how = match held.way {
            Way::Direct => How::Direct,
            Way::Recovered => How::Recovered { after },
            Way::Pulled => How::Pulled { after },
        };
        let is_late = after > self.deadline;
        let counter = match held.way {
            Way::Direct => self.counts.direct,
            Way::Recovered => self.counts.recovered,
            Way::Pulled => self.counts.pulled,
        };
        cx.count(counter, 1);
        if is_late {
            cx.count(self.counts.late, 1);
        }
        cx.deliver(Event::Delivered {
            group: source.group,
            sender: source.sender,
            incarnation: source.incarnation.unwrap_or(0),
            seq,
            payload: held.payload.clone(),
            how,
            is_late,
        });
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
        cx.count(self.counts.lost, end - first);
        if self.takes(cx, end - first) {
            cx.deliver(Event::Lost {
                group: source.group,
                sender: source.sender,
                incarnation: source.incarnation.unwrap_or(0),
                first,
                end,
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
