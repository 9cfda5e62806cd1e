//! Receiving packets and repairs.

use std::time::Duration;

use super::RepairBy;
use super::counters;
use super::flow::{Held, Slot, Way};
use super::fragment::Fragment;
use super::interface::Timer;
use super::message::{Data, Framing, Heartbeat, Name, Repair, Supply};
use super::{Closing, Cx, Kept, PacketId, Slingshot, is_within};
use crate::core::{CounterId, GroupId, NodeId, Payload, View};
use crate::parts::fec::Added;

/// Maximum number of packets that are evicted at a time.
const EVICTED_AT_ONCE: usize = 64;

/// Maximum number of recovered packets that wait for a first packet of their senders.
const UNVERIFIED_MAX: usize = 64;

/// The packet that a name stands for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) group: usize,
    pub(super) member: usize,
    pub(super) seq: u64,
    is_held: bool,
}

impl Slingshot {
    pub(super) fn receive_data(&mut self, cx: &mut Cx<'_>, from: NodeId, data: Data) {
        let Data { group, incarnation, seq, framing, checksum, payload } = data;
        let Some((group, member)) = self.find_member(cx, group, from) else { return };
        let Some(at) = self.flow_of(cx, group, member, Some(incarnation)) else { return };
        if let Some(receiver) = &mut self.flows[at as usize].receiver {
            receiver.on_packet(cx.now, seq, Data::HEAD_BYTES + payload.len());
        }
        self.hear(cx, at, seq, checksum);
        let was_overtaken = self.flows[at as usize].arrive_late(seq, checksum);
        if was_overtaken {
            cx.count(counters::OVERTAKEN, 1);
            self.ledger.count_overtaken(payload.len());
        } else if !self.accept(cx, at, (seq, framing), &payload, checksum, Way::Direct) {
            return self.accept_recovered(cx);
        }
        let rank = self.view.rank(from).expect("a member of a group is in the view") as u16;
        let name = Name { group: self.groups[group].id, rank, seq: seq as u32, checksum };
        if cx.shared.repair_by == RepairBy::Receivers {
            self.protect(cx, group, from, name, &payload);
        }
        if !was_overtaken {
            let id = PacketId { flow: at, checksum, seq };
            self.decoder.add_packet(id, &payload, &mut self.recovered);
        }
        self.accept_recovered(cx);
    }

    pub(super) fn receive_heartbeat(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        heartbeat: Heartbeat,
    ) {
        let Heartbeat { group, incarnation, next } = heartbeat;
        let Some((group, member)) = self.find_member(cx, group, from) else { return };
        let Some(at) = self.flow_of(cx, group, member, Some(incarnation)) else { return };
        self.flows[at as usize].hear(next);
        self.begin(cx, at, next);
        self.confirm(cx, at, next);
        self.reach(cx, at, next);
        self.accept_recovered(cx);
    }

    pub(super) fn receive_supply(&mut self, cx: &mut Cx<'_>, supply: Supply) {
        let Data { group, incarnation, seq, framing, checksum, payload } = supply.data;
        let view = self.view_named(supply.view);
        let sender = view.and_then(|view| Some(view.members().get(usize::from(supply.rank))?.node));
        let Some(sender) = sender else {
            return cx.count(counters::FOREIGN_VIEW, 1);
        };
        let Some((group, member)) = self.find_member(cx, group, sender) else { return };
        let Some(at) = self.flow_of(cx, group, member, None) else { return };
        let flow = &self.flows[at as usize];
        // Only the sender itself can announce a new incarnation.
        if flow.source.incarnation.is_some_and(|known| known != incarnation) {
            return cx.count(counters::OTHER_INCARNATION, 1);
        }
        if flow.missing(seq).is_none() {
            return cx.count(counters::SUPPLY_UNNEEDED, 1);
        }
        // If this is the first packet heard of the sender, recovered packets can be verified now.
        let Some(at) = self.flow_of(cx, group, member, Some(incarnation)) else { return };
        if self.accept(cx, at, (seq, framing), &payload, checksum, Way::Pulled) {
            let id = PacketId { flow: at, checksum, seq };
            self.decoder.add_packet(id, &payload, &mut self.recovered);
        }
        self.accept_recovered(cx);
    }

    pub(super) fn receive_repair(&mut self, cx: &mut Cx<'_>, from: NodeId, repair: &Repair) {
        cx.count(counters::REPAIRS_RECEIVED, 1);
        let Some(view) = self.view_named(repair.view) else {
            return cx.count(counters::FOREIGN_VIEW, 1);
        };
        if !is_within(cx.shared, &repair.names) {
            return cx.count(counters::TOO_MANY_NAMES, 1);
        }
        // First whether all of it is sound, so that a repair that is not leaves no trace.
        let mut is_needed = false;
        for name in repair.names.iter() {
            match self.find_named(cx, &view, name) {
                Ok(found) => is_needed |= !found.is_held,
                Err(counter) => return cx.count(counter, 1),
            }
        }
        if !is_needed {
            return cx.count(counters::REPAIR_UNNEEDED, 1);
        }
        let mut named = std::mem::take(&mut self.named);
        named.clear();
        let count = repair.names.len();
        for (place, name) in repair.names.iter().enumerate() {
            match self.note_named(cx, from, &view, name, repair.ages.at(place, count)) {
                Some(id) => named.push(id),
                None => return self.named = named,
            }
        }
        let flows = &self.flows;
        let known = |id: PacketId| flows[id.flow as usize].packet(id.seq, id.checksum);
        let recovered = &mut self.recovered;
        let added = self.decoder.add_repair(&named, repair.seed, &repair.coded(), known, recovered);
        self.named = named;
        match added {
            Added::NothingMissing | Added::Redundant => cx.count(counters::REPAIR_REDUNDANT, 1),
            Added::TooManyMissing => cx.count(counters::REPAIR_HOPELESS, 1),
            Added::Used if self.recovered.is_empty() => cx.count(counters::REPAIR_PARKED, 1),
            Added::Used => {}
        }
        self.accept_recovered(cx);
    }

    /// The group and the member, if this node is in the group and the other one too; else counted.
    pub(super) fn find_member(
        &self,
        cx: &mut Cx<'_>,
        group: GroupId,
        node: NodeId,
    ) -> Option<(usize, usize)> {
        let Some(place) = self.group_place(group).filter(|&place| self.groups[place].is_joined)
        else {
            cx.count(counters::FOREIGN_GROUP, 1);
            return None;
        };
        let member = self.groups[place].place(node);
        if member.is_none() {
            cx.count(counters::FOREIGN_SENDER, 1);
        }
        Some((place, member?))
    }

    /// The packet that a name in a repair or request stands for. `Err` gives the counter of the
    /// fault.
    pub(super) fn find_named(
        &self,
        cx: &Cx<'_>,
        view: &View,
        name: Name,
    ) -> Result<Found, CounterId> {
        let joined = |&place: &usize| self.groups[place].is_joined;
        let group = self.group_place(name.group).filter(joined).ok_or(counters::FOREIGN_GROUP)?;
        let sender = view.members().get(usize::from(name.rank)).ok_or(counters::UNKNOWN_NAME)?;
        let member = self.groups[group].place(sender.node).ok_or(counters::UNKNOWN_NAME)?;
        let at = self.groups[group].flows[member];
        let is_own = sender.node == cx.node;
        let Some(flow) = self.flows.get(at as usize) else {
            // The member was not heard yet. A node knows which packets it sent itself.
            let found = Found { group, member, seq: name.seq.into(), is_held: false };
            return if is_own { Err(counters::NAME_NOT_SENT) } else { Ok(found) };
        };
        let seq = flow.expand(name.seq);
        let mut found = Found { group, member, seq, is_held: false };
        match flow.slot(seq) {
            Some(Slot::Held(held)) if name.checksum != 0 && held.checksum != name.checksum => {
                Err(counters::NAME_MISMATCH)
            }
            Some(Slot::Held(_)) => {
                found.is_held = true;
                Ok(found)
            }
            Some(Slot::Missing(_) | Slot::Doubtful) => Ok(found),
            Some(Slot::Past | Slot::Lost) => Err(counters::NAME_TOO_OLD),
            None if is_own => Err(counters::NAME_NOT_SENT),
            None if !flow.has_begun() => Ok(found),
            None if seq < flow.base() => Err(counters::NAME_TOO_OLD),
            None if seq >= flow.names_end(cx.shared.window_packets as u64) => {
                Err(counters::NAME_TOO_FAR)
            }
            None => Ok(found),
        }
    }

    /// A member has held this packet for `age`: it exists and, if this node lacks it, has been
    /// missing since.
    fn note_named(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: &View,
        name: Name,
        age: Duration,
    ) -> Option<PacketId> {
        // An earlier name of the same repair may have moved the window on.
        let Found { group, member, seq, .. } = self.find_named(cx, view, name).ok()?;
        let at = self.flow_of(cx, group, member, None)?;
        let flow = &mut self.flows[at as usize];
        flow.claim(cx.now, seq);
        flow.begin(seq);
        if seq >= flow.next() {
            self.reach(cx, at, seq + 1);
        } else {
            self.miss_again(cx, at, seq);
        }
        if let Some(missing) = self.flows[at as usize].missing_mut(seq) {
            missing.checksum = Some(name.checksum);
            missing.holder = Some(from);
            missing.since = missing.since.min(cx.now - age);
        }
        Some(PacketId { flow: at, checksum: name.checksum, seq })
    }

    /// This packet has come from its sender. If others have named later packets that were never
    /// sent, the flow continues from here.
    fn hear(&mut self, cx: &mut Cx<'_>, at: u32, seq: u64, checksum: u32) {
        let window = cx.shared.window_packets as u64;
        let flow = &mut self.flows[at as usize];
        if flow.was_led_on(cx.now, seq, checksum, window) {
            cx.count(counters::GONE_BACK, 1);
            let decoder = &mut self.decoder;
            flow.go_back(cx, &mut self.ledger, seq, |seq, checksum| {
                decoder.forget(PacketId { flow: at, checksum, seq });
            });
        }
        flow.hear(seq + 1);
    }

    /// The sender itself announces this packet. If it precedes all packets that repairs have named,
    /// these were of another incarnation, or repairs overtook it.
    fn begin(&mut self, cx: &mut Cx<'_>, at: u32, seq: u64) {
        let flow = &mut self.flows[at as usize];
        if flow.begins_too_late(seq) {
            cx.count(counters::BEGUN_ANEW, 1);
            let decoder = &mut self.decoder;
            flow.begin_anew(&mut self.ledger, |seq, checksum| {
                decoder.forget(PacketId { flow: at, checksum, seq });
            });
        }
        flow.begin(seq);
    }

    /// The sender itself announces all packets of a flow below `end`.
    fn confirm(&mut self, cx: &mut Cx<'_>, at: u32, end: u64) {
        for seq in self.flows[at as usize].confirm(end) {
            self.miss_again(cx, at, seq);
        }
    }

    /// There is a new sign of a packet that was doubtful.
    fn miss_again(&mut self, cx: &mut Cx<'_>, at: u32, seq: u64) {
        let flow = &mut self.flows[at as usize];
        if let Some(Slot::Doubtful) = flow.slot(seq) {
            flow.miss_again(cx, &mut self.ledger, seq, cx.shared.missing_max);
            let generation = flow.generation;
            self.watch_gap(cx, at, generation, seq);
        }
    }

    /// All packets of a flow below `end` exist: those not held are missing.
    fn reach(&mut self, cx: &mut Cx<'_>, at: u32, end: u64) {
        let window = cx.shared.window_packets as u64;
        let flow = &mut self.flows[at as usize];
        let first = flow.next().max(end.saturating_sub(window));
        flow.reach(cx, &mut self.ledger, end, window, cx.shared.missing_max);
        let generation = flow.generation;
        for seq in first..end {
            self.watch_gap(cx, at, generation, seq);
        }
    }

    /// Takes a packet. False, and counted, if it is no longer needed.
    fn accept(
        &mut self,
        cx: &mut Cx<'_>,
        at: u32,
        (seq, framing): (u64, Framing),
        payload: &Payload,
        checksum: u32,
        way: Way,
    ) -> bool {
        self.begin(cx, at, seq);
        self.confirm(cx, at, seq);
        self.reach(cx, at, seq);
        self.flows[at as usize].confirm(seq + 1);
        let window = cx.shared.window_packets as u64;
        let flow = &mut self.flows[at as usize];
        if way != Way::Direct {
            flow.claim(cx.now, seq);
        }
        if seq == flow.next() {
            // Makes room for it.
            flow.reach_to_hold(cx, &mut self.ledger, seq, window);
        }
        let (mut since, mut noted) = (cx.now, cx.now);
        match flow.slot(seq) {
            Some(Slot::Held(_) | Slot::Past) => {
                cx.count(counters::DUPLICATE, 1);
                return false;
            }
            Some(Slot::Lost) => {
                cx.count(counters::AFTER_LOST, 1);
                return false;
            }
            None if seq < flow.base() => {
                cx.count(counters::TOO_OLD, 1);
                return false;
            }
            Some(Slot::Missing(missing)) => {
                (since, noted) = (missing.since, missing.noted);
                let named = missing.checksum;
                if let Some(named) = named.filter(|&named| named != checksum) {
                    cx.count(counters::NAME_MISMATCH, 1);
                    self.decoder.forget(PacketId { flow: at, checksum: named, seq });
                }
            }
            Some(Slot::Doubtful) | None => {}
        }
        if flow.was_told_before(seq, checksum) {
            flow.pass_by(cx, &mut self.ledger, seq);
            cx.count(counters::DUPLICATE, 1);
            return false;
        }
        let fragment = match framing {
            Framing::Whole => None,
            Framing::Fragment => {
                let fragment = Fragment::read(seq, payload);
                let is_short =
                    |fragment: &Fragment| fragment.bytes as usize <= cx.shared.message_bytes_max;
                let fragment = fragment.filter(is_short).filter(|&part| flow.takes(seq, part));
                if fragment.is_none() {
                    cx.count(counters::FRAGMENT_WRONG, 1);
                    return false;
                }
                fragment
            }
        };
        if way == Way::Recovered {
            self.patience.note(cx.now.since(since));
        }
        let payload = payload.clone();
        let held = Held { payload, checksum, fragment, since, noted, arrived: cx.now, way };
        let was_open = flow.open_message(seq).is_some();
        flow.fill(cx, &mut self.ledger, seq, held);
        if way != Way::Direct {
            flow.note_given(seq, checksum, window);
        }
        let generation = flow.generation;
        if !was_open && fragment.is_some() && flow.open_message(seq).is_some() {
            self.watch_message(cx, at, generation, seq);
        }
        self.keep(cx, Kept { at: cx.now, flow: at, generation, seq });
        true
    }

    /// The first packet of a message has come: the message is given up `lost_after` from now on.
    fn watch_message(&mut self, cx: &Cx<'_>, flow: u32, generation: u32, seq: u64) {
        if self.closing.len() == self.closing.capacity() {
            // Before it grows.
            let flows = &self.flows;
            self.closing.retain(|closing| {
                let flow = &flows[closing.flow as usize];
                flow.generation == closing.generation && flow.open_message(closing.seq).is_some()
            });
        }
        let due = cx.now + cx.shared.lost_after;
        self.closing.push_back(Closing { due, flow, generation, seq });
    }

    /// Gives up messages that have been incomplete for too long.
    pub(super) fn close_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.close.fired(cx.now) {
            return;
        }
        while let Some(closing) = self.closing.front().filter(|closing| closing.due <= cx.now) {
            let Closing { flow, generation, seq, .. } = *closing;
            self.closing.pop_front();
            let flow = &mut self.flows[flow as usize];
            if flow.generation == generation
                && let Some(first) = flow.open_message(seq)
            {
                flow.abandon_message(cx, &mut self.ledger, first);
            }
        }
    }

    /// Sets the timer for the message that is due next.
    pub(super) fn arm_close(&mut self, cx: &mut Cx<'_>) {
        if let Some(closing) = self.closing.front() {
            self.close.set(cx, closing.due, Timer::Close);
        }
    }

    /// Counts what became of messages since it was last called.
    pub(super) fn count_messages(&mut self, cx: &mut Cx<'_>) {
        let tally = &mut self.ledger.messages;
        for (counter, count) in [
            (counters::MESSAGES, &mut tally.delivered),
            (counters::MESSAGES_LOST, &mut tally.lost),
            (counters::MESSAGES_OVERFLOWED, &mut tally.overflowed),
            (counters::FRAGMENT_UNNEEDED, &mut tally.unneeded),
        ] {
            match std::mem::take(count) {
                0 => {}
                count => cx.count(counter, count),
            }
        }
    }

    /// Takes recovered packets from the decoder, if they match the checksums in repairs.
    pub(super) fn accept_recovered(&mut self, cx: &mut Cx<'_>) {
        while let Some((id, payload)) = self.recovered.pop() {
            let flow = &self.flows[id.flow as usize];
            if flow.missing(id.seq).is_none() {
                // It came another way, or was given up.
                cx.count(counters::RECOVERED_UNNEEDED, 1);
                continue;
            }
            let Some(incarnation) = flow.source.incarnation else {
                // No packet of its sender has come yet: it waits for the first one.
                if self.unverified.len() >= UNVERIFIED_MAX {
                    cx.count(counters::RECOVERED_UNVERIFIED, 1);
                } else if self.unverified.iter().all(|(known, _)| *known != id) {
                    self.unverified.push((id, payload));
                }
                continue;
            };
            let name = (flow.source.group, incarnation, id.seq);
            let Some(framing) = Framing::of_recovered(name, &payload, id.checksum) else {
                cx.count(counters::RECOVERED_WRONG, 1);
                continue;
            };
            let packet = (id.seq, framing);
            self.accept(cx, id.flow, packet, &payload, id.checksum, Way::Recovered);
        }
    }

    /// Keeps a packet, and lets go of the oldest if there are too many, or they are too old.
    pub(super) fn keep(&mut self, cx: &mut Cx<'_>, kept: Kept) {
        self.kept.push_back(kept);
        for _ in 0..EVICTED_AT_ONCE {
            let Some(&Kept { at, flow, generation, seq }) = self.kept.front() else { return };
            let is_full = self.kept.len() > cx.shared.packets_max
                || self.ledger.held_bytes > cx.shared.bytes_max;
            if !is_full && cx.now.since(at) < cx.shared.keep {
                return;
            }
            self.kept.pop_front();
            let flow = &mut self.flows[flow as usize];
            if flow.generation == generation {
                if is_full && matches!(flow.slot(seq), Some(Slot::Held(_))) {
                    cx.count(counters::EVICTED_EARLY, 1);
                }
                flow.evict(cx, &mut self.ledger, seq);
            }
        }
    }
}
