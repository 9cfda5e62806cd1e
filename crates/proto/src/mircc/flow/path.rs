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
}

impl Path {
    pub(super) fn new(label: PathLabel, now: Instant) -> Path {
        Path {
            label,
            stamps: Stamps::default(),
            round_trip: RoundTrip::default(),
            sent_at: now,
            heard_at: now,
        }
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
