//! Persistence: the node hands records to the application, which reports how many are on disk.
//!
//! Where acknowledgements wait for the disk
//! ([`Config::with_awaits_disk`](crate::overlay::Config::with_awaits_disk)), a node answers for
//! records only once all records handed over before are on disk. The application writes all queued
//! records in one batch, so that one disk synchronisation serves many writes.

use std::collections::{BTreeSet, VecDeque};

use super::replicate::{Job, end_job};
use super::{Routing, Storage};
use crate::core::NodeId;
use crate::overlay::command::Event;
use crate::overlay::message::Body;
use crate::overlay::record::{CopyAnswer, Record};
use crate::overlay::{Cx, counters};

/// Answers that may wait for the disk. Beyond this limit none is sent, and the requester retries.
const HELD_BACK_MAX: usize = 65_536;

/// Progress of writing to disk.
#[derive(Debug, Default)]
pub(super) struct Persisting {
    // The number of records handed to the application, and how many of them are on disk.
    handed_over: u64,
    done: u64,
    // Answers, each with the number of records that must be on disk before it may be sent.
    held_back: VecDeque<(u64, HeldBack)>,
    // The senders and numbers of the copies among them.
    copied: BTreeSet<(NodeId, u32)>,
}

/// An answer that waits for the disk.
#[derive(Debug)]
enum HeldBack {
    /// To a node that sent copies.
    Copied { to: NodeId, exchange: u32, answers: Vec<CopyAnswer> },
    /// To a writer, by the job's name.
    Written(u32),
}

impl Persisting {
    /// Drops the answers that wait for the disk.
    pub(super) fn drop_answers(&mut self) {
        self.held_back.clear();
        self.copied.clear();
    }

    /// Holds an answer back until all records handed over so far are on disk.
    fn hold_back(&mut self, answer: HeldBack) {
        if let HeldBack::Copied { to, exchange, .. } = &answer {
            self.copied.insert((*to, *exchange));
        }
        self.held_back.push_back((self.handed_over, answer));
    }

    /// The next answer that may be sent once `done` records are on disk.
    fn next(&mut self, done: u64) -> Option<HeldBack> {
        let _ = self.held_back.front().filter(|(needed, _)| *needed <= done)?;
        let (_, answer) = self.held_back.pop_front()?;
        if let HeldBack::Copied { to, exchange, .. } = &answer {
            self.copied.remove(&(*to, *exchange));
        }
        Some(answer)
    }
}

impl Storage {
    /// Tells the application to write a record to disk.
    pub(super) fn persist(&mut self, cx: &mut Cx<'_>, record: &Record) {
        let persisting = &mut self.state().persisting;
        persisting.handed_over += 1;
        let number = persisting.handed_over;
        cx.deliver(Event::Persist { number, record: record.clone() });
    }

    /// True if answers for records have to wait for the disk.
    fn is_behind(&self, cx: &Cx<'_>) -> bool {
        let is_behind = |persisting: &Persisting| persisting.done < persisting.handed_over;
        let awaits_disk = cx.shared.is_durable && cx.shared.awaits_disk;
        awaits_disk && self.state_if_any().is_some_and(|state| is_behind(&state.persisting))
    }

    /// Answers a node that gave copies, once they are on disk if need be.
    pub(super) fn answer_copies(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        to: NodeId,
        exchange: u32,
        answers: Vec<CopyAnswer>,
    ) {
        if !self.is_behind(cx) {
            return routing.send(to, Body::CopyReply { exchange, answers });
        }
        let persisting = &mut self.state().persisting;
        if persisting.copied.contains(&(to, exchange)) {
            cx.count(counters::DUPLICATE, 1);
            return routing.send(to, Body::CopyReply { exchange, answers: Vec::new() });
        }
        if persisting.held_back.len() >= HELD_BACK_MAX {
            return cx.count(counters::DISK_BEHIND, 1);
        }
        persisting.hold_back(HeldBack::Copied { to, exchange, answers });
    }

    /// Ends a write whose copies are where they belong, once it is on this node's disk too.
    pub(super) fn end_write_on_disk(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        job: Job,
    ) {
        if !self.is_behind(cx) {
            return end_job(routing, job);
        }
        let state = self.state();
        let name = state.jobs.insert(job);
        state.persisting.hold_back(HeldBack::Written(name));
    }

    /// All records up to this number are on disk. Returns the number up to which answers may now be
    /// given.
    pub fn persisted(&mut self, number: u64) -> u64 {
        let persisting = &mut self.state().persisting;
        persisting.done = persisting.done.max(number.min(persisting.handed_over));
        persisting.done
    }

    /// Sends the oldest pending answer, if the records that it depends on are among the first
    /// `done`. Returns false if no such answer is pending.
    pub fn release(&mut self, routing: &mut Routing<'_>, done: u64) -> bool {
        let answer = self.state().persisting.next(done);
        match answer {
            None => return false,
            Some(HeldBack::Copied { to, exchange, answers }) => {
                routing.send(to, Body::CopyReply { exchange, answers });
            }
            Some(HeldBack::Written(name)) => {
                if let Some(job) = self.state().jobs.remove(name) {
                    end_job(routing, job);
                }
            }
        }
        true
    }
}
