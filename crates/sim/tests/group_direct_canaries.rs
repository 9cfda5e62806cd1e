//! Each promise about messages to one member is caught broken by the bug planted for it.

mod group_swarm;

use std::collections::BTreeSet;

use group_swarm::Scenario;
use paceline_proto::core::{Context, Member, NodeId, Outbox, PeerState, Protocol};
use paceline_proto::group::{Command, Config, Event, Group, Message, SendFailure, Timer};
use paceline_sim::checkers::group::{Host, Rule};

/// A run of the swarm must find a bug within so many seeds.
const SEEDS_MAX: u64 = 1000;

/// The one node that slips, where it is one.
const ONE: NodeId = NodeId(1);

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// One node is told a message twice.
    DeliverTwice,
    /// One node is never told a message that it has acknowledged.
    Lose,
    /// One node is told a message after the one that follows it.
    Overtake,
    /// A message is changed.
    FlipPayload,
    /// Messages go to whoever has the addressee's node by now.
    AnyIncarnation,
    /// The sender is not told that the addressee is gone.
    ForgetFailures,
    /// A message counts as received once it is sent.
    Presume,
    /// What a flush interrupted is given up, though both stay.
    GiveUp,
    /// Reports that a message was received are doubled.
    ReportTwice,
}

struct Sabotaged {
    group: Group,
    bug: Option<Bug>,
    deliveries: u32,
    kept: Option<Event>,
    // Sent, and nothing heard of it.
    open: Vec<u64>,
    given_up: BTreeSet<u64>,
    // What was hidden from the application is consumed all the same.
    unseen: Vec<Command>,
    outbox: Outbox<Group>,
}

impl Host for Sabotaged {
    fn group(&self) -> &Group {
        &self.group
    }
}

impl Sabotaged {
    fn new(config: &Config, bug: Option<Bug>) -> Sabotaged {
        Sabotaged {
            group: Group::new(config),
            bug,
            deliveries: 0,
            kept: None,
            open: Vec::new(),
            given_up: BTreeSet::new(),
            unseen: Vec::new(),
            outbox: Outbox::default(),
        }
    }

    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut Group, &mut Context<'_, Group>),
    ) {
        let mut inner = Context {
            now: cx.now,
            node: cx.node,
            incarnation: cx.incarnation,
            shared: cx.shared,
            rng: &mut *cx.rng,
            outbox: &mut self.outbox,
            backlog: cx.backlog,
            datagram_bytes_max: cx.datagram_bytes_max,
        };
        handler(&mut self.group, &mut inner);
        for command in std::mem::take(&mut self.unseen) {
            self.group.handle_command(&mut inner, command);
        }
        let events = std::mem::take(&mut self.outbox.events);
        let has_view = events.iter().any(|event| matches!(event, Event::View(_)));
        for event in events {
            self.tell(cx, event);
        }
        if has_view && self.bug == Some(Bug::GiveUp) {
            for ticket in std::mem::take(&mut self.open) {
                self.given_up.insert(ticket);
                cx.deliver(Event::Undelivered { ticket, failure: SendFailure::Departed });
            }
        }
        cx.outbox.sends.append(&mut self.outbox.sends);
        cx.outbox.timers.append(&mut self.outbox.timers);
        cx.outbox.drains.append(&mut self.outbox.drains);
        cx.outbox.disconnects.append(&mut self.outbox.disconnects);
        cx.outbox.counters.merge(&std::mem::take(&mut self.outbox.counters));
        self.outbox.contacts.clear();
    }

    /// Passes an event on, or not.
    fn tell(&mut self, cx: &mut Context<'_, Self>, event: Event) {
        let is_mine = cx.node == ONE;
        match (self.bug, event) {
            (Some(bug), Event::Direct { view, from, end, payload }) if is_mine => {
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
            (
                Some(Bug::ForgetFailures),
                Event::Undelivered { failure: SendFailure::Departed, .. },
            ) => {}
            (Some(Bug::ReportTwice), Event::Received { ticket }) => {
                cx.deliver(Event::Received { ticket });
                cx.deliver(Event::Received { ticket });
            }
            (Some(Bug::Presume), Event::Received { .. }) => {}
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

    /// Who has the node of this member by now.
    fn namesake(&self, to: Member) -> Member {
        let view = self.group.view();
        view.rank(to.node).map_or(to, |rank| view.members()[rank])
    }
}

impl Protocol for Sabotaged {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Context<'_, Self>) {
        self.call(cx, |group, cx| group.handle_start(cx));
    }

    fn handle_peer(&mut self, cx: &mut Context<'_, Self>, peer: NodeId, state: PeerState) {
        self.call(cx, |group, cx| group.handle_peer(cx, peer, state));
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        self.call(cx, |group, cx| group.handle_message(cx, from, message));
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        self.call(cx, |group, cx| group.handle_timer(cx, timer));
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, mut command: Command) {
        if let Command::SendTo { to, ticket, .. } = &mut command {
            match self.bug {
                Some(Bug::AnyIncarnation) => *to = self.namesake(*to),
                Some(Bug::Presume) => cx.deliver(Event::Received { ticket: *ticket }),
                _ => self.open.push(*ticket),
            }
        }
        self.call(cx, |group, cx| group.handle_command(cx, command));
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        self.call(cx, |group, cx| group.handle_drained(cx, to));
    }

    fn admission(&self) -> usize {
        self.group.admission()
    }
}

/// Runs the seeds of the swarm until one finds the bug. Without it none of them finds anything.
fn hunt(bug: Bug, expected: &[Rule]) {
    for seed in 0..SEEDS_MAX {
        let scenario = Scenario::draw(seed);
        let run = |bug: Option<Bug>| {
            let config = scenario.config.clone();
            scenario.run(move |_| Sabotaged::new(&config, bug)).map(|_| ())
        };
        assert_eq!(run(None), Ok(()), "seed {seed} is found guilty without the bug");
        if let Err(found) = run(Some(bug)) {
            let first = found.lines().next().unwrap_or_default();
            println!("{bug:?}: seed {seed}: {first}");
            let is_expected = expected.iter().any(|rule| first.starts_with(&rule.to_string()));
            assert!(is_expected, "{bug:?}, expected {expected:?}: {found}");
            return;
        }
    }
    panic!("{bug:?} went unnoticed in {SEEDS_MAX} seeds");
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
