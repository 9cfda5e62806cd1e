//! The way of an Interest: from the asker, through the PIT and the shaper, to the next hop.

use std::time::Duration;

use smallvec::SmallVec;

use super::counters;
use super::face::{Face, Held};
use super::face_id::{FaceId, NextHop};
use super::interface::Timer;
use super::link::Sent;
use super::pit::{
    AGAIN_AFTER, Asker, Asking, EntryId, LIFETIME_MAX, PENDING_NAME_BYTES_MAX, Passing, Selectors,
    entry_bytes,
};
use super::shaper::{Rank, Shaped};
use super::strategy::Chosen;
use super::{Cx, Forwarder};
use crate::core::{Instant, Lane, Wire};
use crate::ndn::{Body, Header, Interest, JoinRates, NackReason, Name, Packet, Stamps};

/// Askers of one entry, of which each neighbour is one at most.
const ASKERS_MAX: usize = 64;
/// The most entries that are evicted to make room for one name.
const EVICTED_MAX: usize = 8;

/// An Interest on its way through a node, in the packet that it came in or will leave in.
pub(super) struct Passage {
    pub(super) packet: Box<Packet>,
    // The face to go by; none for what routes and label say.
    to: Option<FaceId>,
}

impl Passage {
    /// None if the packet is no Interest.
    pub(super) fn new(packet: Box<Packet>) -> Option<Passage> {
        matches!(packet.body, Body::Interest(_)).then_some(Passage { packet, to: None })
    }

    /// To go by this face, if one is given.
    pub(super) fn to(self, to: Option<FaceId>) -> Passage {
        Passage { to, ..self }
    }

    pub(super) fn interest(&self) -> &Interest {
        match &self.packet.body {
            Body::Interest(interest) => interest,
            _ => unreachable!("it was looked at when it was made"),
        }
    }

    fn interest_mut(&mut self) -> &mut Interest {
        match &mut self.packet.body {
            Body::Interest(interest) => interest,
            _ => unreachable!("it was looked at when it was made"),
        }
    }

    pub(super) fn into_interest(self) -> Interest {
        match self.packet.body {
            Body::Interest(interest) => interest,
            _ => unreachable!("it was looked at when it was made"),
        }
    }

    fn selectors(&self) -> Selectors {
        let &Interest { can_be_prefix, must_be_fresh, .. } = self.interest();
        Selectors { can_be_prefix, must_be_fresh }
    }
}

/// The rest of an entry that has ended.
pub(super) struct Ended {
    name: Name,
    selectors: Selectors,
    pub(super) is_overdue: bool,
    pub(super) asking: SmallVec<[Asking; 1]>,
}

impl Forwarder {
    /// An Interest has come from a neighbour.
    pub(super) fn handle_interest(
        &mut self,
        cx: Cx<'_, '_>,
        from: FaceId,
        mut passage: Passage,
        bytes: usize,
    ) {
        if let Some(face) = self.faces.get_mut(from) {
            face.counts.interests_in += 1;
            face.note_interest_in(bytes);
        }
        match &mut passage.interest_mut().hop_limit {
            Some(0) => return cx.count(counters::HOP_LIMIT, 1),
            Some(left) => *left -= 1,
            None => {}
        }
        let token = passage.packet.header.token.take();
        let interest = passage.interest();
        let asking = Asking {
            asker: Asker::Face(from),
            nonce: interest.nonce,
            class: passage.packet.header.class,
            token,
            expires_at: cx.now + interest.lifetime().min(LIFETIME_MAX),
        };
        self.ask(cx, asking, passage);
    }

    /// Handles an Interest of a neighbour or of this node itself.
    pub(super) fn ask(&mut self, cx: Cx<'_, '_>, asking: Asking, passage: Passage) {
        let interest = passage.interest();
        if interest.name.encoded_len() > PENDING_NAME_BYTES_MAX {
            return self.refuse_name(cx, asking, passage);
        }
        let selectors = passage.selectors();
        let name = self.pit.hashed(&interest.name);
        if self.nonces.contains(name.hash, interest.nonce) {
            return self.refuse_loop(cx, asking, passage);
        }
        if !selectors.can_be_prefix
            && let Some(data) = self.store.find(cx.now, name, selectors.must_be_fresh)
        {
            cx.count(counters::STORED, 1);
            if let Asker::Face(face) = asking.asker
                && let Some(face) = self.faces.get_mut(face)
            {
                face.note_answered(true);
            }
            // Stored Data carries no stamps: they were those of another path.
            let bytes = data.encoded_len() + cx.shared.frame_bytes;
            let packet = Box::new(Packet::from(data));
            return self.reply(cx, asking, packet, bytes);
        }
        if let Some(id) = self.pit.find(name, selectors) {
            return self.ask_again(cx, id, asking, passage);
        }
        if !self.has_room_for(cx, asking.asker, name.name) {
            return self.reply_nack(cx, asking, NackReason::Congestion, passage.packet);
        }
        if let Asker::Face(face) = asking.asker
            && let Some(face) = self.faces.get_mut(face)
        {
            face.pending += 1;
            face.pending_bytes += entry_bytes(name.name);
        }
        let is_wanted = self.store.note_asked(name.hash);
        let id = self.pit.add(cx.now, name, selectors);
        if let Some(entry) = self.pit.get_mut(id) {
            entry.asking.push(asking);
            entry.is_wanted = is_wanted;
        }
        self.time_pending(cx);
        self.pass_on(cx, id, passage);
    }

    fn ask_again(&mut self, cx: Cx<'_, '_>, id: EntryId, asking: Asking, passage: Passage) {
        let pending = self.pit.len();
        let has_room = self.pit.has_room_for_asker(id, cx.shared.pending_bytes());
        let Some(entry) = self.pit.get_mut(id) else { return };
        let before = entry.asking.iter().position(|known| known.asker == asking.asker);
        let is_known = entry.asking.iter().any(|known| known.nonce == asking.nonce)
            || entry.passing.iter().any(|passing| passing.nonce == asking.nonce);
        if is_known && before.is_some() {
            // A duplicate from the link. A loop would arrive from another neighbour, since an
            // Interest never goes to its asker.
            return cx.count(counters::DUPLICATE_INTEREST, 1);
        }
        if is_known {
            return self.refuse_loop(cx, asking, passage);
        }
        entry.is_wanted = true;
        let is_again = before.is_some();
        let (asker, class, expires_at) = (asking.asker, asking.class, asking.expires_at);
        match before {
            Some(before) => {
                let earlier = std::mem::replace(&mut entry.asking[before], asking);
                self.nonces.add(entry.name_hash, earlier.nonce, pending);
            }
            None if has_room && entry.asking.len() < ASKERS_MAX => entry.asking.push(asking),
            None => return self.reply_nack(cx, asking, NackReason::Congestion, passage.packet),
        }
        let left = entry.passing.iter().map(|passing| passing.left_at);
        let may = left.max().flatten().is_none_or(|at| cx.now >= at + AGAIN_AFTER);
        entry.expires_at = entry.expires_at.max(expires_at);
        // An Interest for the same name waits with the pending one, and a repeated one signals a
        // loss. But no Interest waits with one of a later rank, which might wait for ever.
        let mut is_held_back = true;
        let mut waits = false;
        for passing in &entry.passing {
            let face = self.faces.get(passing.face);
            let rank = face.map_or(class.into(), |face| face.rank(cx.now, asker, class));
            waits |= passing.is_waiting && passing.rank <= rank;
            is_held_back &= passing.left_at.is_none() && passing.rank == Rank::Deprioritized;
        }
        self.pit.weigh(id);
        if (is_again || is_held_back) && may && !waits {
            self.judge_silent(cx, id);
            self.pass_on(cx, id, passage);
        }
    }

    /// Refuses a name that is too long to be kept. A neighbour gets no Nack, which would carry the
    /// name back to an address that may be forged.
    fn refuse_name(&mut self, cx: Cx<'_, '_>, asking: Asking, passage: Passage) {
        cx.count(counters::NAME_TOO_LONG, 1);
        match asking.asker {
            Asker::Face(_) => {}
            Asker::Flow(_) | Asker::Question(_) => {
                self.reply_nack(cx, asking, NackReason::NoRoute, passage.packet);
            }
        }
    }

    fn refuse_loop(&mut self, cx: Cx<'_, '_>, asking: Asking, passage: Passage) {
        cx.count(counters::LOOPS, 1);
        self.reply_nack(cx, asking, NackReason::Duplicate, passage.packet);
    }

    /// True if a neighbour, or this node itself, may have one more Interest pending. Makes room for
    /// it at the cost of the neighbour who has most, if the asker has less than its share: of
    /// entries, and of bytes.
    fn has_room_for(&mut self, cx: Cx<'_, '_>, asker: Asker, name: &Name) -> bool {
        let (all, bytes_max) = (cx.shared.pending_max, cx.shared.pending_bytes());
        let faces = self.faces.len().max(1);
        let asks = match asker {
            Asker::Face(face) => Some(face),
            Asker::Flow(_) | Asker::Question(_) => None,
        };
        if let Some(asks) = asks {
            let Some(asks) = self.faces.get(asks) else { return false };
            let bytes = asks.pending_bytes + entry_bytes(name);
            if asks.pending >= asks.pending_max((2 * all / faces).min(all).max(1))
                || asks.pending > 0 && bytes > (bytes_max / faces).saturating_mul(2)
            {
                cx.count(counters::REFUSED_FACE, 1);
                return false;
            }
        }
        if self.pit.len() >= all {
            cx.count(counters::REFUSED_FULL, 1);
            let has = self.held_by(asks).0;
            let worst = self.faces.iter().max_by_key(|(_, face)| face.pending).map(|(id, _)| id);
            let worst = worst.filter(|&worst| has < all / faces && Some(worst) != asks);
            if !self.evict(cx, worst) {
                return false;
            }
        }
        if self.pit.has_room_for(name, bytes_max) {
            return true;
        }
        cx.count(counters::REFUSED_BYTES, 1);
        for _ in 0..EVICTED_MAX {
            let has = self.held_by(asks).1;
            let worst = self.faces.iter().max_by_key(|(_, face)| face.pending_bytes);
            let worst = worst.map(|(id, _)| id);
            let worst = worst.filter(|&worst| has < bytes_max / faces && Some(worst) != asks);
            if !self.evict(cx, worst) {
                return false;
            }
            if self.pit.has_room_for(name, bytes_max) {
                return true;
            }
        }
        false
    }

    /// Entries that a neighbour has pending, or else this node itself, and their bytes.
    fn held_by(&self, asker: Option<FaceId>) -> (usize, usize) {
        let held = |face: &Face| (face.pending, face.pending_bytes);
        if let Some(face) = asker.and_then(|asker| self.faces.get(asker)) {
            return held(face);
        }
        let all = (self.pit.len(), self.pit.entries_bytes());
        self.faces.iter().map(|(_, face)| held(face)).fold(all, |rest, of_face| {
            (rest.0.saturating_sub(of_face.0), rest.1.saturating_sub(of_face.1))
        })
    }

    /// Evicts an entry that this neighbour asked for; false if it has no entry.
    fn evict(&mut self, cx: Cx<'_, '_>, of: Option<FaceId>) -> bool {
        let Some(victim) = of.and_then(|face| self.pit.sample(face, cx.rng)) else {
            return false;
        };
        cx.count(counters::EVICTED, 1);
        self.end_with_nack(cx, victim, NackReason::Congestion, &Header::default());
        true
    }

    /// Sends the Interest of an entry to its next hops.
    fn pass_on(&mut self, cx: Cx<'_, '_>, id: EntryId, mut passage: Passage) {
        let steered = passage.packet.header.label.pop_front();
        let chosen = match passage.to {
            Some(face) => Ok(Chosen::of(NextHop::Face(face))),
            None => self.next_hops(cx, id, &passage.packet, steered),
        };
        let Chosen { asked, probed } = match chosen {
            Ok(chosen) => chosen,
            Err(reason) => return self.end_with_nack(cx, id, reason, &Header::default()),
        };
        let Some((&first, others)) = asked.split_first() else {
            return self.end_with_nack(cx, id, NackReason::NoRoute, &Header::default());
        };
        if matches!(first, NextHop::Face(_)) && passage.interest().hop_limit == Some(0) {
            return self.end_of_hops(cx, id, &passage.interest().name);
        }
        // What goes on is the class, the rest of the path and the consumer's round trip.
        let header = &mut passage.packet.header;
        header.stamps = Stamps::default();
        header.join_rates = JoinRates::EMPTY;
        header.congestion_mark = 0;
        if others.is_empty() && probed.is_empty() {
            return self.send_to(cx, id, first, passage);
        }
        let (nonce, class) = (passage.interest().nonce, passage.packet.header.class);
        let others = others.iter().map(|&hop| (hop, false));
        let copies = others.chain(probed.iter().map(|&hop| (hop, true)));
        if let Some(entry) = self.pit.get_mut(id) {
            // If the first is refused at its face, the others are still to come.
            copies.clone().for_each(|(hop, _)| entry.expect(cx.now, hop, nonce, class));
        }
        let copy = passage.packet.clone();
        self.send_to(cx, id, first, passage);
        for (hop, is_probe) in copies {
            let Some(mut copy) = Passage::new(copy.clone()) else { return };
            if is_probe {
                // A probe is an Interest of its own: nodes that wait for the former take it too.
                copy.interest_mut().nonce = cx.rng.next_u32();
            }
            if self.pit.get(id).is_some() {
                self.send_to(cx, id, hop, copy);
            }
        }
    }

    /// Gives an Interest to a next hop.
    pub(super) fn send_to(&mut self, cx: Cx<'_, '_>, id: EntryId, hop: NextHop, passage: Passage) {
        match hop {
            NextHop::Application => self.ask_application(cx, id, passage.into_interest()),
            NextHop::Face(face) => self.shape(cx, id, face, passage),
        }
    }

    /// An Interest may go no further.
    fn end_of_hops(&mut self, cx: Cx<'_, '_>, id: EntryId, name: &Name) {
        if is_trace(name) {
            return self.answer_trace(cx, name);
        }
        cx.count(counters::HOP_LIMIT, 1);
        // The Interest went to no neighbour, so others that ask for the same name must not wait for
        // it.
        if self.pit.get(id).is_some_and(|entry| entry.passing.is_empty()) {
            let ended = self.end(id).into_iter().flat_map(|ended| ended.asking);
            ended.for_each(|asking| self.tell_expired(cx, &asking));
        }
    }

    /// Lets an Interest wait for its turn at a face.
    fn shape(&mut self, cx: Cx<'_, '_>, id: EntryId, to: FaceId, passage: Passage) {
        let bytes = passage.packet.wire_len() + cx.shared.frame_bytes;
        let Header { class, round_trip_micros: micros, .. } = passage.packet.header;
        let nonce = passage.interest().nonce;
        let overdue_at = cx.now + self.overdue_after(to);
        let Some(face) = self.faces.get_mut(to) else { return };
        let mut rank = class.into();
        if let Some(entry) = self.pit.get(id)
            && let Some(asking) =
                entry.asking.iter().find(|asking| asking.nonce == nonce).or(entry.asking.first())
        {
            if let Asker::Face(asker) = asking.asker
                && entry.passing.iter().any(|one| one.face == to && one.left_at.is_some())
            {
                // It asks once more for what this face was passed the Interest for.
                face.unanswered.count(cx.now, asker);
            }
            rank = face.rank(cx.now, asking.asker, class);
        }
        let trip = micros.map(|micros| Duration::from_micros(micros.into()));
        // An Interest that brings no Data takes no capacity from others.
        if rank == Rank::Deprioritized {
            cx.count(counters::DEPRIORITIZED, 1);
        } else if face.note_demand(cx.now, class, bytes, trip) {
            face.interval_timer.set_after(cx, face.interval(), Timer::Rates(to));
        }
        if let Some(entry) = self.pit.get_mut(id) {
            // Data for an earlier one is welcome still.
            match entry.passing.iter_mut().find(|passing| passing.face == to) {
                Some(passing) => {
                    (passing.nonce, passing.rank, passing.is_waiting) = (nonce, rank, true);
                }
                None => entry.passing.push(Passing::new(cx.now, to, nonce, rank)),
            }
            let asking = entry.asking.iter().map(|asking| asking.expires_at);
            let expires_at = asking.max().unwrap_or(cx.now);
            self.pit.schedule(id, overdue_at, expires_at);
        }
        let observed = face.observed_in();
        let held = Held { entry: id, packet: passage.packet, bytes };
        match face.shaper.send(cx.now, (held, rank, bytes), &face.sizes, observed) {
            Shaped::Leaves(held) => self.leave(cx, to, held),
            Shaped::Waits(due, evicted) => {
                if let Some(due) = due {
                    cx.set_timer(due.since(cx.now), Timer::Shaper(to));
                }
                if let Some(evicted) = evicted {
                    face.counts.refused += 1;
                    self.refuse(cx, &evicted, to, NackReason::Congestion);
                }
            }
            Shaped::Refused(held) => {
                face.counts.refused += 1;
                self.refuse(cx, &held, to, NackReason::Congestion);
            }
        }
    }

    /// An Interest leaves by a face.
    pub(super) fn leave(&mut self, cx: Cx<'_, '_>, by: FaceId, held: Held) {
        // While it waited another way may have brought the Data.
        let Some(entry) = self.pit.get_mut(held.entry) else { return };
        let Some(passing) = entry.passing.iter_mut().find(|passing| held.is_of(by, passing)) else {
            return;
        };
        if passing.left_at.is_none() {
            passing.first_left_at = cx.now;
        }
        (passing.left_at, passing.is_waiting) = (Some(cx.now), false);
        if let Some(face) = self.faces.get_mut(by) {
            face.counts.interests_out += 1;
            face.sizes.note_interest_out(held.bytes);
        }
        self.transmit(cx, by, held.packet, held.bytes);
    }

    /// Puts a packet on the link of a face.
    pub(super) fn transmit(
        &mut self,
        cx: Cx<'_, '_>,
        to: FaceId,
        packet: Box<Packet>,
        bytes: usize,
    ) {
        let Some(face) = self.faces.get_mut(to) else { return };
        match face.link.send(cx.now, packet, bytes) {
            Sent::Leaves(packet) => cx.send(face.peer, Lane::Datagram, packet),
            Sent::Waits(None) => {}
            Sent::Waits(Some(due)) => cx.set_timer(due.since(cx.now), Timer::Link(to)),
            Sent::Dropped(_) => {
                face.counts.dropped += 1;
                return cx.count(counters::LINK_FULL, 1);
            }
        }
        face.counts.bytes_out += bytes as u64;
    }

    /// An Interest could not go by a face: unless it went by another, its entry ends.
    pub(super) fn refuse(&mut self, cx: Cx<'_, '_>, held: &Held, by: FaceId, reason: NackReason) {
        let mut header = Header::default();
        if let Some(face) = self.faces.get(by) {
            face.stamp(&mut header.stamps);
            header.label.push_front(face.label);
        }
        let Some(entry) = self.pit.get_mut(held.entry) else { return };
        if !entry.passing.iter().any(|passing| held.is_of(by, passing)) {
            return;
        }
        // One that left by this face before is still out.
        entry.passing.retain(|passing| passing.face != by || passing.left_at.is_some());
        entry.passing.iter_mut().filter(|passing| passing.face == by).for_each(|passing| {
            passing.is_waiting = false;
        });
        if !entry.passing.is_empty() {
            return;
        }
        // Another way is no remedy for too much demand.
        let Body::Interest(Interest { nonce, .. }) = held.packet.body else { return };
        let refused = Some((NextHop::Face(by), nonce));
        if reason == NackReason::Congestion || !self.fail_over(cx, held.entry, refused) {
            self.end_with_nack(cx, held.entry, reason, &header);
        }
    }

    /// Ends an entry and sends each asker a Nack.
    pub(super) fn end_with_nack(
        &mut self,
        cx: Cx<'_, '_>,
        id: EntryId,
        reason: NackReason,
        header: &Header,
    ) {
        let Some(Ended { name, selectors, asking, .. }) = self.end(id) else { return };
        for asking in asking {
            if asking.expires_at < cx.now {
                // Others had put the end of the entry off.
                self.tell_expired(cx, &asking);
                continue;
            }
            let mut interest = Interest::new(name.clone(), asking.nonce);
            interest.can_be_prefix = selectors.can_be_prefix;
            interest.must_be_fresh = selectors.must_be_fresh;
            let body = Body::Interest(interest);
            let packet = Box::new(Packet { header: header.clone(), body });
            self.reply_nack(cx, asking, reason, packet);
        }
    }

    /// Removes an entry, whatever became of it.
    pub(super) fn end(&mut self, id: EntryId) -> Option<Ended> {
        let pending = self.pit.len();
        let entry = self.pit.remove(id)?;
        let ended = Ended {
            name: std::mem::take(&mut entry.name),
            selectors: entry.selectors,
            is_overdue: entry.is_overdue,
            asking: std::mem::take(&mut entry.asking),
        };
        let name_hash = entry.name_hash;
        // Those of copies are this node's own.
        let passing = std::mem::take(&mut entry.passing);
        let own: SmallVec<[u32; 2]> = passing
            .iter()
            .map(|passing| passing.nonce)
            .filter(|&nonce| ended.asking.iter().all(|asking| asking.nonce != nonce))
            .collect();
        if let Some(&Asking { asker: Asker::Face(face), .. }) = ended.asking.first()
            && let Some(face) = self.faces.get_mut(face)
        {
            face.pending = face.pending.saturating_sub(1);
            face.pending_bytes = face.pending_bytes.saturating_sub(entry_bytes(&ended.name));
        }
        let nonces = ended.asking.iter().map(|asking| asking.nonce);
        nonces.chain(own).for_each(|nonce| self.nonces.add(name_hash, nonce, pending));
        Some(ended)
    }

    /// The Data of an entry is overdue.
    pub(super) fn note_unanswered(&mut self, now: Instant, id: EntryId) {
        let Some(entry) = self.pit.get(id) else { return };
        let Some(&Asking { asker: Asker::Face(asker), .. }) = entry.asking.first() else { return };
        for passing in entry.passing.iter().filter(|passing| passing.left_at.is_some()) {
            if let Some(face) = self.faces.get_mut(passing.face) {
                face.unanswered.count(now, asker);
            }
        }
        if let Some(face) = self.faces.get_mut(asker) {
            face.note_answered(false);
        }
    }

    /// An entry's time is over.
    pub(super) fn expire(&mut self, cx: Cx<'_, '_>, id: EntryId) {
        if self.pit.get(id).is_some_and(|entry| !entry.is_overdue) {
            self.note_unanswered(cx.now, id);
            self.judge_expired(cx, id);
        }
        if let Some(ended) = self.end(id) {
            cx.count(counters::EXPIRED, 1);
            for asking in ended.asking {
                self.tell_expired(cx, &asking);
            }
        }
    }
}

/// The component of a name that asks for a node on the way.
const TRACE: &str = "trace";

/// True if a name asks for a node on the way.
pub(super) fn is_trace(name: &Name) -> bool {
    has_keyword(name, TRACE)
}

/// True if a name has this keyword among its components.
pub(super) fn has_keyword(name: &Name, word: &str) -> bool {
    // Behind it stands a number that makes the name new.
    let keyword = crate::ndn::tlv::kind::KEYWORD as u16;
    name.components().any(|part| part.kind() == keyword && part.value() == word.as_bytes())
}
