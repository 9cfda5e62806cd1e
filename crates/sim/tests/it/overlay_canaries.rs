//! The bug planted for each promise of an overlay is caught.
//!
//! `Sabotage` tampers with what goes into an honest node and what comes out. The bug is in every
//! node, as a bug of the program would be.

use crate::overlay_swarm;

use std::collections::BTreeMap;
use std::fmt::Display;

use overlay_swarm::{Scenario, at};
use paceline_check::checkers::overlay::Rule;
use paceline_check::checkers::zave;
use paceline_check::{Tamper, Wrapped};
use paceline_proto::core::{Context, Lane, NodeId, Payload, Protocol};
use paceline_proto::overlay::{
    Algorithm, Answer, Body, Command, CopyAnswer, Event, Key, Message, Overlay, Purpose, Route,
    Timer,
};

/// The number of seeds within which a run of the swarm must find a bug.
const SEEDS_MAX: u64 = 300;

/// The node that the others ignore.
const IGNORED: NodeId = NodeId(5);

/// What a node does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// The last target of a bundle is not forwarded.
    LoseTarget,
    /// The first target of a bundle goes to two nodes.
    DoubleTarget,
    /// A bundle goes to some node that is not nearer.
    GoAnywhere,
    /// An outcome is not reported to the application.
    SwallowOutcome,
    TellTwice,
    /// A replica says that it holds what it does not keep.
    HoldNothing,
    /// A replica is made to drop values that it must hold.
    DropAll,
    /// Replicas say that they hold the same, whatever they hold.
    NeverCompare,
    /// A value is changed on its way.
    FlipValue,
    /// A value is read as it was first.
    ReadOld,
    /// A node takes itself for responsible for what passes through it.
    AnswerForOthers,
    DeliverTwice,
    /// A node ignores what others say of a table.
    DeafTable,
    /// Nodes leave out one node when they report their neighbours.
    SkipNode,
    /// A node takes itself for responsible for what others look up for their tables.
    SkewTable,
    /// Nodes accept that failed nodes are lost permanently, with all that they held.
    AcceptLosses,
}

struct Sabotage {
    bug: Bug,
    first: BTreeMap<Key, Payload>,
}

type Cx<'a> = Context<'a, Overlay>;

impl Sabotage {
    fn send(&mut self, cx: &mut Cx<'_>, mut to: NodeId, lane: Lane, mut message: Message) {
        match (&mut message.body, self.bug) {
            (Body::Route(route), Bug::LoseTarget) if is_relayed(cx, route) => {
                let count = route.targets.len();
                if count > 1 {
                    route.targets = route.targets[..count - 1].into();
                }
            }
            (Body::Route(route), Bug::DoubleTarget) if is_relayed(cx, route) => {
                let again = Route { targets: route.targets[..1].into(), ..route.clone() };
                cx.send(to, lane, Body::Route(again).into());
            }
            (Body::Route(route), Bug::GoAnywhere) if is_relayed(cx, route) => {
                to = NodeId((to.0 + 1) % 5);
            }
            (Body::SummaryReply { lacking, newer, surplus, .. }, Bug::DropAll) => {
                lacking.clear();
                newer.clear();
                *surplus = (0..4).collect();
            }
            (Body::SummaryReply { lacking, newer, surplus, .. }, Bug::NeverCompare) => {
                lacking.clear();
                newer.clear();
                surplus.clear();
            }
            (Body::Result { answers, .. }, Bug::FlipValue | Bug::ReadOld) => {
                answers.iter_mut().for_each(|(key, answer)| self.spoil(*key, answer));
            }
            (Body::Answer { nodes, .. }, Bug::SkipNode) => nodes.retain(|&node| node != IGNORED),
            _ => {}
        }
        cx.send(to, lane, message);
    }

    fn spoil(&mut self, key: Key, answer: &mut Answer) {
        let Answer::Found { value, .. } = answer else {
            return;
        };
        if self.bug == Bug::FlipValue {
            let mut bytes = value.to_bytes().to_vec();
            bytes[3] ^= 1;
            *value = Payload::from(bytes);
        } else {
            *value = self.first.entry(key).or_insert(value.clone()).clone();
        }
    }

    fn tell(&mut self, cx: &mut Cx<'_>, event: Event) {
        match (&event, self.bug) {
            (Event::Outcome { id, .. }, Bug::SwallowOutcome) if id % 50 == 7 => return,
            (Event::Outcome { id, .. }, Bug::TellTwice) if id % 50 == 7 => {
                cx.deliver(event.clone());
            }
            (Event::Delivered { .. }, Bug::DeliverTwice) => cx.deliver(event.clone()),
            _ => {}
        }
        cx.deliver(event);
    }

    /// What a node says to a message instead of looking at it.
    fn answer(
        &self,
        overlay: &Overlay,
        cx: &Cx<'_>,
        message: &Message,
    ) -> Option<Vec<(NodeId, Body)>> {
        match (&message.body, self.bug) {
            (Body::Copy { exchange, records }, Bug::HoldNothing) => {
                let answers = vec![CopyAnswer::Held; records.len()];
                Some(vec![(cx.node, Body::CopyReply { exchange: *exchange, answers })])
            }
            (Body::Route(route), Bug::AnswerForOthers | Bug::SkewTable)
                if overlay.is_member() && self.is_answered_for(cx, &route.purpose) =>
            {
                let answers =
                    route.targets.iter().map(|target| (target.key, Answer::Here)).collect();
                let result = Body::Result { tag: route.tag, answers, range: None };
                let ack = Body::Ack { exchange: route.exchange };
                Some(vec![(cx.node, ack), (route.initiator, result)])
            }
            _ => None,
        }
    }
}

impl Sabotage {
    /// Whether it takes itself for responsible, whatever the key.
    fn is_answered_for(&self, cx: &Cx<'_>, purpose: &Purpose) -> bool {
        match self.bug {
            Bug::AnswerForOthers => *purpose == Purpose::Locate,
            _ => *purpose == Purpose::Upkeep && cx.now > at(20_000),
        }
    }
}

fn is_relayed(cx: &Cx<'_>, route: &Route) -> bool {
    route.initiator != cx.node
}

impl Tamper<Overlay> for Sabotage {
    fn admits(
        &mut self,
        overlay: &mut Overlay,
        cx: &mut Cx<'_>,
        from: NodeId,
        message: &mut Message,
    ) -> usize {
        if let Some(answers) = self.answer(overlay, cx, message) {
            for (to, body) in answers {
                let to = if to == cx.node { from } else { to };
                cx.send(to, Lane::Datagram, body.into());
            }
            return 0;
        }
        let is_late = cx.now > at(1500);
        let is_deaf = self.bug == Bug::DeafTable && is_late;
        usize::from(!is_deaf || !matches!(message.body, Body::Answer { .. } | Body::Notify))
    }

    fn fires(&mut self, overlay: &mut Overlay, cx: &mut Cx<'_>, _: Timer) -> bool {
        if self.bug == Bug::AcceptLosses {
            overlay.handle_command(cx, Command::AcceptLosses);
        }
        true
    }

    fn tamper(&mut self, _: &mut Overlay, cx: &mut Cx<'_>) {
        for send in std::mem::take(&mut cx.outbox.sends) {
            self.send(cx, send.to, send.lane, send.message);
        }
        for event in std::mem::take(&mut cx.outbox.events) {
            self.tell(cx, event);
        }
    }
}

/// What each seed finds broken by a bug, of those that find something.
fn found(bug: Bug, algorithm: Algorithm) -> impl Iterator<Item = (u64, String)> {
    (0..SEEDS_MAX).filter(move |&seed| Scenario::draw(seed).algorithm == algorithm).filter_map(
        move |seed| {
            let scenario = Scenario::draw(seed);
            let config = scenario.config.clone();
            let make = move |node| {
                let sabotage = Sabotage { bug, first: BTreeMap::new() };
                Wrapped::new(Overlay::new(&config, node), Some(sabotage))
            };
            let what = scenario.run(make).err()?;
            Some((seed, what.lines().next().unwrap_or_default().into()))
        },
    )
}

fn is_caught(bug: Bug, rule: Rule) {
    is_caught_by(bug, &[&rule]);
}

/// The first run of each algorithm that finds the bug finds that it breaks one of these rules.
fn is_caught_by(bug: Bug, rules: &[&dyn Display]) {
    let rules: Vec<String> = rules.iter().map(|rule| format!("{rule} broken")).collect();
    let first = Algorithm::ALL.map(|algorithm| found(bug, algorithm).next());
    let is_one = |what: &str| rules.iter().any(|rule| what.starts_with(rule));
    let is_caught =
        |found: &Option<(u64, String)>| found.as_ref().is_some_and(|(_, it)| is_one(it));
    assert!(first.iter().all(is_caught), "{bug:?}, which breaks {rules:?}: {first:#?}");
}

#[test]
fn bundles_that_lose_or_double_targets_are_caught() {
    is_caught(Bug::LoseTarget, Rule::Partition);
    is_caught(Bug::DoubleTarget, Rule::Partition);
    is_caught(Bug::GoAnywhere, Rule::Progress);
}

#[test]
fn outcomes_that_are_not_told_or_told_twice_are_caught() {
    is_caught(Bug::SwallowOutcome, Rule::Outcome);
    is_caught(Bug::TellTwice, Rule::Outcome);
    is_caught(Bug::DeliverTwice, Rule::Delivery);
}

#[test]
fn records_that_are_not_kept_are_caught() {
    // Whether a copy is missed where it belongs or as the last one depends on the seed.
    is_caught_by(Bug::HoldNothing, &[&Rule::Placement, &Rule::Durability]);
    is_caught_by(Bug::DropAll, &[&Rule::Placement, &Rule::Durability]);
    // A copy that was never made may be missed only by those that are cut off.
    is_caught_by(Bug::NeverCompare, &[&Rule::Placement, &Rule::Absence]);
}

#[test]
fn values_that_are_not_what_was_written_are_caught() {
    is_caught(Bug::FlipValue, Rule::Value);
    is_caught(Bug::ReadOld, Rule::Freshness);
}

#[test]
fn stored_keys_that_are_called_absent_by_those_cut_off_are_caught() {
    is_caught(Bug::AcceptLosses, Rule::Absence);
}

#[test]
fn tables_that_are_not_right_are_caught() {
    is_caught(Bug::AnswerForOthers, Rule::Lookup);
    // A ring may lose a member before its tables are compared.
    is_caught_by(Bug::DeafTable, &[&Rule::Table, &zave::Rule::LossOfPrincipal]);
}

#[test]
fn a_ring_that_skips_a_member_is_caught() {
    let rule = format!("{} broken", zave::Rule::LossOfPrincipal);
    let mut found = found(Bug::SkipNode, Algorithm::Chord);
    assert!(found.any(|(_, what)| what.starts_with(&rule)));
}

#[test]
fn fingers_that_are_not_the_first_nodes_of_their_distance_are_caught() {
    let rule = format!("{} broken", Rule::Table);
    let mut found = found(Bug::SkewTable, Algorithm::Chord);
    assert!(found.any(|(_, what)| what.starts_with(&rule) && what.contains("fingers")));
}
