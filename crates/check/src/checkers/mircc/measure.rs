use std::time::Duration;

use paceline_proto::core::Instant;

/// What of Data went over a link, in steps of time.
#[derive(Clone, Debug)]
pub struct LinkUse {
    step: Duration,
    bytes: Vec<u64>,
}

impl LinkUse {
    pub(super) fn new(step: Duration) -> LinkUse {
        LinkUse { step, bytes: Vec::new() }
    }

    pub(super) fn note(&mut self, at: Instant, bytes: usize) {
        let place = self.place(at);
        if self.bytes.len() <= place {
            self.bytes.resize(place + 1, 0);
        }
        self.bytes[place] += bytes as u64;
    }

    /// M7: the mean rate of Data from one time to another, bit/s.
    pub fn bits_per_second(&self, from: Instant, until: Instant) -> f64 {
        let steps = self.steps(from, until);
        let seconds = steps.len() as f64 * self.step.as_secs_f64();
        steps.iter().sum::<u64>() as f64 * 8.0 / seconds.max(1e-9)
    }

    /// M7: the largest change from one step to the next, as a share of the mean.
    pub fn swing(&self, from: Instant, until: Instant) -> f64 {
        let steps = self.steps(from, until);
        let mean = steps.iter().sum::<u64>() as f64 / steps.len().max(1) as f64;
        let changes = steps.windows(2).map(|pair| pair[0].abs_diff(pair[1]));
        changes.max().unwrap_or(0) as f64 / mean.max(1.0)
    }

    /// Those that lie wholly between the two.
    fn steps(&self, from: Instant, until: Instant) -> &[u64] {
        let first = (from.as_nanos() as u128).div_ceil(self.step.as_nanos()) as usize;
        let end = self.place(until).min(self.bytes.len());
        &self.bytes[first.min(end)..end]
    }

    fn place(&self, at: Instant) -> usize {
        (at.as_nanos() as u128 / self.step.as_nanos()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_and_the_largest_change_are_of_whole_steps() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut used = LinkUse::new(Duration::from_millis(10));
        for (millis, bytes) in [(5, 9_000), (12, 1_000), (19, 1_000), (21, 2_500), (31, 2_000)] {
            used.note(at(millis), bytes);
        }
        let rate = used.bits_per_second(at(9), at(30));
        assert!((rate - 4_500.0 * 8.0 / 0.02).abs() < 1e-6, "{rate}");
        let swing = used.swing(at(10), at(30));
        assert!((swing - 500.0 / 2_250.0).abs() < 1e-9, "{swing}");
        assert_eq!(used.bits_per_second(at(500), at(600)), 0.0);
    }
}
