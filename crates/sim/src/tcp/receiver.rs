//! The receiving end of a stream: puts segments in order and decides when to acknowledge.

use std::time::Duration;

use paceline_proto::core::Instant;

use super::congestion::MSS;

/// Longest wait of an acknowledgement for a second segment: Linux's least. RFC 5681, section 4.2,
/// allows 500 ms.
pub(crate) const ACK_DELAY: Duration = Duration::from_millis(40);

/// Selective acknowledgements that fit beside timestamps (RFC 2018, section 3).
const SACK_BLOCKS: usize = 3;

/// An acknowledgement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    /// Every byte below it has come.
    pub(crate) cumulative: u64,
    /// Ranges above it that have come, the latest first; empty ranges say nothing.
    pub(crate) selective: [(u64, u64); SACK_BLOCKS],
}

/// What has come of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Receiver {
    next: u64,
    // Apart from each other and above `next`; that of the latest segment first (RFC 2018).
    ranges: Vec<(u64, u64)>,
    // Bytes since the last acknowledgement.
    unacknowledged: u64,
    deadline: Option<Instant>,
}

impl Receiver {
    /// Takes a segment. True if it must be acknowledged at once.
    pub(crate) fn on_segment(&mut self, now: Instant, start: u64, end: u64) -> bool {
        if end <= self.next || self.ranges.iter().any(|range| range.0 <= start && end <= range.1) {
            // RFC 5681, section 4.2: a duplicate asks for an immediate acknowledgement.
            return true;
        }
        if start > self.next {
            self.insert(start, end);
            return true;
        }
        self.next = end;
        let had_gap = !self.ranges.is_empty();
        while let Some(at) = self.ranges.iter().position(|range| range.0 <= self.next) {
            let (_, end) = self.ranges.remove(at);
            self.next = self.next.max(end);
        }
        self.unacknowledged += end - start;
        // RFC 5681, section 4.2: at once where it fills a gap, and for every second full segment.
        if had_gap || self.unacknowledged >= 2 * MSS {
            return true;
        }
        self.deadline.get_or_insert(now + ACK_DELAY);
        false
    }

    fn insert(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        self.ranges.retain(|&(from, to)| {
            let touches = from <= end && start <= to;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        self.ranges.insert(0, (start, end));
    }

    /// The acknowledgement of all that has come; nothing waits for one after it.
    pub(crate) fn acknowledge(&mut self) -> Ack {
        self.unacknowledged = 0;
        self.deadline = None;
        let mut selective = [(0, 0); SACK_BLOCKS];
        for (block, &range) in selective.iter_mut().zip(&self.ranges) {
            *block = range;
        }
        Ack { cumulative: self.next, selective }
    }

    /// The byte that comes next in order.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// When a delayed acknowledgement must leave.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_second_segment_is_acknowledged_and_a_single_one_after_the_delay() {
        let mut receiver = Receiver::default();
        assert!(!receiver.on_segment(Instant::ZERO, 0, MSS));
        assert_eq!(receiver.deadline(), Some(Instant::ZERO + ACK_DELAY));
        assert!(receiver.on_segment(Instant::ZERO, MSS, 2 * MSS));
        assert_eq!(receiver.acknowledge(), Ack { cumulative: 2 * MSS, selective: [(0, 0); 3] });
        assert_eq!(receiver.deadline(), None);
    }

    #[test]
    fn what_is_out_of_order_is_reported_the_latest_first_and_at_once() {
        let mut receiver = Receiver::default();
        for start in [100, 300, 500, 700] {
            assert!(receiver.on_segment(Instant::ZERO, start, start + 100));
        }
        let ack = receiver.acknowledge();
        assert_eq!(ack.selective, [(700, 800), (500, 600), (300, 400)]);
        // Joins two of them, and comes to the front.
        assert!(receiver.on_segment(Instant::ZERO, 400, 500));
        assert_eq!(receiver.acknowledge().selective, [(300, 600), (700, 800), (100, 200)]);
        // Fills the first gap: all that follows it in order counts.
        assert!(receiver.on_segment(Instant::ZERO, 0, 100));
        assert_eq!(receiver.acknowledge().cumulative, 200);
        assert!(receiver.on_segment(Instant::ZERO, 200, 300));
        let ack = receiver.acknowledge();
        assert_eq!((ack.cumulative, ack.selective[0]), (600, (700, 800)));
    }

    #[test]
    fn a_duplicate_changes_nothing_and_is_acknowledged_at_once() {
        let mut receiver = Receiver::default();
        receiver.on_segment(Instant::ZERO, 0, MSS);
        receiver.on_segment(Instant::ZERO, 2 * MSS, 3 * MSS);
        let before = receiver.clone().acknowledge();
        assert!(receiver.on_segment(Instant::ZERO, 0, MSS));
        assert!(receiver.on_segment(Instant::ZERO, 2 * MSS, 3 * MSS));
        assert_eq!(receiver.acknowledge(), before);
    }
}
