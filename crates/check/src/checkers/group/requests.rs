//! The ledger of requests and their answers, kept by [`GroupLedger`].
//!
//! [`GroupLedger`]: super::GroupLedger

use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{Instant, Member, NodeId, View, ViewId};
use paceline_proto::group::{Answer, Command, Config, Event, Group, RequestFailure, Role};

use super::content::hash;
use super::{Broken, Rule};
use paceline_sim::Fault;

/// What became of the requests of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestTotals {
    /// Commands to make one.
    pub made: u64,
    /// Handed to the application of their callee.
    pub handled: u64,
    /// Ended with a reply.
    pub replied: u64,
    /// Ended with a refusal.
    pub refused: u64,
    /// Ended as the callee departed.
    pub departed: u64,
    /// Timed out.
    pub timed_out: u64,
    /// Settled after they had timed out or were cancelled.
    pub settled: u64,
}

/// How a request ended at its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Replied,
    Failed(RequestFailure),
    Cancelled,
}

#[derive(Clone, Debug)]
struct Made {
    to: Member,
    content: u64,
    bytes: usize,
    times_out_at: Instant,
    is_handled: bool,
    // The hash of the reply; `None` inside if it was refused.
    answer: Option<Option<u64>>,
    ended: Option<Ended>,
    is_settled: bool,
}

/// The requests that a callee has not answered, of one caller.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    requests: usize,
    bytes: usize,
}

/// Requests, what their callees answered, and what their callers were told.
#[derive(Debug)]
pub(super) struct RequestLedger {
    requests_max: usize,
    bytes_max: usize,
    // By caller and ticket.
    made: BTreeMap<(Member, u64), Made>,
    // Those that have not ended, by node: when each times out.
    open: BTreeMap<NodeId, BTreeSet<(Instant, Member, u64)>>,
    // By caller and callee.
    held: BTreeMap<(Member, Member), Held>,
    // The view of each node at its last call.
    views: BTreeMap<NodeId, ViewId>,
    // When each node that stood still goes on.
    pauses: BTreeMap<NodeId, Instant>,
    pub(super) totals: RequestTotals,
}

impl RequestLedger {
    pub(super) fn new(config: &Config) -> RequestLedger {
        RequestLedger {
            requests_max: config.requests_max(),
            bytes_max: config.requests_bytes_max(),
            made: BTreeMap::new(),
            open: BTreeMap::new(),
            held: BTreeMap::new(),
            views: BTreeMap::new(),
            pauses: BTreeMap::new(),
            totals: RequestTotals::default(),
        }
    }

    pub(super) fn note_fault(&mut self, at: Instant, fault: &Fault) {
        match fault {
            // Its application is gone as well.
            Fault::Crash(node) | Fault::CrashAmid { node, .. } => _ = self.open.remove(node),
            Fault::Pause(node, time) => {
                let goes_on = self.pauses.entry(*node).or_default();
                *goes_on = (at + *time).max(*goes_on);
            }
            _ => {}
        }
    }

    pub(super) fn note_command(&mut self, at: Instant, member: Member, command: &Command) {
        match command {
            Command::Request { to, payload, within, ticket } => {
                self.totals.made += 1;
                let (content, bytes, times_out_at) = (hash(payload), payload.len(), at + *within);
                let made = Made {
                    to: *to,
                    content,
                    bytes,
                    times_out_at,
                    is_handled: false,
                    answer: None,
                    ended: None,
                    is_settled: false,
                };
                self.made.insert((member, *ticket), made);
                let open = self.open.entry(member.node).or_default();
                open.insert((times_out_at, member, *ticket));
            }
            Command::CancelRequest { ticket } => {
                let open = self.made.get_mut(&(member, *ticket)).filter(|it| it.ended.is_none());
                let Some(made) = open else { return };
                made.ended = Some(Ended::Cancelled);
                let at = made.times_out_at;
                self.close(at, member, *ticket);
            }
            Command::Answer { to, id, answer, .. } => {
                let asked = self.made.get_mut(&(*to, *id)).filter(|made| made.to == member);
                let Some(made) = asked.filter(|it| it.is_handled && it.answer.is_none()) else {
                    return;
                };
                made.answer = Some(match answer {
                    Answer::Reply(payload) => Some(hash(payload)),
                    Answer::Refusal => None,
                });
                let held = self.held.entry((*to, member)).or_default();
                held.requests -= 1;
                held.bytes -= made.bytes;
            }
            _ => {}
        }
    }

    fn close(&mut self, times_out_at: Instant, caller: Member, ticket: u64) {
        if let Some(open) = self.open.get_mut(&caller.node) {
            open.remove(&(times_out_at, caller, ticket));
        }
    }

    /// A member got an event in a view of these members.
    pub(super) fn note_event(
        &mut self,
        at: Instant,
        member: Member,
        view: &[Member],
        event: &Event,
    ) -> Result<(), Broken> {
        match event {
            Event::Request { from, id, payload, .. } => {
                if !view.contains(from) || !view.contains(&member) {
                    let what = format!("request {id} of {from:?} to {member:?} in {view:?}");
                    return Err((Rule::Views, what));
                }
                self.note_handled(*from, member, *id, hash(payload))
            }
            Event::Replied { ticket, from, payload, .. } => {
                self.totals.replied += 1;
                let made = self.end(member, *ticket, Ended::Replied)?;
                if made.to != *from || made.answer != Some(Some(hash(payload))) {
                    let what = format!("{ticket} ended with what {:?} did not reply", made.to);
                    return Err((Rule::RequestOutcome, what));
                }
                Ok(())
            }
            Event::RequestFailed { ticket, failure } => {
                self.note_failure(at, member, view, *ticket, *failure)
            }
            Event::RequestSettled { ticket } => self.note_settled(member, *ticket),
            _ => Ok(()),
        }
    }

    fn note_handled(
        &mut self,
        from: Member,
        to: Member,
        id: u64,
        content: u64,
    ) -> Result<(), Broken> {
        self.totals.handled += 1;
        let fail = |what| Err((Rule::RequestIntegrity, what));
        let asked = self.made.get_mut(&(from, id));
        let Some(made) = asked.filter(|made| made.to == to && made.content == content) else {
            return fail(format!("{from:?} made no request {id} like it to {to:?}"));
        };
        if std::mem::replace(&mut made.is_handled, true) {
            return fail(format!("request {id} of {from:?} handled again"));
        }
        let held = self.held.entry((from, to)).or_default();
        let is_within = held.requests < self.requests_max
            && (held.bytes == 0 || held.bytes + made.bytes <= self.bytes_max);
        held.requests += 1;
        held.bytes += made.bytes;
        if !is_within {
            return Err((Rule::Bounds, format!("{held:?} of {from:?} not answered by {to:?}")));
        }
        Ok(())
    }

    fn note_failure(
        &mut self,
        at: Instant,
        member: Member,
        view: &[Member],
        ticket: u64,
        failure: RequestFailure,
    ) -> Result<(), Broken> {
        let made = self.end(member, ticket, Ended::Failed(failure))?;
        let is_true = match failure {
            RequestFailure::NotSent(_) => !made.is_handled,
            RequestFailure::TicketInUse => false,
            RequestFailure::Refused => made.answer == Some(None),
            RequestFailure::TimedOut => true,
            RequestFailure::Departed => !view.contains(&made.to),
            RequestFailure::Parted => true,
        };
        if !is_true {
            let what = format!("{ticket} to {:?} ended as {failure:?} in {view:?}", made.to);
            return Err((Rule::RequestOutcome, what));
        }
        if failure == RequestFailure::TimedOut && at < made.times_out_at {
            let what = format!("{ticket} timed out before {}", made.times_out_at);
            return Err((Rule::RequestTime, what));
        }
        match failure {
            RequestFailure::Refused => self.totals.refused += 1,
            RequestFailure::TimedOut => self.totals.timed_out += 1,
            RequestFailure::Departed => self.totals.departed += 1,
            RequestFailure::NotSent(_) => drop(self.made.remove(&(member, ticket))),
            RequestFailure::TicketInUse | RequestFailure::Parted => {}
        }
        Ok(())
    }

    /// Notes the event by which a caller learns the outcome of its request.
    fn end(&mut self, caller: Member, ticket: u64, ended: Ended) -> Result<Made, Broken> {
        let Some(made) = self.made.get_mut(&(caller, ticket)) else {
            return Err((Rule::RequestOutcome, format!("{ticket} ended, and was never made")));
        };
        if let Some(before) = made.ended.replace(ended) {
            let what = format!("{ticket} ended as {ended:?} after {before:?}");
            return Err((Rule::RequestOutcome, what));
        }
        let made = made.clone();
        self.close(made.times_out_at, caller, ticket);
        Ok(made)
    }

    fn note_settled(&mut self, caller: Member, ticket: u64) -> Result<(), Broken> {
        self.totals.settled += 1;
        let made = self.made.get_mut(&(caller, ticket));
        let settles = |made: &&mut Made| {
            let timed_out = Ended::Failed(RequestFailure::TimedOut);
            made.ended == Some(Ended::Cancelled) || made.ended == Some(timed_out)
        };
        match made.filter(settles) {
            Some(made) if !made.is_settled => made.is_settled = true,
            _ => {
                let what = format!("{ticket} settled, which is not open or was settled");
                return Err((Rule::RequestOutcome, what));
            }
        }
        Ok(())
    }

    /// After each call of a node: no request has waited for longer than its time, for a member that
    /// is not in the view, or is one of an earlier incarnation.
    pub(super) fn after_call(
        &mut self,
        at: Instant,
        node: NodeId,
        group: &Group,
    ) -> Result<(), Broken> {
        let Some(open) = self.open.get(&node).filter(|open| !open.is_empty()) else {
            return Ok(());
        };
        // A node that stood still handles what came meanwhile first.
        let paused = self.pauses.get(&node).copied().unwrap_or_default();
        if let Some((by, _, ticket)) = open.first().filter(|(by, ..)| *by < at && paused < at) {
            let what = format!("{ticket} has not ended, and its time was up at {by}");
            return Err((Rule::RequestTime, what));
        }
        let (view, is_member) = (group.view(), group.role() != Role::Outside);
        let before = self.views.insert(node, view.id());
        if before == Some(view.id()) && is_member {
            return Ok(());
        }
        let is_stale = |&&(_, caller, ticket): &&(Instant, Member, u64)| {
            let to = self.made.get(&(caller, ticket)).map(|made| made.to);
            caller != group.member() || !is_member || to.is_some_and(|to| !view.contains(to))
        };
        match open.iter().find(is_stale) {
            None => Ok(()),
            Some((_, caller, ticket)) => {
                let what = format!("{ticket} of {caller:?} has not ended in {view:?}");
                Err((Rule::RequestOutcome, what))
            }
        }
    }

    /// At the end of a run: between two members that stayed, what was answered has ended, or was
    /// settled.
    pub(super) fn check_settled(&self, view: &View) -> Result<(), (NodeId, Broken)> {
        for (&(caller, ticket), made) in &self.made {
            if !view.contains(caller) || !view.contains(made.to) || made.answer.is_none() {
                continue;
            }
            let is_over = match made.ended {
                None => false,
                Some(Ended::Cancelled | Ended::Failed(RequestFailure::TimedOut)) => made.is_settled,
                // A member that was in a view and never heard of it may come back as the same one.
                Some(Ended::Replied | Ended::Failed(_)) => true,
            };
            if !is_over {
                let what = format!("{ticket} to {:?} was answered, and is not settled", made.to);
                return Err((caller.node, (Rule::RequestOutcome, what)));
            }
        }
        Ok(())
    }
}
