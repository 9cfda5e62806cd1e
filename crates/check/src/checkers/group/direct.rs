//! The ledger of messages from one member to one other, kept by [`GroupLedger`].
//!
//! [`GroupLedger`]: super::GroupLedger

use std::collections::{BTreeMap, VecDeque};

use paceline_proto::core::{Member, NodeId, View, ViewId};
use paceline_proto::group::{Config, SendFailure};

use super::{Broken, Rule};

/// The sender and the receiver.
type PairOf = (Member, Member);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Received,
    Failed,
}

#[derive(Clone, Debug)]
struct Sent {
    ticket: u64,
    content: u64,
    // The view of the sender then.
    view: Option<ViewId>,
    outcome: Option<Outcome>,
}

#[derive(Clone, Debug, Default)]
struct Pair {
    sent: Vec<Sent>,
    delivered: usize,
    unread: Unread,
}

/// Messages of one origin that the application got and has not consumed.
#[derive(Clone, Debug, Default)]
pub(super) struct Unread {
    messages: VecDeque<(ViewId, u64, usize)>,
    bytes: usize,
    largest: usize,
}

impl Unread {
    pub(super) fn push(&mut self, view: ViewId, end: u64, bytes: usize) {
        self.messages.push_back((view, end, bytes));
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }

    /// All messages of earlier views are consumed, and those of this one up to `end`.
    pub(super) fn consume(&mut self, view: ViewId, end: u64) {
        while let Some(&(sent_in, until, bytes)) = self.messages.front() {
            if (sent_in, until) > (view, end) {
                break;
            }
            self.bytes -= bytes;
            self.messages.pop_front();
        }
    }

    /// A window, and the one message that is longer than what is left of it.
    pub(super) fn check(&self, window_bytes: usize) -> Result<(), Broken> {
        let bound = window_bytes + self.largest;
        if self.bytes > bound {
            let what = format!("{} bytes not consumed of one origin, {bound} allowed", self.bytes);
            return Err((Rule::Bounds, what));
        }
        Ok(())
    }
}

/// Messages sent to one member, their deliveries, and the outcomes reported to the sender.
#[derive(Debug)]
pub(super) struct DirectLedger {
    window_bytes: usize,
    pairs: BTreeMap<PairOf, Pair>,
    // Where a message is found by its ticket.
    tickets: BTreeMap<(NodeId, u64), (PairOf, usize)>,
    pub(super) deliveries: u64,
}

impl DirectLedger {
    pub(super) fn new(config: &Config) -> DirectLedger {
        DirectLedger {
            window_bytes: config.direct_window_bytes(),
            pairs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            deliveries: 0,
        }
    }

    pub(super) fn note_send(
        &mut self,
        (from, view): (Member, Option<ViewId>),
        to: Member,
        ticket: u64,
        content: u64,
    ) {
        let sent = &mut self.pairs.entry((from, to)).or_default().sent;
        self.tickets.insert((from.node, ticket), ((from, to), sent.len()));
        sent.push(Sent { ticket, content, view, outcome: None });
    }

    pub(super) fn note_consumed(&mut self, from: Member, to: Member, end: u64) {
        if let Some(pair) = self.pairs.get_mut(&(from, to)) {
            pair.unread.consume(ViewId(0), end);
        }
    }

    pub(super) fn note_delivery(
        &mut self,
        from: Member,
        to: Member,
        (end, bytes, content): (u64, usize, u64),
    ) -> Result<(), Broken> {
        self.deliveries += 1;
        let pair = self.pairs.entry((from, to)).or_default();
        // What the sender gave up, since one of the two was not in its view any more, may have come
        // or not.
        let mut number = pair.delivered;
        let is_given_up =
            |sent: &Sent| sent.content != content && sent.outcome == Some(Outcome::Failed);
        while pair.sent.get(number).is_some_and(is_given_up) {
            number += 1;
        }
        let place = pair.sent.iter().position(|sent| sent.content == content);
        if pair.sent.get(number).is_some_and(|sent| sent.content == content) {
            pair.delivered = number + 1;
            // Numbers go on through all views.
            pair.unread.push(ViewId(0), end, bytes);
            return pair.unread.check(self.window_bytes);
        }
        let from = from.node;
        Err(match place {
            Some(place) if place < number => {
                (Rule::DirectIntegrity, format!("message {place} of {from} delivered again"))
            }
            Some(place) => {
                let what = format!("message {place} of {from} delivered, {number} expected");
                (Rule::DirectFifo, what)
            }
            None => (Rule::DirectIntegrity, format!("{from} sent nothing like it to {to:?}")),
        })
    }

    pub(super) fn note_received(&mut self, sender: NodeId, ticket: u64) -> Result<(), Broken> {
        let Some((of, place)) = self.settle(sender, ticket, Outcome::Received)? else {
            return Ok(());
        };
        if self.pairs[&of].delivered <= place {
            let what = format!("told that {:?} has message {place}, and it has not", of.1);
            return Err((Rule::DirectOutcome, what));
        }
        Ok(())
    }

    pub(super) fn note_failure(
        &mut self,
        sender: NodeId,
        ticket: u64,
        failure: SendFailure,
    ) -> Result<(), Broken> {
        if matches!(failure, SendFailure::Departed | SendFailure::Parted) {
            return self.settle(sender, ticket, Outcome::Failed).map(|_| ());
        }
        // It was not accepted.
        let Some((of, place)) = self.tickets.remove(&(sender, ticket)) else { return Ok(()) };
        let sent = &mut self.pairs.get_mut(&of).expect("a ticket has a pair").sent;
        if place + 1 != sent.len() {
            return Err((Rule::DirectOutcome, format!("message {place}, once accepted, refused")));
        }
        sent.pop();
        Ok(())
    }

    fn settle(
        &mut self,
        sender: NodeId,
        ticket: u64,
        outcome: Outcome,
    ) -> Result<Option<(PairOf, usize)>, Broken> {
        let Some(&(of, place)) = self.tickets.get(&(sender, ticket)) else { return Ok(None) };
        let sent = &mut self.pairs.get_mut(&of).expect("a ticket has a pair").sent[place];
        if let Some(before) = sent.outcome.replace(outcome) {
            let what = format!("ticket {ticket} told as {outcome:?} after {before:?}");
            return Err((Rule::DirectOutcome, what));
        }
        Ok(Some((of, place)))
    }

    /// At the end of a run: between two members that stayed everything was delivered, and each
    /// member that stayed got an outcome for every message that it sent.
    pub(super) fn check_settled(
        &self,
        view: &View,
        views: &BTreeMap<ViewId, Vec<Member>>,
    ) -> Result<(), (NodeId, Broken)> {
        for (&(from, to), pair) in self.pairs.iter().filter(|((from, _), _)| view.contains(*from)) {
            let fail = |what| Err((from.node, (Rule::DirectOutcome, what)));
            // A member that was in a view and never heard of it may come back as the same one.
            let has_left = |since: Option<ViewId>| {
                since.is_none_or(|since| views.range(since..).any(|(_, view)| !view.contains(&to)))
            };
            for (place, message) in pair.sent.iter().enumerate() {
                let ticket = message.ticket;
                match message.outcome {
                    Some(Outcome::Received) => {}
                    Some(Outcome::Failed) if has_left(message.view) => {}
                    Some(Outcome::Failed) => {
                        return fail(format!(
                            "ticket {ticket} to {to:?}, who stayed, was given up"
                        ));
                    }
                    None if place < pair.delivered => {
                        return fail(format!(
                            "ticket {ticket} to {to:?} came, the sender knows not"
                        ));
                    }
                    None => return fail(format!("ticket {ticket} to {to:?} was silently lost")),
                }
            }
        }
        Ok(())
    }
}
