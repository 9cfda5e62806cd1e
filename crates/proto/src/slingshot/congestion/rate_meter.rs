//! The rate at which packets come, over the last round trips.

use std::time::Duration;

use crate::core::Instant;

/// Bytes that came since an instant.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    since: Instant,
    bytes: f64,
}

/// Measures the rate of a flow over one to two windows of time, each of which begins with a packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateMeter {
    previous: Option<Window>,
    current: Option<Window>,
    latest_at: Instant,
}

impl RateMeter {
    /// A packet came. A window ends with the first packet at least this time after its beginning.
    pub(crate) fn on_packet(&mut self, now: Instant, bytes: usize, window: Duration) {
        self.latest_at = now;
        let Some(current) = &mut self.current else {
            // The packet with which a window begins is of the time before it.
            self.current = Some(Window { since: now, bytes: 0.0 });
            return;
        };
        current.bytes += bytes as f64;
        if now.since(current.since) >= window {
            self.previous = Some(*current);
            self.current = Some(Window { since: now, bytes: 0.0 });
        }
    }

    /// Bytes a second until the latest packet; what came in less than half a window counts as what
    /// came in half a window, so that a burst is not taken for a rate.
    pub(crate) fn bytes_per_second(&self, window: Duration) -> f64 {
        let windows = [self.previous, self.current];
        let bytes: f64 = windows.iter().flatten().map(|window| window.bytes).sum();
        let since = windows.iter().flatten().map(|window| window.since).next();
        let time = since.map_or(Duration::ZERO, |since| self.latest_at.since(since));
        bytes / time.max(window / 2).as_secs_f64().max(1e-6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_millis(20);

    fn after(packets: u64, every_micros: u64) -> f64 {
        let mut meter = RateMeter::default();
        for number in 0..packets {
            let now = Instant::from_nanos(number * every_micros * 1_000);
            meter.on_packet(now, 1_000, WINDOW);
        }
        meter.bytes_per_second(WINDOW)
    }

    #[test]
    fn the_rate_is_that_of_the_packets_whether_they_are_dense_or_sparse() {
        assert_eq!(after(1, 1), 0.0);
        assert_eq!(after(1_000, 1_000), 1_000_000.0);
        assert_eq!(after(10, 250_000), 4_000.0, "one packet a window");
    }

    #[test]
    fn a_burst_is_not_taken_for_a_rate() {
        assert_eq!(after(5, 0), 400_000.0, "four packets in half a window");
    }

    #[test]
    fn a_change_shows_after_two_windows() {
        let mut meter = RateMeter::default();
        let mut now = Instant::ZERO;
        for every in [1u64, 4] {
            for _ in 0..100 {
                meter.on_packet(now, 1_000, WINDOW);
                now += Duration::from_millis(every);
            }
        }
        assert!((meter.bytes_per_second(WINDOW) - 250_000.0).abs() < 1.0);
    }
}
