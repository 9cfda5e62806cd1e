//! A face's output: a queue before a link of known rate.

use std::collections::VecDeque;
use std::time::Duration;

use crate::core::Instant;
use crate::parts::token_bucket::{TokenBucket, time_for};

/// The fate of an item that was handed to a link.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sent<T> {
    /// It leaves now.
    Leaves(T),
    /// It waits. With an instant, the caller must call [`Link::take`] then; else a call is already
    /// due.
    Waits(Option<Instant>),
    /// The queue is full.
    Dropped(T),
}

/// A queue before a link, first in, first out, bounded in bytes. Without a rate nothing waits.
#[derive(Debug)]
pub(super) struct Link<T> {
    bits_per_second: Option<f64>,
    queue_bytes_max: usize,
    queue: VecDeque<(T, u32)>,
    queued_bytes: usize,
    pacer: TokenBucket,
}

impl<T> Link<T> {
    /// A link that nothing waits for.
    pub(super) fn new(
        bits_per_second: Option<f64>,
        queue_bytes_max: usize,
        catch_up: Duration,
    ) -> Link<T> {
        Link {
            bits_per_second,
            queue_bytes_max,
            queue: VecDeque::new(),
            queued_bytes: 0,
            pacer: TokenBucket::empty(catch_up),
        }
    }

    /// Hands over an item that takes `bytes` on the link.
    pub(super) fn send(&mut self, now: Instant, item: T, bytes: usize) -> Sent<T> {
        let Some(rate) = self.bits_per_second else {
            return Sent::Leaves(item);
        };
        if self.queue.is_empty() && self.pacer.next_at() <= now {
            self.pacer.take(now, bytes as f64 * 8.0, rate);
            return Sent::Leaves(item);
        }
        if self.queued_bytes + bytes > self.queue_bytes_max {
            return Sent::Dropped(item);
        }
        let is_first = self.queue.is_empty();
        self.queue.push_back((item, bytes as u32));
        self.queued_bytes += bytes;
        Sent::Waits(is_first.then(|| self.pacer.next_at()))
    }

    /// The next that may leave now.
    pub(super) fn take(&mut self, now: Instant) -> Option<T> {
        if self.pacer.next_at() > now {
            return None;
        }
        let (item, bytes) = self.queue.pop_front()?;
        self.queued_bytes -= bytes as usize;
        let rate = self.bits_per_second.expect("without a rate nothing waits");
        self.pacer.take(now, f64::from(bytes) * 8.0, rate);
        Some(item)
    }

    /// When to call [`Link::take`] next; `None` if the queue is empty.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.queue.is_empty()).then(|| self.pacer.next_at())
    }

    /// Bytes that wait.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// The time until the queue has left.
    pub(super) fn delay(&self) -> Duration {
        self.bits_per_second
            .map_or(Duration::ZERO, |rate| time_for(self.queued_bytes as f64 * 8.0, rate))
    }

    /// Forgets what waits.
    pub(super) fn clear(&mut self) -> usize {
        self.queued_bytes = 0;
        self.queue.drain(..).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1_000)
    }

    #[test]
    fn what_leaves_never_exceeds_the_rate_by_more_than_one() {
        let mut link = Link::new(Some(8e6), 4_000, Duration::ZERO);
        assert_eq!(link.send(at(0), 1, 1_000), Sent::Leaves(1));
        assert_eq!(link.send(at(1), 2, 1_000), Sent::Waits(Some(at(1_000))));
        assert_eq!(link.send(at(2), 3, 1_000), Sent::Waits(None));
        assert_eq!(link.take(at(999)), None);
        assert_eq!(link.take(at(1_000)), Some(2));
        assert_eq!((link.due(), link.queued_bytes()), (Some(at(2_000)), 1_000));
        assert_eq!(link.take(at(2_000)), Some(3));
        assert_eq!((link.due(), link.take(at(3_000))), (None, None));
        assert_eq!(link.send(at(3_000), 4, 1_000), Sent::Leaves(4));
    }

    #[test]
    fn a_full_queue_gives_back_what_it_does_not_take() {
        let mut link = Link::new(Some(8e6), 1_500, Duration::ZERO);
        assert_eq!(link.send(at(0), 'a', 1_000), Sent::Leaves('a'));
        assert!(matches!(link.send(at(0), 'b', 1_000), Sent::Waits(Some(_))));
        assert_eq!(link.send(at(0), 'c', 501), Sent::Dropped('c'));
        assert_eq!(link.delay(), Duration::from_millis(1));
        assert_eq!((link.clear(), link.due()), (1, None));
    }

    #[test]
    fn a_late_turn_makes_up_for_what_it_lost_within_a_bound() {
        let mut link = Link::new(Some(8e6), 100_000, Duration::from_millis(3));
        for n in 0..10 {
            link.send(at(0), n, 1_000);
        }
        let mut left = 0;
        while link.take(at(20_000)).is_some() {
            left += 1;
        }
        assert_eq!(left, 4, "three of the time before, and one of its own");
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let mut link = Link::new(None, 0, Duration::ZERO);
        assert!((0..100).all(|n| link.send(at(0), n, 9_000) == Sent::Leaves(n)));
    }
}
