use super::list::List;
use super::oracle::place_of;
use super::shape::SUCCESSORS_MAX;
use super::{Hop, Key, Leg, RouterAction, Space, Step, TableQuery};
use crate::core::NodeId;

/// A node's place on a ring on which a key belongs to the first node at or after it: successor
/// list, predecessor, and the rules by which they stay right. Chord and Koorde share it.
///
/// The rules are those that Zave proved (*Reasoning about Identifier Spaces: How to Make Chord
/// Correct*, IEEE Transactions on Software Engineering 43(12), 2017), with one difference in form.
/// Her list always has its full length: where a dead entry leaves a gap at the end, the identifier
/// after the last entry fills it, although no node need lie there. Here the list is shorter until
/// it is next copied. What such an entry is for is unchanged by its absence. It leaves no room for
/// a node between itself and the entry before, so a checker that looks for skipped nodes between
/// neighbours in the list finds the same ones; it does not answer, so it is never a live successor;
/// and a copy is cut to its length after the live entries in either form.
///
/// She also assumes more members than the list is long. With fewer, a list ends before it comes
/// round to the node itself, and alone a node has an empty list and no predecessor.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub space: Space,
    pub own: NodeId,
    pub successors: List<SUCCESSORS_MAX>,
    pub predecessor: Option<NodeId>,
    /// Replaces the predecessor if that has failed.
    claimant: Option<NodeId>,
}

impl Place {
    /// Alone, with room for this many successors.
    pub fn new(space: Space, own: NodeId, successors: u8) -> Place {
        let successors = List::new(successors.into());
        Place { space, own, successors, predecessor: None, claimant: None }
    }

    pub fn fill(&mut self, ring: &[(Key, NodeId)]) {
        let own = self.key();
        let at = place_of(ring, own);
        let others = ring.len().saturating_sub(1);
        let after = |steps: usize| ring[(at + steps) % ring.len()].1;
        self.successors = self.successors.with((1..=others).map(after));
        self.predecessor = (others > 0).then(|| after(others));
        self.claimant = None;
    }

    /// The step of a message that ring neighbours suffice for; `None` if it has farther to go.
    pub fn step(&self, key: Key, leg: &mut Leg) -> Option<Step> {
        let own = self.key();
        let arrived = Some(Step::through(Hop::Here, key, own));
        let Some(&next) = self.successors.first() else {
            // Alone, or not joined yet: this node does not know which nodes lie between.
            return if self.owns(key) { arrived } else { self.step_back(key, *leg) };
        };
        if self.owns(key) {
            return arrived;
        }
        if *leg == Leg::Last {
            return self.step_back(key, *leg);
        }
        if !key.is_in(own, self.space.key(next)) {
            return None;
        }
        *leg = Leg::Last;
        Some(Step::through(Hop::Via(next), key, self.up_to_own(key, self.space.key(next))))
    }

    /// The end of an arc that begins with another node's key, cut where this node's range begins.
    pub fn up_to_own(&self, key: Key, end: Key) -> Key {
        // Without a predecessor that border is unknown: the arc ends before this node's own key.
        let before = self.predecessor.map(|node| self.space.key(node));
        let border = before.unwrap_or_else(|| self.key() - Key::from(1));
        if key.clockwise_to(border) < key.clockwise_to(end) { border } else { end }
    }

    // A message that came too far goes back to the predecessor, which is nearer to the key.
    fn step_back(&self, key: Key, leg: Leg) -> Option<Step> {
        match (leg, self.predecessor) {
            (Leg::Way, _) => None,
            (Leg::Last, None) => Some(Step { hop: Hop::Here, until: Key::MAX }),
            (Leg::Last, Some(node)) => {
                Some(Step::through(Hop::Via(node), key, self.space.key(node)))
            }
        }
    }

    /// The nodes to which a message that came on this leg may go, the one that [`Place::step`]
    /// named first.
    pub fn candidates(&self, came: Leg, hop: Hop, count: usize, out: &mut Vec<NodeId>) {
        match (hop, came) {
            (Hop::Here, _) => {}
            (Hop::Via(_), Leg::Way) => out.extend(self.successors.iter().take(count)),
            (Hop::Via(node), Leg::Last) => out.extend(Some(node).filter(|_| count > 0)),
        }
    }

    /// True if the key is known to lie between the predecessor and this node.
    pub fn owns(&self, key: Key) -> bool {
        let own = self.key();
        key == own || self.predecessor.is_some_and(|node| key.is_in(self.space.key(node), own))
    }

    /// True if this node knows where its range begins: it has a predecessor, or is alone.
    pub fn knows_its_part(&self) -> bool {
        self.predecessor.is_some() || self.successors.is_empty()
    }

    /// How far a node lies ahead.
    pub fn distance_to(&self, node: NodeId) -> Key {
        self.key().clockwise_to(self.space.key(node))
    }

    /// Where this node lies.
    pub fn key(&self) -> Key {
        self.space.key(self.own)
    }

    pub fn forget(&mut self, node: NodeId) {
        self.successors.remove(node);
        if self.claimant == Some(node) {
            self.claimant = None;
        }
        if self.predecessor == Some(node) {
            self.predecessor = self.claimant.take();
        }
    }

    /// Stabilises. Without a successor it looks for its place again, with the help of `contact`.
    pub fn upkeep(&self, contact: Option<NodeId>, out: &mut Vec<RouterAction>) {
        let whom = self.successors.first().copied().or(self.predecessor).or(contact);
        out.extend(whom.map(|node| RouterAction::Ask(node, TableQuery::Neighbours)));
    }

    pub fn neighbours(&self, out: &mut Vec<NodeId>) {
        out.push(self.predecessor.unwrap_or(self.own));
        out.extend(&*self.successors);
    }

    /// The predecessor, and the successors that hold copies.
    pub fn bordering(&self, copies: usize, out: &mut Vec<NodeId>) {
        out.extend(self.predecessor);
        out.extend(self.successors.iter().take(copies));
    }

    /// Handles the neighbours of `from`: its predecessor, or itself if it knows none, and its
    /// successors.
    pub fn on_neighbours(&mut self, from: NodeId, nodes: &[NodeId], out: &mut Vec<RouterAction>) {
        if from == self.own {
            return;
        }
        if self.predecessor == Some(from) {
            // It is still there, and nearer than the other claimant.
            self.claimant = None;
        }
        let predecessor = nodes.first().copied().filter(|&node| node != from);
        let list = nodes.get(1..).unwrap_or_default();
        let Some(&first) = self.successors.first() else {
            return self.join(from, predecessor, list, out);
        };
        let own = self.key();
        let (at, before) = (self.space.key(from), self.space.key(first));
        if from != first && !at.is_between(own, before) {
            return;
        }
        if list.is_empty() && self.successors.len() > 1 {
            // It restarted and has no position on the ring yet, although others still name it.
            self.successors.remove(from);
            return;
        }
        self.successors = self.list_after(Some(from), list);
        if let Some(nearer) = predecessor.filter(|&node| self.space.key(node).is_between(own, at)) {
            out.push(RouterAction::Ask(nearer, TableQuery::Neighbours));
        }
        out.push(RouterAction::Notify(from));
    }

    // A joiner copies the list of the member after which it lies, which is its predecessor.
    fn join(
        &mut self,
        member: NodeId,
        before: Option<NodeId>,
        list: &[NodeId],
        out: &mut Vec<RouterAction>,
    ) {
        let (own, at) = (self.key(), self.space.key(member));
        // The member may know this node already.
        let is_known = list.first() == Some(&self.own);
        let next = list.first().map_or(at, |&node| self.space.key(node));
        if is_known || own.is_between(at, next) {
            self.successors = self.list_after(None, &list[usize::from(is_known)..]);
            if self.successors.is_empty() {
                self.successors.push(member);
            }
            self.predecessor = Some(member);
            out.push(RouterAction::Ask(self.successors[0], TableQuery::Neighbours));
            return;
        }
        let is_ahead = |node: &NodeId| own.is_between(self.space.key(*node), at);
        let nearer = before.filter(is_ahead).or_else(|| {
            let is_on_the_way = |node: &&NodeId| self.space.key(**node).is_between(at, own);
            list.iter()
                .filter(is_on_the_way)
                .max_by_key(|&&node| at.clockwise_to(self.space.key(node)))
                .copied()
        });
        out.extend(nearer.map(|node| RouterAction::Ask(node, TableQuery::Neighbours)));
    }

    // The first node and the list after it, up to where distances stop rising: there the ring wraps
    // around.
    fn list_after(&self, first: Option<NodeId>, list: &[NodeId]) -> List<SUCCESSORS_MAX> {
        let mut end = first.map_or(Key::ZERO, |node| self.distance_to(node));
        let rises = |node: &NodeId| {
            let distance = self.distance_to(*node);
            let rises = distance > end;
            end = distance;
            rises
        };
        self.successors.with(first.into_iter().chain(list.iter().copied().take_while(rises)))
    }

    /// A node claims to be the predecessor.
    pub fn on_notify(&mut self, by: NodeId, out: &mut Vec<RouterAction>) {
        if by == self.own {
            return;
        }
        match self.predecessor {
            Some(node) if node == by => {}
            Some(node) if !self.space.key(by).is_between(self.space.key(node), self.key()) => {
                self.claimant = Some(by);
                out.push(RouterAction::Ask(node, TableQuery::Neighbours));
            }
            _ => self.predecessor = Some(by),
        }
        if self.successors.is_empty() {
            out.push(RouterAction::Ask(by, TableQuery::Neighbours));
        }
    }
}
