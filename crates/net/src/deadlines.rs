//! What is due when, and the clock it is measured by.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use paceline_proto::core::Instant;

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
}

/// What is due when. Deadlines are not cancelled; whoever set one ignores it if it is stale.
#[derive(Debug)]
pub(crate) struct Deadlines<T> {
    heap: BinaryHeap<Reverse<Due<T>>>,
    set: u64,
}

#[derive(Debug)]
struct Due<T> {
    at: Instant,
    sequence: u64,
    what: T,
}

impl<T> Deadlines<T> {
    /// No deadlines.
    pub(crate) fn new() -> Deadlines<T> {
        Deadlines { heap: BinaryHeap::new(), set: 0 }
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

    /// The next deadline that has come, if it was set before [`number`](Self::number) was this.
    pub(crate) fn take_due_before(&mut self, now: Instant, number: u64) -> Option<T> {
        let is_before = |Reverse(due): &Reverse<Due<T>>| due.sequence <= number;
        self.heap.peek().filter(|due| is_before(due))?;
        self.take_due(now)
    }

    /// How many deadlines were ever set.
    pub(crate) fn number(&self) -> u64 {
        self.set
    }

    /// The earliest deadline; [`Instant::MAX`] if there is none.
    pub(crate) fn earliest(&self) -> Instant {
        self.heap.peek().map_or(Instant::MAX, |Reverse(due)| due.at)
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
        let mut deadlines = Deadlines::new();
        let at = Instant::from_nanos;
        deadlines.set(at(30), 'c');
        deadlines.set(at(10), 'a');
        deadlines.set(at(10), 'b');
        assert_eq!(deadlines.take_due(at(9)), None);
        let due: String = std::iter::from_fn(|| deadlines.take_due(at(30))).collect();
        assert_eq!(due, "abc");
    }

    #[test]
    fn what_is_set_meanwhile_can_wait() {
        let mut deadlines = Deadlines::new();
        let now = Instant::from_nanos(10);
        deadlines.set(now, 'a');
        deadlines.set(now, 'b');
        let number = deadlines.number();
        assert_eq!(deadlines.take_due_before(now, number), Some('a'));
        deadlines.set(now, 'c');
        assert_eq!(deadlines.take_due_before(now, number), Some('b'));
        assert_eq!(deadlines.take_due_before(now, number), None);
        assert_eq!(deadlines.take_due_before(now, deadlines.number()), Some('c'));
    }
}
