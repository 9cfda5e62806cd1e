//! A token bucket: lets things pass at a rate, some of them in a burst.

use std::time::Duration;

use crate::core::Instant;

/// A token bucket that measures tokens in the time that it takes to earn them, so that the rate may
/// change at any time. Source: the virtual scheduling algorithm, ITU-T I.371, annex A.
///
/// With a timer that waits for [`TokenBucket::next_at`] it paces. In the simulator timers are never
/// late, so the gaps are exact there; on sockets a late timer leaves tokens, which make up for it.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    // When the bucket will be full. It holds less by the time until then.
    full_at: Instant,
    depth: Duration,
}

impl TokenBucket {
    /// A bucket that holds nothing at the beginning of the run: one passes at once, and the next in
    /// its time. A burst is what `depth` earns, and one more.
    pub(crate) fn empty(depth: Duration) -> TokenBucket {
        TokenBucket { full_at: Instant::ZERO + depth, depth }
    }

    /// A bucket of this depth that is full at the beginning.
    pub const fn full(depth: Duration) -> TokenBucket {
        TokenBucket { full_at: Instant::ZERO, depth }
    }

    /// From when on the next may pass.
    pub fn next_at(&self) -> Instant {
        self.full_at - self.depth
    }

    /// One of this size passes now, even if it may not: bits, or whatever the rate counts.
    pub(crate) fn take(&mut self, now: Instant, size: f64, per_second: f64) {
        self.full_at = self.full_at.max(now) + time_for(size, per_second);
    }

    /// The rate changes: what is missing takes another time to earn.
    pub(crate) fn change_rate(&mut self, now: Instant, from: f64, to: f64) {
        if !self.is_full(now) {
            let missing = self.full_at.since(now).as_secs_f64();
            self.full_at = now + time_for(missing * from, to);
        }
    }

    /// True if one of this size may pass now; it does. None passes at a rate of zero.
    pub fn try_take(&mut self, now: Instant, size: f64, per_second: f64) -> bool {
        let may = per_second > 0.0 && self.next_at() <= now;
        if may {
            self.take(now, size, per_second);
        }
        may
    }

    /// Takes the tokens that its rate adds in `time`; false, and takes none, if it holds fewer.
    pub fn try_take_whole(&mut self, now: Instant, time: Duration) -> bool {
        let full_at = self.full_at.max(now) + time;
        let is_there = full_at <= now + self.depth;
        if is_there {
            self.full_at = full_at;
        }
        is_there
    }

    /// True if it holds all that it can.
    pub fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

/// How long something of this size takes at this rate; at most an hour.
pub(crate) fn time_for(size: f64, per_second: f64) -> Duration {
    let nanos = size * 1e9 / per_second;
    // A conversion that saturates: not even a rate of zero makes this panic.
    Duration::from_nanos((nanos.min(3.6e12)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// How many of size 1 pass at once, at 1,000 a second.
    fn burst(bucket: &mut TokenBucket, now: Instant) -> usize {
        (0..100).filter(|_| bucket.try_take(now, 1.0, 1_000.0)).count()
    }

    #[test]
    fn without_depth_each_waits_for_its_time() {
        let mut bucket = TokenBucket::empty(Duration::ZERO);
        assert_eq!(bucket.next_at(), at(0));
        bucket.take(at(5), 1_000.0, 1_000_000.0);
        assert_eq!(bucket.next_at(), at(6));
        assert!(!bucket.try_take(Instant::from_nanos(5_999_999), 1.0, 1_000.0));
        assert!(bucket.try_take(at(6), 2.0, 1_000.0));
        assert_eq!(bucket.next_at(), at(8));
        // What passes although it may not delays those after it.
        bucket.take(at(6), 1.0, 1_000.0);
        assert_eq!(bucket.next_at(), at(9));
    }

    #[test]
    fn what_is_missing_is_earned_at_the_new_rate() {
        let mut bucket = TokenBucket::full(Duration::ZERO);
        bucket.take(at(0), 100.0, 1_000.0);
        assert_eq!(bucket.next_at(), at(100));
        bucket.change_rate(at(20), 1_000.0, 4_000.0);
        assert_eq!(bucket.next_at(), at(40));
        bucket.change_rate(at(40), 4_000.0, 1.0);
        bucket.change_rate(at(50), 1.0, 0.0);
        assert_eq!(bucket.next_at(), at(40), "nothing is missing");
    }

    #[test]
    fn a_burst_is_what_the_depth_earns_and_one_more() {
        let mut bucket = TokenBucket::empty(Duration::from_millis(4));
        assert_eq!(burst(&mut bucket, at(0)), 1, "it begins empty");
        assert_eq!(burst(&mut bucket, at(2)), 2);
        assert_eq!((burst(&mut bucket, at(100)), burst(&mut bucket, at(100))), (5, 0));
        assert_eq!(bucket.next_at(), at(101));
        let mut bucket = TokenBucket::full(Duration::from_millis(4));
        assert_eq!((burst(&mut bucket, at(0)), burst(&mut bucket, at(1))), (5, 1));
    }

    #[test]
    fn a_rate_of_zero_lets_none_pass_and_does_not_panic() {
        let mut bucket = TokenBucket::full(Duration::from_secs(1));
        assert!(!bucket.try_take(at(0), 1.0, 0.0));
        bucket.take(at(0), 1.0, 0.0);
        assert_eq!(bucket.next_at(), at(0) + Duration::from_secs(3_599));
        assert_eq!(time_for(0.0, 0.0), Duration::from_secs(3_600));
    }

    #[test]
    fn whole_amounts_pass_as_long_as_the_bucket_holds_them() {
        let mut bucket = TokenBucket::full(Duration::from_secs(1));
        let each = Duration::from_millis(10);
        let mut admitted =
            |millis| (0..1000).filter(|_| bucket.try_take_whole(at(millis), each)).count();
        assert_eq!(admitted(0), 100);
        assert_eq!(admitted(5), 0);
        assert_eq!(admitted(505), 50);
        assert_eq!(admitted(60_000), 100);
        assert!(!bucket.is_full(at(60_999)) && bucket.is_full(at(61_000)));
    }
}
