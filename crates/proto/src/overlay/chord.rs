use super::cells::Cells;
use super::oracle::place_of;
use super::place::Place;
use super::{
    Algorithm, Hop, Key, Router, RouterAction, Shape, Space, Step, TableQuery, Walk, keep_distinct,
    keep_nearest,
};
use crate::core::NodeId;

/// Nodes in an answer that names the nodes nearest to a key.
const NEAREST: usize = 8;
/// Fingers looked up per turn.
const FINGERS_A_TURN: u64 = 3;

/// Chord: a key belongs to its successor on the ring, and fingers halve the distance to it.
///
/// Finger i is the first node at least 2^i ahead. Nodes at distances that share their highest bit
/// would be the same finger, so the table keeps the nearest of each; those that the successor list
/// covers are left out. Source: Stoica et al., *Chord: A Scalable Peer-to-peer Lookup Protocol for
/// Internet Applications*, IEEE/ACM Transactions on Networking 11(1), 2003.
///
/// A message goes to the last known node before its key, finger or successor. The node that has
/// the key between itself and its successor sends it there, and says so
/// ([`Leg::Last`](super::Leg::Last)): if that one knows of a better node before itself, because
/// the sender's list was old, it passes the message back.
#[derive(Clone, Debug)]
pub struct Chord {
    place: Place,
    /// By distance; the cell is the number of the distance's highest bit.
    fingers: Cells,
}

impl Chord {
    /// The table of a node that knows no other yet.
    pub fn new(space: Space, own: NodeId, shape: Shape) -> Chord {
        Chord { place: Place::new(space, own, shape.successors), fingers: Cells::default() }
    }

    /// The nodes that follow on the ring, as far as known.
    pub fn successors(&self) -> &[NodeId] {
        &self.place.successors
    }

    /// The node before this one on the ring, if known.
    pub fn predecessor(&self) -> Option<NodeId> {
        self.place.predecessor
    }

    /// The fingers beyond the successors, by distance.
    pub fn fingers(&self) -> &[NodeId] {
        self.fingers.all()
    }

    // The first finger that lies beyond the successor list.
    fn first_finger(&self) -> u32 {
        let last = self.place.successors.last();
        last.map_or(0, |&last| Key::BITS - self.place.distance_to(last).leading_zeros())
    }

    // How many fingers and successors lie before the key.
    fn preceding(&self, key: Key) -> (usize, usize) {
        let distance = self.place.key().clockwise_to(key);
        let is_before = |node: &NodeId| self.place.distance_to(*node) < distance;
        let fingers = self.fingers.all().partition_point(is_before);
        (fingers, self.place.successors.partition_point(is_before))
    }

    // Where a message goes for which the ring neighbours do not suffice.
    fn step_far(&self, key: Key) -> Step {
        let (fingers, successors) = self.preceding(key);
        let last = |nodes: &[NodeId]| nodes.last().copied();
        let before =
            [last(&self.fingers.all()[..fingers]), last(&self.place.successors[..successors])];
        let best = before.into_iter().flatten().max_by_key(|&node| self.place.distance_to(node));
        let after = [self.fingers.all().get(fingers), self.place.successors.get(successors)];
        let next = after.into_iter().flatten().min_by_key(|&&node| self.place.distance_to(node));
        let end = next.map_or(self.place.key(), |&node| self.place.space.key(node));
        let hop = best.map_or(Hop::Here, Hop::Via);
        Step::through(hop, key, self.place.up_to_own(key, end))
    }

    fn cell_of(place: &Place) -> impl Fn(NodeId) -> u16 + use<> {
        let (space, own) = (place.space, place.key());
        move |node| {
            let distance = own.clockwise_to(space.key(node));
            (Key::BITS - 1).saturating_sub(distance.leading_zeros()) as u16
        }
    }

    fn add_finger(&mut self, node: NodeId) {
        let place = &self.place;
        let cell_of = Chord::cell_of(place);
        let cell = cell_of(node);
        if node == place.own || u32::from(cell) < self.first_finger() {
            return;
        }
        // A finger in the same cell is next to the insertion point, and is usually the nearer one.
        let distance = place.distance_to(node);
        let fingers = self.fingers.all();
        let at = fingers.partition_point(|&finger| place.distance_to(finger) < distance);
        if at > 0 && cell_of(fingers[at - 1]) == cell || fingers.get(at) == Some(&node) {
            return;
        }
        if fingers.get(at).is_some_and(|&finger| cell_of(finger) == cell) {
            self.fingers.remove(at..at + 1);
        }
        self.fingers.insert(at, node);
    }
}

impl Router for Chord {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Chord
    }

    fn next_hop(&self, key: Key, walk: &mut Walk) -> Step {
        let mut leg = walk.leg();
        let step = self.place.step(key, &mut leg).unwrap_or_else(|| self.step_far(key));
        *walk = Walk::Leg(leg);
        step
    }

    fn candidates(&self, key: Key, walk: &mut Walk, count: usize, out: &mut Vec<NodeId>) {
        let came = walk.leg();
        let mut leg = came;
        let step = self.place.step(key, &mut leg);
        *walk = Walk::Leg(leg);
        if let Some(step) = step {
            return self.place.candidates(came, step.hop, count, out);
        }
        // Both lists ascend, so the farthest remaining node is the last of one of them.
        let (fingers, successors) = self.preceding(key);
        let at = |&node: &NodeId| (self.place.distance_to(node), node);
        let mut fingers = self.fingers.all()[..fingers].iter().rev().map(at).peekable();
        let mut successors = self.place.successors[..successors].iter().rev().map(at).peekable();
        let end = out.len() + count;
        while out.len() < end {
            let farthest = match (fingers.peek(), successors.peek()) {
                (Some(finger), Some(successor)) if finger < successor => successors.next(),
                (Some(finger), Some(successor)) => {
                    let is_same = finger == successor;
                    successors.next_if(|_| is_same);
                    fingers.next()
                }
                (Some(_), None) => fingers.next(),
                (None, _) => successors.next(),
            };
            let Some((_, node)) = farthest else { return };
            out.push(node);
        }
    }

    fn replicas(&self, key: Key, count: usize, out: &mut Vec<NodeId>) {
        let start = out.len();
        out.push(self.place.own);
        self.contacts(out);
        keep_nearest(Algorithm::Chord, &self.place.space, key, count, start, out);
    }

    fn learn(&mut self, node: NodeId) -> Option<NodeId> {
        self.add_finger(node);
        None
    }

    fn forget(&mut self, node: NodeId) {
        self.place.forget(node);
        if let Some(at) = self.fingers.all().iter().position(|&finger| finger == node) {
            self.fingers.remove(at..at + 1);
        }
    }

    fn upkeep(&mut self, turn: u64, out: &mut Vec<RouterAction>) {
        // Without successors, the last finger is the nearest known node before this one.
        self.place.upkeep(self.fingers.all().last().copied(), out);
        let first = self.first_finger();
        let count = u64::from(Key::BITS - first);
        for number in 0..FINGERS_A_TURN.min(count) {
            let finger =
                first + (turn.wrapping_mul(FINGERS_A_TURN).wrapping_add(number) % count) as u32;
            out.push(RouterAction::Find(self.place.key() + Key::power_of_two(finger)));
        }
    }

    fn answer_query(&self, query: TableQuery, out: &mut Vec<NodeId>) {
        match query {
            TableQuery::Neighbours => self.place.neighbours(out),
            TableQuery::Nearest(key) => self.replicas(key, NEAREST, out),
            TableQuery::Row(..) => {}
        }
    }

    fn bordering(&self, copies: usize, out: &mut Vec<NodeId>) {
        self.place.bordering(copies, out);
    }

    fn on_answer(
        &mut self,
        from: NodeId,
        query: TableQuery,
        nodes: &[NodeId],
        out: &mut Vec<RouterAction>,
    ) {
        if query == TableQuery::Neighbours {
            self.place.on_neighbours(from, nodes, out);
            // What the list covers is no finger.
            let first = self.first_finger() as u16;
            let covered = self.fingers.range(0..first, Chord::cell_of(&self.place));
            self.fingers.remove(covered);
        }
    }

    fn on_found(&mut self, key: Key, node: NodeId, out: &mut Vec<RouterAction>) {
        let own = self.place.key();
        if key == own {
            if self.place.successors.is_empty() && node != self.place.own {
                out.push(RouterAction::Ask(node, TableQuery::Neighbours));
            }
            return;
        }
        // No node lies between the key and `node`: fingers that point there have failed.
        let (from, to) = (own.clockwise_to(key), self.place.distance_to(node));
        let fingers = self.fingers.all();
        let before = |end: Key| fingers.partition_point(|&node| self.place.distance_to(node) < end);
        let start = before(from);
        let end = if to == Key::ZERO { fingers.len() } else { before(to) };
        self.fingers.remove(start..end.max(start));
        self.add_finger(node);
    }

    fn on_notify(&mut self, by: NodeId, out: &mut Vec<RouterAction>) {
        self.place.on_notify(by, out);
    }

    fn has_joined(&self) -> bool {
        !self.place.successors.is_empty()
    }

    fn knows_its_part(&self) -> bool {
        self.place.knows_its_part()
    }

    fn contacts(&self, out: &mut Vec<NodeId>) {
        let start = out.len();
        out.extend(&*self.place.successors);
        out.extend(self.fingers.all());
        out.extend(self.place.predecessor);
        keep_distinct(start, out);
    }

    fn fill(&mut self, ring: &[(Key, NodeId)]) {
        self.place.fill(ring);
        let own = self.place.key();
        let mut fingers = Vec::new();
        for finger in self.first_finger()..Key::BITS {
            let target = own + Key::power_of_two(finger);
            let at = place_of(ring, target) % ring.len();
            let distance = own.clockwise_to(ring[at].0);
            // A node farther than twice as far is a finger of a higher number as well, or this one.
            if distance.leading_zeros() == Key::BITS - 1 - finger {
                fingers.push(ring[at].1);
            }
        }
        self.fingers.replace(fingers);
    }

    fn heap_bytes(&self) -> usize {
        self.fingers.heap_bytes()
    }
}
