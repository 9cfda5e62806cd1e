use std::ops::Deref;

use crate::core::NodeId;

/// At most `max` nodes in order, in place: a table of a few entries that takes no heap. `max` is at
/// most `N`.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<const N: usize> {
    nodes: [NodeId; N],
    len: u8,
    max: u8,
}

impl<const N: usize> List<N> {
    /// No nodes, and room for `max`.
    pub fn new(max: usize) -> List<N> {
        debug_assert!(max <= N, "the configuration was checked");
        List { nodes: [NodeId(0); N], len: 0, max: max.min(N) as u8 }
    }

    /// The first of these nodes, as many as have room in this list.
    pub fn with(&self, nodes: impl IntoIterator<Item = NodeId>) -> List<N> {
        let mut list = List::new(self.max());
        nodes.into_iter().take(self.max()).for_each(|node| list.push(node));
        list
    }

    /// How many nodes have room.
    pub fn max(&self) -> usize {
        self.max.into()
    }

    /// True if there is no room for another node.
    pub fn is_full(&self) -> bool {
        self.len() == self.max()
    }

    /// Appends a node, if there is room.
    pub fn push(&mut self, node: NodeId) {
        self.insert(self.len(), node);
    }

    /// Puts a node at this place. The last one falls out of a full list.
    pub fn insert(&mut self, at: usize, node: NodeId) {
        if at < self.max() {
            let end = self.len().min(self.max() - 1);
            self.nodes.copy_within(at..end, at + 1);
            self.nodes[at] = node;
            self.len = end as u8 + 1;
        }
    }

    /// Removes a node, if it is in the list.
    pub fn remove(&mut self, node: NodeId) {
        if let Some(at) = self.iter().position(|&entry| entry == node) {
            self.nodes.copy_within(at + 1.., at);
            self.len -= 1;
        }
    }
}

impl<const N: usize> Deref for List<N> {
    type Target = [NodeId];

    fn deref(&self) -> &[NodeId] {
        &self.nodes[..usize::from(self.len)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_list_loses_its_last_and_order_is_kept() {
        let mut list: List<5> = List::new(3).with([1, 2, 4].map(NodeId));
        assert!(list.is_full());
        list.insert(2, NodeId(3));
        assert_eq!(list[..], [1, 2, 3].map(NodeId));
        list.push(NodeId(9));
        list.insert(0, NodeId(0));
        assert_eq!(list[..], [0, 1, 2].map(NodeId));
        list.remove(NodeId(1));
        list.remove(NodeId(7));
        assert_eq!(list[..], [0, 2].map(NodeId));
        list.insert(0, NodeId(5));
        assert_eq!(list[..], [5, 0, 2].map(NodeId));
    }
}
