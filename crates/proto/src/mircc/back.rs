//! The way back: Data and Nacks, to all askers.

use super::application::Local;
use super::counters;
use super::face_id::{FaceId, NextHop};
use super::pit::{Asker, Asking, Entry, EntryId, LIFETIME_MAX, Passing, Selectors};
use super::{Cx, Forwarder};
use crate::core::{Instant, Wire};
use crate::ndn::{Body, Class, Header, Interest, JoinRates, NackReason, Packet};

/// Weight of a Data in the mean time that a face takes to bring one.
const UPSTREAM_WEIGHT: u32 = 8;

impl Forwarder {
    /// A Data has come from a neighbour.
    pub(super) fn handle_data(
        &mut self,
        cx: Cx<'_, '_>,
        from: FaceId,
        mut packet: Box<Packet>,
        bytes: usize,
    ) {
        let Packet { header, body: Body::Data(data) } = &mut *packet else { return };
        let now = cx.now;
        let passed = |entry: &Entry| {
            let left = |passing: &&Passing| passing.face == from && passing.left_at.is_some();
            entry.passing.iter().find(left).and_then(|passing| passing.left_at)
        };
        let mut ids = self.pit.matching(data.name());
        ids.retain(|id| self.pit.get(*id).and_then(passed).is_some());
        let Some(face) = self.faces.get_mut(from) else { return };
        face.counts.data_in += 1;
        if ids.is_empty() {
            // No Interest was pending here, or the Data came before.
            if !self.note_probe_answer(cx, from, data.name()) {
                cx.count(counters::UNSOLICITED, 1);
            }
            return;
        }
        face.sizes.note_data_in(bytes);
        face.stamp(&mut header.stamps);
        header.add_hop(face.label, face.join_rate());
        if face.marker.marks(now, face.delay()) {
            header.congestion_mark = header.congestion_mark.max(1);
        }
        let mut wanted = None;
        for &id in &ids {
            let Some(entry) = self.pit.get(id) else { continue };
            if entry.is_wanted || entry.asking.len() > 1 {
                wanted = Some(self.pit.hashed(data.name()).hash);
            }
            let sample = passed(entry).map(|left_at| now.since(left_at));
            if entry.has_alternatives
                && let Some(health) = self.fib.health(&entry.name, NextHop::Face(from))
                && health.note_answer(now, sample)
            {
                cx.count(counters::HOP_UP, 1);
            }
            if let Some(&Asking { asker: Asker::Face(asker), .. }) = entry.asking.first() {
                face.unanswered.answer(now, asker);
            }
            face.upstream = match (face.upstream, sample) {
                (Some(mean), Some(sample)) => {
                    Some((mean * (UPSTREAM_WEIGHT - 1) + sample) / UPSTREAM_WEIGHT)
                }
                (mean, sample) => mean.or(sample),
            };
        }
        ids.iter().for_each(|&id| self.judge_others(cx, id, from));
        if let Some(hash) = wanted {
            self.store.add(now, hash, data);
        }
        self.satisfy(cx, &ids, packet, bytes);
    }

    /// Ends entries with their Data, which took `bytes` on the link.
    pub(super) fn satisfy(
        &mut self,
        cx: Cx<'_, '_>,
        ids: &[EntryId],
        packet: Box<Packet>,
        bytes: usize,
    ) {
        // The last asker gets the packet itself, the others copies.
        let mut last: Option<Asking> = None;
        for &id in ids {
            let Some(ended) = self.end(id) else { continue };
            if let Some(&Asking { asker: Asker::Face(face), .. }) = ended.asking.first()
                && !ended.is_overdue
                && let Some(face) = self.faces.get_mut(face)
            {
                face.note_answered(true);
            }
            for asking in ended.asking {
                if asking.expires_at < cx.now {
                    self.tell_expired(cx, &asking);
                    continue;
                }
                if let Some(before) = last.replace(asking) {
                    self.reply(cx, before, packet.clone(), bytes);
                }
            }
        }
        if let Some(last) = last {
            self.reply(cx, last, packet, bytes);
        }
    }

    /// Sends a Data to one asker.
    pub(super) fn reply(
        &mut self,
        cx: Cx<'_, '_>,
        asking: Asking,
        mut packet: Box<Packet>,
        bytes: usize,
    ) {
        let header = &mut packet.header;
        (header.class, header.token) = (asking.class, asking.token);
        header.round_trip_micros = None;
        match asking.asker {
            Asker::Face(to) => {
                let Some(face) = self.faces.get_mut(to) else { return };
                if face.marker.marks(cx.now, face.link.delay()) {
                    header.congestion_mark = header.congestion_mark.max(1);
                }
                let bytes = packet.wire_len() + cx.shared.frame_bytes;
                face.counts.data_out += 1;
                face.sizes.note_data_out(bytes);
                self.transmit(cx, to, packet, bytes);
            }
            Asker::Flow(flow) => self.local.push_back(Local::Data { flow, packet, bytes }),
            Asker::Question(id) => self.answered(cx, (id, asking.nonce), &packet),
        }
    }

    /// A refusal has come from a neighbour.
    pub(super) fn handle_nack(
        &mut self,
        cx: Cx<'_, '_>,
        from: FaceId,
        mut header: Header,
        reason: NackReason,
        interest: &Interest,
    ) {
        if let Some(face) = self.faces.get_mut(from) {
            face.counts.nacks_in += 1;
        }
        let &Interest { can_be_prefix, must_be_fresh, nonce, .. } = interest;
        let selectors = Selectors { can_be_prefix, must_be_fresh };
        let is_asked = |passing: &Passing| {
            passing.face == from && passing.nonce == nonce && passing.left_at.is_some()
        };
        let id = self
            .pit
            .find(self.pit.hashed(&interest.name), selectors)
            .filter(|&id| self.pit.get(id).is_some_and(|entry| entry.passing.iter().any(is_asked)));
        let Some(id) = id else { return cx.count(counters::UNSOLICITED_NACK, 1) };
        let Some(face) = self.faces.get_mut(from) else { return };
        face.stamp(&mut header.stamps);
        header.label.push_front(face.label);
        let Some(entry) = self.pit.get_mut(id) else { return };
        // Interests for missing content cannot be told from a flood. Those that meet congestion
        // can.
        let is_in_vain = !matches!(reason, NackReason::Congestion | NackReason::Duplicate);
        if is_in_vain && let Some(&Asking { asker: Asker::Face(asker), .. }) = entry.asking.first()
        {
            face.unanswered.count(cx.now, asker);
        }
        // Neighbours that were asked so long ago that they have forgotten will not answer either.
        let is_over = |left_at: Instant| left_at + LIFETIME_MAX < cx.now;
        entry.passing.retain(|passing| {
            passing.face != from && (passing.is_waiting || !passing.left_at.is_some_and(is_over))
        });
        if entry.passing.is_empty() {
            // Another way is no remedy for too much demand.
            if reason != NackReason::Congestion
                && self.fail_over(cx, id, Some((NextHop::Face(from), nonce)))
            {
                return;
            }
            if is_in_vain {
                self.note_unanswered(cx.now, id);
            }
            self.end_with_nack(cx, id, reason, &header);
        }
    }

    /// Sends an asker a Nack; the packet holds its Interest, or one for the same name.
    pub(super) fn reply_nack(
        &mut self,
        cx: Cx<'_, '_>,
        asking: Asking,
        reason: NackReason,
        mut packet: Box<Packet>,
    ) {
        let Body::Interest(mut interest) = packet.body else { return };
        interest.nonce = asking.nonce;
        interest.extra = None;
        let header = Header {
            class: Class::Primary,
            token: asking.token,
            round_trip_micros: None,
            congestion_mark: 0,
            join_rates: JoinRates::EMPTY,
            ..packet.header
        };
        match asking.asker {
            Asker::Face(to) => {
                *packet = Packet { header, body: Body::Nack(reason, Box::new(interest)) };
                let bytes = packet.wire_len() + cx.shared.frame_bytes;
                if let Some(face) = self.faces.get_mut(to) {
                    face.counts.nacks_out += 1;
                }
                self.transmit(cx, to, packet, bytes);
            }
            Asker::Flow(flow) => {
                self.local.push_back(Local::Nack { flow, header, reason, interest });
            }
            Asker::Question(id) => self.unanswered(cx, (id, asking.nonce), Some(reason)),
        }
    }
}
