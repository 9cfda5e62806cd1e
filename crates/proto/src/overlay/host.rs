//! The node as the host of its storage: passes it messages, answers, timers and commands, and
//! carries out the actions that it asks for.

use super::command::{Outcome, Role, Style};
use super::counters;
use super::exchange::Cause;
use super::message::{Body, Purpose};
use super::record::{Answer, CopyAnswer, PutAnswer, PutIfAnswer, PutIfItem, PutItem, Record};
use super::request::{Kind, Owner};
use super::storage::{Admission, PAGES, Routing, Storage, StorageAction};
use super::{Cx, Key, Overlay, RouterAction, TableQuery};
use crate::core::NodeId;

impl Overlay {
    /// Passes storage an input, and carries out the actions that it asks for.
    pub(super) fn with_storage<R>(
        &mut self,
        cx: &mut Cx<'_>,
        input: impl FnOnce(&mut Storage, &mut Cx<'_>, &mut Routing<'_>) -> R,
    ) -> R {
        let room = cx.shared.in_flight_max.saturating_sub(self.exchanges.len());
        let mut routing = Routing::new(&*self.router, self.is_member(), &self.rtt, room);
        let result = input(&mut self.storage, cx, &mut routing);
        for action in routing.into_actions() {
            self.carry_out(cx, action);
        }
        result
    }

    fn carry_out(&mut self, cx: &mut Cx<'_>, action: StorageAction) {
        match action {
            StorageAction::Send { to, body } => self.send(cx, to, body),
            StorageAction::Ask { to, cause, body } => self.ask(cx, to, cause, 0, None, body),
            StorageAction::Locate(keys) => {
                let style = if self.is_member() { Style::Recursive } else { Style::Iterative };
                self.begin_request(cx, Owner::Sync, keys, Vec::new(), Kind::Locate, style);
            }
            StorageAction::AnswerGet { initiator, tag, answers } => {
                self.give_results(cx, initiator, tag, &Purpose::Get, answers, None);
            }
            StorageAction::AnswerPut { writer, exchange, answers } if writer == cx.node => {
                self.put_answered(cx, exchange, &answers);
            }
            StorageAction::AnswerPut { writer, exchange, answers } => {
                let answers = answers.into_iter().map(|(_, answer)| answer).collect();
                self.send(cx, writer, Body::PutReply { exchange, answers });
            }
            StorageAction::AnswerPutIf { writer, exchange, answers } if writer == cx.node => {
                self.put_if_answered(cx, exchange, &answers, false);
            }
            StorageAction::AnswerPutIf { writer, exchange, answers } => {
                let answers = answers.into_iter().map(|(_, answer)| answer).collect();
                self.send(cx, writer, Body::PutIfReply { exchange, answers });
            }
            StorageAction::AnswerScan { asker, exchange, answer, records } => {
                if asker == cx.node {
                    return self.scan_answered(cx, asker, exchange, answer, records);
                }
                self.send(cx, asker, Body::ScanReply { exchange, answer, records });
            }
            StorageAction::LookFor(node) => {
                let now = cx.now;
                self.state().upkeep.add_lost(node, now);
            }
        }
    }

    /// Reads keys that this node is responsible for. Keys that it must request from other replicas
    /// are not among the answers; they follow in results.
    pub(super) fn read(
        &mut self,
        cx: &mut Cx<'_>,
        initiator: NodeId,
        tag: u64,
        keys: impl Iterator<Item = Key>,
    ) -> Vec<(Key, Answer)> {
        self.with_storage(cx, |storage, cx, routing| {
            storage.read(cx, routing, initiator, tag, keys)
        })
    }

    /// Writes items that this node is responsible for. The answer waits for the replicas.
    #[allow(clippy::too_many_arguments, reason = "all that a write is made of")]
    pub(super) fn receive_put(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        is_member: bool,
        write: u64,
        items: &[PutItem],
    ) {
        let busy = items.iter().map(|item| (item.key, PutAnswer::Busy));
        if let Some(answers) = self.refuse_write(cx, from, exchange, is_member, busy) {
            let refused = StorageAction::AnswerPut { writer: from, exchange, answers };
            return self.carry_out(cx, refused);
        }
        self.with_storage(cx, |storage, cx, routing| {
            storage.write(cx, routing, from, exchange, write, items);
        });
    }

    /// Writes items that this node is responsible for, if their conditions hold. The answer waits
    /// for the replicas.
    #[allow(clippy::too_many_arguments, reason = "all that a write is made of")]
    pub(super) fn receive_put_if(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        is_member: bool,
        write: u64,
        items: &[PutIfItem],
    ) {
        let busy = items.iter().map(|it| (it.item.key, PutIfAnswer::Busy));
        if let Some(answers) = self.refuse_write(cx, from, exchange, is_member, busy) {
            let refused = StorageAction::AnswerPutIf { writer: from, exchange, answers };
            return self.carry_out(cx, refused);
        }
        self.with_storage(cx, |storage, cx, routing| {
            storage.write_if(cx, routing, from, exchange, write, items);
        });
    }

    /// The answers to a write that is not begun now: none of its keys if it is in progress, `busy`
    /// if the node has too much to do. `None` if the write may begin.
    fn refuse_write<A>(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        is_member: bool,
        busy: impl Iterator<Item = (Key, A)>,
    ) -> Option<Vec<(Key, A)>> {
        let admission = self.with_storage(cx, |storage, cx, routing| {
            storage.admit_write(cx, routing, from, exchange)
        });
        match admission {
            Admission::InProgress => Some(Vec::new()),
            Admission::Busy => Some(busy.collect()),
            Admission::New => {
                if from != cx.node && is_member {
                    self.heard(cx, from);
                }
                None
            }
        }
    }

    pub(super) fn receive_copy_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u32,
        answers: &[CopyAnswer],
    ) {
        if answers.is_empty() {
            return self.wait_on(cx, from, number);
        }
        let Some(exchange) = self.answered(cx, from, number) else {
            return;
        };
        let count = match &exchange.body {
            Body::Copy { records, .. } => records.len(),
            Body::CopyIf { records, .. } => records.len(),
            _ => return cx.count(counters::BAD_ANSWER, 1),
        };
        if answers.len() != count {
            cx.count(counters::BAD_ANSWER, 1);
            return self.unanswered(cx, exchange);
        }
        let records = match &exchange.body {
            Body::Copy { records, .. } => records,
            Body::CopyIf { records, .. } => {
                return self.with_storage(cx, |storage, cx, routing| {
                    storage.successors_answered(
                        cx,
                        routing,
                        from,
                        exchange.cause,
                        records,
                        answers,
                    );
                });
            }
            _ => return,
        };
        self.with_storage(cx, |storage, cx, routing| {
            storage.copies_answered(cx, routing, from, exchange.cause, records, answers);
        });
    }

    pub(super) fn receive_fetched(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        records: Vec<Record>,
        is_whole: bool,
    ) {
        let Some(exchange) = self.answered(cx, from, exchange) else {
            return;
        };
        let Body::Fetch { keys, .. } = &exchange.body else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        self.with_storage(cx, |storage, cx, routing| {
            storage.fetched(cx, routing, from, exchange.cause, keys, records, is_whole);
        });
    }

    pub(super) fn receive_summary_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        places: [&[u16]; 3],
    ) {
        let Some(exchange) = self.answered(cx, from, exchange) else {
            return;
        };
        let Body::Summary { entries, .. } = &exchange.body else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        self.with_storage(cx, |storage, cx, routing| {
            storage.summary_answered(cx, routing, from, entries, places);
        });
    }

    /// The nodes responsible for records that this one holds.
    pub(super) fn owners_found(&mut self, cx: &mut Cx<'_>, outcomes: &[(Key, Outcome)]) {
        self.with_storage(cx, |storage, cx, routing| storage.owners_found(cx, routing, outcomes));
    }

    /// Compares some pages, if it is time.
    pub(super) fn sync(&mut self, cx: &mut Cx<'_>) {
        if !self.with_storage(cx, |storage, cx, routing| storage.begin_sync(cx, routing)) {
            return;
        }
        for _ in 0..PAGES {
            if !self.with_storage(cx, Storage::compare_page) {
                return;
            }
        }
    }

    /// One more round of handing over, for a node that leaves, unless one is under way.
    pub(super) fn hand_over(&mut self, cx: &mut Cx<'_>) {
        let is_waiting = self.exchanges.iter().any(|(_, exchange)| exchange.cause == Cause::Sync);
        let is_seeking = self.state_if_any().is_some_and(|state| {
            state.requests.iter().any(|(_, request)| request.owner == Owner::Sync)
        });
        if !is_waiting && !is_seeking {
            self.storage.hurry();
            self.sync(cx);
        }
    }

    /// Forgets failures that no longer matter.
    pub(super) fn review_losses(&mut self, cx: &mut Cx<'_>) {
        let neighbours =
            self.with_storage(cx, |storage, cx, routing| storage.review_losses(cx, routing));
        let Some(neighbours) = neighbours else {
            return;
        };
        let ask = |node| RouterAction::Ask(node, TableQuery::Neighbours);
        let actions: Vec<RouterAction> = neighbours.into_iter().map(ask).collect();
        self.run(cx, &actions);
        self.with_storage(cx, |storage, cx, routing| storage.retire_losses(cx, routing));
    }

    /// Sends a node the list of missing nodes, those nearest to it first.
    pub(super) fn tell_missing(&self, cx: &mut Cx<'_>, to: NodeId) {
        let nodes = self.storage.missing_near(cx, to);
        if !nodes.is_empty() {
            self.send(cx, to, Body::Missing { nodes });
        }
    }

    pub(super) fn receive_missing(&mut self, cx: &mut Cx<'_>, from: NodeId, nodes: &[NodeId]) {
        if matches!(self.role, Role::Member | Role::Joining) {
            self.with_storage(cx, |storage, cx, routing| {
                storage.receive_missing(cx, routing, from, nodes);
            });
        }
    }

    /// All records up to this number are on disk.
    pub(super) fn persisted(&mut self, cx: &mut Cx<'_>, number: u64) {
        let done = self.storage.persisted(number);
        while self.with_storage(cx, |storage, _, routing| storage.release(routing, done)) {}
    }

    /// True if the neighbours have been the same for as long as it takes to notice that one is gone
    /// and to set that right.
    pub(super) fn is_settled(&mut self, cx: &mut Cx<'_>) -> bool {
        self.with_storage(cx, |storage, cx, routing| storage.is_settled(cx, routing))
    }

    /// The neighbours are known to be the right ones: they need no time to settle.
    pub(super) fn trust_neighbours(&mut self, cx: &mut Cx<'_>) {
        self.with_storage(cx, |storage, cx, routing| storage.trust_neighbours(cx, routing));
    }
}
