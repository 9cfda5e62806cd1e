//! A consumer's flow: one object, fetched over one path or several.
//!
//! Where forwarders stamp rates, Interests leave at them from the first stamp on: there is no slow
//! start. Source: MIRCC, slides 7 and 12 to 14. Where none does, a window paces.

mod board;
mod discovery;
mod path;
mod recovery;
mod track;
mod window;

use std::time::Duration;

use super::config::Config;
use super::interface::{
    Fetch, FetchError, FlowCounts, FlowReport, Multipath, Pace, PathReport, Timer,
};
use super::round_trip::RoundTrip;
use crate::core::{Instant, Rng, mix};
use crate::ndn::{Class, Data, Header, Interest, NackReason, Name, PathLabel, VerifyError};
use crate::parts::token_bucket::{TokenBucket, time_for};
use board::Board;
use discovery::Discovery;
use path::{Lane, Path};
use recovery::Recovery;
use track::TrackId;
use window::{Growth, Window};

/// Paths of a flow at most.
const PATHS_MAX: usize = 16;
/// A flow's round trip until one is known.
const ROUND_TRIP_GUESS: Duration = Duration::from_millis(100);
/// The least round trips for which a flow keeps its best path, and how many more at most.
const HOLD_TRIPS_MIN: u32 = 4;
const HOLD_TRIPS_MORE: u32 = 28;
/// The same after it has just moved, until rates have settled and tell whether that was well.
const TRY_TRIPS_MIN: u32 = 8;
const TRY_TRIPS_MORE: u32 = 8;
/// Round trips for which news of a path is fresh.
const NEWS_TRIPS: u32 = 2;
/// The longest time from one try of a path to the next: even where a share of the rate is less,
/// stamps must not grow older.
const PROBE_INTERVAL_MAX: Duration = Duration::from_secs(5);
/// Interests that one timer sends at most.
const BURST_MAX: usize = 64;
/// Interests that a window sends with each Data while lost segments wait for retransmission: one
/// more than the Data makes room for, as in slow start. Source: RFC 6937, section 3.1.
const RECOVERY_BURST: usize = 2;
/// The same if fewer are under way. Source: RFC 6928.
const RECOVERY_OUT: usize = 10;
/// How often in a round trip a flow tries whether there is room again in a table that was full.
const WAITS_PER_TRIP: u32 = 4;
/// Size of a Data, bits on the link, until one has come.
const DATA_BITS: f64 = 8.0 * 1_200.0;
/// Weight of a Data in their mean size.
const DATA_BITS_WEIGHT: f64 = 1.0 / 8.0;
/// The path of an Interest that had no label.
const NO_PATH: u8 = u8::MAX;
/// Interests that go where the strategies of forwarders send them.
const UNSTEERED: TrackId = TrackId { path: NO_PATH, class: Class::Primary, discovers: false };
/// Data with a false signature after which a flow gives up, if it has more of them than of others.
const UNVERIFIED_MAX: u64 = 16;
/// Nacks for congestion count as a sign of life until this many times `give_up_after` after the
/// last Data. Without a limit, a table full of a flow's own lost Interests would keep it open for
/// ever.
const REFUSALS_COUNT: u32 = 3;
/// Nacks for lack of a route after which a flow without any Data gives up.
const NO_ROUTE_MAX: u32 = 4;

/// The actions that a flow requests.
#[derive(Debug, Default)]
pub(super) struct Actions {
    /// Interests to send, in order.
    pub(super) interests: Vec<(Header, Interest)>,
    /// Timers to set.
    pub(super) timers: Vec<(Instant, Timer)>,
}

/// Why an Interest is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The lane's rate says so.
    Rate,
    /// Its path was not tried for long.
    Probe,
}

/// The result of handling a Data.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A new segment.
    Segment(u64),
    /// Nothing.
    Nothing,
}

#[derive(Debug)]
pub(super) struct Flow {
    id: u64,
    name: Name,
    pace: Pace,
    multipath: Multipath,
    rate_max: f64,
    trust: crate::ndn::Trust,
    unread_max: usize,
    unread: usize,
    give_up_after: Duration,
    heard_at: Instant,
    // Until when Nacks for congestion count as a sign of life.
    refusals_count_until: Instant,
    board: Board,
    paths: Vec<Option<Path>>,
    best: Option<usize>,
    // Interests of the best path that went on another one, to try it.
    owed: u32,
    // Until when nothing is sent, for there is no room for it.
    waits_until: Instant,
    // Until when no other path is chosen, and what the next such time is drawn from.
    holds_until: Instant,
    draws: u64,
    // The first is that of primary Interests on the best path, each other that of a path.
    lanes: Vec<Lane>,
    window: Option<Window>,
    // When the window, or a lane, may send the next, so that they keep to the flow's own limit.
    limit: TokenBucket,
    // Of Interests without a label, and of the whole flow.
    round_trip: RoundTrip,
    data_bits: f64,
    is_data_known: bool,
    discovery: Discovery,
    recovery: Recovery,
    no_routes: u32,
    // What is wrong with the last Data that was not accepted.
    unverified: Option<VerifyError>,
    failed: Option<FetchError>,
    counts: FlowCounts,
}

impl Flow {
    pub(super) fn new(now: Instant, fetch: Fetch, config: &Config) -> Flow {
        let window = match fetch.pace {
            Pace::Rates => None,
            Pace::Aimd => Some(Window::new(now, Growth::Aimd)),
            Pace::Cubic => Some(Window::new(now, Growth::Cubic)),
        };
        Flow {
            id: fetch.flow,
            name: fetch.name.without_segment(),
            pace: fetch.pace,
            multipath: fetch.multipath,
            rate_max: fetch.bits_per_second_max.map_or(f64::INFINITY, |rate| rate as f64),
            trust: fetch.trust,
            unread_max: fetch.unread_max.unwrap_or(usize::MAX),
            unread: 0,
            give_up_after: fetch.give_up_after,
            heard_at: now,
            refusals_count_until: now + fetch.give_up_after.saturating_mul(REFUSALS_COUNT),
            board: Board::new(fetch.segments, config.window_max, fetch.had),
            paths: Vec::new(),
            best: None,
            owed: 0,
            waits_until: now,
            holds_until: now,
            draws: 0,
            lanes: vec![Lane::default()],
            window,
            limit: TokenBucket::empty(config.catch_up),
            round_trip: RoundTrip::default(),
            data_bits: DATA_BITS,
            is_data_known: false,
            discovery: Discovery::default(),
            recovery: Recovery::new(now),
            no_routes: 0,
            unverified: None,
            failed: None,
            counts: FlowCounts::default(),
        }
    }

    /// Sends the first Interest. Its Data tells the rate.
    pub(super) fn start(
        &mut self,
        now: Instant,
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) {
        self.draws = rng.next_u64();
        if !self.pump(now, config, rng, out) {
            self.discover(now, config, rng, out);
        }
    }

    /// A lane's timer has fired.
    pub(super) fn handle_lane(
        &mut self,
        now: Instant,
        (lane, number): (u8, u16),
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) {
        let place = usize::from(lane);
        if !self.lanes.get_mut(place).is_some_and(|held| held.fire(number)) {
            return;
        }
        if self.pump(now, config, rng, out) {
            return;
        }
        for _ in 0..BURST_MAX {
            let Some((due, why)) = self.due(place, config).filter(|&(due, _)| due <= now) else {
                break;
            };
            let Some(path) = self.path_of(place) else { break };
            if place == 0 && self.owed > 0 {
                self.owed -= 1;
                self.lanes[place].last = due.max(now - config.catch_up);
                continue;
            }
            if self.paths[path].as_ref().is_some_and(|path| path.is_silent(now)) {
                self.drop_path(path);
                break;
            }
            let class = match why {
                Why::Rate => self.class_of(place),
                Why::Probe => Class::Primary,
            };
            let track = TrackId { path: path as u8, class, discovers: false };
            let Some(interest) = self.interest(now, track, rng) else { break };
            out.interests.push((self.header(class, Some(path), config), interest));
            if self.rate_max.is_finite() {
                self.limit.take(now, self.data_bits, self.rate_max);
            }
            match (why, self.multipath) {
                // What a late timer lost is made up for within a bound. Where each path has a rate
                // of its own, what tries it goes instead of the next by that rate.
                (Why::Rate, _) | (Why::Probe, Multipath::Sum) => {
                    self.lanes[place].last = due.max(now - config.catch_up);
                }
                // It goes instead of one on the best path, not besides.
                (Why::Probe, _) => self.owed = (self.owed + 1).min(PATHS_MAX as u32),
            }
            if let Some(path) = &mut self.paths[path] {
                path.note_sent(now);
            }
        }
        self.set_lanes(now, config, out);
        self.set_resend(now, out);
    }

    /// A Data has come for an Interest of this flow.
    pub(super) fn handle_data(
        &mut self,
        now: Instant,
        (header, data, bytes): (&Header, &Data, usize),
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) -> Taken {
        // What an earlier flow of this number asked for may still come.
        let Some(segment) = self.segment_of(data.name()) else { return Taken::Nothing };
        if let Err(why) = data.verify(&self.trust) {
            self.unverified = Some(why);
            self.counts.unverified += 1;
            self.board.mark_lost(segment);
            if self.counts.unverified > UNVERIFIED_MAX.max(self.counts.segments) {
                self.failed.get_or_insert(FetchError::Unverified(why));
            }
            self.set_resend(now, out);
            return Taken::Nothing;
        }
        let Some(arrived) = self.board.done(segment, now) else {
            self.counts.duplicates += 1;
            return Taken::Nothing;
        };
        if let Some(last) = data.final_segment() {
            self.board.end_at(last.saturating_add(1));
        }
        self.note_size(bytes as f64 * 8.0);
        self.heard_at = now;
        self.refusals_count_until = now + self.give_up_after.saturating_mul(REFUSALS_COUNT);
        self.recovery.note_heard(now);
        self.waits_until = now;
        self.unread = self.unread.saturating_add(1);
        self.counts.segments += 1;
        self.counts.content_bytes += data.content().len() as u64;
        match header.class {
            Class::Primary => self.counts.primary_bytes += bytes as u64,
            Class::Secondary => self.counts.secondary_bytes += bytes as u64,
        }
        let marked = header.congestion_mark > 0;
        self.counts.marks += u64::from(marked);
        self.is_data_known = true;
        // Secondary Interests wait behind primary ones: that is not how far it is.
        let trip = arrived
            .round_trip
            .filter(|_| header.class == Class::Primary || self.round_trip.mean().is_none());
        if let Some(trip) = trip {
            self.round_trip.note(trip);
        }
        let discovers = arrived.answers.is_some_and(|(answered, _)| answered.track.discovers);
        if discovers && self.find_path(&header.label).is_some() {
            self.discovery.note_known();
        }
        self.note_stamps(now, header, trip);
        self.note_answered(now, &arrived);
        if marked {
            self.shrink(now);
        } else if let Some(window) = &mut self.window {
            window.grow(now, self.round_trip.mean().unwrap_or_default());
        }
        if !self.pump(now, config, rng, out) {
            if !self.discovery.is_set() {
                self.discover(now, config, rng, out);
            }
            self.set_lanes(now, config, out);
        }
        self.set_resend(now, out);
        Taken::Segment(segment)
    }

    /// An Interest of this flow was refused.
    pub(super) fn handle_nack(
        &mut self,
        now: Instant,
        (header, reason, interest): (&Header, NackReason, &Interest),
        config: &Config,
        out: &mut Actions,
    ) {
        let Some(segment) = self.segment_of(&interest.name) else { return };
        let Some(path) = self.board.mark_lost(segment) else { return };
        let path = Some(usize::from(path)).filter(|&path| path < self.paths.len());
        self.counts.nacks += 1;
        match reason {
            // The path works, but demand is too high. A Nack may bring stamps, but only those of
            // the hops between here and the forwarder that refuses.
            NackReason::Congestion => {
                self.heard_at = self.heard_at.max(now.min(self.refusals_count_until));
                if let Some(path) = path.and_then(|path| self.paths[path].as_mut())
                    && header.stamps.primary().is_some()
                {
                    path.stamps.lower_to(header.stamps);
                    path.note_refused(now);
                }
                if header.stamps.primary().is_none() {
                    // No link, but a table is full, here most likely: there is room once something
                    // has come.
                    let trip = self.round_trip.mean().unwrap_or(ROUND_TRIP_GUESS);
                    self.waits_until = now + trip / WAITS_PER_TRIP;
                }
                self.shrink(now);
            }
            NackReason::NoRoute => {
                if let Some(path) = path {
                    self.drop_path(path);
                } else if self.counts.segments == 0 {
                    self.no_routes += 1;
                    if self.no_routes >= NO_ROUTE_MAX {
                        self.failed.get_or_insert(FetchError::NoRoute);
                    }
                }
            }
            NackReason::Duplicate | NackReason::Other(_) => {}
        }
        self.set_lanes(now, config, out);
        self.set_resend(now, out);
    }

    /// The application has consumed this many segments.
    pub(super) fn consumed(
        &mut self,
        now: Instant,
        segments: usize,
        config: &Config,
        rng: &mut Rng,
        out: &mut Actions,
    ) {
        self.unread = self.unread.saturating_sub(segments);
        self.heard_at = self.heard_at.max(now - self.give_up_after / 2);
        let until = self.heard_at + self.give_up_after.saturating_mul(REFUSALS_COUNT);
        self.refusals_count_until = self.refusals_count_until.max(until);
        if !self.pump(now, config, rng, out) {
            self.set_lanes(now, config, out);
        }
        self.set_resend(now, out);
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// True once all segments have come.
    pub(super) fn is_complete(&mut self) -> bool {
        self.board.is_complete()
    }

    /// Why it ended before, if it did.
    pub(super) fn failed(&self) -> Option<FetchError> {
        self.failed
    }

    pub(super) fn counts(&self) -> FlowCounts {
        self.counts
    }

    pub(super) fn report(&self) -> FlowReport {
        let paths = self.paths.iter().enumerate().filter_map(|(place, path)| {
            let path = path.as_ref()?;
            Some(PathReport {
                label: path.label,
                is_best: self.best == Some(place),
                stamps: path.stamps,
                round_trip: path.round_trip.mean(),
            })
        });
        FlowReport {
            flow: self.id,
            counts: self.counts,
            segments: self.board.end(),
            round_trip: self.round_trip.mean(),
            paths: paths.collect(),
        }
    }

    /// With a window: sends what it has room for. False if rates pace.
    fn pump(&mut self, now: Instant, config: &Config, rng: &mut Rng, out: &mut Actions) -> bool {
        let Some(size) = self.window.as_ref().map(Window::size) else { return false };
        // After a loss the flow must not fill the overflowed queue again at once.
        let burst = match self.board.has_lost() {
            true => RECOVERY_BURST.max(RECOVERY_OUT.saturating_sub(self.board.out())),
            false => BURST_MAX,
        };
        for _ in 0..burst {
            if self.board.out() >= size {
                break;
            }
            let free_at = self.limit.next_at();
            if free_at > now {
                if let Some(number) = self.lanes[0].set(now, free_at) {
                    out.timers.push((free_at, Timer::Lane { flow: self.id, lane: 0, number }));
                }
                break;
            }
            let Some(interest) = self.interest(now, UNSTEERED, rng) else { break };
            out.interests.push((self.header(Class::Primary, None, config), interest));
            if self.rate_max.is_finite() {
                self.limit.take(now, self.data_bits, self.rate_max);
            }
        }
        self.set_resend(now, out);
        true
    }

    /// Takes the next Interest and notes it as sent on this track; `None` if nothing is left.
    fn interest(&mut self, now: Instant, track: TrackId, rng: &mut Rng) -> Option<Interest> {
        if self.unread.saturating_add(self.board.out()) >= self.unread_max {
            return None;
        }
        let segment = self.board.next()?;
        self.board.ask(segment, now, track);
        self.recovery.note_sent(now);
        self.counts.interests += 1;
        let mut interest = Interest::new(self.name.with_segment(segment), rng.next_u32());
        // As long as an answer would still be of use.
        let lifetime = (self.lost_after() * 2).clamp(LIFETIME_MIN, LIFETIME_MAX);
        interest.lifetime_ms = Some(lifetime.as_millis() as u32);
        Some(interest)
    }

    fn header(&self, class: Class, path: Option<usize>, config: &Config) -> Header {
        let path = path.and_then(|path| self.paths[path].as_ref());
        let trip = path.and_then(|path| path.round_trip.mean()).or(self.round_trip.mean());
        let micros = trip.map(|trip| u32::try_from(trip.as_micros()).unwrap_or(u32::MAX));
        Header {
            class,
            label: path.map_or(PathLabel::EMPTY, |path| path.label),
            round_trip_micros: micros.filter(|_| config.tells_round_trip),
            ..Header::default()
        }
    }

    fn note_size(&mut self, bits: f64) {
        let weight = if self.is_data_known { DATA_BITS_WEIGHT } else { 1.0 };
        self.data_bits += (bits - self.data_bits) * weight;
    }

    /// Takes in what a Data says of the path that it came by.
    fn note_stamps(&mut self, now: Instant, header: &Header, trip: Option<Duration>) {
        if self.pace != Pace::Rates {
            return;
        }
        if header.stamps.primary().is_none() {
            // No forwarder on the path has a rate controller.
            if self.paths.iter().all(Option::is_none) && self.window.is_none() {
                self.window = Some(Window::new(now, Growth::Cubic));
            }
            return;
        }
        self.window = None;
        let place = self.find_path(&header.label).or_else(|| self.add_path(header.label, now));
        let Some(path) = place.and_then(|place| self.paths[place].as_mut()) else { return };
        path.stamps = header.stamps;
        path.join_rates = header.join_rates;
        path.note_data(now);
        if let Some(trip) = trip {
            path.round_trip.note(trip);
        }
    }

    /// The number of a segment of this flow's object.
    fn segment_of(&self, name: &Name) -> Option<u64> {
        name.segment().filter(|_| name.prefix_bytes() == self.name.prefix_bytes())
    }

    fn find_path(&self, label: &PathLabel) -> Option<usize> {
        self.paths.iter().position(|path| path.as_ref().is_some_and(|path| path.label == *label))
    }

    fn add_path(&mut self, label: PathLabel, now: Instant) -> Option<usize> {
        let free = self.paths.iter().position(Option::is_none);
        let place = free.or((self.paths.len() < PATHS_MAX).then_some(self.paths.len()))?;
        if place == self.paths.len() {
            self.paths.push(None);
            self.lanes.push(Lane::default());
        }
        self.paths[place] = Some(Path::new(label, now));
        self.discovery.note_found();
        self.lanes[place + 1].last = now;
        Some(place)
    }

    fn drop_path(&mut self, place: usize) {
        self.paths[place] = None;
        if self.best == Some(place) {
            self.best = None;
        }
    }

    /// Chooses the path of primary Interests, now and then: flows that all moved as soon as another
    /// path looks better would overload it together, and then move back.
    fn choose_best(&mut self, now: Instant, gain: f64) {
        if self.best.is_some() && now < self.holds_until {
            return;
        }
        let trip = self.round_trip.mean().unwrap_or(Duration::from_millis(1));
        let held = self.best.filter(|&held| self.paths[held].is_some());
        let present = held.and_then(|held| self.paths[held].as_ref());
        let rate = present.map_or(0.0, Path::primary);
        let label = present.map(|path| path.label);
        let paths = self.paths.iter().enumerate();
        let others = paths.filter(|&(place, _)| held != Some(place)).filter_map(|(place, path)| {
            let path = path.as_ref()?;
            Some((place, path.expected(label.as_ref())))
        });
        // Of equals the first.
        let better =
            |best: (usize, f64), next: (usize, f64)| if next.1 > best.1 { next } else { best };
        // Rates change all the time: a little more is no reason to move.
        let best =
            others.reduce(better).filter(|&(_, expected)| held.is_none() || expected > gain * rate);
        self.draws = self.draws.wrapping_add(1);
        let drawn = mix(self.draws) as u32;
        if let Some((place, _)) = best
            && held.is_some()
            && let Some(wait) = self.wait_for_news(place, now, trip)
        {
            self.holds_until = now + wait;
            return;
        }
        let trips = match best {
            Some((place, _)) => {
                self.counts.switches += u64::from(held.is_some());
                self.best = Some(place);
                TRY_TRIPS_MIN + drawn % TRY_TRIPS_MORE
            }
            None => {
                self.best = held;
                HOLD_TRIPS_MIN + drawn % HOLD_TRIPS_MORE
            }
        };
        self.holds_until = now + trip * trips;
    }

    /// How long to wait for fresh news of a path that looks better. If its last news is old, the
    /// flow probes it at once. Otherwise all flows would move by news from before the first of them
    /// moved, and overload the path.
    fn wait_for_news(&mut self, place: usize, now: Instant, trip: Duration) -> Option<Duration> {
        let path = self.paths[place].as_mut()?;
        let news = trip.max(path.round_trip.mean().unwrap_or(trip)) * NEWS_TRIPS;
        // With a rate for each path none is without news for long.
        if path.heard_at + news >= now || self.multipath == Multipath::Sum {
            return None;
        }
        path.is_wanted = true;
        Some(news)
    }

    fn path_of(&self, lane: usize) -> Option<usize> {
        match lane.checked_sub(1) {
            None => self.best,
            Some(place) => self.paths[place].as_ref().map(|_| place),
        }
    }

    fn class_of(&self, lane: usize) -> Class {
        match (self.multipath, lane) {
            (Multipath::Dual, 1..) => Class::Secondary,
            _ => Class::Primary,
        }
    }

    /// Sets each lane's rate by the stamps, and its timer.
    fn set_lanes(&mut self, now: Instant, config: &Config, out: &mut Actions) {
        self.choose_best(now, config.switch_gain);
        let mut left = self.rate_max;
        for lane in 0..self.lanes.len() {
            let path = self.path_of(lane).and_then(|place| self.paths[place].as_ref());
            let rate = match (path, self.multipath, lane) {
                (None, ..) => 0.0,
                (Some(path), Multipath::Dual | Multipath::Best, 0) => path.primary(),
                (Some(path), Multipath::Dual, _) => path.secondary(),
                (Some(path), Multipath::Sum, 1..) => path.primary(),
                (Some(_), Multipath::Best, _) | (Some(_), Multipath::Sum, 0) => 0.0,
            };
            self.lanes[lane].rate = rate.min(left);
            left -= self.lanes[lane].rate;
        }
        for lane in 0..self.lanes.len() {
            self.set_lane(now, lane, config, out);
        }
    }

    fn set_lane(&mut self, now: Instant, lane: usize, config: &Config, out: &mut Actions) {
        // Without anything to send the timer is set once there is.
        let has_work = self.board.next().is_some()
            && self.unread.saturating_add(self.board.out()) < self.unread_max;
        let Some((due, _)) = self.due(lane, config).filter(|_| has_work) else { return };
        if let Some(number) = self.lanes[lane].set(now, due) {
            let timer = Timer::Lane { flow: self.id, lane: lane as u8, number };
            out.timers.push((due.max(now), timer));
        }
    }

    /// When a lane's next Interest is due, and why.
    fn due(&self, lane: usize, config: &Config) -> Option<(Instant, Why)> {
        let held = &self.lanes[lane];
        let paced =
            (held.rate > 0.0).then(|| (held.last + time_for(self.data_bits, held.rate), Why::Rate));
        // A path that carries nothing is tried now and then, or its stamps would grow old.
        let has_others = self.paths.iter().flatten().count() > 1;
        let place = lane.checked_sub(1).filter(|&place| has_others && self.best != Some(place));
        let path = place.and_then(|place| self.paths[place].as_ref());
        let probe = path.map(|path| {
            let interval = self.probe_interval(path, config);
            (path.probe_at(interval, config.probe_every), Why::Probe)
        });
        let (due, why) = match (paced, probe) {
            (Some(paced), Some(probe)) => Some(if probe.0 < paced.0 { probe } else { paced }),
            (paced, probe) => paced.or(probe),
        }?;
        // Lanes that take turns, as paths come and go, keep to the flow's own limit together.
        let is_limited = self.rate_max.is_finite();
        let due = if is_limited { due.max(self.limit.next_at()) } else { due };
        Some((due.max(self.waits_until), why))
    }

    /// From one try of a path to the next. All tries of a flow together are at most `probe_share`
    /// of the stamped rate, unless that is so low that stamps would grow too old.
    fn probe_interval(&self, path: &Path, config: &Config) -> Duration {
        let others = self.paths.iter().flatten().count().saturating_sub(1);
        let bits = self.data_bits * others as f64;
        let share = config.probe_share * path.primary().max(1.0);
        time_for(bits, share).min(PROBE_INTERVAL_MAX).max(config.probe_every)
    }
}

/// Bounds of the lifetime of a flow's Interests.
const LIFETIME_MIN: Duration = Duration::from_secs(1);
const LIFETIME_MAX: Duration = Duration::from_secs(4);
