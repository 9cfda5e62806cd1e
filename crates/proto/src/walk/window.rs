//! The window of walks under way: slow start until the first congestion, then growth with time and
//! cuts by the share of marks.
//!
//! Sources: RFC 8257 (DCTCP) for the cut, RFC 9406 (HyStart++) and RFC 5681 for slow start, RFC
//! 9002 for pacing, Bansal and Balakrishnan, *Binomial Congestion Control Algorithms*, INFOCOM
//! 2001, for growth. Each constant names its source; "ours" marks a value that no source gives.
//! Half and twice such a value have not been measured.

use std::time::Duration;

use super::config::WindowConfig;
use crate::core::Instant;
use crate::parts::token_bucket::{TokenBucket, time_for};

/// The gain of the newest round trip in the average share of marks.
///
/// Source: `g` of RFC 8257, section 3.3, steps 5 and 6. Alizadeh et al., *Data Center TCP*, SIGCOMM
/// 2010, use 1/16, for round trips of microseconds: with those of walks the window would remember
/// marks for seconds. Ours averages over about four round trips.
const MARK_GAIN: f64 = 1.0 / 4.0;
/// The average share of marks from which it is counted: so the first cut is by the newest share.
///
/// Source: RFC 8257, section 3.3, where DCTCP.Alpha begins at 1. There the connection begins with
/// it, here the end of slow start.
const MARK_SHARE_INITIAL: f64 = 1.0;
/// A share of marks up to this ends neither slow start nor conservative slow start: so few show
/// that walks met in a burst, not that the path is full.
///
/// Ours. A unit test has one mark in 200 walks, which ends nothing, and one in 10, which does.
const MARK_SHARE_IGNORED: f64 = 0.01;
/// A round trip is judged by at least one in this many of the walks that came home in it: the share
/// of marks among a few walks, or among the fastest, is not that among all.
///
/// Ours.
const JUDGED_ONE_IN: u64 = 16;

/// The share of losses, averaged over windows, above which they are a sign of congestion. A queue
/// marks long before it loses, so fewer losses have another cause; and walkers of one datagram are
/// lost together.
///
/// Ours. Above it the window is halved, as RFC 8257, section 3.5, has it at any loss. A unit test
/// holds that one loss in 50 walks does not slow a window down.
const LOSS_SHARE_MAX: f64 = 0.1;
/// The gain of the newest window of walks in the average share of losses.
///
/// Ours, and equal to what Alizadeh et al. have for marks.
const LOSS_GAIN: f64 = 1.0 / 16.0;

/// What the growth of slow start is divided by after congestion was met: the window grows by a
/// quarter in a round trip until congestion is met again.
///
/// Source: CSS_GROWTH_DIVISOR of RFC 9406, section 4.3.
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// The most growth of a window in a round trip of congestion avoidance: the square root of this
/// many times its walks (a thirteenth of a window of 65,536). Where round trips are long, a
/// constant would be too much for queues or too little for the path; a share of the window would
/// keep small windows small beside large ones.
///
/// Source of the idea: Bansal and Balakrishnan, *Binomial Congestion Control Algorithms*, INFOCOM
/// 2001, whose windows grow by alpha / w^k; here k is -1/2. The number is ours. A unit test holds
/// that windows of 500 and of 100,000 walks at the same queue come near each other within 80 round
/// trips.
const GROWTH: f64 = 384.0;
/// The most growth in a round trip of congestion avoidance is the window divided by this. It binds
/// below 9,600 walks.
///
/// Ours.
const GROWTH_DIVISOR_MIN: f64 = 5.0;
/// Growth doubles with each round trip without marks, up to this many times.
///
/// Ours.
const CLEAN_ROUNDS_MAX: u32 = 3;
/// The longest time without a completion for which a window grows.
///
/// Ours.
const GROWTH_TIME_MAX: Duration = Duration::from_secs(1);
/// The share of a window that must be under way for it to grow: what is not used says nothing of
/// what would happen if it were.
///
/// Source: RFC 7661, section 4, congestion window validation: one half of the window.
const USED_SHARE_MIN: f64 = 1.0 / 2.0;

/// The gain of a walk in the smoothed round-trip time. RFC 6298, section 2, has 1/8.
///
/// Ours: some walks are many times as long as others, so more of them are averaged.
const TRIP_GAIN: f64 = 1.0 / 64.0;

/// Windows that may be begun in a round trip of slow start.
///
/// Source: `tcp_pacing_ss_ratio` of Linux, 200 %: a window that doubles needs twice its own rate.
const PACE_SLOW_START: f64 = 2.0;
/// Windows that may be begun in any other round trip.
///
/// Source: N of RFC 9002, section 7.7: a little above 1, so that a varying round trip does not
/// leave the window unused.
const PACE: f64 = 1.25;
/// Walks that were held back for up to this time are made up for in one burst; so shorter round
/// trips are not paced.
///
/// Ours.
const CATCH_UP: Duration = Duration::from_millis(10);
/// The least time between bursts of paced walks.
///
/// Ours.
const BURST_EVERY: Duration = Duration::from_millis(1);

/// The least time before walks are begun again after one found the queue of its own server full:
/// at once, the next one would find it full again. The same time, doubled with each attempt, passes
/// before that walk is sent again.
///
/// Ours: a thread serves 4,096 walkers in it, the default of `min_th`.
pub(super) const LOCAL_DROP_WAIT_MIN: Duration = Duration::from_millis(1);
/// The most of it; between the two it is a round trip.
///
/// Ours.
const LOCAL_DROP_WAIT_MAX: Duration = Duration::from_millis(10);

/// A window of walks under way.
///
/// Doubles each round trip until more than a few walks come home marked; grows from there by a
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
    mark_share: f64,
    losses: Losses,
    round: Round,
    /// Round trips without a mark since the last one with any.
    clean_rounds: u32,
    /// Smoothed time that a walk takes.
    trip_nanos: f64,
    /// Paces a window's worth of walks, and a little more, over a round trip. Pacing prevents a
    /// burst of completions from becoming a burst of departures, which would meet queues as a burst
    /// again. Source of the idea: Zhang, Shenker and Clark, *Observations on the Dynamics of a
    /// Congestion Control Algorithm*, SIGCOMM 1991.
    pacer: TokenBucket,
    grown: Instant,
    /// Until when no walk is begun.
    paused: Instant,
    /// When it was last cut for more than a few marks, or ended slow start. Marks of walks that
    /// began before then may arrive for several round trips, and have no further effect.
    cut: Instant,
}

/// How a window grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// By one walk for each that comes home (RFC 5681, section 3.1): no queue has been full yet.
    SlowStart,
    /// By a quarter each round trip: no queue has been full since slow start. Slow start begins
    /// walks in bursts, which may fill queues before the path is full. Source: RFC 9406, section
    /// 4.2, which enters it at longer round trips; here marks do.
    ConservativeSlowStart,
    /// By a constant each millisecond.
    CongestionAvoidance,
}

/// Counts of the present round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
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

impl Round {
    fn new(began: Instant, growth: f64) -> Round {
        Round { began, home: 0, ended: 0, marked: 0, growth }
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
        lost > 0 && self.share > LOSS_SHARE_MAX
    }
}

impl Window {
    pub(super) fn new(config: WindowConfig, now: Instant) -> Window {
        Window {
            config,
            walks: config.first as f64,
            phase: Phase::SlowStart,
            mark_share: 0.0,
            losses: Losses::default(),
            round: Round::new(now, 0.0),
            clean_rounds: 0,
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
        let pace = if self.phase == Phase::SlowStart { PACE_SLOW_START } else { PACE };
        let rate = pace * self.walks * 1e9 / self.trip_nanos;
        self.pacer.take(now, 1.0, rate);
        if self.pacer.next_at() > now {
            // The next batch as one burst.
            let gap = time_for(self.config.batch as f64, rate).max(BURST_EVERY);
            self.paused = self.paused.max(now + gap);
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
        self.round.home += 1;
        if self.is_after_cut(begun) {
            self.round.ended += 1;
            self.round.marked += u64::from(is_marked);
        }
        self.count_losses(1, 0, in_flight);
        let since = now.since(self.grown).as_secs_f64() * 1000.0;
        self.grown = now;
        if in_flight as f64 + self.config.batch as f64 >= self.walks * USED_SHARE_MIN {
            if self.phase == Phase::SlowStart {
                // RFC 5681, equation (2), with walks for segments.
                self.walks += 1.0;
            } else {
                let millis = since.min(GROWTH_TIME_MAX.as_millis() as f64);
                let growth = millis * self.config.growth_per_ms as f64;
                let growth = (growth * self.speed()).min(self.round.growth);
                self.round.growth -= growth;
                self.walks += growth;
            }
        }
        self.end_round(now);
    }

    /// The queue of this server has marked a walk of its own, which was begun at this time.
    pub(super) fn on_local_mark(&mut self, now: Instant, begun: Option<Instant>) {
        self.round.marked += u64::from(self.is_after_cut(begun));
        self.end_round(now);
    }

    /// The queue of this server has dropped a walk of its own: none is begun for a while, or the
    /// same walk would find it full again and again.
    pub(super) fn on_local_drop(&mut self, now: Instant) {
        let trip = Duration::from_nanos(self.trip_nanos as u64);
        self.paused = now + trip.clamp(LOCAL_DROP_WAIT_MIN, LOCAL_DROP_WAIT_MAX);
        if self.phase == Phase::SlowStart {
            self.walks /= 2.0;
            self.end_slow_start(now);
        } else {
            self.round.marked += 1;
            self.end_round(now);
        }
    }

    /// Whether a walk that began at this time shows the effect of the last cut.
    fn is_after_cut(&self, begun: Option<Instant>) -> bool {
        begun.is_some_and(|begun| begun >= self.cut)
    }

    /// A walk was lost.
    pub(super) fn on_lost(&mut self, in_flight: usize) {
        self.count_losses(0, 1, in_flight);
        self.clamp();
    }

    fn count_losses(&mut self, ended: u64, lost: u64, in_flight: usize) {
        if self.losses.count(ended, lost, in_flight, self.config.batch) {
            self.phase = Phase::CongestionAvoidance;
            self.clean_rounds = 0;
            self.walks /= 2.0;
        }
    }

    /// The factor by which growth is accelerated.
    fn speed(&self) -> f64 {
        f64::from(1u32 << self.clean_rounds)
    }

    fn end_round(&mut self, now: Instant) {
        let Round { began, home, ended, marked, .. } = self.round;
        if self.phase == Phase::SlowStart && marked as f64 > self.walks * MARK_SHARE_IGNORED {
            return self.end_slow_start(now);
        }
        let is_enough = ended >= (self.config.batch as u64).max(home / JUDGED_ONE_IN);
        if is_enough && now.since(began).as_nanos() as f64 >= self.trip_nanos {
            // A walk may be marked here and on its way.
            let share = (marked as f64 / ended as f64).min(1.0);
            // RFC 8257, section 3.3, step 6.
            self.mark_share += MARK_GAIN * (share - self.mark_share);
            let is_conservative = self.phase == Phase::ConservativeSlowStart;
            let is_clean = share <= if is_conservative { MARK_SHARE_IGNORED } else { 0.0 };
            if is_conservative && !is_clean {
                self.phase = Phase::CongestionAvoidance;
            }
            self.clean_rounds =
                if is_clean { (self.clean_rounds + 1).min(CLEAN_ROUNDS_MAX) } else { 0 };
            // RFC 8257, section 3.3, step 9: cwnd * (1 - DCTCP.Alpha / 2). We depart from it where
            // the newest share is below the average: the cut is by the newest.
            self.walks *= 1.0 - self.mark_share.min(share) / 2.0;
            if share > MARK_SHARE_IGNORED {
                self.cut = now;
            }
            let growth = (self.walks * GROWTH).sqrt().min(self.walks / GROWTH_DIVISOR_MIN);
            let most = match self.phase {
                Phase::ConservativeSlowStart => self.walks / CSS_GROWTH_DIVISOR,
                Phase::SlowStart | Phase::CongestionAvoidance => self.walks,
            };
            self.round = Round::new(now, (growth * self.speed()).min(most));
        }
        self.clamp();
    }

    fn end_slow_start(&mut self, now: Instant) {
        // The window has doubled since, but the marked walks began at twice its pace, so the
        // present window is about what there is room for. Its effect must show before it changes
        // again, and must count at once.
        (self.phase, self.cut) = (Phase::ConservativeSlowStart, now);
        (self.clean_rounds, self.mark_share) = (0, MARK_SHARE_INITIAL);
        self.round = Round::new(now, 0.0);
        self.clamp();
    }

    fn clamp(&mut self) {
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
        window.on_local_drop(now);
        assert_eq!(window.paused(), now + TRIP);
        for walk in 1..=before as u32 {
            home(&mut window, now + TRIP * walk / before as u32, TRIP, false);
        }
        assert_ne!(window.phase, Phase::SlowStart);
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
            window.phase = Phase::CongestionAvoidance;
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
        assert_eq!(window.phase, Phase::SlowStart);
        trip(&mut window, 10);
        assert_eq!(window.phase, Phase::ConservativeSlowStart);
        // As long ways let it: what it grows by in a millisecond is not the bound here.
        window.config.growth_per_ms = 1 << 20;
        let rises: Vec<f64> = (0..6).map(|_| trip(&mut window, 200)).collect();
        assert!(rises[3..].iter().all(|rise| (1.2..1.26).contains(rise)), "{rises:?}");
        trip(&mut window, 10);
        trip(&mut window, 10);
        assert_ne!(window.phase, Phase::ConservativeSlowStart);
    }

    #[test]
    fn marks_of_walks_that_were_begun_before_a_cut_ask_for_no_other() {
        let mut window = after(6, 0);
        let now = Instant::ZERO + TRIP * 6;
        while window.phase == Phase::SlowStart {
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
        windows.iter_mut().for_each(|window| window.phase = Phase::CongestionAvoidance);
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
