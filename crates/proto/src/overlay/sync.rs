//! Replicas compare what they hold, bundle by bundle; what is missing is copied, and what a node
//! is not to hold any longer is dropped once those that are hold it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::bundle::pieces;
use super::command::{Event, Role};
use super::exchange::Cause;
use super::message::{Body, CopyAnswer, ITEMS_MAX, Record, Version};
use super::node::{Cx, Overlay};
use super::relay::list_bytes_max;
use super::replicate::copy_pieces;
use super::{Key, Router};
use crate::core::{Instant, NodeId};

/// Records compared in one turn.
const PAGE: usize = 1024;
/// How many times seldomer replicas compare while nothing changes.
const SLOWEST: u32 = 8;
const SUMMARY_HEAD_BYTES: usize = 320;
const ENTRY_BYTES: usize = Key::BYTES + 12;

/// How far the comparing is.
#[derive(Debug, Default)]
pub(super) struct Sync {
    // Where the next page begins.
    cursor: Option<Key>,
    next_at: Instant,
    is_hurried: bool,
    slowness: u32,
    // Records that are not this node's any longer, and who confirmed to hold them.
    parting: BTreeMap<Key, (Version, Vec<NodeId>)>,
    // What the table's neighbourhood looked like.
    pub(super) neighbours: u64,
}

impl Sync {
    /// Something changed: compare soon.
    pub(super) fn hurry(&mut self) {
        self.is_hurried = true;
    }
}

impl<R: Router> Overlay<R> {
    /// Compares one page, if it is time.
    pub(super) fn sync(&mut self, cx: &mut Cx<'_, R>) {
        let now = cx.now;
        let Some(store) = &mut self.store else {
            return;
        };
        let is_durable = cx.shared.is_durable;
        let outbox = &mut *cx.outbox;
        store.sweep(PAGE, now, |key| {
            outbox.counters.add("overlay_expired", 1);
            if is_durable {
                outbox.events.push(Event::Erase { key });
            }
        });
        if store.is_empty() {
            return;
        }
        let every = cx.shared.sync_every;
        let sync = &mut self.rest().sync;
        if sync.cursor.is_none() {
            let soonest = if sync.is_hurried { Duration::ZERO } else { every };
            let slowness = sync.slowness.max(1);
            // `next_at` is when a page was due last.
            if now < sync.next_at + soonest * slowness && sync.next_at > Instant::ZERO {
                return;
            }
            sync.next_at = now;
            sync.slowness = if sync.is_hurried { 1 } else { (2 * slowness).min(SLOWEST) };
            sync.is_hurried = false;
            sync.parting.clear();
        }
        let cursor = self.rest().sync.cursor;
        let (page, next) = self.store_mut().page(cursor, PAGE, now);
        self.rest().sync.cursor = next;
        self.compare(cx, &page);
    }

    /// Tells the replicas of these records what is held here.
    fn compare(&mut self, cx: &mut Cx<'_, R>, page: &[(Key, Version)]) {
        let mut by_node: BTreeMap<NodeId, Vec<(Key, Version)>> = BTreeMap::new();
        let mut replicas = Vec::new();
        let is_leaving = self.role == Role::Leaving;
        for &(key, version) in page {
            replicas.clear();
            self.router.replicas(key, cx.shared.copies(), &mut replicas);
            let is_mine = replicas.contains(&cx.node) && !is_leaving;
            let others = self.other_replicas(cx, key);
            if !is_mine && !others.is_empty() {
                self.rest().sync.parting.insert(key, (version, Vec::new()));
            }
            for node in others {
                by_node.entry(node).or_default().push((key, version));
            }
        }
        for (node, entries) in by_node {
            if !self.has_room(cx) {
                return self.rest().sync.hurry();
            }
            let bytes_max =
                list_bytes_max(cx, SUMMARY_HEAD_BYTES, ENTRY_BYTES * entries.len(), ENTRY_BYTES);
            for piece in pieces(&entries, ITEMS_MAX, bytes_max, |_| ENTRY_BYTES) {
                let entries: Arc<[_]> = entries[piece].into();
                let body = Body::Summary { exchange: 0, entries };
                self.ask(cx, node, Cause::Sync, 0, None, body);
            }
        }
    }

    pub(super) fn receive_summary(
        &mut self,
        cx: &mut Cx<'_, R>,
        from: NodeId,
        exchange: u32,
        entries: &[(Key, Version)],
    ) {
        let (mut lacking, mut newer) = (Vec::new(), Vec::new());
        for (place, &(key, version)) in (0..).zip(entries) {
            let held = self.store.as_ref().and_then(|store| store.get(key, cx.now));
            match held.map(|held| held.stamp.version) {
                Some(here) if here == version => {}
                Some(here) if here > version => newer.push(place),
                _ => lacking.push(place),
            }
        }
        self.tell(cx, from, Body::SummaryReply { exchange, lacking, newer });
    }

    pub(super) fn receive_summary_reply(
        &mut self,
        cx: &mut Cx<'_, R>,
        from: NodeId,
        exchange: u32,
        lacking: &[u16],
        newer: &[u16],
    ) {
        let Some(exchange) = self.answered(cx, from, exchange) else {
            return;
        };
        let Body::Summary { entries, .. } = &exchange.body else {
            return cx.count("overlay_bad_answer", 1);
        };
        let is_place = |place: &u16| usize::from(*place) < entries.len();
        if !lacking.iter().chain(newer).all(is_place) {
            return cx.count("overlay_bad_answer", 1);
        }
        let mut states = vec![0u8; entries.len()];
        lacking.iter().for_each(|&place| states[usize::from(place)] |= 1);
        newer.iter().for_each(|&place| states[usize::from(place)] |= 2);
        let (mut copies, mut wanted) = (Vec::new(), Vec::new());
        for (&(key, version), state) in entries.iter().zip(states) {
            match state {
                0 => self.confirmed(cx, key, version, from),
                1 => copies.extend(self.store_mut().record(key, cx.now)),
                _ => wanted.push(key),
            }
        }
        if !copies.is_empty() || !wanted.is_empty() {
            cx.count("overlay_repaired", (copies.len() + wanted.len()) as u64);
            self.rest().sync.hurry();
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
    pub(super) fn copies_held(
        &mut self,
        cx: &mut Cx<'_, R>,
        from: NodeId,
        records: &[Record],
        answers: &[CopyAnswer],
    ) {
        for (record, answer) in records.iter().zip(answers) {
            match answer {
                CopyAnswer::Held => self.confirmed(cx, record.key, record.stamp.version, from),
                // What is newer there is newer than what is to go.
                CopyAnswer::Newer(_) => self.rest().sync.hurry(),
                CopyAnswer::OverQuota | CopyAnswer::Far => {}
            }
        }
    }

    /// Another node holds a record of this age. It is dropped here once all hold it that are to,
    /// if this node is none of those.
    fn confirmed(&mut self, cx: &mut Cx<'_, R>, key: Key, version: Version, by: NodeId) {
        let sync = &mut self.rest().sync;
        let Some((parting, holders)) = sync.parting.get_mut(&key) else {
            return;
        };
        if *parting != version {
            return;
        }
        if !holders.contains(&by) {
            holders.push(by);
        }
        let holders = holders.clone();
        let mut replicas = Vec::new();
        self.router.replicas(key, cx.shared.copies(), &mut replicas);
        let is_mine = replicas.contains(&cx.node) && self.role != Role::Leaving;
        let others = self.other_replicas(cx, key);
        if is_mine || others.is_empty() || !others.iter().all(|node| holders.contains(node)) {
            return;
        }
        self.rest().sync.parting.remove(&key);
        if self.store_mut().drop_record(key, version) {
            cx.count("overlay_handed_over", 1);
            if cx.shared.is_durable {
                cx.deliver(Event::Erase { key });
            }
        }
    }

    /// One more round of handing over, for a node that leaves, unless one is under way.
    pub(super) fn hand_over(&mut self, cx: &mut Cx<'_, R>) {
        let is_waiting = self.exchanges.iter().any(|(_, exchange)| exchange.cause == Cause::Sync);
        if !is_waiting {
            self.rest().sync.hurry();
            self.sync(cx);
        }
    }
}
