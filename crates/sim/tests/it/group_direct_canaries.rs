//! The bug planted for each promise about messages to one member is caught.

use crate::group_swarm;

use std::collections::BTreeSet;

use group_swarm::hunt::Hunt;
use paceline_check::checkers::group::Rule;
use paceline_check::{Tamper, Wrapped};
use paceline_proto::core::{Context, Member, NodeId, Protocol};
use paceline_proto::group::{Command, Config, Event, Group, SendFailure};

/// The one node that slips, where it is one.
const ONE: NodeId = NodeId(1);

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// One node delivers a message twice.
    DeliverTwice,
    /// One node never delivers a message that it has acknowledged.
    Lose,
    /// One node delivers a message after the next one of the same sender.
    Overtake,
    /// A message is changed.
    FlipPayload,
    /// Messages go to any incarnation of the addressee's node.
    AnyIncarnation,
    /// The sender gets no report that the addressee is gone.
    ForgetFailures,
    /// A message counts as received once it is sent.
    Presume,
    /// What a flush interrupted is given up, though both stay.
    GiveUp,
    /// Reports that a message was received are doubled.
    ReportTwice,
}

struct Sabotage {
    bug: Bug,
    deliveries: u32,
    kept: Option<Event>,
    // Sent, and nothing heard of it.
    open: Vec<u64>,
    given_up: BTreeSet<u64>,
    // What was hidden from the application is consumed all the same.
    unseen: Vec<Command>,
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        Sabotage {
            bug,
            deliveries: 0,
            kept: None,
            open: Vec::new(),
            given_up: BTreeSet::new(),
            unseen: Vec::new(),
        }
    }

    /// Passes an event on, or not.
    fn tell(&mut self, cx: &mut Context<'_, Group>, event: Event) {
        let is_mine = cx.node == ONE;
        match (self.bug, event) {
            (bug, Event::Direct { view, from, end, payload }) if is_mine => {
                self.deliveries += 1;
                let event = Event::Direct { view, from, end, payload };
                match bug {
                    Bug::DeliverTwice if self.deliveries == 3 => {
                        cx.deliver(event.clone());
                        cx.deliver(event);
                    }
                    Bug::Lose if self.deliveries == 3 => {
                        self.unseen.push(Command::ConsumedDirect { from, end });
                    }
                    Bug::Overtake if self.kept.is_none() => self.kept = Some(event),
                    Bug::FlipPayload if self.deliveries == 3 => {
                        let Event::Direct { payload, .. } = event else { return };
                        let mut bytes = payload.to_bytes().to_vec();
                        bytes[23] ^= 1;
                        cx.deliver(Event::Direct { view, from, end, payload: bytes.into() });
                    }
                    _ => {
                        cx.deliver(event);
                        // The one that was kept follows the one after it.
                        if let Some(kept) = self.kept.take() {
                            cx.deliver(kept);
                        }
                    }
                }
            }
            (Bug::ForgetFailures, Event::Undelivered { failure: SendFailure::Departed, .. }) => {}
            (Bug::ReportTwice, Event::Received { ticket }) => {
                cx.deliver(Event::Received { ticket });
                cx.deliver(Event::Received { ticket });
            }
            (Bug::Presume, Event::Received { .. }) => {}
            (_, event) => {
                if let Event::Received { ticket } | Event::Undelivered { ticket, .. } = &event {
                    if self.given_up.contains(ticket) {
                        return;
                    }
                    self.open.retain(|open| open != ticket);
                }
                cx.deliver(event);
            }
        }
    }
}

/// Who has the node of this member by now.
fn namesake(group: &Group, to: Member) -> Member {
    let view = group.view();
    view.rank(to.node).map_or(to, |rank| view.members()[rank])
}

impl Tamper<Group> for Sabotage {
    fn commands(
        &mut self,
        group: &mut Group,
        cx: &mut Context<'_, Group>,
        command: &mut Command,
    ) -> bool {
        if let Command::SendTo { to, ticket, .. } = command {
            match self.bug {
                Bug::AnyIncarnation => *to = namesake(group, *to),
                Bug::Presume => cx.deliver(Event::Received { ticket: *ticket }),
                _ => self.open.push(*ticket),
            }
        }
        true
    }

    fn tamper(&mut self, group: &mut Group, cx: &mut Context<'_, Group>) {
        for command in std::mem::take(&mut self.unseen) {
            group.handle_command(cx, command);
        }
        let events = std::mem::take(&mut cx.outbox.events);
        let has_view = events.iter().any(|event| matches!(event, Event::View(_)));
        for event in events {
            self.tell(cx, event);
        }
        if has_view && self.bug == Bug::GiveUp {
            for ticket in std::mem::take(&mut self.open) {
                self.given_up.insert(ticket);
                cx.deliver(Event::Undelivered { ticket, failure: SendFailure::Departed });
            }
        }
    }
}

/// Every node has the bug; where one node slips, the others pass everything on.
fn hunt(bug: Bug, expected: &[Rule]) {
    let make = move |_: NodeId, config: &Config, is_planted: bool| {
        Wrapped::new(Group::new(config), is_planted.then(|| Sabotage::new(bug)))
    };
    let expected = expected.iter().map(ToString::to_string).collect();
    Hunt { bug: format!("{bug:?}"), expected, make }.in_the_swarm();
}

#[test]
fn a_message_that_is_delivered_twice_is_caught() {
    hunt(Bug::DeliverTwice, &[Rule::DirectIntegrity]);
}

#[test]
fn a_message_that_is_silently_lost_is_caught() {
    hunt(Bug::Lose, &[Rule::DirectFifo, Rule::DirectOutcome]);
}

#[test]
fn a_message_that_overtakes_another_is_caught() {
    hunt(Bug::Overtake, &[Rule::DirectFifo, Rule::DirectOutcome]);
}

#[test]
fn a_message_to_one_member_that_was_changed_is_caught() {
    hunt(Bug::FlipPayload, &[Rule::DirectIntegrity]);
}

#[test]
fn a_message_to_another_incarnation_than_meant_is_caught() {
    hunt(Bug::AnyIncarnation, &[Rule::DirectIntegrity]);
}

#[test]
fn a_sender_that_is_not_told_of_a_failure_is_caught() {
    hunt(Bug::ForgetFailures, &[Rule::DirectOutcome]);
}

#[test]
fn a_message_that_counts_as_received_too_early_is_caught() {
    hunt(Bug::Presume, &[Rule::DirectOutcome]);
}

#[test]
fn a_message_that_is_given_up_between_two_that_stay_is_caught() {
    hunt(Bug::GiveUp, &[Rule::DirectOutcome]);
}

#[test]
fn an_outcome_that_is_told_twice_is_caught() {
    hunt(Bug::ReportTwice, &[Rule::DirectOutcome]);
}
