//! Estimation of the round-trip time from samples.

use std::time::Duration;

/// The estimator of RFC 6298, section 2: a smoothed round-trip time and its mean deviation, in
/// whole ticks of a clock of `TICK_NANOS` nanoseconds.
///
/// A caller samples no exchange that was sent twice, since the answer may be to either copy (Karn's
/// algorithm, section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rtt<const TICK_NANOS: u64 = 1> {
    // SRTT and RTTVAR, in ticks. `NONE` and zero before the first sample.
    smoothed: u64,
    deviation: u64,
}

const NONE: u64 = u64::MAX;
/// The longest sample, in ticks, so that no sum overflows: 73 years of nanoseconds.
const TICKS_MAX: u64 = u64::MAX / 8;

impl<const TICK_NANOS: u64> Default for Rtt<TICK_NANOS> {
    fn default() -> Self {
        Rtt { smoothed: NONE, deviation: 0 }
    }
}

impl<const TICK_NANOS: u64> Rtt<TICK_NANOS> {
    /// Takes a measured round-trip time R in.
    pub(crate) fn sample(&mut self, time: Duration) {
        // (2.3): RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R|, and then SRTT <- 7/8 SRTT + 1/8 R.
        self.take(time, |before, _| before);
    }

    /// Takes a measured time in, with its distance from the mean after this sample instead of the
    /// mean before it: a deviation that is smaller by an eighth.
    pub(crate) fn sample_moved(&mut self, time: Duration) {
        self.take(time, |_, after| after);
    }

    /// `mean` chooses from which mean, before or after the sample, the deviation is taken.
    fn take(&mut self, time: Duration, mean: impl FnOnce(u64, u64) -> u64) {
        let ticks = time.as_nanos() / u128::from(TICK_NANOS);
        let ticks = u64::try_from(ticks).unwrap_or(TICKS_MAX).min(TICKS_MAX);
        if self.smoothed == NONE {
            // (2.2): SRTT <- R, RTTVAR <- R/2.
            (self.smoothed, self.deviation) = (ticks, ticks / 2);
        } else {
            let before = self.smoothed;
            self.smoothed = (7 * before + ticks) / 8;
            let off = mean(before, self.smoothed).abs_diff(ticks);
            self.deviation = (3 * self.deviation + off) / 4;
        }
    }

    /// The smoothed round-trip time; `None` before the first sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed != NONE).then(|| time_of(self.smoothed, TICK_NANOS))
    }

    /// The mean deviation from it; zero before the first sample.
    pub(crate) fn deviation(&self) -> Duration {
        time_of(self.deviation, TICK_NANOS)
    }

    /// How long an answer is waited for: the smoothed time and four deviations, (2.3), at least
    /// `min` and at most `max`; `max` before the first sample. A tick is not added where the
    /// deviation is zero, as the RFC does: callers' `min` is longer.
    pub(crate) fn timeout(&self, min: Duration, max: Duration) -> Duration {
        self.smoothed().map_or(max, |smoothed| (smoothed + self.deviation() * 4).max(min).min(max))
    }
}

fn time_of(ticks: u64, tick_nanos: u64) -> Duration {
    Duration::from_nanos(ticks.saturating_mul(tick_nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_mean_is_an_eighth_nearer_to_the_sample() {
        let (mut rfc, mut moved) = (Rtt::<1>::default(), Rtt::<1>::default());
        for time in [800, 1_600].map(Duration::from_nanos) {
            rfc.sample(time);
            moved.sample_moved(time);
        }
        assert_eq!(rfc.smoothed(), Some(Duration::from_nanos(900)));
        assert_eq!(moved.smoothed(), rfc.smoothed());
        // (3 * 400 + |800 - 1600|) / 4, and (3 * 400 + |900 - 1600|) / 4.
        assert_eq!(rfc.deviation(), Duration::from_nanos(500));
        assert_eq!(moved.deviation(), Duration::from_nanos(475));
    }

    const SECOND: Duration = Duration::from_secs(1);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_first_sample_is_the_mean_and_half_of_it_the_deviation() {
        let mut rtt: Rtt = Rtt::default();
        assert_eq!((rtt.smoothed(), rtt.deviation()), (None, Duration::ZERO));
        assert_eq!(rtt.timeout(ms(10), SECOND), SECOND);
        rtt.sample(ms(100));
        assert_eq!((rtt.smoothed(), rtt.deviation()), (Some(ms(100)), ms(50)));
        assert_eq!(rtt.timeout(ms(10), SECOND), ms(300));
        assert_eq!(
            (rtt.timeout(ms(400), SECOND), rtt.timeout(ms(10), ms(200))),
            (ms(400), ms(200))
        );
    }

    #[test]
    fn the_deviation_is_taken_from_the_mean_before_the_sample() {
        let mut rtt: Rtt = Rtt::default();
        rtt.sample(ms(80));
        rtt.sample(ms(160));
        // 3/4 of 40 and 1/4 of 80; from the new mean, 90, it would be 47.5.
        assert_eq!((rtt.smoothed(), rtt.deviation()), (Some(ms(90)), ms(50)));
        (0..200).for_each(|_| rtt.sample(ms(160)));
        let smoothed = rtt.smoothed().expect("there are samples");
        assert!(ms(160) - smoothed < Duration::from_nanos(10), "{smoothed:?}");
        assert!(rtt.deviation() < Duration::from_nanos(20), "{:?}", rtt.deviation());
    }

    #[test]
    fn times_are_whole_ticks_of_the_clock() {
        let mut rtt = Rtt::<1_000>::default();
        rtt.sample(Duration::from_nanos(9_999));
        assert_eq!(rtt.smoothed(), Some(Duration::from_micros(9)));
        assert_eq!(rtt.deviation(), Duration::from_micros(4));
        rtt.sample(Duration::ZERO);
        assert_eq!(rtt.smoothed(), Some(Duration::from_micros(7)));
        assert_eq!(rtt.deviation(), Duration::from_micros(5));
    }

    #[test]
    fn no_sample_overflows() {
        let mut rtt = Rtt::<1_000_000>::default();
        let mut finest: Rtt = Rtt::default();
        for time in [Duration::MAX, Duration::ZERO, Duration::MAX, Duration::MAX] {
            rtt.sample(time);
            finest.sample(time);
            assert_eq!(rtt.timeout(SECOND, 2 * SECOND), 2 * SECOND);
            assert_eq!(finest.timeout(SECOND, 2 * SECOND), 2 * SECOND);
        }
    }
}
