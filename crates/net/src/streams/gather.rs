//! Receive coalescing: how many bytes of a busy stream wait in the kernel before it wakes the node.
//!
//! A wake-up costs tens of microseconds however little it brings, and a packet comes every
//! millisecond at 100 Mbit/s. Like interrupt coalescing in network cards, a busy stream signals
//! only once it has received the bytes that its rate brings in a given time (`SO_RCVLOWAT`). If the
//! rate falls, a deadline of twice that time reads the bytes so far, and every packet signals
//! again.

use std::time::Duration;

use paceline_proto::core::Instant;

/// Time over which a rate is taken.
const RATE_OVER: Duration = Duration::from_millis(20);
/// A stream is busy if it receives this much within the delay. A slower one signals every packet:
/// few wake-ups could be saved, and its sender may wait for an answer.
const BUSY_BYTES: f64 = 48_000.0;
/// More is not worth waiting for. A read buffer is a few times this.
const BYTES_MAX: u32 = 72_000;

/// The signalling state of an accepted stream.
#[derive(Debug)]
pub(crate) struct Gather {
    delay: Duration,
    // The bytes that signal; 1 while the stream is not busy.
    mark: u32,
    until: Instant,
    // Where the present measurement began, and bytes since.
    since: Instant,
    bytes: usize,
}

impl Gather {
    /// A stream that is not busy yet; its bytes may wait for `delay`.
    pub(crate) fn new(delay: Duration, now: Instant) -> Gather {
        Gather { delay, mark: 1, until: Instant::MAX, since: now, bytes: 0 }
    }

    /// Notes the bytes of a read; returns the new mark, if it changes.
    pub(crate) fn note_read(&mut self, bytes: usize, now: Instant) -> Option<u32> {
        self.bytes += bytes;
        let over = now.since(self.since);
        let wanted = if over < RATE_OVER {
            self.mark
        } else {
            let rate = self.bytes as f64 / over.as_secs_f64();
            (self.since, self.bytes) = (now, 0);
            let bytes = rate * self.delay.as_secs_f64();
            if bytes < BUSY_BYTES { 1 } else { (bytes as u32).min(BYTES_MAX) }
        };
        // An eighth is within the noise.
        let mark = if wanted.abs_diff(self.mark) > self.mark / 8 { wanted } else { self.mark };
        let changed = (mark != self.mark).then_some(mark);
        self.mark = mark;
        self.until = if mark > 1 { now + 2 * self.delay } else { Instant::MAX };
        changed
    }

    /// When the stream must be read without a signal.
    pub(crate) fn until(&self) -> Instant {
        self.until
    }

    /// Notes that this deadline has passed: the stream is no longer busy.
    pub(crate) fn give_up(&mut self, now: Instant) {
        *self = Gather::new(self.delay, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(5);
    const MS: Duration = Duration::from_millis(1);

    /// Reads `bytes` every millisecond for so long; returns the marks that were set.
    fn marks(gather: &mut Gather, now: &mut Instant, ms: u32, bytes: usize) -> Vec<u32> {
        let mut marks = Vec::new();
        for _ in 0..ms {
            *now += MS;
            marks.extend(gather.note_read(bytes, *now));
        }
        marks
    }

    #[test]
    fn a_busy_stream_gathers_what_comes_in_the_given_time() {
        let mut now = Instant::ZERO;
        let mut gather = Gather::new(DELAY, now);
        assert_eq!(marks(&mut gather, &mut now, 100, 12_000), [60_000]);
        assert_eq!(gather.until(), now + 2 * DELAY);
        // Ten times the rate: as much as is worth it.
        assert_eq!(marks(&mut gather, &mut now, 100, 120_000), [BYTES_MAX]);
    }

    #[test]
    fn a_stream_that_is_not_busy_signals_every_packet() {
        let mut now = Instant::ZERO;
        let mut gather = Gather::new(DELAY, now);
        assert_eq!(marks(&mut gather, &mut now, 100, 8_000), []);
        assert_eq!(gather.until(), Instant::MAX);
        assert_eq!(marks(&mut gather, &mut now, 30, 12_000), [60_000]);
        // Slower, it is known by its rate; silent, by the deadline.
        assert_eq!(marks(&mut gather, &mut now, 60, 1000).last(), Some(&1));
        assert_eq!(gather.until(), Instant::MAX);
        marks(&mut gather, &mut now, 60, 12_000);
        gather.give_up(now);
        assert_eq!(gather.until(), Instant::MAX);
        assert_eq!(marks(&mut gather, &mut now, 10, 12_000), []);
    }
}
