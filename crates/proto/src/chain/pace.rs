//! The rate at which own bytes leave, measured over spans of time.

use std::time::Duration;

use crate::core::Instant;

/// A span. Long enough for several messages on a link of 100 Mbit that members share.
const SPAN: Duration = Duration::from_millis(8);

/// Own bytes that left in the present span and in the one before.
#[derive(Debug, Default)]
pub(super) struct Pace {
    span: u64,
    bytes: usize,
    bytes_before: usize,
}

impl Pace {
    /// Counts own bytes that leave now.
    pub(super) fn note(&mut self, now: Instant, bytes: usize) {
        self.move_to(now);
        self.bytes += bytes;
    }

    /// Bytes that leave within `time`, at the pace of the last whole span or, if that is faster,
    /// of the present one.
    pub(super) fn bytes_within(&mut self, now: Instant, time: Duration) -> usize {
        self.move_to(now);
        let bytes = self.bytes.max(self.bytes_before) as u128;
        (bytes * time.as_nanos() / SPAN.as_nanos()) as usize
    }

    fn move_to(&mut self, now: Instant) {
        let span = now.as_nanos() / SPAN.as_nanos() as u64;
        if span != self.span {
            self.bytes_before = if span == self.span + 1 { self.bytes } else { 0 };
            self.bytes = 0;
            self.span = span;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_that_of_the_last_whole_span_until_the_present_one_is_faster() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let within = Duration::from_millis(2);
        let mut pace = Pace::default();
        pace.note(at(8), 4000);
        pace.note(at(15), 4000);
        assert_eq!(pace.bytes_within(at(16), within), 2000);
        pace.note(at(17), 10_000);
        assert_eq!(pace.bytes_within(at(18), within), 2500);
        assert_eq!(pace.bytes_within(at(31), within), 2500);
        assert_eq!(pace.bytes_within(at(32), within), 0, "a span without a byte lies between");
    }
}
