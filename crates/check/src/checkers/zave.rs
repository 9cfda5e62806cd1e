//! Zave's invariant of Chord, after every event.
//!
//! *Reasoning about Identifier Spaces: How to Make Chord Correct*, IEEE Transactions on Software
//! Engineering 43(12), 2017. A member's extended list is the member and its successors. A member
//! is *principal* if no extended list skips it: it lies between no two neighbours in any.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use paceline_proto::core::{Instant, NodeId};
use paceline_proto::overlay::{Config, Key, Space};

use super::overlay::Host;
use super::report::{Report, Violation, rules};
use super::tables::successors;
use paceline_sim::{Fault, Observer, Reply};

rules! {
    /// What the ring of Chord promises.
    pub enum Rule {
        /// Every member has a successor that lives.
        OneLiveSuccessor => "Zave's OneLiveSuccessor",
        /// There are more principals than successors in a list, once there were.
        SufficientPrincipals => "Zave's SufficientPrincipals",
        /// Lists go up, no node stands in one twice, and none in its own.
        OrderedSuccessorLists => "Zave's OrderedSuccessorLists",
        /// A principal stays one as long as it lives. Members may still adopt lists that others
        /// sent before it became one.
        LossOfPrincipal => "Zave's LossOfPrincipal",
    }
}

/// Length of a successor list.
const SUCCESSORS: usize = 8;

/// The longest time to detect a failure.
const FOUND_OUT: Duration = Duration::from_secs(4);

/// The longest time that a successor list is in transit to a member. The proof reads it at once.
const UNDER_WAY: Duration = Duration::from_secs(1);

/// Watches a ring.
pub struct RingChecker {
    space: Space,
    // Off where faults go beyond what the invariant is proved for.
    is_armed: bool,
    members: BTreeMap<NodeId, Vec<NodeId>>,
    // Since when they are.
    principals: BTreeMap<NodeId, Instant>,
    // Nodes that failed and restarted, perhaps before another node detected the failure.
    restarted: BTreeMap<NodeId, Instant>,
    is_sufficient: bool,
    checks: u64,
    report: Report<Rule>,
}

impl RingChecker {
    /// A ring without members. It is armed if failures are found out rightly: no message is lost.
    pub fn new(config: &Config, is_armed: bool) -> RingChecker {
        RingChecker {
            space: config.space(),
            is_armed,
            members: BTreeMap::new(),
            principals: BTreeMap::new(),
            restarted: BTreeMap::new(),
            is_sufficient: false,
            checks: 0,
            report: Report::default(),
        }
    }

    /// The first broken promise.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// How often the ring was looked at.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    fn key(&self, node: NodeId) -> Key {
        self.space.key(node)
    }

    fn find_principals(&self) -> BTreeSet<NodeId> {
        let mut principals: BTreeSet<NodeId> = self.members.keys().copied().collect();
        for (&node, list) in &self.members {
            let mut before = self.key(node);
            for &next in list {
                let at = self.key(next);
                principals.retain(|&it| !self.key(it).is_between(before, at));
                before = at;
            }
        }
        principals
    }

    fn check(&mut self, at: Instant, node: NodeId) {
        if !self.is_armed || self.report.is_broken() {
            return;
        }
        self.checks += 1;
        let mut found = Report::default();
        let mut broken = |rule, node, what| found.note(at, node, (rule, what));
        let own = self.space.key(node);
        if let Some(list) = self.members.get(&node) {
            let distances: Vec<Key> =
                list.iter().map(|&node| own.clockwise_to(self.space.key(node))).collect();
            let rises = distances.windows(2).all(|pair| pair[0] < pair[1]);
            if !rises || list.contains(&node) {
                broken(Rule::OrderedSuccessorLists, node, format!("{list:?}"));
            }
        }
        let is_alive = |node: &NodeId| self.members.contains_key(node);
        if self.members.len() > 1
            && let Some((&lonely, list)) =
                self.members.iter().find(|(_, list)| !list.iter().any(is_alive))
        {
            // The founder does not know the second member until that one has contacted it.
            if self.is_sufficient || !list.is_empty() {
                broken(Rule::OneLiveSuccessor, lonely, format!("{list:?}"));
            }
        }
        let principals = self.find_principals();
        // In the proof every member detects a failure before the same identifier joins again.
        self.restarted.retain(|_, since| *since + FOUND_OUT > at);
        self.principals.retain(|node, _| !self.restarted.contains_key(node));
        // Zave's proof begins with principals enough.
        let is_lost = |&(node, &since): &(&NodeId, &Instant)| {
            !principals.contains(node) && since + UNDER_WAY <= at
        };
        let lost = self.principals.iter().find(is_lost).filter(|_| self.is_sufficient);
        if let Some((lost, _)) = lost {
            broken(Rule::LossOfPrincipal, node, format!("{lost} is skipped"));
        }
        if self.is_sufficient && principals.len() <= SUCCESSORS {
            let what = format!("{} principals", principals.len());
            broken(Rule::SufficientPrincipals, node, what);
        }
        let since = |node| (node, self.principals.get(&node).copied().unwrap_or(at));
        self.principals = principals.into_iter().map(since).collect();
        let is_lasting = |since: &&Instant| **since + UNDER_WAY <= at;
        self.is_sufficient |= self.principals.values().filter(is_lasting).count() > SUCCESSORS;
        self.report = found;
    }

    fn remove(&mut self, node: NodeId) {
        if self.members.remove(&node).is_none() {
            return;
        }
        self.principals.remove(&node);
        // The invariant is proved for failures that leave principals enough, and everybody with a
        // live successor.
        let is_alive = |node: &NodeId| self.members.contains_key(node);
        let leaves_all =
            self.members.len() <= 1 || self.members.values().all(|list| list.iter().any(is_alive));
        if !leaves_all || (self.is_sufficient && self.principals.len() <= SUCCESSORS) {
            self.is_armed = false;
        }
    }
}

impl<P: Host> Observer<P> for RingChecker {
    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        let overlay = protocol.overlay();
        let Some(list) = successors(overlay.router()) else {
            return;
        };
        if !overlay.is_member() {
            self.remove(node);
        } else if self.members.get(&node).is_none_or(|known| known != list) {
            self.members.insert(node, list.to_vec());
            self.check(at, node);
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        match fault {
            Fault::Crash(node) => self.remove(*node),
            Fault::Restart(node) => {
                self.restarted.insert(*node, at);
            }
            _ => {}
        }
    }
}
