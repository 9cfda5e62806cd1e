//! Clocks that are ahead of others and go at rates of their own.

use std::time::Duration;

use paceline_proto::core::{Instant, Rng};

/// What a node goes by instead of the time of the run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// What it shows when the run begins.
    offset: Duration,
    /// How fast it goes, in millionths more than 10^6.
    drift_ppm: i64,
}

impl Clock {
    /// A clock that is up to six hours ahead, and gains or loses up to this.
    pub fn draw(rng: &mut Rng, drift_ppm_max: u32) -> Clock {
        let offset = Duration::from_nanos(rng.next_u64() % (6 * 3_600 * 1_000_000_000));
        let drift_ppm = i64::from(rng.below(2 * drift_ppm_max + 1)) - i64::from(drift_ppm_max);
        Clock { offset, drift_ppm }
    }

    fn rate_ppm(self) -> u128 {
        (1_000_000 + self.drift_ppm) as u128
    }

    /// What it shows at this time of the run.
    pub fn shows(self, at: Instant) -> Instant {
        let gone = u128::from(at.as_nanos()) * self.rate_ppm() / 1_000_000;
        Instant::from_nanos(gone as u64) + self.offset
    }

    /// The first time of the run at which it shows this.
    pub fn time(self, shown: Instant) -> Instant {
        let gone = u128::from(shown.as_nanos().saturating_sub(self.offset.as_nanos() as u64));
        let time = (gone * 1_000_000).div_ceil(self.rate_ppm());
        Instant::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_a_time_from_then_on_and_not_before() {
        let mut rng = Rng::new(3, 4);
        let mut apart = 0;
        for _ in 0..1_000 {
            let clock = Clock::draw(&mut rng, 10_000);
            let at = Instant::from_nanos(rng.next_u64() >> 24);
            let shown = clock.shows(at);
            assert!(clock.time(shown) <= at);
            let later = shown + Duration::from_nanos(u64::from(rng.next_u32()));
            let time = clock.time(later);
            assert!(clock.shows(time) >= later);
            assert!(clock.shows(Instant::from_nanos(time.as_nanos() - 1)) < later);
            apart += u64::from(shown > at + Duration::from_secs(3_600));
        }
        assert!(apart > 500, "{apart} clocks were an hour ahead");
    }
}
