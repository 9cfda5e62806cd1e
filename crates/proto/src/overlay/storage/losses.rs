//! Nodes that failed, and records that only they may hold.
//!
//! A node without a record for a key may call the key absent only if a stored value would have
//! reached it. That holds while fewer than `copies` of the nodes that precede it as holders of the
//! key have failed: a surviving holder passes its records on. Once `copies` of them have failed
//! together, or were cut off, they may hold the only copies, and the answer is
//! [`Answer::Unsettled`]. While at least half of the nodes around it are missing, a node gives that
//! answer for every key without a record: if those nodes are the other side of a network split,
//! they store values without it.
//!
//! So a node remembers which nodes failed. It forgets a failure once the node is back, unless that
//! node restarted empty while others are missing: the missing nodes may now hold the only copies of
//! its records, and its neighbours report them when it joins. Nodes also forget a failure once the
//! remaining holders have made new copies of the records; once records as old as the failure have
//! expired; or when the operator says so. Nodes list missing nodes to their neighbours
//! (`Missing`): on a ring a node knows only the last nodes before it, and a joiner knows none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Routing, Storage};
use crate::core::{Instant, NodeId};
use crate::overlay::record::{Answer, MISSING_MAX};
use crate::overlay::router::{keep_distinct, keep_least};
use crate::overlay::{Cx, Key, counters};

/// Failed nodes that are remembered; the oldest is forgotten first.
const LOSSES_MAX: usize = 1024;
/// The most nodes in each of the lists `retired`, `back` and `left`.
const DATED_MAX: usize = 256;

/// A node keeps account of failures only near itself: it looks at this many nodes, those nearest to
/// a key or to itself.
const fn nodes_around(copies: usize) -> usize {
    8 * copies + 8
}

/// Nodes that failed and may hold the only copies of a record.
#[derive(Debug, Default)]
pub(super) struct Losses {
    lost: BTreeMap<NodeId, Loss>,
    last_at: Instant,
    // The last failure after which this node checked whether others failed with it.
    probed_for: Instant,
    // Failed nodes whose records have new copies, or were accepted as lost, and since when. Reports
    // of the same failure that come soon after are stale.
    retired: Dated,
    // Nodes that are back, or known to hold nothing, and since when. Reports are stale as above,
    // but this node may itself detect that they fail again.
    back: Dated,
    // Failed nodes that are not back, whether or not their records have new copies.
    gone: BTreeSet<NodeId>,
    // Nodes that said goodbye, and have not answered since.
    left: Dated,
    // Since when this node holds all records that it must hold.
    whole_from: Instant,
    // True if it did not hold all of them yet when a node failed, or when it learned of the
    // failure.
    is_partial: bool,
}

/// A bounded list of nodes with the time at which each was entered, the oldest first. A full list
/// drops its oldest node for a new one.
#[derive(Debug, Default)]
struct Dated(Vec<(NodeId, Instant)>);

impl Dated {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, node: NodeId) -> bool {
        self.0.iter().any(|(known, _)| *known == node)
    }

    fn remove(&mut self, node: NodeId) {
        self.0.retain(|(known, _)| *known != node);
    }

    /// Enters a node, or renews its time.
    fn note(&mut self, node: NodeId, now: Instant) {
        self.remove(node);
        if self.0.len() >= DATED_MAX {
            self.0.remove(0);
        }
        self.0.push((node, now));
    }

    /// Removes the nodes that were entered at least `after` ago.
    fn expire(&mut self, now: Instant, after: Duration) {
        self.0.retain(|(_, at)| now < *at + after);
    }
}

#[derive(Debug)]
struct Loss {
    since: Instant,
    // When it last fell silent or answered again.
    changed_at: Instant,
    // When it answered again. The table has yet to admit it.
    found_at: Option<Instant>,
    // When another member named it that has it in its table: perhaps only the link between the node
    // and this one is cut.
    named_at: Option<Instant>,
    // It is back without its records.
    is_empty: bool,
}

impl Loss {
    fn new(since: Instant) -> Loss {
        Loss { since, changed_at: since, found_at: None, named_at: None, is_empty: false }
    }
}

impl Losses {
    /// True if the node failed and is not made up for.
    fn contains(&self, node: NodeId) -> bool {
        self.lost.contains_key(&node)
    }

    /// True if the node failed, or said goodbye, and has not answered since.
    fn is_silent(&self, node: NodeId) -> bool {
        self.lost.get(&node).is_some_and(|loss| loss.found_at.is_none()) || self.left.contains(node)
    }

    /// Another member has these nodes in its table.
    fn note_named(&mut self, nodes: &[NodeId], now: Instant) {
        for node in nodes {
            if let Some(loss) = self.lost.get_mut(node) {
                loss.named_at = Some(now);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.lost.is_empty()
            && self.retired.is_empty()
            && self.back.is_empty()
            && self.left.is_empty()
    }

    fn note(&mut self, node: NodeId, now: Instant) -> bool {
        let is_old = self.retired.contains(node);
        if is_old || self.lost.contains_key(&node) {
            // It failed again before it was taken in again.
            if let Some(loss) = self.lost.get_mut(&node) {
                loss.found_at = None;
                loss.changed_at = now;
            }
            return false;
        }
        self.is_partial |= now < self.whole_from;
        if self.lost.len() >= LOSSES_MAX {
            let oldest = self.lost.iter().min_by_key(|(_, loss)| loss.since);
            let oldest = oldest.map(|(&node, _)| node).expect("the list is full");
            self.lost.remove(&oldest);
        }
        self.lost.insert(node, Loss::new(now));
        if self.gone.len() < LOSSES_MAX {
            self.gone.insert(node);
        }
        self.last_at = now;
        true
    }

    /// The node answers again: its failure ends once the table has had time to take it in.
    fn find(&mut self, node: NodeId, now: Instant) {
        self.take_back(node);
        if let Some(loss) = self.lost.get_mut(&node)
            && loss.found_at.is_none()
        {
            loss.found_at = Some(now);
            loss.changed_at = now;
            self.back.note(node, now);
        }
    }

    /// The node answers, but is not a member, or not yet again: it comes back empty. Other nodes
    /// hold copies of its records, or the records are lost.
    fn find_empty(&mut self, node: NodeId, now: Instant) {
        self.find(node, now);
        match self.lost.get_mut(&node) {
            Some(loss) => loss.is_empty = true,
            None => self.forgive(node, now),
        }
    }

    /// This node itself had failed: it was a member before it was started.
    fn note_own(&mut self, node: NodeId, now: Instant) {
        let loss = Loss { found_at: Some(now), is_empty: true, ..Loss::new(now) };
        self.lost.entry(node).or_insert(loss);
    }

    /// The node handed over its records.
    fn forgive(&mut self, node: NodeId, now: Instant) {
        self.take_back(node);
        self.lost.remove(&node);
        self.back.note(node, now);
    }

    /// The node said goodbye. This node does not take it in again before it has answered a ping:
    /// a stranger that alternates `Notify` and `Goodbye` would enter the table each time.
    fn leave(&mut self, node: NodeId, now: Instant) {
        self.forgive(node, now);
        self.left.note(node, now);
    }

    fn take_back(&mut self, node: NodeId) {
        self.retired.remove(node);
        self.left.remove(node);
        self.gone.remove(&node);
    }

    /// True if another node's report of the failure is new.
    fn is_news(&self, node: NodeId) -> bool {
        !self.back.contains(node) && !self.lost.contains_key(&node)
    }

    fn retire(&mut self, nodes: &[NodeId], now: Instant) {
        for &node in nodes {
            self.lost.remove(&node);
            self.retired.note(node, now);
        }
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.nodes_since(Instant::ZERO)
    }

    /// Nodes that have failed or answered again since then.
    fn nodes_since(&self, since: Instant) -> impl Iterator<Item = NodeId> {
        let lost = self.lost.iter().filter(move |(_, loss)| loss.changed_at >= since);
        lost.map(|(&node, _)| node)
    }

    /// This node, the nodes in its table, and the failed nodes.
    fn census(&self, cx: &Cx<'_>, routing: &Routing<'_>) -> Vec<NodeId> {
        let mut nodes = vec![cx.node];
        routing.table().contacts(&mut nodes);
        nodes.extend(self.nodes());
        keep_distinct(0, &mut nodes);
        nodes
    }
}

impl Storage {
    /// The node begins to join: it does not hold its part yet.
    pub fn begin_join(&mut self) {
        self.state().losses.whole_from = Instant::MAX;
    }

    /// The node is a member from now on, and holds its part once the others had time to hand it
    /// over.
    pub fn begin_membership(&mut self, cx: &Cx<'_>, routing: &Routing<'_>) {
        let whole_from = cx.now + routing.repair_after(cx);
        self.hurry();
        self.state().losses.whole_from = whole_from;
    }

    /// The node is the first of its overlay: no node has failed.
    pub fn forget_losses(&mut self) {
        self.state().losses = Losses::default();
    }

    /// A node no longer answers.
    pub fn note_loss(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let (now, is_looked_after) = (cx.now, cx.shared.upkeep_every.is_some());
        if is_looked_after && node != cx.node && self.state().losses.note(node, now) {
            cx.count(counters::LOST, 1);
        }
    }

    /// A node was heard from.
    pub fn note_found(&mut self, cx: &Cx<'_>, node: NodeId) {
        if let Some(state) = &mut self.state {
            state.losses.find(node, cx.now);
        }
    }

    /// The asking node is not a member: if it is known to have failed, it has restarted.
    pub fn note_empty(&mut self, cx: &Cx<'_>, node: NodeId) {
        if self.is_missed(node) {
            self.state().losses.find_empty(node, cx.now);
        }
    }

    /// The node answers that it is not a member.
    pub fn note_no_member(&mut self, cx: &Cx<'_>, node: NodeId) {
        self.state().losses.find_empty(node, cx.now);
    }

    /// The node said goodbye.
    pub fn note_goodbye(&mut self, cx: &Cx<'_>, node: NodeId) {
        self.state().losses.leave(node, cx.now);
    }

    /// Another member has these nodes in its table.
    pub fn note_named(&mut self, cx: &Cx<'_>, nodes: &[NodeId]) {
        self.state().losses.note_named(nodes, cx.now);
    }

    /// True if the node failed, or said goodbye, and has not answered since.
    pub fn is_silent(&self, node: NodeId) -> bool {
        self.state_if_any().is_some_and(|state| state.losses.is_silent(node))
    }

    /// True if the node failed and is not made up for.
    pub fn is_missed(&self, node: NodeId) -> bool {
        self.state_if_any().is_some_and(|state| state.losses.contains(node))
    }

    /// Nodes that failed, are not back, and whose records have no new copies: they may hold the
    /// only copies of a record. Restarted nodes are not included.
    pub fn missing(&self) -> impl Iterator<Item = NodeId> {
        let lost = self.state_if_any().into_iter().flat_map(|state| &state.losses.lost);
        lost.filter(|(_, loss)| !loss.is_empty).map(|(&node, _)| node)
    }

    /// The number of nodes that failed and are not made up for.
    pub fn losses(&self) -> usize {
        self.state_if_any().map_or(0, |state| state.losses.lost.len())
    }

    /// The answer for a key of this node without a record.
    pub(super) fn nothing_under(
        &self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        key: Key,
        is_settled: bool,
    ) -> Answer {
        let may_be_lost = || self.may_be_lost(cx, routing, key, Instant::ZERO);
        if is_settled && !may_be_lost() && !self.is_contested(cx, routing, key) {
            return Answer::Absent;
        }
        cx.count(counters::GET_UNSETTLED, 1);
        Answer::Unsettled
    }

    /// The answer for a removed key of this node. If this node accepted the removal, a node that
    /// may hold the only copy has another value only if it failed or came back since. The tombstone
    /// of a removal that another node accepted may be of any age.
    pub(super) fn removed_under(&self, cx: &mut Cx<'_>, routing: &Routing<'_>, key: Key) -> Answer {
        let held = self.held(key, cx.now);
        let own = held.filter(|held| held.stamp.version.by == cx.node.0);
        let since = own.map_or(Instant::ZERO, |held| held.stored_at);
        if !self.may_be_lost(cx, routing, key, since) && !self.is_contested(cx, routing, key) {
            return Answer::Absent;
        }
        cx.count(counters::GET_UNSETTLED, 1);
        Answer::Unsettled
    }

    /// True if nodes that failed, or answered again, since then may hold the only copies of a key
    /// of this node.
    fn may_be_lost(&self, cx: &Cx<'_>, routing: &Routing<'_>, key: Key, since: Instant) -> bool {
        let Some(losses) = self.state_if_any().map(|state| &state.losses) else {
            return false;
        };
        let (space, copies) = (cx.shared.space, cx.shared.copies());
        // It may have got its own marks back from others, which kept them for longer than it did.
        let since = if losses.is_partial { Instant::ZERO } else { since };
        if self.is_in_smaller_part(cx, routing, since) {
            return true;
        }
        if losses.lost.len() < copies {
            return false;
        }
        let is_close = |node: &NodeId| is_concerned(cx, routing, space.key(*node));
        if losses.is_partial && losses.nodes_since(since).filter(is_close).count() >= copies {
            return true;
        }
        let own = cx.shared.algorithm.distance(key, space.key(cx.node));
        let is_nearer = |node: &NodeId| cx.shared.algorithm.distance(key, space.key(*node)) < own;
        let nearer = losses.nodes_since(since).filter(is_nearer).count();
        // This node has taken over the ranges of `copies` failed nodes. More nodes between them may
        // have failed that no live node knows of.
        let is_taken_over = |node: &NodeId| routing.is_here(cx, space.key(*node));
        nearer >= copies
            || nearer > 0 && losses.nodes_since(since).filter(is_taken_over).count() >= copies
    }

    /// True if failed nodes may hold the only copies of records of any key of this node, or if
    /// others reach a node near this one that does not answer it.
    pub(super) fn may_lack_records(&self, cx: &Cx<'_>, routing: &Routing<'_>) -> bool {
        let Some(losses) = self.state_if_any().map(|state| &state.losses) else {
            return false;
        };
        let is_close = |node: &NodeId| is_concerned(cx, routing, cx.shared.space.key(*node));
        losses.nodes().filter(is_close).count() >= cx.shared.copies()
            || self.is_in_smaller_part(cx, routing, Instant::ZERO)
            || self.reached_by_others(cx, routing).any(|node| is_close(&node))
    }

    /// True if at least half of the nodes around this one are missing. If they were cut off
    /// together, they have taken over all keys, including this node's, and joiners may help them to
    /// store new writes.
    fn is_in_smaller_part(&self, cx: &Cx<'_>, routing: &Routing<'_>, since: Instant) -> bool {
        let (space, copies) = (cx.shared.space, cx.shared.copies());
        let Some(losses) = self.state_if_any().map(|state| &state.losses) else {
            return false;
        };
        if losses.lost.is_empty() {
            return false;
        }
        let census = losses.census(cx, routing);
        // The keys of nodes are not free, and nearly always so few are missing.
        if 2 * losses.lost.len() < census.len().min(nodes_around(copies)) {
            return false;
        }
        let (own, lost) = (space.key(cx.node), losses.nodes_since(since).collect::<BTreeSet<_>>());
        let distance = |node| (cx.shared.algorithm.distance(space.key(node), own), node);
        let mut around: Vec<_> = census.into_iter().map(distance).collect();
        keep_least(nodes_around(copies), &mut around);
        let missing = around.iter().filter(|(_, node)| lost.contains(node)).count();
        2 * missing >= around.len()
    }

    /// True if others reach a node that is nearer to the key and does not answer this one. This
    /// node does not know what they write there, and they would not find what this node writes.
    pub(super) fn is_contested(&self, cx: &Cx<'_>, routing: &Routing<'_>, key: Key) -> bool {
        let (space, own) =
            (cx.shared.space, cx.shared.algorithm.distance(key, cx.shared.space.key(cx.node)));
        let is_nearer = |node: &NodeId| cx.shared.algorithm.distance(key, space.key(*node)) < own;
        self.reached_by_others(cx, routing).any(|node| is_nearer(&node))
    }

    /// Nodes that do not answer this one, and that others have in their tables for longer than it
    /// takes to notice a failure.
    fn reached_by_others(
        &self,
        cx: &Cx<'_>,
        routing: &Routing<'_>,
    ) -> impl Iterator<Item = NodeId> {
        let (now, forgotten_after) = (cx.now, routing.forgotten_after(cx));
        let is_reached = move |loss: &Loss| {
            loss.found_at.is_none() && loss.named_at.is_some_and(|at| now < at + forgotten_after)
        };
        let lost = self.state_if_any().into_iter().flat_map(|state| &state.losses.lost);
        lost.filter(move |(_, loss)| is_reached(loss)).map(|(&node, _)| node)
    }

    /// True if `copies` is fewer than a record must have, because nodes failed that are not back.
    pub(super) fn are_fewer_than_were(&self, cx: &Cx<'_>, copies: usize) -> bool {
        let Some(losses) = self.state_if_any().map(|state| &state.losses) else {
            return false;
        };
        copies < cx.shared.copies() && !losses.gone.is_empty()
    }

    /// Forgets failures of nodes that are back or whose records have expired. After a new failure
    /// the answer is the neighbours to ask, so that failures of the same time are noticed together.
    /// `None` if no node has failed: there is nothing to [retire](Storage::retire_losses).
    pub fn review_losses(&mut self, cx: &Cx<'_>, routing: &Routing<'_>) -> Option<Vec<NodeId>> {
        let losses = &mut self.state.as_mut()?.losses;
        if losses.is_empty() {
            return None;
        }
        let (now, lifetime_max) = (cx.now, cx.shared.lifetime_max);
        let taken_in_after = 2 * routing.settle_after(cx);
        let rumours_end = 4 * routing.repair_after(cx);
        for list in [&mut losses.retired, &mut losses.back, &mut losses.left] {
            list.expire(now, rumours_end);
        }
        // A node that came back empty lost copies of records that now perhaps only missing nodes
        // hold.
        let is_anybody_gone = losses.lost.values().any(|loss| loss.found_at.is_none());
        losses.lost.retain(|_, loss| {
            let is_back = loss.found_at.is_some_and(|at| now >= at + taken_in_after);
            let is_whole = is_back && !(loss.is_empty && is_anybody_gone);
            !is_whole && now < loss.since + lifetime_max
        });
        let mut neighbours = Vec::new();
        if losses.probed_for != losses.last_at {
            losses.probed_for = losses.last_at;
            routing.table().bordering(2 * cx.shared.copies(), &mut neighbours);
        }
        Some(neighbours)
    }

    /// Forgets failures of nodes whose records have new copies.
    pub fn retire_losses(&mut self, cx: &Cx<'_>, routing: &Routing<'_>) {
        let now = cx.now;
        let losses_at = self.state().losses.last_at;
        let repaired_at = losses_at + routing.repair_after(cx);
        let has_compared = self.is_empty() || self.state().sync.is_done_since(losses_at);
        if now >= repaired_at && has_compared && self.is_settled(cx, routing) {
            let mut repaired = self.repaired(cx, routing);
            let reached: Vec<NodeId> = self.reached_by_others(cx, routing).collect();
            repaired.retain(|node| !reached.contains(node));
            self.state().losses.retire(&repaired, now);
        }
        if self.losses() == 0 {
            self.state().losses.is_partial = false;
        }
    }

    /// Failed nodes whose records surviving holders have copied again, and failed nodes that do not
    /// concern this node.
    fn repaired(&self, cx: &Cx<'_>, routing: &Routing<'_>) -> Vec<NodeId> {
        let (space, copies) = (cx.shared.space, cx.shared.copies());
        let Some(losses) = self.state_if_any().map(|state| &state.losses) else {
            return Vec::new();
        };
        if self.is_in_smaller_part(cx, routing, Instant::ZERO) {
            return Vec::new();
        }
        let lost: Vec<NodeId> = losses.nodes().collect();
        if lost.len() < copies {
            return lost;
        }
        let census: Vec<(Key, NodeId)> =
            losses.census(cx, routing).into_iter().map(|node| (space.key(node), node)).collect();
        // Where as many nodes failed together as a record has copies, they may have been all its
        // holders.
        let mut kept: BTreeSet<NodeId> = BTreeSet::new();
        let mut around: Vec<(Key, NodeId)> = Vec::new();
        for key in
            lost.iter().map(|&node| space.key(node)).filter(|&key| is_concerned(cx, routing, key))
        {
            around.clear();
            around.extend(
                census.iter().map(|&(at, node)| (cx.shared.algorithm.distance(key, at), node)),
            );
            keep_least(4 * copies, &mut around);
            around.retain(|(_, node)| losses.contains(*node));
            if around.len() >= copies {
                kept.extend(around.iter().map(|&(_, node)| node));
            }
        }
        lost.into_iter().filter(|node| !kept.contains(node)).collect()
    }

    /// The missing nodes that another node must know of, those nearest to it first.
    pub fn missing_near(&self, cx: &Cx<'_>, to: NodeId) -> Vec<NodeId> {
        if self.losses() == 0 {
            return Vec::new();
        }
        let at = cx.shared.space.key(to);
        let lost = self.state_if_any().into_iter().flat_map(|state| &state.losses.lost);
        // The node itself, if it was started again: it does not know that it is missed.
        let is_told = |node: NodeId, loss: &Loss| match node == to {
            true => loss.is_empty,
            false => loss.found_at.is_none(),
        };
        let missed = lost.filter(|(node, loss)| is_told(**node, loss));
        let distance = |node| cx.shared.algorithm.distance(cx.shared.space.key(node), at);
        let mut nearest: Vec<_> = missed.map(|(&node, _)| (distance(node), node)).collect();
        keep_least(MISSING_MAX, &mut nearest);
        nearest.into_iter().map(|(_, node)| node).collect()
    }

    /// A neighbour misses nodes. Those near this one concern it too, and it looks for them itself.
    pub fn receive_missing(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        nodes: &[NodeId],
    ) {
        let mut contacts = Vec::new();
        routing.table().contacts(&mut contacts);
        if !contacts.contains(&from) {
            return;
        }
        let (me, now) = (cx.node, cx.now);
        let is_empty = self.is_empty();
        if nodes.contains(&me) && is_empty && now < self.state().losses.whole_from {
            self.state().losses.note_own(me, now);
        }
        let others = |node: &&NodeId| **node != me && !contacts.contains(node);
        for &node in nodes.iter().filter(others) {
            if self.state().losses.is_news(node)
                && is_concerned(cx, routing, cx.shared.space.key(node))
            {
                self.note_loss(cx, node);
                if self.state().losses.contains(node) {
                    routing.look_for(node);
                }
            }
        }
    }

    /// The operator declares that failed nodes will not return, and that the stored records are all
    /// that remain.
    pub fn accept_losses(&mut self, cx: &mut Cx<'_>) {
        let losses = &mut self.state().losses;
        let lost: Vec<NodeId> = losses.nodes().collect();
        losses.retire(&lost, cx.now);
        losses.gone.clear();
        losses.is_partial = false;
        cx.count(counters::LOSSES_ACCEPTED, lost.len() as u64);
    }
}

/// True if this node may be responsible for keys near this one. A key that another node held may be
/// nearest to this node although many nodes are nearer to the other one.
fn is_concerned(cx: &Cx<'_>, routing: &Routing<'_>, key: Key) -> bool {
    routing.is_among(cx, key, nodes_around(cx.shared.copies()))
}
