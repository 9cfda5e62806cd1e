//! Messages of several packets: put together, delivered, given up.

use std::ops::Range;

use super::{Flow, Slot};
use crate::core::{Context, Protocol};
use crate::slingshot::Order;
use crate::slingshot::assembly::Progress;
use crate::slingshot::fragment::Fragment;
use crate::slingshot::held::Held;
use crate::slingshot::interface::Event;
use crate::slingshot::ledger::Ledger;

impl Flow {
    /// True if this fragment contradicts no packet that is known. Its number was not filled before.
    pub(in crate::slingshot) fn takes(&self, seq: u64, fragment: Fragment) -> bool {
        if !self.assembly.agrees(seq, fragment) {
            return false;
        }
        // A packet of the message that had come would have made the message known.
        let is_other = |seq| matches!(self.slot(seq), Some(Slot::Held(_) | Slot::Past));
        self.assembly.of(seq).is_some() || !self.tracked(seq, fragment).any(is_other)
    }

    /// Of the message that this packet is of, its first number, if it is open.
    pub(in crate::slingshot) fn open_message(&self, seq: u64) -> Option<u64> {
        let message = self.assembly.of(seq)?;
        (message.progress == Progress::Open).then_some(message.first)
    }

    /// True if this packet is of a message that will not be delivered.
    pub(in crate::slingshot) fn is_moot(&self, seq: u64) -> bool {
        self.assembly.of(seq).is_some_and(|message| message.progress != Progress::Open)
    }

    /// Gives up the message with this first packet, if it is open.
    pub(in crate::slingshot) fn abandon_message<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        first: u64,
    ) {
        self.close_where(cx, ledger, |known, _| known == first);
        self.trim(ledger);
    }

    /// This member, the sender, sends no packet below `end` any more.
    pub(in crate::slingshot) fn skip_own(&mut self, end: u64) {
        self.confirmed = self.confirmed.max(end);
    }

    /// Adds a packet that has just come to its message. False if that will not be delivered.
    pub(super) fn assemble<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
        fragment: Fragment,
        held: &Held,
    ) -> bool {
        if self.assembly.of(seq).is_none() {
            self.begin_message(cx, ledger, seq, fragment, held);
        }
        let Some(first) = self.open_message(seq) else {
            ledger.messages.unneeded += 1;
            return false;
        };
        let before = self.assembly.held_bytes();
        if !ledger.has_room_for_part(before, held) {
            ledger.messages.overflowed += 1;
            self.close(cx, ledger, first, fragment.end(seq));
            return false;
        }
        self.assembly.add(seq, held);
        ledger.messages.held_bytes += self.assembly.held_bytes() - before;
        ledger.count_part(cx, held.way);
        true
    }

    /// The first packet of a message has come, whichever it is.
    fn begin_message<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
        fragment: Fragment,
        held: &Held,
    ) {
        let first = fragment.first_seq(seq);
        let is_told = match ledger.order {
            Order::Unordered => first < self.base || matches!(self.slot(first), Some(Slot::Lost)),
            Order::Fifo => first < self.reported,
        };
        let progress =
            if first < self.start || is_told { Progress::Ignored } else { Progress::Open };
        self.assembly.begin(first, fragment, held.noted, progress);
        let is_lost = |&seq: &u64| matches!(self.slot(seq), Some(Slot::Lost));
        if let Some(lost) = self.tracked(seq, fragment).find(is_lost) {
            // Where order is not promised, that packet was reported lost already.
            let end = if ledger.order == Order::Unordered { lost } else { fragment.end(seq) };
            self.close(cx, ledger, first, end);
        }
    }

    /// The numbers of the message of this fragment that have slots.
    fn tracked(&self, seq: u64, fragment: Fragment) -> Range<u64> {
        fragment.first_seq(seq).max(self.base)..fragment.end(seq).min(self.next())
    }

    /// Delivers the message that this packet completes, if it does.
    pub(super) fn deliver_if_whole<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
    ) {
        if let Some(message) = self.assembly.of(seq).filter(|message| message.is_whole()) {
            let first = message.first;
            self.deliver_message(cx, ledger, first);
        }
    }

    pub(super) fn deliver_message<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        first: u64,
    ) {
        let before = self.assembly.held_bytes();
        if let Some(message) = self.assembly.take(first) {
            ledger.messages.held_bytes -= before - self.assembly.held_bytes();
            ledger.deliver_message(cx, &self.source, message);
        }
    }

    /// Gives up the message with this first packet, if it is open, and reports it: the packets
    /// before `end`.
    pub(super) fn close<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        first: u64,
        end: u64,
    ) {
        if self.open_message(first).is_none() {
            return;
        }
        let before = self.assembly.held_bytes();
        let came = self.assembly.close(first, end);
        ledger.messages.held_bytes -= before - self.assembly.held_bytes();
        ledger.messages.lost += 1;
        match ledger.order {
            Order::Unordered => ledger.lose_message(cx, &self.source, first..end, came),
            Order::Fifo => self.tell_in_order(cx, ledger),
        }
    }

    /// Gives up the open messages that `is_lost` picks by their first number and their end.
    pub(super) fn close_where<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        is_lost: impl Fn(u64, u64) -> bool,
    ) {
        let mut from = 0;
        loop {
            let mut messages = self.assembly.iter().map(|message| (message.first, message.end()));
            let found = messages.find(|&(first, end)| first >= from && is_lost(first, end));
            drop(messages);
            let Some((first, end)) = found else { return };
            // In order, a message that is whole and was only awaiting its turn is delivered once
            // those before it are given up.
            let is_whole = self.assembly.of(first).is_some_and(|message| message.is_whole());
            if !is_whole {
                self.close(cx, ledger, first, end);
            }
            from = end;
        }
    }

    /// Notes packets that never had a slot as lost, but for those of messages.
    pub(super) fn note_lost_outside_messages<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        first: u64,
        end: u64,
    ) {
        let mut from = first;
        while from < end {
            let to = match self.assembly.of(from) {
                Some(message) => message.end(),
                None => {
                    let next = self.assembly.next_after(from).map_or(end, |next| next.min(end));
                    ledger.note_lost(cx, &self.source, from, next);
                    next
                }
            };
            from = to;
        }
    }

    /// Drops the packets of all messages, without a report.
    pub(super) fn forget_messages(&mut self, ledger: &mut Ledger) {
        ledger.messages.held_bytes -= self.assembly.held_bytes();
        self.assembly.clear();
    }
}
