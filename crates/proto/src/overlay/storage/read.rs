//! Reads: from the records stored here, or else from other replicas.

use super::read_job::ReadJob;
use super::replicate::{COPY_HEAD_BYTES, Job, ROUNDS_MAX};
use super::store::Accepted;
use super::{Routing, Storage};
use crate::core::NodeId;
use crate::core::field::Valued;
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{Answer, MESSAGE_BYTES_MAX, Record};
use crate::overlay::{Cx, Key, counters};

impl Storage {
    /// Reads keys that this node is responsible for. Keys that it must request from other replicas
    /// are not among the answers; they follow in results.
    pub fn read(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        initiator: NodeId,
        tag: u64,
        keys: impl Iterator<Item = Key>,
    ) -> Vec<(Key, Answer)> {
        let (now, bytes_max) = (cx.now, cx.shared.answer_bytes_max);
        let may_ask = cx.shared.copies() > 1;
        let is_settled = self.is_settled(cx, routing);
        let (mut answers, mut missing, mut bytes) = (Vec::new(), Vec::new(), 0);
        for key in keys {
            let held = self.held(key, now);
            let answer = match held.map(|held| (held.stamp.version, &held.value)) {
                Some((version, Some(value))) => {
                    bytes += value.len();
                    if bytes > bytes_max && bytes > value.len() {
                        Answer::Again
                    } else {
                        Answer::Found { version, value: value.clone() }
                    }
                }
                Some((_, None)) => self.removed_under(cx, routing, key),
                None if may_ask && !routing.other_replicas(cx, key).is_empty() => {
                    missing.push(key);
                    continue;
                }
                None => self.nothing_under(cx, routing, key, is_settled),
            };
            answers.push((key, answer));
        }
        if !missing.is_empty() {
            self.read_elsewhere(cx, routing, initiator, tag, missing);
        }
        answers
    }

    fn read_elsewhere(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        initiator: NodeId,
        tag: u64,
        keys: Vec<Key>,
    ) {
        if self.jobs_open() >= cx.shared.in_flight_max || !routing.has_room(cx) {
            cx.count(counters::JOBS_FULL, 1);
            let answers = keys.into_iter().map(|key| (key, Answer::Busy)).collect();
            return routing.answer_get(initiator, tag, answers);
        }
        let job = ReadJob {
            initiator,
            tag,
            keys,
            asked: Vec::new(),
            found: Vec::new(),
            unanswered: Vec::new(),
            waiting: 0,
            rounds: 0,
        };
        let name = self.state().jobs.insert(Job::Read(job));
        self.ask_replicas(cx, routing, name);
    }

    /// Asks the replicas that were not asked yet. The job ends if there are none.
    pub(super) fn ask_replicas(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, name: u32) {
        let Some(Job::Read(mut job)) = self.state().jobs.get(name).cloned() else {
            return;
        };
        let mut by_node: Vec<(NodeId, Vec<Key>)> = Vec::new();
        for &key in &job.keys {
            for node in routing.other_replicas(cx, key) {
                if job.asked.contains(&(node, key)) {
                    continue;
                }
                job.asked.push((node, key));
                match by_node.iter_mut().find(|(known, _)| *known == node) {
                    Some((_, keys)) => keys.push(key),
                    None => by_node.push((node, vec![key])),
                }
            }
        }
        job.rounds += 1;
        job.waiting = by_node.len() as u32;
        let is_over = by_node.is_empty() || job.rounds > ROUNDS_MAX;
        if is_over {
            self.state().jobs.remove(name);
            return self.end_read(cx, routing, job);
        }
        *self.state().jobs.get_mut(name).expect("just seen") = Job::Read(job);
        for (node, keys) in by_node {
            let body = Body::Fetch { exchange: 0, keys: keys.into() };
            routing.ask(node, Cause::Job(name), body);
        }
    }

    fn end_read(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, job: ReadJob) {
        let now = cx.now;
        let is_settled = self.is_settled(cx, routing);
        let answer = |&key: &Key| {
            let stored = self.record(key, now);
            let found = job.found.iter().filter(|record| record.key == key).cloned();
            let newest = stored.into_iter().chain(found).max_by_key(|record| record.stamp.version);
            let answer = match newest {
                Some(Record { stamp, value: Some(value), .. }) => {
                    Answer::Found { version: stamp.version, value }
                }
                Some(_) => self.removed_under(cx, routing, key),
                // A node that may hold the record did not answer.
                None if job.unanswered.contains(&key) => Answer::Busy,
                None => self.nothing_under(cx, routing, key, is_settled),
            };
            (key, answer)
        };
        let answers = job.keys.iter().map(answer).collect();
        routing.answer_get(job.initiator, job.tag, answers);
    }

    /// Another node asks for the records under these keys.
    pub fn receive_fetch(
        &self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        keys: &[Key],
    ) {
        let (mut records, mut bytes, mut is_whole) = (Vec::new(), COPY_HEAD_BYTES, true);
        for &key in keys {
            if let Some(record) = self.record(key, cx.now) {
                bytes += record.bytes_with_value();
                if bytes > MESSAGE_BYTES_MAX && !records.is_empty() {
                    is_whole = false;
                    break;
                }
                records.push(record);
            }
        }
        routing.send(from, Body::Fetched { exchange, records, is_whole });
    }

    /// The answer to a request for the records under these keys.
    #[allow(clippy::too_many_arguments, reason = "all that an answer is made of")]
    pub fn fetched(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        cause: Cause,
        keys: &[Key],
        records: Vec<Record>,
        is_whole: bool,
    ) {
        let last = records.last().map_or(Key::ZERO, |record| record.key);
        let mut homeless = Vec::new();
        for record in records {
            if keys.binary_search(&record.key).is_err() || !self.is_sound(cx, &record) {
                cx.count(counters::BAD_ANSWER, 1);
            } else if self.keep(cx, &record) == Accepted::OverQuota {
                homeless.push(record);
            }
        }
        let Cause::Job(name) = cause else {
            return;
        };
        if matches!(self.state().jobs.get(name), Some(Job::Conditional(_))) {
            let known = |key: &Key| is_whole || *key <= last;
            let keys: Vec<Key> = keys.iter().copied().filter(known).collect();
            return self.conditional_fetched(cx, routing, name, from, &keys, &homeless);
        }
        if matches!(self.state().jobs.get(name), Some(Job::Scan(_))) {
            let unknown = keys.iter().copied().find(|key| !is_whole && *key > last);
            return self.scan_fetched(cx, routing, name, unknown, homeless);
        }
        if let Some(Job::Read(job)) = self.state().jobs.get_mut(name) {
            job.waiting -= 1;
            job.found.extend(homeless);
            if !is_whole {
                job.unanswered.extend(keys.iter().filter(|&&key| key > last));
            }
            if job.waiting == 0 {
                self.ask_replicas(cx, routing, name);
            }
        }
    }
}
