//! The recursive style: each hop divides the bundle and hands on the parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Key;
use super::bundle::{pieces, split, target_bytes};
use super::command::Event;
use super::config::CANDIDATES;
use super::counters;
use super::exchange::Cause;
use super::message::{Body, Purpose, Route, Target};
use super::record::{Answer, ITEMS_MAX, MESSAGE_BYTES_MAX};
use super::{Cx, Overlay};
use crate::core::field::Valued;
use crate::core::{CounterId, NodeId, Payload};

/// Deliveries that are remembered, so that a bundle that comes again is not delivered again.
const DELIVERED_MAX: usize = 4096;
/// Datagrams of one list. With more, many bundles at once would overrun the receiver, and lost
/// answers delay requests by seconds.
const DATAGRAMS_MAX: usize = 4;
/// Bytes of a bundle's message besides targets and payload, at most.
const ROUTE_HEAD_BYTES: usize = 30;
/// Bytes of a result besides its answers, at most.
const RESULT_HEAD_BYTES: usize = 52;

impl Overlay {
    pub(super) fn receive_route(&mut self, cx: &mut Cx<'_>, from: NodeId, mut route: Route) {
        let exchange = route.exchange;
        cx.count(counter_for(&route.purpose, counters::ACK), 1);
        self.send_uncounted(cx, from, Body::Ack { exchange });
        if !self.is_new(from, exchange) {
            return cx.count(counters::DUPLICATE, 1);
        }
        let (initiator, is_member) = (route.initiator, route.is_member);
        if is_member || from != initiator {
            self.heard(cx, from);
        } else {
            // It was a member before, perhaps: it has lost its memory since.
            self.router.forget(from);
        }
        if route.ttl == 0 {
            return self.refuse(cx, &route, &route.targets, Answer::NoRoute, counters::TTL);
        }
        if !self.has_room_for(cx, from) {
            return self.refuse(cx, &route, &route.targets, Answer::Busy, counters::BUSY);
        }
        route.ttl = route.ttl.min(cx.shared.ttl) - 1;
        let parts = self.advance(cx, from, route, 0);
        if is_member {
            // The published implementation names the sender once more where a bundle stays whole,
            // and the requester for each part.
            self.mentioned(cx, from, usize::from(parts == 1));
            self.mentioned(cx, initiator, parts);
        }
    }

    /// Takes a bundle one step further, and returns the number of parts. Its `ttl` is the number of
    /// hops that it may make from here.
    pub(super) fn advance(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        route: Route,
        tries: u8,
    ) -> usize {
        let split = split(&*self.router, &route.targets);
        count_lookups(cx, &route.purpose, split.lookups);
        let parts = split.onward.len() + usize::from(split.here.is_some());
        if let Some(here) = &split.here {
            self.end_here(cx, &route, here, split.range);
        }
        for (next, targets) in split.onward {
            if route.ttl == 0 {
                self.refuse(cx, &route, &targets, Answer::NoRoute, counters::TTL);
            } else {
                self.hand_on(cx, from, next, &route, targets, tries);
            }
        }
        parts
    }

    /// The first step of a bundle: straight to the node that claimed to be responsible, if one is
    /// known. If the claim is outdated, that node forwards the bundle.
    pub(super) fn advance_by_ranges(&mut self, cx: &mut Cx<'_>, route: Route) {
        let ranges = &self.state().ranges;
        let (mut known, mut unknown) = (BTreeMap::<NodeId, Vec<_>>::new(), Vec::new());
        for &target in route.targets.iter() {
            match ranges.node(target.key) {
                Some(node) => known.entry(node).or_default().push(target),
                None => unknown.push(target),
            }
        }
        for (node, targets) in known {
            cx.count(counters::RANGE_HITS, targets.len() as u64);
            self.hand_on(cx, cx.node, node, &route, targets.into(), 0);
        }
        if !unknown.is_empty() {
            self.advance(cx, cx.node, Route { targets: unknown.into(), ..route }, 0);
        }
    }

    /// Sends targets that share a next hop there: in one message if they fit a datagram. A payload
    /// that fits none goes by stream.
    pub(super) fn hand_on(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        next: NodeId,
        route: &Route,
        targets: Arc<[Target]>,
        tries: u8,
    ) {
        let datagram = cx.datagram_bytes_max.saturating_sub(self.address_bytes());
        let mut send = |this: &mut Self, targets: Arc<[Target]>| {
            let route = Route { exchange: 0, targets, ..route.clone() };
            this.ask(cx, next, Cause::Relay { from }, tries, None, Body::Route(route));
        };
        let payload = if let Purpose::Send(payload) = &route.purpose { payload.len() } else { 0 };
        let sizes = targets.iter().map(target_bytes);
        let (total, largest) = (sizes.clone().sum::<usize>(), sizes.max().unwrap_or(0));
        let head = ROUTE_HEAD_BYTES + payload;
        let bytes_max = if head + largest <= datagram { datagram } else { MESSAGE_BYTES_MAX };
        if head + total <= bytes_max {
            return send(self, targets);
        }
        for piece in pieces(&targets, ITEMS_MAX, bytes_max.saturating_sub(head), target_bytes) {
            send(self, targets[piece].into());
        }
        cx.count(counters::SPLIT, 1);
    }

    /// The next hop of a bundle failed: divides its targets again.
    pub(super) fn reroute(&mut self, cx: &mut Cx<'_>, from: NodeId, route: Route, tries: u8) {
        if tries + 1 >= CANDIDATES {
            return self.refuse(cx, &route, &route.targets, Answer::NoRoute, counters::NO_ROUTE);
        }
        if self.is_client() {
            // A client has no table to divide by: another member does it.
            return match self.guide(cx) {
                Some(guide) => {
                    let targets = route.targets.clone();
                    self.hand_on(cx, from, guide, &route, targets, tries + 1);
                }
                None => {
                    self.refuse(cx, &route, &route.targets, Answer::NoRoute, counters::NO_ROUTE)
                }
            };
        }
        // The walk that the algorithm noted led through the failed node.
        let walk = cx.shared.algorithm.first_walk();
        let targets = if route.targets.iter().all(|target| target.walk == walk) {
            route.targets.clone()
        } else {
            route.targets.iter().map(|target| Target { walk, ..*target }).collect()
        };
        self.advance(cx, from, Route { targets, ..route }, tries + 1);
    }

    /// Targets that this node is responsible for.
    fn end_here(
        &mut self,
        cx: &mut Cx<'_>,
        route: &Route,
        targets: &[Target],
        range: Option<(Key, Key)>,
    ) {
        let hops = u64::from(cx.shared.ttl - route.ttl);
        count_ended(cx, &route.purpose, hops, targets.len());
        let keys = targets.iter().map(|target| target.key);
        let answers = match &route.purpose {
            Purpose::Locate | Purpose::Upkeep => keys.map(|key| (key, Answer::Here)).collect(),
            Purpose::Get => self.read(cx, route.initiator, route.tag, keys),
            Purpose::Send(payload) => {
                self.deliver(cx, route.initiator, route.tag, keys.clone(), payload);
                keys.map(|key| (key, Answer::Delivered)).collect()
            }
        };
        let range = if cx.shared.has_ranges { range } else { None };
        self.give_results(cx, route.initiator, route.tag, &route.purpose, answers, range);
    }

    /// Reports to the initiator that targets could not be forwarded.
    fn refuse(
        &mut self,
        cx: &mut Cx<'_>,
        route: &Route,
        targets: &[Target],
        answer: Answer,
        counter: CounterId,
    ) {
        cx.count(counter, targets.len() as u64);
        let answers = targets.iter().map(|target| (target.key, answer.clone())).collect();
        self.give_results(cx, route.initiator, route.tag, &route.purpose, answers, None);
    }

    /// Delivers a payload's keys to the application, except those delivered before.
    fn deliver(
        &mut self,
        cx: &mut Cx<'_>,
        origin: NodeId,
        tag: u64,
        keys: impl Iterator<Item = Key>,
        payload: &Payload,
    ) {
        let forget_after = cx.shared.answer_within * (u32::from(cx.shared.attempts) + 1);
        let (now, delivered) = (cx.now, &mut self.state().delivered);
        delivered.retain(|&(_, _, _, until)| until > now);
        let mut fresh = Vec::new();
        for key in keys {
            let is_delivered =
                delivered.iter().any(|&(by, of, known, _)| (by, of, known) == (origin, tag, key));
            if !is_delivered {
                fresh.push(key);
                delivered.push((origin, tag, key, now + forget_after));
            }
        }
        let surplus = delivered.len().saturating_sub(DELIVERED_MAX);
        delivered.drain(..surplus);
        if fresh.is_empty() {
            return cx.count(counters::DUPLICATE, 1);
        }
        cx.deliver(Event::Delivered { origin, keys: fresh, payload: payload.clone() });
    }

    /// Sends answers straight to the initiator: in one message if they fit a datagram.
    pub(super) fn give_results(
        &mut self,
        cx: &mut Cx<'_>,
        initiator: NodeId,
        tag: u64,
        purpose: &Purpose,
        answers: Vec<(Key, Answer)>,
        range: Option<(Key, Key)>,
    ) {
        if answers.is_empty() {
            return;
        }
        if initiator == cx.node {
            return self.receive_answers(cx, initiator, tag, answers, range);
        }
        let counter = counter_for(purpose, counters::RESULT);
        let bytes_of = |(_, answer): &(Key, Answer)| Key::BYTES + answer.bytes_with_value();
        let total: usize = answers.iter().map(bytes_of).sum();
        let range = range.map(Box::new);
        if RESULT_HEAD_BYTES + total <= cx.datagram_bytes_max {
            cx.count(counter, 1);
            return self.send_uncounted(cx, initiator, Body::Result { tag, answers, range });
        }
        let largest = answers.iter().map(bytes_of).max().unwrap_or(0);
        let bytes_max = list_bytes_max(cx, RESULT_HEAD_BYTES, total, largest);
        let mut left = answers.as_slice();
        for piece in pieces(&answers, ITEMS_MAX, bytes_max, bytes_of) {
            let (these, rest) = left.split_at(piece.len());
            left = rest;
            let (answers, range) = (these.to_vec(), range.clone());
            cx.count(counter, 1);
            self.send_uncounted(cx, initiator, Body::Result { tag, answers, range });
        }
    }

    /// Bytes that addresses add to a bundle, about; none in the simulator.
    pub(super) fn address_bytes(&self) -> usize {
        let address = self.state_if_any().map_or(0, |state| state.address.len());
        if address == 0 { 0 } else { 2 + 2 * (5 + address) + 32 }
    }

    /// True if one more bundle may be forwarded for `from`. Once half of the exchanges allowed in
    /// flight are in use, one sender may use at most an eighth of them.
    fn has_room_for(&mut self, cx: &mut Cx<'_>, from: NodeId) -> bool {
        let max = cx.shared.in_flight_max;
        if self.exchanges.len() < max / 2 {
            return true;
        }
        let cause = Cause::Relay { from };
        let taken = self.exchanges.iter().filter(|(_, exchange)| exchange.cause == cause).count();
        if taken >= max / 8 {
            cx.count(counters::PEER_IN_FLIGHT_FULL, 1);
            return false;
        }
        self.has_room(cx)
    }
}

/// Bytes for the items of one message of a list that does not fit a datagram: datagrams all the
/// same if a few do, or else the stream lane.
pub(super) fn list_bytes_max(cx: &Cx<'_>, head: usize, total: usize, largest: usize) -> usize {
    let datagram = cx.datagram_bytes_max.saturating_sub(head);
    let is_few = largest <= datagram && total <= DATAGRAMS_MAX * datagram;
    if is_few { datagram } else { MESSAGE_BYTES_MAX - head }
}

/// Counts targets that ended, and the hops that each of them took, except for upkeep.
pub(super) fn count_ended(cx: &mut Cx<'_>, purpose: &Purpose, hops: u64, targets: usize) {
    if *purpose != Purpose::Upkeep {
        cx.count(counters::HOPS, hops * targets as u64);
        cx.count(counters::TARGETS_ENDED, targets as u64);
    }
}

/// Counts look-ups in the routing table: those of upkeep under a name of their own.
pub(super) fn count_lookups(cx: &mut Cx<'_>, purpose: &Purpose, lookups: u64) {
    let is_upkeep = *purpose == Purpose::Upkeep;
    cx.count(if is_upkeep { counters::UPKEEP_LOOKUPS } else { counters::LOOKUPS }, lookups);
}

/// Traffic for table upkeep is counted separately.
pub(super) fn counter_for(purpose: &Purpose, counter: CounterId) -> CounterId {
    if *purpose == Purpose::Upkeep { counters::UPKEEP } else { counter }
}
