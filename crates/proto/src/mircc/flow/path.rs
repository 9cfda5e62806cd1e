//! A path of a flow, and when its Interests are due.

use std::time::Duration;

use crate::core::Instant;
use crate::ndn::{PathLabel, Stamps};

/// Mean and deviation of round trips. Source: RFC 6298.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    mean: Option<Duration>,
    deviation: Duration,
}

/// The shortest time after which something is taken for lost.
const LOST_AFTER_MIN: Duration = Duration::from_millis(100);
/// The longest; also the time while no round trip is known.
const LOST_AFTER_MAX: Duration = Duration::from_secs(1);

impl RoundTrip {
    /// Takes in a round trip.
    pub(super) fn note(&mut self, sample: Duration) {
        match self.mean {
            None => (self.mean, self.deviation) = (Some(sample), sample / 2),
            Some(mean) => {
                let off = sample.abs_diff(mean);
                self.deviation = (self.deviation * 3 + off) / 4;
                self.mean = Some((mean * 7 + sample) / 8);
            }
        }
    }

    /// The mean, once there is one.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.mean
    }

    /// After how long without an answer something is lost.
    pub(super) fn lost_after(&self) -> Duration {
        let Some(mean) = self.mean else { return LOST_AFTER_MAX };
        let after = (mean + self.deviation * 4).max(mean * 2);
        after.max(LOST_AFTER_MIN).min(LOST_AFTER_MAX.max(mean * 2))
    }
}

/// A way to the object, as its label names it.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) label: PathLabel,
    pub(super) stamps: Stamps,
    pub(super) round_trip: RoundTrip,
    pub(super) sent_at: Instant,
    pub(super) heard_at: Instant,
    used: Used,
}

/// What a flow had of a path when it was its best one: the stamp of a path says what those have who
/// are there, not what is left of that once another comes.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    /// The rate that was stamped when the flow came, and what it was when it had settled.
    came_at: f64,
    got: f64,
    /// True while it is the best one.
    is_now: bool,
    /// Until when that is remembered, and how often it was found so.
    until: Option<Instant>,
    times: u32,
}

/// Round trips for which it is remembered what a path gave; twice as many each time.
const REMEMBERED_TRIPS: u32 = 64;
const REMEMBERED_TIMES_MAX: u32 = 6;

impl Path {
    pub(super) fn new(label: PathLabel, now: Instant) -> Path {
        Path {
            label,
            stamps: Stamps::default(),
            round_trip: RoundTrip::default(),
            sent_at: now,
            heard_at: now,
            used: Used::default(),
        }
    }

    /// The flow comes to use it as its best.
    pub(super) fn join(&mut self) {
        let came_at = self.primary();
        self.used = Used { came_at, got: came_at, is_now: true, until: None, ..self.used };
    }

    /// It is the best, and rates have settled.
    pub(super) fn note_used(&mut self) {
        self.used.got = self.primary();
    }

    /// It is not, and rates have settled.
    pub(super) fn note_unused(&mut self, now: Instant, trip: Duration) {
        let used = &mut self.used;
        if !std::mem::take(&mut used.is_now) {
            return;
        }
        let stamp = self.stamps.primary().map_or(0.0, |rate| rate as f64);
        // What others have there now that the flow has gone is what it would see before it came.
        used.came_at = stamp;
        used.until = Some(now + trip * (REMEMBERED_TRIPS << used.times));
        used.times = (used.times + 1).min(REMEMBERED_TIMES_MAX);
    }

    /// What a flow may expect of it that does not use it: what it had before, as far as the stamps
    /// are what they were then; at least what nobody uses.
    pub(super) fn expected(&self, now: Instant) -> f64 {
        let Used { came_at, got, until, .. } = self.used;
        let stamp = self.primary();
        if until.is_none_or(|until| until < now) || came_at <= 0.0 {
            return stamp;
        }
        (got * stamp / came_at).max(self.secondary()).min(stamp)
    }

    /// Rate for primary Interests, bit/s; 0 if none was stamped.
    pub(super) fn primary(&self) -> f64 {
        self.stamps.primary().map_or(0.0, |rate| rate as f64)
    }

    /// Rate for secondary Interests, bit/s; 0 if none was stamped.
    pub(super) fn secondary(&self) -> f64 {
        self.stamps.secondary().map_or(0.0, |rate| rate as f64)
    }

    /// True if it was asked and has been silent for long.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        let patience = (self.round_trip.lost_after() * 4).max(LOST_AFTER_MAX);
        self.sent_at > self.heard_at && now > self.heard_at + patience
    }
}

/// A row of Interests at one rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    /// Rate, bit/s of Data; 0 sends nothing.
    pub(super) rate: f64,
    /// The last one's time, by the rate.
    pub(super) last: Instant,
    // The timer that is set, and its number.
    set_for: Option<Instant>,
    number: u16,
}

impl Lane {
    /// The number of the timer to set for `due`, unless one is set that will do.
    pub(super) fn set(&mut self, now: Instant, due: Instant) -> Option<u16> {
        if let Some(set_for) = self.set_for {
            // It is asked again when it fires, so early is well. A little late is, too: a rate that
            // keeps changing would otherwise set a timer each time.
            let slack = (set_for.since(now)) / 16;
            if set_for <= due + slack {
                return None;
            }
        }
        self.number = self.number.wrapping_add(1);
        self.set_for = Some(due.max(now));
        Some(self.number)
    }

    /// True if the timer of this number is the one that counts; it is set no more.
    pub(super) fn fire(&mut self, number: u16) -> bool {
        let counts = self.number == number && self.set_for.is_some();
        if counts {
            self.set_for = None;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    fn stamp(path: &mut Path, primary: u64, secondary: u64) {
        path.stamps =
            Stamps { primary_bits_per_second: primary, secondary_bits_per_second: secondary };
    }

    /// A path that was stamped 1,800, gave 900 when it was used, and was left after that.
    fn left() -> Path {
        let mut path = Path::new(PathLabel::EMPTY, at(0));
        stamp(&mut path, 1_800, 1);
        assert_eq!(path.expected(at(0)), 1_800.0, "it was never used");
        path.join();
        stamp(&mut path, 900, 1);
        path.note_used();
        stamp(&mut path, 1_800, 1);
        path.note_unused(at(100), TRIP);
        path
    }

    #[test]
    fn a_path_is_expected_to_give_what_it_gave_and_not_what_others_have_there() {
        let mut path = left();
        assert_eq!(path.expected(at(101)), 900.0);
        // As its stamps change, so does that.
        stamp(&mut path, 3_600, 1);
        assert_eq!(path.expected(at(101)), 1_800.0);
        stamp(&mut path, 200, 1);
        assert_eq!(path.expected(at(101)), 100.0);
        // What nobody uses is there for whoever comes.
        stamp(&mut path, 1_800, 1_500);
        assert_eq!(path.expected(at(101)), 1_500.0);
    }

    #[test]
    fn what_it_gave_is_forgotten_and_later_each_time_that_it_was_so() {
        let mut path = left();
        let until = at(100) + TRIP * REMEMBERED_TRIPS;
        assert_eq!(path.expected(until), 900.0);
        assert_eq!(path.expected(until + TRIP), 1_800.0);
        path.join();
        stamp(&mut path, 900, 1);
        path.note_used();
        stamp(&mut path, 1_800, 1);
        path.note_unused(until, TRIP);
        let until = until + TRIP * REMEMBERED_TRIPS * 2;
        assert_eq!(path.expected(until), 900.0);
        assert_eq!(path.expected(until + TRIP), 1_800.0);
    }
}
