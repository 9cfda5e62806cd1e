//! Pulses and reports as a member sends and receives them.

use std::sync::Arc;
use std::time::Duration;

use super::receiver::{Answer, Receiver, ReportHead, Standing};
use super::sender::{Limits, Notice, Sender, micros, stamp};
use crate::core::{GroupId, Instant, Lane, NodeId, View};
use crate::slingshot::interface::{Event, Timer};
use crate::slingshot::message::Message;
use crate::slingshot::pulse::{NO_RANK, Pulse, ROUND_TRIPS_MAX, Report};
use crate::slingshot::{Config, Cx, RateControl, Slingshot, counters};

/// How much longer than it was under way, in sixteenths and besides a constant, a report may say
/// that it was held: clocks do not run alike.
const DRIFT: u32 = 16;
const DRIFT_US: u32 = 1_000;
/// Longest round-trip time that a `Pulse` may name, microseconds.
const ROUND_TRIP_US_MAX: u32 = 60_000_000;

impl Slingshot {
    /// The rate at which packets to a group leave, bytes a second; `None` for a group that is not
    /// known, or to which this member has sent nothing with `rate_control = "tfmcc"`.
    pub fn allowed_rate(&self, group: GroupId) -> Option<u32> {
        let sender = self.groups[self.group_place(group)?].congestion.as_ref()?;
        Some(sender.allowed() as u32)
    }

    /// The receiver that limits the rate to a group at present, if one does.
    pub fn limiting_receiver(&self, group: GroupId) -> Option<NodeId> {
        self.groups[self.group_place(group)?].congestion.as_ref()?.limiting()
    }

    /// The rate at which a packet of this size leaves for a group, and the bytes of the `Pulse`
    /// that was sent before it.
    pub(in crate::slingshot) fn rate_for(
        &mut self,
        cx: &mut Cx<'_>,
        place: usize,
        bytes: usize,
    ) -> (f64, usize) {
        let config = cx.shared;
        let rate_max = f64::from(config.message_bytes_per_second);
        if config.rate_control == RateControl::Fixed {
            return (rate_max, 0);
        }
        let group = &mut self.groups[place];
        if group.members.len() <= 1 {
            // There is no receiver: nothing limits the rate, and who joins is begun with.
            group.congestion = None;
            return (rate_max, 0);
        }
        let sender = group.congestion.get_or_insert_with(|| {
            let limits = Limits {
                rate_max,
                rate_min: f64::from(config.least_rate()).min(rate_max),
                follow: config.follow,
            };
            Box::new(Sender::new(limits, cx.now, bytes))
        });
        sender.on_packet(bytes);
        let mut pulse_bytes = 0;
        if sender.is_pulse_due(cx.now)
            && let Some(room) = cx.datagram_bytes_max.checked_sub(Pulse::wire_bytes(0))
        {
            sender.begin_pulse(cx.now, group.members.len());
            let view: &View = &self.view;
            let rank = |node| view.rank(node).map(|rank| rank as u16);
            let count_max = (room / 6).min(ROUND_TRIPS_MAX);
            let round_trips = sender.take_round_trips(count_max, rank);
            pulse_bytes = Pulse::wire_bytes(round_trips.iter().len());
            let limiting = sender.limiting().and_then(rank);
            let pulse = Pulse {
                group: group.id,
                incarnation: cx.incarnation,
                view: view.id(),
                stamp_us: stamp(cx.now),
                next: group.seq,
                round: sender.round(),
                allowed: (sender.allowed() as u32).max(1),
                round_trip_max_us: micros(sender.round_trip_max()),
                limiting: limiting.map_or(NO_RANK, u32::from),
                is_slow_start: sender.is_slow_start(),
                // A float to an integer saturates: none is the largest.
                suppression: (sender.suppression() as u32).max(1),
                round_trips,
            };
            cx.count(counters::PULSES, 1);
            cx.send_group(pulse.group, Message::Pulse(pulse));
        }
        (sender.allowed(), pulse_bytes)
    }

    /// A sender announces its rate.
    pub(in crate::slingshot) fn receive_pulse(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        pulse: &Pulse,
    ) {
        let Some((group, member)) = self.find_member(cx, pulse.group, from) else { return };
        let view = self.view_named(pulse.view);
        let Some((view, rank)) = view.and_then(|view| view.rank(cx.node).map(|rank| (view, rank)))
        else {
            return cx.count(counters::FOREIGN_VIEW, 1);
        };
        if !is_sound(pulse, &view) {
            return cx.count(counters::PULSE_WRONG, 1);
        }
        let Some(at) = self.flow_of(cx, group, member, Some(pulse.incarnation)) else { return };
        cx.count(counters::PULSES_RECEIVED, 1);
        let members = self.groups[group].members.len();
        let flow = &mut self.flows[at as usize];
        let generation = flow.generation;
        let now = cx.now;
        let receiver = flow.receiver.get_or_insert_with(|| Box::new(Receiver::new(now, pulse)));
        let standing = Standing { rank: rank as u16, members };
        match receiver.on_pulse(cx.now, pulse, standing, cx.rng) {
            Answer::Now => self.send_report(cx, at),
            Answer::At(_) => {
                if !self.reports.contains(&(at, generation)) {
                    self.reports.push((at, generation));
                }
            }
            Answer::Unchanged => {}
        }
        self.accept_recovered(cx);
    }

    /// A receiver reports what it measured.
    pub(in crate::slingshot) fn receive_report(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        report: &Report,
    ) {
        let Some((place, _)) = self.find_member(cx, report.group, from) else { return };
        if report.incarnation != cx.incarnation {
            return cx.count(counters::OTHER_INCARNATION, 1);
        }
        let group = &mut self.groups[place];
        let Some(sender) = &mut group.congestion else {
            return cx.count(counters::REPORT_UNASKED, 1);
        };
        let ahead = report.round.wrapping_sub(sender.round()) as i32;
        let is_whole = report.wanted > 0 && (report.loss == 0) == report.is_lossless && ahead <= 0;
        let Some(sample) = round_trip(cx.now, report).filter(|_| is_whole) else {
            return cx.count(counters::REPORT_WRONG, 1);
        };
        cx.count(counters::REPORTS_RECEIVED, 1);
        let before = sender.allowed();
        let notice = sender.on_report(cx.now, from, sample, report);
        let (after, id) = (sender.allowed(), group.id);
        match notice {
            Some(Notice::Slow(wanted)) => {
                cx.count(counters::SLOW_RECEIVERS, 1);
                let bytes_per_second = wanted as u32;
                cx.deliver(Event::Slow { group: id, member: from, bytes_per_second });
            }
            Some(Notice::FollowedAgain) => cx.count(counters::FOLLOWED_AGAIN, 1),
            None => {}
        }
        if before != after {
            self.change_pace(cx, id, before, after);
        }
    }

    /// Sends the reports that are due.
    pub(in crate::slingshot) fn report_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.report.fired(cx.now) {
            return;
        }
        let mut place = 0;
        while let Some(&(at, generation)) = self.reports.get(place) {
            match self.report_due(at, generation) {
                Some(due) if due > cx.now => place += 1,
                due => {
                    self.reports.swap_remove(place);
                    if due.is_some() {
                        self.send_report(cx, at);
                    }
                }
            }
        }
    }

    /// Sets the timer for the report that is due next.
    pub(in crate::slingshot) fn arm_report(&mut self, cx: &mut Cx<'_>) {
        let due =
            self.reports.iter().filter_map(|&(at, generation)| self.report_due(at, generation));
        if let Some(due) = due.min() {
            self.report.set(cx, due, Timer::Report);
        }
    }

    /// When the report of a flow is due, if one is.
    fn report_due(&self, at: u32, generation: u32) -> Option<Instant> {
        let flow = &self.flows[at as usize];
        flow.receiver.as_ref().filter(|_| flow.generation == generation)?.due()
    }

    fn send_report(&mut self, cx: &mut Cx<'_>, at: u32) {
        let flow = &mut self.flows[at as usize];
        let source = flow.source;
        let (Some(receiver), Some(incarnation)) = (&mut flow.receiver, source.incarnation) else {
            return;
        };
        let is_followed = self.is_followed;
        let head = ReportHead { group: source.group, incarnation, is_followed };
        let report = receiver.report(cx.now, head);
        cx.count(counters::REPORTS, 1);
        cx.send(source.sender, Lane::Datagram, Message::Report(report));
    }
}

impl Config {
    /// The rate, bytes a second, below which a receiver is not followed:
    /// [`Config::with_rate_min`], or a hundredth of `message_bytes_per_second`.
    pub fn least_rate(&self) -> u32 {
        self.rate_min.unwrap_or(self.message_bytes_per_second / 100).max(1)
    }
}

/// Whether its ranks are of the view, and its times are such.
fn is_sound(pulse: &Pulse, view: &Arc<View>) -> bool {
    let is_rank = |rank: u32| (rank as usize) < view.len();
    (pulse.limiting == NO_RANK || is_rank(pulse.limiting))
        && pulse
            .round_trips
            .iter()
            .all(|(rank, micros)| is_rank(rank.into()) && (1..=ROUND_TRIP_US_MAX).contains(&micros))
}

/// The time from a `Pulse` to its report, without that for which the receiver held it. `None` if
/// the report answers what was not sent yet.
fn round_trip(now: Instant, report: &Report) -> Option<Duration> {
    let elapsed = stamp(now).wrapping_sub(report.stamp_us);
    let longest = elapsed.saturating_add(elapsed / DRIFT).saturating_add(DRIFT_US);
    let is_past = elapsed as i32 >= 0 && report.held_us <= longest;
    is_past.then(|| Duration::from_micros(elapsed.saturating_sub(report.held_us).into()))
}
