//! A token bucket, kept as the time at which it is full again: the generic cell rate algorithm of
//! ITU-T I.371.

use std::time::Duration;

use paceline_proto::core::Instant;

/// Depth of a bucket, as the time that its rate takes to fill it.
const BURST: Duration = Duration::from_secs(1);

/// A bucket that holds one second's worth of tokens. A new one is full.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    pub(crate) const fn new() -> TokenBucket {
        TokenBucket { full_at: Instant::ZERO }
    }

    /// Takes the tokens that its rate adds in `time`; false, and takes none, if it holds fewer.
    pub(crate) fn take(&mut self, time: Duration, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + time;
        let is_there = full_at <= now + BURST;
        if is_there {
            self.full_at = full_at;
        }
        is_there
    }

    /// True if it holds all that it can.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_allows_as_many_at_once_as_in_a_second_and_no_more() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut bucket = TokenBucket::new();
        let each = Duration::from_millis(10);
        let mut admitted = |millis| (0..1000).filter(|_| bucket.take(each, at(millis))).count();
        assert_eq!(admitted(0), 100);
        assert_eq!(admitted(5), 0);
        assert_eq!(admitted(505), 50);
        assert_eq!(admitted(60_000), 100);
    }
}
