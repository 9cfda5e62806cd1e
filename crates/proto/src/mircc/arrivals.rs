use std::time::Duration;

use crate::core::Instant;

/// At what rate something arrives, interval by interval.
///
/// A rate of arrivals over fixed intervals. A count of whole Interests is off by one: at 5 Mbit/s
/// and a round trip of 3 ms that is half of the count, and the granted rate would oscillate. So the
/// rate is measured from the last arrival before the interval to the last one in it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrivals {
    bits: f64,
    count: u32,
    // The last arrival of the intervals before, and the last of all.
    from: Option<Instant>,
    last: Option<(Instant, f64)>,
    bits_per_second: f64,
}

impl Arrivals {
    /// Notes the arrival of this many bits.
    pub(super) fn note(&mut self, now: Instant, bits: f64) {
        self.bits += bits;
        self.count += 1;
        self.last = Some((now, bits));
    }

    /// The interval is over, which was so long: at what rate they arrived, bit/s.
    pub(super) fn end(&mut self, now: Instant, length: Duration) -> f64 {
        let began = now - length;
        let Some((last, last_bits)) = self.last else { return 0.0 };
        if self.count == 0 {
            // At most one could have come since.
            let most = last_bits / seconds(now.since(last)).max(seconds(length));
            self.bits_per_second = match now.since(last) < length * SILENT_INTERVALS {
                true => self.bits_per_second.min(most),
                false => 0.0,
            };
            return self.bits_per_second;
        }
        // After a silence, several that come together are more than a slow stream.
        let oldest = if self.count > 1 { began - length } else { Instant::ZERO };
        let from = self.from.map(|from| from.max(oldest));
        self.bits_per_second = match from {
            Some(from) if from < last => self.bits / seconds(last.since(from)),
            _ => self.bits / seconds(length),
        };
        (self.from, self.bits, self.count) = (Some(last), 0.0, 0);
        self.bits_per_second
    }
}

/// Intervals without an arrival after which there are none.
const SILENT_INTERVALS: u32 = 16;

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_micros(2_900);

    /// Rates of successive intervals while 1,000 bits arrive every `apart_micros`.
    fn rates(apart_micros: u64, intervals: u32) -> Vec<f64> {
        let mut arrivals = Arrivals::default();
        let mut next = Instant::ZERO;
        let mut ends = Instant::ZERO;
        let rate = |_| {
            ends += INTERVAL;
            while next <= ends {
                arrivals.note(next, 1_000.0);
                next += Duration::from_micros(apart_micros);
            }
            arrivals.end(ends, INTERVAL)
        };
        (0..intervals).map(rate).collect()
    }

    #[test]
    fn a_steady_stream_has_one_rate_however_its_intervals_fall() {
        for apart_micros in [100, 1_850, 2_899, 2_901, 7_000, 20_000] {
            let expected = 1_000.0 / (apart_micros as f64 / 1e6);
            let rates = rates(apart_micros, 100);
            for (number, rate) in rates.iter().enumerate().skip(20) {
                assert!((rate / expected - 1.0).abs() < 1e-6, "{apart_micros} {number}: {rate}");
            }
        }
    }

    #[test]
    fn what_ends_fades_and_what_begins_counts_at_once() {
        let mut arrivals = Arrivals::default();
        let mut now = Instant::ZERO;
        let mut ends = |arrivals: &mut Arrivals, count: u64| {
            (0..count).for_each(|n| {
                arrivals.note(now + INTERVAL * n as u32 / count as u32, 1_000.0);
            });
            now += INTERVAL;
            arrivals.end(now, INTERVAL)
        };
        let full = 10_000.0 / INTERVAL.as_secs_f64();
        let near = |rate: f64, share: f64| (rate / full / share - 1.0).abs() < 0.2;
        assert!(near(ends(&mut arrivals, 10), 1.0));
        assert!(near(ends(&mut arrivals, 10), 1.0));
        assert!(near(ends(&mut arrivals, 0), 0.1));
        assert!(near(ends(&mut arrivals, 0), 0.05));
        for _ in 0..SILENT_INTERVALS {
            ends(&mut arrivals, 0);
        }
        assert_eq!(ends(&mut arrivals, 0), 0.0);
        // Over an interval before it as well, since when the first came is not known.
        assert!(near(ends(&mut arrivals, 10), 0.5));
        assert!(near(ends(&mut arrivals, 10), 1.0));
    }
}
