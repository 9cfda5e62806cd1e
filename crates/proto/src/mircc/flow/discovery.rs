//! How a flow looks for paths: Interests whose next hops are drawn at random.

use std::time::Duration;

use super::track::TrackId;
use super::{Flow, NO_PATH, ROUND_TRIP_GUESS, Wishes};
use crate::core::{Instant, Rng};
use crate::mircc::config::Config;
use crate::mircc::interface::{Multipath, Timer};
use crate::ndn::{Class, Header};
use crate::parts::pacer::time_for;

/// Interests that look for paths at the beginning of a flow, two a round trip.
const FIRST_LOOKS: u32 = 8;
/// Looks in a row without a new path after which they become rare: a path that one look in 16 takes
/// is then still unknown once in 60 flows.
const FRUITLESS_LOOKS: u32 = 64;
/// The same while one path is known. If any forwarder on it has a choice, at least half of the
/// looks leave it; but on a full link looks are the first to be dropped.
const FRUITLESS_LOOKS_ALONE: u32 = 16;
/// Share of the stamped rate that looks after the first ones take at most.
const LOOKS_SHARE: f64 = 1.0 / 8.0;

/// What came of looking for paths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Discovery {
    looks: u32,
    /// Looks since the last one that found a path.
    fruitless: u32,
    is_set: bool,
}

impl Discovery {
    /// A path was found that was not known.
    pub(super) fn note_found(&mut self) {
        self.fruitless = 0;
    }

    /// True if a timer is set for the next look.
    pub(super) fn is_set(&self) -> bool {
        self.is_set
    }
}

impl Flow {
    /// The time to look for paths has come.
    pub(in crate::mircc) fn discover(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
        out: &mut Wishes,
    ) {
        self.discovery.is_set = false;
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
                self.limit.pass(now, self.data_bits, self.rate_max);
            }
            self.discovery.looks = self.discovery.looks.saturating_add(1);
            self.discovery.fruitless = self.discovery.fruitless.saturating_add(1);
        }
        self.set_resend(now, out);
        // Of what was resent nobody knows the round trip: that is no reason to look with each Data.
        let mean = self.round_trip.mean().or(self.is_data_known.then_some(ROUND_TRIP_GUESS));
        if let Some(mean) = mean {
            let after = self.look_after(mean, config).max(Duration::from_millis(1));
            self.discovery.is_set = true;
            out.timers.push((now + after, Timer::Discover(self.id)));
        }
    }

    /// The time from one look to the next: until no more paths are found as often as a part of the
    /// rate allows, and then once in `discover_every`.
    fn look_after(&self, mean: Duration, config: &Config) -> Duration {
        if self.discovery.looks < FIRST_LOOKS {
            return mean / 2;
        }
        let is_alone = self.paths.iter().flatten().count() == 1;
        let enough = if is_alone { FRUITLESS_LOOKS_ALONE } else { FRUITLESS_LOOKS };
        let best = self.best.and_then(|best| self.paths[best].as_ref());
        let Some(best) = best.filter(|_| self.discovery.fruitless < enough) else {
            return config.discover_every;
        };
        let rate = best.primary().min(self.rate_max) * LOOKS_SHARE;
        time_for(self.data_bits, rate.max(1.0)).max(mean / 2).min(config.discover_every)
    }
}
