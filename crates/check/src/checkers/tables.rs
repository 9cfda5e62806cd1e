//! What a routing table must hold once every node knows every other.

use std::any::Any;
use std::collections::BTreeSet;

use paceline_proto::core::NodeId;
use paceline_proto::overlay::{
    Algorithm, Chord, Kademlia, Key, Koorde, Pastry, Router, Space, Tapestry,
};

/// What is not as it should be, of the table of node `own`. `ring` holds all members, sorted by
/// key.
///
/// # Panics
/// If the table is of none of the five algorithms.
pub fn fault(
    router: &dyn Router,
    space: Space,
    own: NodeId,
    ring: &[(Key, NodeId)],
) -> Option<String> {
    let table: &dyn Any = router;
    match router.algorithm() {
        Algorithm::Chord => of::<Chord>(table).fault(space, own, ring),
        Algorithm::Koorde => of::<Koorde>(table).fault(space, own, ring),
        Algorithm::Pastry => of::<Pastry>(table).fault(space, own, ring),
        Algorithm::Tapestry => of::<Tapestry>(table).fault(space, own, ring),
        Algorithm::Kademlia => of::<Kademlia>(table).fault(space, own, ring),
    }
}

/// The nodes that follow on the ring, if the algorithm has one.
pub fn successors(router: &dyn Router) -> Option<&[NodeId]> {
    let table: &dyn Any = router;
    let chord = table.downcast_ref().map(Chord::successors);
    chord.or_else(|| table.downcast_ref().map(Koorde::successors))
}

fn of<R: Router>(table: &dyn Any) -> &R {
    table.downcast_ref().expect("a table is what its algorithm says")
}

/// A routing table that can be compared with the nodes there are.
trait Table {
    /// What is not as it should be, of the table of the node with this key.
    fn fault(&self, space: Space, own: NodeId, ring: &[(Key, NodeId)]) -> Option<String>;
}

/// The `count` nodes after (or before) a node on the ring.
fn around(ring: &[(Key, NodeId)], own: Key, count: usize, is_ahead: bool) -> Vec<NodeId> {
    let at = ring.partition_point(|&(key, _)| key < own);
    let len = ring.len();
    let count = count.min(len.saturating_sub(1));
    let step = |steps: usize| if is_ahead { at + steps } else { at + len - steps };
    (1..=count).map(|steps| ring[step(steps) % len].1).collect()
}

fn ring_fault(
    own: Key,
    ring: &[(Key, NodeId)],
    successors: &[NodeId],
    predecessor: Option<NodeId>,
) -> Option<String> {
    let right = around(ring, own, 8, true);
    if successors != right {
        return Some(format!("successors {successors:?}, not {right:?}"));
    }
    let right = around(ring, own, 1, false).first().copied();
    (predecessor != right).then(|| format!("predecessor {predecessor:?}, not {right:?}"))
}

/// The first node at least 2^i ahead for each i, each named once, without those that the list of
/// 8 successors covers: of one whose distance is 2^(i+1) or more, finger i+1 is the same or nearer.
fn fingers_of(own: Key, ring: &[(Key, NodeId)]) -> Vec<NodeId> {
    let bits = |node: Key| Key::BITS - own.clockwise_to(node).leading_zeros();
    let successors = around(ring, own, 8, true);
    let covered = successors.last().map_or(0, |last| {
        let at = ring.iter().find(|(_, node)| node == last);
        at.map_or(0, |&(key, _)| bits(key))
    });
    let finger = |power: u32| {
        let target = own + Key::power_of_two(power);
        let at = ring.partition_point(|&(key, _)| key < target);
        let (key, node) = ring[at % ring.len()];
        (bits(key) == power + 1).then_some(node)
    };
    (covered..Key::BITS).filter_map(finger).collect()
}

/// Nodes in the table that are no members.
fn dead(router: &dyn Router, ring: &[(Key, NodeId)]) -> Option<String> {
    let mut contacts = Vec::new();
    router.contacts(&mut contacts);
    let members: BTreeSet<NodeId> = ring.iter().map(|&(_, node)| node).collect();
    let dead: Vec<NodeId> = contacts.into_iter().filter(|node| !members.contains(node)).collect();
    (!dead.is_empty()).then(|| format!("{dead:?} are no members"))
}

/// Parts of the space, each with nodes in it, of which the table knows none.
fn gaps(
    ring: &[(Key, NodeId)],
    own: NodeId,
    entries: &[NodeId],
    space: Space,
    part: impl Fn(Key) -> (u32, u8),
) -> Option<String> {
    let known: BTreeSet<_> = entries.iter().map(|&node| part(space.key(node))).collect();
    let others = ring.iter().filter(|&&(_, node)| node != own);
    let missing: BTreeSet<_> =
        others.map(|&(key, _)| part(key)).filter(|part| !known.contains(part)).collect();
    (!missing.is_empty()).then(|| format!("nothing in {missing:?}"))
}

/// The digits shared with `own`, and the one after them.
fn cell(own: Key) -> impl Fn(Key) -> (u32, u8) {
    move |key| {
        let row = own.digits_shared(key).min(Key::DIGITS - 1);
        (row, key.digit(row))
    }
}

impl Table for Chord {
    fn fault(&self, space: Space, own: NodeId, ring: &[(Key, NodeId)]) -> Option<String> {
        let key = space.key(own);
        let right = fingers_of(key, ring);
        let fingers = self.fingers();
        let fault = || (fingers != right).then(|| format!("fingers {fingers:?}, not {right:?}"));
        let ring_fault = ring_fault(key, ring, self.successors(), self.predecessor());
        ring_fault.or_else(|| dead(self, ring)).or_else(fault)
    }
}

impl Table for Koorde {
    fn fault(&self, space: Space, own: NodeId, ring: &[(Key, NodeId)]) -> Option<String> {
        let key = space.key(own);
        ring_fault(key, ring, self.successors(), self.predecessor()).or_else(|| {
            // The last node at or before the doubled place, and the two after it.
            let before = ring.partition_point(|&(other, _)| other <= key.shifted_left(1));
            let first = before + ring.len() - 1;
            let count = if ring.len() > 1 { ring.len().min(3) } else { 0 };
            let right: Vec<_> = (0..count).map(|at| ring[(first + at) % ring.len()].1).collect();
            let edges = self.edges();
            (edges != right).then(|| format!("edges {edges:?}, not {right:?}"))
        })
    }
}

impl Table for Pastry {
    fn fault(&self, space: Space, own: NodeId, ring: &[(Key, NodeId)]) -> Option<String> {
        let key = space.key(own);
        let (lower, upper) = self.leaves();
        for (leaves, is_ahead) in [(lower, false), (upper, true)] {
            let right = around(ring, key, 4, is_ahead);
            if leaves != right {
                return Some(format!("leaves {leaves:?}, not {right:?}"));
            }
        }
        let mut contacts = Vec::new();
        self.contacts(&mut contacts);
        dead(self, ring).or_else(|| gaps(ring, own, &contacts, space, cell(key)))
    }
}

impl Table for Tapestry {
    fn fault(&self, space: Space, own: NodeId, ring: &[(Key, NodeId)]) -> Option<String> {
        let key = space.key(own);
        dead(self, ring).or_else(|| gaps(ring, own, self.entries(), space, cell(key)))
    }
}

impl Table for Kademlia {
    fn fault(&self, space: Space, own: NodeId, ring: &[(Key, NodeId)]) -> Option<String> {
        let key = space.key(own);
        let bucket = |other: Key| ((key ^ other).leading_zeros(), 0);
        dead(self, ring).or_else(|| gaps(ring, own, self.entries(), space, bucket))
    }
}
