//! The throughput equation of TCP, and its inverse.

use std::time::Duration;

/// Lowest loss event rate that the inverse returns.
const LOSS_MIN: f64 = 1e-9;
/// Halvings of the interval of the inverse, in which the error falls below 1e-6 of the result.
const HALVINGS: usize = 32;

/// The rate, bytes a second, of a TCP connection with this loss event rate, 0 to 1:
///
/// ```text
/// X = s / (R sqrt(2 b p / 3) + t_RTO (3 sqrt(3 b p / 8) p (1 + 32 p^2))),  b = 1,  t_RTO = 4 R
/// ```
///
/// Source: RFC 5348, section 3.1. Above zero and finite for any loss rate: one below
/// 1e-9 counts as that.
pub(crate) fn throughput(packet_bytes: f64, round_trip: Duration, loss: f64) -> f64 {
    let p = loss.clamp(LOSS_MIN, 1.0);
    let r = round_trip.as_secs_f64().max(1e-6);
    let fast = (2.0 * p / 3.0).sqrt();
    let timeout = 4.0 * 3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
    packet_bytes.max(1.0) / (r * (fast + timeout))
}

/// The loss event rate at which the equation gives this rate: the inverse of [`throughput`], by
/// bisection of the exponent. Source: RFC 5348, section 6.3.1.
pub(crate) fn loss_event_rate(
    packet_bytes: f64,
    round_trip: Duration,
    bytes_per_second: f64,
) -> f64 {
    let (mut low, mut high) = (LOSS_MIN, 1.0f64);
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if throughput(packet_bytes, round_trip, middle) > bytes_per_second {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_near(value: f64, expected: f64) -> bool {
        (value / expected - 1.0).abs() < 1e-3
    }

    #[test]
    fn the_equation_gives_the_rates_of_the_rfc() {
        // s = 1, R = 1: what follows 1 / (sqrt(2p/3) + 12 sqrt(3p/8) p (1 + 32 p^2)).
        let second = Duration::from_secs(1);
        for (loss, packets) in [
            (0.000_01, 387.26),
            (0.000_1, 122.36),
            (0.001, 38.384),
            (0.01, 11.233),
            (0.1, 1.7701),
            (1.0, 0.004_110),
        ] {
            let rate = throughput(1.0, second, loss);
            assert!(is_near(rate, packets), "{loss}: {rate}, expected {packets}");
        }
        // Proportional to the packet, and to the inverse of the round trip.
        let rate = throughput(1_460.0, Duration::from_millis(100), 0.01);
        assert!(is_near(rate, 14_600.0 * 11.233), "{rate}");
    }

    #[test]
    fn the_inverse_gives_the_loss_back() {
        for loss in [1e-6, 1e-4, 0.003, 0.05, 0.4, 0.99] {
            for millis in [1, 10, 300] {
                let round_trip = Duration::from_millis(millis);
                let rate = throughput(1_400.0, round_trip, loss);
                let back = loss_event_rate(1_400.0, round_trip, rate);
                assert!(is_near(back, loss), "{back}, expected {loss}");
            }
        }
    }

    #[test]
    fn no_input_gives_zero_or_no_number() {
        let times = [Duration::ZERO, Duration::from_micros(1), Duration::MAX];
        for round_trip in times {
            for loss in [0.0, -1.0, f64::MIN_POSITIVE, 1.0, 2.0, f64::INFINITY] {
                for bytes in [0.0, 1.0, 65_536.0] {
                    let rate = throughput(bytes, round_trip, loss);
                    assert!(
                        rate > 0.0 && rate.is_finite(),
                        "{bytes} {round_trip:?} {loss}: {rate}"
                    );
                    let back = loss_event_rate(bytes, round_trip, rate);
                    assert!((LOSS_MIN * 0.99..=1.0).contains(&back), "{back}");
                }
            }
            let extremes = [0.0, f64::MAX].map(|rate| loss_event_rate(1_000.0, round_trip, rate));
            assert!(extremes.iter().all(|loss| loss.is_finite()), "{extremes:?}");
        }
    }
}
