//! Pending deadlines, and the clock that measures them.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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

/// Pending deadlines. They are not cancelled; the owner of a deadline ignores it if it is stale.
#[derive(Debug)]
pub(crate) struct Deadlines<T> {
    heap: BinaryHeap<Reverse<Due<T>>>,
    // Those of many that came in order.
    row: VecDeque<Due<T>>,
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
        Deadlines { heap: BinaryHeap::new(), row: VecDeque::new(), set: 0 }
    }

    /// Adds a deadline. Equal ones are due in the order of these calls.
    pub(crate) fn set(&mut self, at: Instant, what: T) {
        self.set += 1;
        self.heap.push(Reverse(Due { at, sequence: self.set, what }));
    }

    /// Adds one of many that mostly come in order, for which it is cheaper.
    pub(crate) fn set_in_order(&mut self, at: Instant, what: T) {
        if self.row.back().is_some_and(|last| last.at > at) {
            return self.set(at, what);
        }
        self.set += 1;
        self.row.push_back(Due { at, sequence: self.set, what });
    }

    /// The next deadline that has come.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<T> {
        self.take_due_before(now, u64::MAX)
    }

    /// The next deadline that has come, if it was set before [`number`](Self::number) was this.
    pub(crate) fn take_due_before(&mut self, now: Instant, number: u64) -> Option<T> {
        let (next, is_in_row) = self.next()?;
        if next.at > now || next.sequence > number {
            return None;
        }
        let due =
            if is_in_row { self.row.pop_front() } else { self.heap.pop().map(|Reverse(due)| due) };
        due.map(|due| due.what)
    }

    /// The next of all, and whether it is in the row.
    fn next(&self) -> Option<(&Due<T>, bool)> {
        let other = self.heap.peek().map(|Reverse(due)| (due, false));
        let in_row = self.row.front().map(|due| (due, true));
        other.into_iter().chain(in_row).min()
    }

    /// How many deadlines were ever set.
    pub(crate) fn number(&self) -> u64 {
        self.set
    }

    /// The earliest deadline; [`Instant::MAX`] if no deadline is set.
    pub(crate) fn earliest(&self) -> Instant {
        self.next().map_or(Instant::MAX, |(due, _)| due.at)
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

    /// All that have come, in order.
    fn all(deadlines: &mut Deadlines<char>, now: Instant) -> String {
        std::iter::from_fn(|| deadlines.take_due(now)).collect()
    }

    #[test]
    fn deadlines_come_in_order_and_equal_ones_in_the_order_they_were_set() {
        let mut deadlines = Deadlines::new();
        let at = Instant::from_nanos;
        deadlines.set(at(30), 'c');
        deadlines.set(at(10), 'a');
        deadlines.set(at(10), 'b');
        assert_eq!(all(&mut deadlines, at(9)), "");
        assert_eq!(all(&mut deadlines, at(30)), "abc");
    }

    #[test]
    fn those_that_mostly_come_in_order_are_due_among_the_others() {
        let mut deadlines = Deadlines::new();
        let at = Instant::from_nanos;
        deadlines.set_in_order(at(10), 'a');
        deadlines.set_in_order(at(40), 'f');
        deadlines.set(at(20), 'b');
        deadlines.set_in_order(at(30), 'd');
        deadlines.set_in_order(at(40), 'g');
        deadlines.set(at(40), 'h');
        deadlines.set(at(20), 'c');
        deadlines.set_in_order(at(30), 'e');
        assert_eq!(deadlines.earliest(), at(10));
        assert_eq!(all(&mut deadlines, at(35)), "abcde");
        assert_eq!(deadlines.earliest(), at(40));
        assert_eq!(all(&mut deadlines, at(40)), "fgh");
        assert_eq!(deadlines.earliest(), Instant::MAX);
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
