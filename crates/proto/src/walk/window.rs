//! The window of walks under way: it grows with time, and shrinks at marks.

use std::time::Duration;

use super::config::WindowConfig;
use crate::core::Instant;
use crate::parts::token_bucket::{TokenBucket, time_for};

/// The share of losses, averaged over windows, above which they count as a sign of congestion. A
/// queue marks long before it loses, so a few losses come from somewhere else; and walkers that
/// travel together get lost together.
const LOSS_MAX: f64 = 0.1;
/// The part of the share of losses that the latest window makes up.
const LOSS_GAIN: f64 = 1.0 / 16.0;
/// The weight of the latest round trip in the marked share. Source: g of Alizadeh et al., *Data
/// Center TCP*, SIGCOMM 2010. Its 1/16 is for round trips of microseconds; with those of walks the
/// window would remember marks for seconds.
const GAIN: f64 = 1.0 / 4.0;

/// A window of walks under way.
///
/// Doubles each round trip until more than a few walks come home marked; rises from there by a
/// quarter until they do again. After that it grows by a constant each millisecond, faster with
/// each round trip without marks, and is cut once a round trip as DCTCP's is: by half the share of
/// walks that came home marked, among those that were begun after the last cut. Walks are begun
/// evenly over a round trip.
#[derive(Clone, Debug)]
pub(super) struct Window {
    config: WindowConfig,
    walks: f64,
    phase: Phase,
    /// Share of marked walks, averaged over round trips.
    marked_share: f64,
    losses: Losses,
    epoch: Epoch,
    /// Round trips without a mark since the last one with any.
    clean: u32,
    /// Smoothed time that a walk takes.
    trip_nanos: f64,
    /// Paces a window's worth of walks, and a little more, over a round trip. Pacing prevents a
    /// burst of completions from becoming a burst of departures, which would meet queues as a burst
    /// again. Source of the idea: Zhang, Shenker and Clark, *Observations on the Dynamics of a
    /// Congestion Control Algorithm*, SIGCOMM 1991; the shares are Linux's for TCP
    /// (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
    pacer: TokenBucket,
    grown: Instant,
    /// Until when no walk is begun.
    paused: Instant,
    /// When it was last cut for more than a few marks, or ended doubling. Marks of walks that began
    /// before then may arrive for several round trips, and have no further effect.
    cut: Instant,
}

/// How a window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// By as much again each round trip: no queue has been full yet.
    Doubling,
    /// By a quarter: no queue has been full since it doubled. A doubling window begins walks in
    /// bursts, which may fill queues before the path is full. Source of the idea, and of the
    /// quarter: RFC 9406, *HyStart++*, conservative slow start.
    Rising,
    /// By a constant each millisecond.
    Steady,
}

/// Counts of the present round trip.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    began: Instant,
    /// Walks that came home, and those of them that were begun after the last cut.
    home: u64,
    ended: u64,
    marked: u64,
    /// By how many walks the window may still grow in it.
    growth: f64,
}

/// The share of lost walks, judged over at least as many walks as were under way. Losses become
/// known later than completions, and in bursts. After the last walk has begun, the last results are
/// losses only, of walks that most of their contemporaries have long overtaken.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    ended: u64,
    lost: u64,
    /// Walks that were under way when it began.
    among: u64,
    /// Share of lost walks, averaged.
    share: f64,
}

/// How many windows may be begun in a round trip: while it doubles, and later.
const PACE_DOUBLING: f64 = 2.0;
const PACE: f64 = 1.25;
/// Walks held back within this time may be made up for: shorter round trips are not paced.
const CATCH_UP: Duration = Duration::from_millis(10);
/// The least time between bursts of paced walks.
const PACED_EACH: Duration = Duration::from_millis(1);

/// The most growth of a window in a round trip after one with marks: the square root of this many
/// times its walks (a thirteenth of a window of 65,536), and at most a fifth of the window. Where
/// round trips are long, a constant would be too much for queues or too little for the path; a
/// share of the window would keep small windows small beside large ones. Source of the idea: Bansal
/// and Balakrishnan, *Binomial Congestion Control Algorithms*, INFOCOM 2001.
const GROWTH: f64 = 384.0;
/// A share of marks that is too small to end its doubling or its rise: so few marks show that walks
/// met in a burst, not that the path is full.
const MARKED_FEW: f64 = 0.01;
/// Round trips without marks after which it grows no faster: twice as fast after each of them.
const CLEAN_MAX: u32 = 3;
/// The weight of a walk in the time that walks take: some are many times as long as others.
const TRIP_GAIN: f64 = 1.0 / 64.0;
/// Time to wait after a walk found its own server's queue full.
const PAUSE: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(10));

impl Epoch {
    fn new(began: Instant, growth: f64) -> Epoch {
        Epoch { began, home: 0, ended: 0, marked: 0, growth }
    }
}

impl Losses {
    /// Counts walks that came home and walks that were lost. True if too many are lost; judged only
    /// once at least `least` walks have ended, and as many as were under way.
    fn count(&mut self, ended: u64, lost: u64, in_flight: usize, least: usize) -> bool {
        self.ended += ended;
        self.lost += lost;
        let all = self.ended + self.lost;
        if all < self.among.max(least as u64) {
            return false;
        }
        let lost = std::mem::take(&mut self.lost);
        (self.ended, self.among) = (0, in_flight as u64);
        self.share += LOSS_GAIN * (lost as f64 / all as f64 - self.share);
        lost > 0 && self.share > LOSS_MAX
    }
}

impl Window {
    pub(super) fn new(config: WindowConfig, now: Instant) -> Window {
        Window {
            config,
            walks: config.first as f64,
            phase: Phase::Doubling,
            marked_share: 0.0,
            losses: Losses::default(),
            epoch: Epoch::new(now, 0.0),
            clean: 0,
            trip_nanos: 0.0,
            pacer: TokenBucket::empty(CATCH_UP),
            grown: now,
            paused: now,
            cut: now,
        }
    }

    /// Until when no walk is begun.
    pub(super) fn paused(&self) -> Instant {
        self.paused
    }

    /// A walk is begun.
    pub(super) fn on_begun(&mut self, now: Instant) {
        if self.trip_nanos == 0.0 {
            return;
        }
        let pace = if self.phase == Phase::Doubling { PACE_DOUBLING } else { PACE };
        let rate = pace * self.walks * 1e9 / self.trip_nanos;
        self.pacer.take(now, 1.0, rate);
        if self.pacer.next_at() > now {
            // The next ones together.
            let crowd = time_for(self.config.batch as f64, rate).max(PACED_EACH);
            self.paused = self.paused.max(now + crowd);
        }
    }

    /// True if there is room for a batch, or for half of the window if that is less, or for all
    /// that is left; or for one, if none is under way.
    pub(super) fn has_room(&self, in_flight: usize, left: u64) -> bool {
        let room = (self.walks as usize).saturating_sub(in_flight);
        // A single walk that got lost is not to keep others from being begun until it is missed.
        let batch = self.config.batch.min(self.walks as usize / 2);
        let wanted = left.min(batch as u64) as usize;
        in_flight == 0 || (room > 0 && room >= wanted)
    }

    /// A walk has come home: when it was begun, if that is known; and the time it took, if it says
    /// how long ways are.
    pub(super) fn on_ended(
        &mut self,
        now: Instant,
        begun: Option<Instant>,
        way: Option<Duration>,
        is_marked: bool,
        in_flight: usize,
    ) {
        if let Some(way) = way {
            let nanos = way.as_nanos() as f64;
            let gain = if self.trip_nanos == 0.0 { 1.0 } else { TRIP_GAIN };
            self.trip_nanos += gain * (nanos - self.trip_nanos);
        }
        self.epoch.home += 1;
        if self.is_news(begun) {
            self.epoch.ended += 1;
            self.epoch.marked += u64::from(is_marked);
        }
        self.count_losses(1, 0, in_flight);
        let since = now.since(self.grown).as_secs_f64() * 1000.0;
        self.grown = now;
        // A window that is not used says nothing of what would happen if it were.
        if in_flight as f64 + self.config.batch as f64 >= self.walks / 2.0 {
            if self.phase == Phase::Doubling {
                self.walks += 1.0;
            } else {
                let growth = since.min(1000.0) * self.config.growth_per_ms as f64;
                let growth = (growth * self.speed()).min(self.epoch.growth);
                self.epoch.growth -= growth;
                self.walks += growth;
            }
        }
        self.end_epoch(now);
    }

    /// A walk of its own, which was begun at this time, was marked where it lives.
    pub(super) fn on_marked_here(&mut self, now: Instant, begun: Option<Instant>) {
        self.epoch.marked += u64::from(self.is_news(begun));
        self.end_epoch(now);
    }

    /// A walk of its own found the queue full where it lives: none is begun for a while, or the
    /// same walk would find it full again and again.
    pub(super) fn on_refused_here(&mut self, now: Instant) {
        let (least, most) = PAUSE;
        self.paused = now + Duration::from_nanos(self.trip_nanos as u64).clamp(least, most);
        if self.phase == Phase::Doubling {
            self.walks /= 2.0;
            self.end_doubling(now);
        } else {
            self.epoch.marked += 1;
            self.end_epoch(now);
        }
    }

    /// Whether a walk that began at this time shows the effect of the last cut.
    fn is_news(&self, begun: Option<Instant>) -> bool {
        begun.is_some_and(|begun| begun >= self.cut)
    }

    /// A walk was lost.
    pub(super) fn on_lost(&mut self, in_flight: usize) {
        self.count_losses(0, 1, in_flight);
        self.stay_within();
    }

    fn count_losses(&mut self, ended: u64, lost: u64, in_flight: usize) {
        if self.losses.count(ended, lost, in_flight, self.config.batch) {
            self.phase = Phase::Steady;
            self.clean = 0;
            self.walks /= 2.0;
        }
    }

    /// The factor by which growth is accelerated.
    fn speed(&self) -> f64 {
        f64::from(1u32 << self.clean)
    }

    fn end_epoch(&mut self, now: Instant) {
        let Epoch { began, home, ended, marked, .. } = self.epoch;
        if self.phase == Phase::Doubling && marked as f64 > self.walks * MARKED_FEW {
            return self.end_doubling(now);
        }
        // The share among a few walks, or among the fastest, is not representative.
        let is_enough = ended >= (self.config.batch as u64).max(home / 16);
        if is_enough && now.since(began).as_nanos() as f64 >= self.trip_nanos {
            // A walk may be marked here and on its way.
            let share = (marked as f64 / ended as f64).min(1.0);
            self.marked_share += GAIN * (share - self.marked_share);
            let is_clean = share <= if self.phase == Phase::Rising { MARKED_FEW } else { 0.0 };
            if self.phase == Phase::Rising && !is_clean {
                self.phase = Phase::Steady;
            }
            self.clean = if is_clean { (self.clean + 1).min(CLEAN_MAX) } else { 0 };
            self.walks *= 1.0 - self.marked_share.min(share) / 2.0;
            if share > MARKED_FEW {
                self.cut = now;
            }
            let growth = (self.walks * GROWTH).sqrt().min(self.walks / 5.0) * self.speed();
            let most = self.walks * if self.phase == Phase::Rising { 0.25 } else { 1.0 };
            self.epoch = Epoch::new(now, growth.min(most));
        }
        self.stay_within();
    }

    fn end_doubling(&mut self, now: Instant) {
        // The window has doubled since, but the marked walks began at twice its pace, so the
        // present window is about what there is room for. Its effect must show before it changes
        // again, and must count at once.
        (self.phase, self.cut) = (Phase::Rising, now);
        (self.clean, self.marked_share) = (0, 1.0);
        self.epoch = Epoch::new(now, 0.0);
        self.stay_within();
    }

    fn stay_within(&mut self) {
        let (least, most) = (self.config.batch.min(self.config.most), self.config.most);
        self.walks = self.walks.clamp(least as f64, most as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRIP: Duration = Duration::from_millis(1);

    /// A walk comes home that took so long, while as many are under way as may be.
    fn home(window: &mut Window, at: Instant, took: Duration, is_marked: bool) {
        let in_flight = window.walks as usize;
        window.on_ended(at, Some(at - took), Some(took), is_marked, in_flight);
    }

    /// A window after `trips` round trips in which `marked_percent` of the walks come home marked.
    fn after(trips: u64, marked_percent: u64) -> Window {
        let mut window = Window::new(WindowConfig::default(), Instant::ZERO);
        let mut now = Instant::ZERO;
        for _ in 0..trips {
            let walks = window.walks as u64;
            for walk in 0..walks {
                let at = now + TRIP * (walk + 1) as u32 / walks as u32;
                let is_marked = walk % 100 < marked_percent;
                home(&mut window, at, TRIP, is_marked);
            }
            now += TRIP;
        }
        window
    }

    #[test]
    fn a_window_doubles_until_the_first_mark_and_has_an_end() {
        let walks = after(3, 0).walks;
        assert!((1900.0..2100.0).contains(&walks), "{walks}");
        assert_eq!(after(30, 0).walks, 262_144.0);
    }

    #[test]
    fn it_shrinks_with_the_share_of_marks_and_keeps_a_batch() {
        let (few, many) = (after(200, 2), after(200, 60));
        assert!(few.walks > 4.0 * many.walks, "{} {}", few.walks, many.walks);
        assert!(many.walks >= 32.0);
        let all = after(200, 100).walks;
        assert!((32.0..=40.0).contains(&all), "{all}");
    }

    #[test]
    fn a_few_losses_do_not_slow_it_down() {
        let mut window = after(10, 0);
        let before = window.walks;
        let now = Instant::ZERO + TRIP * 20;
        for walk in 0..10_000u64 {
            if walk % 50 == 0 {
                window.on_lost(window.walks as usize);
            }
            home(&mut window, now, TRIP, false);
        }
        assert!(window.walks >= before);
        for _ in 0..10 * before as u64 {
            window.on_lost(before as usize);
        }
        assert!(window.walks < before / 2.0);
    }

    #[test]
    fn the_last_walks_of_a_window_may_all_be_lost_ones() {
        let mut window = after(10, 0);
        let before = window.walks;
        let (now, all) = (Instant::ZERO + TRIP * 20, before as usize);
        // A twentieth is lost, which shows after all others are home.
        for home in 0..all * 19 / 20 {
            window.on_ended(now, Some(now - TRIP), Some(TRIP), false, all - home);
        }
        for lost in 0..all / 20 {
            window.on_lost(all / 20 - lost);
        }
        assert!(window.walks >= before, "{} of {before}", window.walks);
    }

    #[test]
    fn a_single_walk_that_is_missed_does_not_keep_others_from_being_begun() {
        let config = WindowConfig { first: 32, ..WindowConfig::default() };
        let window = Window::new(config, Instant::ZERO);
        assert!(window.has_room(1, 1000) && window.has_room(16, 1000));
        assert!(!window.has_room(17, 1000));
    }

    #[test]
    fn after_a_full_queue_no_walk_is_begun_for_a_while_and_the_window_is_halved() {
        let mut window = after(6, 0);
        let now = Instant::ZERO + TRIP * 6;
        let before = window.walks;
        assert!(window.paused() < now);
        window.on_refused_here(now);
        assert_eq!(window.paused(), now + TRIP);
        for walk in 1..=before as u32 {
            home(&mut window, now + TRIP * walk / before as u32, TRIP, false);
        }
        assert_ne!(window.phase, Phase::Doubling);
        assert!(window.walks <= before / 2.0, "{before} {window:?}");
    }

    /// Walks that are begun by this time since the beginning, all at once if they may.
    fn begun(window: &mut Window, from: Instant, until: Instant) -> usize {
        let mut begun = 0;
        let mut now = from;
        while now <= until {
            while window.paused() <= now && begun < window.walks as usize {
                window.on_begun(now);
                begun += 1;
            }
            now += Duration::from_millis(1);
        }
        begun
    }

    #[test]
    fn a_crowd_that_comes_home_does_not_leave_as_one_unless_ways_are_short() {
        let (now, milli) = (Instant::ZERO + Duration::from_secs(10), Duration::from_millis);
        let window = |trip| {
            let config = WindowConfig { first: 10_000, ..WindowConfig::default() };
            let mut window = Window::new(config, Instant::ZERO);
            window.phase = Phase::Steady;
            home(&mut window, now, trip, false);
            window
        };
        assert_eq!(begun(&mut window(milli(5)), now, now), window(milli(5)).walks as usize);
        // 62 in a millisecond, and what it was behind with.
        let at_once = begun(&mut window(milli(200)), now, now);
        assert!((600..650).contains(&at_once), "{at_once}");
        let later = begun(&mut window(milli(200)), now, now + milli(100));
        assert!((6_700..7_000).contains(&later), "{later}");
    }

    #[test]
    fn a_few_marks_do_not_end_its_doubling_and_then_it_rises_by_quarters() {
        let mut window = after(6, 0);
        let mut now = Instant::ZERO + TRIP * 6;
        let mut trip = |window: &mut Window, every: u64| {
            let before = window.walks;
            for walk in 1..=before as u64 {
                let at = now + TRIP * walk as u32 / before as u32;
                home(window, at, TRIP, walk.is_multiple_of(every));
            }
            now += TRIP;
            window.walks / before
        };
        // One in 200, then one in ten.
        assert!(trip(&mut window, 200) > 1.9);
        assert_eq!(window.phase, Phase::Doubling);
        trip(&mut window, 10);
        assert_eq!(window.phase, Phase::Rising);
        // As long ways let it: what it grows by in a millisecond is not the bound here.
        window.config.growth_per_ms = 1 << 20;
        let rises: Vec<f64> = (0..6).map(|_| trip(&mut window, 200)).collect();
        assert!(rises[3..].iter().all(|rise| (1.2..1.26).contains(rise)), "{rises:?}");
        trip(&mut window, 10);
        trip(&mut window, 10);
        assert_ne!(window.phase, Phase::Rising);
    }

    #[test]
    fn marks_of_walks_that_were_begun_before_a_cut_ask_for_no_other() {
        let mut window = after(6, 0);
        let now = Instant::ZERO + TRIP * 6;
        while window.phase == Phase::Doubling {
            home(&mut window, now, TRIP, true);
        }
        let before = window.walks;
        for walk in 1..=before as u32 {
            home(&mut window, now + TRIP * 3 * walk / before as u32, TRIP * 4, true);
        }
        assert_eq!(window.walks, before);
        for walk in 1..=before as u32 {
            home(&mut window, now + TRIP * 4 + TRIP * walk / before as u32, TRIP, true);
        }
        assert!((0.4..0.6).contains(&(window.walks / before)), "{before} {window:?}");
    }

    #[test]
    fn a_small_window_beside_a_large_one_does_not_stay_small() {
        // Both meet the same queue, which marks walkers above a threshold of its length.
        let trip = TRIP * 250;
        let config = |first| WindowConfig { first, ..WindowConfig::default() };
        let mut windows = [500, 100_000].map(|first| Window::new(config(first), Instant::ZERO));
        windows.iter_mut().for_each(|window| window.phase = Phase::Steady);
        let mut now = Instant::ZERO;
        for _ in 0..80 {
            let all: f64 = windows.iter().map(|window| window.walks).sum();
            let percent = ((all - 100_000.0) / 1000.0).clamp(0.0, 100.0) as u64;
            for window in &mut windows {
                let walks = window.walks as u64;
                for walk in 0..walks {
                    let at = now + trip * (walk + 1) as u32 / walks as u32;
                    home(window, at, trip, walk % 100 < percent);
                }
            }
            now += trip;
        }
        let [small, large] = windows.map(|window| window.walks);
        assert!(small > 35_000.0 && large < 65_000.0, "{small} {large}");
        assert!(small + large > 90_000.0, "{small} {large}");
    }

    #[test]
    fn walks_are_begun_in_batches_and_the_last_ones_as_they_are() {
        let window = Window::new(WindowConfig::default(), Instant::ZERO);
        assert!(window.has_room(256 - 32, 1000));
        assert!(!window.has_room(256 - 31, 1000));
        assert!(window.has_room(256 - 31, 3));
        assert!(!window.has_room(256, 3));
    }
}
