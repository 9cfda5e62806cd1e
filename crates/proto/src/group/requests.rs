//! Requests to single members, and the answers.
//!
//! A request and its answer travel as messages to one member ([`post`](super::post)), with the
//! number of the request. So each request reaches the application of its callee at most once, and
//! each answer the caller. The request ends at the caller with the answer, when its time is up, or
//! when a view without the callee is installed, whichever is first. The callee keeps the number
//! until its application answers or a view without the caller is installed.
//!
//! A request counts against the bounds of its pair until the callee has answered it or left, also
//! after its time is up: else a callee that answers nothing would gather more and more of them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::config::Config;
use super::correlated::{Correlation, CorrelationId};
use super::counters;
use super::interface::{Answer, Event, RequestFailure, SendFailure};
use super::{Cx, Group};
use crate::core::{Instant, Member, NodeId, Payload, View, ViewId};

/// The requests of this member, and those of others to it.
#[derive(Debug, Default)]
pub(super) struct Requests {
    // By ticket: those of this member that count against a bound.
    made: BTreeMap<u64, Made>,
    // When those of them time out that have not ended.
    timeouts: BTreeSet<(Instant, u64)>,
    // What `made` takes of the bounds, by callee.
    loads: BTreeMap<NodeId, Load>,
    // Those of others that the application has not answered.
    callers: BTreeMap<NodeId, Caller>,
}

/// A request of this member.
#[derive(Debug)]
struct Made {
    to: Member,
    bytes: usize,
    // `None` once the application has its outcome, or does not want it.
    times_out_at: Option<Instant>,
}

/// A member whose requests the application has not answered.
#[derive(Debug)]
struct Caller {
    from: Member,
    load: Load,
    // The bytes of each, by number.
    unanswered: BTreeMap<u64, usize>,
}

/// What unanswered requests from one member to one take of the bounds.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    requests: usize,
    bytes: usize,
}

impl Load {
    /// True if a request of this many bytes may be added: one that is longer than the bound too, if
    /// no other takes bytes.
    fn has_room(self, bytes: usize, config: &Config) -> bool {
        let fits = self.bytes == 0 || self.bytes + bytes <= config.requests_bytes_max;
        self.requests < config.requests_max && fits
    }

    fn add(&mut self, bytes: usize) {
        self.requests += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.requests -= 1;
        self.bytes -= bytes;
    }
}

impl Requests {
    /// When the next request times out.
    pub(super) fn deadline(&self) -> Instant {
        self.timeouts.first().map_or(Instant::MAX, |&(at, _)| at)
    }

    /// Bytes of what is kept because of requests of others.
    pub(super) fn memory_bytes(&self) -> usize {
        let unanswered: usize = self.callers.values().map(|caller| caller.unanswered.len()).sum();
        self.callers.len() * size_of::<(NodeId, Caller)>() + unanswered * size_of::<(u64, usize)>()
    }

    /// True if the application waits for the answer of this member to this request.
    pub(super) fn awaits(&self, from: Member, ticket: u64) -> bool {
        let made = self.made.get(&ticket).filter(|made| made.to == from);
        made.is_some_and(|made| made.times_out_at.is_some())
    }

    fn add(&mut self, ticket: u64, to: Member, bytes: usize, times_out_at: Instant) {
        self.made.insert(ticket, Made { to, bytes, times_out_at: Some(times_out_at) });
        self.timeouts.insert((times_out_at, ticket));
        self.loads.entry(to.node).or_default().add(bytes);
    }

    /// The application waits for this request no longer. False if it did not.
    fn end(&mut self, ticket: u64) -> bool {
        let made = self.made.get_mut(&ticket);
        let Some(at) = made.and_then(|made| made.times_out_at.take()) else { return false };
        self.timeouts.remove(&(at, ticket))
    }

    /// The request no longer counts against the bounds.
    fn remove(&mut self, ticket: u64) {
        let Some(Made { to, bytes, .. }) = self.made.remove(&ticket) else { return };
        if let Some(load) = self.loads.get_mut(&to.node) {
            load.remove(bytes);
            if load.requests == 0 {
                self.loads.remove(&to.node);
            }
        }
    }

    /// The tickets of requests to members for which this is true.
    fn made_to(&self, is_to: impl Fn(Member) -> bool) -> Vec<u64> {
        let made = self.made.iter().filter(|(_, made)| is_to(made.to));
        made.map(|(&ticket, _)| ticket).collect()
    }
}

impl Group {
    /// Requests of this member to that one that the latter has not answered.
    pub fn requests_unanswered(&self, to: NodeId) -> usize {
        self.requests.loads.get(&to).map_or(0, |load| load.requests)
    }

    /// Requests of that member that this member's application has not answered.
    pub fn requests_held(&self, from: NodeId) -> usize {
        self.requests.callers.get(&from).map_or(0, |caller| caller.load.requests)
    }

    pub(super) fn request(
        &mut self,
        cx: &mut Cx<'_>,
        to: Member,
        payload: Payload,
        within: Duration,
        ticket: u64,
    ) {
        let bytes = payload.len();
        let load = self.requests.loads.get(&to.node).copied().unwrap_or_default();
        let failure = if self.requests.made.contains_key(&ticket) {
            Some(RequestFailure::TicketInUse)
        } else if let Some(failure) = self.cannot_send(cx, to, bytes) {
            Some(RequestFailure::NotSent(failure))
        } else if !load.has_room(bytes, cx.shared) {
            Some(RequestFailure::NotSent(SendFailure::Full))
        } else {
            None
        };
        if let Some(failure) = failure {
            cx.count(counters::REQUEST_REFUSED, 1);
            return cx.deliver(Event::RequestFailed { ticket, failure });
        }
        self.requests.add(ticket, to, bytes, cx.now + within);
        if to == self.me.member {
            return self.take_request(cx, self.view.id(), to, ticket, 0, payload);
        }
        let head = CorrelationId { correlation: Correlation::Request, id: ticket };
        self.enqueue(cx, to, Some(head), payload, 0);
    }

    /// The application no longer waits for the answer.
    pub(super) fn cancel_request(&mut self, ticket: u64) {
        self.requests.end(ticket);
    }

    /// A request has come, whole.
    pub(super) fn take_request(
        &mut self,
        cx: &mut Cx<'_>,
        view: ViewId,
        from: Member,
        id: u64,
        end: u64,
        payload: Payload,
    ) {
        let bytes = payload.len();
        let new = || Caller { from, load: Load::default(), unanswered: BTreeMap::new() };
        let caller = self.requests.callers.entry(from.node).or_insert_with(new);
        if !caller.load.has_room(bytes, cx.shared) || caller.unanswered.contains_key(&id) {
            cx.count(counters::REQUEST_BEYOND_BOUNDS, 1);
            return cx.disconnect(from.node);
        }
        caller.load.add(bytes);
        caller.unanswered.insert(id, bytes);
        cx.deliver(Event::Request { view, from, id, end, payload });
    }

    /// The application answers a request.
    pub(super) fn answer(
        &mut self,
        cx: &mut Cx<'_>,
        to: Member,
        id: u64,
        answer: Answer,
        ticket: u64,
    ) {
        if let Some(failure) = self.cannot_answer(cx, to, id, &answer) {
            cx.count(counters::ANSWER_REFUSED, 1);
            if let Answer::Reply(_) = answer {
                cx.deliver(Event::Undelivered { ticket, failure });
            }
            return;
        }
        if let Some(caller) = self.requests.callers.get_mut(&to.node) {
            caller.load.remove(caller.unanswered.remove(&id).unwrap_or(0));
            if caller.unanswered.is_empty() {
                self.requests.callers.remove(&to.node);
            }
        }
        let (correlation, payload) = match answer {
            Answer::Reply(payload) => (Correlation::Reply, payload),
            Answer::Refusal => (Correlation::Refusal, Payload::Zeros(0)),
        };
        let head = CorrelationId { correlation, id };
        if to != self.me.member {
            return self.enqueue(cx, to, Some(head), payload, ticket);
        }
        if correlation == Correlation::Reply && ticket != 0 {
            cx.deliver(Event::Received { ticket });
        }
        self.take_answer(cx, to, head, 0, payload);
    }

    fn cannot_answer(
        &self,
        cx: &Cx<'_>,
        to: Member,
        id: u64,
        answer: &Answer,
    ) -> Option<SendFailure> {
        let caller = self.requests.callers.get(&to.node).filter(|caller| caller.from == to);
        let (bytes, bytes_max) = (answer.len(), cx.shared.chain().message_bytes_max());
        let is_reply = matches!(answer, Answer::Reply(_));
        if !self.is_member() {
            Some(SendFailure::NotAMember)
        } else if !self.view.contains(to) {
            Some(SendFailure::NotInView)
        } else if !caller.is_some_and(|caller| caller.unanswered.contains_key(&id)) {
            Some(SendFailure::Unasked)
        } else if bytes > bytes_max {
            Some(SendFailure::TooLarge { bytes, bytes_max })
        } else if is_reply && self.is_queue_full(cx, to.node) {
            Some(SendFailure::Full)
        } else {
            None
        }
    }

    /// An answer has come, whole.
    pub(super) fn take_answer(
        &mut self,
        cx: &mut Cx<'_>,
        from: Member,
        head: CorrelationId,
        end: u64,
        payload: Payload,
    ) {
        let ticket = head.id;
        if self.requests.made.get(&ticket).is_none_or(|made| made.to != from) {
            return cx.count(counters::ANSWER_UNASKED, 1);
        }
        let is_awaited = self.requests.end(ticket);
        self.requests.remove(ticket);
        if !is_awaited {
            cx.count(counters::ANSWER_LATE, 1);
            return cx.deliver(Event::RequestSettled { ticket });
        }
        cx.deliver(match head.correlation {
            Correlation::Reply => Event::Replied { ticket, from, end, payload },
            Correlation::Refusal | Correlation::Request => {
                Event::RequestFailed { ticket, failure: RequestFailure::Refused }
            }
        });
    }

    /// Ends the requests whose time is up.
    pub(super) fn expire_requests(&mut self, cx: &mut Cx<'_>) {
        while let Some(&(_, ticket)) =
            self.requests.timeouts.first().filter(|(at, _)| *at <= cx.now)
        {
            self.requests.end(ticket);
            cx.count(counters::REQUEST_TIMED_OUT, 1);
            cx.deliver(Event::RequestFailed { ticket, failure: RequestFailure::TimedOut });
        }
    }

    /// A view was installed: requests to and from members outside of it have ended.
    pub(super) fn carry_requests(&mut self, cx: &mut Cx<'_>, view: &View) {
        self.requests.callers.retain(|_, caller| view.contains(caller.from));
        let gone = self.requests.made_to(|to| !view.contains(to));
        self.give_up_requests_of(cx, gone, RequestFailure::Departed);
    }

    /// This node has left the view or the group.
    pub(super) fn give_up_requests(&mut self, cx: &mut Cx<'_>) {
        self.requests.callers.clear();
        let all = self.requests.made_to(|_| true);
        self.give_up_requests_of(cx, all, RequestFailure::Parted);
    }

    fn give_up_requests_of(&mut self, cx: &mut Cx<'_>, of: Vec<u64>, failure: RequestFailure) {
        for ticket in of {
            let is_awaited = self.requests.end(ticket);
            self.requests.remove(ticket);
            cx.deliver(match is_awaited {
                true => Event::RequestFailed { ticket, failure },
                false => Event::RequestSettled { ticket },
            });
        }
    }
}
