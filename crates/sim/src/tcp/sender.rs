//! The sending end of a stream: which segments may be sent now, which were lost, and when the
//! retransmission timer expires.

use std::collections::VecDeque;
use std::time::Duration;

use paceline_proto::core::Instant;

use super::congestion::{Congestion, MSS, Window};
use super::receiver::Ack;

/// Segments that must have come above one before it counts as lost: DupThresh (RFC 6675).
const DUPLICATE_THRESHOLD: usize = 3;

/// The time-out before the first measurement (RFC 6298, section 2.1).
const TIME_OUT_FIRST: Duration = Duration::from_secs(1);
/// The least time-out: Linux's. RFC 6298, section 2.4, recommends a second.
pub(crate) const TIME_OUT_MIN: Duration = Duration::from_millis(200);
/// The longest (RFC 6298, section 2.5).
const TIME_OUT_MAX: Duration = Duration::from_secs(60);

/// Bytes that may be unacknowledged whatever the congestion window: the receiver's window, which
/// Linux limits to 4 MiB by default.
const RECEIVE_WINDOW_BYTES: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// Reported by a selective acknowledgement.
    Arrived,
    Lost,
    /// In flight again.
    Resent,
}

/// A segment that was sent and is not acknowledged in order.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    sent_at: Instant,
    state: State,
    // Once it was sent again: the first byte that had not been sent by then.
    resent_before: u64,
}

impl Segment {
    fn bytes(&self) -> u64 {
        self.end - self.start
    }

    fn is_in_flight(&self) -> bool {
        matches!(self.state, State::InFlight | State::Resent)
    }
}

/// Until the byte `until` is acknowledged, losses belong to one congestion event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Recovery {
    until: u64,
    cause: Cause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Acknowledgements,
    TimeOut,
}

/// How often a stream had to recover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recoveries {
    /// Segments sent again.
    pub(crate) resent: u64,
    /// Losses found by acknowledgements: fast retransmit.
    pub(crate) fast: u64,
    /// Expiries of the retransmission timer.
    pub(crate) time_outs: u64,
}

/// The sender of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    window: Window,
    // The first byte that is not acknowledged, the first not sent, the end of what was written.
    unacknowledged: u64,
    next: u64,
    end: u64,
    segments: VecDeque<Segment>,
    // Bytes in flight: sent, not reported and not taken for lost (RFC 6675, `pipe`).
    pipe: u64,
    // Segments taken for lost and not sent again yet; the first is at this byte or above.
    lost: usize,
    resend_from: u64,
    // Losses below this byte have been found.
    examined: u64,
    // The first segment of a fast retransmit leaves whatever the window.
    is_resend_due: bool,
    recovery: Option<Recovery>,
    // Smoothed round trip and its variation.
    trip: Option<(Duration, Duration)>,
    backoff: u32,
    deadline: Option<Instant>,
    last_sent: Instant,
    recoveries: Recoveries,
}

impl Sender {
    /// The sender of a new stream.
    pub(crate) fn new(congestion: Congestion) -> Sender {
        Sender {
            window: Window::new(congestion),
            unacknowledged: 0,
            next: 0,
            end: 0,
            segments: VecDeque::new(),
            pipe: 0,
            lost: 0,
            resend_from: 0,
            examined: 0,
            is_resend_due: false,
            recovery: None,
            trip: None,
            backoff: 0,
            deadline: None,
            last_sent: Instant::ZERO,
            recoveries: Recoveries::default(),
        }
    }

    /// The application writes this many bytes. Returns where they end.
    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        self.end += bytes;
        self.end
    }

    /// Bytes that were written and never sent.
    pub(crate) fn unsent(&self) -> u64 {
        self.end - self.next
    }

    /// When the retransmission timer expires.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Takes what was counted since the last call.
    pub(crate) fn take_recoveries(&mut self) -> Recoveries {
        std::mem::take(&mut self.recoveries)
    }

    /// The next segment to put on the wire, if the windows allow one: what was lost before what is
    /// new (RFC 6675, NextSeg).
    pub(crate) fn next_segment(&mut self, now: Instant) -> Option<(u64, u64)> {
        if self.segments.is_empty() && now - self.last_sent > self.time_out() {
            self.window.restart();
        }
        let sent = if self.lost > 0 { self.resend(now) } else { self.send_new(now) }?;
        self.last_sent = now;
        // RFC 6298, section 5.1.
        self.deadline.get_or_insert(now + self.time_out());
        Some(sent)
    }

    fn resend(&mut self, now: Instant) -> Option<(u64, u64)> {
        let from = self.segments.partition_point(|segment| segment.start < self.resend_from);
        let lost = |segment: &Segment| segment.state == State::Lost;
        let at = from + self.segments.iter().skip(from).position(lost)?;
        let bytes = self.segments[at].bytes();
        if !self.is_resend_due && !self.has_room(bytes) {
            return None;
        }
        self.is_resend_due = false;
        let segment = &mut self.segments[at];
        (segment.state, segment.sent_at) = (State::Resent, now);
        segment.resent_before = self.next;
        self.resend_from = segment.end;
        self.lost -= 1;
        self.pipe += bytes;
        self.recoveries.resent += 1;
        Some((segment.start, segment.end))
    }

    fn send_new(&mut self, now: Instant) -> Option<(u64, u64)> {
        let bytes = self.unsent().min(MSS);
        let in_window = self.next + bytes - self.unacknowledged <= RECEIVE_WINDOW_BYTES;
        if bytes == 0 || !in_window || !self.has_room(bytes) {
            return None;
        }
        let (start, end) = (self.next, self.next + bytes);
        let state = State::InFlight;
        self.segments.push_back(Segment { start, end, sent_at: now, state, resent_before: 0 });
        self.next = end;
        self.pipe += bytes;
        Some((start, end))
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.pipe == 0 || self.pipe + bytes <= self.window.bytes()
    }

    /// An acknowledgement has come.
    pub(crate) fn on_ack(&mut self, now: Instant, ack: &Ack) {
        if ack.cumulative > self.next {
            return;
        }
        let flight = self.pipe;
        let has_news = self.note_arrived(ack);
        let acked = ack.cumulative.saturating_sub(self.unacknowledged);
        if acked > 0 {
            self.advance(now, ack.cumulative);
            if self.recovery.is_some_and(|recovery| recovery.until <= self.unacknowledged) {
                self.recovery = None;
            }
            self.grow(now, acked, flight);
        }
        if has_news {
            self.find_losses(flight);
        }
        self.is_resend_due &= self.lost > 0;
    }

    /// Marks what selective acknowledgements report. True if something was new.
    fn note_arrived(&mut self, ack: &Ack) -> bool {
        let mut has_news = false;
        for &(start, end) in &ack.selective {
            let from = self.segments.partition_point(|segment| segment.start < start);
            for segment in self.segments.iter_mut().skip(from).take_while(|s| s.end <= end) {
                match segment.state {
                    State::Arrived => continue,
                    State::InFlight | State::Resent => self.pipe -= segment.bytes(),
                    State::Lost => self.lost -= 1,
                }
                segment.state = State::Arrived;
                has_news = true;
            }
        }
        has_news
    }

    /// Every byte below `cumulative` has come.
    fn advance(&mut self, now: Instant, cumulative: u64) {
        let mut sample = None;
        while let Some(segment) = self.segments.front().filter(|s| s.end <= cumulative) {
            match segment.state {
                // Karn's algorithm: nothing is measured by what was sent twice (RFC 6298, 3).
                State::InFlight => sample = Some(now - segment.sent_at),
                State::Arrived | State::Resent | State::Lost => {}
            }
            self.pipe -= if segment.is_in_flight() { segment.bytes() } else { 0 };
            self.lost -= usize::from(segment.state == State::Lost);
            self.segments.pop_front();
        }
        self.unacknowledged = cumulative;
        if let Some(sample) = sample {
            self.measure(sample);
        }
        self.backoff = 0;
        // RFC 6298, sections 5.2 and 5.3.
        self.deadline = (!self.segments.is_empty()).then(|| now + self.time_out());
    }

    /// Grows the window, outside of fast recovery and where it limited the sender (RFC 7661).
    fn grow(&mut self, now: Instant, acked: u64, flight: u64) {
        let segments_max = match self.recovery.map(|recovery| recovery.cause) {
            None => 2,
            Some(Cause::TimeOut) => 1,
            Some(Cause::Acknowledgements) => return,
        };
        let needed = if self.window.is_slow_start() { 2 * flight } else { flight + 2 * MSS };
        if needed >= self.window.bytes() && self.window.bytes() < RECEIVE_WINDOW_BYTES {
            let trip = self.trip.map_or(Duration::ZERO, |(smoothed, _)| smoothed);
            self.window.grow(acked, segments_max, now, trip);
        }
    }

    /// Looks for losses after a selective acknowledgement, and shrinks the window for them.
    fn find_losses(&mut self, flight: u64) {
        let Some(at) = self.third_above() else { return };
        let is_lost = self.mark_lost(at);
        let is_lost_again = self.mark_lost_again(at);
        // RFC 6675, section 5, step 4: one reduction for each window of data; and one more where a
        // retransmission is lost (RFC 5681, section 4.3).
        if is_lost_again || (is_lost && self.recovery.is_none()) {
            self.recovery = Some(Recovery { until: self.next, cause: Cause::Acknowledgements });
            self.window.on_loss(flight);
            self.is_resend_due = true;
            self.recoveries.fast += 1;
        }
    }

    /// The place of the third segment from the end that has come: what is below it and has not is
    /// taken for lost (RFC 6675, IsLost).
    fn third_above(&self) -> Option<usize> {
        let arrived = |segment: &Segment| segment.state == State::Arrived;
        let places = self.segments.iter().enumerate().rev();
        let mut above = places.filter(|(_, segment)| arrived(segment)).map(|(place, _)| place);
        above.nth(DUPLICATE_THRESHOLD - 1)
    }

    /// Marks what was sent once and is lost below this place. True if there was any.
    fn mark_lost(&mut self, at: usize) -> bool {
        let from = self.segments.partition_point(|segment| segment.start < self.examined);
        let before = self.lost;
        for place in from.min(at)..at {
            if self.segments[place].state == State::InFlight {
                self.mark_segment_lost(place);
            }
        }
        self.examined = self.examined.max(self.segments[at].start);
        self.lost > before
    }

    /// Marks what was sent again and is lost once more: three segments that were first sent after
    /// it have come. RFC 6675 leaves that to the timer; Linux has always looked for it, and so does
    /// RFC 8985. True if there was any.
    fn mark_lost_again(&mut self, at: usize) -> bool {
        let third = self.segments[at].start;
        let before = self.lost;
        for place in 0..at {
            let segment = &self.segments[place];
            if segment.state == State::Resent && segment.resent_before <= third {
                self.mark_segment_lost(place);
            }
        }
        self.lost > before
    }

    fn mark_segment_lost(&mut self, place: usize) {
        let segment = &mut self.segments[place];
        segment.state = State::Lost;
        self.pipe -= segment.bytes();
        self.lost += 1;
        self.resend_from = self.resend_from.min(segment.start);
    }

    /// The retransmission timer expired: everything that was not reported counts as lost, and is
    /// sent again from one segment on (RFC 6298, sections 5.4 to 5.6; RFC 6675, section 5.1).
    pub(crate) fn on_time_out(&mut self, now: Instant) {
        let is_first = self.backoff == 0;
        self.window.on_time_out(self.pipe.max(MSS), is_first);
        for segment in self.segments.iter_mut().filter(|segment| segment.is_in_flight()) {
            segment.state = State::Lost;
            self.lost += 1;
        }
        self.pipe = 0;
        self.examined = self.next;
        self.resend_from = self.unacknowledged;
        self.is_resend_due = false;
        self.recovery = Some(Recovery { until: self.next, cause: Cause::TimeOut });
        self.recoveries.time_outs += 1;
        self.backoff += 1;
        self.deadline = Some(now + self.time_out());
    }

    /// RFC 6298, sections 2.2 and 2.3.
    fn measure(&mut self, sample: Duration) {
        self.trip = Some(match self.trip {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                let variation = variation * 3 / 4 + smoothed.abs_diff(sample) / 4;
                (smoothed * 7 / 8 + sample / 8, variation)
            }
        });
    }

    /// The retransmission time-out, doubled for each expiry in a row (RFC 6298, section 5.5).
    fn time_out(&self) -> Duration {
        let base = self.trip.map_or(TIME_OUT_FIRST, |(smoothed, variation)| {
            (smoothed + 4 * variation).max(TIME_OUT_MIN)
        });
        (base * 2u32.saturating_pow(self.backoff.min(16))).min(TIME_OUT_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    fn ack(cumulative: u64, arrived: &[(u64, u64)]) -> Ack {
        let mut selective = [(0, 0); 3];
        for (block, &(start, end)) in selective.iter_mut().zip(arrived) {
            *block = (start * MSS, end * MSS);
        }
        Ack { cumulative: cumulative * MSS, selective }
    }

    /// Sends all that it may; the numbers of the segments.
    fn drain(sender: &mut Sender, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| sender.next_segment(now)).map(|(start, _)| start / MSS).collect()
    }

    /// A sender with the ten segments of its initial window in flight.
    fn started() -> Sender {
        let mut sender = Sender::new(Congestion::Reno);
        sender.write(1000 * MSS);
        assert_eq!(drain(&mut sender, at(0)), (0..10).collect::<Vec<_>>());
        sender
    }

    #[test]
    fn the_window_doubles_every_round_trip_until_the_first_loss() {
        let mut sender = started();
        let mut first = 0;
        for round in 1..=4u32 {
            let in_flight = 10 << (round - 1);
            let now = at(100 * u64::from(round));
            let mut sent = 0;
            for pair in 0..in_flight / 2 {
                sender.on_ack(now, &ack(first + 2 * (pair + 1), &[]));
                sent += drain(&mut sender, now).len();
            }
            first += in_flight;
            assert_eq!(sent, 10 << round);
        }
    }

    #[test]
    fn three_segments_above_a_gap_resend_it_at_once_and_two_do_not() {
        let mut sender = started();
        sender.on_ack(at(50), &ack(1, &[]));
        drain(&mut sender, at(50));
        sender.on_ack(at(60), &ack(1, &[(2, 4)]));
        assert!(!drain(&mut sender, at(60)).contains(&1), "two may be reordering");
        let flight = sender.pipe;
        sender.on_ack(at(61), &ack(1, &[(2, 5)]));
        assert_eq!(drain(&mut sender, at(61)).first(), Some(&1));
        let counted = sender.take_recoveries();
        assert_eq!((counted.fast, counted.time_outs, counted.resent), (1, 0, 1));
        // RFC 5681, equation 4.
        assert_eq!(sender.window.bytes(), flight / 2);
        // Further losses in the same window do not reduce it again.
        sender.on_ack(at(70), &ack(1, &[(6, 12), (2, 5)]));
        assert_eq!(drain(&mut sender, at(70)).first(), Some(&5));
        assert_eq!((sender.take_recoveries().fast, sender.window.bytes()), (0, flight / 2));
    }

    #[test]
    fn a_lost_retransmission_is_found_by_three_segments_that_were_sent_after_it() {
        let mut sender = started();
        sender.on_ack(at(50), &ack(0, &[(1, 9)]));
        let sent = drain(&mut sender, at(50));
        assert_eq!((sent[0], sent[1]), (0, 10), "the hole, then new data");
        let last = *sent.last().unwrap();
        assert!(last >= 12, "{sent:?}");
        sender.on_ack(at(60), &ack(0, &[(10, 12), (1, 9)]));
        assert!(!drain(&mut sender, at(60)).contains(&0), "two may be reordering");
        let window = sender.window.bytes();
        sender.on_ack(at(61), &ack(0, &[(10, 13), (1, 9)]));
        assert_eq!(drain(&mut sender, at(61)).first(), Some(&0));
        assert!(sender.window.bytes() < window, "RFC 5681, section 4.3");
        let counted = sender.take_recoveries();
        assert_eq!((counted.fast, counted.time_outs, counted.resent), (2, 0, 2));
    }

    #[test]
    fn a_lost_tail_is_sent_again_after_200_ms_and_then_at_doubled_times() {
        let mut sender = Sender::new(Congestion::Reno);
        sender.write(4 * MSS);
        drain(&mut sender, at(0));
        // The first three come after a round trip of 100 us; the fourth does not.
        sender.on_ack(at(100), &ack(3, &[]));
        let mut last = at(100);
        for round in 0..4 {
            let due = sender.deadline().expect("something is in flight");
            assert_eq!(due - last, TIME_OUT_MIN * (1 << round));
            assert_eq!(sender.next_segment(due), None);
            sender.on_time_out(due);
            assert_eq!(drain(&mut sender, due), [3]);
            last = due;
        }
        assert_eq!(sender.window.bytes(), MSS);
        sender.on_ack(last, &ack(4, &[]));
        assert_eq!((sender.deadline(), sender.unsent(), sender.pipe), (None, 0, 0));
        let counted = sender.take_recoveries();
        assert_eq!((counted.fast, counted.time_outs, counted.resent), (0, 4, 4));
    }

    #[test]
    fn a_time_out_keeps_what_was_reported_and_sends_the_rest_by_slow_start() {
        let mut sender = started();
        sender.on_ack(at(50), &ack(0, &[(4, 6)]));
        let due = sender.deadline().unwrap();
        sender.on_time_out(due);
        assert_eq!(drain(&mut sender, due), [0], "the loss window is one segment");
        sender.on_ack(due, &ack(1, &[(4, 6)]));
        assert_eq!(drain(&mut sender, due), [1, 2], "slow start");
        sender.on_ack(due, &ack(3, &[(4, 6)]));
        assert_eq!(drain(&mut sender, due), [3, 6, 7], "4 and 5 had come");
    }

    #[test]
    fn the_time_out_follows_the_round_trip_and_not_what_was_sent_twice() {
        let mut sender = Sender::new(Congestion::Reno);
        assert_eq!(sender.time_out(), TIME_OUT_FIRST);
        sender.write(2 * MSS);
        drain(&mut sender, at(0));
        sender.on_ack(at(400_000), &ack(1, &[]));
        // RFC 6298, 2.2: SRTT = R, RTTVAR = R / 2, RTO = SRTT + 4 x RTTVAR.
        assert_eq!(sender.time_out(), Duration::from_millis(1200));
        let due = sender.deadline().unwrap();
        sender.on_time_out(due);
        drain(&mut sender, due);
        sender.on_ack(due + Duration::from_micros(1), &ack(2, &[]));
        assert_eq!(sender.time_out(), Duration::from_millis(1200), "Karn's algorithm");
    }

    #[test]
    fn after_a_long_rest_the_window_starts_again() {
        let mut sender = started();
        sender.on_ack(at(100), &ack(10, &[]));
        let sent = drain(&mut sender, at(100)).len() as u64;
        assert!(sent > 10);
        sender.on_ack(at(200), &ack(10 + sent, &[]));
        sender.end = sender.next;
        assert_eq!(drain(&mut sender, at(300)), []);
        sender.write(100 * MSS);
        assert_eq!(drain(&mut sender, at(2_000_000)).len(), 10);
    }
}
