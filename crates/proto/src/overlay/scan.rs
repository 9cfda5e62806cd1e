//! Scans: a requester reads the records of a range of keys, one page at a time, in the order of the
//! keys.
//!
//! A page is a request for one key, the first of the range. The requester looks up the node that is
//! responsible for it, and asks that node ([`Body::Scan`]). The answer goes as far as the keys for
//! which the node is responsible ([`Step::until`](super::Step)), or as a message holds, and says
//! how far that is. The next page begins with the key after it. So the pages cover the range
//! without a gap and without an overlap, whichever nodes answer them, and whatever the algorithm
//! makes of the space: where the keys of one node are several ranges, it is asked once for each.

use super::command::{FailReason, Outcome, Page};
use super::counters;
use super::exchange::Cause;
use super::message::Body;
use super::record::{Record, ScanAnswer, Version};
use super::{Cx, Key, Overlay};
use crate::core::NodeId;

impl Overlay {
    /// Asks the responsible node for a page.
    pub(super) fn scan(&mut self, cx: &mut Cx<'_>, name: u32, node: NodeId, range: (Key, Key)) {
        let is_member = self.is_member();
        if node == cx.node {
            return self.receive_scan(cx, node, name, is_member, range);
        }
        let body = Body::Scan { exchange: 0, is_member, range };
        self.ask(cx, node, Cause::Request(name), 0, None, body);
    }

    pub(super) fn receive_scan(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        is_member: bool,
        range: (Key, Key),
    ) {
        if from != cx.node && is_member {
            self.heard(cx, from);
        }
        self.with_storage(cx, |storage, cx, routing| {
            storage.scan(cx, routing, from, exchange, range);
        });
    }

    pub(super) fn receive_scan_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u32,
        answer: ScanAnswer,
        records: Vec<Record>,
    ) {
        let Some(exchange) = self.answered(cx, from, number) else {
            return;
        };
        let (Cause::Request(name), Body::Scan { range, .. }) = (exchange.cause, &exchange.body)
        else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        if !is_page_of(*range, answer, &records) {
            cx.count(counters::BAD_ANSWER, 1);
            return self.act_unanswered(cx, name, std::iter::once(range.0));
        }
        self.scan_answered(cx, from, name, answer, records);
    }

    /// What the responsible node answered a request for a page.
    pub(super) fn scan_answered(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        name: u32,
        answer: ScanAnswer,
        records: Vec<Record>,
    ) {
        let outcome = match answer {
            ScanAnswer::Page { until, is_whole } => {
                let more_at = Some(from).filter(|_| !is_whole);
                Ok(Outcome::Page(Box::new(Page { records, until, more_at })))
            }
            ScanAnswer::Elsewhere => Err(FailReason::NoRoute),
            ScanAnswer::Busy => Err(FailReason::Busy),
            ScanAnswer::Unsettled => Err(FailReason::Unsettled),
        };
        self.act_answered(cx, name, outcome);
    }

    pub(super) fn receive_listed(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u32,
        until: Key,
        entries: &[(Key, Version)],
    ) {
        let Some(exchange) = self.answered(cx, from, number) else {
            return;
        };
        let (Cause::Job(name), Body::List { range, .. }) = (exchange.cause, &exchange.body) else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
        let range = *range;
        self.with_storage(cx, |storage, cx, routing| {
            storage.listed(cx, routing, from, name, range, until, entries);
        });
    }
}

/// True if these records, which ascend, can be the answer for a range.
fn is_page_of((first, last): (Key, Key), answer: ScanAnswer, records: &[Record]) -> bool {
    let ScanAnswer::Page { until, .. } = answer else {
        return records.is_empty();
    };
    let is_in =
        |record: &Record| first <= record.key && record.key <= until && record.value.is_some();
    first <= until && until <= last && records.iter().all(is_in)
}
