//! The ledger of an overlay run: the outcome of every key, its time, and its cost.

use std::collections::BTreeMap;

use paceline_lab::world;
use paceline_proto::core::{Counters, Instant, NodeId};
use paceline_proto::overlay::Outcome;
use serde::{Deserialize, Serialize};

use crate::counters;

/// What became of the keys of one phase.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// Keys asked for.
    pub asked: u64,
    /// Keys stored or found, rightly.
    pub done: u64,
    /// Keys for which there was no value.
    pub absent: u64,
    /// Keys for which a value came that no writer had stored there.
    pub wrong: u64,
    /// Keys given up.
    pub failed: u64,
    /// Keys for which a payload was delivered to an application.
    pub delivered: u64,
    /// Keys for which one was delivered that was not sent to them.
    pub misdelivered: u64,
    /// When the first was asked for, nanoseconds.
    pub first_nanos: Option<u64>,
    /// When the last result was reported, nanoseconds.
    pub last_nanos: u64,
}

impl Tally {
    /// Keys that have a result.
    pub fn answered(&self) -> u64 {
        self.done + self.absent + self.wrong + self.failed
    }

    /// Seconds from the first question to the last answer.
    pub fn seconds(&self) -> f64 {
        let first = self.first_nanos.unwrap_or(self.last_nanos);
        self.last_nanos.saturating_sub(first) as f64 / 1e9
    }
}

/// What one process noted of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part {
    tallies: Vec<Tally>,
    // What was counted until each phase began, by name.
    marks: Vec<Vec<(String, u64)>>,
}

/// The ledger of a run.
#[derive(Debug)]
pub struct Ledger {
    phases: Vec<Tally>,
    /// What was counted until each phase began.
    pub marks: Vec<Counters>,
    /// Nodes that joined.
    pub joined: u64,
    /// Nodes that did not.
    pub joins_failed: u64,
    // Keys requested and keys with a reported result, by requester.
    nodes: BTreeMap<NodeId, (usize, usize)>,
    answered: usize,
}

impl Ledger {
    /// An empty ledger.
    pub fn new(phases: usize) -> Ledger {
        Ledger {
            phases: vec![Tally::default(); phases],
            marks: Vec::new(),
            joined: 0,
            joins_failed: 0,
            nodes: BTreeMap::new(),
            answered: 0,
        }
    }

    /// A node requests `keys` keys.
    pub fn submitted(&mut self, phase: usize, at: Instant, node: NodeId, keys: usize) {
        let tally = &mut self.phases[phase];
        tally.asked += keys as u64;
        let first = tally.first_nanos.get_or_insert(at.as_nanos());
        *first = (*first).min(at.as_nanos());
        self.nodes.entry(node).or_default().0 += keys;
    }

    /// A node gets the result for a key.
    pub fn answered(
        &mut self,
        phase: usize,
        at: Instant,
        node: NodeId,
        outcome: &Outcome,
        is_right: bool,
    ) {
        let tally = &mut self.phases[phase];
        match outcome {
            Outcome::Absent => tally.absent += 1,
            Outcome::Failed(_) => tally.failed += 1,
            _ if is_right => tally.done += 1,
            _ => tally.wrong += 1,
        }
        tally.last_nanos = tally.last_nanos.max(at.as_nanos());
        self.nodes.entry(node).or_default().1 += 1;
        self.answered += 1;
    }

    /// An application gets a payload for `keys` of the keys it was sent to, and for `others` other
    /// keys.
    pub fn delivered(&mut self, phase: usize, keys: usize, others: usize) {
        let tally = &mut self.phases[phase];
        tally.delivered += keys as u64;
        tally.misdelivered += others as u64;
    }

    /// A bundle was not accepted.
    pub fn rejected(&mut self, phase: usize, at: Instant, node: NodeId, keys: usize) {
        let tally = &mut self.phases[phase];
        tally.failed += keys as u64;
        tally.last_nanos = tally.last_nanos.max(at.as_nanos());
        self.nodes.entry(node).or_default().1 += keys;
        self.answered += keys;
    }

    /// Keys that this node requested and that have no result yet.
    pub fn open_at(&self, node: NodeId) -> usize {
        self.nodes.get(&node).map_or(0, |(asked, answered)| asked - answered)
    }

    /// Keys of one node that have a result.
    pub fn done_at(&self, node: NodeId) -> usize {
        self.nodes.get(&node).map_or(0, |(_, answered)| *answered)
    }

    /// Keys that have a result.
    pub fn done(&self) -> usize {
        self.answered
    }

    /// What became of the keys, by phase.
    pub fn tallies(&self) -> &[Tally] {
        &self.phases
    }

    /// What was counted in each phase; `end` is what was counted in all.
    pub fn counted(&self, phase: usize, counter: &str, end: &Counters) -> u64 {
        let at = |mark: usize| self.marks.get(mark).unwrap_or(end).count(counter);
        at(phase + 1) - at(phase).min(at(phase + 1))
    }
}

impl world::Ledger for Ledger {
    type Part = Part;

    /// A process has one node.
    fn part(&self, _node: NodeId) -> Part {
        let owned = |(name, n): (&str, u64)| (name.to_owned(), n);
        let marks = self.marks.iter();
        let marks = marks.map(|counters| counters.sorted().into_iter().map(owned).collect());
        Part { tallies: self.phases.clone(), marks: marks.collect() }
    }

    fn merge(&mut self, _node: NodeId, part: Part) {
        for (number, counters) in part.marks.into_iter().enumerate() {
            if self.marks.len() <= number {
                self.marks.push(Counters::default());
            }
            // All processes are of one program, so that no counter is unknown.
            let counted = counters.into_iter();
            let counted = counted.filter_map(|(name, n)| Some((counters::find(&name)?, n)));
            counted.for_each(|(counter, n)| self.marks[number].add(counter, n));
        }
        for (tally, part) in self.phases.iter_mut().zip(part.tallies) {
            self.answered += part.answered() as usize;
            tally.asked += part.asked;
            tally.done += part.done;
            tally.absent += part.absent;
            tally.wrong += part.wrong;
            tally.failed += part.failed;
            tally.delivered += part.delivered;
            tally.misdelivered += part.misdelivered;
            tally.first_nanos = tally.first_nanos.into_iter().chain(part.first_nanos).min();
            tally.last_nanos = tally.last_nanos.max(part.last_nanos);
        }
    }
}
