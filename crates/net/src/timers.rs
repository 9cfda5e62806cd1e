//! Deadlines in order, and the one sleep that waits for the earliest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use paceline_proto::core::Instant;
use tokio::time::Sleep;

/// Nanoseconds since the node started, on the machine's monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: std::time::Instant,
}

impl Clock {
    /// A clock that starts now.
    pub(crate) fn start() -> Clock {
        Clock { start: std::time::Instant::now() }
    }

    /// The present.
    pub(crate) fn now(&self) -> Instant {
        Instant::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    fn at(&self, instant: Instant) -> tokio::time::Instant {
        // A deadline past the representable range never comes; a month is as good and fits.
        const NEVER: Duration = Duration::from_secs(30 * 86_400);
        let after = Duration::from_nanos(instant.as_nanos());
        (self.start + after.min(self.start.elapsed() + NEVER)).into()
    }
}

/// What is due when. Deadlines are not cancelled; whoever set one ignores it if it is stale.
#[derive(Debug)]
pub(crate) struct Timers<T> {
    heap: BinaryHeap<Reverse<Due<T>>>,
    set: u64,
    sleep: Option<Pin<Box<Sleep>>>,
    sleeps_until: Instant,
}

#[derive(Debug)]
struct Due<T> {
    at: Instant,
    sequence: u64,
    what: T,
}

impl<T> Timers<T> {
    /// No deadlines.
    pub(crate) fn new() -> Timers<T> {
        Timers { heap: BinaryHeap::new(), set: 0, sleep: None, sleeps_until: Instant::MAX }
    }

    /// Adds a deadline. Equal ones are due in the order of these calls.
    pub(crate) fn set(&mut self, at: Instant, what: T) {
        self.set += 1;
        self.heap.push(Reverse(Due { at, sequence: self.set, what }));
    }

    /// The next deadline that has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        if self.heap.peek()?.0.at > now {
            return None;
        }
        self.heap.pop().map(|Reverse(due)| due.what)
    }

    /// Arms the sleep for the earliest deadline; `waker` is woken at it or later.
    pub(crate) fn arm(&mut self, clock: &Clock, waker: &Waker) {
        let earliest = self.heap.peek().map_or(Instant::MAX, |Reverse(due)| due.at);
        self.arm_at(earliest, clock, waker);
    }

    /// Arms the sleep for this instant instead of the earliest deadline.
    pub(crate) fn arm_at(&mut self, at: Instant, clock: &Clock, waker: &Waker) {
        if at == self.sleeps_until {
            return;
        }
        self.sleeps_until = at;
        if at == Instant::MAX {
            self.sleep = None;
            return;
        }
        let until = clock.at(at);
        let sleep = match &mut self.sleep {
            Some(sleep) => {
                sleep.as_mut().reset(until);
                sleep
            }
            none => none.insert(Box::pin(tokio::time::sleep_until(until))),
        };
        if sleep.as_mut().poll(&mut Context::from_waker(waker)).is_ready() {
            self.sleeps_until = Instant::MAX;
            waker.wake_by_ref();
        }
    }

    /// Says that the sleep is over: the next `arm` sets it anew.
    pub(crate) fn disarm(&mut self) {
        self.sleeps_until = Instant::MAX;
    }
}

impl<T> PartialEq for Due<T> {
    fn eq(&self, other: &Due<T>) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl<T> Eq for Due<T> {}

impl<T> PartialOrd for Due<T> {
    fn partial_cmp(&self, other: &Due<T>) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Due<T> {
    fn cmp(&self, other: &Due<T>) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_come_in_order_and_equal_ones_in_the_order_they_were_set() {
        let mut timers = Timers::new();
        let at = Instant::from_nanos;
        timers.set(at(30), 'c');
        timers.set(at(10), 'a');
        timers.set(at(10), 'b');
        assert_eq!(timers.take_due(at(9)), None);
        let due: String = std::iter::from_fn(|| timers.take_due(at(30))).collect();
        assert_eq!(due, "abc");
    }
}
