//! Each rule about hops, credits, members and what is kept of them is caught broken by the bug
//! planted for it.
//!
//! `Tampered` wraps an honest node, as in `group_canaries.rs`: it changes what goes in and what
//! comes out, and, for what only an accessor shows, what that says.

use crate::group_swarm;

use std::sync::Arc;

use group_swarm::hunt::Hunt;
use group_swarm::{Act, Scenario, at};
use paceline_check::checkers::group::{Host, Layers, Rule};
use paceline_proto::chain;
use paceline_proto::core::{
    Context, Lane, NodeId, Outbox, Outgoing, PeerState, Protocol, Rng, View,
};
use paceline_proto::group::{Command, Config, Event, Group, Message, Timer};
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
    /// A block of a flush is sent twice to whoever asked for it.
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
    /// A member is told the next view in another order than the others.
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

struct Tampered {
    group: Group,
    bug: Option<Bug>,
    // What was sent or broadcast so far, of what the bug is about.
    count: usize,
    view: Option<Arc<View>>,
    before: Option<Arc<View>>,
    outbox: Outbox<Group>,
}

impl Host for Tampered {
    fn group(&self) -> &Group {
        &self.group
    }

    fn layers(&self) -> Layers {
        let mut layers = Layers::of(&self.group);
        let Some(before) = &self.before else { return layers };
        let me = self.group.member().node;
        let members = || before.members().iter().copied().filter(|member| member.node != me);
        match self.bug {
            Some(Bug::StaleWatch) => {
                layers.watched = members().collect();
                layers.watched.sort_by_key(|member| member.node);
            }
            Some(Bug::StaleBroadcast) => layers.broadcast = before.clone(),
            Some(Bug::KeepGone) => {
                layers.kept.extend(members().map(|member| ("agreement", member.node)));
            }
            Some(Bug::ForgetMember) => layers.counted = layers.counted.map(|counted| counted - 1),
            _ => {}
        }
        layers
    }
}

impl Tampered {
    fn new(config: &Config, bug: Option<Bug>) -> Tampered {
        let (view, before) = (None, None);
        Tampered {
            group: Group::new(config),
            bug,
            count: 0,
            view,
            before,
            outbox: Outbox::default(),
        }
    }

    /// Calls the honest node, then tampers with what it wants done.
    fn call(
        &mut self,
        cx: &mut Context<'_, Self>,
        handler: impl FnOnce(&mut Group, &mut Context<'_, Group>),
    ) {
        let is_fixed = self.bug == Some(Bug::FixedIncarnation);
        let mut inner = Context {
            now: cx.now,
            node: cx.node,
            incarnation: if is_fixed { u64::from(cx.node.0) + 1 } else { cx.incarnation },
            shared: cx.shared,
            rng: &mut *cx.rng,
            outbox: &mut self.outbox,
            backlog: cx.backlog,
            datagram_bytes_max: cx.datagram_bytes_max,
        };
        handler(&mut self.group, &mut inner);
        if self.bug == Some(Bug::GrantUnconsumed) {
            let consumed = inner.outbox.events.iter().filter_map(|event| match event {
                Event::Delivered { view, origin, end, .. } => {
                    Some(Command::Consumed { view: *view, origin: *origin, end: *end })
                }
                _ => None,
            });
            for command in consumed.collect::<Vec<_>>() {
                self.group.handle_command(&mut inner, command);
            }
        }
        for event in &self.outbox.events {
            if let Event::View(view) = event {
                self.before = self.view.replace(view.clone());
            }
        }
        let mut sends = std::mem::take(&mut self.outbox.sends);
        if let Some(bug) = self.bug {
            self.tamper_with_sends(bug, &mut sends);
        }
        cx.outbox.sends.append(&mut sends);
        cx.outbox.events.append(&mut self.outbox.events);
        cx.outbox.timers.append(&mut self.outbox.timers);
        cx.outbox.drains.append(&mut self.outbox.drains);
        cx.outbox.disconnects.append(&mut self.outbox.disconnects);
        cx.outbox.counters.merge(&std::mem::take(&mut self.outbox.counters));
        self.outbox.contacts.clear();
    }

    fn tamper_with_sends(&mut self, bug: Bug, sends: &mut Vec<Outgoing<Message>>) {
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
        let me = self.group.chain().rank();
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
            self.tamper_with_frame(bug, sends, place);
        }
    }

    fn tamper_with_frame(&self, bug: Bug, sends: &mut Vec<Outgoing<Message>>, place: usize) {
        let mut copy = sends[place].clone();
        match (bug, &mut copy.message) {
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
                copy.to = self.group.view().node(frame.origin as usize);
                frame.link = 0;
                sends.push(copy);
            }
            (Bug::WrongLane, _) => sends[place].lane = Lane::Datagram,
            _ => {}
        }
    }
}

impl Protocol for Tampered {
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
        let message = match (self.bug, message) {
            (Some(Bug::DeafToProbes), Message::Detector(_)) => return,
            (Some(Bug::DeafToJoins), Message::Join(contact)) if contact.member.node == NODE => {
                return;
            }
            (Some(Bug::ContactTwice), Message::Install { after, made_at, mut members }) => {
                members.extend(members.first().cloned());
                Message::Install { after, made_at, members }
            }
            (_, message) => message,
        };
        self.call(cx, |group, cx| group.handle_message(cx, from, message));
    }

    fn handle_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        self.call(cx, |group, cx| group.handle_timer(cx, timer));
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        let is_ignored = match (self.bug, &command) {
            (Some(Bug::WithholdCredit), Command::Consumed { origin, .. }) => *origin != cx.node,
            (Some(Bug::SwallowBroadcasts), Command::Broadcast { .. }) => {
                self.count += 1;
                self.count > 5
            }
            _ => false,
        };
        if !is_ignored {
            self.call(cx, |group, cx| group.handle_command(cx, command));
        }
    }

    fn handle_drained(&mut self, cx: &mut Context<'_, Self>, to: NodeId) {
        self.call(cx, |group, cx| group.handle_drained(cx, to));
    }

    fn admission(&self) -> usize {
        self.group.admission()
    }
}

/// What to look for: a bug of one node, or of all.
fn hunt(
    bug: Bug,
    who: Who,
    rule: Rule,
) -> Hunt<impl Fn(NodeId, &Config, bool) -> Tampered + Clone + Send + 'static> {
    let make = move |node, config: &Config, is_planted: bool| {
        let has_it = is_planted && (who == Who::All || node == NODE);
        Tampered::new(config, has_it.then_some(bug))
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
