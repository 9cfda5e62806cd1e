//! The rate of a sender to one group.

use std::time::Duration;

use super::equation::throughput;
use super::receiver::ROUND_LASTS;
use super::suppression::SMALL_GROUP;
use super::{ROUND_TRIP_MIN, Smoothed};
use crate::core::{Instant, NodeId};
use crate::slingshot::Follow;
use crate::slingshot::pulse::{ROUND_TRIPS_MAX, Report, RoundTrips, RoundTripsBuilder};

/// The largest round-trip time of the group until one was measured. RFC 4654, section 3.1, takes
/// 500 ms; members are in one cluster or region, and half a second exceeds the default deadline.
const ROUND_TRIP_FIRST: Duration = Duration::from_millis(100);
/// The longest round-trip time that counts. Bounds what a receiver with a long queue, or one that
/// lies, can do to the length of feedback rounds. Source: RFC 4654, section 3.1, the first R_max.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(500);
/// The longest time between two `Pulse`s of a sender that sends packets.
const PULSE_EVERY_MAX: Duration = Duration::from_millis(100);
/// Length of a feedback round of a small group, in largest round-trip times: all receivers report
/// as soon as it begins.
const SMALL_ROUND_LASTS: u32 = 4;
/// The factor by which the largest round-trip time decays in a round. Source: RFC 4654, 3.2.
const ROUND_TRIP_DECAYS: f64 = 0.9;
/// Weights of the known round-trip time against a sample: of the current limiting receiver, which
/// reports often, and of another one. Source: RFC 4654, section 3.2.
const KNOWN_WEIGHT_LIMITING: f64 = 0.9;
const KNOWN_WEIGHT: f64 = 0.5;
/// Bytes of the initial window, which is sent in one round-trip time once that is known. Source:
/// RFC 5348, section 4.2.
const WINDOW_FIRST_BYTES: f64 = 4_380.0;
/// `Pulse`s without a report after which the current limiting receiver is another one. Source: RFC
/// 4654, section 3.4: ten round-trip times.
const LIMITING_PULSES_MAX: u32 = 10;
/// Rounds without a report after which another receiver does not count.
const SILENT_ROUNDS_MAX: u32 = 10;
/// Rounds without any report after which the rate is halved.
const HALVED_AFTER_ROUNDS: u32 = 4;
/// Silence of the sender after which its rate is halved, at least.
const IDLE_MIN: Duration = Duration::from_secs(1);
/// Rounds in which a receiver wants less than `rate_min` until it is not followed any longer, and
/// in which it wants more until it is followed again.
const BEHIND_ROUNDS: u8 = 4;

/// What bounds the rate of a sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes a second, at most.
    pub(crate) rate_max: f64,
    /// Receivers that want less are not followed.
    pub(crate) rate_min: f64,
    /// The receiver whose rate is followed.
    pub(crate) follow: Follow,
}

/// News of a receiver for the application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Notice {
    /// It wants this rate, bytes a second, and is not followed any longer.
    Slow(f64),
    /// It is followed again.
    FollowedAgain,
}

/// A receiver that has reported.
#[derive(Clone, Copy, Debug)]
struct Reporter {
    node: NodeId,
    round_trip: Duration,
    /// What the equation gives with this round-trip time; before the first loss twice what it
    /// receives.
    wanted: f64,
    received: f64,
    is_lossless: bool,
    is_tagged: bool,
    /// The `Pulse` and the round in which it reported last, and the round that it named.
    pulses: u32,
    heard_in: u32,
    named: u32,
    /// Rounds since which its rate is on the other side of `rate_min` than `is_slow` says.
    turned: u8,
    is_slow: bool,
}

/// The congestion state of a sender to one group. Its size is bounded by the members.
#[derive(Debug)]
pub(crate) struct Sender {
    limits: Limits,
    /// Bytes a second.
    allowed: f64,
    raised_at: Instant,
    is_slow_start: bool,
    packet_bytes: Smoothed,
    /// The number of this round, and since when it lasts. Begins with the time, so that the rounds
    /// of a sender that comes back to its group follow those before.
    round: u32,
    round_began: Instant,
    round_reports: u32,
    /// Rounds without a report, since the last one with one or since the rate was halved.
    silent_rounds: u32,
    round_trip_max: Duration,
    is_measured: bool,
    limiting: Option<NodeId>,
    /// `Pulse`s so far, and when the last one left.
    pulses: u32,
    pulsed_at: Option<Instant>,
    /// The lowest rate that was reported in this round.
    suppression: f64,
    /// Sorted by node.
    reporters: Vec<Reporter>,
    /// The last that reported since the last `Pulse`.
    recent: Vec<NodeId>,
    round_trips: RoundTripsBuilder,
}

impl Sender {
    /// A sender that begins: in slow start, at one packet of this size in a round-trip time.
    /// Source: RFC 4654, section 3.1.
    pub(crate) fn new(limits: Limits, now: Instant, packet_bytes: usize) -> Sender {
        let first = packet_bytes.max(1) as f64 / ROUND_TRIP_FIRST.as_secs_f64();
        let mut sizes = Smoothed::default();
        sizes.sample(packet_bytes as f64);
        Sender {
            limits,
            allowed: first.min(limits.rate_max),
            raised_at: now,
            is_slow_start: true,
            packet_bytes: sizes,
            round: stamp(now),
            round_began: now,
            round_reports: 0,
            silent_rounds: 0,
            round_trip_max: ROUND_TRIP_FIRST,
            is_measured: false,
            limiting: None,
            pulses: 0,
            pulsed_at: None,
            suppression: f64::INFINITY,
            reporters: Vec::new(),
            recent: Vec::with_capacity(ROUND_TRIPS_MAX),
            round_trips: RoundTripsBuilder::default(),
        }
    }

    /// The allowed rate, bytes a second: at least a packet, at most `rate_max`.
    pub(crate) fn allowed(&self) -> f64 {
        self.allowed
    }

    /// About the rate that is reached: the allowed one, which grows while the application or the
    /// link of this host does not use it, and at most twice what the fastest receiver receives.
    pub(crate) fn rate_reached(&self) -> f64 {
        let received = self.reporters.iter().map(|reporter| reporter.received);
        received.max_by(f64::total_cmp).map_or(self.allowed, |best| self.allowed.min(2.0 * best))
    }

    /// True in slow start.
    pub(crate) fn is_slow_start(&self) -> bool {
        self.is_slow_start
    }

    /// The current limiting receiver.
    pub(crate) fn limiting(&self) -> Option<NodeId> {
        self.limiting
    }

    /// The number of this feedback round.
    pub(crate) fn round(&self) -> u32 {
        self.round
    }

    /// The largest round-trip time of the receivers that are followed.
    pub(crate) fn round_trip_max(&self) -> Duration {
        self.round_trip_max
    }

    /// The lowest rate that was reported in this round, of receivers that others may be silent for;
    /// infinite if none was.
    pub(crate) fn suppression(&self) -> f64 {
        self.suppression
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Sender>()
            + self.reporters.capacity() * size_of::<Reporter>()
            + self.recent.capacity() * size_of::<NodeId>()
    }

    /// A packet of this size is sent.
    pub(crate) fn on_packet(&mut self, bytes: usize) {
        self.packet_bytes.sample(bytes as f64);
    }

    /// True if a `Pulse` is due: one leaves with a packet about once a round-trip time.
    pub(crate) fn is_pulse_due(&self, now: Instant) -> bool {
        self.pulsed_at.is_none_or(|at| now.since(at) >= self.pulse_every())
    }

    /// A `Pulse` is sent to a group of this number of members: ends the round if it has lasted long
    /// enough, and slows down after silence of the receivers or of this sender.
    pub(crate) fn begin_pulse(&mut self, now: Instant, members: usize) {
        let lasts = self.round_trip_max * round_lasts(members);
        if let Some(at) = self.pulsed_at {
            self.slow_down_after(now.since(at), lasts);
        }
        let age = now.since(self.round_began);
        // RFC 4654, section 3.4: a round without a report lasts twice as long.
        if age >= lasts && (self.round_reports > 0 || age >= 2 * lasts) {
            self.end_round(now, members);
        }
        self.pulses = self.pulses.wrapping_add(1);
        self.pulsed_at = Some(now);
        self.replace_silent();
    }

    /// Chooses another limiting receiver if the present one does not answer.
    fn replace_silent(&mut self) {
        let silent_since = self.round.wrapping_sub(SILENT_ROUNDS_MAX + 1);
        let place = self.limiting.and_then(|node| self.place(node));
        if let Some(place) = place {
            if self.counts(&self.reporters[place]) {
                return;
            }
            // It does not count as another one either, until it reports again.
            self.reporters[place].heard_in = silent_since;
        }
        self.limiting = None;
        self.limiting = self.choose().map(|reporter| reporter.node);
    }

    /// The round-trip times of the receivers that reported since the last call, the latest first.
    /// `rank` gives a receiver's rank in the view.
    pub(crate) fn take_round_trips(
        &mut self,
        count_max: usize,
        rank: impl Fn(NodeId) -> Option<u16>,
    ) -> RoundTrips {
        let reporters = &self.reporters;
        let recent = self.recent.iter().rev().take(count_max).filter_map(|&node| {
            let place = reporters.binary_search_by_key(&node, |reporter| reporter.node).ok()?;
            Some((rank(node)?, micros(reporters[place].round_trip)))
        });
        let times = self.round_trips.build(recent);
        self.recent.clear();
        times
    }

    /// A receiver reports, `sample` after the `Pulse` that it answers.
    pub(crate) fn on_report(
        &mut self,
        now: Instant,
        node: NodeId,
        sample: Duration,
        report: &Report,
    ) -> Option<Notice> {
        let place = self.reporters.binary_search_by_key(&node, |reporter| reporter.node);
        let sample = sample.clamp(Duration::from_micros(1), ROUND_TRIP_MAX);
        let place = place.unwrap_or_else(|place| {
            self.reporters.insert(place, Reporter::new(node, sample, report));
            place
        });
        let is_limiting = self.limiting == Some(node);
        let (packet_bytes, pulses, round) = (self.packet_bytes.value(), self.pulses, self.round);
        let rate_min = self.limits.rate_min;
        let best = self.reporters.iter().map(|reporter| reporter.received).fold(0.0, f64::max);
        let reporter = &mut self.reporters[place];
        let weight = if is_limiting { KNOWN_WEIGHT_LIMITING } else { KNOWN_WEIGHT };
        reporter.round_trip = reporter.round_trip.mul_f64(weight) + sample.mul_f64(1.0 - weight);
        let round_trip = reporter.round_trip.max(ROUND_TRIP_MIN);
        let loss = f64::from(report.loss) / f64::from(u32::MAX);
        reporter.received = f64::from(report.received);
        reporter.is_lossless = report.is_lossless;
        reporter.is_tagged = report.is_followed;
        reporter.wanted = if report.is_lossless {
            (2.0 * reporter.received).max(packet_bytes)
        } else {
            throughput(packet_bytes, round_trip, loss)
        };
        (reporter.pulses, reporter.heard_in) = (pulses, round);
        let notice = reporter.judge(report.round, rate_min, best);
        let reporter = *reporter;
        self.recent.retain(|&recent| recent != node);
        if self.recent.len() == ROUND_TRIPS_MAX {
            self.recent.remove(0);
        }
        self.recent.push(node);
        self.round_reports = self.round_reports.saturating_add(1);
        self.silent_rounds = 0;
        if self.counts(&reporter) {
            // Where the fastest receiver is followed, a low rate is no reason to be silent.
            if !is_limiting && self.limits.follow != Follow::Fastest {
                self.suppression = self.suppression.min(reporter.wanted);
            }
            self.measure_round_trip(round_trip);
        }
        if notice.is_some() {
            self.round_trip_max = self.largest_round_trip().unwrap_or(self.round_trip_max);
        }
        self.adapt(now);
        notice
    }

    /// Only these are members.
    pub(crate) fn retain(&mut self, members: &[NodeId]) {
        self.reporters.retain(|reporter| members.binary_search(&reporter.node).is_ok());
        self.recent.retain(|node| members.binary_search(node).is_ok());
        if self.limiting.is_some_and(|node| members.binary_search(&node).is_err()) {
            self.limiting = self.choose().map(|reporter| reporter.node);
        }
    }

    /// Sets the rate to what the receiver that is followed wants. Source: RFC 4654, section 3.3.
    fn adapt(&mut self, now: Instant) {
        let (rate_min, rate_max) = (self.limits.rate_min, self.limits.rate_max);
        let Some(chosen) = self.choose() else {
            // No receiver is followed: each is slow, silent or not tagged.
            self.limiting = None;
            self.allowed = self.allowed.min(rate_min);
            return;
        };
        self.limiting = Some(chosen.node);
        let target = self.wanted_of(&chosen).clamp(rate_min, rate_max);
        if self.is_slow_start {
            let is_lossy = match self.limits.follow {
                Follow::Fastest => !chosen.is_lossless,
                Follow::Slowest | Follow::Tagged => {
                    self.counted().any(|reporter| !reporter.is_lossless)
                }
            };
            if !is_lossy {
                return;
            }
            self.is_slow_start = false;
            self.raised_at = now;
            let target = self.choose().map_or(target, |lossy| self.wanted_of(&lossy));
            self.allowed = target.clamp(rate_min, rate_max).min(self.allowed);
        } else if target > self.allowed {
            // At most one packet a round-trip time more, each round-trip time.
            let round_trip = chosen.round_trip.max(ROUND_TRIP_MIN);
            let share =
                now.since(self.raised_at).min(round_trip).as_secs_f64() / round_trip.as_secs_f64();
            let step = self.packet_bytes.value() / round_trip.as_secs_f64() * share;
            self.allowed = (self.allowed + step).min(target);
            self.raised_at = now;
        } else {
            self.allowed = target;
            self.raised_at = now;
        }
        self.allowed = self.allowed.clamp(self.rate_floor().min(rate_max), rate_max);
    }

    /// The first round-trip time takes the place of the guess, and the rate that of the initial
    /// window.
    fn measure_round_trip(&mut self, round_trip: Duration) {
        if self.is_measured {
            self.round_trip_max = self.round_trip_max.max(round_trip);
            return;
        }
        self.is_measured = true;
        self.round_trip_max = round_trip;
        self.allowed = self.allowed.max(self.rate_first());
    }

    fn end_round(&mut self, now: Instant, members: usize) {
        if self.round_reports == 0 {
            self.silent_rounds += 1;
            if self.silent_rounds == HALVED_AFTER_ROUNDS {
                self.silent_rounds = 0;
                self.allowed = (self.allowed / 2.0).max(self.rate_floor());
            }
        } else if self.is_slow_start {
            self.grow();
        }
        let decayed = self.round_trip_max.mul_f64(ROUND_TRIP_DECAYS).max(ROUND_TRIP_MIN);
        let largest = self.largest_round_trip();
        if let Some(largest) = largest {
            let is_small = members <= SMALL_GROUP;
            self.round_trip_max = if is_small { largest } else { largest.max(decayed) };
        }
        self.round = self.round.wrapping_add(1);
        self.round_began = now;
        self.round_reports = 0;
        self.suppression = f64::INFINITY;
    }

    /// Slow start: twice the least rate that receivers reported in this round, at most twice the
    /// rate. Source: RFC 4654, section 3.6.
    fn grow(&mut self) {
        let round = self.round;
        let received =
            self.counted().filter(|reporter| reporter.heard_in == round).map(|one| one.received);
        let bound = match self.limits.follow {
            Follow::Fastest => received.max_by(f64::total_cmp),
            Follow::Slowest | Follow::Tagged => received.min_by(f64::total_cmp),
        };
        if let Some(bound) = bound {
            let target = (2.0 * bound).min(2.0 * self.allowed).min(self.limits.rate_max);
            // A rate above it is not used by the application: it is no sign of congestion.
            self.allowed = self.allowed.max(target);
        }
    }

    /// This sender was silent for so long: its rate is halved for each second, or longer time in
    /// which it would have had feedback, down to that of the initial window.
    fn slow_down_after(&mut self, silence: Duration, round_lasts: Duration) {
        let packet_takes = Duration::from_secs_f64(self.packet_bytes.value() / self.allowed);
        let unit = IDLE_MIN.max(HALVED_AFTER_ROUNDS * round_lasts).max(4 * packet_takes);
        let halvings = (silence.as_secs_f64() / unit.as_secs_f64()).floor().min(64.0);
        if halvings >= 1.0 {
            let floor = self.rate_first().min(self.allowed);
            self.allowed = (self.allowed / halvings.exp2()).max(floor);
        }
    }

    fn choose(&self) -> Option<Reporter> {
        let by_rate = |one: &&Reporter, other: &&Reporter| {
            self.wanted_of(one).total_cmp(&self.wanted_of(other))
        };
        match self.limits.follow {
            Follow::Fastest => self.counted().max_by(by_rate).copied(),
            Follow::Slowest | Follow::Tagged => self.counted().min_by(by_rate).copied(),
        }
    }

    /// The rate that a receiver wants. One that has lost nothing limits slow start only.
    fn wanted_of(&self, reporter: &Reporter) -> f64 {
        let is_limit = self.is_slow_start || !reporter.is_lossless;
        if is_limit { reporter.wanted } else { self.limits.rate_max }
    }

    /// The receivers that the rate may follow.
    fn counted(&self) -> impl Iterator<Item = &Reporter> {
        self.reporters.iter().filter(|reporter| self.counts(reporter))
    }

    fn counts(&self, reporter: &Reporter) -> bool {
        let is_heard = if self.limiting == Some(reporter.node) {
            self.pulses.wrapping_sub(reporter.pulses) <= LIMITING_PULSES_MAX
        } else {
            self.round.wrapping_sub(reporter.heard_in) <= SILENT_ROUNDS_MAX
        };
        is_heard
            && !reporter.is_slow
            && (self.limits.follow != Follow::Tagged || reporter.is_tagged)
    }

    fn place(&self, node: NodeId) -> Option<usize> {
        self.reporters.binary_search_by_key(&node, |reporter| reporter.node).ok()
    }

    fn largest_round_trip(&self) -> Option<Duration> {
        self.counted().map(|reporter| reporter.round_trip.max(ROUND_TRIP_MIN)).max()
    }

    /// The round-trip time of the limiting receiver, within bounds.
    fn pulse_every(&self) -> Duration {
        let limiting = self.limiting.and_then(|node| self.place(node));
        limiting
            .map_or(self.round_trip_max, |place| self.reporters[place].round_trip)
            .clamp(ROUND_TRIP_MIN, PULSE_EVERY_MAX)
    }

    /// The initial window in a round-trip time.
    fn rate_first(&self) -> f64 {
        let window = WINDOW_FIRST_BYTES.max(self.packet_bytes.value());
        (window / self.round_trip_max.as_secs_f64()).min(self.limits.rate_max)
    }

    /// One packet a second.
    fn rate_floor(&self) -> f64 {
        self.packet_bytes.value()
    }
}

impl Reporter {
    fn new(node: NodeId, round_trip: Duration, report: &Report) -> Reporter {
        Reporter {
            node,
            round_trip,
            wanted: 0.0,
            received: 0.0,
            is_lossless: true,
            is_tagged: false,
            pulses: 0,
            heard_in: 0,
            named: report.round.wrapping_sub(1),
            turned: 0,
            is_slow: false,
        }
    }

    /// Whether it keeps up with `rate_min`, where one receives at the rate `best`. Judged once a
    /// round.
    fn judge(&mut self, round: u32, rate_min: f64, best: f64) -> Option<Notice> {
        if self.named == round {
            return None;
        }
        self.named = round;
        // Before the first loss it wants twice what it receives: little, if little is sent.
        let is_sent_more = !self.is_lossless || best >= rate_min;
        let is_behind = is_sent_more && self.wanted < rate_min;
        self.turned = if is_behind == self.is_slow { 0 } else { self.turned + 1 };
        if self.turned < BEHIND_ROUNDS {
            return None;
        }
        self.turned = 0;
        self.is_slow = is_behind;
        Some(if is_behind { Notice::Slow(self.wanted) } else { Notice::FollowedAgain })
    }
}

fn round_lasts(members: usize) -> u32 {
    if members <= SMALL_GROUP { SMALL_ROUND_LASTS } else { ROUND_LASTS }
}

/// A clock that others echo, microseconds; it wraps.
pub(super) fn stamp(now: Instant) -> u32 {
    (now.as_nanos() / 1_000) as u32
}

/// Microseconds, at least 1.
pub(super) fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1)
}
