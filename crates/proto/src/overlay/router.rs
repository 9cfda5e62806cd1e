use std::any::Any;

use super::{Algorithm, Key, Space, Walk};
use crate::core::NodeId;

/// The routing table of one algorithm at one node, and what keeps it right.
///
/// It sends no message: it returns [`RouterAction`]s where messages are needed, and the caller
/// passes the answers back in. The same calls in the same order give the same table. [`Any`], so
/// that a checker can look at the table of a known algorithm.
pub trait Router: Any + Send + Sync {
    /// The algorithm whose table it is.
    fn algorithm(&self) -> Algorithm;

    /// True if a message to `key` that arrived at `from.0` carrying `from.1` may go on to `to.0`
    /// carrying `to.1`: it has less left to go there. Requesters ask this of nodes that others
    /// name, so that a wrong answer does not lead a request in circles.
    fn advances(&self, key: Key, from: (Key, Walk), to: (Key, Walk)) -> bool {
        let remaining = |(at, walk)| self.algorithm().remaining(key, at, walk);
        remaining(to) < remaining(from)
    }

    /// Where a message to `key` goes from here. `walk` is the walk that it came with, and is
    /// updated to the one that it carries on.
    fn next_hop(&self, key: Key, walk: &mut Walk) -> Step;

    /// Up to `count` nodes to which a message to `key` may go from here, the best first, which is
    /// the one that [`Router::next_hop`] names; none if this node is responsible. `walk` becomes
    /// what the message carries to whichever of them.
    fn candidates(&self, key: Key, walk: &mut Walk, count: usize, out: &mut Vec<NodeId>);

    /// The `count` nodes that hold copies of `key`, the responsible one first, as far as this
    /// table knows: exact at a responsible node whose table is right.
    fn replicas(&self, key: Key, count: usize, out: &mut Vec<NodeId>);

    /// Takes a node that was just heard from. If the table is full where it belongs, returns the
    /// node to ping: if that does not answer, `forget` it and call again.
    fn learn(&mut self, node: NodeId) -> Option<NodeId>;

    /// A node does not answer. It is no longer in the table afterwards.
    fn forget(&mut self, node: NodeId);

    /// Actions of one turn of upkeep. Turns are numbered from 0, when the node has just become a
    /// member; the table is right some turns after the last join or failure.
    fn upkeep(&mut self, turn: u64, out: &mut Vec<RouterAction>);

    /// Appends this table's answer to a query of another node.
    fn answer_query(&self, query: TableQuery, out: &mut Vec<NodeId>);

    /// The nodes whose arrival or departure changes this node's range of keys, or the replica set
    /// of that range, `copies` nodes in all.
    fn bordering(&self, _copies: usize, out: &mut Vec<NodeId>) {
        self.answer_query(TableQuery::Neighbours, out);
    }

    /// Takes the answer of another node. [`Router::learn`] takes the fact that it was heard from.
    fn on_answer(
        &mut self,
        from: NodeId,
        query: TableQuery,
        nodes: &[NodeId],
        out: &mut Vec<RouterAction>,
    );

    /// The result of [`RouterAction::Find`]: the node responsible for the key. A joiner asks
    /// another node to look up the joiner's key, and begins with the node that was found.
    fn on_found(&mut self, key: Key, node: NodeId, out: &mut Vec<RouterAction>);

    /// Another node considers itself this one's neighbour ([`RouterAction::Notify`]). The router
    /// asks nodes whose answers verify that.
    fn on_notify(&mut self, by: NodeId, out: &mut Vec<RouterAction>);

    /// True if the table has its place among other nodes. A node that has no place, or lost it,
    /// answers no requests, takes no messages, and joins again: two such nodes that helped each
    /// other would form a separate overlay. Only the first node of an overlay may be alone.
    fn has_joined(&self) -> bool;

    /// True if the table knows where this node's range of keys begins. Default: always.
    fn knows_its_part(&self) -> bool {
        true
    }

    /// Every node in the table, each once, in no particular order.
    fn contacts(&self, out: &mut Vec<NodeId>);

    /// Fills the table as it is once all nodes know each other. `ring` holds all nodes with their
    /// keys, sorted by key.
    fn fill(&mut self, ring: &[(Key, NodeId)]);

    /// Bytes that the table holds on the heap.
    fn heap_bytes(&self) -> usize;
}

/// Where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hop {
    /// Nowhere: this node is responsible.
    Here,
    /// To this node.
    Via(NodeId),
}

/// One look-up in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Where the message goes.
    pub hop: Hop,
    /// The answer is the same for every key from the one looked up to this one, in numerical
    /// order, if it carries the same walk. At least the key itself.
    pub until: Key,
}

impl Step {
    /// A step of all keys from `key`, going up, through `end`. The order ends at the largest key
    /// even where the arc goes on.
    pub fn through(hop: Hop, key: Key, end: Key) -> Step {
        Step { hop, until: if end < key { Key::MAX } else { end } }
    }
}

/// An action that a table requests. It may request the same again before it is done: doing it once
/// is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouterAction {
    /// Ask a node. It counts as failed if it does not answer.
    Ask(NodeId, TableQuery),
    /// Find the node responsible for a key.
    Find(Key),
    /// Tell a node that this one exists and may be its neighbour.
    Notify(NodeId),
}

/// A query of one node about the table of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableQuery {
    /// Its nearest neighbours: what a joiner beside it needs. On a ring the predecessor, or the
    /// node itself if it knows none, and then the successors in order.
    Neighbours,
    /// The nodes that share this many first digits with the asker's key, this key.
    Row(u8, Key),
    /// The nodes nearest to a key.
    Nearest(Key),
}

/// Of the nodes from place `start` on, keeps the `count` nearest to being responsible for `key`,
/// the nearest first.
pub(super) fn keep_nearest(
    algorithm: Algorithm,
    space: &Space,
    key: Key,
    count: usize,
    start: usize,
    out: &mut Vec<NodeId>,
) {
    let mut nodes: Vec<(Key, NodeId)> =
        out.drain(start..).map(|node| (algorithm.distance(key, space.key(node)), node)).collect();
    keep_least(count, &mut nodes);
    out.extend(nodes.into_iter().map(|(_, node)| node));
}

/// Keeps the `count` nodes with the least distances, the least first.
pub(super) fn keep_least(count: usize, nodes: &mut Vec<(Key, NodeId)>) {
    if count < nodes.len() {
        nodes.select_nth_unstable(count);
        nodes.truncate(count);
    }
    nodes.sort_unstable();
}

/// Keeps each of the nodes from place `start` on once, in the order of their handles.
pub(super) fn keep_distinct(start: usize, out: &mut Vec<NodeId>) {
    out[start..].sort_unstable();
    let mut kept = start;
    for at in start..out.len() {
        if kept == start || out[kept - 1] != out[at] {
            out[kept] = out[at];
            kept += 1;
        }
    }
    out.truncate(kept);
}
