use std::collections::BTreeMap;

use super::Key;
use crate::core::NodeId;

/// Ranges of keys and their responsible nodes, learned from results: MARIF's range feedback. May be
/// out of date.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges {
    // By the last key: the first, and the node.
    ranges: BTreeMap<Key, (Key, NodeId)>,
}

impl Ranges {
    /// The node that claimed to be responsible for this key.
    pub(super) fn node(&self, key: Key) -> Option<NodeId> {
        let (_, &(first, node)) = self.ranges.range(key..).next()?;
        (first <= key).then_some(node)
    }

    /// Notes a range, in the place of what overlaps it; in the place of another if there are
    /// `max`.
    pub(super) fn learn(&mut self, first: Key, last: Key, node: NodeId, max: usize) {
        if first > last {
            return;
        }
        let mut first = first;
        while let Some((&old_last, &(old_first, old_node))) = self.ranges.range(first..).next() {
            if old_first > last {
                break;
            }
            self.ranges.remove(&old_last);
            if old_node == node && old_last == last {
                first = first.min(old_first);
            }
        }
        if self.ranges.len() >= max {
            // Evict the next range: as good as any, and needs no other state.
            let next = self.ranges.range(last..).next().or(self.ranges.first_key_value());
            if let Some((&key, _)) = next {
                self.ranges.remove(&key);
            }
        }
        self.ranges.insert(last, (first, node));
    }

    /// Forgets the claims of a node.
    pub(super) fn forget(&mut self, node: NodeId) {
        if !self.ranges.is_empty() {
            self.ranges.retain(|_, (_, named)| *named != node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        let mut bytes = [0; Key::BYTES];
        bytes[..4].copy_from_slice(&n.to_be_bytes());
        Key::from_bytes(bytes)
    }

    #[test]
    fn the_latest_word_on_a_range_stands() {
        let mut ranges = Ranges::default();
        ranges.learn(key(10), key(20), NodeId(1), 8);
        assert_eq!(ranges.node(key(15)), Some(NodeId(1)));
        assert_eq!((ranges.node(key(9)), ranges.node(key(21))), (None, None));
        // A range of the same node with the same end grows.
        ranges.learn(key(12), key(20), NodeId(1), 8);
        assert_eq!(ranges.node(key(10)), Some(NodeId(1)));
        ranges.learn(key(14), key(17), NodeId(2), 8);
        assert_eq!(ranges.node(key(15)), Some(NodeId(2)));
        assert_eq!(ranges.node(key(10)), None);
        ranges.forget(NodeId(2));
        assert_eq!(ranges.node(key(15)), None);
    }

    #[test]
    fn no_more_is_kept_than_was_allowed() {
        let mut ranges = Ranges::default();
        (0..100).for_each(|n| ranges.learn(key(10 * n), key(10 * n + 5), NodeId::from(n), 8));
        assert_eq!(ranges.ranges.len(), 8);
    }
}
