//! When Data is marked, for consumers that slow down by marks.

use std::time::Duration;

use crate::core::Instant;

/// The first gap between marks.
const GAP: Duration = Duration::from_millis(100);

/// Marks Data while packets wait too long: at once, and then ever more often.
///
/// Source: NFD's link service, after Schneider et al., *A practical congestion control scheme for
/// named data networking*, ACM ICN 2016, whose gaps are those of CoDel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marker {
    after: Duration,
    next_at: Instant,
    marked: u32,
}

impl Marker {
    /// Marks while packets wait longer than this.
    pub(super) fn new(after: Duration) -> Marker {
        Marker { after, next_at: Instant::ZERO, marked: 0 }
    }

    /// Whether to mark the Data that passes now, while packets wait for `delay`.
    pub(super) fn marks(&mut self, now: Instant, delay: Duration) -> bool {
        if delay <= self.after {
            self.marked = 0;
            return false;
        }
        if self.marked > 0 && now < self.next_at {
            return false;
        }
        self.marked = self.marked.saturating_add(1);
        self.next_at = now + GAP.div_f64(f64::from(self.marked).sqrt());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_at_once_then_ever_more_often_and_end_with_the_wait() {
        let mut marker = Marker::new(Duration::from_millis(5));
        let mut count = |from: u64, until: u64, delay| {
            let at = |millis| Instant::from_nanos(millis * 1_000_000);
            (from..until).filter(|&millis| marker.marks(at(millis), delay)).count()
        };
        let [short, long] = [4, 6].map(Duration::from_millis);
        assert_eq!(count(0, 100, short), 0);
        assert_eq!(count(100, 101, long), 1);
        assert_eq!(count(101, 300, long), 2);
        assert!(count(300, 1_300, long) > 20);
        assert_eq!(count(1_300, 1_301, short), 0);
        assert_eq!(count(1_301, 1_390, long), 1, "it restarts");
    }
}
