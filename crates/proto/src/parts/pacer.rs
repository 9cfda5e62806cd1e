//! When the next of a row of sends may leave.

use std::time::Duration;

use crate::core::Instant;

/// Lets something pass at a given rate.
///
/// Time that a late timer lost is made up for by sending several at once, as much as `catch_up` of
/// time is worth. In the simulator timers are never late, so the gaps are exact there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacer {
    free_at: Instant,
    catch_up: Duration,
}

impl Pacer {
    /// A pacer that lets the first pass at once.
    pub(crate) fn new(catch_up: Duration) -> Pacer {
        Pacer { free_at: Instant::ZERO, catch_up }
    }

    /// From when on the next may pass.
    pub(crate) fn free_at(&self) -> Instant {
        self.free_at
    }

    /// One of this size passes now: bits, or whatever the rate counts.
    pub(crate) fn pass(&mut self, now: Instant, size: f64, per_second: f64) {
        let earliest =
            Instant::from_nanos(now.as_nanos().saturating_sub(self.catch_up.as_nanos() as u64));
        self.free_at = self.free_at.max(earliest) + time_for(size, per_second);
    }
}

/// How long so much takes; at most an hour.
pub(crate) fn time_for(size: f64, per_second: f64) -> Duration {
    let nanos = size * 1e9 / per_second;
    // A conversion that saturates: not even a rate of zero makes this panic.
    Duration::from_nanos((nanos.min(3.6e12)) as u64)
}
