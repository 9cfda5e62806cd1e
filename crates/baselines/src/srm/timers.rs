//! What the random times are drawn from, and how that adapts.

use std::time::Duration;

use paceline_proto::core::Rng;

use super::config::{Factors, Timers};

/// The weight of a new sample in an average, as in ns-2.
const NEW_WEIGHT: f64 = 0.25;
/// As many duplicates as are wanted for each loss, and round trips that recovery may take.
const DUPLICATES: f64 = 1.0;
const DELAY: f64 = 1.0;
/// How far the number of duplicates may fall below its target before the times are shortened.
const SLACK: f64 = 0.1;
/// Another that is farther away than this many times one's own distance should not have come first.
const FARTHER: f64 = 1.5;

/// One of the two times: to a request, or to a repair.
#[derive(Debug)]
pub(super) struct Spread {
    start: f64,
    width: f64,
    adapts: Option<Adapts>,
}

/// What a time adapts to, and its bounds.
#[derive(Debug)]
struct Adapts {
    /// 0 if the averages are all there is to go by from the first use on.
    start_max: f64,
    width_max: f64,
    /// Duplicates since the last use, and their average.
    new_duplicates: u32,
    duplicates: Option<f64>,
    /// Average time until it ended, in round trips.
    delay: Option<f64>,
    /// This member came first, as it should: it is the closest.
    is_closest: bool,
}

impl Spread {
    /// The times to requests, and to repairs.
    pub(super) fn both(timers: Timers) -> [Spread; 2] {
        let fixed = |start, width| Spread { start, width, adapts: None };
        match timers {
            Timers::Fixed(Factors { c1, c2, d1, d2 }) => [fixed(c1, c2), fixed(d1, d2)],
            Timers::Adaptive => {
                let adapts = || Adapts {
                    start_max: 2.0,
                    width_max: 1.0,
                    new_duplicates: 0,
                    duplicates: None,
                    delay: None,
                    is_closest: false,
                };
                let adaptive = |start, width| Spread { start, width, adapts: Some(adapts()) };
                // The start of repairs is the logarithm of the group's size, which comes later.
                [adaptive(2.0, 2.0), adaptive(f64::MAX, f64::MAX)]
            }
        }
    }

    /// The group has `members` members. Source: ns-2, bounds of C2, D1 and D2; D1 and D2 begin with
    /// the logarithm of the group's size.
    pub(super) fn set_group_size(&mut self, members: usize, is_for_repairs: bool) {
        let Some(adapts) = &mut self.adapts else { return };
        let members = members.max(1) as f64;
        adapts.width_max = members.max(1.0);
        if is_for_repairs {
            adapts.start_max = members.log10().max(0.5);
            if adapts.delay.is_none() {
                (self.start, self.width) = (members.log10(), members.log10());
            }
        }
        self.clamp();
    }

    /// Draws a time for this distance, upon a loss or a request for a held packet.
    pub(super) fn begin(&mut self, distance: Duration, rng: &mut Rng) -> Duration {
        self.adapt();
        self.draw(distance, rng)
    }

    /// A time for this distance.
    pub(super) fn draw(&self, distance: Duration, rng: &mut Rng) -> Duration {
        distance.mul_f64(self.start + self.width * rng.unit())
    }

    /// The timer ended after this time, because the member sent or because it heard another one.
    pub(super) fn ended(&mut self, after: Duration, distance: Duration) {
        let Some(adapts) = &mut self.adapts else { return };
        let round_trip = (2.0 * distance.as_secs_f64()).max(1e-9);
        average(&mut adapts.delay, after.as_secs_f64() / round_trip);
    }

    /// This member is the first to send.
    pub(super) fn is_first(&mut self) {
        let Some(adapts) = &mut self.adapts else { return };
        adapts.is_closest = true;
        self.start -= 0.1;
        self.clamp();
    }

    /// Another member has sent the same. `sent` is true if this member had sent it too, so that the
    /// distances can be compared.
    pub(super) fn duplicate(&mut self, sent: bool, own: Duration, other: Duration) {
        let Some(adapts) = &mut self.adapts else { return };
        adapts.new_duplicates = adapts.new_duplicates.saturating_add(1);
        if sent {
            adapts.is_closest = other > own.mul_f64(FARTHER);
        }
    }

    /// Start and width, in distances.
    pub(super) fn factors(&self) -> (f64, f64) {
        (self.start, self.width)
    }

    /// Recomputes the timer parameters. Source: adaptive SRM of ns-2.
    fn adapt(&mut self) {
        let Some(adapts) = &mut self.adapts else { return };
        let Some(delay) = adapts.delay else { return };
        let duplicates = average(&mut adapts.duplicates, f64::from(adapts.new_duplicates));
        adapts.new_duplicates = 0;
        if std::mem::take(&mut adapts.is_closest) {
            self.width -= 0.1;
        } else if duplicates >= DUPLICATES {
            self.start += 0.1;
            self.width += 0.5;
        } else if duplicates < DUPLICATES - SLACK {
            if delay > DELAY {
                self.width -= 0.1;
            }
            if duplicates < 0.25 {
                self.start -= 0.05;
            }
        } else {
            self.start += 0.05;
        }
        self.clamp();
    }

    fn clamp(&mut self) {
        if let Some(adapts) = &self.adapts {
            self.start = self.start.clamp(0.5, adapts.start_max);
            self.width = self.width.clamp(1.0, adapts.width_max);
        }
    }
}

fn average(average: &mut Option<f64>, new: f64) -> f64 {
    let moved = average.map_or(new, |old| (1.0 - NEW_WEIGHT) * old + NEW_WEIGHT * new);
    *average = Some(moved);
    moved
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: Duration = Duration::from_secs(1);

    /// The spread of requests after losses that had this many duplicates each, and took so long.
    fn adapted(losses: u32, duplicates: u32, after: Duration) -> (f64, f64) {
        let [mut requests, _] = Spread::both(Timers::Adaptive);
        requests.set_group_size(64, false);
        let mut rng = Rng::new(1, 1);
        for _ in 0..losses {
            requests.begin(D, &mut rng);
            (0..duplicates).for_each(|_| requests.duplicate(false, D, D));
            requests.ended(after, D);
        }
        requests.begin(D, &mut rng);
        requests.factors()
    }

    fn assert_near((start, width): (f64, f64), expected: (f64, f64)) {
        let is_near = (start - expected.0).abs() < 1e-9 && (width - expected.1).abs() < 1e-9;
        assert!(is_near, "{start} {width}, expected {expected:?}");
    }

    #[test]
    fn fixed_factors_stay() {
        let [mut requests, mut repairs] = Spread::both(Timers::Fixed(Factors::default()));
        for spread in [&mut requests, &mut repairs] {
            spread.set_group_size(64, true);
            spread.duplicate(true, D, D);
            spread.ended(D, D);
            spread.is_first();
        }
        assert_eq!((requests.factors(), repairs.factors()), ((2.0, 2.0), (1.0, 1.0)));
    }

    #[test]
    fn duplicates_make_the_times_longer_up_to_their_bounds() {
        // The start has its greatest value already.
        assert_near(adapted(1, 3, D), (2.0, 2.5));
        assert_near(adapted(4, 3, D), (2.0, 4.0));
        assert_near(adapted(1000, 3, D), (2.0, 64.0));
    }

    #[test]
    fn long_times_without_duplicates_become_shorter_down_to_their_bounds() {
        let slow = 3 * D;
        assert_near(adapted(1, 0, slow), (1.95, 1.9));
        // Two distances are a round trip, which is not too long.
        assert_near(adapted(1, 0, D), (1.95, 2.0));
        assert_near(adapted(1000, 0, slow), (0.5, 1.0));
    }

    #[test]
    fn who_is_closest_asks_sooner() {
        let [mut requests, _] = Spread::both(Timers::Adaptive);
        requests.set_group_size(64, false);
        let mut rng = Rng::new(1, 1);
        requests.begin(D, &mut rng);
        requests.is_first();
        requests.ended(D, D);
        assert_near(requests.factors(), (1.9, 2.0));
        requests.begin(D, &mut rng);
        assert_near(requests.factors(), (1.9, 1.9));
        // Another request, from as close, has come too: the duplicates decide.
        requests.is_first();
        requests.duplicate(true, D, D);
        requests.begin(D, &mut rng);
        assert_near(requests.factors(), (1.8, 1.9));
        // A member much farther away should have waited.
        requests.is_first();
        requests.duplicate(true, D, 2 * D);
        requests.begin(D, &mut rng);
        assert_near(requests.factors(), (1.7, 1.8));
    }

    #[test]
    fn repairs_begin_with_the_logarithm_of_the_group() {
        let [_, mut repairs] = Spread::both(Timers::Adaptive);
        repairs.set_group_size(100, true);
        assert_near(repairs.factors(), (2.0, 2.0));
        repairs.set_group_size(2, true);
        assert_near(repairs.factors(), (0.5, 1.0));
    }
}
