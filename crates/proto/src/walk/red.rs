//! Random early detection: which walkers a queue turns away, or marks, before it is full.

use std::time::Duration;

use crate::core::{Instant, Rng};
use crate::graphshare::{Discipline, QueueConfig};

/// The fate of a walker that arrives at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It enters.
    Enter,
    /// It enters marked, to signal to its source that the queue grows.
    Mark,
    /// It is lost, early: the queue has room.
    Early,
    /// It is lost: there is no room.
    Full,
}

/// The state of a queue's discipline.
///
/// Source: Floyd and Jacobson, *Random Early Detection Gateways for Congestion Avoidance*,
/// IEEE/ACM ToN 1993, section IV; "gentle" is Floyd's recommendation of 2000.
#[derive(Clone, Debug)]
pub struct Red {
    /// Average length, walkers.
    average: f64,
    /// Walkers since the last one that was dropped or marked; 0 right after it.
    count: u32,
    /// Since when the queue is empty.
    empty_since: Option<Instant>,
}

impl Default for Red {
    fn default() -> Red {
        Red { average: 0.0, count: 0, empty_since: Some(Instant::ZERO) }
    }
}

impl Red {
    /// Judges a walker that arrives at a queue of this length. `service` is the time to serve one
    /// walker: the average of an idle queue decays as if the queue had served small walkers all
    /// along.
    pub fn judge(
        &mut self,
        config: &QueueConfig,
        now: Instant,
        length: usize,
        service: Duration,
        rng: &mut Rng,
    ) -> Verdict {
        if length >= config.limit {
            self.count = 0;
            return Verdict::Full;
        }
        let signal = match config.discipline {
            Discipline::TailDrop => return Verdict::Enter,
            Discipline::RedDrop => Verdict::Early,
            Discipline::RedMark => Verdict::Mark,
        };
        self.observe(config.weight, now, length, service);
        let pressed = probability(config, self.average);
        if pressed <= 0.0 {
            self.count = 0;
            return Verdict::Enter;
        }
        // Spreads the signals evenly: p_a = p_b / (1 - count p_b).
        let spread = 1.0 - f64::from(self.count) * pressed;
        if spread <= pressed || rng.chance(pressed / spread) {
            self.count = 0;
            return signal;
        }
        self.count += 1;
        Verdict::Enter
    }

    /// The queue has run empty.
    pub fn on_empty(&mut self, now: Instant) {
        self.empty_since = Some(now);
    }

    /// Average length, walkers.
    pub fn average(&self) -> f64 {
        self.average
    }

    fn observe(&mut self, weight: f64, now: Instant, length: usize, service: Duration) {
        if let Some(since) = self.empty_since.take()
            && weight < 1.0
            && !service.is_zero()
        {
            let served = now.since(since).as_secs_f64() / service.as_secs_f64();
            // By squaring, as powers of floating point are not the same on all machines.
            let turns = served.min(65_536.0) as i32;
            self.average *= power(1.0 - weight, turns);
        }
        self.average += weight * (length as f64 - self.average);
    }
}

/// The chance p_b that a walker is signalled at this average length.
pub fn probability(config: &QueueConfig, average: f64) -> f64 {
    let (low, high) = (config.min_th as f64, config.max_th as f64);
    if average < low {
        0.0
    } else if average < high {
        config.max_p * (average - low) / (high - low)
    } else if config.is_gentle && average < 2.0 * high {
        config.max_p + (1.0 - config.max_p) * (average - high) / high
    } else {
        1.0
    }
}

fn power(base: f64, exponent: i32) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper() -> QueueConfig {
        QueueConfig { discipline: Discipline::RedDrop, ..QueueConfig::paper() }
    }

    fn share(config: &QueueConfig, length: usize, verdict: Verdict) -> f64 {
        let (mut red, mut rng) = (Red::default(), Rng::new(1, 1));
        let mut judge =
            || red.judge(config, Instant::ZERO, length, Duration::from_micros(4), &mut rng);
        let count = (0..100_000).filter(|_| judge() == verdict).count();
        count as f64 / 100_000.0
    }

    #[test]
    fn nothing_is_dropped_below_the_minimum_and_everything_at_the_maximum() {
        let config = paper();
        assert_eq!(share(&config, 4, Verdict::Enter), 1.0);
        assert_eq!(share(&config, 100, Verdict::Full), 1.0);
        let roomy = QueueConfig { limit: 1000, ..config };
        assert_eq!(share(&roomy, 100, Verdict::Early), 1.0);
        let gentle = QueueConfig { is_gentle: true, ..roomy };
        let halfway = share(&gentle, 150, Verdict::Early);
        assert!(halfway > 0.5 && halfway < 1.0, "{halfway}");
    }

    /// With p_a = p_b / (1 - count p_b) the gaps between drops are uniform on 1 ..= 1/p_b.
    #[test]
    fn drops_are_spread_evenly() {
        let config = paper();
        let pressed = probability(&config, 52.0);
        let expected = 2.0 / (1.0 / pressed + 1.0);
        let measured = share(&config, 52, Verdict::Early);
        assert!((measured - expected).abs() < 0.01 * expected + 0.002, "{measured} {expected}");
        let mut last = 0.0;
        for length in 5..100 {
            let chance = probability(&config, length as f64);
            assert!(chance >= last);
            last = chance;
        }
    }

    #[test]
    fn marks_lose_nothing_until_the_limit_and_tail_drop_only_there() {
        let mark = QueueConfig { discipline: Discipline::RedMark, limit: 200, ..paper() };
        assert_eq!(share(&mark, 150, Verdict::Mark), 1.0);
        assert_eq!(share(&mark, 200, Verdict::Full), 1.0);
        let tail = QueueConfig { discipline: Discipline::TailDrop, ..paper() };
        assert_eq!(share(&tail, 99, Verdict::Enter), 1.0);
        assert_eq!(share(&tail, 100, Verdict::Full), 1.0);
    }

    #[test]
    fn an_average_follows_slowly_and_decays_while_the_queue_is_idle() {
        let config = QueueConfig { weight: 0.5, ..paper() };
        let (mut red, mut rng) = (Red::default(), Rng::new(1, 1));
        let service = Duration::from_micros(4);
        let mut judge = |red: &mut Red, micros, length| {
            let now = Instant::ZERO + Duration::from_micros(micros);
            red.judge(&config, now, length, service, &mut rng)
        };
        judge(&mut red, 0, 40);
        assert_eq!(red.average(), 20.0);
        red.on_empty(Instant::ZERO + Duration::from_micros(1));
        judge(&mut red, 1 + 8, 0);
        assert_eq!(red.average(), 2.5, "two halvings while idle, one for the empty queue");
    }
}
