//! The packets of one sender to one group, as one member knows them.

mod messages;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use super::Order;
use super::assembly::{Assembly, Progress};
use super::congestion::Receiver;
pub use super::held::{Held, Source, Way};
use super::interface::Event;
use super::ledger::Ledger;
use crate::core::{Context, Instant, NodeId, Payload, Protocol};

/// A sender whose first known packet number is below this counts as just started: its packets from
/// 0 on are missing. Earlier packets of any other sender do not concern this member.
const FIRST_SEQ_MAX: u64 = 16;

/// How long a claim of other members counts that a sender has sent more than it has announced. No
/// datagram of the sender that a repair overtook is under way for longer.
const CLAIM_LASTS: Duration = Duration::from_secs(5);

/// A packet that exists and is not there.
#[derive(Clone, Copy, Debug)]
pub struct Missing {
    /// When it should have come according to other members; else the first sign of it.
    pub since: Instant,
    /// When this member first knew of it.
    pub noted: Instant,
    /// The checksum that repairs name; `None` if none has named it.
    pub checksum: Option<u32>,
    /// The member that named it last: it has the packet.
    pub holder: Option<NodeId>,
    /// How often it was requested.
    pub asked: u8,
}

impl Missing {
    fn new(now: Instant) -> Missing {
        Missing { since: now, noted: now, checksum: None, holder: None, asked: 0 }
    }
}

/// What has become of one packet.
#[derive(Debug)]
pub enum Slot {
    /// It exists and is not there.
    Missing(Missing),
    /// It is kept.
    Held(Held),
    /// It was delivered, or is this member's own, and is no longer kept.
    Past,
    /// It was given up.
    Lost,
    /// Only repairs have named it, so long ago that it may never have been sent.
    Doubtful,
}

/// What a member knows of the packets of one sender to one group: a window of slots.
#[derive(Debug)]
pub struct Flow {
    /// Whose packets.
    pub source: Source,
    /// Another one for each flow that takes this one's place in the table.
    pub generation: u32,
    has_begun: bool,
    /// Packets before this one were reported before the flow began: their sender left and came
    /// back.
    floor: u64,
    /// The number of the first slot. All before are delivered or lost.
    base: u64,
    /// The number with which the flow began. A message that began before is of no concern.
    start: u64,
    slots: VecDeque<Slot>,
    /// Messages of several packets.
    assembly: Assembly,
    /// In FIFO order: all packets below this were reported to the application.
    reported: u64,
    /// The sender itself has announced all packets below this. Repairs do not name its incarnation,
    /// so a packet beyond this that only repairs have named is not reported lost.
    confirmed: u64,
    /// The number after the last packet that came from the sender, or that it has announced.
    heard: u64,
    /// When another member last gave or named a packet from there on.
    claimed: Instant,
    /// The numbers and checksums of the last packets that others gave from there on.
    given: VecDeque<(u64, u32)>,
    /// The end of the window before the flow last went back; 0 if it never did. This member has
    /// delivered what `given` names below it.
    was_at: u64,
    /// If the sender announces its rate.
    pub(super) receiver: Option<Box<Receiver>>,
}

impl Flow {
    /// The flow of a sender of which nothing has come yet.
    pub fn new(source: Source, generation: u32) -> Flow {
        Flow::from(source, generation, 0)
    }

    /// A flow of packets from `floor` on.
    pub(super) fn from(source: Source, generation: u32, floor: u64) -> Flow {
        Flow {
            source,
            generation,
            has_begun: false,
            floor,
            base: floor,
            start: floor,
            slots: VecDeque::new(),
            assembly: Assembly::default(),
            reported: floor,
            confirmed: 0,
            heard: floor,
            claimed: Instant::ZERO,
            given: VecDeque::new(),
            was_at: 0,
            receiver: None,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
            + self.given.capacity() * size_of::<(u64, u32)>()
            + self.assembly.heap_bytes()
            + self.receiver.as_ref().map_or(0, |receiver| size_of_val(&**receiver))
    }

    /// The number after the last packet that is known to exist.
    pub fn next(&self) -> u64 {
        self.base + self.slots.len() as u64
    }

    /// The number of the first packet that is still tracked.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// True once there was a sign of the sender ([`Flow::begin`]).
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// The first sign of the sender names this packet.
    pub fn begin(&mut self, seq: u64) {
        if !self.has_begun {
            self.has_begun = true;
            self.base = self.floor.max(if seq < FIRST_SEQ_MAX { 0 } else { seq });
            (self.start, self.reported) = (self.base, self.base);
        }
    }

    /// True if a packet of the sender, or a verified recovered one, has come.
    fn is_heard(&self) -> bool {
        self.confirmed > 0
    }

    /// True if only repairs have named packets of the sender, and later ones than this packet,
    /// which the sender itself announces.
    pub(super) fn begins_too_late(&self, seq: u64) -> bool {
        self.has_begun && !self.is_heard() && seq < self.base && self.floor < self.base
    }

    /// Another member gives or names this packet.
    pub(super) fn claim(&mut self, now: Instant, seq: u64) {
        if seq >= self.heard {
            self.claimed = now;
        }
    }

    /// Another member gave this packet, and this one delivers it. The flow remembers as many of
    /// these as its window has packets.
    pub(super) fn note_given(&mut self, seq: u64, checksum: u32, window: u64) {
        if seq >= self.heard {
            if self.given.len() as u64 >= window {
                self.given.pop_front();
            }
            self.given.push_back((seq, checksum));
        }
    }

    /// The sender itself announces that it has sent all packets below `end`.
    pub(super) fn hear(&mut self, end: u64) {
        self.heard = self.heard.max(end);
        if self.heard >= self.was_at {
            // The packet before the end may be in use by the caller.
            self.given.retain(|&(seq, _)| seq + 1 >= self.heard);
        }
    }

    /// True if this packet, just received from its sender for the first time, shows that the sender
    /// never sent later ones that others claimed: the claims are old, and because of them the
    /// window has no place for the packet. It is no further back than packets given by others are
    /// remembered.
    pub(super) fn was_led_on(&self, now: Instant, seq: u64, checksum: u32, window: u64) -> bool {
        let has_place = match self.slot(seq) {
            Some(Slot::Held(held)) => held.checksum == checksum,
            Some(Slot::Missing(_) | Slot::Doubtful) => true,
            Some(Slot::Past | Slot::Lost) => false,
            None => seq >= self.next(),
        };
        !has_place
            && seq >= self.heard
            && self.next() - seq <= window
            && now.since(self.claimed) >= CLAIM_LASTS
    }

    /// True if this member delivered the packet before the flow went back.
    pub(super) fn was_told_before(&self, seq: u64, checksum: u32) -> bool {
        seq < self.was_at && self.given.contains(&(seq, checksum))
    }

    /// Marks a missing packet, or the next one, as already delivered.
    pub(super) fn pass_by<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
    ) {
        self.put(ledger, seq, Slot::Past);
        self.tell_in_order(cx, ledger);
        self.trim(ledger);
    }

    /// Moves the flow back to this packet: others claimed later packets that were never sent.
    /// Missing packets before it are lost. Calls `each` as `lose_before` does.
    pub(super) fn go_back<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
        mut each: impl FnMut(u64, u32),
    ) {
        self.lose_before(cx, ledger, seq, &mut each);
        // Their packets may come again, and were not delivered.
        for open in self.assembly.iter().filter(|open| open.progress == Progress::Open) {
            self.given.retain(|(seq, _)| !(open.first..open.end()).contains(seq));
        }
        if ledger.order == Order::Fifo {
            self.given.retain(|&(seq, _)| seq < self.reported);
        }
        self.was_at = self.was_at.max(self.next());
        self.drop_missing(ledger, each);
        self.clear(ledger);
        self.generation += 1;
        (self.floor, self.base, self.reported, self.confirmed) = (seq, seq, seq, seq);
        self.start = seq;
    }

    /// Once it has ended: the number after the last packet that was reported, if any was. The
    /// packets of a message that is not whole by then are reported with it, sent or not.
    pub(super) fn end(&self) -> Option<u64> {
        let end = self.assembly.iter().last().map_or(0, |message| message.end());
        self.is_heard().then_some(self.confirmed.max(end))
    }

    /// The upper bound for named packets, so that confirmed ones stay in the window.
    pub(super) fn names_end(&self, window: u64) -> u64 {
        self.confirmed.max(self.base).saturating_add(window)
    }

    /// The sender has sent all packets below `end`. Returns the numbers that may have been
    /// doubtful.
    pub fn confirm(&mut self, end: u64) -> Range<u64> {
        let first = self.confirmed.max(self.base);
        self.confirmed = self.confirmed.max(end);
        first..end.min(self.next())
    }

    /// A packet that was doubtful is missing again, or lost if too many are.
    pub(super) fn miss_again<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
        missing_max: usize,
    ) {
        let is_confirmed = seq < self.confirmed;
        let Some(slot @ Slot::Doubtful) = self.slot_mut(seq) else { return };
        if ledger.missing < missing_max {
            ledger.missing += 1;
            *slot = Slot::Missing(Missing::new(cx.now));
        } else if is_confirmed {
            cx.count(ledger.counts.missing_overflow, 1);
            *slot = Slot::Lost;
            self.report_lost(cx, ledger, seq);
        }
    }

    /// Restarts a flow that only repairs had named, of which the application has no report. Calls
    /// `each` as `lose_before` does.
    pub(super) fn begin_anew(&mut self, ledger: &mut Ledger, each: impl FnMut(u64, u32)) {
        self.drop_missing(ledger, each);
        self.slots.clear();
        self.forget_messages(ledger);
        self.has_begun = false;
    }

    /// Stops waiting for missing packets, without a report.
    fn drop_missing(&mut self, ledger: &mut Ledger, mut each: impl FnMut(u64, u32)) {
        for (seq, slot) in (self.base..).zip(&mut self.slots) {
            if let Slot::Missing(missing) = slot {
                ledger.missing -= 1;
                if let Some(checksum) = missing.checksum {
                    each(seq, checksum);
                }
                *slot = Slot::Doubtful;
            }
        }
    }

    /// What has become of this packet; `None` if it is not tracked.
    pub fn slot(&self, seq: u64) -> Option<&Slot> {
        self.slots.get(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    fn slot_mut(&mut self, seq: u64) -> Option<&mut Slot> {
        self.slots.get_mut(usize::try_from(seq.checked_sub(self.base)?).ok()?)
    }

    /// The packet, if it is held and has this checksum.
    pub(super) fn packet(&self, seq: u64, checksum: u32) -> Option<&Payload> {
        match self.slot(seq)? {
            Slot::Held(held) if held.checksum == checksum => Some(&held.payload),
            _ => None,
        }
    }

    /// The packet, if it is missing.
    pub fn missing_mut(&mut self, seq: u64) -> Option<&mut Missing> {
        match self.slot_mut(seq)? {
            Slot::Missing(missing) => Some(missing),
            _ => None,
        }
    }

    /// The packet, if it is missing.
    pub fn missing(&self, seq: u64) -> Option<&Missing> {
        match self.slot(seq)? {
            Slot::Missing(missing) => Some(missing),
            _ => None,
        }
    }

    /// The full number of a name, which holds its lower half: the one nearest to the last packet.
    pub fn expand(&self, low: u32) -> u64 {
        if !self.has_begun && self.floor == 0 {
            return low.into();
        }
        let near = self.next();
        let ahead = i64::from(low.wrapping_sub(near as u32) as i32);
        near.checked_add_signed(ahead).unwrap_or(low.into())
    }

    /// All packets below `end` exist. Those that are new are missing from now on, or lost if too
    /// many are. Missing packets that leave the window are lost too.
    pub fn reach<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        end: u64,
        window: u64,
        missing_max: usize,
    ) {
        if end.saturating_sub(self.base) > window {
            self.advance(cx, ledger, end - window);
        }
        while self.next() < end {
            if ledger.missing < missing_max {
                ledger.missing += 1;
                self.slots.push_back(Slot::Missing(Missing::new(cx.now)));
            } else if self.next() >= self.confirmed {
                self.slots.push_back(Slot::Doubtful);
            } else {
                cx.count(ledger.counts.missing_overflow, 1);
                let seq = self.next();
                self.slots.push_back(Slot::Lost);
                self.report_lost(cx, ledger, seq);
            }
        }
    }

    /// Makes room in the window for a packet that is the next one.
    pub fn reach_to_hold<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
        window: u64,
    ) {
        if seq - self.base >= window {
            self.advance(cx, ledger, seq + 1 - window);
        }
    }

    /// Enters a packet that was missing, or is the next.
    pub fn fill<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
        held: Held,
    ) {
        ledger.held_packets += 1;
        ledger.held_bytes += held.payload.len();
        ledger.count(&held);
        let is_fragment = match held.fragment {
            Some(fragment) => self.assemble(cx, ledger, seq, fragment, &held),
            None => false,
        };
        if ledger.order == Order::Unordered && held.fragment.is_none() {
            ledger.deliver(cx, &self.source, seq, &held);
        }
        self.put(ledger, seq, Slot::Held(held));
        if is_fragment && ledger.order == Order::Unordered {
            self.deliver_if_whole(cx, ledger, seq);
        }
        self.tell_in_order(cx, ledger);
    }

    /// Fills the slot of a packet that is missing, or makes the next one.
    fn put(&mut self, ledger: &mut Ledger, seq: u64, slot: Slot) {
        if seq == self.next() {
            self.slots.push_back(slot);
        } else if let Some(place) = self.slot_mut(seq) {
            let before = std::mem::replace(place, slot);
            ledger.missing -= usize::from(matches!(before, Slot::Missing(_)));
        }
    }

    /// A packet has come from its sender. True if it was there already by another way: a repair of
    /// another member overtook it, or an answer. It counts as come from its sender from then on.
    pub(super) fn arrive_late(&mut self, seq: u64, checksum: u32) -> bool {
        match self.slot_mut(seq) {
            Some(Slot::Held(held)) if held.way != Way::Direct && held.checksum == checksum => {
                held.way = Way::Direct;
                true
            }
            _ => false,
        }
    }

    /// A packet that this member sent. The application knows it.
    pub fn keep_own(&mut self, ledger: &mut Ledger, held: Held, window: u64) {
        self.has_begun = true;
        if self.slots.len() as u64 >= window {
            self.pop_front(ledger);
        }
        ledger.held_packets += 1;
        ledger.held_bytes += held.payload.len();
        self.slots.push_back(Slot::Held(held));
        self.reported = self.next();
        self.confirmed = self.next();
    }

    /// Gives a missing packet up.
    pub fn abandon<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
    ) {
        let is_confirmed = seq < self.confirmed;
        let Some(slot @ Slot::Missing(_)) = self.slot_mut(seq) else { return };
        ledger.missing -= 1;
        if is_confirmed {
            *slot = Slot::Lost;
            return self.report_lost(cx, ledger, seq);
        }
        *slot = Slot::Doubtful;
        while let Some(Slot::Doubtful) = self.slots.back() {
            self.slots.pop_back();
        }
    }

    /// Gives up all missing packets below `end`. Calls `each` with the number and checksum of every
    /// such packet that repairs have named.
    pub fn lose_before<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        end: u64,
        mut each: impl FnMut(u64, u32),
    ) {
        for seq in self.base..end.min(self.next()) {
            if let Some(missing) = self.missing(seq) {
                if let Some(checksum) = missing.checksum {
                    each(seq, checksum);
                }
                self.abandon(cx, ledger, seq);
            }
        }
        self.close_where(cx, ledger, |first, _| first < end);
    }

    /// Drops a kept packet.
    pub fn evict<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
    ) {
        if !matches!(self.slot(seq), Some(Slot::Held(_))) {
            return;
        }
        let is_in_message = self.assembly.of(seq).is_some();
        if ledger.order == Order::Fifo && seq >= self.reported && !is_in_message {
            // In order it is not due yet, and never will be unless the packets before it are given
            // up.
            for before in self.reported..seq {
                self.abandon(cx, ledger, before);
            }
        }
        if let Some(slot) = self.slot_mut(seq)
            && let Slot::Held(held) = std::mem::replace(slot, Slot::Past)
        {
            ledger.held_packets -= 1;
            ledger.held_bytes -= held.payload.len();
        }
        self.trim(ledger);
    }

    /// Forgets all packets before `to`; missing ones among them are lost.
    fn advance<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        to: u64,
    ) {
        for seq in self.base..to.min(self.next()) {
            self.abandon(cx, ledger, seq);
        }
        let next = self.next();
        if to > next {
            self.close_where(cx, ledger, |first, end| first < to && end > next);
        }
        while self.base < to && !self.slots.is_empty() {
            self.pop_front(ledger);
        }
        if self.base < to {
            // These packets never had a slot.
            self.note_lost_outside_messages(cx, ledger, self.base, to);
            self.base = to;
        }
        // An open message is reported before what follows, and keeps its packets itself.
        let awaited = self.assembly.of(self.reported);
        if awaited.is_none_or(|message| message.progress != Progress::Open) {
            self.reported = self.reported.max(self.base);
        }
        self.assembly.trim(self.base);
    }

    fn report_lost<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
        seq: u64,
    ) {
        match self.assembly.of(seq).map(|message| (message.first, message.end())) {
            Some((first, end)) => {
                ledger.tally.missed = ledger.tally.missed.saturating_add(1);
                self.close(cx, ledger, first, end);
            }
            None if ledger.order == Order::Unordered => {
                ledger.note_lost(cx, &self.source, seq, seq + 1);
            }
            None => self.tell_in_order(cx, ledger),
        }
        self.trim(ledger);
    }

    /// In FIFO order, reports the next packets and messages, up to the first that is not there.
    fn tell_in_order<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        ledger: &mut Ledger,
    ) {
        if ledger.order == Order::Unordered {
            return;
        }
        loop {
            if let Some(message) = self.assembly.of(self.reported) {
                let (first, end) = (message.first, message.end());
                match message.progress {
                    Progress::Open if message.is_whole() => self.deliver_message(cx, ledger, first),
                    Progress::Open => return,
                    Progress::Lost { came, .. } => {
                        ledger.lose_message(cx, &self.source, first..end, came);
                    }
                    Progress::Ignored => {}
                }
                self.reported = end;
                continue;
            }
            let Some(slot) = self.slot(self.reported) else { return };
            match slot {
                Slot::Missing(_) | Slot::Doubtful => return,
                Slot::Held(held) => ledger.deliver(cx, &self.source, self.reported, held),
                Slot::Lost => ledger.note_lost(cx, &self.source, self.reported, self.reported + 1),
                Slot::Past => {}
            }
            self.reported += 1;
        }
    }

    /// Drops delivered and lost slots at the front.
    fn trim(&mut self, ledger: &mut Ledger) {
        while let Some(Slot::Past | Slot::Lost) = self.slots.front() {
            if ledger.order == Order::Fifo && self.base >= self.reported {
                break;
            }
            self.pop_front(ledger);
        }
        self.assembly.trim(self.base);
    }

    fn pop_front(&mut self, ledger: &mut Ledger) {
        if let Some(slot) = self.slots.pop_front() {
            self.base += 1;
            if let Slot::Held(held) = slot {
                ledger.held_packets -= 1;
                ledger.held_bytes -= held.payload.len();
            }
        }
    }

    /// Drops all kept packets; missing ones were given up before.
    pub fn clear(&mut self, ledger: &mut Ledger) {
        while !self.slots.is_empty() {
            self.pop_front(ledger);
        }
        self.forget_messages(ledger);
    }
}
