//! How a flow detects losses: Interests that others overtook, probes after a silence, and
//! time-outs.

use std::time::Duration;

use super::board::{Arrived, Losses};
use super::track::{Reordering, TrackId};
use super::{Actions, Flow, UNSTEERED};
use crate::core::{Instant, Rng};
use crate::mircc::config::Config;
use crate::mircc::interface::{FetchError, Timer};
use crate::mircc::pit::AGAIN_AFTER;
use crate::mircc::round_trip::RoundTrip;
use crate::ndn::Class;
use crate::parts::deadline::Deadline;

/// The least time after which a segment is asked for again: before that, forwarders do not pass on
/// a second Interest for a name.
const RESEND_AFTER_MIN: Duration = AGAIN_AFTER.saturating_add(Duration::from_millis(5));
/// Doublings of the time from one probe to the next at most.
const BACKOFF_MAX: u32 = 6;

/// When a flow looks what is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovery {
    /// When to look.
    timer: Deadline,
    /// Since when nothing was sent and no Data came.
    silent_since: Instant,
    /// Probes since the last Data.
    probes: u32,
}

impl Recovery {
    pub(super) fn new(now: Instant) -> Recovery {
        Recovery { timer: Deadline::UNARMED, silent_since: now, probes: 0 }
    }

    /// An Interest leaves.
    pub(super) fn note_sent(&mut self, now: Instant) {
        self.silent_since = now;
    }

    /// A Data has come.
    pub(super) fn note_heard(&mut self, now: Instant) {
        (self.silent_since, self.probes) = (now, 0);
    }
}

impl Flow {
    /// The time to look what is lost has come.
    pub(in crate::mircc) fn resend(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) {
        if !self.recovery.timer.fired(now) {
            return;
        }
        let late = self.board.expire(now - self.lost_after());
        self.counts.timeouts += late as u64;
        if now >= self.heard_at + self.give_up_after && self.unread < self.unread_max {
            // What came, and was no use, says more than the silence after it.
            let unverified =
                self.unverified.filter(|_| self.counts.unverified > self.counts.segments);
            let why = unverified.map_or(FetchError::Silent, FetchError::Unverified);
            self.failed.get_or_insert(why);
            return;
        }
        if late > 0 {
            self.shrink(now);
        }
        for track in self.board.tracks() {
            self.lose_overtaken(now, track);
        }
        if self.probe_at().is_some_and(|at| at <= now) && self.board.lose_newest() {
            self.counts.probes += 1;
            self.recovery.probes += 1;
            self.recovery.silent_since = now;
        }
        if self.pump(now, config, rng, out) {
            return self.set_resend(now, out);
        }
        if self.is_data_known && self.paths.iter().flatten().next().is_some() {
            self.set_lanes(now, config, out);
        } else {
            // No path or size is known, or none any longer: any path will do.
            self.is_data_known = false;
            if self.board.out() == 0
                && let Some(interest) = self.interest(now, UNSTEERED, rng)
            {
                out.interests.push((self.header(Class::Primary, None, config), interest));
            }
        }
        self.set_resend(now, out);
    }

    /// A Data has come: those that left before its Interest on the same track were overtaken.
    pub(super) fn note_answered(&mut self, now: Instant, arrived: &Arrived) {
        let Some((answered, since)) = arrived.answers else { return };
        // The answer to an earlier Interest for the segment says nothing about those between the
        // two. Source: RFC 8985, section 6.2, step 2.
        let least = self.round_trip_of(answered.track).least();
        if arrived.round_trip.is_none() && least.is_none_or(|least| since < least) {
            return;
        }
        self.board.note_answered(answered);
        self.lose_overtaken(now, answered.track);
    }

    /// Takes for lost what others overtook.
    fn lose_overtaken(&mut self, now: Instant, track: TrackId) {
        let reordering = self.reordering(track);
        let Losses { count, last_at } = self.board.lose_overtaken(now, track, reordering);
        self.counts.overtaken += count as u64;
        if let (Some(window), Some(last_at)) = (&mut self.window, last_at) {
            window.shrink_for(now, self.round_trip.mean().unwrap_or_default(), last_at);
        }
    }

    fn reordering(&self, track: TrackId) -> Reordering {
        let overdue_after = self.round_trip_of(track).overdue_after();
        let overdue_after = overdue_after.unwrap_or_else(|| self.lost_after());
        Reordering { resend_after_min: RESEND_AFTER_MIN, overdue_after }
    }

    fn round_trip_of(&self, track: TrackId) -> &RoundTrip {
        let path = self.paths.get(usize::from(track.path)).and_then(Option::as_ref);
        let of_path = path.map(|path| &path.round_trip).filter(|trip| trip.mean().is_some());
        of_path.unwrap_or(&self.round_trip)
    }

    /// When to send a probe after a silence; `None` while other Interests will leave anyway.
    /// Source: RFC 9002, section 6.2.
    fn probe_at(&mut self) -> Option<Instant> {
        let is_sent_anyway =
            self.board.has_lost() || self.window.is_none() && self.board.next().is_some();
        if is_sent_anyway || self.board.out() == 0 {
            return None;
        }
        let trips = self.paths.iter().flatten().map(|path| &path.round_trip);
        let after = trips.chain([&self.round_trip]).filter_map(RoundTrip::overdue_after).max()?;
        let after = after.max(RESEND_AFTER_MIN);
        Some(self.recovery.silent_since + after * (1 << self.recovery.probes.min(BACKOFF_MAX)))
    }

    pub(super) fn lost_after(&self) -> Duration {
        let paths = self.paths.iter().flatten().map(|path| path.round_trip.lost_after());
        paths.max().unwrap_or(Duration::ZERO).max(self.round_trip.lost_after())
    }

    /// Sets the timer that looks for what is lost, unless one is set that fires before.
    pub(super) fn set_resend(&mut self, now: Instant, out: &mut Actions) {
        if self.board.out() == 0 && self.unread >= self.unread_max {
            return; // It goes on once the application has read.
        }
        let after = self.lost_after();
        // With nothing under way an Interest was refused: it is retransmitted.
        let late_at = self.board.oldest_at().map_or(now + after / 2, |at| at + after);
        let overtaken_at = self.board.tracks().filter_map(|track| {
            let reordering = self.reordering(track);
            self.board.overtaken_at(track, reordering)
        });
        let at = overtaken_at.min().into_iter().chain(self.probe_at()).fold(late_at, Ord::min);
        if let Some(at) = self.recovery.timer.arm(now, at) {
            out.timers.push((at, Timer::Resend(self.id)));
        }
    }

    pub(super) fn shrink(&mut self, now: Instant) {
        if let Some(window) = &mut self.window {
            window.shrink(now, self.round_trip.mean().unwrap_or_default());
        }
    }
}
