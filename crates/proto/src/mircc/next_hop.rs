//! The choice of next hops for an Interest, and of another one after a failure.

use std::num::NonZeroU16;
use std::time::Duration;

use smallvec::SmallVec;

use super::choice::Kept;
use super::counters;
use super::face_id::{FaceId, NextHop};
use super::fib::Found;
use super::forward::Passage;
use super::pit::{Asker, Asking, EntryId, Passing};
use super::strategy::{Choosing, Chosen, Occasion};
use super::{Cx, Forwarder};
use crate::core::Instant;
use crate::ndn::{Body, Header, Interest, NackReason, Name, Packet};

/// Bytes of parameters and hints with which an Interest is kept for fail-over, at most. One that
/// has more goes to another next hop only when its consumer sends it again.
const EXTRA_BYTES_MAX: usize = 512;
/// A hop is judged at the end of an Interest that lived for less time than Data may take, but for
/// this long at least.
const JUDGED_AFTER_MIN: Duration = Duration::from_millis(100);

/// The judgement of a hop that had an overdue Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It answers others, or may still answer this one.
    Waiting,
    /// It is down, or is no longer a next hop.
    Dead,
}

impl Kept {
    fn new(interest: &Interest, header: &Header) -> Option<Kept> {
        let extra = interest.extra.as_deref();
        if extra.is_some_and(|extra| extra.encoded_len() > EXTRA_BYTES_MAX) {
            return None;
        }
        Some(Kept {
            extra: extra.map(|extra| Box::new(extra.detached())),
            hop_limit: interest.hop_limit,
            class: header.class,
            round_trip_micros: header.round_trip_micros,
        })
    }
}

impl Forwarder {
    /// The next hops of an Interest whose path label begins with `steered`.
    pub(super) fn next_hops(
        &mut self,
        cx: Cx<'_, '_>,
        id: EntryId,
        packet: &Packet,
        steered: Option<NonZeroU16>,
    ) -> Result<Chosen, NackReason> {
        let Body::Interest(interest) = &packet.body else { return Err(NackReason::NoRoute) };
        let now = cx.now;
        let found = self.fib.find(&interest.name).ok_or(NackReason::NoRoute)?;
        let Found { route, held, strategy } = found;
        let entry = self.pit.get_mut(id).ok_or(NackReason::NoRoute)?;
        // The name of the Interest may share a buffer that holds many packets.
        entry.name = match interest.name.segment() {
            Some(segment) => held.with_segment(segment),
            None => held.clone(),
        };
        entry.has_alternatives = route.hops.len() > 1;
        // Never back to an asker, unless its Interest has expired: while later askers extend the
        // entry, it may be the only next hop that has the Data.
        let may = |hop: NextHop| !is_asked_by(now, &entry.asking, hop);
        let mut hops = route.hops.iter().map(|hop| hop.next).filter(|&hop| may(hop));
        if let Some(label) = steered {
            let faces = &self.faces;
            let is_it = |hop: &NextHop| match *hop {
                NextHop::Face(face) => faces.get(face).is_some_and(|face| face.label == label),
                NextHop::Application => false,
            };
            return match hops.find(is_it) {
                Some(hop) => Ok(Chosen::of(hop)),
                None => {
                    cx.count(counters::UNKNOWN_LABEL, 1);
                    Err(NackReason::NoRoute)
                }
            };
        }
        let count = hops.clone().count();
        if count <= 1 || packet.header.discovers {
            let drawn = if count > 1 { cx.rng.below(count as u32) } else { 0 };
            let hop = hops.nth(drawn as usize).ok_or(NackReason::NoRoute)?;
            return Ok(Chosen::of(hop));
        }
        let occasion = if entry.choice.is_some() { Occasion::Again } else { Occasion::New };
        let mut choice = entry.choice.take().unwrap_or_default();
        let tried = &choice.tried;
        let choosing = Choosing { now, strategy, occasion, hash: entry.name_hash, tried };
        let chosen = choosing.choose(&mut route.hops, may);
        choice.note(now, chosen.hops());
        choice.kept = Kept::new(interest, &packet.header);
        entry.choice = Some(choice);
        Ok(chosen)
    }

    /// Sends the Interest of an entry to a next hop that has not had it yet, if its prefix has one.
    /// After a Nack it keeps the nonce that was refused, so that the search visits each node once.
    /// After silence it takes another nonce, since nodes that wait for the former may get the
    /// Interest again.
    pub(super) fn fail_over(
        &mut self,
        cx: Cx<'_, '_>,
        id: EntryId,
        refused: Option<(NextHop, u32)>,
    ) -> bool {
        let now = cx.now;
        let Some(entry) = self.pit.get_mut(id) else { return false };
        let Some(choice) = &mut entry.choice else { return false };
        if let Some((by, _)) = refused {
            // Its Interest may have been steered there: that was no choice of this node.
            choice.note(now, [by]);
        }
        let Some(kept) = choice.kept.as_ref().filter(|kept| kept.hop_limit != Some(0)) else {
            return false;
        };
        let Some(Found { route, strategy, .. }) = self.fib.find(&entry.name) else {
            return false;
        };
        let (occasion, tried) = (Occasion::Failed, &choice.tried);
        let choosing = Choosing { now, strategy, occasion, hash: entry.name_hash, tried };
        let asking = &entry.asking;
        let chosen = choosing.choose(&mut route.hops, |hop| !is_asked_by(now, asking, hop));
        let Some(&next) = chosen.asked.first() else { return false };
        let left = entry.expires_at.since(now).as_millis().max(1);
        let nonce = refused.map_or_else(|| cx.rng.next_u32(), |(_, nonce)| nonce);
        let interest = Interest {
            can_be_prefix: entry.selectors.can_be_prefix,
            must_be_fresh: entry.selectors.must_be_fresh,
            lifetime_ms: Some(u32::try_from(left).unwrap_or(u32::MAX)),
            hop_limit: kept.hop_limit,
            extra: kept.extra.clone(),
            ..Interest::new(entry.name.clone(), nonce)
        };
        let header = Header {
            class: kept.class,
            round_trip_micros: kept.round_trip_micros,
            ..Header::default()
        };
        choice.note(now, chosen.hops());
        cx.count(counters::FAILED_OVER, 1);
        let packet = Box::new(Packet { header, body: Body::Interest(interest) });
        let Some(passage) = Passage::new(packet) else { return false };
        self.send_to(cx, id, next, passage);
        true
    }

    /// Data of an entry is overdue: judges the hops that had the Interest, and tries another one if
    /// none of them is left that may answer.
    pub(super) fn judge_overdue(&mut self, cx: Cx<'_, '_>, id: EntryId) {
        let Some((name, passing)) = self.judged(id) else { return };
        let verdicts: SmallVec<[Verdict; 4]> = passing
            .iter()
            .map(|one| {
                let after = self.overdue_after(one.face);
                self.judge(cx, &name, one, after)
            })
            .collect();
        if verdicts.iter().all(|&verdict| verdict == Verdict::Dead) {
            self.fail_over(cx, id, None);
        } else if let Some(left_at) = passing.iter().filter_map(|one| one.left_at).max() {
            // One of them may have left a moment ago.
            let last = passing.iter().map(|one| self.overdue_after(one.face)).max();
            let look_at = left_at + last.unwrap_or_default();
            if look_at > cx.now {
                // The entry lives no longer for that.
                self.pit.schedule(id, look_at, cx.now);
            }
        }
    }

    /// An Interest is repeated: judges the hops that had it. Each repetition postpones the time at
    /// which its Data is overdue.
    pub(super) fn judge_silent(&mut self, cx: Cx<'_, '_>, id: EntryId) {
        let Some((name, passing)) = self.judged(id) else { return };
        for one in &passing {
            let after = self.overdue_after(one.face);
            self.judge(cx, &name, one, after);
        }
    }

    /// An entry ends before its Data was overdue: says what that tells of the hops that had it.
    pub(super) fn judge_expired(&mut self, cx: Cx<'_, '_>, id: EntryId) {
        let Some((name, passing)) = self.judged(id) else { return };
        for one in &passing {
            let hop = NextHop::Face(one.face);
            let trip = self.fib.health(&name, hop).and_then(|health| health.round_trip());
            let after = trip.map_or(JUDGED_AFTER_MIN, |trip| (trip * 2).max(JUDGED_AFTER_MIN));
            self.judge(cx, &name, one, after);
        }
    }

    /// Data of an entry has come by `from`: judges the other hops that had the Interest before, and
    /// long enough to have answered as well. A consumer that sends again sooner than Data is
    /// overdue would otherwise keep a dead hop from being noticed.
    pub(super) fn judge_others(&mut self, cx: Cx<'_, '_>, id: EntryId, from: FaceId) {
        let Some((name, passing)) = self.judged(id).filter(|(_, passing)| passing.len() > 1) else {
            return;
        };
        let left_at = passing.iter().find(|one| one.face == from).and_then(|one| one.left_at);
        let trip = left_at.map_or(Duration::ZERO, |left_at| cx.now.since(left_at));
        for one in passing.iter().filter(|one| one.face != from) {
            let hop = NextHop::Face(one.face);
            let known = self.fib.health(&name, hop).and_then(|health| health.round_trip());
            let after = known.map_or(trip * 2, |known| known * 4).max(JUDGED_AFTER_MIN);
            self.judge(cx, &name, one, after);
        }
    }

    /// Data that no entry waits for has come: it may be the answer to a probe.
    pub(super) fn note_probe_answer(&mut self, cx: Cx<'_, '_>, from: FaceId, name: &Name) -> bool {
        let hash = self.pit.hashed(name).hash;
        let Some(health) = self.fib.health(name, NextHop::Face(from)) else { return false };
        let Some(trip) = health.probed(cx.now, hash) else { return false };
        let is_back = health.note_answer(cx.now, Some(trip));
        cx.count(counters::PROBE_ANSWERED, 1);
        cx.count(counters::HOP_UP, u64::from(is_back));
        true
    }

    fn judged(&self, id: EntryId) -> Option<(Name, SmallVec<[Passing; 1]>)> {
        let entry = self.pit.get(id).filter(|entry| entry.has_alternatives)?;
        (!entry.passing.is_empty()).then(|| (entry.name.clone(), entry.passing.clone()))
    }

    fn judge(
        &mut self,
        cx: Cx<'_, '_>,
        name: &Name,
        passing: &Passing,
        after: Duration,
    ) -> Verdict {
        let hash = self.pit.hashed(name).hash;
        let Some(health) = self.fib.health(name, NextHop::Face(passing.face)) else {
            return Verdict::Dead;
        };
        // From the first on: a consumer that sends again must not hide that the hop is silent.
        let left_at = passing.first_left_at;
        if passing.left_at.is_some()
            && cx.now.since(left_at) >= after
            && health.note_overdue(cx.now, hash, left_at)
        {
            cx.count(counters::HOP_DOWN, 1);
        }
        if health.is_down() { Verdict::Dead } else { Verdict::Waiting }
    }
}

/// True if the hop is a neighbour that waits for the answer itself.
fn is_asked_by(now: Instant, asking: &[Asking], hop: NextHop) -> bool {
    let NextHop::Face(face) = hop else { return false };
    asking.iter().any(|one| one.asker == Asker::Face(face) && one.expires_at >= now)
}
