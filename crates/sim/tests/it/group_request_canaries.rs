//! The bug planted for each promise about requests is caught.

use crate::group_swarm;

use group_swarm::Scenario;
use group_swarm::hunt::Hunt;
use paceline_check::checkers::group::Rule;
use paceline_check::{Tamper, Wrapped};
use paceline_proto::core::{Context, NodeId};
use paceline_proto::group::{Command, Config, Event, Group, RequestFailure};

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The third request is handed over twice.
    HandleTwice,
    /// A request is changed.
    FlipRequest,
    /// A request goes to any incarnation of the callee's node, and names it.
    AnyIncarnation,
    /// A reply is changed.
    FlipReply,
    /// The reply to one request ends another of the same member.
    SwapReplies,
    /// A request ends twice.
    EndTwice,
    /// A caller takes a member that is silent for one that has refused.
    PresumeRefusal,
    /// A member counts as departed when a request to it times out.
    PresumeDeparture,
    /// The caller is not told that the callee is gone.
    ForgetDeparture,
    /// The caller is not told that the time is up.
    ForgetTimeout,
    /// Requests time out too early.
    Hurry,
    /// What timed out is never settled.
    ForgetSettled,
    /// The callee holds more requests than allowed: it answers, and does not say so.
    Unbounded,
}

struct Sabotage {
    bug: Bug,
    requests: u32,
    // A reply that waits for the next one.
    kept: Option<Event>,
}

fn failed(ticket: u64, failure: RequestFailure) -> Event {
    Event::RequestFailed { ticket, failure }
}

fn flipped(payload: &paceline_proto::core::Payload) -> paceline_proto::core::Payload {
    let mut bytes = payload.to_bytes().to_vec();
    bytes[7] ^= 1;
    bytes.into()
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        Sabotage { bug, requests: 0, kept: None }
    }

    /// Passes an event on, or not.
    fn tell(&mut self, cx: &mut Context<'_, Group>, event: Event) {
        match (self.bug, event) {
            (bug, Event::Request { view, from, id, end, payload }) => {
                self.requests += 1;
                let is_third = self.requests == 3;
                let flips = bug == Bug::FlipRequest && is_third;
                let payload = if flips { flipped(&payload) } else { payload };
                let event = Event::Request { view, from, id, end, payload };
                if bug == Bug::HandleTwice && is_third {
                    cx.deliver(event.clone());
                }
                cx.deliver(event);
            }
            (bug, Event::Replied { ticket, from, end, payload }) => {
                let flips = bug == Bug::FlipReply;
                let payload = if flips { flipped(&payload) } else { payload };
                let event = Event::Replied { ticket, from, end, payload: payload.clone() };
                match (bug, self.kept.take()) {
                    (Bug::EndTwice, _) => {
                        cx.deliver(event.clone());
                        cx.deliver(event);
                    }
                    (Bug::SwapReplies, None) => self.kept = Some(event),
                    (
                        Bug::SwapReplies,
                        Some(Event::Replied { ticket: of, from: one, end: ended, payload: reply }),
                    ) => {
                        let (first, second) = (payload, reply);
                        cx.deliver(Event::Replied {
                            ticket: of,
                            from: one,
                            end: ended,
                            payload: first,
                        });
                        cx.deliver(Event::Replied { ticket, from, end, payload: second });
                    }
                    _ => cx.deliver(event),
                }
            }
            (bug, Event::RequestFailed { ticket, failure: RequestFailure::TimedOut }) => {
                cx.deliver(match bug {
                    Bug::ForgetTimeout => return,
                    Bug::PresumeRefusal => failed(ticket, RequestFailure::Refused),
                    Bug::PresumeDeparture => failed(ticket, RequestFailure::Departed),
                    _ => failed(ticket, RequestFailure::TimedOut),
                });
            }
            (
                Bug::ForgetDeparture,
                Event::RequestFailed { failure: RequestFailure::Departed, .. },
            )
            | (Bug::ForgetSettled, Event::RequestSettled { .. }) => {}
            (_, event) => cx.deliver(event),
        }
    }
}

impl Tamper<Group> for Sabotage {
    fn commands(
        &mut self,
        group: &mut Group,
        _: &mut Context<'_, Group>,
        command: &mut Command,
    ) -> bool {
        if let Command::Request { to, within, .. } = command {
            match self.bug {
                Bug::AnyIncarnation => {
                    let view = group.view();
                    *to = view.rank(to.node).map_or(*to, |rank| view.members()[rank]);
                }
                Bug::Hurry => *within /= 2,
                _ => {}
            }
        }
        true
    }

    fn tamper(&mut self, _: &mut Group, cx: &mut Context<'_, Group>) {
        for event in std::mem::take(&mut cx.outbox.events) {
            self.tell(cx, event);
        }
    }
}

/// Every node has the bug.
fn hunt(bug: Bug, expected: &[Rule]) {
    let make = move |_: NodeId, config: &Config, is_planted: bool| {
        // The checker knows the bounds of the run.
        let bounds = config.clone().with_requests_max(1000).with_requests_bytes_max(1 << 30);
        let is_unbounded = bug == Bug::Unbounded && is_planted;
        let shared = bounds.build().expect("within the ranges");
        let wrapped = Wrapped::new(Group::new(config), is_planted.then(|| Sabotage::new(bug)));
        if is_unbounded { wrapped.with_shared(shared) } else { wrapped }
    };
    let expected = expected.iter().map(ToString::to_string).collect();
    Hunt { bug: format!("{bug:?}"), expected, make }.in_the_swarm_of(Scenario::draw_with_requests);
}

#[test]
fn a_request_that_is_handled_twice_is_caught() {
    hunt(Bug::HandleTwice, &[Rule::RequestIntegrity]);
}

#[test]
fn a_request_that_was_changed_is_caught() {
    hunt(Bug::FlipRequest, &[Rule::RequestIntegrity]);
}

#[test]
fn a_request_to_another_incarnation_than_meant_is_caught() {
    hunt(Bug::AnyIncarnation, &[Rule::RequestIntegrity, Rule::RequestOutcome]);
}

#[test]
fn a_reply_that_was_changed_is_caught() {
    hunt(Bug::FlipReply, &[Rule::RequestOutcome]);
}

#[test]
fn a_reply_to_another_request_is_caught() {
    hunt(Bug::SwapReplies, &[Rule::RequestOutcome]);
}

#[test]
fn a_request_that_ends_twice_is_caught() {
    hunt(Bug::EndTwice, &[Rule::RequestOutcome]);
}

#[test]
fn a_silent_member_that_counts_as_one_that_refuses_is_caught() {
    hunt(Bug::PresumeRefusal, &[Rule::RequestOutcome]);
}

#[test]
fn a_silent_member_that_counts_as_departed_is_caught() {
    hunt(Bug::PresumeDeparture, &[Rule::RequestOutcome]);
}

#[test]
fn a_caller_that_is_not_told_of_a_departure_is_caught() {
    hunt(Bug::ForgetDeparture, &[Rule::RequestOutcome]);
}

#[test]
fn a_caller_that_waits_for_ever_is_caught() {
    hunt(Bug::ForgetTimeout, &[Rule::RequestTime, Rule::RequestOutcome]);
}

#[test]
fn a_request_that_times_out_too_early_is_caught() {
    hunt(Bug::Hurry, &[Rule::RequestTime]);
}

#[test]
fn a_request_that_is_never_settled_is_caught() {
    hunt(Bug::ForgetSettled, &[Rule::RequestOutcome]);
}

#[test]
fn a_callee_that_holds_more_requests_than_allowed_is_caught() {
    hunt(Bug::Unbounded, &[Rule::Bounds]);
}
