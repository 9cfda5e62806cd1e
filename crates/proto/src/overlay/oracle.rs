use super::{Key, Router, Space};
use crate::core::NodeId;

/// All nodes of an overlay, sorted by key: who is responsible for what, without a hop.
///
/// It knows nothing of an algorithm but its [`Router::distance`].
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    ring: Vec<(Key, NodeId)>,
}

impl Oracle {
    /// These nodes.
    pub fn new(space: Space, nodes: impl IntoIterator<Item = NodeId>) -> Oracle {
        let mut ring: Vec<_> = nodes.into_iter().map(|node| (space.key(node), node)).collect();
        ring.sort_unstable();
        ring.dedup();
        Oracle { ring }
    }

    /// A node more.
    pub fn insert(&mut self, space: Space, node: NodeId) {
        let entry = (space.key(node), node);
        if let Err(at) = self.ring.binary_search(&entry) {
            self.ring.insert(at, entry);
        }
    }

    /// A node less.
    pub fn remove(&mut self, space: Space, node: NodeId) {
        if let Ok(at) = self.ring.binary_search(&(space.key(node), node)) {
            self.ring.remove(at);
        }
    }

    /// All nodes with their keys, sorted by key.
    pub fn ring(&self) -> &[(Key, NodeId)] {
        &self.ring
    }

    /// The node responsible for a key, if there is any.
    pub fn responsible<R: Router>(&self, key: Key) -> Option<NodeId> {
        self.holders::<R>(key, 1).first().copied()
    }

    /// The `count` nodes that hold copies of a key, the responsible one first. Takes time in
    /// proportion to `count` and the logarithm of the number of nodes.
    pub fn holders<R: Router>(&self, key: Key, count: usize) -> Vec<NodeId> {
        let distance = |entry: &(Key, NodeId)| R::distance(key, entry.0);
        // By numbers, they are around the key.
        let len = self.ring.len();
        let at = self.ring.partition_point(|&(other, _)| other < key);
        let mut holders: Vec<(Key, NodeId)> = (0..len.min(2 * count))
            .map(|steps| self.ring[(at + len - count.min(len) + steps) % len])
            .collect();
        // By prefixes, they are where ever more digits are as near as they can be.
        let (mut nodes, mut digits) = (&self.ring[..], 0);
        while nodes.len() > count.max(16) && digits < Key::DIGITS {
            let best = parts(nodes, digits).min_by_key(|part| distance(&part[0]));
            let best = best.unwrap_or_default();
            if best.len() < count {
                break;
            }
            (nodes, digits) = (best, digits + 1);
        }
        holders.extend(nodes);
        holders.sort_unstable_by_key(distance);
        holders.dedup();
        holders.truncate(count);
        holders.into_iter().map(|(_, node)| node).collect()
    }
}

/// Nodes sorted by key that share their first digits, parted by the next one.
pub(super) fn parts(nodes: &[(Key, NodeId)], place: u32) -> impl Iterator<Item = &[(Key, NodeId)]> {
    let mut rest = nodes;
    std::iter::from_fn(move || {
        let digit = rest.first()?.0.digit(place);
        let part;
        (part, rest) = rest.split_at(rest.partition_point(|(key, _)| key.digit(place) == digit));
        Some(part)
    })
}
