//! A path of a flow, and when its Interests are due.

use std::time::Duration;

use crate::core::Instant;
use crate::mircc::round_trip::{LOST_AFTER_MAX, RoundTrip};
use crate::ndn::{JoinRates, PathLabel, Stamps};

/// Nacks for congestion count as answers until this many times `patience` after the path's last
/// Data.
const PATIENCE_REFUSED: u32 = 4;

/// A way to the object, as its label names it.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) label: PathLabel,
    pub(super) stamps: Stamps,
    /// The rate that one more flow would get at each hop of it.
    pub(super) join_rates: JoinRates,
    pub(super) round_trip: RoundTrip,
    pub(super) sent_at: Instant,
    pub(super) heard_at: Instant,
    /// True if the flow must probe the path at once.
    pub(super) is_wanted: bool,
    /// When the first Interest left since the path last answered.
    unanswered_since: Option<Instant>,
    /// When a Data came last, or the path was found.
    data_at: Instant,
}

impl Path {
    pub(super) fn new(label: PathLabel, now: Instant) -> Path {
        Path {
            label,
            stamps: Stamps::default(),
            join_rates: JoinRates::EMPTY,
            round_trip: RoundTrip::default(),
            sent_at: now,
            heard_at: now,
            is_wanted: false,
            unanswered_since: None,
            data_at: now,
        }
    }

    /// An Interest leaves by it.
    pub(super) fn note_sent(&mut self, now: Instant) {
        self.sent_at = now;
        self.is_wanted = false;
        self.unanswered_since.get_or_insert(now);
    }

    /// A Data has come.
    pub(super) fn note_data(&mut self, now: Instant) {
        (self.heard_at, self.data_at) = (now, now);
        self.unanswered_since = None;
    }

    /// A hop of it has refused an Interest for congestion. The hops behind that one may be dead, so
    /// this is no sign of life where no Data comes for long.
    pub(super) fn note_refused(&mut self, now: Instant) {
        self.heard_at = now;
        if now < self.data_at + self.patience() * PATIENCE_REFUSED {
            self.unanswered_since = None;
        }
    }

    /// The rate that the primary class of a flow now on the path `present` would get on this path,
    /// bit/s: the least join rate of the hops that only this path has, but at most the stamp, which
    /// covers hops of both. Two hops are taken for the same if their labels are equal. Labels are
    /// 16 random bits, so two paths of five hops falsely share a hop once in 2,600 pairs of paths.
    pub(super) fn expected(&self, present: Option<&PathLabel>) -> f64 {
        let is_shared = |hop: u16| present.is_some_and(|path| path.hops().any(|own| own == hop));
        let joined = self.label.hops().zip(self.join_rates.hops());
        let rates = joined.filter(|&(hop, _)| !is_shared(hop)).filter_map(|(_, rate)| rate);
        rates.fold(self.primary(), |least, rate| least.min(rate as f64))
    }

    /// Rate for primary Interests, bit/s; 0 if none was stamped.
    pub(super) fn primary(&self) -> f64 {
        self.stamps.primary().map_or(0.0, |rate| rate as f64)
    }

    /// Rate for secondary Interests, bit/s; 0 if none was stamped.
    pub(super) fn secondary(&self) -> f64 {
        self.stamps.secondary().map_or(0.0, |rate| rate as f64)
    }

    /// True if it was asked and has been silent for long since.
    pub(super) fn is_silent(&self, now: Instant) -> bool {
        self.unanswered_since.is_some_and(|since| now > since + self.patience())
    }

    /// How long it may be silent.
    fn patience(&self) -> Duration {
        (self.round_trip.lost_after() * 4).max(LOST_AFTER_MAX)
    }

    /// When to probe the path if it carries nothing else: `interval` after the last probe, and
    /// sooner if that is unanswered.
    pub(super) fn probe_at(&self, interval: Duration, interval_min: Duration) -> Instant {
        let after = match self.unanswered_since {
            Some(_) => self.round_trip.lost_after().max(interval_min).min(interval),
            None if self.is_wanted => Duration::ZERO,
            None => interval,
        };
        self.sent_at + after
    }
}

/// A row of Interests at one rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lane {
    /// Rate, bit/s of Data; 0 sends nothing.
    pub(super) rate: f64,
    /// The last one's time, by the rate.
    pub(super) last: Instant,
    // The timer that is set, and its number.
    set_for: Option<Instant>,
    number: u16,
}

impl Lane {
    /// The number of the timer to set for `due`, unless one is set that will do.
    pub(super) fn set(&mut self, now: Instant, due: Instant) -> Option<u16> {
        if let Some(set_for) = self.set_for {
            // It is asked again when it fires, so early is well. A little late is, too: a rate that
            // keeps changing would otherwise set a timer each time.
            let slack = (set_for.since(now)) / 16;
            if set_for <= due + slack {
                return None;
            }
        }
        self.number = self.number.wrapping_add(1);
        self.set_for = Some(due.max(now));
        Some(self.number)
    }

    /// True if the timer of this number is the current one, which it clears.
    pub(super) fn fire(&mut self, number: u16) -> bool {
        let counts = self.number == number && self.set_for.is_some();
        if counts {
            self.set_for = None;
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU16;

    use super::*;

    fn label(hops: &[u16]) -> PathLabel {
        let hops: Vec<_> = hops.iter().map(|&hop| NonZeroU16::new(hop).unwrap()).collect();
        PathLabel::of_hops(&hops)
    }

    /// A path of three hops with this stamp, and these join rates, the nearest first.
    fn path(hops: [u16; 3], stamp: u64, joins: [Option<u64>; 3]) -> Path {
        let mut path = Path::new(label(&hops), Instant::ZERO);
        path.stamps.primary_bits_per_second = stamp;
        joins.into_iter().rev().for_each(|rate| path.join_rates.push_front(rate));
        path
    }

    #[test]
    fn a_path_is_expected_to_give_what_its_own_hops_would_give_one_more_flow() {
        let path = path([1, 2, 3], 1_800, [Some(700), Some(900), None]);
        assert_eq!(path.expected(None), 700.0);
        // At a hop of both the flow has its share already.
        assert_eq!(path.expected(Some(&label(&[1, 7, 8]))), 900.0);
        assert_eq!(path.expected(Some(&label(&[1, 2, 8]))), 1_800.0);
        // Hops are the same wherever on the path they are.
        assert_eq!(path.expected(Some(&label(&[2, 9]))), 700.0);
        assert_eq!(path.expected(Some(&label(&[9, 1]))), 900.0);
    }

    #[test]
    fn a_path_without_join_rates_is_expected_to_give_its_stamp() {
        assert_eq!(path([1, 2, 3], 1_800, [None; 3]).expected(None), 1_800.0);
        assert_eq!(path([1, 2, 3], 500, [Some(700); 3]).expected(None), 500.0);
        assert_eq!(Path::new(label(&[4]), Instant::ZERO).expected(None), 0.0);
    }

    #[test]
    fn a_path_is_silent_only_after_an_interest_that_nothing_followed() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut path = Path::new(label(&[1]), at(0));
        assert!(!path.is_silent(at(60_000)), "it was never asked");
        path.note_sent(at(60_000));
        path.note_sent(at(63_000));
        assert!(!path.is_silent(at(64_000)) && path.is_silent(at(64_001)));
        path.note_data(at(64_001));
        path.is_wanted = true;
        assert_eq!(path.probe_at(Duration::MAX, Duration::ZERO), at(63_000));
        path.note_sent(at(63_000));
        path.note_data(at(64_001));
        assert!(!path.is_silent(at(90_000)));
        // Tried again soon if nothing came, else after the interval.
        let [often, seldom] = [100, 5_000].map(Duration::from_millis);
        assert_eq!(path.probe_at(seldom, often), at(68_000));
        path.note_sent(at(70_000));
        assert_eq!(path.probe_at(seldom, often), at(71_000));
    }

    #[test]
    fn a_path_that_only_brings_refusals_is_silent_after_a_while() {
        let at = |millis: u64| Instant::from_nanos(millis * 1_000_000);
        let mut path = Path::new(label(&[1]), at(0));
        path.round_trip.note(Duration::from_millis(50));
        path.note_data(at(10_000));
        // Each 100 ms an Interest leaves and is refused.
        let is_silent = |path: &mut Path, millis| {
            path.note_sent(at(millis));
            let is_silent = path.is_silent(at(millis));
            path.note_refused(at(millis + 50));
            is_silent
        };
        let silent_at = (10_000..60_000).step_by(100).find(|&millis| is_silent(&mut path, millis));
        // Four seconds of them, and one of silence.
        assert_eq!(silent_at, Some(15_100));
        path.note_data(at(20_000));
        assert!(!is_silent(&mut path, 21_000) && !is_silent(&mut path, 23_000));
    }
}
