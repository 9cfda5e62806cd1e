//! Writing and sending, once the requester knows the responsible node.

use std::sync::Arc;

use super::Key;
use super::bundle::pieces;
use super::command::{FailReason, Outcome};
use super::counters;
use super::exchange::Cause;
use super::message::{Body, Purpose, Route, Target};
use super::record::{ITEMS_MAX, MESSAGE_BYTES_MAX, PutAnswer, PutIfAnswer, PutIfItem, PutItem};
use super::relay::list_bytes_max;
use super::request::{Kind, Request, State, tag};
use super::{Cx, Overlay};
use crate::core::NodeId;
use crate::core::field::Valued;

/// Bytes of a put besides its items, at most.
const PUT_HEAD_BYTES: usize = 320;

impl Overlay {
    /// Sends responsible nodes their items: one message each, if it fits.
    pub(super) fn act(&mut self, cx: &mut Cx<'_>, name: u32) {
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        let mut by_node: Vec<(NodeId, usize)> = Vec::new();
        for (place, slot) in request.slots.iter_mut().enumerate() {
            if let State::Located(node) = slot.state {
                by_node.push((node, place));
                slot.state = State::Acting;
            }
        }
        by_node.sort_unstable();
        let write = u64::from(cx.incarnation as u32) << 32 | u64::from(request.write);
        let kind = request.kind.clone();
        let mut orders: Vec<(NodeId, Vec<PutItem>, Vec<usize>)> = Vec::new();
        for (node, place) in by_node {
            if orders.last().is_none_or(|(last, ..)| *last != node) {
                orders.push((node, Vec::new(), Vec::new()));
            }
            let (_, items, places) = orders.last_mut().expect("pushed above");
            places.push(place);
            items.extend(request.items.get(place).cloned());
        }
        let keys_of = |places: &[usize], request: &Request| -> Vec<Key> {
            places.iter().map(|&place| request.slots[place].key).collect()
        };
        let keys: Vec<Vec<Key>> =
            orders.iter().map(|(.., places)| keys_of(places, request)).collect();
        for (_, items, _) in &mut orders {
            items
                .iter_mut()
                .for_each(|item| item.after = self.state().raise_version_floor(item.key));
        }
        for ((node, items, places), keys) in orders.into_iter().zip(keys) {
            match &kind {
                Kind::PutIf(expects) => {
                    let expects = places.iter().map(|&place| expects[place]);
                    let items: Vec<PutIfItem> = expects
                        .zip(items)
                        .map(|(expect, item)| PutIfItem { expect, item })
                        .collect();
                    self.put_if(cx, name, node, write, &items);
                }
                Kind::Put | Kind::Remove if node == cx.node => {
                    self.receive_put(cx, node, name, true, write, &items);
                }
                Kind::Put | Kind::Remove => self.put(cx, name, node, write, &items),
                Kind::Send(payload) => {
                    let walk = cx.shared.algorithm.first_walk();
                    let targets: Arc<[_]> =
                        keys.into_iter().map(|key| Target { key, walk }).collect();
                    let route = Route {
                        exchange: 0,
                        ttl: cx.shared.ttl,
                        initiator: cx.node,
                        is_member: self.is_member(),
                        tag: tag(cx, name),
                        purpose: Purpose::Send(payload.clone()),
                        targets: targets.clone(),
                    };
                    if node == cx.node {
                        self.advance(cx, node, route, 0);
                    } else {
                        self.hand_on(cx, cx.node, node, &route, targets, 0);
                    }
                }
                Kind::Scan { last, .. } => self.scan(cx, name, node, (keys[0], *last)),
                Kind::Stat => self.ask_stat(cx, name, node, keys[0]),
                Kind::Locate | Kind::Get => {}
            }
        }
    }

    fn put(&mut self, cx: &mut Cx<'_>, name: u32, node: NodeId, write: u64, items: &[PutItem]) {
        for piece in put_pieces(cx, items) {
            let items: Arc<[PutItem]> = items[piece].into();
            let is_member = self.is_member();
            let body = Body::Put { exchange: 0, is_member, write, items };
            self.ask(cx, node, Cause::Request(name), 0, None, body);
        }
    }

    fn put_if(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        node: NodeId,
        write: u64,
        items: &[PutIfItem],
    ) {
        if node == cx.node {
            return self.receive_put_if(cx, node, name, true, write, items);
        }
        for piece in put_pieces(cx, items) {
            let items: Arc<[PutIfItem]> = items[piece].into();
            let is_member = self.is_member();
            let body = Body::PutIf { exchange: 0, is_member, write, items };
            self.ask(cx, node, Cause::Request(name), 0, None, body);
        }
    }

    pub(super) fn receive_put_if_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u32,
        answers: &[PutIfAnswer],
    ) {
        if answers.is_empty() {
            return self.wait_on(cx, from, number);
        }
        let Some(exchange) = self.answered(cx, from, number) else {
            return;
        };
        let (Cause::Request(name), Body::PutIf { items, .. }) = (exchange.cause, &exchange.body)
        else {
            return;
        };
        let keys = items.iter().map(|it| it.item.key);
        if answers.len() != items.len() {
            cx.count(counters::BAD_ANSWER, 1);
            return self.act_unanswered(cx, name, keys);
        }
        let answers: Vec<(Key, PutIfAnswer)> = keys.zip(answers.iter().copied()).collect();
        // Each copy of the message has an answer of its own, and this is that of one of them.
        let was_resent = exchange.sends > 1;
        self.put_if_answered(cx, name, &answers, was_resent);
    }

    /// What became of conditional items at the responsible node.
    pub(super) fn put_if_answered(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        answers: &[(Key, PutIfAnswer)],
        was_resent: bool,
    ) {
        let required = cx.shared.copies_required;
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        let mut outcomes = Vec::new();
        for &(key, answer) in answers {
            let Ok(place) = request.slots.binary_search_by_key(&key, |slot| slot.key) else {
                continue;
            };
            let slot = &mut request.slots[place];
            if slot.state == State::Done {
                continue;
            }
            let differs = |found| match slot.is_doubtful {
                true => Outcome::Failed(FailReason::Indeterminate),
                false => Outcome::Differs { found },
            };
            let why = match answer {
                PutIfAnswer::Short { copies, .. } if copies < required => {
                    Ok(Outcome::Failed(FailReason::FewCopies { copies }))
                }
                PutIfAnswer::Stored { version, copies }
                | PutIfAnswer::Short { version, copies } => {
                    Ok(Outcome::StoredAs { version, copies: copies.into() })
                }
                PutIfAnswer::Differs(version) => Ok(differs(Some(version))),
                PutIfAnswer::Absent => Ok(differs(None)),
                PutIfAnswer::Conflict => Ok(Outcome::Failed(FailReason::Indeterminate)),
                PutIfAnswer::TooLarge => Ok(Outcome::Failed(FailReason::TooLarge)),
                PutIfAnswer::OverQuota => Ok(Outcome::Failed(FailReason::OverQuota)),
                PutIfAnswer::Elsewhere => Err(FailReason::NoRoute),
                PutIfAnswer::Busy => Err(FailReason::Busy),
                PutIfAnswer::Unreplicated => Err(FailReason::Unreplicated),
                PutIfAnswer::Unsettled => Err(FailReason::Unsettled),
            };
            match why {
                Ok(outcome) => {
                    slot.state = State::Done;
                    request.open -= 1;
                    outcomes.push((key, outcome));
                }
                Err(why) => {
                    cx.count(counters::PUT_OFF, u64::from(why == FailReason::Unsettled));
                    slot.is_doubtful |= was_resent || why == FailReason::Unreplicated;
                    (slot.state, slot.why) = (State::Waiting, why);
                }
            }
        }
        self.give_outcomes(cx, name, outcomes);
        self.settle(cx, name);
    }

    pub(super) fn receive_put_reply(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        number: u32,
        answers: &[PutAnswer],
    ) {
        if answers.is_empty() {
            return self.wait_on(cx, from, number);
        }
        let Some(exchange) = self.answered(cx, from, number) else {
            return;
        };
        let (Cause::Request(name), Body::Put { items, .. }) = (exchange.cause, &exchange.body)
        else {
            return;
        };
        if answers.len() != items.len() {
            cx.count(counters::BAD_ANSWER, 1);
            return self.act_unanswered(cx, name, items.iter().map(|item| item.key));
        }
        let keys = items.iter().map(|item| item.key);
        let answers: Vec<(Key, PutAnswer)> = keys.zip(answers.iter().copied()).collect();
        self.put_answered(cx, name, &answers);
    }

    /// What became of items at the responsible node.
    pub(super) fn put_answered(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        answers: &[(Key, PutAnswer)],
    ) {
        let required = cx.shared.copies_required;
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        let is_removal = matches!(request.kind, Kind::Remove);
        let mut outcomes = Vec::new();
        for &(key, answer) in answers {
            let Ok(place) = request.slots.binary_search_by_key(&key, |slot| slot.key) else {
                continue;
            };
            let slot = &mut request.slots[place];
            if slot.state == State::Done {
                continue;
            }
            let outcome = match answer {
                PutAnswer::Short(copies) if copies < required => {
                    Outcome::Failed(FailReason::FewCopies { copies })
                }
                PutAnswer::Stored(_) | PutAnswer::Short(_) if is_removal => Outcome::Removed,
                PutAnswer::Stored(copies) | PutAnswer::Short(copies) => {
                    Outcome::Stored { copies: copies.into() }
                }
                PutAnswer::TooLarge => Outcome::Failed(FailReason::TooLarge),
                PutAnswer::OverQuota => Outcome::Failed(FailReason::OverQuota),
                PutAnswer::Superseded => Outcome::Failed(FailReason::Superseded),
                PutAnswer::Elsewhere
                | PutAnswer::Unreplicated
                | PutAnswer::Busy
                | PutAnswer::Unsettled => {
                    slot.state = State::Waiting;
                    slot.why = match answer {
                        PutAnswer::Elsewhere => FailReason::NoRoute,
                        PutAnswer::Busy => FailReason::Busy,
                        PutAnswer::Unsettled => {
                            cx.count(counters::PUT_OFF, 1);
                            FailReason::Unsettled
                        }
                        _ => FailReason::Unreplicated,
                    };
                    continue;
                }
            };
            slot.state = State::Done;
            request.open -= 1;
            outcomes.push((key, outcome));
        }
        self.give_outcomes(cx, name, outcomes);
        self.settle(cx, name);
    }

    /// The answer of the responsible node to a request for a page or for its state: the outcome, or
    /// why the request has to wait.
    pub(super) fn act_answered(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        outcome: Result<Outcome, FailReason>,
    ) {
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        let Some(slot) = request.slots.first_mut().filter(|slot| slot.state != State::Done) else {
            return;
        };
        let mut outcomes = Vec::new();
        match outcome {
            Ok(outcome) => {
                slot.state = State::Done;
                outcomes.push((slot.key, outcome));
                request.open -= 1;
            }
            Err(why) => {
                cx.count(counters::PUT_OFF, u64::from(why == FailReason::Unsettled));
                (slot.state, slot.why) = (State::Waiting, why);
            }
        }
        self.give_outcomes(cx, name, outcomes);
        self.settle(cx, name);
    }

    /// What the responsible node was asked for these keys has no answer; a write may be carried
    /// out.
    pub(super) fn act_unanswered(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        keys: impl Iterator<Item = Key>,
    ) {
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        for key in keys {
            if let Ok(place) = request.slots.binary_search_by_key(&key, |slot| slot.key) {
                let slot = &mut request.slots[place];
                slot.is_doubtful = true;
                if slot.state == State::Acting {
                    (slot.state, slot.why) = (State::Waiting, FailReason::TimedOut);
                }
            }
        }
        self.settle(cx, name);
    }
}

/// Ranges of items that each fit a message.
fn put_pieces<T: Valued>(
    cx: &Cx<'_>,
    items: &[T],
) -> impl Iterator<Item = std::ops::Range<usize>> + use<T> {
    let total: usize = items.iter().map(Valued::bytes_with_value).sum();
    let largest = items.iter().map(Valued::bytes_with_value).max().unwrap_or(0);
    let bytes_max = if total + PUT_HEAD_BYTES <= cx.datagram_bytes_max {
        MESSAGE_BYTES_MAX
    } else {
        list_bytes_max(cx, PUT_HEAD_BYTES, total, largest)
    };
    let pieces: Vec<_> = pieces(items, ITEMS_MAX, bytes_max, Valued::bytes_with_value).collect();
    pieces.into_iter()
}
