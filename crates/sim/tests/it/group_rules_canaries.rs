//! The bug planted for each rule about hops, credits, members and their state is caught.
//!
//! `Sabotage` sits around an honest node, as in `group_canaries.rs`: it changes what goes in and
//! what comes out, and the results of accessors.

use crate::group_swarm;

use std::any::Any;
use std::sync::Arc;

use group_swarm::hunt::Hunt;
use group_swarm::{Act, Scenario, at};
use paceline_check::checkers::group::{Layers, Rule};
use paceline_check::{Tamper, Wrapped};
use paceline_proto::chain;
use paceline_proto::core::{Context, Lane, NodeId, Outgoing, Protocol, Rng, View};
use paceline_proto::group::{Command, Config, Event, Group, Message};
use paceline_sim::Fault;

/// The node that has the bug, or is concerned by it, where not all are.
const NODE: NodeId = NodeId(2);

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// A frame is sent twice.
    ResendFrame,
    /// It is sent again under the next number of its hop.
    RenumberFrame,
    /// A frame does not lose a hop when it is passed on.
    KeepHops,
    /// A frame is passed on to the member it comes from.
    ReturnToOrigin,
    WrongLane,
    /// A block of a flush is sent twice to the member that requested it.
    FlushTwice,
    /// An origin says that its blocks are with every member when they are not.
    ForgeStable,
    /// A member gives credit for what it has received.
    ForgeCredit,
    /// A member takes what it has delivered for consumed.
    GrantUnconsumed,
    /// What the application consumed is not credited.
    WithholdCredit,
    /// From some message on those of a member wait for ever.
    SwallowBroadcasts,
    /// A member does not answer the detectors of others.
    DeafToProbes,
    /// Members hear one node's request to join and forget it.
    DeafToJoins,
    /// A member gets the next view in another order than the others.
    ReorderMembers,
    /// The detector goes on with the members of the view before.
    StaleWatch,
    /// The broadcast goes on in the view before.
    StaleBroadcast,
    /// A node that restarts is the one that it was.
    FixedIncarnation,
    /// A proposer names a member of the next view twice.
    ContactTwice,
    /// Something is kept of a member of the view before that is gone.
    KeepGone,
    /// The acknowledgements of a member are not kept.
    ForgetMember,
}

struct Sabotage {
    bug: Bug,
    // What was sent or broadcast so far, of what the bug is about.
    count: usize,
    view: Option<Arc<View>>,
    before: Option<Arc<View>>,
}

impl Sabotage {
    fn new(bug: Bug) -> Sabotage {
        Sabotage { bug, count: 0, view: None, before: None }
    }

    fn tamper_with_sends(&mut self, group: &Group, sends: &mut Vec<Outgoing<Message>>) {
        let bug = self.bug;
        for send in sends.iter_mut() {
            match (bug, &mut send.message) {
                (Bug::ForgeStable, Message::Chain(chain::Message::Data(frame))) => {
                    frame.stable_lag = 0;
                }
                (
                    Bug::ForgeCredit,
                    Message::Chain(chain::Message::Ack { received, consumed, .. }),
                ) => *consumed = *received,
                (Bug::ReorderMembers, Message::Install { members, .. })
                    if send.to == NODE && members.len() > 2 =>
                {
                    let last = members.len() - 1;
                    members.swap(last - 1, last);
                }
                _ => {}
            }
        }
        let me = group.chain().rank();
        let is_it = |send: &Outgoing<Message>| match &send.message {
            Message::Chain(chain::Message::Data(frame)) if bug == Bug::ReturnToOrigin => {
                Some(frame.origin as usize) != me
            }
            Message::Chain(chain::Message::Data(_)) => bug != Bug::FlushTwice,
            Message::Flushed(_) => bug == Bug::FlushTwice,
            _ => false,
        };
        let Some(place) = sends.iter().position(is_it) else { return };
        self.count += 1;
        if self.count == 5 || bug == Bug::FlushTwice {
            self.tamper_with_frame(group, sends, place);
        }
    }

    fn tamper_with_frame(&self, group: &Group, sends: &mut Vec<Outgoing<Message>>, place: usize) {
        let mut copy = sends[place].clone();
        match (self.bug, &mut copy.message) {
            (Bug::ResendFrame | Bug::FlushTwice, _) => sends.insert(place + 1, copy),
            (Bug::RenumberFrame, Message::Chain(chain::Message::Data(frame))) => {
                frame.link += 1;
                sends.insert(place + 1, copy);
            }
            (Bug::KeepHops, Message::Chain(chain::Message::Data(frame))) => {
                frame.hops_left += 1;
                sends[place] = copy;
            }
            (Bug::ReturnToOrigin, Message::Chain(chain::Message::Data(frame))) => {
                copy.to = group.view().node(frame.origin as usize);
                frame.link = 0;
                sends.push(copy);
            }
            (Bug::WrongLane, _) => sends[place].lane = Lane::Datagram,
            _ => {}
        }
    }
}

impl Tamper<Group> for Sabotage {
    fn admits(
        &mut self,
        _: &mut Group,
        _: &mut Context<'_, Group>,
        _: NodeId,
        message: &mut Message,
    ) -> usize {
        match (self.bug, message) {
            (Bug::DeafToProbes, Message::Detector(_)) => 0,
            (Bug::DeafToJoins, Message::Join(contact)) if contact.member.node == NODE => 0,
            (Bug::ContactTwice, Message::Install { members, .. }) => {
                members.extend(members.first().cloned());
                1
            }
            _ => 1,
        }
    }

    fn commands(
        &mut self,
        _: &mut Group,
        cx: &mut Context<'_, Group>,
        command: &mut Command,
    ) -> bool {
        match (self.bug, command) {
            (Bug::WithholdCredit, Command::Consumed { origin, .. }) => *origin == cx.node,
            (Bug::SwallowBroadcasts, Command::Broadcast { .. }) => {
                self.count += 1;
                self.count <= 5
            }
            _ => true,
        }
    }

    fn tamper(&mut self, group: &mut Group, cx: &mut Context<'_, Group>) {
        if self.bug == Bug::GrantUnconsumed {
            let consumed = cx.outbox.events.iter().filter_map(|event| match event {
                Event::Delivered { view, origin, end, .. } => {
                    Some(Command::Consumed { view: *view, origin: *origin, end: *end })
                }
                _ => None,
            });
            for command in consumed.collect::<Vec<_>>() {
                group.handle_command(cx, command);
            }
        }
        for event in &cx.outbox.events {
            if let Event::View(view) = event {
                self.before = self.view.replace(view.clone());
            }
        }
        self.tamper_with_sends(group, &mut cx.outbox.sends);
    }

    fn shows(&self, group: &Group, shown: &mut dyn Any) {
        let Some(layers) = shown.downcast_mut::<Layers>() else { return };
        let Some(before) = &self.before else { return };
        let me = group.member().node;
        let members = || before.members().iter().copied().filter(|member| member.node != me);
        match self.bug {
            Bug::StaleWatch => {
                layers.watched = members().collect();
                layers.watched.sort_by_key(|member| member.node);
            }
            Bug::StaleBroadcast => layers.broadcast = before.clone(),
            Bug::KeepGone => layers.kept.extend(members().map(|member| ("agreement", member.node))),
            Bug::ForgetMember => layers.counted = layers.counted.map(|counted| counted - 1),
            _ => {}
        }
    }
}

/// What to look for: a bug of one node, or of all.
fn hunt(
    bug: Bug,
    who: Who,
    rule: Rule,
) -> Hunt<impl Fn(NodeId, &Config, bool) -> Wrapped<Group> + Clone + Send + 'static> {
    let make = move |node: NodeId, config: &Config, is_planted: bool| {
        let has_it = is_planted && (who == Who::All || node == NODE);
        let node_of = Wrapped::new(Group::new(config), has_it.then(|| Sabotage::new(bug)));
        match has_it && bug == Bug::FixedIncarnation {
            true => node_of.with_incarnation(node.0 + 1),
            false => node_of,
        }
    };
    Hunt { bug: format!("{bug:?}"), expected: vec![rule.to_string()], make }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    All,
    One,
}

/// Four members that send thirty messages each, while nothing is wrong but the bug.
fn calm() -> Scenario {
    Scenario::new(7, 4).with_traffic(&mut Rng::new(7, 0xca11), 30)
}

/// The same, and one is cut off for a while.
fn parted() -> Scenario {
    let mut scenario = calm();
    let cut = Fault::Partition(vec![vec![NodeId(1)]]);
    scenario.acts.push((at(4000), Act::Fault(cut)));
    scenario.acts.push((at(7000), Act::Fault(Fault::Heal)));
    scenario
}

#[test]
fn a_frame_that_a_hop_carries_for_no_reason_is_caught() {
    hunt(Bug::ResendFrame, Who::One, Rule::Transmission).in_a_run(&calm());
    hunt(Bug::RenumberFrame, Who::One, Rule::Transmission).in_a_run(&calm());
    hunt(Bug::WrongLane, Who::One, Rule::Transmission).in_a_run(&calm());
    hunt(Bug::FlushTwice, Who::All, Rule::Transmission).in_the_swarm();
}

#[test]
fn a_frame_that_goes_too_far_is_caught() {
    hunt(Bug::KeepHops, Who::One, Rule::Transmission).in_a_run(&calm());
    hunt(Bug::ReturnToOrigin, Who::One, Rule::Transmission).in_a_run(&calm());
}

#[test]
fn blocks_that_are_freed_too_early_are_caught() {
    hunt(Bug::ForgeStable, Who::One, Rule::Bounds).in_a_run(&calm());
}

#[test]
fn credit_that_nobody_gave_is_caught() {
    hunt(Bug::ForgeCredit, Who::One, Rule::Flow).in_the_swarm();
    hunt(Bug::GrantUnconsumed, Who::One, Rule::Flow).in_a_run(&calm());
}

#[test]
fn credit_that_is_lost_is_caught() {
    hunt(Bug::WithholdCredit, Who::One, Rule::Flow).in_a_run(&calm());
}

#[test]
fn messages_that_are_never_sent_are_caught() {
    hunt(Bug::SwallowBroadcasts, Who::One, Rule::Validity).in_a_run(&calm());
}

#[test]
fn a_member_that_is_excluded_for_no_reason_is_caught() {
    hunt(Bug::DeafToProbes, Who::One, Rule::Exclusion).in_a_run(&calm());
}

#[test]
fn a_node_that_is_never_let_in_is_caught() {
    hunt(Bug::DeafToJoins, Who::All, Rule::Convergence).in_a_run(&calm());
}

#[test]
fn a_view_whose_members_are_in_another_order_elsewhere_is_caught() {
    hunt(Bug::ReorderMembers, Who::All, Rule::Primary).in_a_run(&calm());
}

#[test]
fn a_layer_that_is_left_in_an_older_view_is_caught() {
    hunt(Bug::StaleWatch, Who::One, Rule::Layers).in_a_run(&parted());
    hunt(Bug::StaleBroadcast, Who::One, Rule::Layers).in_a_run(&parted());
}

#[test]
fn a_node_that_restarts_as_the_one_that_it_was_is_caught() {
    hunt(Bug::FixedIncarnation, Who::One, Rule::Incarnation).in_the_swarm();
}

#[test]
fn a_map_that_is_not_the_views_is_caught() {
    hunt(Bug::ContactTwice, Who::One, Rule::Maps).in_a_run(&calm());
    hunt(Bug::KeepGone, Who::One, Rule::Maps).in_a_run(&parted());
    hunt(Bug::ForgetMember, Who::One, Rule::Maps).in_a_run(&parted());
}
