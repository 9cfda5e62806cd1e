//! The state of a node: for its own application, and for others that ask.

use super::command::{Event, FailReason, NodeDescription, Outcome};
use super::counters;
use super::exchange::Cause;
use super::message::Body;
use super::record::{NEIGHBOURS_MAX, NodeStat};
use super::{Cx, Key, Overlay};
use crate::core::NodeId;

impl Overlay {
    fn stat(&mut self, cx: &mut Cx<'_>) -> NodeStat {
        let (mut contacts, mut neighbours) = (Vec::new(), Vec::new());
        self.router.contacts(&mut contacts);
        self.router.bordering(cx.shared.copies(), &mut neighbours);
        neighbours.retain(|&node| node != cx.node);
        neighbours.truncate(NEIGHBOURS_MAX);
        let store = self.storage.store();
        let (records, values, bytes) =
            store.map_or((0, 0, 0), |store| (store.len(), store.values(), store.bytes()));
        let (missing, losses) = (self.missing().count(), self.storage.losses());
        NodeStat {
            contacts: contacts.len() as u32,
            is_settled: self.is_member() && self.is_settled(cx) && losses < cx.shared.copies(),
            missing: missing as u32,
            values: values as u32,
            removed: (records - values) as u32,
            bytes: bytes as u64,
            neighbours,
        }
    }

    pub(super) fn describe(&mut self, cx: &mut Cx<'_>, id: u64) {
        let (role, stat) = (self.role, self.stat(cx));
        let [contacts, missing, values] =
            [stat.contacts, stat.missing, stat.values].map(|count| count as usize);
        let (is_settled, bytes) = (stat.is_settled, stat.bytes as usize);
        cx.deliver(Event::Described { id, role, contacts, is_settled, missing, values, bytes });
    }

    /// Asks the node that is responsible for a key for its state.
    pub(super) fn ask_stat(&mut self, cx: &mut Cx<'_>, name: u32, node: NodeId, key: Key) {
        if node == cx.node {
            let (until, stat) = (self.owned_until(cx, key), self.stat(cx));
            return self.stat_answered(cx, node, name, until, stat);
        }
        let body = Body::Stat { exchange: 0, is_member: self.is_member(), key };
        self.ask(cx, node, Cause::Request(name), 0, None, body);
    }

    fn owned_until(&mut self, cx: &mut Cx<'_>, key: Key) -> Option<Key> {
        self.with_storage(cx, |_, cx, routing| routing.owned_until(cx, key, Key::MAX))
    }

    pub(super) fn receive_stat(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        is_member: bool,
        key: Key,
    ) {
        if is_member {
            self.heard(cx, from);
        }
        let (until, stat) = (self.owned_until(cx, key), Box::new(self.stat(cx)));
        self.send(cx, from, Body::StatReply { exchange, until, stat });
    }

    pub(super) fn receive_stat_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u32,
        until: Option<Key>,
        stat: NodeStat,
    ) {
        let Some(exchange) = self.answered(cx, from, number) else {
            return;
        };
        let (Cause::Request(name), Body::Stat { key, .. }) = (exchange.cause, &exchange.body)
        else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        if until.is_some_and(|until| until < *key) {
            cx.count(counters::BAD_ANSWER, 1);
            return self.act_unanswered(cx, name, std::iter::once(*key));
        }
        self.stat_answered(cx, from, name, until, stat);
    }

    fn stat_answered(
        &mut self,
        cx: &mut Cx<'_>,
        node: NodeId,
        name: u32,
        until: Option<Key>,
        stat: NodeStat,
    ) {
        let described = |until| Outcome::Described(Box::new(NodeDescription { node, until, stat }));
        self.act_answered(cx, name, until.map(described).ok_or(FailReason::NoRoute));
    }
}
