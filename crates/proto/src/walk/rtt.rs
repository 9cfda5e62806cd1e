//! Round-trip times of walks, and their time-outs.
//!
//! Each constant names its source; "ours" marks a value that no source gives. Half and twice such a
//! value have not been measured.

use std::time::Duration;

use crate::core::Instant;
use crate::parts::rtt::Rtt;

/// The hops over which a sample is taken to be averaged. Within this many hops, deviations of
/// single hops are taken as fully correlated.
///
/// Ours.
const HOPS: u64 = 8;

/// Deviations that a time-out adds to the smoothed time. Source: K of RFC 6298, section 2.
const DEVIATIONS: u32 = 4;

/// An estimate of times, and of how many it is made. The text of the slides gives no estimator:
/// this is that of RFC 6298, with the deviation from the mean that a sample has moved already. The
/// published losses and queue lengths are met with it, and not with the deviation of the RFC's
/// order (`paceline reproduce walk`).
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrip {
    rtt: Rtt,
    samples: u64,
}

impl RoundTrip {
    /// Takes a measured time in.
    pub fn sample(&mut self, time: Duration) {
        self.rtt.sample_moved(time);
        self.samples += 1;
    }

    /// How many times were taken in.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The time after which a walk is presumed lost: the smoothed time and four deviations; zero
    /// before the first sample.
    pub fn timeout(&self) -> Duration {
        self.rtt.smoothed().unwrap_or_default() + DEVIATIONS * self.rtt.deviation()
    }

    /// Timeout for `hops` hops, where the samples are per-hop averages over walks of some [`HOPS`].
    /// The deviations of independent hops add up by their squares.
    pub fn timeout_of(&self, hops: u32) -> Duration {
        let deviations = (HOPS * u64::from(hops)).isqrt() as u32;
        let smoothed = self.rtt.smoothed().unwrap_or_default().saturating_mul(hops);
        let deviation = self.rtt.deviation().saturating_mul(DEVIATIONS * deviations.min(hops));
        smoothed.saturating_add(deviation)
    }
}

/// The largest stretch.
///
/// Ours.
const STRETCH_MAX: f64 = 8.0;
/// When this share of the walks under way has come home late, the stretch has risen by one.
///
/// Ours: so about one walk in a hundred is re-executed without need.
const LATE_SHARE: f64 = 1.0 / 64.0;
/// The most that a single late walk adds to the stretch, where few are under way.
///
/// Ours.
const LATE_WEIGHT_MAX: f64 = 0.25;
/// The decrease of the stretch in a second.
///
/// Ours: from its maximum it falls to 1 in less than two seconds.
const STRETCH_FALL: f64 = 4.0;

/// Factor by which the time-out of [`RoundTrip`] is stretched: 1, and more for a while after
/// walkers came home late. The time-out of walks that do get lost does not grow without bound, as
/// it would if it doubled with each attempt (RFC 6298, section 5.5). Source of the idea, to detect
/// spurious time-outs: RFC 3522 (Eifel).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TimeoutStretch {
    more: f64,
    at: Instant,
}

impl TimeoutStretch {
    /// The factor.
    pub(super) fn factor(self, now: Instant) -> f64 {
        1.0 + (self.more - STRETCH_FALL * now.since(self.at).as_secs_f64()).max(0.0)
    }

    /// A walk that had been presumed lost has come home. `of`: about how many walks are under way.
    pub(super) fn on_late(&mut self, now: Instant, of: usize) {
        let weight = (1.0 / (LATE_SHARE * of as f64)).min(LATE_WEIGHT_MAX);
        self.more = (self.factor(now) + weight).min(STRETCH_MAX) - 1.0;
        self.at = now;
    }
}

/// A time of more than this many times the least is late: queues make it so.
///
/// Ours. Vegas compares with the least time as well (BaseRTT), by packets in queues.
const LATE_FACTOR: u64 = 8;
/// No time up to this is late: a busy processor takes its turns.
///
/// Ours.
const LATE_MIN: Duration = Duration::from_millis(10);
/// Within this time the least rises to twice its value or more, so that longer ways are learned.
///
/// Ours.
const LEAST_DOUBLES_IN: Duration = Duration::from_secs(64);

/// Detects times so long that walkers must wait somewhere. They may wait where no queue marks them,
/// as in the buffer of a socket whose owner is busy. As in delay-based congestion control: Brakmo
/// and Peterson, *TCP Vegas*, 1995.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayDetector {
    least_nanos: Option<u64>,
    looked: Instant,
}

impl DelayDetector {
    /// Takes a measured time in; whether it is late.
    pub(super) fn sample(&mut self, now: Instant, time: Duration) -> bool {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(1);
        let least = self.least_nanos.map_or(nanos, |least| {
            let since = now.since(self.looked).min(LEAST_DOUBLES_IN);
            let drift = u128::from(least) * since.as_nanos() / LEAST_DOUBLES_IN.as_nanos();
            least.saturating_add(drift as u64).min(nanos)
        });
        // What has drifted by less than a nanosecond has time to.
        if self.least_nanos != Some(least) {
            (self.least_nanos, self.looked) = (Some(least), now);
        }
        time > Duration::from_nanos(least.saturating_mul(LATE_FACTOR)).max(LATE_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_of_many_hops_do_not_add_up_one_by_one() {
        let mut trip = RoundTrip::default();
        trip.sample(Duration::from_millis(8));
        let millis = |hops| trip.timeout_of(hops).as_millis();
        // 8 ms and a deviation of 4.
        assert_eq!((millis(1), millis(8)), (24, 192));
        assert_eq!((millis(32), millis(0)), (32 * 8 + 16 * 16, 0));
    }

    #[test]
    fn who_is_missed_wrongly_is_waited_for_longer_for_a_while() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut stretch = TimeoutStretch::default();
        assert_eq!(stretch.factor(at(0)), 1.0);
        stretch.on_late(at(0), 6400);
        assert_eq!(stretch.factor(at(0)), 1.01, "one of many says little");
        stretch.on_late(at(10), 0);
        assert_eq!(stretch.factor(at(10)), 1.25, "and so does one of few");
        (0..1000).for_each(|_| stretch.on_late(at(20), 6400));
        assert_eq!(stretch.factor(at(20)), 8.0);
        assert_eq!((stretch.factor(at(1020)), stretch.factor(at(2020))), (4.0, 1.0));
        // One in a thousand of 100,000 a second, and one in ten.
        let mut after = |one_in: u64| {
            (0..200).for_each(|late| stretch.on_late(at(10_000 + late * one_in / 100), 10_000));
            stretch.factor(at(10_000 + 2 * one_in))
        };
        assert!(after(1000) < 1.1);
        assert!(after(10) > 2.0);
    }

    #[test]
    fn late_is_what_takes_many_times_the_least_until_that_is_forgotten() {
        let mut detector = DelayDetector::default();
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let milli = Duration::from_millis;
        assert!(!detector.sample(at(0), milli(500)), "the first may be as long as it likes");
        assert!(!detector.sample(at(1), milli(2)));
        assert!(!detector.sample(at(2), milli(16)));
        assert!(detector.sample(at(3), milli(17)));
        assert!(!detector.sample(at(4), Duration::from_micros(50)));
        assert!(!detector.sample(at(5), milli(10)), "a busy processor is no queue");
        assert!(detector.sample(at(6), milli(11)));
        // The way has become longer, and stays so.
        let late = (1..=600).filter(|second| detector.sample(at(second * 1000), milli(40))).count();
        assert!((250..350).contains(&late), "{late} of 600");
    }
}
