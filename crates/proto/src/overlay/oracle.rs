use super::{Algorithm, Key, Space};
use crate::core::NodeId;

/// All nodes of an overlay, sorted by key: gives the node responsible for a key without a hop.
///
/// It knows nothing of an algorithm but its [`Algorithm::distance`].
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
    pub fn responsible(&self, algorithm: Algorithm, key: Key) -> Option<NodeId> {
        self.holders(algorithm, key, 1).first().copied()
    }

    /// The `count` nodes that hold copies of a key, the responsible one first. Takes time in
    /// proportion to `count` and the logarithm of the number of nodes.
    pub fn holders(&self, algorithm: Algorithm, key: Key, count: usize) -> Vec<NodeId> {
        let distance = |entry: &(Key, NodeId)| algorithm.distance(key, entry.0);
        // By numbers, they are around the key.
        let len = self.ring.len();
        let at = place_of(&self.ring, key);
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

/// The place of the first node at or after a key, of all nodes sorted by key.
///
/// Keys are spread evenly, so it is near to where a key would be if they were spread exactly so;
/// and nearer to where it would be if they were from there on. Half a dozen looks rather than
/// twenty, which tell when a million tables are filled.
pub(super) fn place_of(ring: &[(Key, NodeId)], key: Key) -> usize {
    let Some(last) = ring.len().checked_sub(1) else { return 0 };
    let target = key.prefix(64);
    let share = |of: u64| ((u128::from(of) * ring.len() as u128) >> 64) as usize;
    let mut guess = share(target);
    for _ in 0..2 {
        let at = ring[guess].0.prefix(64);
        guess = if at <= target {
            (guess + share(target - at)).min(last)
        } else {
            guess.saturating_sub(share(at - target))
        };
    }
    let (mut start, mut end, mut step) = (guess, guess, 8);
    while start > 0 && ring[start - 1].0 >= key {
        (start, step) = (start.saturating_sub(step), 2 * step);
    }
    while end < ring.len() && ring[end].0 < key {
        (end, step) = ((end + step).min(ring.len()), 2 * step);
    }
    start + ring[start..end].partition_point(|&(other, _)| other < key)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_where_a_search_finds_it() {
        for count in [0, 1, 2, 3, 50, 3000] {
            let space = Space::new(count);
            let oracle = Oracle::new(space, (0..count).map(NodeId));
            let ring = oracle.ring();
            let others = (5000..5300).map(|node| space.key(NodeId(node)));
            let own = ring.iter().flat_map(|&(key, _)| [key, key + Key::from(1)]);
            for key in others.chain(own).chain([Key::ZERO, Key::MAX]) {
                let searched = ring.partition_point(|&(other, _)| other < key);
                assert_eq!(place_of(ring, key), searched, "{key} of {count}");
            }
        }
    }
}
