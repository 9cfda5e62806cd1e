//! Writing: a responsible node answers once the other replicas hold copies.

use std::sync::Arc;

use super::conditional_job::ConditionalJob;
use super::read_job::ReadJob;
use super::scan_job::ScanJob;
use super::store::Accepted;
use super::{Routing, Storage};
use crate::core::field::Valued;
use crate::core::{NodeId, Payload};
use crate::overlay::bundle::pieces;
use crate::overlay::config::TOMBSTONE_LIFETIME;
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{
    CopyAnswer, ITEMS_MAX, MESSAGE_BYTES_MAX, PutAnswer, PutItem, Record, Stamp, Version,
};
use crate::overlay::relay::list_bytes_max;
use crate::overlay::{Cx, Hop, Key, Step, counters};

/// Rounds of asking replicas before a job ends as it stands.
pub(super) const ROUNDS_MAX: u8 = 4;
/// The version count up to which a node accepts others' versions unconditionally. Counts grow by
/// about 16 per write, so none gets there in decades.
const COUNT_TRUSTED_MAX: u64 = 1 << 48;
/// How far a count may exceed that, or the known count. So a forger needs 2^31 messages, and not
/// one, to bring a key to where no write can follow.
const COUNT_LEAD_MAX: u64 = 1 << 32;
/// Bytes of a list of records besides the records, at most.
pub(super) const COPY_HEAD_BYTES: usize = 320;

/// Something done for a requester, with the help of others.
#[derive(Clone, Debug)]
pub(super) enum Job {
    Write(WriteJob),
    Conditional(ConditionalJob),
    Read(ReadJob),
    Scan(ScanJob),
}

/// Items that are being written.
#[derive(Clone, Debug)]
pub(super) struct WriteJob {
    // The writer, and its number; if the writer is this node, the number of its request.
    from: NodeId,
    exchange: u32,
    items: Vec<Writing>,
    waiting: u32,
    rounds: u8,
}

#[derive(Clone, Debug)]
struct Writing {
    key: Key,
    // The record to write, unless it has an answer.
    record: Option<Record>,
    // Other nodes that hold it.
    holders: Vec<NodeId>,
    answer: PutAnswer,
}

/// Whether a write may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::overlay) enum Admission {
    /// It may.
    New,
    /// It came before, and has not ended.
    InProgress,
    /// The node has too much to do.
    Busy,
}

impl Writing {
    fn refused(key: Key, answer: PutAnswer) -> Writing {
        Writing { key, record: None, holders: Vec::new(), answer }
    }
}

impl Storage {
    /// Stores a record, and tells the application what to write to disk.
    pub(super) fn keep(&mut self, cx: &mut Cx<'_>, record: &Record) -> Accepted {
        let (now, config) = (cx.now, cx.shared);
        let (bytes_max, records_max) = (config.store_bytes_max, config.store_records_max);
        let accepted = self.state().store.accept(record, now, bytes_max, records_max);
        match accepted {
            Accepted::New if config.is_durable => {
                self.persist(cx, record);
            }
            Accepted::OverQuota => cx.count(counters::OVER_QUOTA, 1),
            _ => {}
        }
        accepted
    }

    /// Whether a write that came may begin.
    pub fn admit_write(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        from: NodeId,
        exchange: u32,
    ) -> Admission {
        let jobs = &self.state().jobs;
        let is_same = |job: &Job| match job {
            Job::Write(job) => (job.from, job.exchange) == (from, exchange),
            Job::Conditional(job) => job.is_of(from, exchange),
            Job::Read(_) | Job::Scan(_) => false,
        };
        // Parts of an own request may come one after the other, under its one name.
        if from != cx.node && jobs.iter().any(|(_, job)| is_same(job)) {
            cx.count(counters::DUPLICATE, 1);
            return Admission::InProgress;
        }
        if jobs.len() >= cx.shared.in_flight_max || !routing.has_room(cx) {
            cx.count(counters::JOBS_FULL, 1);
            return Admission::Busy;
        }
        Admission::New
    }

    /// Writes items that this node is responsible for. The answer waits for the replicas.
    pub fn write(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        write: u64,
        items: &[PutItem],
    ) {
        let is_settled = self.is_settled(cx, routing);
        let mut step: Option<Step> = None;
        let mut writing = Vec::with_capacity(items.len());
        for item in items {
            if step.is_none_or(|step| item.key > step.until) {
                step = Some(routing.step(cx, item.key));
                cx.count(counters::LOOKUPS, 1);
            }
            let is_here = step.is_some_and(|step| step.hop == Hop::Here);
            writing.push(match is_here {
                false => {
                    cx.count(counters::PUT_ELSEWHERE, 1);
                    Writing::refused(item.key, PutAnswer::Elsewhere)
                }
                true if !is_settled || self.is_contested(cx, routing, item.key) => {
                    cx.count(counters::PUT_UNSETTLED, 1);
                    Writing::refused(item.key, PutAnswer::Unsettled)
                }
                true => self.write_here(cx, from, write, item),
            });
        }
        let job = WriteJob { from, exchange, items: writing, waiting: 0, rounds: 0 };
        if job.items.iter().all(|item| item.record.is_none()) {
            return end_write(routing, job);
        }
        let name = self.state().jobs.insert(Job::Write(job));
        self.spread(cx, routing, name);
    }

    fn write_here(&mut self, cx: &mut Cx<'_>, from: NodeId, write: u64, item: &PutItem) -> Writing {
        let refused = |answer| Writing::refused(item.key, answer);
        if item.value.as_ref().map_or(0, Payload::len) > cx.shared.value_bytes_max {
            return refused(PutAnswer::TooLarge);
        }
        let old = self.record(item.key, cx.now);
        let record = match old {
            // It came again: its answer was lost, or another node was responsible.
            Some(old) if (old.stamp.writer, old.stamp.write) == (from.0, write) => old,
            Some(old) if is_later(&old.stamp, from, write) => {
                return refused(PutAnswer::Superseded);
            }
            old => {
                let known = old.map_or(0, |old| old.stamp.version.count);
                if !is_believable(known, item.after) {
                    cx.count(counters::VERSION_REFUSED, 1);
                    return refused(PutAnswer::Superseded);
                }
                // What this node does not know of, because the network was cut, the writer may.
                let count = known.max(item.after) + 1;
                let version = Version { count, by: cx.node.0 };
                let max =
                    if item.value.is_some() { cx.shared.lifetime_max } else { TOMBSTONE_LIFETIME };
                Record {
                    key: item.key,
                    stamp: Stamp { version, writer: from.0, write },
                    lifetime_ms: item.lifetime_ms.min(max.as_millis() as u32),
                    value: item.value.clone(),
                }
            }
        };
        match self.keep(cx, &record) {
            Accepted::OverQuota => refused(PutAnswer::OverQuota),
            _ => Writing {
                key: item.key,
                record: Some(record),
                holders: Vec::new(),
                answer: PutAnswer::Unreplicated,
            },
        }
    }

    /// Sends copies to replicas that do not hold them yet. The job ends once all do.
    fn spread(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, name: u32) {
        let Some(Job::Write(mut job)) = self.state().jobs.remove(name) else {
            return;
        };
        job.rounds += 1;
        let mut by_node: Vec<(NodeId, Vec<Record>)> = Vec::new();
        for item in &mut job.items {
            let Some(record) = &item.record else {
                continue;
            };
            let replicas = routing.other_replicas(cx, item.key);
            let mut is_spread = true;
            for &node in replicas.iter().filter(|node| !item.holders.contains(node)) {
                is_spread = false;
                match by_node.iter_mut().find(|(known, _)| *known == node) {
                    Some((_, records)) => records.push(record.clone()),
                    None => by_node.push((node, vec![record.clone()])),
                }
            }
            if is_spread {
                let copies = 1 + replicas.len();
                item.answer = if self.are_fewer_than_were(cx, copies) {
                    PutAnswer::Short(copies as u8)
                } else {
                    PutAnswer::Stored(copies as u8)
                };
                item.record = None;
            }
        }
        if by_node.is_empty() || job.rounds > ROUNDS_MAX {
            return self.end_write_on_disk(cx, routing, Job::Write(job));
        }
        // Messages are made first: the job must know how many answers it waits for.
        let mut messages: Vec<(NodeId, Arc<[Record]>)> = Vec::new();
        for (node, records) in by_node {
            for piece in copy_pieces(cx, &records) {
                messages.push((node, records[piece].into()));
            }
        }
        job.waiting = messages.len() as u32;
        let name = self.state().jobs.insert(Job::Write(job));
        for (node, records) in messages {
            let body = Body::Copy { exchange: 0, records };
            routing.ask(node, Cause::Job(name), body);
        }
    }

    /// Another node gives copies.
    pub fn receive_copy(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        records: &[Record],
    ) {
        let answers = records.iter().map(|record| self.take_copy(cx, routing, record)).collect();
        self.answer_copies(cx, routing, from, exchange, answers);
    }

    /// Stores the copy that another node gives.
    pub(super) fn take_copy(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        record: &Record,
    ) -> CopyAnswer {
        if !self.is_sound(cx, record) {
            cx.count(counters::BAD_RECORD, 1);
            return CopyAnswer::OverQuota;
        }
        if !is_near(cx, routing, record.key) {
            cx.count(counters::FAR_RECORD, 1);
            return CopyAnswer::Far;
        }
        match self.keep(cx, record) {
            Accepted::New | Accepted::Known => CopyAnswer::Held,
            Accepted::Newer(stamp) => CopyAnswer::Newer(stamp),
            Accepted::OverQuota => CopyAnswer::OverQuota,
        }
    }

    /// True if a peer may send this record.
    pub(super) fn is_sound(&self, cx: &mut Cx<'_>, record: &Record) -> bool {
        let max = cx.shared.lifetime_max.max(TOMBSTONE_LIFETIME).as_millis() as u32;
        let length = record.value.as_ref().map_or(0, Payload::len);
        let held = self.held(record.key, cx.now);
        let known = held.map_or(0, |held| held.stamp.version.count);
        let is_believed = is_believable(known, record.stamp.version.count);
        if !is_believed {
            cx.count(counters::VERSION_REFUSED, 1);
        }
        length <= cx.shared.value_bytes_max && record.lifetime_ms <= max && is_believed
    }

    /// A replica answered copies, record by record.
    pub fn copies_answered(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        cause: Cause,
        records: &[Record],
        answers: &[CopyAnswer],
    ) {
        let Cause::Job(name) = cause else {
            return self.copies_held(cx, routing, from, records, answers);
        };
        let Some(Job::Write(mut job)) = self.state().jobs.get(name).cloned() else {
            return;
        };
        job.waiting -= 1;
        for (record, answer) in records.iter().zip(answers) {
            self.copy_answered(cx, &mut job, from, record, *answer);
        }
        let is_over = job.waiting == 0;
        *self.state().jobs.get_mut(name).expect("just seen") = Job::Write(job);
        if is_over {
            self.spread(cx, routing, name);
        }
    }

    fn copy_answered(
        &mut self,
        cx: &mut Cx<'_>,
        job: &mut WriteJob,
        from: NodeId,
        sent: &Record,
        answer: CopyAnswer,
    ) {
        let Ok(place) = job.items.binary_search_by_key(&sent.key, |item| item.key) else {
            return;
        };
        let item = &mut job.items[place];
        let Some(record) = &mut item.record else {
            return;
        };
        match answer {
            CopyAnswer::Held if record.stamp == sent.stamp => item.holders.push(from),
            CopyAnswer::Held | CopyAnswer::Far => {}
            CopyAnswer::OverQuota => {
                item.answer = PutAnswer::OverQuota;
                item.record = None;
            }
            CopyAnswer::Newer(stamp) if is_later(&stamp, job.from, record.stamp.write) => {
                item.answer = PutAnswer::Superseded;
                item.record = None;
            }
            CopyAnswer::Newer(stamp)
                if !is_believable(record.stamp.version.count, stamp.version.count) =>
            {
                cx.count(counters::VERSION_REFUSED, 1);
            }
            CopyAnswer::Newer(stamp) => {
                // Order this write after the one that this node did not know of.
                if stamp.version >= record.stamp.version {
                    let count = stamp.version.count + 1;
                    record.stamp.version = Version { count, by: cx.node.0 };
                    item.holders.clear();
                    let record = record.clone();
                    self.keep(cx, &record);
                }
            }
        }
    }

    /// A replica did not answer a message of this job, and counts as failed.
    pub fn unanswered(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        name: u32,
        body: &Body,
    ) {
        match (self.state().jobs.get_mut(name), body) {
            (Some(Job::Conditional(_)), _) => self.conditional_unanswered(cx, routing, name),
            (Some(Job::Scan(_)), _) => self.scan_unanswered(cx, routing, name),
            (Some(Job::Write(job)), _) => {
                job.waiting -= 1;
                if job.waiting == 0 {
                    self.spread(cx, routing, name);
                }
            }
            (Some(Job::Read(job)), Body::Fetch { keys, .. }) => {
                job.waiting -= 1;
                job.unanswered.extend(keys.iter());
                if job.waiting == 0 {
                    self.ask_replicas(cx, routing, name);
                }
            }
            _ => {}
        }
    }

    /// Takes back what the application kept on disk.
    pub fn restore(&mut self, cx: &mut Cx<'_>, records: Vec<Record>) {
        let (now, config) = (cx.now, cx.shared);
        for record in records {
            if self.is_sound(cx, &record) {
                let (bytes_max, records_max) = (config.store_bytes_max, config.store_records_max);
                self.state().store.accept(&record, now, bytes_max, records_max);
                cx.count(counters::RESTORED, 1);
            } else {
                cx.count(counters::BAD_RECORD, 1);
            }
        }
        self.hurry();
    }
}

/// Answers the writer of a job that ends.
pub(super) fn end_job(routing: &mut Routing<'_>, job: Job) {
    match job {
        Job::Write(job) => end_write(routing, job),
        Job::Conditional(job) => job.end(routing),
        Job::Read(_) | Job::Scan(_) => {}
    }
}

fn end_write(routing: &mut Routing<'_>, job: WriteJob) {
    let answers = job.items.iter().map(|item| (item.key, item.answer)).collect();
    routing.answer_put(job.from, job.exchange, answers);
}

/// True if this node may hold the key. Leaves some slack for outdated tables.
fn is_near(cx: &Cx<'_>, routing: &Routing<'_>, key: Key) -> bool {
    routing.is_among(cx, key, 2 * cx.shared.copies() + 2)
}

/// Ranges of records that each fit a message.
pub(super) fn copy_pieces<T: Valued>(
    cx: &Cx<'_>,
    records: &[T],
) -> impl Iterator<Item = std::ops::Range<usize>> {
    let total: usize = records.iter().map(Valued::bytes_with_value).sum();
    let largest = records.iter().map(Valued::bytes_with_value).max().unwrap_or(0);
    let bytes_max = if total + COPY_HEAD_BYTES <= cx.datagram_bytes_max {
        MESSAGE_BYTES_MAX
    } else {
        list_bytes_max(cx, COPY_HEAD_BYTES, total, largest)
    };
    pieces(records, ITEMS_MAX, bytes_max, Valued::bytes_with_value)
}

/// True if a record of which `known` is the version count may have this one.
pub(super) fn is_believable(known: u64, count: u64) -> bool {
    count <= known.max(COUNT_TRUSTED_MAX).saturating_add(COUNT_LEAD_MAX)
}

/// True if what is stored was written by the same run of the same node, and later.
fn is_later(stored: &Stamp, writer: NodeId, write: u64) -> bool {
    stored.writer == writer.0 && stored.write >> 32 == write >> 32 && stored.write > write
}
