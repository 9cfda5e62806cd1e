use std::ops::Range;

use crate::core::NodeId;

/// A table of cells, in each a few nodes in order; empty cells take no room.
///
/// It is one run of handles: the cell of a node follows from its key, so neither cells nor lengths
/// are stored, and finding a cell is a binary search that computes a key at each probe. The
/// function from node to cell, always the same one, is the owner's.
#[derive(Clone, Debug, Default)]
pub(super) struct Cells {
    nodes: Vec<NodeId>,
}

impl Cells {
    /// All nodes, cell after cell.
    pub fn all(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Where the nodes of these cells stand among all.
    pub fn range(&self, cells: Range<u16>, cell_of: impl Fn(NodeId) -> u16) -> Range<usize> {
        let start = self.nodes.partition_point(|&node| cell_of(node) < cells.start);
        let len = self.nodes[start..].partition_point(|&node| cell_of(node) < cells.end);
        start..start + len
    }

    /// The nodes of one cell.
    pub fn cell(&self, cell: u16, cell_of: impl Fn(NodeId) -> u16) -> &[NodeId] {
        &self.nodes[self.range(cell..cell + 1, cell_of)]
    }

    /// The first cell at or after this one that is not empty, with its nodes' first.
    pub fn first_from(&self, cell: u16, cell_of: impl Fn(NodeId) -> u16) -> Option<(u16, NodeId)> {
        let start = self.nodes.partition_point(|&node| cell_of(node) < cell);
        self.nodes.get(start).map(|&node| (cell_of(node), node))
    }

    /// Puts a node at this place among all.
    pub fn insert(&mut self, at: usize, node: NodeId) {
        if self.nodes.len() == self.nodes.capacity() {
            // A table of a million nodes must not be half empty.
            self.nodes.reserve_exact(1 + self.nodes.len() / 8);
        }
        self.nodes.insert(at, node);
    }

    /// Removes the nodes at these places.
    pub fn remove(&mut self, places: Range<usize>) {
        self.nodes.drain(places);
    }

    /// Moves the node at the start of these places to their end.
    pub fn rotate(&mut self, places: Range<usize>) {
        self.nodes[places].rotate_left(1);
    }

    /// Replaces everything. The nodes are in the order of their cells.
    pub fn replace(&mut self, nodes: Vec<NodeId>) {
        self.nodes = nodes;
        self.nodes.shrink_to_fit();
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<NodeId>()
    }
}
