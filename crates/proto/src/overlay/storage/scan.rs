//! Pages of records, for scans.
//!
//! The responsible node answers with the records of a part of its keys. A record may be missing
//! here although a read of its key would find it: this node may have just become responsible, and
//! another holder has yet to hand the record over. So before it answers, the node asks all nodes
//! that border on its keys which records they hold there, and fetches those that it lacks: what a
//! read does for one key ([`read`](super::read)). It gives no page while a key without a record
//! might not be absent ([`losses`](super::losses)).

use std::collections::BTreeMap;

use super::replicate::{COPY_HEAD_BYTES, Job};
use super::scan_job::ScanJob;
use super::{Routing, Storage};
use crate::core::field::Valued;
use crate::core::{Instant, NodeId};
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{ITEMS_MAX, MESSAGE_BYTES_MAX, Record, ScanAnswer, Version};
use crate::overlay::router::keep_distinct;
use crate::overlay::{Cx, Hop, Key, counters};

/// Pages that a node collects at once. More are refused: each asks all neighbours.
const SCANS_MAX: usize = 64;
/// Consecutive ranges of keys in the table that one page covers.
const STEPS_MAX: usize = 64;

impl Storage {
    /// Collects a page of the records in a range of keys. The answer waits for the neighbours.
    pub fn scan(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        asker: NodeId,
        exchange: u32,
        (first, last): (Key, Key),
    ) {
        if asker != cx.node
            && self.scans().any(|job| (job.asker, job.exchange) == (asker, exchange))
        {
            return cx.count(counters::DUPLICATE, 1);
        }
        let end = match self.scan_end(cx, routing, first, last) {
            Ok(end) => end,
            Err(answer) => return routing.answer_scan(asker, exchange, answer, Vec::new()),
        };
        if self.scans().count() >= SCANS_MAX || !routing.has_room(cx) {
            cx.count(counters::JOBS_FULL, 1);
            return routing.answer_scan(asker, exchange, ScanAnswer::Busy, Vec::new());
        }
        let homeless = BTreeMap::new();
        let (_, until) = self.page(first, end, &homeless, cx.now);
        let neighbours = routing.neighbours(cx, first);
        let job = ScanJob {
            asker,
            exchange,
            first,
            until,
            end,
            waiting: neighbours.len(),
            lacking: BTreeMap::new(),
            homeless,
            is_uncertain: false,
        };
        let name = self.state().jobs.insert(Job::Scan(job));
        for node in neighbours {
            let body = Body::List { exchange: 0, range: (first, until) };
            routing.ask(node, Cause::Job(name), body);
        }
        self.advance_scan(cx, routing, name);
    }

    fn scans(&self) -> impl Iterator<Item = &ScanJob> {
        let jobs = self.state_if_any().into_iter().flat_map(|state| state.jobs.iter());
        jobs.filter_map(|(_, job)| if let Job::Scan(job) = job { Some(job) } else { None })
    }

    fn scan_job(&mut self, name: u32) -> Option<&mut ScanJob> {
        match self.state().jobs.get_mut(name) {
            Some(Job::Scan(job)) => Some(job),
            _ => None,
        }
    }

    /// The last key that a page from `first` on can have, or why this node gives no page.
    fn scan_end(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        first: Key,
        last: Key,
    ) -> Result<Key, ScanAnswer> {
        let end = routing.owned_until(cx, first, last).ok_or(ScanAnswer::Elsewhere)?;
        if !self.is_settled(cx, routing) || self.may_lack_records(cx, routing) {
            cx.count(counters::SCAN_UNSETTLED, 1);
            return Err(ScanAnswer::Unsettled);
        }
        Ok(end)
    }

    /// The records from `first` to `end` that fit a message, and the last key that they cover.
    fn page(
        &self,
        first: Key,
        end: Key,
        homeless: &BTreeMap<Key, Record>,
        now: Instant,
    ) -> (Vec<Record>, Key) {
        let stored = self.store().into_iter().flat_map(|store| store.range((first, end)));
        let mut keys: Vec<Key> = stored.take(ITEMS_MAX + 1).map(|(key, _)| key).collect();
        keys.extend(homeless.range(first..=end).map(|(&key, _)| key));
        keys.sort_unstable();
        keys.dedup();
        let (mut records, mut bytes) = (Vec::new(), COPY_HEAD_BYTES);
        for (place, key) in keys.into_iter().enumerate() {
            if place == ITEMS_MAX {
                return (records, key - Key::from(1));
            }
            let known = self.record(key, now).into_iter().chain(homeless.get(&key).cloned());
            let newest = known.max_by_key(|record| record.stamp.version);
            let Some(record) = newest.filter(|record| record.value.is_some()) else {
                continue;
            };
            bytes += record.bytes_with_value();
            if bytes > MESSAGE_BYTES_MAX && !records.is_empty() {
                return (records, key - Key::from(1));
            }
            records.push(record);
        }
        (records, end)
    }

    /// Goes on with a page once all answers are there: fetches what this node lacks, or answers.
    fn advance_scan(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, name: u32) {
        let Some(job) = self.scan_job(name).filter(|job| job.waiting == 0) else {
            return;
        };
        let until = job.until;
        let mut fetches: BTreeMap<NodeId, Vec<Key>> = BTreeMap::new();
        for (key, (_, node)) in std::mem::take(&mut job.lacking) {
            if key <= until && !job.is_uncertain {
                fetches.entry(node).or_default().push(key);
            }
        }
        job.waiting = fetches.len();
        if fetches.is_empty() {
            return self.end_scan(cx, routing, name);
        }
        for (node, keys) in fetches {
            let body = Body::Fetch { exchange: 0, keys: keys.into() };
            routing.ask(node, Cause::Job(name), body);
        }
    }

    fn end_scan(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, name: u32) {
        let Some(Job::Scan(job)) = self.state().jobs.remove(name) else {
            return;
        };
        let refused = match self.scan_end(cx, routing, job.first, job.until) {
            Err(answer) => Some(answer),
            Ok(end) if job.is_uncertain || end < job.until => Some(ScanAnswer::Busy),
            Ok(_) => None,
        };
        if let Some(answer) = refused {
            return routing.answer_scan(job.asker, job.exchange, answer, Vec::new());
        }
        let (records, until) = self.page(job.first, job.until, &job.homeless, cx.now);
        let answer = ScanAnswer::Page { until, is_whole: until == job.end };
        routing.answer_scan(job.asker, job.exchange, answer, records);
    }

    /// Another node asks which records are here.
    pub fn receive_list(
        &self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        range: (Key, Key),
    ) {
        let mut until = range.1;
        let mut entries = Vec::new();
        let stored = self.store().into_iter().flat_map(|store| store.range(range));
        for (place, (key, held)) in stored.enumerate() {
            if place == ITEMS_MAX {
                until = key - Key::from(1);
                break;
            }
            if held.expires_at > cx.now {
                entries.push((key, held.stamp.version));
            }
        }
        routing.send(from, Body::Listed { exchange, until, entries });
    }

    /// A neighbour says which records it holds in a range, of which it covers the keys to `until`.
    #[allow(clippy::too_many_arguments, reason = "all that an answer is made of")]
    pub fn listed(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        name: u32,
        (first, last): (Key, Key),
        until: Key,
        entries: &[(Key, Version)],
    ) {
        let is_in = |&(key, _): &(Key, Version)| first <= key && key <= until;
        if !(first..=last).contains(&until) || !entries.iter().all(is_in) {
            cx.count(counters::BAD_ANSWER, 1);
            return self.scan_unanswered(cx, routing, name);
        }
        let is_lacking = |&&(key, version): &&(Key, Version)| {
            self.held(key, cx.now).is_none_or(|held| held.stamp.version < version)
        };
        let lacking: Vec<(Key, Version)> = entries.iter().filter(is_lacking).copied().collect();
        let Some(job) = self.scan_job(name) else {
            return;
        };
        job.waiting -= 1;
        job.until = job.until.min(until);
        for (key, version) in lacking {
            let newest = job.lacking.entry(key).or_insert((version, from));
            *newest = (*newest).max((version, from));
        }
        self.advance_scan(cx, routing, name);
    }

    /// Records that this node lacked have come, and are stored, but for those for which there is no
    /// room. `unknown` is the first that had no place in the answer.
    pub(super) fn scan_fetched(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        name: u32,
        unknown: Option<Key>,
        homeless: Vec<Record>,
    ) {
        let Some(job) = self.scan_job(name) else {
            return;
        };
        job.waiting -= 1;
        job.homeless.extend(homeless.into_iter().map(|record| (record.key, record)));
        match unknown {
            Some(key) if key <= job.first => job.is_uncertain = true,
            Some(key) => job.until = job.until.min(key - Key::from(1)),
            None => {}
        }
        self.advance_scan(cx, routing, name);
    }

    /// A neighbour did not answer, or not well: it may hold records that this node does not know
    /// of.
    pub(super) fn scan_unanswered(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        name: u32,
    ) {
        if let Some(job) = self.scan_job(name) {
            job.waiting -= 1;
            job.is_uncertain = true;
        }
        self.advance_scan(cx, routing, name);
    }
}

impl Routing<'_> {
    /// The last key up to `last`, from `first` on, for which this node is responsible without a
    /// gap: all consecutive ranges of the table, at most [`STEPS_MAX`]. `None` if it is not
    /// responsible for `first`.
    pub(in crate::overlay) fn owned_until(
        &self,
        cx: &mut Cx<'_>,
        first: Key,
        last: Key,
    ) -> Option<Key> {
        let mut end = None;
        let mut next = first;
        for _ in 0..STEPS_MAX {
            cx.count(counters::LOOKUPS, 1);
            let step = self.step(cx, next);
            if step.hop != Hop::Here {
                break;
            }
            end = Some(step.until.min(last));
            if step.until >= last {
                break;
            }
            next = step.until + Key::from(1);
        }
        end
    }

    /// The other nodes that may hold records of this node's keys: those that border on them, and
    /// the holders of one of the keys.
    fn neighbours(&self, cx: &Cx<'_>, key: Key) -> Vec<NodeId> {
        let mut nodes = self.other_replicas(cx, key);
        self.table().bordering(cx.shared.copies(), &mut nodes);
        nodes.retain(|&node| node != cx.node);
        keep_distinct(0, &mut nodes);
        nodes
    }
}
