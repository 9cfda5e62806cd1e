//! The loss history of a receiver: loss events, and the average interval between them.

use std::time::Duration;

use crate::core::Instant;

/// Closed intervals that are remembered. Source: RFC 5348, section 5.4.
const INTERVALS: usize = 8;
/// Their weights, the latest first. Source: RFC 5348, section 5.4, n = 8.
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// The least discount of what is remembered, if the open interval is long. Source: RFC 5348,
/// section 5.5, THRESHOLD.
const DISCOUNT_MIN: f64 = 0.25;
/// A packet is lost once this number of later ones came. Source: RFC 5348, section 5.1, NDUPACK.
const LATER_MAX: u8 = 3;
/// Maximum number of gaps that are not decided: between two of them a packet came, so the third
/// from the end has three later ones. One more while a packet is entered.
const GAPS_MAX: usize = LATER_MAX as usize + 1;
/// Steps through one gap: more than two for each interval that is remembered.
const STEPS_MAX: usize = 2 * INTERVALS + 4;

/// Numbers that did not come, and that are not lost yet.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    first: u64,
    end: u64,
    /// When the packet before the gap came, and the one behind it.
    before: Instant,
    after: Instant,
    /// Later packets that came.
    later: u8,
}

impl Gap {
    /// When this packet should have come: interpolated. Source: RFC 5348, section 5.2.
    fn due(&self, seq: u64) -> Instant {
        let steps = (self.end - self.first) as f64 + 1.0;
        let share = ((seq - self.first) as f64 + 1.0) / steps;
        self.before + self.after.since(self.before).mul_f64(share.clamp(0.0, 1.0))
    }

    /// The first number that should have come after this instant; the end if none.
    fn first_after(&self, at: Instant) -> u64 {
        let span = self.after.since(self.before).as_secs_f64();
        if span <= 0.0 {
            return self.end;
        }
        let steps = (self.end - self.first) as f64 + 1.0;
        let passed = (at.since(self.before).as_secs_f64() / span * steps).floor();
        // A float to an integer saturates.
        self.first.saturating_add(passed as u64).min(self.end)
    }
}

/// What a receiver knows of the losses of one flow. Counts only packets that came from the sender
/// itself: one that was repaired is lost here.
///
/// Losses within a round trip are one *loss event*; the *loss event rate* is the inverse of the
/// weighted average of the intervals between events. While the open interval is more than twice the
/// average, the others weigh less: a flow whose link has become free speeds up sooner. Sources: RFC
/// 5348, sections 5.1 to 5.5. 370 bytes, whatever comes.
#[derive(Clone, Debug)]
pub(crate) struct LossHistory {
    /// The number after the latest packet.
    next: u64,
    latest_at: Instant,
    /// Ascending; the first `undecided` count.
    gaps: [Gap; GAPS_MAX],
    undecided: usize,
    /// The latest first; the first `closed` count.
    intervals: [f64; INTERVALS],
    /// Of each, from longer intervals after it.
    discounts: [f64; INTERVALS],
    closed: usize,
    /// The first lost packet of the latest event, and when it should have come.
    event: Option<(u64, Instant)>,
}

impl LossHistory {
    /// The history of a flow from this number on.
    pub(crate) fn new(now: Instant, next: u64) -> LossHistory {
        LossHistory {
            next,
            latest_at: now,
            gaps: [Gap::default(); GAPS_MAX],
            undecided: 0,
            intervals: [0.0; INTERVALS],
            discounts: [1.0; INTERVALS],
            closed: 0,
            event: None,
        }
    }

    /// A packet came from the sender. `first_interval` gives the interval before the first loss
    /// event, packets.
    pub(crate) fn on_packet(
        &mut self,
        now: Instant,
        seq: u64,
        round_trip: Duration,
        first_interval: impl FnOnce() -> f64,
    ) {
        if seq >= self.next {
            let gap =
                Gap { first: self.next, end: seq, before: self.latest_at, after: now, later: 0 };
            if gap.first < gap.end {
                self.insert(self.undecided, gap);
            }
            self.gaps[..self.undecided].iter_mut().for_each(|gap| gap.later += 1);
            self.next = seq.saturating_add(1);
            self.latest_at = now;
        } else if !self.fill(seq) {
            // A copy, or it was counted as lost.
            return;
        }
        let is_decided = |gap: &&Gap| gap.later >= LATER_MAX;
        let decided = self.gaps[..self.undecided].iter().take_while(is_decided).count();
        let mut first_interval = Some(first_interval);
        for place in 0..decided {
            let gap = self.gaps[place];
            self.lose(&gap, round_trip, || first_interval.take().map_or(1.0, |first| first()));
        }
        self.gaps.copy_within(decided..self.undecided, 0);
        self.undecided -= decided;
    }

    /// The loss event rate, above 0 and at most 1; `None` before the first event.
    pub(crate) fn loss_event_rate(&self) -> Option<f64> {
        let (start, _) = self.event?;
        let open = (self.next - start) as f64;
        let discount = self.discount(open);
        let before = self.discounted().take(self.closed - 1);
        let with_open = std::iter::once((open, 1.0))
            .chain(before.map(|(interval, weight)| (interval, weight * discount)));
        let mean = mean(with_open).max(mean(self.discounted()));
        Some(1.0 / mean.max(1.0))
    }

    /// The closed intervals with their discounts, the latest first.
    fn discounted(&self) -> impl Iterator<Item = (f64, f64)> {
        self.intervals.into_iter().zip(self.discounts).take(self.closed)
    }

    /// What the closed intervals weigh less beside an open one of this many packets.
    fn discount(&self, open: f64) -> f64 {
        (2.0 * mean(self.discounted()) / open.max(1.0)).clamp(DISCOUNT_MIN, 1.0)
    }

    /// A packet came that is in a gap; false if it is in none.
    fn fill(&mut self, seq: u64) -> bool {
        let gaps = &self.gaps[..self.undecided];
        let holds = |gap: &Gap| (gap.first..gap.end).contains(&seq);
        let Some(place) = gaps.iter().position(holds) else { return false };
        let gap = self.gaps[place];
        let at = gap.due(seq);
        self.gaps[..=place].iter_mut().for_each(|gap| gap.later += 1);
        let behind = Gap { first: seq + 1, before: at, ..gap };
        if behind.first < behind.end {
            self.insert(place + 1, behind);
        }
        self.gaps[place] = Gap { end: seq, after: at, ..self.gaps[place] };
        if gap.first == seq {
            self.gaps.copy_within(place + 1..self.undecided, place);
            self.undecided -= 1;
        }
        true
    }

    fn insert(&mut self, place: usize, gap: Gap) {
        debug_assert!(self.undecided < GAPS_MAX, "three gaps at most are undecided");
        let end = self.undecided.min(GAPS_MAX - 1);
        self.gaps.copy_within(place..end, place + 1);
        self.gaps[place] = gap;
        self.undecided = end + 1;
    }

    /// All numbers of a gap are lost: those within a round trip are one event.
    fn lose(&mut self, gap: &Gap, round_trip: Duration, first_interval: impl FnOnce() -> f64) {
        let mut first_interval = Some(first_interval);
        let mut seq = gap.first;
        for _ in 0..STEPS_MAX {
            if seq >= gap.end {
                return;
            }
            let at = gap.due(seq);
            match self.event {
                Some((_, event_at)) if at <= event_at + round_trip => {
                    seq = gap.first_after(event_at + round_trip).max(seq + 1);
                    continue;
                }
                Some((start, _)) => self.close((seq - start) as f64),
                None => {
                    let first = first_interval.take().map_or(1.0, |first| first());
                    self.close(first.max(1.0));
                }
            }
            self.event = Some((seq, at));
            seq += 1;
        }
    }

    fn close(&mut self, interval: f64) {
        let discount = if self.closed > 0 { self.discount(interval) } else { 1.0 };
        self.discounts.iter_mut().for_each(|of| *of *= discount);
        self.discounts.copy_within(0..INTERVALS - 1, 1);
        self.discounts[0] = 1.0;
        self.intervals.copy_within(0..INTERVALS - 1, 1);
        self.intervals[0] = interval;
        self.closed = (self.closed + 1).min(INTERVALS);
    }
}

/// The average of intervals with their discounts, weighted, the latest first.
fn mean(intervals: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (mut packets, mut weights) = (0.0, 0.0);
    for ((interval, discount), weight) in intervals.zip(WEIGHTS) {
        packets += interval * weight * discount;
        weights += weight * discount;
    }
    packets / weights.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Duration = Duration::from_millis(10);

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// A packet each millisecond, without these.
    fn history(end: u64, lost: &[u64]) -> LossHistory {
        let mut history = LossHistory::new(at(0), 0);
        for seq in (0..end).filter(|seq| !lost.contains(seq)) {
            history.on_packet(at(seq), seq, R, || 50.0);
        }
        history
    }

    fn interval(history: &LossHistory) -> f64 {
        1.0 / history.loss_event_rate().expect("there was a loss")
    }

    #[test]
    fn a_number_is_lost_once_three_later_ones_came() {
        assert_eq!(history(10, &[7]).loss_event_rate(), None);
        assert_eq!(interval(&history(11, &[7])), 50.0, "the first interval, as it was given");
        // Two later ones, and one that fills another gap.
        let mut reordered = history(10, &[3, 4]);
        assert!(reordered.event.is_some());
        reordered = history(5, &[2, 3]);
        reordered.on_packet(at(6), 3, R, || 50.0);
        assert_eq!(reordered.event, None);
        reordered.on_packet(at(7), 5, R, || 50.0);
        assert_eq!(reordered.event.map(|event| event.0), Some(2));
    }

    #[test]
    fn what_comes_late_or_twice_is_no_loss_and_no_sign_of_one() {
        let mut history = history(10, &[7]);
        (0..5).for_each(|_| history.on_packet(at(11), 9, R, || 50.0));
        (0..5).for_each(|_| history.on_packet(at(11), 4, R, || 50.0));
        assert_eq!(history.loss_event_rate(), None, "copies do not count");
        history.on_packet(at(12), 7, R, || 50.0);
        (10..30).for_each(|seq| history.on_packet(at(seq + 3), seq, R, || 50.0));
        assert_eq!(history.loss_event_rate(), None);
    }

    #[test]
    fn losses_within_a_round_trip_are_one_event() {
        let one = history(130, &[100, 101, 105, 109]);
        assert_eq!((one.closed, one.event.map(|event| event.0)), (1, Some(100)));
        let two = history(130, &[100, 101, 105, 112]);
        assert_eq!((two.closed, two.intervals[0]), (2, 12.0));
        // A gap that lasts several round trips is as many events.
        let long: Vec<u64> = (100..135).collect();
        let several = history(150, &long);
        assert_eq!(several.closed, 4, "{:?}", several.intervals);
    }

    #[test]
    fn the_rate_is_the_weighted_average_of_the_last_eight_intervals() {
        // An event each 100 packets, and the open interval is short.
        let lost: Vec<u64> = (1..=12).map(|event| 100 * event).collect();
        let regular = history(1_204, &lost);
        assert_eq!((regular.closed, interval(&regular)), (8, 100.0));
        // The open interval counts as soon as it raises the average.
        let quiet = history(1_700, &lost);
        let discount = 2.0 * 100.0 / 500.0;
        let expected = (500.0 + 5.0 * 100.0 * discount) / (1.0 + 5.0 * discount);
        assert!((interval(&quiet) - expected).abs() < 1.0, "{}", interval(&quiet));
        // The latest weigh most.
        let lost: Vec<u64> =
            (1..=8).map(|e| 100 * e).chain((1..=4).map(|e| 800 + 20 * e)).collect();
        let worse = history(885, &lost);
        assert!((interval(&worse) - (4.0 * 20.0 + 2.0 * 100.0) / 6.0).abs() < 1e-9);
    }

    #[test]
    fn a_long_interval_discounts_those_before_it_also_once_it_is_closed() {
        // Eight of 100 packets, then one of 1,000, and an event every 100 again.
        let mut lost: Vec<u64> = (1..=9).map(|event| 100 * event).collect();
        lost.extend([1_900, 2_000]);
        let long = history(2_004, &lost);
        assert_eq!(long.intervals[..3], [100.0, 1_000.0, 100.0]);
        let discounts = [1.0, 1.0, DISCOUNT_MIN, DISCOUNT_MIN];
        assert_eq!(long.discounts[..4], discounts, "a fifth, but not below the least");
        let weights = 2.0 + DISCOUNT_MIN * 4.0;
        let expected = (100.0 + 1_000.0 + DISCOUNT_MIN * 400.0) / weights;
        assert!((interval(&long) - expected).abs() < 1e-9, "{}", interval(&long));
        // One of 150 is less than twice the average.
        let shorter = history(1_060, &[100, 200, 300, 400, 500, 600, 700, 800, 900, 1_050]);
        assert_eq!(shorter.discounts, [1.0; INTERVALS]);
    }

    #[test]
    fn numbers_far_ahead_cost_a_bounded_time_and_no_panic() {
        let mut history = LossHistory::new(at(0), 0);
        for (seq, millis) in [(5, 1), (u64::MAX / 2, 5_000), (u64::MAX - 3, 9_000)] {
            (0..3).for_each(|more| history.on_packet(at(millis), seq + more, R, || f64::NAN));
            let rate = history.loss_event_rate();
            assert!(rate.is_none_or(|rate| rate > 0.0 && rate <= 1.0), "{rate:?}");
        }
        history.on_packet(at(9_001), u64::MAX, R, || 0.0);
        history.on_packet(at(9_001), u64::MAX, R, || 0.0);
        assert!(history.loss_event_rate().is_some_and(|rate| rate > 0.0 && rate <= 1.0));
    }

    #[test]
    fn any_order_of_arrival_keeps_the_gaps_bounded() {
        let mut rng = crate::core::Rng::new(1, 1);
        let mut history = LossHistory::new(at(0), 0);
        let mut next = 0u64;
        for millis in 0..20_000 {
            let ahead = u64::from(rng.below(8));
            let seq = if rng.chance(0.4) { next.saturating_sub(ahead) } else { next + ahead / 3 };
            next = next.max(seq + 1);
            history.on_packet(at(millis), seq, R, || 10.0);
            assert!(history.undecided < GAPS_MAX);
            let gaps = &history.gaps[..history.undecided];
            assert!(gaps.windows(2).all(|pair| pair[0].end < pair[1].first), "{gaps:?}");
            assert!(gaps.iter().all(|gap| gap.first < gap.end && gap.later < LATER_MAX));
        }
    }
}
