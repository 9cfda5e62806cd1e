//! What the application is told, and how much of it is outstanding.

use std::time::Duration;

use super::flow::{Held, Source, Way};
use super::interface::{Event, How};
use super::slingshot::Cx;
use super::{Config, Order};

/// Tells the application of packets, and keeps the counts of a member that all its flows share.
#[derive(Debug)]
pub(super) struct Ledger {
    pub(super) order: Order,
    deadline: Duration,
    unread_max: usize,
    unread: usize,
    overrun: u64,
    // Told with the next event, in case its neighbours are lost too.
    losing: Option<(Source, u64, u64)>,
    /// Packets that are missing.
    pub(super) missing: usize,
    /// Packets that are kept, and their bytes.
    pub(super) held_packets: usize,
    pub(super) held_bytes: usize,
}

impl Ledger {
    pub(super) fn new(config: &Config) -> Ledger {
        Ledger {
            order: config.order,
            deadline: config.deadline,
            unread_max: config.unread_max.unwrap_or(usize::MAX),
            unread: 0,
            overrun: 0,
            losing: None,
            missing: 0,
            held_packets: 0,
            held_bytes: 0,
        }
    }

    /// Tells of a packet that is there.
    pub(super) fn deliver(&mut self, cx: &mut Cx<'_>, source: &Source, seq: u64, held: &Held) {
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
            Way::Direct => "slingshot_direct",
            Way::Recovered => "slingshot_recovered",
            Way::Pulled => "slingshot_pulled",
        };
        cx.count(counter, 1);
        if is_late {
            cx.count("slingshot_late", 1);
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

    /// Notes packets that are given up, to be told of at the latest by [`Ledger::flush`].
    pub(super) fn lose(&mut self, cx: &mut Cx<'_>, source: &Source, first: u64, end: u64) {
        if first >= end {
            return;
        }
        match &mut self.losing {
            Some((same, _, last)) if same == source && *last == first => *last = end,
            _ => {
                self.flush(cx);
                self.losing = Some((*source, first, end));
            }
        }
    }

    /// Tells of what was lost.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some((source, first, end)) = self.losing.take() else { return };
        cx.count("slingshot_lost", end - first);
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

    /// The application is done with so many events.
    pub(super) fn consumed(&mut self, cx: &mut Cx<'_>, told: usize) {
        self.unread = self.unread.saturating_sub(told);
        if self.overrun > 0 && self.unread < self.unread_max {
            self.unread += 1;
            cx.deliver(Event::Overrun { packets: std::mem::take(&mut self.overrun) });
        }
    }

    /// True if the application can be told of one more thing; else its packets count as overrun.
    fn takes(&mut self, cx: &mut Cx<'_>, packets: u64) -> bool {
        // What was dropped is told before anything else is, so that it is known what it precedes.
        let has_room = self.unread < self.unread_max && self.overrun == 0;
        if has_room {
            self.unread = self.unread.saturating_add(1);
        } else {
            self.overrun += packets;
            cx.count("slingshot_overrun", packets);
        }
        has_room
    }
}
