use super::cells::Cells;
use super::list::List;
use super::oracle::parts;
use super::shape::LEAVES_MAX;
use super::{
    Algorithm, Hop, Key, Leg, Router, RouterAction, Shape, Space, Step, TableQuery, Walk,
    keep_distinct, keep_nearest,
};
use crate::core::NodeId;

/// Pastry: a key belongs to the numerically nearest node, and each hop corrects a digit of four
/// bits.
///
/// The leaf set holds the nearest nodes on each side, four by default ([`Shape::leaf_set`]). Row r
/// of the routing table holds, for each digit but the own one, a node that shares the first r
/// digits and goes on with that one. Source: Rowstron and Druschel, *Pastry: Scalable,
/// Decentralized Object Location and Routing for Large-scale Peer-to-peer Systems*, Middleware
/// 2001. Nodes have no distance but that of keys, so a cell keeps the first node that it got.
///
/// A key within the leaf set goes to the nearest leaf, and says so ([`Leg::Last`]): from then on it
/// only goes numerically nearer. Before, it goes to a longer prefix, or to one as long that is
/// nearer. So a message does not go in circles even if tables are wrong.
#[derive(Clone, Debug)]
pub struct Pastry {
    space: Space,
    own: NodeId,
    /// The nearest nodes below, the nearest first. Among few nodes some are on both sides.
    lower: List<LEAVES_MAX>,
    upper: List<LEAVES_MAX>,
    /// By digits shared, then by the next digit. One node in a cell.
    cells: Cells,
}

/// How far a node is from being nearest to a key: twice the distance on the ring, less one if it
/// lies ahead. Of two that are equally far the one ahead is nearer.
pub(super) fn apart(key: Key, node: Key) -> Key {
    let (ahead, behind) = (key.clockwise_to(node), node.clockwise_to(key));
    if behind < ahead {
        behind + behind
    } else if ahead == Key::ZERO {
        Key::ZERO
    } else {
        ahead + ahead - Key::from(1)
    }
}

/// The cell of a node in a table with a row for each number of shared digits, and a column for each
/// value of the first digit that differs.
pub(super) fn cell_of(space: Space, own: NodeId) -> impl Fn(NodeId) -> u16 {
    let own = space.key(own);
    move |node| cell_of_key(own, space.key(node))
}

/// The cell in which a node with this key would be.
pub(super) fn cell_of_key(own: Key, key: Key) -> u16 {
    let row = own.digits_shared(key).min(Key::DIGITS - 1);
    row as u16 * 16 + u16::from(key.digit(row))
}

impl Pastry {
    /// The table of a node that knows no other yet.
    pub fn new(space: Space, own: NodeId, shape: Shape) -> Pastry {
        let leaves = List::new(usize::from(shape.leaf_set / 2));
        Pastry { space, own, lower: leaves, upper: leaves, cells: Cells::default() }
    }

    /// The nearest nodes below and above, on each side the nearest first.
    pub fn leaves(&self) -> (&[NodeId], &[NodeId]) {
        (&self.lower, &self.upper)
    }

    /// The routing table, row after row.
    pub fn entries(&self) -> &[NodeId] {
        self.cells.all()
    }

    fn key(&self) -> Key {
        self.space.key(self.own)
    }

    fn cell_of(&self) -> impl Fn(NodeId) -> u16 + use<> {
        cell_of(self.space, self.own)
    }

    fn leaf_set(&self) -> impl Iterator<Item = NodeId> + Clone {
        self.lower.iter().chain(&*self.upper).copied()
    }

    // All known nodes and this one; some more than once.
    fn known(&self) -> impl Iterator<Item = NodeId> + Clone {
        self.leaf_set().chain(self.cells.all().iter().copied()).chain([self.own])
    }

    // The first and the last key between the farthest leaves; `None` if these meet on the other
    // side, so that the leaf set holds all nodes.
    fn leaf_range(&self) -> Option<(Key, Key)> {
        if !self.lower.is_full() || !self.upper.is_full() {
            return None;
        }
        let own = self.key();
        let first = self.space.key(*self.lower.last()?);
        let last = self.space.key(*self.upper.last()?);
        (own.clockwise_to(last) < own.clockwise_to(first)).then_some((first, last))
    }

    // True if the nearest node is within the leaf set; and the last key, going up, for which it is.
    fn leaf_end(&self, key: Key) -> Option<Key> {
        match self.leaf_range() {
            None => Some(key - Key::from(1)),
            Some((first, last)) => {
                (first.clockwise_to(key) <= first.clockwise_to(last)).then_some(last)
            }
        }
    }

    // The nearest of these nodes, for all keys from this one up to `end` and no farther.
    fn step_nearest(
        &self,
        key: Key,
        end: Key,
        nodes: impl Iterator<Item = NodeId> + Clone,
    ) -> Step {
        let nearest = nodes.clone().min_by_key(|&node| apart(key, self.space.key(node)));
        let node = nearest.unwrap_or(self.own);
        let at = self.space.key(node);
        let ahead = |other: NodeId| at.clockwise_to(self.space.key(other));
        let room = nodes.filter(|&other| other != node).map(ahead).min();
        // Half way to the next node, which takes a key in the very middle. The nearest of all keys
        // has to be cut where the circle began.
        let border = match room {
            Some(room) => at + (room - Key::from(1)).shifted_right(1),
            None => key - Key::from(1),
        };
        let end = if key.clockwise_to(border) < key.clockwise_to(end) { border } else { end };
        let hop = if node == self.own { Hop::Here } else { Hop::Via(node) };
        Step::through(hop, key, end)
    }

    // A step of the last leg.
    fn step_last(&self, key: Key) -> Step {
        match self.leaf_end(key) {
            Some(end) => self.step_nearest(key, end, self.leaf_set().chain([self.own])),
            None => {
                self.step_nearest(key, self.before_leaves(key, key - Key::from(1)), self.known())
            }
        }
    }

    // The end of an arc outside of the leaf set, cut where that begins.
    fn before_leaves(&self, key: Key, end: Key) -> Key {
        let Some((first, _)) = self.leaf_range() else { return end };
        let border = first - Key::from(1);
        if key.clockwise_to(border) < key.clockwise_to(end) { border } else { end }
    }

    // A step of a message on its way, of a key outside of the leaf set.
    fn step_way(&self, key: Key) -> Step {
        let own = self.key();
        let row = own.digits_shared(key);
        let end = self.before_leaves(key, key.last_of_prefix(4 * (row + 1)));
        if let Some(&node) = self.cells.cell(cell_of_key(own, key), self.cell_of()).first() {
            return Step::through(Hop::Via(node), key, end);
        }
        let is_along = |node: &NodeId| self.space.key(*node).digits_shared(key) >= row;
        self.step_nearest(key, end, self.known().filter(is_along))
    }

    // True if the message must go to the numerically closest node from here on.
    fn is_last(&self, key: Key, leg: Leg) -> bool {
        leg == Leg::Last || self.leaf_end(key).is_some()
    }

    fn add_leaf(&mut self, node: NodeId) {
        let (own, space) = (self.key(), self.space);
        let distance = |node: &NodeId| own.clockwise_to(space.key(*node));
        let ahead = distance(&node);
        if !self.upper.contains(&node) {
            self.upper.insert(self.upper.partition_point(|other| distance(other) < ahead), node);
        }
        if !self.lower.contains(&node) {
            self.lower.insert(self.lower.partition_point(|other| distance(other) > ahead), node);
        }
    }

    fn add_entry(&mut self, node: NodeId) {
        let cell_of = self.cell_of();
        let cell = cell_of(node);
        let range = self.cells.range(cell..cell + 1, cell_of);
        if range.is_empty() {
            self.cells.insert(range.start, node);
        }
    }

    // True if a node is nearer than one of the leaves, or these leave room.
    fn is_leaf(&self, node: NodeId) -> bool {
        let (own, at) = (self.key(), self.space.key(node));
        let room = |list: &List<LEAVES_MAX>, is_nearer: &dyn Fn(Key) -> bool| {
            !list.contains(&node)
                && (!list.is_full()
                    || list.last().is_some_and(|&far| is_nearer(self.space.key(far))))
        };
        room(&self.upper, &|far| own.clockwise_to(at) < own.clockwise_to(far))
            || room(&self.lower, &|far| own.clockwise_to(at) > own.clockwise_to(far))
    }

    // A node that another one named may have failed: contact it before adding it.
    fn consider(&self, nodes: &[NodeId], out: &mut Vec<RouterAction>) {
        let mut cells = Vec::new();
        let cell_of = self.cell_of();
        for &node in nodes.iter().filter(|&&node| node != self.own) {
            let cell = cell_of(node);
            let action = if self.is_leaf(node) {
                RouterAction::Ask(node, TableQuery::Neighbours)
            } else if self.cells.cell(cell, &cell_of).is_empty() && !cells.contains(&cell) {
                cells.push(cell);
                RouterAction::Ask(node, TableQuery::Row((cell / 16) as u8, self.key()))
            } else {
                continue;
            };
            if !out.contains(&action) {
                out.push(action);
            }
        }
    }

    // See [`Algorithm::remaining`].
    pub(super) fn remaining(key: Key, at: Key, leg: Leg) -> (Key, Key) {
        match leg {
            Leg::Way => {
                let digits = u64::from(Key::DIGITS - at.digits_shared(key));
                (Key::from(1 + digits), apart(key, at))
            }
            Leg::Last => (Key::ZERO, apart(key, at)),
        }
    }
}

impl Router for Pastry {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Pastry
    }

    fn next_hop(&self, key: Key, walk: &mut Walk) -> Step {
        if !self.is_last(key, walk.leg()) {
            let step = self.step_way(key);
            if step.hop != Hop::Here {
                return step;
            }
            // No node with this prefix is nearer: forward to the numerically closest node.
            let mut last = self.step_last(key);
            last.until = last.until.min(step.until);
            *walk = Walk::Leg(Leg::Last);
            return last;
        }
        *walk = Walk::Leg(Leg::Last);
        self.step_last(key)
    }

    fn candidates(&self, key: Key, walk: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        let own = self.key();
        let Hop::Via(first) = self.next_hop(key, walk).hop else { return };
        let rank = |node: Key| {
            let shared = if walk.leg() == Leg::Last { 0 } else { node.digits_shared(key) };
            (Key::DIGITS - shared, apart(key, node))
        };
        let start = out.len();
        let is_nearer = |node: &NodeId| rank(self.space.key(*node)) < rank(own) && *node != first;
        out.extend(self.known().filter(is_nearer));
        keep_distinct(start, out);
        out[start..].sort_unstable_by_key(|&node| rank(self.space.key(node)));
        out.insert(start, first);
        out.truncate(start + count);
    }

    fn replicas(&self, key: Key, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        out.push(self.own);
        self.contacts(out);
        keep_nearest(Algorithm::Pastry, &self.space, key, count, start, out);
    }

    fn learn(&mut self, node: NodeId) -> Option<NodeId> {
        if node != self.own {
            self.add_leaf(node);
            self.add_entry(node);
        }
        None
    }

    fn forget(&mut self, node: NodeId) {
        if let Some(at) = self.cells.all().iter().position(|&entry| entry == node) {
            self.cells.remove(at..at + 1);
        }
        self.lower.remove(node);
        self.upper.remove(node);
        // Every remaining node must be in the leaf set and in the table wherever it belongs there.
        let mut contacts = Vec::new();
        self.contacts(&mut contacts);
        contacts.into_iter().for_each(|contact| {
            self.learn(contact);
        });
    }

    fn upkeep(&mut self, turn: u64, out: &mut Vec<RouterAction>) {
        let turned = |len: usize| (turn % len.max(1) as u64) as usize;
        let leaves: Vec<NodeId> = self.leaf_set().collect();
        let asked = [self.lower.first(), self.upper.first(), leaves.get(turned(leaves.len()))];
        for &node in asked.into_iter().flatten() {
            let action = RouterAction::Ask(node, TableQuery::Neighbours);
            if !out.contains(&action) {
                out.push(action);
            }
        }
        let cell_of = self.cell_of();
        let rows = self.cells.all().last().map_or(0, |&node| cell_of(node) / 16 + 1);
        for row in 0..rows {
            let entries = &self.cells.all()[self.cells.range(row * 16..row * 16 + 16, &cell_of)];
            let asked = entries.get(turned(entries.len()));
            out.extend(
                asked.map(|&node| RouterAction::Ask(node, TableQuery::Row(row as u8, self.key()))),
            );
        }
    }

    fn answer_query(&self, query: TableQuery, out: &mut Vec<NodeId>) {
        let start = out.len();
        match query {
            TableQuery::Neighbours => {
                out.extend(self.leaf_set());
                keep_distinct(start, out);
            }
            TableQuery::Row(row, key) if u32::from(row) <= self.key().digits_shared(key) => {
                let row = u16::from(row);
                let entries = self.cells.range(row * 16..row * 16 + 16, self.cell_of());
                out.extend(&self.cells.all()[entries]);
            }
            TableQuery::Row(..) => {}
            TableQuery::Nearest(key) => self.replicas(key, 2 * self.lower.max(), out),
        }
    }

    fn on_answer(
        &mut self,
        _from: NodeId,
        _query: TableQuery,
        nodes: &[NodeId],
        out: &mut Vec<RouterAction>,
    ) {
        self.consider(nodes, out);
    }

    fn on_found(&mut self, key: Key, node: NodeId, out: &mut Vec<RouterAction>) {
        if key == self.key() && node != self.own {
            // It shares the first digits, so its first rows are this node's as well.
            out.push(RouterAction::Ask(node, TableQuery::Neighbours));
            let shared = key.digits_shared(self.space.key(node));
            out.extend(
                (0..=shared).map(|row| RouterAction::Ask(node, TableQuery::Row(row as u8, key))),
            );
        }
    }

    fn on_notify(&mut self, by: NodeId, _out: &mut Vec<RouterAction>) {
        self.learn(by);
    }

    fn has_joined(&self) -> bool {
        !self.cells.all().is_empty()
    }

    fn contacts(&self, out: &mut Vec<NodeId>) {
        let start = out.len();
        out.extend(self.leaf_set());
        out.extend(self.cells.all());
        keep_distinct(start, out);
    }

    fn fill(&mut self, ring: &[(Key, NodeId)]) {
        let own = self.key();
        let at = ring.partition_point(|&(key, _)| key < own);
        let others = ring.len().saturating_sub(1);
        let ahead = |steps: usize| ring[(at + steps) % ring.len()].1;
        self.upper = self.upper.with((1..=others).map(ahead));
        self.lower = self.lower.with((1..=others).rev().map(ahead));
        let mut entries = Vec::new();
        let (mut alike, mut row) = (ring, 0);
        while alike.len() > 1 && row < Key::DIGITS {
            for cell in parts(std::mem::take(&mut alike), row) {
                let digit = cell[0].0.digit(row);
                if digit == own.digit(row) {
                    alike = cell;
                    continue;
                }
                let target = own.with_digit(row, digit);
                let at = cell.partition_point(|&(key, _)| key < target);
                entries.push(cell[at.min(cell.len() - 1)].1);
            }
            row += 1;
        }
        self.cells.replace(entries);
    }

    fn heap_bytes(&self) -> usize {
        self.cells.heap_bytes()
    }
}
