//! Sending: messages of one packet at once, those of several packets at a rate. With
//! `rate_control = "tfmcc"` all are sent at a rate, which follows the receivers.

use std::collections::VecDeque;
use std::time::Duration;

use super::counters;
use super::flow::{Held, Way};
use super::fragment::Fragment;
use super::interface::{Event, RejectReason, Timer};
use super::message::{Data, Framing, Message, Name};
use super::{Cx, Kept, RateControl, RepairBy, Slingshot};
use crate::core::{GroupId, Payload};
use crate::parts::deadline::Deadline;
use crate::parts::token_bucket::TokenBucket;

/// What may leave at once of messages of several packets: as much as their rate gives in this time,
/// and one packet.
const BURST: Duration = Duration::from_millis(2);

/// How soon the host is looked at again that held too much ([`Slingshot::is_held_up`]).
const HELD_UP: Duration = Duration::from_millis(1);

/// A message that waits for its packets to be sent.
#[derive(Debug)]
struct Queued {
    group: GroupId,
    payload: Payload,
    ticket: u64,
    /// The next fragment to send; `None` for a message of one packet, which waits for those before
    /// it to the same group.
    next: Option<Fragment>,
    /// The number of the first packet, once it has left.
    first: Option<u64>,
}

/// Messages of several packets that are being sent, one after another, and what waits behind them.
///
/// The packets of a message have consecutive numbers. So what is sent to a group while a long
/// message to it is on its way waits for that; what is sent to other groups does not.
#[derive(Debug)]
pub(super) struct Sending {
    queue: VecDeque<Queued>,
    bytes: usize,
    pace: TokenBucket,
    /// The group to which the last paced packet was sent.
    paced: Option<GroupId>,
    timer: Deadline,
}

impl Sending {
    pub(super) fn new() -> Sending {
        Sending {
            queue: VecDeque::new(),
            bytes: 0,
            pace: TokenBucket::full(BURST),
            paced: None,
            timer: Deadline::UNARMED,
        }
    }

    /// Messages that wait, and their bytes.
    pub(super) fn queued(&self) -> (usize, usize) {
        (self.queue.len(), self.bytes)
    }

    /// True if a message to this group is being sent or waits.
    fn holds(&self, group: GroupId) -> bool {
        self.queue.iter().any(|queued| queued.group == group)
    }

    fn push(&mut self, queued: Queued) {
        self.bytes += queued.payload.len();
        self.queue.push_back(queued);
    }

    fn pop(&mut self) {
        if let Some(sent) = self.queue.pop_front() {
            self.bytes -= sent.payload.len();
        }
    }
}

impl Slingshot {
    pub(super) fn multicast(
        &mut self,
        cx: &mut Cx<'_>,
        id: GroupId,
        payload: Payload,
        ticket: u64,
    ) {
        let packet_bytes_max = cx.shared.payload_bytes_max(cx.datagram_bytes_max);
        let is_long = payload.len() > packet_bytes_max;
        let place = self.group_place(id);
        let is_paced = cx.shared.rate_control == RateControl::Tfmcc;
        let must_wait = is_long || is_paced || self.sending.holds(id);
        let reason = match place {
            None => Some(RejectReason::UnknownGroup(id)),
            Some(place) if !self.groups[place].is_joined => Some(RejectReason::NotAMember(id)),
            Some(_) if must_wait => self.refused(cx, payload.len()),
            Some(_) => None,
        };
        if let Some(reason) = reason {
            cx.count(counters::REJECTED, 1);
            return cx.deliver(Event::Rejected { ticket, reason });
        }
        let place = place.expect("a group that is not known is a reason");
        if must_wait {
            let first = Fragment::first(payload.len(), packet_bytes_max);
            let next = first.filter(|_| is_long);
            self.sending.push(Queued { group: id, payload, ticket, next, first: None });
            return self.pace(cx);
        }
        if let Some(seq) = self.send_packet(cx, place, payload, None)
            && ticket != 0
        {
            cx.deliver(Event::Sent { ticket, seq });
        }
    }

    /// The reason why a message of this length cannot wait, if it cannot. It is taken whole or not
    /// at all; an empty queue takes any.
    fn refused(&self, cx: &Cx<'_>, bytes: usize) -> Option<RejectReason> {
        let bytes_max = cx.shared.message_bytes_limit(cx.datagram_bytes_max);
        if bytes > bytes_max {
            return Some(RejectReason::TooLarge { bytes, bytes_max });
        }
        let (queued, queued_bytes) = self.sending.queued();
        let (packets_max, bytes_max) = cx.shared.held_max();
        let is_full = queued > 0 && (queued >= packets_max || queued_bytes + bytes > bytes_max);
        is_full.then_some(RejectReason::QueueFull { queued_bytes, bytes_max })
    }

    /// Sends one packet to a group that this node is in. Returns its number.
    fn send_packet(
        &mut self,
        cx: &mut Cx<'_>,
        place: usize,
        payload: Payload,
        fragment: Option<Fragment>,
    ) -> Option<u64> {
        let id = self.groups[place].id;
        let member = self.groups[place].place(cx.node).expect("a group is joined by its members");
        let at = self.flow_of(cx, place, member, Some(cx.incarnation))?;
        let group = &mut self.groups[place];
        let seq = group.seq;
        group.seq += 1;
        cx.count(counters::SENT, 1);
        self.ledger.tally.own += 1;
        self.ledger.tally.latest = cx.now;
        let framing = if fragment.is_some() { Framing::Fragment } else { Framing::Whole };
        let incarnation = cx.incarnation;
        let checksum = framing.checksum(id, incarnation, seq, &payload);
        let data =
            Data { group: id, incarnation, seq, framing, checksum, payload: payload.clone() };
        cx.send_group(id, Message::Data(data));
        if cx.shared.repair_by == RepairBy::Sender
            && let Some(rank) = self.view.rank(cx.node)
        {
            let name = Name { group: id, rank: rank as u16, seq: seq as u32, checksum };
            self.protect(cx, place, cx.node, name, &payload);
        }
        let (now, way) = (cx.now, Way::Direct);
        let held = Held { payload, checksum, fragment, since: now, noted: now, arrived: now, way };
        let window = cx.shared.window_packets as u64;
        let flow = &mut self.flows[at as usize];
        flow.keep_own(&mut self.ledger, held, window);
        let generation = flow.generation;
        self.keep(cx, Kept { at: cx.now, flow: at, generation, seq });
        self.expect_silence(cx, place);
        Some(seq)
    }

    /// Sends packets of the messages that wait, as many as may leave by now.
    fn pace(&mut self, cx: &mut Cx<'_>) {
        while let Some(queued) = self.sending.queue.front() {
            let Some(place) = self.group_place(queued.group) else {
                debug_assert!(false, "messages to a group end with it");
                return self.sending.pop();
            };
            let next_at = self.sending.pace.next_at();
            if next_at > cx.now {
                return self.sending.timer.set(cx, next_at, Timer::Pace);
            }
            let packet = match queued.next {
                Some(fragment) => fragment.packet(&queued.payload),
                None => queued.payload.clone(),
            };
            let (fragment, ticket) = (queued.next, queued.ticket);
            let (id, bytes) = (queued.group, Data::HEAD_BYTES + packet.len());
            if self.is_held_up(cx, place, bytes) {
                cx.count(counters::HELD_UP, 1);
                return self.sending.timer.set_after(cx, HELD_UP, Timer::Pace);
            }
            let (per_second, pulse_bytes) = self.rate_for(cx, place, bytes);
            self.sending.pace.take(cx.now, (bytes + pulse_bytes) as f64, per_second);
            self.sending.paced = Some(id);
            let sent = self.send_packet(cx, place, packet, fragment);
            let queued = self.sending.queue.front_mut().expect("it was there");
            let is_first = queued.first.is_none();
            queued.first = queued.first.or(sent);
            queued.next = fragment.and_then(Fragment::next);
            if queued.next.is_none() {
                if fragment.is_some() {
                    cx.count(counters::MESSAGES_SENT, 1);
                }
                self.sending.pop();
            }
            if let Some(seq) = sent.filter(|_| is_first && ticket != 0) {
                cx.deliver(Event::Sent { ticket, seq });
            }
        }
    }

    /// True if the link of this host does not take the packets at their rate: it still holds more
    /// than may leave at once. They wait here then, since there they would be dropped, for all
    /// receivers alike.
    fn is_held_up(&self, cx: &Cx<'_>, place: usize, bytes: usize) -> bool {
        let backlog = cx.datagram_backlog_bytes();
        if backlog <= bytes {
            return false;
        }
        let sender = self.groups[place].congestion.as_ref();
        let per_second = sender
            .map_or(f64::from(cx.shared.message_bytes_per_second), |sender| sender.rate_reached());
        (backlog - bytes) as f64 > per_second * BURST.as_secs_f64()
    }

    /// The rate to a group has changed: what its last packet has still to wait changes with it.
    pub(super) fn change_pace(&mut self, cx: &mut Cx<'_>, id: GroupId, from: f64, to: f64) {
        if self.sending.paced == Some(id) {
            self.sending.pace.change_rate(cx.now, from, to);
            self.pace(cx);
        }
    }

    /// The next packet may leave.
    pub(super) fn pace_timer(&mut self, cx: &mut Cx<'_>) {
        if self.sending.timer.fired(cx.now) {
            self.pace(cx);
        }
    }

    /// This node has left a group: what waits to be sent to it is refused, and the packets of a
    /// message that was on its way keep their numbers, which are used by no other.
    pub(super) fn stop_sending(&mut self, cx: &mut Cx<'_>, place: usize, own_flow: Option<u32>) {
        let id = self.groups[place].id;
        let mut queue = std::mem::take(&mut self.sending.queue);
        queue.retain(|queued| {
            if queued.group != id {
                return true;
            }
            self.sending.bytes -= queued.payload.len();
            if let (Some(first), Some(fragment)) = (queued.first, queued.next) {
                let end = first + u64::from(fragment.packets);
                self.groups[place].seq = end;
                if let Some(flow) = own_flow {
                    self.flows[flow as usize].skip_own(end);
                }
            }
            cx.count(counters::REJECTED, 1);
            let reason = RejectReason::NotAMember(id);
            cx.deliver(Event::Rejected { ticket: queued.ticket, reason });
            false
        });
        self.sending.queue = queue;
    }
}
