//! The ledger of conditional writes: which version each expected, what became of it, and what nodes
//! hold. It knows keys that are written by conditional writes only.

use std::collections::{BTreeMap, BTreeSet};

use paceline_proto::core::{Instant, NodeId};
use paceline_proto::overlay::{Command, Event, Expect, Key, Operation, Outcome, Version};

use super::overlay::{Host, hash};
use super::report::{Report, Violation, rules};
use paceline_sim::{Fault, Input, Observer, Reply};

rules! {
    /// What an overlay promises of conditional writes.
    pub enum Rule {
        /// D7: of the writes that expect the same version, at most one is acknowledged, unless the
        /// network was split.
        Exclusion => "D7 exclusion",
        /// D8: a write of which a node says that its condition did not hold is not carried out.
        Refusal => "D8 refusal",
        /// D9: an acknowledged write has the version in its acknowledgement; no other write has it.
        Version => "D9 version",
        /// D10: once faults are over, what is held is as new as the newest acknowledged write.
        Survival => "D10 survival",
    }
}

/// A conditional write under one key.
#[derive(Clone, Copy, Debug)]
struct Write {
    key: Key,
    expect: Expect,
    hash: u64,
}

#[derive(Clone, Debug, Default)]
struct Under {
    // Acknowledged writes: what each expected, by the version that it got.
    acknowledged: BTreeMap<Version, Expect>,
    // Hashes of writes that were refused, and of those that any node ever held.
    refused: BTreeSet<u64>,
    seen: BTreeSet<u64>,
    // The hash of the value of each version that was ever held.
    values: BTreeMap<Version, u64>,
    // What live nodes hold.
    holders: BTreeMap<NodeId, Version>,
}

/// Watches the conditional writes of an overlay from its first node on.
#[derive(Default)]
pub struct ConditionalLedger {
    open: BTreeMap<(NodeId, u64), Vec<Write>>,
    under: BTreeMap<Key, Under>,
    changes: BTreeMap<NodeId, u64>,
    // Outcomes of the present call. A node may store a record in the call that acknowledges it.
    ended: Vec<(NodeId, u64, Key, Outcome)>,
    is_split: bool,
    acknowledged: u64,
    refused: u64,
    unknown: u64,
    report: Report<Rule>,
}

impl ConditionalLedger {
    /// The first broken promise.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// Writes that were acknowledged, that were refused, and of which the outcome is not known.
    pub fn totals(&self) -> [u64; 3] {
        [self.acknowledged, self.refused, self.unknown]
    }

    /// The keys that were written.
    pub fn keys(&self) -> Vec<Key> {
        self.under.keys().copied().collect()
    }

    /// What this outcome of a read must be, once faults are over for long enough.
    pub fn check_read(&mut self, at: Instant, node: NodeId, key: Key, outcome: &Outcome) {
        let Some(under) = self.under.get(&key) else {
            return;
        };
        let newest = under.acknowledged.keys().next_back().copied();
        let is_right = match outcome {
            Outcome::Found { version, .. } => newest.is_none_or(|newest| *version >= newest),
            Outcome::Absent => newest.is_none(),
            // Nodes that failed for good may have held a value.
            _ => newest.is_none(),
        };
        if !is_right {
            let held = &under.holders;
            let what =
                format!("{key}: {outcome:?}, but {newest:?} was acknowledged; held {held:?}");
            self.report.note(at, node, (Rule::Survival, what));
        }
    }

    fn begin(&mut self, node: NodeId, id: u64, items: &[(Expect, paceline_proto::overlay::Item)]) {
        let write = |(expect, item): &(Expect, paceline_proto::overlay::Item)| {
            self.under.entry(item.key).or_default();
            Write { key: item.key, expect: *expect, hash: hash(&item.value) }
        };
        let writes = items.iter().map(write).collect();
        self.open.insert((node, id), writes);
    }

    fn end(&mut self, at: Instant, node: NodeId, id: u64, key: Key, outcome: &Outcome) {
        let Some(writes) = self.open.get_mut(&(node, id)) else {
            return;
        };
        let Some(place) = writes.iter().position(|write| write.key == key) else {
            return;
        };
        let write = writes.swap_remove(place);
        let is_split = self.is_split;
        let under = self.under.entry(key).or_default();
        let broken = match *outcome {
            Outcome::StoredAs { version, .. } => {
                self.acknowledged += 1;
                let other = under.acknowledged.iter().find(|(_, expect)| **expect == write.expect);
                let held = under.values.get(&version).copied();
                let result = match other {
                    Some((other, _)) if !is_split => {
                        let what = format!("{key}: both {other} and {version} replaced");
                        Err((Rule::Exclusion, format!("{what} {}", write.expect)))
                    }
                    _ if held.map_or(!under.seen.contains(&write.hash), |it| it != write.hash) => {
                        let what = format!("{key}: {version} is {held:?}, not what was written");
                        Err((Rule::Version, what))
                    }
                    _ => Ok(()),
                };
                // All that held it may have failed while the answer was on its way.
                if under.holders.values().any(|held| *held >= version) {
                    under.acknowledged.insert(version, write.expect);
                }
                result
            }
            Outcome::Differs { found } => {
                self.refused += 1;
                under.refused.insert(write.hash);
                if under.seen.contains(&write.hash) {
                    let what = format!("{key}: refused for {found:?}, and it was carried out");
                    Err((Rule::Refusal, what))
                } else {
                    Ok(())
                }
            }
            _ => {
                self.unknown += 1;
                Ok(())
            }
        };
        self.report.judge(at, node, broken);
    }

    /// Looks at a node's store again if it changed.
    fn mirror<P: Host>(&mut self, at: Instant, node: NodeId, protocol: &P) {
        let store = protocol.overlay().store();
        let changes = store.map_or(0, |store| store.changes());
        if self.changes.insert(node, changes) == Some(changes) {
            return;
        }
        for (&key, under) in &mut self.under {
            let held = store.and_then(|store| store.get(key, at));
            let Some(held) = held else {
                under.holders.remove(&node);
                continue;
            };
            let version = held.stamp.version;
            under.holders.insert(node, version);
            let Some(hash) = held.value.as_ref().map(hash) else {
                continue;
            };
            under.seen.insert(hash);
            let known = *under.values.entry(version).or_insert(hash);
            let result = if under.refused.contains(&hash) {
                Err((Rule::Refusal, format!("{key}: carried out as {version} after its refusal")))
            } else if known != hash && !self.is_split && under.acknowledged.contains_key(&version) {
                Err((Rule::Version, format!("{key}: two values are {version}")))
            } else {
                Ok(())
            };
            self.report.judge(at, node, result);
        }
    }

    /// A node lost what it held. Where none of those that are left holds an acknowledged write,
    /// the key is again what it was before that write.
    fn forget_records(&mut self, node: NodeId) {
        self.changes.remove(&node);
        for under in self.under.values_mut() {
            under.holders.remove(&node);
            let newest = under.holders.values().max().copied();
            under.acknowledged.retain(|version, _| newest.is_some_and(|newest| *version <= newest));
            under.values.retain(|version, _| newest.is_some_and(|newest| *version <= newest));
        }
    }
}

impl<P: Host> Observer<P> for ConditionalLedger {
    fn before_call(&mut self, _: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        if let Input::Command(Command::Request { id, operation, .. }) = input
            && let Operation::PutIf(items) = operation
        {
            self.begin(node, *id, items);
        }
    }

    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        match event {
            Event::Outcome { id, outcomes } => {
                let ended = outcomes.iter().cloned();
                self.ended.extend(ended.map(|(key, outcome)| (node, *id, key, outcome)));
            }
            Event::Rejected { id, .. } => drop(self.open.remove(&(node, *id))),
            Event::Left => self.forget_records(node),
            _ => {}
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.mirror(at, node, protocol);
        for (node, id, key, outcome) in std::mem::take(&mut self.ended) {
            self.end(at, node, id, key, &outcome);
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }

    fn on_fault(&mut self, _: Instant, fault: &Fault) {
        match fault {
            Fault::Partition(_) | Fault::Block(..) | Fault::Sever(..) => self.is_split = true,
            Fault::Crash(node) => {
                self.forget_records(*node);
                self.open.retain(|(by, _), _| by != node);
            }
            _ => {}
        }
    }
}
