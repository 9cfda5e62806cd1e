//! Anti-entropy between replicas, in bundles. The responsible node and the other replicas exchange
//! lists of what they hold, and copy what is missing. A node that is no longer a replica of a
//! record drops it once the responsible node says that all replicas hold it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::replicate::copy_pieces;
use crate::core::{Instant, NodeId, mix};
use crate::overlay::bundle::pieces;
use crate::overlay::command::{Event, Outcome, Style};
use crate::overlay::counters;
use crate::overlay::exchange::Cause;
use crate::overlay::message::Body;
use crate::overlay::record::{CopyAnswer, ITEMS_MAX, Record, Version};
use crate::overlay::relay::list_bytes_max;
use crate::overlay::request::{Kind, Owner};
use crate::overlay::{Cx, Overlay};
use crate::overlay::{Hop, Key, Step};

/// Records compared at a time, and how many times in one turn.
const PAGE: usize = ITEMS_MAX;
const PAGES: usize = 8;
/// The factor by which comparisons become rarer while nothing changes.
const SLOWEST: u32 = 8;
const SUMMARY_HEAD_BYTES: usize = 320;
const ENTRY_BYTES: usize = Key::BYTES + 12;

/// Progress of the comparison.
#[derive(Debug, Default)]
pub(in crate::overlay) struct Sync {
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
    pub(in crate::overlay) fn hurry(&mut self) {
        self.is_hurried = true;
    }

    /// True if all was compared since then, and nothing was missing.
    pub(in crate::overlay) fn is_done_since(&self, at: Instant) -> bool {
        self.cursor.is_none() && !self.is_hurried && self.begun_at.is_some_and(|begun| begun > at)
    }
}

impl Overlay {
    /// Compares some pages, if it is time.
    pub(in crate::overlay) fn sync(&mut self, cx: &mut Cx<'_>) {
        let now = cx.now;
        // Notice a change of neighbours when it happens, not at the next request.
        self.look_around(cx);
        self.sweep(cx);
        if self.store.as_ref().is_none_or(|store| store.is_empty()) {
            return;
        }
        let every = cx.shared.sync_every;
        let sync = &mut self.state().sync;
        if sync.cursor.is_none() {
            let slowness = sync.slowness.max(1);
            let wait = if sync.is_hurried { Duration::ZERO } else { every * slowness };
            if sync.begun_at.is_some_and(|begun| now < begun + wait) {
                return;
            }
            sync.begun_at = Some(now);
            sync.slowness = if sync.is_hurried { 1 } else { (2 * slowness).min(SLOWEST) };
            sync.is_hurried = false;
            sync.confirmed.clear();
        }
        for _ in 0..PAGES {
            let cursor = self.state().sync.cursor;
            let (page, next) = self.store_mut().page(cursor, PAGE, now);
            self.state().sync.cursor = next;
            self.compare(cx, &page);
            if next.is_none() {
                return;
            }
        }
    }

    fn sweep(&mut self, cx: &mut Cx<'_>) {
        let Some(store) = &mut self.store else {
            return;
        };
        let is_durable = cx.shared.is_durable;
        let outbox = &mut *cx.outbox;
        store.sweep(PAGE, cx.now, |key| {
            outbox.counters.add(counters::EXPIRED, 1);
            if is_durable {
                outbox.events.push(Event::Erase { key });
            }
        });
    }

    /// Others may be responsible, or to hold copies, once the neighbours are not the same.
    fn look_around(&mut self, cx: &Cx<'_>) {
        let mut nodes = Vec::new();
        self.router.bordering(cx.shared.copies(), &mut nodes);
        let sum = nodes.iter().fold(0u64, |sum, node| sum.wrapping_add(mix(node.0.into()))) | 1;
        let sync = &mut self.state().sync;
        if sync.neighbourhood != sum {
            sync.neighbourhood = sum;
            sync.changed_at = Some(cx.now);
            sync.hurry();
        }
    }

    /// The neighbours are known to be the right ones: they need no time to settle.
    pub(in crate::overlay) fn trust_neighbours(&mut self, cx: &Cx<'_>) {
        self.look_around(cx);
        self.state().sync.changed_at = None;
    }

    /// True if the neighbours have been the same for as long as it takes to notice that one is gone
    /// and to set that right. Before that, a key without a record here may belong to a node between
    /// that this one does not know yet.
    pub(in crate::overlay) fn is_settled(&mut self, cx: &Cx<'_>) -> bool {
        if cx.shared.upkeep_every.is_none() {
            return true;
        }
        self.look_around(cx);
        let settle_after = self.settle_after(cx);
        let changed_at = self.state().sync.changed_at;
        self.router.knows_its_part()
            && changed_at.is_none_or(|changed| cx.now >= changed + settle_after)
    }

    /// How long neighbours must stay the same to count as the right ones.
    pub(in crate::overlay) fn settle_after(&self, cx: &Cx<'_>) -> Duration {
        3 * cx.shared.upkeep_every.unwrap_or_default() + 8 * self.patience(cx.shared)
    }

    fn compare(&mut self, cx: &mut Cx<'_>, page: &[(Key, Version)]) {
        let mut by_node: BTreeMap<NodeId, Vec<(Key, Version)>> = BTreeMap::new();
        let mut of_others = Vec::new();
        let mut step: Option<Step> = None;
        for &(key, version) in page {
            if step.is_none_or(|step| key > step.until) {
                step = Some(self.router.next_hop(key, &mut cx.shared.algorithm.first_walk()));
            }
            let is_mine = step.is_some_and(|step| step.hop == Hop::Here) && self.is_member();
            if !is_mine {
                of_others.push(key);
                continue;
            }
            let replicas = self.other_replicas(cx, key);
            let sync = &mut self.state().sync;
            if replicas.is_empty() {
                let neighbourhood = sync.neighbourhood;
                self.store_mut().settle(key, version, neighbourhood);
            } else {
                sync.confirmed.insert(key, (version, Vec::new()));
            }
            for node in replicas {
                by_node.entry(node).or_default().push((key, version));
            }
        }
        for (node, entries) in by_node {
            self.send_summary(cx, node, &entries);
        }
        if !of_others.is_empty() {
            let style = if self.is_member() { Style::Recursive } else { Style::Iterative };
            self.begin_request(cx, Owner::Sync, of_others, Vec::new(), Kind::Locate, style);
        }
    }

    /// The nodes responsible for records that this one holds.
    pub(in crate::overlay) fn owners_found(
        &mut self,
        cx: &mut Cx<'_>,
        outcomes: &[(Key, Outcome)],
    ) {
        let mut by_node: BTreeMap<NodeId, Vec<(Key, Version)>> = BTreeMap::new();
        for (key, outcome) in outcomes {
            let held = self.store.as_ref().and_then(|store| store.get(*key, cx.now));
            match (outcome, held) {
                (Outcome::Located(node), Some(held)) if *node != cx.node => {
                    by_node.entry(*node).or_default().push((*key, held.stamp.version));
                }
                (Outcome::Located(_), _) => {}
                _ => self.state().sync.hurry(),
            }
        }
        for (node, entries) in by_node {
            self.send_summary(cx, node, &entries);
        }
    }

    fn send_summary(&mut self, cx: &mut Cx<'_>, node: NodeId, entries: &[(Key, Version)]) {
        if !self.has_room(cx) {
            return self.state().sync.hurry();
        }
        let total = ENTRY_BYTES * entries.len();
        let bytes_max = list_bytes_max(cx, SUMMARY_HEAD_BYTES, total, ENTRY_BYTES);
        for piece in pieces(entries, ITEMS_MAX, bytes_max, |_| ENTRY_BYTES) {
            let entries: Arc<[_]> = entries[piece].into();
            let body = Body::Summary { exchange: 0, entries };
            self.ask(cx, node, Cause::Sync, 0, None, body);
        }
    }

    pub(in crate::overlay) fn receive_summary(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        entries: &[(Key, Version)],
    ) {
        let (mut lacking, mut newer, mut surplus) = (Vec::new(), Vec::new(), Vec::new());
        self.look_around(cx);
        let neighbourhood = self.state().sync.neighbourhood;
        let (mut step, mut replicas): (Option<Step>, _) = (None, Vec::new());
        for (place, &(key, version)) in (0..).zip(entries) {
            let held = self.store.as_ref().and_then(|store| store.get(key, cx.now));
            let Some(held) = held.filter(|held| held.stamp.version >= version) else {
                lacking.push(place);
                continue;
            };
            if step.is_none_or(|step| key > step.until) {
                step = Some(self.router.next_hop(key, &mut cx.shared.algorithm.first_walk()));
            }
            replicas.clear();
            self.router.replicas(key, cx.shared.copies(), &mut replicas);
            let is_mine = step.is_some_and(|step| step.hop == Hop::Here) && self.is_member();
            let is_settled = replicas.len() <= 1 || held.settled_in == neighbourhood;
            if is_mine && is_settled && !replicas.contains(&from) {
                surplus.push(place);
            } else if held.stamp.version > version {
                newer.push(place);
            }
        }
        self.send(cx, from, Body::SummaryReply { exchange, lacking, newer, surplus });
    }

    pub(in crate::overlay) fn receive_summary_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        exchange: u32,
        [lacking, newer, surplus]: [&[u16]; 3],
    ) {
        let Some(exchange) = self.answered(cx, from, exchange) else {
            return;
        };
        let Body::Summary { entries, .. } = &exchange.body else {
            return cx.count(counters::BAD_ANSWER, 1);
        };
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
                0 => self.confirmed(cx, key, version, from),
                1 => copies.extend(self.store_mut().record(key, cx.now)),
                2 => wanted.push(key),
                _ => self.drop_surplus(cx, key, version),
            }
        }
        if !copies.is_empty() || !wanted.is_empty() {
            cx.count(counters::REPAIRED, (copies.len() + wanted.len()) as u64);
            self.state().sync.hurry();
        }
        if !wanted.is_empty() {
            let body = Body::Fetch { exchange: 0, keys: wanted.into() };
            self.ask(cx, from, Cause::Sync, 0, None, body);
        }
        let pieces: Vec<_> = copy_pieces(cx, &copies).collect();
        for piece in pieces {
            let records: Arc<[Record]> = copies[piece].into();
            let body = Body::Copy { exchange: 0, records };
            self.ask(cx, from, Cause::Sync, 0, None, body);
        }
    }

    /// Answers to copies that were sent by comparing.
    pub(in crate::overlay) fn copies_held(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        records: &[Record],
        answers: &[CopyAnswer],
    ) {
        for (record, answer) in records.iter().zip(answers) {
            match answer {
                CopyAnswer::Held => self.confirmed(cx, record.key, record.stamp.version, from),
                CopyAnswer::Newer(_) => self.state().sync.hurry(),
                CopyAnswer::OverQuota | CopyAnswer::Far => {}
            }
        }
    }

    /// Another node holds a record of this age.
    fn confirmed(&mut self, cx: &mut Cx<'_>, key: Key, version: Version, by: NodeId) {
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
        if self.other_replicas(cx, key).iter().all(|node| holders.contains(node)) {
            self.state().sync.confirmed.remove(&key);
            self.store_mut().settle(key, version, neighbourhood);
        }
    }

    /// The responsible node says that this one need not hold a record.
    fn drop_surplus(&mut self, cx: &mut Cx<'_>, key: Key, version: Version) {
        let is_mine =
            self.router.next_hop(key, &mut cx.shared.algorithm.first_walk()).hop == Hop::Here;
        if self.is_member() && (is_mine || !self.is_settled(cx)) {
            // Two nodes consider themselves responsible, or this one does not know its range yet.
            // Wait until the tables are right.
            return self.state().sync.hurry();
        }
        if self.store_mut().drop_record(key, version) {
            cx.count(counters::HANDED_OVER, 1);
            if cx.shared.is_durable {
                cx.deliver(Event::Erase { key });
            }
        }
    }

    /// One more round of handing over, for a node that leaves, unless one is under way.
    pub(in crate::overlay) fn hand_over(&mut self, cx: &mut Cx<'_>) {
        let is_waiting = self.exchanges.iter().any(|(_, exchange)| exchange.cause == Cause::Sync);
        let is_seeking = self.state_if_any().is_some_and(|state| {
            state.requests.iter().any(|(_, request)| request.owner == Owner::Sync)
        });
        if !is_waiting && !is_seeking {
            self.state().sync.hurry();
            self.sync(cx);
        }
    }
}
