//! Feedback suppression: when a receiver reports, and when it does not.

use std::time::Duration;

use crate::core::Rng;

/// Groups of at most this number of members do without: each receiver reports once a round.
pub(crate) const SMALL_GROUP: usize = 16;
/// Upper bound of the number of receivers for which timers are spread. Source: RFC 4654, 4.5, N.
const RECEIVERS_MAX: f64 = 10_000.0;
/// The part of the time that depends on the rate. Source: RFC 4654, section 4.5.
const BIASED_SHARE: f64 = 0.25;
/// The ratios of wanted and allowed rate between which the bias grows.
const RATIO_LEAST: f64 = 0.5;
const RATIO_MOST: f64 = 0.9;
/// A report is cancelled unless its rate is lower than an announced one by this factor. Source:
/// RFC 4654, section 4.5, g = 0.1.
const LOWER: f64 = 0.9;

/// How long a receiver waits in a round of this length before it reports: the less it wants of what
/// is allowed, the sooner. With exponential timers few receivers report first, however many there
/// are.
/// Source: RFC 4654, section 4.5.
pub(crate) fn wait(round: Duration, wanted: f64, allowed: f64, rng: &mut Rng) -> Duration {
    let ratio = (wanted / allowed.max(1.0)).clamp(RATIO_LEAST, RATIO_MOST);
    let bias = (ratio - RATIO_LEAST) / (RATIO_MOST - RATIO_LEAST);
    // From above 0 to 1.
    let drawn = 1.0 - rng.unit();
    let spread = (1.0 + drawn.ln() / RECEIVERS_MAX.ln()).clamp(0.0, 1.0);
    round.mul_f64(BIASED_SHARE * bias + (1.0 - BIASED_SHARE) * spread)
}

/// True if a receiver that wants this rate need not report once another rate is announced.
pub(crate) fn is_suppressed(wanted: f64, announced: f64) -> bool {
    wanted >= LOWER * announced
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(600);

    fn first_of(receivers: usize, ratio: f64, rng: &mut Rng) -> Duration {
        let waits = (0..receivers).map(|_| wait(ROUND, ratio * 1e6, 1e6, rng));
        waits.min().expect("there are receivers")
    }

    #[test]
    fn every_wait_is_within_the_round_and_lower_rates_wait_less() {
        let mut rng = Rng::new(1, 1);
        let mut mean = |ratio: f64| {
            let waits: Vec<Duration> =
                (0..2_000).map(|_| wait(ROUND, ratio * 1e6, 1e6, &mut rng)).collect();
            assert!(waits.iter().all(|&wait| wait <= ROUND));
            waits.iter().sum::<Duration>() / waits.len() as u32
        };
        let (low, high) = (mean(0.3), mean(1.5));
        assert!(high - low > ROUND / 5 && high - low < ROUND / 3, "{low:?} {high:?}");
    }

    #[test]
    fn few_of_a_thousand_receivers_report_within_a_round_trip_of_the_first() {
        let mut rng = Rng::new(1, 1);
        let mut reports = 0;
        for _ in 0..50 {
            let mut waits: Vec<Duration> =
                (0..1_000).map(|_| wait(ROUND, 1e6, 1e6, &mut rng)).collect();
            waits.sort();
            // A round trip is a sixth of the round.
            reports += waits.iter().filter(|&&wait| wait <= waits[0] + ROUND / 6).count();
        }
        assert!(reports / 50 < 30, "{} a round", reports / 50);
        assert!(first_of(1_000, 0.5, &mut rng) < ROUND / 2);
    }

    #[test]
    fn an_announced_rate_suppresses_what_is_not_clearly_lower() {
        assert!(is_suppressed(100.0, 100.0) && is_suppressed(91.0, 100.0));
        assert!(!is_suppressed(89.0, 100.0) && !is_suppressed(1e9, f64::from(u32::MAX)));
        let mut rng = Rng::new(1, 1);
        assert!(wait(ROUND, 0.0, 0.0, &mut rng) <= ROUND, "no rate makes it panic");
    }
}
