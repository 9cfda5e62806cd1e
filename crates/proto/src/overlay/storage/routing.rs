//! The interface between storage and routing.

use std::time::Duration;

use crate::core::NodeId;
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{Answer, PutAnswer, PutIfAnswer, Record, ScanAnswer};
use crate::overlay::{Cx, Hop, Key, Router, Step, counters};
use crate::parts::rtt::Rtt;

/// What storage knows of routing while it handles an input, and what it asks the node to do.
///
/// Storage sends nothing itself: it appends a [`StorageAction`] for each message, look-up and
/// answer. The node carries the actions out, in order, as soon as the input is handled, so that
/// their effects on storage are inputs of their own.
pub(in crate::overlay) struct Routing<'a> {
    table: &'a dyn Router,
    is_member: bool,
    rtt: &'a Rtt<1_000>,
    room: usize,
    actions: Vec<StorageAction>,
}

/// What storage asks the node to do.
#[derive(Debug)]
pub(in crate::overlay) enum StorageAction {
    /// Send this message. It is an answer.
    Send { to: NodeId, body: Body },
    /// Send this message and wait for the answer, which is an input of storage. A node that does
    /// not answer counts as failed: [`Storage::note_loss`](super::Storage::note_loss), and
    /// [`Storage::unanswered`](super::Storage::unanswered) for messages of a job.
    Ask { to: NodeId, cause: Cause, body: Body },
    /// Look up the nodes responsible for these keys, in ascending order:
    /// [`Storage::owners_found`](super::Storage::owners_found).
    Locate(Vec<Key>),
    /// Answer a read. The tag is the initiator's number of its request.
    AnswerGet { initiator: NodeId, tag: u64, answers: Vec<(Key, Answer)> },
    /// Answer a write. No answers: the write goes on. If the writer is this node, the exchange is
    /// the number of its request.
    AnswerPut { writer: NodeId, exchange: u32, answers: Vec<(Key, PutAnswer)> },
    /// Answer a conditional write, as `AnswerPut` does another one.
    AnswerPutIf { writer: NodeId, exchange: u32, answers: Vec<(Key, PutIfAnswer)> },
    /// Answer a scan. If the asker is this node, the exchange is the number of its request.
    AnswerScan { asker: NodeId, exchange: u32, answer: ScanAnswer, records: Vec<Record> },
    /// Ping this failed node from time to time until it answers.
    LookFor(NodeId),
}

impl<'a> Routing<'a> {
    /// The routing table, whether this node is a member, its estimate of round-trip times, and how
    /// many more answers it may wait for on behalf of others.
    pub fn new(
        table: &'a dyn Router,
        is_member: bool,
        rtt: &'a Rtt<1_000>,
        room: usize,
    ) -> Routing<'a> {
        Routing { table, is_member, rtt, room, actions: Vec::new() }
    }

    /// What storage asked for, in order.
    pub fn into_actions(self) -> Vec<StorageAction> {
        self.actions
    }

    /// The routing table.
    pub(super) fn table(&self) -> &'a dyn Router {
        self.table
    }

    /// True if this node is a member of the overlay.
    pub(super) fn is_member(&self) -> bool {
        self.is_member
    }

    /// The next hop of a key from this node.
    pub(super) fn step(&self, cx: &Cx<'_>, key: Key) -> Step {
        self.table.next_hop(key, &mut cx.shared.algorithm.first_walk())
    }

    /// True if the table has this node responsible for the key.
    pub(super) fn is_here(&self, cx: &Cx<'_>, key: Key) -> bool {
        self.step(cx, key).hop == Hop::Here
    }

    /// The nodes other than this one, which is responsible, that hold copies of a key, as far as
    /// the table knows.
    pub(super) fn other_replicas(&self, cx: &Cx<'_>, key: Key) -> Vec<NodeId> {
        let mut nodes = Vec::new();
        if cx.shared.copies() > 1 {
            self.table.replicas(key, cx.shared.copies(), &mut nodes);
            nodes.retain(|&node| node != cx.node);
        }
        nodes
    }

    /// True if this node is among the `count` nodes nearest to being responsible for the key.
    pub(super) fn is_among(&self, cx: &Cx<'_>, key: Key, count: usize) -> bool {
        let mut nodes = Vec::new();
        self.table.replicas(key, count, &mut nodes);
        nodes.contains(&cx.node)
    }

    /// How long neighbours must stay the same to count as the right ones.
    pub(super) fn settle_after(&self, cx: &Cx<'_>) -> Duration {
        cx.shared.settle_after(self.rtt)
    }

    /// For how long others may have a node in their tables after this one missed it first.
    pub(super) fn forgotten_after(&self, cx: &Cx<'_>) -> Duration {
        cx.shared.forgotten_after(self.rtt)
    }

    /// The least time until other nodes have copies of a failed node's records.
    pub(super) fn repair_after(&self, cx: &Cx<'_>) -> Duration {
        4 * self.settle_after(cx) + 4 * cx.shared.sync_every
    }

    /// Whether one more answer may be waited for on behalf of others.
    pub(super) fn has_room(&self, cx: &mut Cx<'_>) -> bool {
        if self.room == 0 {
            cx.count(counters::IN_FLIGHT_FULL, 1);
        }
        self.room > 0
    }

    /// Sends an answer.
    pub(super) fn send(&mut self, to: NodeId, body: Body) {
        self.actions.push(StorageAction::Send { to, body });
    }

    /// Sends a message that has an answer.
    pub(super) fn ask(&mut self, to: NodeId, cause: Cause, body: Body) {
        self.room = self.room.saturating_sub(1);
        self.actions.push(StorageAction::Ask { to, cause, body });
    }

    /// Looks up the nodes responsible for these keys.
    pub(super) fn locate(&mut self, keys: Vec<Key>) {
        self.actions.push(StorageAction::Locate(keys));
    }

    /// Answers a read.
    pub(super) fn answer_get(&mut self, initiator: NodeId, tag: u64, answers: Vec<(Key, Answer)>) {
        self.actions.push(StorageAction::AnswerGet { initiator, tag, answers });
    }

    /// Answers a write.
    pub(super) fn answer_put(
        &mut self,
        writer: NodeId,
        exchange: u32,
        answers: Vec<(Key, PutAnswer)>,
    ) {
        self.actions.push(StorageAction::AnswerPut { writer, exchange, answers });
    }

    /// Answers a conditional write.
    pub(super) fn answer_put_if(
        &mut self,
        writer: NodeId,
        exchange: u32,
        answers: Vec<(Key, PutIfAnswer)>,
    ) {
        self.actions.push(StorageAction::AnswerPutIf { writer, exchange, answers });
    }

    /// Answers a scan.
    pub(super) fn answer_scan(
        &mut self,
        asker: NodeId,
        exchange: u32,
        answer: ScanAnswer,
        records: Vec<Record>,
    ) {
        self.actions.push(StorageAction::AnswerScan { asker, exchange, answer, records });
    }

    /// Looks for a failed node.
    pub(super) fn look_for(&mut self, node: NodeId) {
        self.actions.push(StorageAction::LookFor(node));
    }
}
