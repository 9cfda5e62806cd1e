//! Anti-entropy between replicas, in bundles. The responsible node and the other replicas exchange
//! lists of what they hold, and copy what is missing. A node that is no longer a replica of a
//! record drops it once the responsible node says that all replicas hold it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::replicate::copy_pieces;
use super::{Routing, State, Storage};
use crate::core::{Instant, NodeId, mix};
use crate::overlay::bundle::pieces;
use crate::overlay::command::{Event, Outcome};
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{CopyAnswer, ITEMS_MAX, Record, Version};
use crate::overlay::relay::list_bytes_max;
use crate::overlay::{Cx, Hop, Key, Step, counters};

/// Records of a page, which are compared at once.
const PAGE: usize = ITEMS_MAX;
/// Pages that are compared in one turn.
pub const PAGES: usize = 8;
/// The factor by which comparisons become rarer while nothing changes.
const SLOWEST: u32 = 8;
const SUMMARY_HEAD_BYTES: usize = 320;
const ENTRY_BYTES: usize = Key::BYTES + 16;

/// Progress of the comparison.
#[derive(Debug, Default)]
pub(super) struct Sync {
    // Where the next page begins.
    cursor: Option<Key>,
    begun_at: Option<Instant>,
    is_hurried: bool,
    slowness: u32,
    // Records that this node is responsible for, and the nodes that confirmed to hold them.
    confirmed: BTreeMap<Key, (Version, Vec<NodeId>)>,
    // A hash of the nodes around this one, and since when it is unchanged; `None` for long enough.
    neighbourhood: u64,
    changed_at: Option<Instant>,
}

impl Sync {
    /// Something changed: compare soon.
    pub(super) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// True if all was compared since then, and nothing was missing.
    pub(super) fn is_done_since(&self, at: Instant) -> bool {
        self.cursor.is_none() && !self.is_hurried && self.begun_at.is_some_and(|begun| begun > at)
    }
}

impl Storage {
    /// A turn of the timer: drops expired records. True if it is time to compare pages.
    pub fn begin_sync(&mut self, cx: &mut Cx<'_>, routing: &Routing<'_>) -> bool {
        let now = cx.now;
        // Notice a change of neighbours when it happens, not at the next request.
        self.look_around(cx, routing);
        self.sweep(cx);
        if self.is_empty() {
            return false;
        }
        let every = cx.shared.sync_every;
        let sync = &mut self.state().sync;
        if sync.cursor.is_none() {
            let slowness = sync.slowness.max(1);
            let wait = if sync.is_hurried { Duration::ZERO } else { every * slowness };
            if sync.begun_at.is_some_and(|begun| now < begun + wait) {
                return false;
            }
            sync.begun_at = Some(now);
            sync.slowness = if sync.is_hurried { 1 } else { (2 * slowness).min(SLOWEST) };
            sync.is_hurried = false;
            sync.confirmed.clear();
        }
        true
    }

    /// Compares the next page. False if it is the last.
    pub fn compare_page(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>) -> bool {
        let State { store, sync, .. } = self.state();
        let (page, next) = store.page(sync.cursor, PAGE, cx.now);
        sync.cursor = next;
        self.compare(cx, routing, &page);
        next.is_some()
    }

    fn sweep(&mut self, cx: &mut Cx<'_>) {
        let Some(state) = &mut self.state else {
            return;
        };
        let is_durable = cx.shared.is_durable;
        let outbox = &mut *cx.outbox;
        state.store.sweep(PAGE, cx.now, |key| {
            outbox.counters.add(counters::EXPIRED, 1);
            if is_durable {
                outbox.events.push(Event::Erase { key });
            }
        });
    }

    /// Others may be responsible, or to hold copies, once the neighbours are not the same.
    fn look_around(&mut self, cx: &Cx<'_>, routing: &Routing<'_>) {
        let mut nodes = Vec::new();
        routing.table().bordering(cx.shared.copies(), &mut nodes);
        let sum = nodes.iter().fold(0u64, |sum, node| sum.wrapping_add(mix(node.0))) | 1;
        let sync = &mut self.state().sync;
        if sync.neighbourhood != sum {
            sync.neighbourhood = sum;
            sync.changed_at = Some(cx.now);
            sync.hurry();
        }
    }

    /// The neighbours are known to be the right ones: they need no time to settle.
    pub fn trust_neighbours(&mut self, cx: &Cx<'_>, routing: &Routing<'_>) {
        self.look_around(cx, routing);
        self.state().sync.changed_at = None;
    }

    /// True if the neighbours have been the same for as long as it takes to notice that one is gone
    /// and to set that right, and then until they change: that answers come later by now does not
    /// unsettle what was settled. Before that, a key without a record here may belong to a node
    /// between that this one does not know yet.
    pub fn is_settled(&mut self, cx: &Cx<'_>, routing: &Routing<'_>) -> bool {
        if cx.shared.upkeep_every.is_none() {
            return true;
        }
        self.look_around(cx, routing);
        let settle_after = routing.settle_after(cx);
        let changed_at = &mut self.state().sync.changed_at;
        if changed_at.is_some_and(|changed| cx.now >= changed + settle_after) {
            *changed_at = None;
        }
        changed_at.is_none() && routing.table().knows_its_part()
    }

    fn compare(&mut self, cx: &mut Cx<'_>, routing: &mut Routing<'_>, page: &[(Key, Version)]) {
        let mut by_node: BTreeMap<NodeId, Vec<(Key, Version)>> = BTreeMap::new();
        let mut of_others = Vec::new();
        let mut step: Option<Step> = None;
        for &(key, version) in page {
            if step.is_none_or(|step| key > step.until) {
                step = Some(routing.step(cx, key));
            }
            let is_mine = step.is_some_and(|step| step.hop == Hop::Here) && routing.is_member();
            if !is_mine {
                of_others.push(key);
                continue;
            }
            let replicas = routing.other_replicas(cx, key);
            let sync = &mut self.state().sync;
            if replicas.is_empty() {
                let neighbourhood = sync.neighbourhood;
                self.state().store.settle(key, version, neighbourhood);
            } else {
                sync.confirmed.insert(key, (version, Vec::new()));
            }
            for node in replicas {
                by_node.entry(node).or_default().push((key, version));
            }
        }
        for (node, entries) in by_node {
            self.send_summary(cx, routing, node, &entries);
        }
        if !of_others.is_empty() {
            routing.locate(of_others);
        }
    }

    /// The nodes responsible for records that this one holds.
    pub fn owners_found(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        outcomes: &[(Key, Outcome)],
    ) {
        let mut by_node: BTreeMap<NodeId, Vec<(Key, Version)>> = BTreeMap::new();
        for (key, outcome) in outcomes {
            let held = self.held(*key, cx.now);
            match (outcome, held) {
                (Outcome::Located(node), Some(held)) if *node != cx.node => {
                    by_node.entry(*node).or_default().push((*key, held.stamp.version));
                }
                (Outcome::Located(_), _) => {}
                _ => self.hurry(),
            }
        }
        for (node, entries) in by_node {
            self.send_summary(cx, routing, node, &entries);
        }
    }

    fn send_summary(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        node: NodeId,
        entries: &[(Key, Version)],
    ) {
        if !routing.has_room(cx) {
            return self.hurry();
        }
        let total = ENTRY_BYTES * entries.len();
        let bytes_max = list_bytes_max(cx, SUMMARY_HEAD_BYTES, total, ENTRY_BYTES);
        for piece in pieces(entries, ITEMS_MAX, bytes_max, |_| ENTRY_BYTES) {
            let entries: Arc<[_]> = entries[piece].into();
            let body = Body::Summary { exchange: 0, entries };
            routing.ask(node, Cause::Sync, body);
        }
    }

    /// Another node tells what it holds.
    pub fn receive_summary(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        exchange: u32,
        entries: &[(Key, Version)],
    ) {
        let (mut lacking, mut newer, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
        self.look_around(cx, routing);
        let neighbourhood = self.state().sync.neighbourhood;
        let (mut step, mut replicas): (Option<Step>, _) = (None, Vec::new());
        for (place, &(key, version)) in (0..).zip(entries) {
            let held = self.held(key, cx.now);
            let Some(held) = held.filter(|held| held.stamp.version >= version) else {
                lacking.push(place);
                continue;
            };
            if step.is_none_or(|step| key > step.until) {
                step = Some(routing.step(cx, key));
            }
            replicas.clear();
            routing.table().replicas(key, cx.shared.copies(), &mut replicas);
            let is_mine = step.is_some_and(|step| step.hop == Hop::Here) && routing.is_member();
            let is_settled = replicas.len() <= 1 || held.settled_in == neighbourhood;
            if is_mine && is_settled && !replicas.contains(&from) {
                surplus.push(place);
            } else if held.stamp.version > version {
                newer.push(place);
            }
        }
        routing.send(from, Body::SummaryReply { exchange, lacking, newer, surplus });
    }

    /// The answer to a summary of these entries: places of records that the other node lacks, of
    /// which it has a newer version, and that this node need not hold.
    pub fn summary_answered(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &mut Routing<'_>,
        from: NodeId,
        entries: &[(Key, Version)],
        [lacking, newer, surplus]: [&[u16]; 3],
    ) {
        let mut states = vec![0u8; entries.len()];
        for (state, places) in (1..).zip([lacking, newer, surplus]) {
            for &place in places {
                match states.get_mut(usize::from(place)) {
                    Some(known) => *known = state,
                    None => return cx.count(counters::BAD_ANSWER, 1),
                }
            }
        }
        let (mut copies, mut wanted) = (Vec::new(), Vec::new());
        for (&(key, version), state) in entries.iter().zip(states) {
            match state {
                0 => self.confirmed(cx, routing, key, version, from),
                1 => copies.extend(self.state().store.record(key, cx.now)),
                2 => wanted.push(key),
                _ => self.drop_surplus(cx, routing, key, version),
            }
        }
        if !copies.is_empty() || !wanted.is_empty() {
            cx.count(counters::REPAIRED, (copies.len() + wanted.len()) as u64);
            self.hurry();
        }
        if !wanted.is_empty() {
            let body = Body::Fetch { exchange: 0, keys: wanted.into() };
            routing.ask(from, Cause::Sync, body);
        }
        let pieces: Vec<_> = copy_pieces(cx, &copies).collect();
        for piece in pieces {
            let records: Arc<[Record]> = copies[piece].into();
            let body = Body::Copy { exchange: 0, records };
            routing.ask(from, Cause::Sync, body);
        }
    }

    /// Answers to copies that were sent by comparing.
    pub(super) fn copies_held(
        &mut self,
        cx: &mut Cx<'_>,
        routing: &Routing<'_>,
        from: NodeId,
        records: &[Record],
        answers: &[CopyAnswer],
    ) {
        for (record, answer) in records.iter().zip(answers) {
            match answer {
                CopyAnswer::Held => {
                    self.confirmed(cx, routing, record.key, record.stamp.version, from)
                }
                CopyAnswer::Newer(_) => self.hurry(),
                CopyAnswer::OverQuota | CopyAnswer::Far => {}
            }
        }
    }

    /// Another node holds a record of this age.
    fn confirmed(
        &mut self,
        cx: &Cx<'_>,
        routing: &Routing<'_>,
        key: Key,
        version: Version,
        by: NodeId,
    ) {
        let sync = &mut self.state().sync;
        let neighbourhood = sync.neighbourhood;
        let Some((known, holders)) = sync.confirmed.get_mut(&key) else {
            return;
        };
        if *known != version {
            return;
        }
        if !holders.contains(&by) {
            holders.push(by);
        }
        let holders = holders.clone();
        if routing.other_replicas(cx, key).iter().all(|node| holders.contains(node)) {
            self.state().sync.confirmed.remove(&key);
            self.state().store.settle(key, version, neighbourhood);
        }
    }

    /// The responsible node says that this one need not hold a record.
    fn drop_surplus(&mut self, cx: &mut Cx<'_>, routing: &Routing<'_>, key: Key, version: Version) {
        let is_mine = routing.is_here(cx, key);
        if routing.is_member() && (is_mine || !self.is_settled(cx, routing)) {
            // Two nodes consider themselves responsible, or this one does not know its range yet.
            // Wait until the tables are right.
            return self.hurry();
        }
        if self.state().store.drop_record(key, version) {
            cx.count(counters::HANDED_OVER, 1);
            if cx.shared.is_durable {
                cx.deliver(Event::Erase { key });
            }
        }
    }
}
