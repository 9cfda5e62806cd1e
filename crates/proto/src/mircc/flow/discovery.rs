//! How a flow discovers paths: by Interests whose next hops forwarders draw at random.

use std::time::Duration;

use super::track::TrackId;
use super::{Actions, Flow, NO_PATH, ROUND_TRIP_GUESS};
use crate::core::{Instant, Rng};
use crate::mircc::config::Config;
use crate::mircc::interface::{Multipath, Timer};
use crate::ndn::{Class, Header};
use crate::parts::deadline::Deadline;
use crate::parts::token_bucket::time_for;

/// Discovery Interests at the beginning of a flow, two a round trip.
const FIRST: u32 = 8;
/// Evidence from an answer over a known path that there are no other paths. An unanswered Interest
/// counts 1: on a full link discovery Interests are dropped first.
const EVIDENCE_OF_ANSWER: u32 = 4;
/// The evidence after which discovery becomes rare, that of 64 answers: a path that one Interest in
/// 16 takes is then still unknown once in 60 flows.
const EVIDENCE_ENOUGH: u32 = 64 * EVIDENCE_OF_ANSWER;
/// The same while one path is known. If any forwarder on it has a choice, at least half of the
/// discovery Interests leave it.
const EVIDENCE_ENOUGH_ALONE: u32 = 16 * EVIDENCE_OF_ANSWER;
/// Share of the stamped rate that discovery takes at most after its first Interests.
const RATE_SHARE: f64 = 1.0 / 8.0;

/// The state of a flow's discovery of paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Discovery {
    /// Discovery Interests sent.
    sent: u32,
    /// Evidence, since the last new path, that all paths are known.
    evidence: u32,
    timer: Deadline,
}

impl Discovery {
    /// A new path was found.
    pub(super) fn note_found(&mut self) {
        self.evidence = 0;
    }

    /// A discovery Interest was answered over a path that was known.
    pub(super) fn note_known(&mut self) {
        self.evidence = self.evidence.saturating_add(EVIDENCE_OF_ANSWER - 1);
    }

    /// True if a timer is set for the next discovery Interest.
    pub(super) fn is_set(&self) -> bool {
        self.timer.is_armed()
    }
}

impl Flow {
    /// The discovery timer has fired.
    pub(in crate::mircc) fn handle_discover(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) {
        if self.discovery.timer.fired(now) {
            self.discover(now, config, rng, out);
        }
    }

    /// Sends a discovery Interest if there is one to send, and sets the timer for the next.
    pub(in crate::mircc) fn discover(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) {
        if self.window.is_some() {
            return;
        }
        // Until the first Data has come there is one Interest under way, which the timer resends.
        let may = self.is_data_known || self.board.out() == 0;
        let class = match self.multipath {
            Multipath::Dual if self.is_data_known => Class::Secondary,
            _ => Class::Primary,
        };
        let track = TrackId { path: NO_PATH, class, discovers: true };
        if may && let Some(interest) = self.interest(now, track, rng) {
            let header = Header { discovers: true, ..self.header(class, None, config) };
            out.interests.push((header, interest));
            if self.rate_max.is_finite() {
                self.limit.take(now, self.data_bits, self.rate_max);
            }
            self.discovery.sent = self.discovery.sent.saturating_add(1);
            self.discovery.evidence = self.discovery.evidence.saturating_add(1);
        }
        self.set_resend(now, out);
        // Retransmitted Interests have no round-trip time: that is no reason to discover with each
        // Data.
        let mean = self.round_trip.mean().or(self.is_data_known.then_some(ROUND_TRIP_GUESS));
        if let Some(mean) = mean {
            let after = self.discover_after(mean, config).max(Duration::from_millis(1));
            if let Some(at) = self.discovery.timer.arm(now, now + after) {
                out.timers.push((at, Timer::Discover(self.id)));
            }
        }
    }

    /// The time from one discovery Interest to the next: by a share of the rate while there may be
    /// more paths, and then `discover_every`.
    fn discover_after(&self, mean: Duration, config: &Config) -> Duration {
        if self.discovery.sent < FIRST {
            return mean / 2;
        }
        let is_alone = self.paths.iter().flatten().count() == 1;
        let enough = if is_alone { EVIDENCE_ENOUGH_ALONE } else { EVIDENCE_ENOUGH };
        let best = self.best.and_then(|best| self.paths[best].as_ref());
        let Some(best) = best.filter(|_| self.discovery.evidence < enough) else {
            return config.discover_every;
        };
        let rate = best.primary().min(self.rate_max) * RATE_SHARE;
        time_for(self.data_bits, rate.max(1.0)).max(mean / 2).min(config.discover_every)
    }
}
