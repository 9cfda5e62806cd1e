//! The hop-by-hop shaper: as many Interests leave by a face as the link has room for their Data.
//!
//! An Interest that waits costs nothing but time; a Data that finds no room is lost after it has
//! crossed the network. So Interests are held back, and refused when too many wait.
//! Source: Wang, Rozhnova, Narayanan, Oran, Rhee, *An improved hop-by-hop interest shaper for
//! congestion control in named data networking*, ACM ICN 2013.

use std::collections::VecDeque;
use std::time::Duration;

use crate::core::Instant;
use crate::core::knobs::knobs;
use crate::ndn::Class;
use crate::parts::token_bucket::{TokenBucket, time_for};

/// Weight of a new size in the means.
const SIZE_WEIGHT: f64 = 1.0 / 8.0;

/// The rates of Interests, bit/s, that an interface may send.
///
/// `c1` is the rate of the link out, `c2` that of the link in, `r1` how many times as large as an
/// outgoing Interest the Data is that comes in for it, `r2` the same of Data going out and
/// Interests coming in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShapedRates {
    /// If nothing comes the other way.
    pub max: f64,
    /// If the other way has all that it may have.
    pub min: f64,
    /// The rate of Interests in the other direction then.
    pub expected_in: f64,
}

impl ShapedRates {
    /// The rates for these links and sizes. Source: Wang et al. 2013, section 3.
    pub fn new(c1: f64, c2: f64, r1: f64, r2: f64) -> ShapedRates {
        let max = c2 / r1;
        let (min, expected_in) = if c1 / c2 < 2.0 * r2 / (r1 * r2 + 1.0) {
            (c1 / 2.0, c1 / (2.0 * r2))
        } else if c1 / c2 > (r1 * r2 + 1.0) / (2.0 * r1) {
            (c2 / (2.0 * r1), c2 / 2.0)
        } else {
            ((r2 * c2 - c1) / (r1 * r2 - 1.0), (r1 * c1 - c2) / (r1 * r2 - 1.0))
        };
        ShapedRates { max, min: min.min(max), expected_in }
    }

    /// The rate while Interests arrive at `observed_in` bit/s in the other direction.
    pub fn at(&self, observed_in: f64) -> f64 {
        if observed_in >= self.expected_in {
            return self.min;
        }
        let unused = 1.0 - observed_in / self.expected_in;
        self.min + (self.max - self.min) * unused * unused
    }
}

/// A mean size in bytes on the link, of what passes one way.
#[derive(Clone, Copy, Debug)]
struct Size {
    bytes: f64,
    is_known: bool,
}

impl Size {
    fn new(guess: f64) -> Size {
        Size { bytes: guess, is_known: false }
    }

    fn note(&mut self, bytes: usize) {
        let bytes = bytes as f64;
        let weight = if self.is_known { SIZE_WEIGHT } else { 1.0 };
        self.bytes += (bytes - self.bytes) * weight;
        self.is_known = true;
    }
}

/// Guesses until the first has passed.
const INTEREST_BYTES: f64 = 100.0;
const DATA_BYTES: f64 = 1_200.0;

/// Mean sizes of what passes a face, and how much its Interests inflate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    interest_out: Size,
    data_in: Size,
    interest_in: Size,
    data_out: Size,
}

impl Default for Sizes {
    fn default() -> Self {
        let (interest, data) = (Size::new(INTEREST_BYTES), Size::new(DATA_BYTES));
        Sizes { interest_out: interest, data_in: data, interest_in: interest, data_out: data }
    }
}

impl Sizes {
    pub(super) fn note_interest_out(&mut self, bytes: usize) {
        self.interest_out.note(bytes);
    }

    pub(super) fn note_interest_in(&mut self, bytes: usize) {
        self.interest_in.note(bytes);
    }

    pub(super) fn note_data_in(&mut self, bytes: usize) {
        self.data_in.note(bytes);
    }

    pub(super) fn note_data_out(&mut self, bytes: usize) {
        self.data_out.note(bytes);
    }

    /// How many bits of Data a bit of Interest brings back.
    pub(super) fn inflation(&self) -> f64 {
        self.data_in.bytes / self.interest_out.bytes
    }

    /// Mean bits of a Data that comes in.
    pub(super) fn data_bits(&self) -> f64 {
        self.data_in.bytes * 8.0
    }

    fn rates(&self, out_bits_per_second: f64, in_bits_per_second: f64) -> ShapedRates {
        // Below 1 the roles of Interests and Data would be swapped.
        let r1 = self.inflation().max(1.01);
        let r2 = (self.data_out.bytes / self.interest_in.bytes).max(1.01);
        ShapedRates::new(out_bits_per_second, in_bits_per_second, r1, r2)
    }
}

knobs! {
    /// The settings of a shaper.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ShaperConfig "shaper_" {
        /// The share of the link that Data may fill. At or below the controller's headroom, queues
        /// would not drain.
        pub headroom: f64 = 0.98, f64::MIN_POSITIVE..=1.0;
        /// Maximum number of waiting Interests, of both classes.
        pub queue_max: usize [interests] = 100, 1..;
    }
}

/// The order in which Interests leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Of the primary class.
    Primary,
    /// Of the secondary class, which takes what the primary one leaves.
    Secondary,
    /// Of either class, from a neighbour with [unanswered](super::unanswered) Interests: takes what
    /// both classes leave.
    Deprioritized,
}

impl From<Class> for Rank {
    fn from(class: Class) -> Rank {
        match class {
            Class::Primary => Rank::Primary,
            Class::Secondary => Rank::Secondary,
        }
    }
}

/// The fate of an Interest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shaped<T> {
    /// It leaves now.
    Leaves(T),
    /// It waits. With an instant, the caller must call [`Shaper::take`] then; else a call is
    /// already due. An Interest of a later rank that was evicted for it is given back.
    Waits(Option<Instant>, Option<T>),
    /// There is no room for it.
    Refused(T),
}

/// Interests of one rank, with their bytes on the link.
#[derive(Debug)]
struct Row<T> {
    items: VecDeque<(T, u32)>,
    bytes: usize,
}

impl<T> Row<T> {
    const EMPTY: Row<T> = Row { items: VecDeque::new(), bytes: 0 };

    fn push(&mut self, item: T, bytes: usize) {
        self.items.push_back((item, bytes as u32));
        self.bytes += bytes;
    }

    fn take_first(&mut self) -> Option<(T, usize)> {
        let (item, bytes) = self.items.pop_front()?;
        self.bytes -= bytes as usize;
        Some((item, bytes as usize))
    }

    fn take_last(&mut self) -> Option<T> {
        let (item, bytes) = self.items.pop_back()?;
        self.bytes -= bytes as usize;
        Some(item)
    }
}

/// The Interests that wait for a face, by rank.
#[derive(Debug)]
pub(super) struct Shaper<T> {
    // Rates of the link out and in; none if nothing is shaped.
    link: Option<(f64, f64)>,
    config: ShaperConfig,
    rows: [Row<T>; 3],
    pacer: TokenBucket,
}

impl<T> Shaper<T> {
    pub(super) fn new(
        link: Option<(f64, f64)>,
        config: ShaperConfig,
        catch_up: Duration,
    ) -> Shaper<T> {
        Shaper { link, config, rows: [Row::EMPTY; 3], pacer: TokenBucket::empty(catch_up) }
    }

    /// Takes an Interest with its rank and its bytes on the link. `observed_in`: the rate of
    /// Interests in the other direction, bit/s.
    pub(super) fn send(
        &mut self,
        now: Instant,
        (item, rank, bytes): (T, Rank, usize),
        sizes: &Sizes,
        observed_in: f64,
    ) -> Shaped<T> {
        if self.link.is_none() {
            return Shaped::Leaves(item);
        }
        let is_first = self.is_empty();
        if is_first && self.pacer.next_at() <= now {
            self.pass(now, bytes, sizes, observed_in);
            return Shaped::Leaves(item);
        }
        let mut evicted = None;
        if self.len() >= self.config.queue_max {
            let later = &mut self.rows[rank as usize + 1..];
            evicted = later.iter_mut().rev().find_map(Row::take_last);
            if evicted.is_none() {
                return Shaped::Refused(item);
            }
        }
        self.rows[rank as usize].push(item, bytes);
        Shaped::Waits(is_first.then(|| self.pacer.next_at()), evicted)
    }

    /// The next Interest that may leave now.
    pub(super) fn take(&mut self, now: Instant, sizes: &Sizes, observed_in: f64) -> Option<T> {
        if self.pacer.next_at() > now {
            return None;
        }
        let (item, bytes) = self.rows.iter_mut().find_map(Row::take_first)?;
        self.pass(now, bytes, sizes, observed_in);
        Some(item)
    }

    /// When to call [`Shaper::take`] next; `None` if no Interest waits.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_empty()).then(|| self.pacer.next_at())
    }

    /// Bits of waiting Interests, primary and secondary.
    pub(super) fn queued_bits(&self) -> (f64, f64) {
        let bits = |rank: Rank| self.rows[rank as usize].bytes as f64 * 8.0;
        (bits(Rank::Primary), bits(Rank::Secondary))
    }

    /// How many Interests wait.
    pub(super) fn len(&self) -> usize {
        self.rows.iter().map(|row| row.items.len()).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.iter().all(|row| row.items.is_empty())
    }

    /// The time that this many bits of Interests take to leave.
    pub(super) fn time_for(&self, bits: f64, sizes: &Sizes, observed_in: f64) -> Duration {
        self.rate(sizes, observed_in).map_or(Duration::ZERO, |rate| time_for(bits, rate))
    }

    /// Gives back all that waits.
    pub(super) fn clear(&mut self) -> impl Iterator<Item = T> {
        self.rows.iter_mut().flat_map(|row| {
            row.bytes = 0;
            row.items.drain(..).map(|(item, _)| item)
        })
    }

    fn pass(&mut self, now: Instant, bytes: usize, sizes: &Sizes, observed_in: f64) {
        if let Some(rate) = self.rate(sizes, observed_in) {
            self.pacer.take(now, bytes as f64 * 8.0, rate);
        }
    }

    fn rate(&self, sizes: &Sizes, observed_in: f64) -> Option<f64> {
        let (out_rate, in_rate) = self.link?;
        Some(sizes.rates(out_rate, in_rate).at(observed_in) * self.config.headroom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_are_those_of_the_paper_in_its_three_cases() {
        // Equal links, Data twenty times as large both ways: each way gets nearly all it can use.
        let equal = ShapedRates::new(10e6, 10e6, 20.0, 20.0);
        assert!((equal.max - 0.5e6).abs() < 1.0);
        assert!((equal.min - 19.0 * 10e6 / 399.0).abs() < 1.0 && equal.min == equal.expected_in);
        // A thin way out: half of it for Interests, half for Data.
        let thin = ShapedRates::new(0.5e6, 10e6, 20.0, 20.0);
        assert_eq!((thin.min, thin.expected_in), (0.25e6, 0.0125e6));
        // A thin way in.
        let wide = ShapedRates::new(200e6, 10e6, 20.0, 20.0);
        assert_eq!((wide.min, wide.expected_in), (0.25e6, 5e6));
    }

    #[test]
    fn the_less_comes_the_other_way_the_more_may_leave() {
        let rates = ShapedRates::new(10e6, 10e6, 20.0, 20.0);
        assert_eq!(rates.at(0.0), rates.max);
        assert_eq!((rates.at(rates.expected_in), rates.at(1e9)), (rates.min, rates.min));
        let half = rates.at(rates.expected_in / 2.0);
        assert!((half - (rates.min + (rates.max - rates.min) / 4.0)).abs() < 1e-6);
    }

    #[test]
    fn both_ways_at_their_least_rates_fill_both_links() {
        let (c1, c2, r1, r2) = (10e6, 14e6, 20.0, 15.0);
        let rates = ShapedRates::new(c1, c2, r1, r2);
        let (out, back) = (rates.min, rates.expected_in);
        assert!((out + r2 * back - c1).abs() < 1.0, "out: Interests, and Data for theirs");
        assert!((back + r1 * out - c2).abs() < 1.0, "in: their Interests, and our Data");
    }

    fn shaper(queue_max: usize) -> Shaper<u32> {
        let config = ShaperConfig { queue_max, ..ShaperConfig::default() };
        Shaper::new(Some((10e6, 10e6)), config, Duration::ZERO)
    }

    #[test]
    fn primary_interests_pass_secondary_ones_and_push_them_out() {
        let (mut shaper, sizes, now) = (shaper(3), Sizes::default(), Instant::ZERO);
        let mut send =
            |item, class: Class| shaper.send(now, (item, class.into(), 100), &sizes, 0.0);
        assert_eq!(send(0, Class::Secondary), Shaped::Leaves(0));
        assert!(matches!(send(1, Class::Secondary), Shaped::Waits(Some(_), None)));
        assert_eq!(send(2, Class::Secondary), Shaped::Waits(None, None));
        assert_eq!(send(3, Class::Primary), Shaped::Waits(None, None));
        assert_eq!(send(4, Class::Secondary), Shaped::Refused(4));
        assert_eq!(send(5, Class::Primary), Shaped::Waits(None, Some(2)));
        assert_eq!(send(6, Class::Primary), Shaped::Waits(None, Some(1)));
        assert_eq!(send(7, Class::Primary), Shaped::Refused(7));
        let mut left = Vec::new();
        while let Some(at) = shaper.due() {
            left.extend(shaper.take(at, &sizes, 0.0));
        }
        assert_eq!(left, [3, 5, 6]);
        assert_eq!(shaper.queued_bits(), (0.0, 0.0));
    }

    #[test]
    fn who_asks_in_vain_waits_behind_both_and_makes_way_for_both() {
        let (mut shaper, sizes, now) = (shaper(3), Sizes::default(), Instant::ZERO);
        let mut send = |item, rank| shaper.send(now, (item, rank, 100), &sizes, 0.0);
        assert_eq!(send(0, Rank::Deprioritized), Shaped::Leaves(0));
        for item in 1..4 {
            assert!(matches!(send(item, Rank::Deprioritized), Shaped::Waits(_, None)));
        }
        assert_eq!(send(4, Rank::Deprioritized), Shaped::Refused(4));
        assert_eq!(send(5, Rank::Secondary), Shaped::Waits(None, Some(3)));
        assert_eq!(send(6, Rank::Primary), Shaped::Waits(None, Some(2)));
        // It counts for the queue of neither class.
        assert_eq!(shaper.queued_bits(), (800.0, 800.0));
        let mut left = Vec::new();
        while let Some(at) = shaper.due() {
            left.extend(shaper.take(at, &sizes, 0.0));
        }
        assert_eq!(left, [6, 5, 1]);
    }

    #[test]
    fn data_that_comes_back_fills_the_link_up_to_the_headroom() {
        let (mut shaper, sizes) = (shaper(5_000), Sizes::default());
        for n in 0..1_000 {
            shaper.send(Instant::ZERO, (n, Rank::Primary, 100), &sizes, 0.0);
        }
        let mut last = Instant::ZERO;
        while let Some(at) = shaper.due() {
            shaper.take(at, &sizes, 0.0);
            last = at;
        }
        let rate = 999.0 * 1_200.0 * 8.0 / last.as_secs_f64();
        assert!((rate / 9.8e6 - 1.0).abs() < 0.001, "{rate}");
    }
}
