//! How long walkers wait in bundles before they leave.

use std::time::Duration;

/// Number of classes within the deadline.
const PARTS: usize = 16;
/// None at all, those within the deadline, those a little later, and all that were longer.
const CLASSES: usize = 2 * PARTS;

/// A histogram of the times that walkers waited for others to leave with, in sixteenths of the time
/// that they may wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    counts: [u64; CLASSES],
}

impl Waits {
    /// Waits by their length: none at all, up to a sixteenth of the deadline, up to two, and so on.
    /// With those of the last class are all that were longer.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// Waits that were counted elsewhere, in the form of [`counts`](Self::counts).
    pub fn add(&mut self, counts: &[u64]) {
        for (count, more) in self.counts.iter_mut().zip(counts) {
            *count = count.saturating_add(*more);
        }
    }

    /// The least sixteenth of the deadline within which this share of the waits was over; none if
    /// nothing was counted, or if it took nearly twice the deadline, or more.
    pub fn quantile(&self, share: f64, deadline: Duration) -> Option<Duration> {
        let all: u64 = self.counts.iter().sum();
        let wanted = (all as f64 * share).ceil() as u64;
        let mut counted = 0;
        let class = self.counts.iter().position(|&count| {
            counted += count;
            counted >= wanted
        })?;
        (all > 0 && class < CLASSES - 1).then(|| deadline * class as u32 / PARTS as u32)
    }

    /// Counts walkers that waited this long.
    pub(super) fn count(&mut self, wait: Duration, deadline: Duration, walkers: u64) {
        let (wait, deadline) = (wait.as_nanos(), deadline.as_nanos().max(1));
        let class = (wait * PARTS as u128).div_ceil(deadline).min(CLASSES as u128 - 1);
        self.counts[class as usize] += walkers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_apart_by_sixteenths_of_the_deadline() {
        let deadline = Duration::from_micros(160);
        let mut waits = Waits::default();
        assert_eq!(waits.quantile(0.5, deadline), None);
        for micros in 0..100 {
            waits.count(Duration::from_micros(micros), deadline, 2);
        }
        let at = |waits: &Waits, share| waits.quantile(share, deadline).map(|at| at.as_micros());
        assert_eq!(at(&waits, 0.0), Some(0));
        assert_eq!(at(&waits, 0.5), Some(50));
        assert_eq!(at(&waits, 1.0), Some(100));
        waits.count(deadline, deadline, 1);
        assert_eq!(at(&waits, 1.0), Some(160));
        let late = deadline + Duration::from_nanos(1);
        waits.count(late, deadline, 1);
        assert_eq!(at(&waits, 1.0), Some(170));
        waits.count(deadline * 40, deadline, 1);
        assert_eq!(at(&waits, 1.0), None, "the delay is unknown");
        let mut sum = Waits::default();
        sum.add(waits.counts());
        assert_eq!(sum, waits);
    }
}
