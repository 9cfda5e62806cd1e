//! Conditional writes: a value replaces another one, or none, only if the key's version is the
//! expected one.
//!
//! The responsible node decides. It first asks all other replicas what they hold, so that it
//! compares with the newest record that any of them has; it takes no decision until all that its
//! table names have answered. Then it gives the write a version, stores it, and answers once all
//! other replicas hold copies. A replica takes a copy only in place of the version that the write
//! was compared with, or of an older one. If it holds another record, another node took a write of
//! the key at the same time, because one of the two does not know yet that the other one is
//! responsible; the answer is [`PutIfAnswer::Conflict`].
//!
//! So of the conditional writes that expect the same version at most one is acknowledged, as long
//! as the nodes that acknowledge them have a replica of the key in common.
//!
//! A write that comes again, because its answer was lost, gets the same answer: the node remembers
//! the last [`DECIDED_MAX`] decisions, and recognises a record by the stamp of its write.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::conditional_job::{Conditional, ConditionalJob, Progress};
use super::replicate::{Job, ROUNDS_MAX, copy_pieces, is_believable};
use super::store::Accepted;
use super::{Routing, Storage};
use crate::core::{NodeId, Payload};
use crate::overlay::bundle::pieces;
use crate::overlay::config::TOMBSTONE_LIFETIME;
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{
    Answer, CopyAnswer, Expect, ITEMS_MAX, PutIfAnswer, PutIfItem, Record, Stamp, Successor,
    Version,
};
use crate::overlay::{Cx, Key, counters};

/// Decisions that a node remembers for writes that come again. The oldest is dropped for a new one.
const DECIDED_MAX: usize = 16_384;

/// Remembered of a record that this node stored, until all replicas hold it: an attempt that comes
/// again goes on, and must not be refused as if nothing had been written.
const IN_DOUBT: PutIfAnswer = PutIfAnswer::Unreplicated;

/// The last decisions about conditional writes: by key, writer and write.
#[derive(Debug, Default)]
pub(super) struct Decided {
    answers: BTreeMap<(Key, NodeId, u64), PutIfAnswer>,
    order: VecDeque<(Key, NodeId, u64)>,
}

impl Decided {
    fn get(&self, key: Key, writer: NodeId, write: u64) -> Option<PutIfAnswer> {
        self.answers.get(&(key, writer, write)).copied()
    }

    fn note(&mut self, key: Key, writer: NodeId, write: u64, answer: PutIfAnswer) {
        let name = (key, writer, write);
        if self.answers.insert(name, answer).is_none() {
            self.order.push_back(name);
        }
        if self.order.len() > DECIDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.answers.remove(&oldest);
        }
    }
}

impl Storage {
    /// Writes items that this node is responsible for, if their conditions hold. The answer waits
    /// for the replicas.
    pub fn write_if(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        write: u64,
        items: &[PutIfItem],
    ) {
        let begin = |item: &PutIfItem| {
            let (key, known) = (item.item.key, self.decision(item.item.key, from, write));
            cx.count(counters::DUPLICATE, u64::from(known.is_some()));
            let refused = match known {
                Some(answer) if answer != IN_DOUBT => Some(answer),
                _ => {
                    let refused = self.refusal(cx, routing, item);
                    refused.map(|answer| self.refuse(key, from, write, answer))
                }
            };
            let progress = refused.map_or(Progress::Asking(Vec::new()), Progress::Decided);
            Conditional { item: item.clone(), progress }
        };
        let items = items.iter().map(begin).collect();
        let job = ConditionalJob { from, exchange, write, items, waiting: 0, rounds: 0 };
        let name = self.state().jobs.insert(Job::Conditional(job));
        self.advance_conditional(cx, routing, name);
    }

    fn decision(&self, key: Key, writer: NodeId, write: u64) -> Option<PutIfAnswer> {
        self.state_if_any()?.decided.get(key, writer, write)
    }

    /// The answer to a write that this node does not carry out now. If it stored the record before,
    /// the answer does not say that nothing was written.
    fn refuse(&mut self, key: Key, writer: NodeId, write: u64, answer: PutIfAnswer) -> PutIfAnswer {
        let is_in_doubt = self.decision(key, writer, write) == Some(IN_DOUBT);
        let is_final = matches!(answer, PutIfAnswer::Differs(_) | PutIfAnswer::Absent);
        let answer = match (is_in_doubt, is_final) {
            (true, true) => PutIfAnswer::Conflict,
            (true, false) => IN_DOUBT,
            (false, _) => answer,
        };
        if is_final {
            self.state().decided.note(key, writer, write, answer);
        }
        answer
    }

    /// Why this node does not take an item, if it does not.
    fn refusal(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        item: &PutIfItem,
    ) -> Option<PutIfAnswer> {
        let key = item.item.key;
        cx.count(counters::LOOKUPS, 1);
        if !routing.is_here(cx, key) {
            cx.count(counters::PUT_ELSEWHERE, 1);
            return Some(PutIfAnswer::Elsewhere);
        }
        if !self.is_settled(cx, routing) || self.is_contested(cx, routing, key) {
            cx.count(counters::PUT_UNSETTLED, 1);
            return Some(PutIfAnswer::Unsettled);
        }
        let length = item.item.value.as_ref().map_or(0, Payload::len);
        (length > cx.shared.value_bytes_max).then_some(PutIfAnswer::TooLarge)
    }

    /// Takes each item as far as it goes without other nodes, and asks those that it waits for.
    fn advance_conditional(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, name: u32) {
        let Some(Job::Conditional(mut job)) = self.state().jobs.remove(name) else {
            return;
        };
        job.rounds += 1;
        let (from, write) = (job.from, job.write);
        let mut fetches: BTreeMap<NodeId, Vec<Key>> = BTreeMap::new();
        let mut copies: BTreeMap<NodeId, Vec<Successor>> = BTreeMap::new();
        for Conditional { item, progress } in &mut job.items {
            let key = item.item.key;
            if let Progress::Asking(answered) = progress {
                let mut replicas = routing.other_replicas(cx, key);
                replicas.retain(|node| !answered.contains(node));
                for &node in &replicas {
                    fetches.entry(node).or_default().push(key);
                }
                if replicas.is_empty() {
                    *progress = self.decide(cx, routing, from, write, item);
                }
            }
            if let Progress::Writing(successor, holders) = progress {
                let replicas = routing.other_replicas(cx, key);
                let count = 1 + replicas.len();
                let lacking: Vec<NodeId> =
                    replicas.into_iter().filter(|node| !holders.contains(node)).collect();
                for &node in &lacking {
                    copies.entry(node).or_default().push(successor.clone());
                }
                if lacking.is_empty() {
                    *progress = Progress::Decided(self.written(cx, from, &successor.record, count));
                }
            }
        }
        let is_over = fetches.is_empty() && copies.is_empty();
        if is_over || job.rounds > 2 * ROUNDS_MAX {
            for Conditional { item, progress } in &mut job.items {
                // It was not decided in time: nothing is written by this attempt.
                if let Progress::Asking(_) = progress {
                    let answer = self.refuse(item.item.key, from, write, PutIfAnswer::Busy);
                    *progress = Progress::Decided(answer);
                }
            }
            return self.end_write_on_disk(cx, routing, Job::Conditional(job));
        }
        let mut messages: Vec<(NodeId, Body)> = Vec::new();
        for (node, keys) in fetches {
            for piece in pieces(&keys, ITEMS_MAX, usize::MAX, |_| 0) {
                messages.push((node, Body::Fetch { exchange: 0, keys: keys[piece].into() }));
            }
        }
        for (node, records) in copies {
            for piece in copy_pieces(cx, &records) {
                let records: Arc<[Successor]> = records[piece].into();
                messages.push((node, Body::CopyIf { exchange: 0, records }));
            }
        }
        job.waiting = messages.len() as u32;
        let name = self.state().jobs.insert(Job::Conditional(job));
        for (node, body) in messages {
            routing.ask(node, Cause::Job(name), body);
        }
    }

    /// Compares the condition with what this node holds, now that all replicas said what they do.
    fn decide(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        from: NodeId,
        write: u64,
        wanted: &PutIfItem,
    ) -> Progress {
        // Tables may have changed meanwhile.
        let item = &wanted.item;
        if let Some(refused) = self.refusal(cx, routing, wanted) {
            return Progress::Decided(self.refuse(item.key, from, write, refused));
        }
        let held = self.record(item.key, cx.now);
        let is_settled = self.is_settled(cx, routing);
        let found = match &held {
            // It came again, and this node or the one that was responsible before has stored it.
            Some(old) if (old.stamp.writer, old.stamp.write) == (from.0, write) => {
                self.state().decided.note(item.key, from, write, IN_DOUBT);
                let base = match wanted.expect {
                    Expect::Version(version) => version,
                    Expect::Absent => Version::default(),
                };
                return Progress::Writing(Successor { base, record: old.clone() }, Vec::new());
            }
            Some(Record { stamp, value: Some(_), .. }) => Some(stamp.version),
            other => {
                let answer = match other {
                    Some(_) => self.removed_under(cx, routing, item.key),
                    None => self.nothing_under(cx, routing, item.key, is_settled),
                };
                if answer != Answer::Absent {
                    let refused = PutIfAnswer::Unsettled;
                    return Progress::Decided(self.refuse(item.key, from, write, refused));
                }
                None
            }
        };
        let refused = match (found, wanted.expect) {
            (None, Expect::Absent) => None,
            (Some(found), Expect::Version(expected)) if found == expected => None,
            (Some(found), _) => Some(PutIfAnswer::Differs(found)),
            (None, Expect::Version(_)) => Some(PutIfAnswer::Absent),
        };
        if let Some(refused) = refused {
            return Progress::Decided(self.refuse(item.key, from, write, refused));
        }
        let base = held.map_or(Version::default(), |old| old.stamp.version);
        let known = base.count;
        if !is_believable(known, item.after) {
            cx.count(counters::VERSION_REFUSED, 1);
            return Progress::Decided(self.refuse(item.key, from, write, PutIfAnswer::Busy));
        }
        let version = Version { count: known.max(item.after) + 1, by: cx.node.0 };
        let max = if item.value.is_some() { cx.shared.lifetime_max } else { TOMBSTONE_LIFETIME };
        let record = Record {
            key: item.key,
            stamp: Stamp { version, writer: from.0, write },
            lifetime_ms: item.lifetime_ms.min(max.as_millis() as u32),
            value: item.value.clone(),
        };
        match self.keep(cx, &record) {
            Accepted::OverQuota => Progress::Decided(PutIfAnswer::OverQuota),
            _ => {
                self.state().decided.note(item.key, from, write, IN_DOUBT);
                Progress::Writing(Successor { base, record }, Vec::new())
            }
        }
    }

    /// The answer for a record that all replicas hold: `copies` nodes.
    fn written(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        record: &Record,
        copies: usize,
    ) -> PutIfAnswer {
        let Stamp { version, write, .. } = record.stamp;
        let is_in_line = self.is_in_line(cx, record);
        let is_short = self.are_fewer_than_were(cx, copies);
        let copies = copies as u8;
        let answer = match is_short {
            _ if !is_in_line => PutIfAnswer::Conflict,
            true => PutIfAnswer::Short { version, copies },
            false => PutIfAnswer::Stored { version, copies },
        };
        self.state().decided.note(record.key, from, write, answer);
        answer
    }

    /// True if what this node holds now is the record, or was written here after it.
    fn is_in_line(&self, cx: &Cx<'_>, record: &Record) -> bool {
        let held = self.held(record.key, cx.now).map(|held| held.stamp);
        held.is_some_and(|held| {
            held == record.stamp
                || held.version > record.stamp.version && held.version.by == cx.node.0
        })
    }

    /// A replica answered with what it holds under these keys. `homeless` are records for which
    /// there was no room here.
    pub(super) fn conditional_fetched(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        name: u32,
        from: NodeId,
        keys: &[Key],
        homeless: &[Record],
    ) {
        let Some(Job::Conditional(job)) = self.state().jobs.get_mut(name) else {
            return;
        };
        for &key in keys {
            if let Some(it) = job.item_mut(key)
                && let Progress::Asking(answered) = &mut it.progress
            {
                answered.push(from);
            }
        }
        for record in homeless {
            if let Some(it) = job.item_mut(record.key) {
                it.progress = Progress::Decided(PutIfAnswer::OverQuota);
            }
        }
        self.conditional_unanswered(cx, routing, name);
    }

    /// Another node gives copies, each in place of one version.
    pub fn receive_copy_if(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        records: &[Successor],
    ) {
        let answer = |Successor { base, record }: &Successor| {
            let held = self.held(record.key, cx.now).map(|held| held.stamp);
            match held.filter(|held| *held != record.stamp && held.version > *base) {
                Some(other) => CopyAnswer::Newer(other),
                None => self.take_copy(cx, routing, record),
            }
        };
        let answers = records.iter().map(answer).collect();
        self.answer_copies(cx, routing, from, exchange, answers);
    }

    /// A replica answered such copies, record by record.
    pub fn successors_answered(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        cause: Cause,
        records: &[Successor],
        answers: &[CopyAnswer],
    ) {
        let Cause::Job(name) = cause else {
            return;
        };
        let Some(Job::Conditional(mut job)) = self.state().jobs.get(name).cloned() else {
            return;
        };
        let writer = job.from;
        for (sent, answer) in records.iter().zip(answers) {
            let Some(it) = job.item_mut(sent.record.key) else {
                continue;
            };
            let Progress::Writing(Successor { record, .. }, holders) = &mut it.progress else {
                continue;
            };
            match answer {
                CopyAnswer::Held => holders.push(from),
                CopyAnswer::Far => {}
                CopyAnswer::OverQuota => it.progress = Progress::Decided(PutIfAnswer::OverQuota),
                // It holds a later write of this node.
                CopyAnswer::Newer(stamp)
                    if stamp.version.by == cx.node.0 && self.is_in_line(cx, record) =>
                {
                    holders.push(from);
                }
                CopyAnswer::Newer(_) => {
                    let (key, write) = (record.key, record.stamp.write);
                    self.state().decided.note(key, writer, write, PutIfAnswer::Conflict);
                    it.progress = Progress::Decided(PutIfAnswer::Conflict);
                }
            }
        }
        *self.state().jobs.get_mut(name).expect("just seen") = Job::Conditional(job);
        self.conditional_unanswered(cx, routing, name);
    }

    /// One message of the job has its answer, or will have none.
    pub(super) fn conditional_unanswered(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        name: u32,
    ) {
        let Some(Job::Conditional(job)) = self.state().jobs.get_mut(name) else {
            return;
        };
        job.waiting -= 1;
        if job.waiting == 0 {
            self.advance_conditional(cx, routing, name);
        }
    }
}
