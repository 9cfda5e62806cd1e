//! What a receiver measures of one flow, and when it reports.

use std::time::Duration;

use super::equation::{loss_event_rate, throughput};
use super::loss_history::LossHistory;
use super::rate_meter::RateMeter;
use super::suppression::{self, SMALL_GROUP};
use super::{ROUND_TRIP_MIN, Smoothed};
use crate::core::{Instant, Rng};
use crate::slingshot::pulse::{Pulse, Report};

/// Length of a feedback round where reports are suppressed, in largest round-trip times of the
/// group. Source: RFC 4654, section 3.4.
pub(crate) const ROUND_LASTS: u32 = 6;

/// How many rounds a `Pulse` may come late. One of an earlier round is of a sender that restarted.
const ROUNDS_LATE: i32 = 16;

/// What a receiver has to do after a [`Pulse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Report at once.
    Now,
    /// Report at this time, unless a lower rate is announced before.
    At(Instant),
    /// Nothing more than before.
    Unchanged,
}

/// What a `Pulse` is to its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// The receiver's rank in the view that the `Pulse` names.
    pub(crate) rank: u16,
    /// Members of the group.
    pub(crate) members: usize,
}

/// The congestion state of a flow at its receiver. Kept only for senders that send
/// [`Pulse`]s; 600 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    history: LossHistory,
    meter: RateMeter,
    packet_bytes: Smoothed,
    /// As measured by the sender; `None` until it has told.
    round_trip: Option<Duration>,
    round_trip_max: Duration,
    stamp_us: u32,
    pulse_at: Instant,
    round: u32,
    /// When the report of this round is due.
    due: Option<Instant>,
}

impl Receiver {
    /// The state of a flow whose first `Pulse` is this one.
    pub(crate) fn new(now: Instant, pulse: &Pulse) -> Receiver {
        Receiver {
            history: LossHistory::new(now, pulse.next),
            meter: RateMeter::default(),
            packet_bytes: Smoothed::default(),
            round_trip: None,
            round_trip_max: Duration::from_micros(pulse.round_trip_max_us.into()),
            stamp_us: pulse.stamp_us,
            pulse_at: now,
            // Another one, so that this round is a new one.
            round: pulse.round.wrapping_sub(1),
            due: None,
        }
    }

    /// A packet came from the sender itself. `bytes` are those of the multicast, with its head.
    pub(crate) fn on_packet(&mut self, now: Instant, seq: u64, bytes: usize) {
        self.packet_bytes.sample(bytes as f64);
        let window = self.window();
        self.meter.on_packet(now, bytes, window);
        let (round_trip, packet_bytes) = (self.round_trip(), self.packet_bytes.value());
        let meter = &self.meter;
        // RFC 5348, section 6.3.1: the interval with which the equation gives the received rate.
        let first_interval = || {
            let received = meter.bytes_per_second(window);
            1.0 / loss_event_rate(packet_bytes, round_trip, received.max(packet_bytes))
        };
        self.history.on_packet(now, seq, round_trip, first_interval);
    }

    /// The sender announces a rate.
    pub(crate) fn on_pulse(
        &mut self,
        now: Instant,
        pulse: &Pulse,
        standing: Standing,
        rng: &mut Rng,
    ) -> Answer {
        let ahead = pulse.round.wrapping_sub(self.round) as i32;
        if (-ROUNDS_LATE..0).contains(&ahead) {
            // Overtaken by one of a later round.
            return Answer::Unchanged;
        }
        self.stamp_us = pulse.stamp_us;
        self.pulse_at = now;
        self.round = pulse.round;
        self.round_trip_max = Duration::from_micros(pulse.round_trip_max_us.into());
        let own = pulse.round_trips.iter().find(|&(rank, _)| rank == standing.rank);
        if let Some((_, micros)) = own {
            self.round_trip = Some(Duration::from_micros(micros.into()));
        }
        let is_new = ahead != 0;
        if is_new {
            self.due = None;
        }
        if pulse.limiting == u32::from(standing.rank) || is_new && standing.members <= SMALL_GROUP {
            self.due = None;
            return Answer::Now;
        }
        let wanted = self.wanted();
        let announced = f64::from(pulse.suppression);
        if suppression::is_suppressed(wanted, announced) {
            self.due = None;
            return Answer::Unchanged;
        }
        if !is_new {
            return Answer::Unchanged;
        }
        let round = self.round_trip_max * ROUND_LASTS;
        let due = now + suppression::wait(round, wanted, pulse.allowed.into(), rng);
        self.due = Some(due);
        Answer::At(due)
    }

    /// When the report is due, if one is.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// The report at this time.
    pub(crate) fn report(&mut self, now: Instant, pulse: ReportHead) -> Report {
        self.due = None;
        let loss = self.history.loss_event_rate();
        let held = now.since(self.pulse_at).as_micros();
        Report {
            group: pulse.group,
            incarnation: pulse.incarnation,
            stamp_us: self.stamp_us,
            held_us: u32::try_from(held).unwrap_or(u32::MAX),
            round: self.round,
            loss: loss.map_or(0, |loss| (loss * f64::from(u32::MAX)).ceil() as u32),
            received: self.meter.bytes_per_second(self.window()) as u32,
            wanted: (self.wanted() as u32).max(1),
            is_lossless: loss.is_none(),
            is_followed: pulse.is_followed,
        }
    }

    /// The rate that this receiver wants, bytes a second: what the equation gives, and before the
    /// first loss twice what comes.
    pub(crate) fn wanted(&self) -> f64 {
        let packet_bytes = self.packet_bytes.value();
        match self.history.loss_event_rate() {
            Some(loss) => throughput(packet_bytes, self.round_trip(), loss),
            None => (2.0 * self.meter.bytes_per_second(self.window())).max(packet_bytes),
        }
    }

    fn round_trip(&self) -> Duration {
        self.round_trip.unwrap_or(self.round_trip_max).max(ROUND_TRIP_MIN)
    }

    fn window(&self) -> Duration {
        self.round_trip() * 2
    }
}

/// What a report says that its flow does not know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportHead {
    pub(crate) group: crate::core::GroupId,
    pub(crate) incarnation: u64,
    pub(crate) is_followed: bool,
}
