use std::sync::Arc;
use std::time::Duration;

use super::Key;
use super::command::{Event, FailReason, Item, Operation, Outcome, RejectReason, Scan, Style};
use super::config::{RANGES_MAX, REQUESTS_MAX, TOMBSTONE_LIFETIME};
use super::counters;
use super::message::{Purpose, Route, Target};
use super::record::{Answer, Expect, ITEMS_MAX, PutItem};
use super::{Cx, Overlay};
use crate::core::{Instant, NodeId, Payload};

/// A request of this node: a bundle of keys.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub owner: Owner,
    pub style: Style,
    pub kind: Kind,
    pub attempt: u8,
    /// How often in a row all open keys had to wait for other nodes.
    pub pauses: u8,
    /// When all open keys are given up, even if responsible nodes asked to wait.
    pub give_up_at: Instant,
    /// When open keys are requested again.
    pub due_at: Instant,
    /// Keys without an outcome.
    pub open: usize,
    /// By key.
    pub slots: Vec<Slot>,
    /// The values to write under the keys, in the order of the slots.
    pub items: Vec<PutItem>,
    /// The number of the write.
    pub write: u32,
    /// Nodes asked for the only key, if several may be asked at once; else none.
    pub asked: Vec<NodeId>,
}

/// The originator of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The application, under its number.
    Application(u64),
    /// The routing table.
    Table,
    /// The node, which wants to know where it belongs.
    Join,
    /// The same, asked through a node that was given up and answers again: it may know others.
    Merge(NodeId),
    /// Replicas that compare what they hold.
    Sync,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Locate,
    Get,
    Put,
    PutIf(Arc<[Expect]>),
    Remove,
    Send(Arc<Payload>),
    Scan {
        /// The last key of the range.
        last: Key,
        /// The node that is asked before the responsible one is looked up.
        at: Option<NodeId>,
    },
    Stat,
}

/// One key of a request.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub key: Key,
    pub state: State,
    /// Why it failed, if it does.
    pub why: FailReason,
    /// An attempt to write had no answer that says whether it was carried out.
    pub is_doubtful: bool,
}

impl Slot {
    /// True if nodes answered that they have too much to do or are not certain, or that no route
    /// leads on: what passes once the table has stabilized. Lookups of tables do without such keys
    /// rather than add to the traffic.
    fn is_put_off(&self, owner: Owner) -> bool {
        let passes = match self.why {
            FailReason::Busy | FailReason::Unsettled => true,
            FailReason::NoRoute => matches!(owner, Owner::Application(_)),
            _ => false,
        };
        self.state == State::Waiting && passes
    }

    /// Why a conditional write failed. What tells only of the last attempt would say that nothing
    /// was written.
    fn why_conditional(&self) -> FailReason {
        let is_of_last =
            matches!(self.why, FailReason::NoRoute | FailReason::Busy | FailReason::Unsettled);
        if is_of_last && self.is_doubtful { FailReason::Indeterminate } else { self.why }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is being looked up.
    Seeking,
    /// It waits for the next attempt.
    Waiting,
    /// The responsible node is known.
    Located(NodeId),
    /// The responsible node has the request.
    Acting,
    /// It has its outcome.
    Done,
}

impl Request {
    fn purpose(&self) -> Purpose {
        match (&self.kind, self.owner) {
            (Kind::Get, Owner::Application(_)) => Purpose::Get,
            (Kind::Send(payload), Owner::Application(_)) if self.style == Style::Recursive => {
                Purpose::Send(payload.clone())
            }
            (_, Owner::Application(_)) => Purpose::Locate,
            _ => Purpose::Upkeep,
        }
    }

    /// True if a node is known that need not be looked up: it is asked once.
    fn skip_lookup(&mut self, own: NodeId) -> bool {
        let Kind::Scan { at, .. } = &mut self.kind else {
            return false;
        };
        let Some(node) = at.take().filter(|node| *node != own) else {
            return false;
        };
        self.slots.iter_mut().for_each(|slot| slot.state = State::Located(node));
        true
    }

    fn is_idle(&self) -> bool {
        let waits = |slot: &Slot| matches!(slot.state, State::Waiting | State::Done);
        self.slots.iter().all(waits)
    }

    /// True if all that is open is put off.
    fn is_put_off(&self) -> bool {
        self.slots.iter().all(|slot| slot.state == State::Done || slot.is_put_off(self.owner))
    }
}

impl Overlay {
    pub(super) fn request(&mut self, cx: &mut Cx<'_>, id: u64, operation: Operation, style: Style) {
        if let Err(reason) = self.check(cx, &operation) {
            cx.count(counters::REJECTED, 1);
            return cx.deliver(Event::Rejected { id, reason });
        }
        let (mut items, mut outcomes) = (Vec::new(), Vec::new());
        let (mut keys, kind) = match operation {
            Operation::Locate(keys) => (keys, Kind::Locate),
            Operation::Get(keys) => (keys, Kind::Get),
            Operation::Send { keys, payload } => (keys, Kind::Send(Arc::new(payload))),
            Operation::Scan(Scan { first, last, at }) => (vec![first], Kind::Scan { last, at }),
            Operation::Stat(key) => (vec![key], Kind::Stat),
            Operation::Remove(keys) => {
                let lifetime_ms = TOMBSTONE_LIFETIME.as_millis() as u32;
                let item = |&key: &Key| PutItem { key, lifetime_ms, after: 0, value: None };
                items = keys.iter().map(item).collect();
                (keys, Kind::Remove)
            }
            Operation::Put(wanted) => {
                for Item { key, value, lifetime } in wanted {
                    match put_item(cx, key, value, lifetime) {
                        Ok(item) => items.push(item),
                        Err(reason) => outcomes.push((key, Outcome::Failed(reason))),
                    }
                }
                (items.iter().map(|item| item.key).collect(), Kind::Put)
            }
            Operation::PutIf(mut wanted) => {
                wanted.sort_unstable_by_key(|(_, item)| item.key);
                let mut expects = Vec::with_capacity(wanted.len());
                for (expect, Item { key, value, lifetime }) in wanted {
                    match put_item(cx, key, value, lifetime) {
                        Ok(item) => {
                            items.push(item);
                            expects.push(expect);
                        }
                        Err(reason) => outcomes.push((key, Outcome::Failed(reason))),
                    }
                }
                (items.iter().map(|item| item.key).collect(), Kind::PutIf(expects.into()))
            }
        };
        keys.sort_unstable();
        items.sort_unstable_by_key(|item| item.key);
        if !outcomes.is_empty() {
            cx.deliver(Event::Outcome { id, outcomes });
        }
        if !keys.is_empty() {
            self.begin_request(cx, Owner::Application(id), keys, items, kind, style);
        }
    }

    fn check(&self, cx: &Cx<'_>, operation: &Operation) -> Result<(), RejectReason> {
        if !self.is_member() && !self.is_client() {
            return Err(RejectReason::NotMember);
        }
        let count = operation.keys().count();
        let has_none = matches!(operation, Operation::Scan(scan) if scan.first > scan.last);
        if count == 0 || has_none {
            return Err(RejectReason::Empty);
        }
        if count > ITEMS_MAX {
            return Err(RejectReason::TooManyItems);
        }
        if count > 1 {
            let mut keys: Vec<Key> = operation.keys().collect();
            keys.sort_unstable();
            if keys.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err(RejectReason::DuplicateKey);
            }
        }
        if let Operation::Send { payload, .. } = operation
            && payload.len() > cx.shared.value_bytes_max
        {
            return Err(RejectReason::TooLarge);
        }
        let requests = self.state_if_any().map_or(0, |state| state.requests.len());
        if requests >= REQUESTS_MAX {
            return Err(RejectReason::Busy);
        }
        Ok(())
    }

    /// Begins with keys that are sorted.
    pub(super) fn begin_request(
        &mut self,
        cx: &mut Cx<'_>,
        owner: Owner,
        keys: Vec<Key>,
        items: Vec<PutItem>,
        kind: Kind,
        style: Style,
    ) -> u32 {
        let due_at = cx.now + cx.shared.answer_within;
        let is_write = !items.is_empty();
        let give_up_at = cx.now + cx.shared.put_off_max(is_write, &self.rtt);
        let state = self.state();
        state.requests.set_first_generation(u32::from((cx.incarnation >> 16) as u16));
        state.writes += u32::from(is_write);
        let slot = |key| Slot {
            key,
            state: State::Seeking,
            why: FailReason::TimedOut,
            is_doubtful: false,
        };
        let request = Request {
            owner,
            style,
            kind,
            attempt: 0,
            pauses: 0,
            give_up_at,
            due_at,
            open: keys.len(),
            slots: keys.into_iter().map(slot).collect(),
            items,
            write: state.writes,
            asked: Vec::new(),
        };
        let name = state.requests.insert(request);
        self.seek(cx, name);
        self.arm(cx);
        name
    }

    /// Looks up all keys that are sought.
    fn seek(&mut self, cx: &mut Cx<'_>, name: u32) {
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        if request.skip_lookup(cx.node) {
            return self.act(cx, name);
        }
        let walk = cx.shared.algorithm.first_walk();
        let sought = request.slots.iter().filter(|slot| slot.state == State::Seeking);
        let targets: Arc<[Target]> = sought.map(|slot| Target { key: slot.key, walk }).collect();
        if targets.is_empty() {
            return;
        }
        let (purpose, style, owner) = (request.purpose(), request.style, request.owner);
        let tag = tag(cx, name);
        let guide = if self.is_client() { self.guide(cx) } else { None };
        let seed = match owner {
            _ if self.is_client() => match guide {
                Some(guide) => Some(guide),
                None => return self.no_guide(cx, tag, &targets),
            },
            Owner::Join => self.next_peer(),
            Owner::Merge(node) => Some(node),
            // Its own table says that it is responsible itself.
            Owner::Sync if !self.is_member() => self.any_contact(cx),
            _ => None,
        };
        let is_handed_over = self.is_client() && style == Style::Recursive;
        if let Some(seed) = seed.filter(|_| !is_handed_over) {
            let purpose = if self.is_client() { purpose } else { Purpose::Upkeep };
            return self.find_by(cx, name, seed, &purpose, targets);
        }
        let route = Route {
            exchange: 0,
            ttl: cx.shared.ttl,
            initiator: cx.node,
            is_member: self.is_member(),
            tag,
            purpose,
            targets: targets.clone(),
        };
        if let Some(guide) = guide.filter(|_| is_handed_over) {
            return self.hand_on(cx, cx.node, guide, &route, targets, 0);
        }
        match style {
            Style::Recursive if cx.shared.has_ranges => self.advance_by_ranges(cx, route),
            Style::Recursive => {
                self.advance(cx, cx.node, route, 0);
            }
            Style::Iterative => self.find(cx, name, route, 0),
        }
    }

    /// Answers for a request of this node, from wherever its targets ended.
    pub(super) fn receive_answers(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        tag_of_request: u64,
        answers: Vec<(Key, Answer)>,
        range: Option<(Key, Key)>,
    ) {
        let name = tag_of_request as u32;
        let is_mine = tag_of_request == tag(cx, name);
        let (has_ranges, ranges_max) = (cx.shared.has_ranges, RANGES_MAX);
        let retry_at = cx.now + RETRY_AFTER;
        let state = self.state();
        if has_ranges
            && is_mine
            && from != cx.node
            && let Some((first, last)) = range
        {
            state.ranges.learn(first, last, from, ranges_max);
        }
        let Some(request) = state.requests.get_mut(name).filter(|_| is_mine) else {
            return cx.count(counters::STALE, 1);
        };
        let mut outcomes = Vec::new();
        let (mut stale, mut again) = (0, 0);
        for (key, answer) in answers {
            let place = request.slots.binary_search_by_key(&key, |slot| slot.key);
            let slot = match place.map(|place| &mut request.slots[place]) {
                Ok(slot) if matches!(slot.state, State::Seeking | State::Waiting) => slot,
                // A route of a payload was answered.
                Ok(slot) if slot.state == State::Acting && answer != Answer::Here => slot,
                _ => {
                    stale += 1;
                    continue;
                }
            };
            let outcome = match (answer, &request.kind) {
                (Answer::Here, Kind::Locate) => Outcome::Located(from),
                (Answer::Here, Kind::Put | Kind::PutIf(_) | Kind::Remove | Kind::Send(_))
                | (Answer::Here, Kind::Scan { .. } | Kind::Stat) => {
                    slot.state = State::Located(from);
                    continue;
                }
                (Answer::Found { version, value }, Kind::Get) => Outcome::Found { version, value },
                (Answer::Absent, Kind::Get) => Outcome::Absent,
                (Answer::Delivered, Kind::Send(_)) => Outcome::Delivered,
                (Answer::Later, _) => continue,
                (Answer::NoRoute, _) => {
                    (slot.state, slot.why) = (State::Waiting, FailReason::NoRoute);
                    continue;
                }
                (Answer::Busy, _) => {
                    (slot.state, slot.why) = (State::Waiting, FailReason::Busy);
                    continue;
                }
                (Answer::Unsettled, _) => {
                    cx.count(counters::PUT_OFF, 1);
                    (slot.state, slot.why) = (State::Waiting, FailReason::Unsettled);
                    continue;
                }
                (Answer::Again, _) => {
                    (slot.state, slot.why) = (State::Waiting, FailReason::Busy);
                    again += 1;
                    continue;
                }
                _ => {
                    stale += 1;
                    continue;
                }
            };
            slot.state = State::Done;
            request.open -= 1;
            outcomes.push((key, outcome));
        }
        if again > 0 {
            request.due_at = request.due_at.min(retry_at);
            if !outcomes.is_empty() {
                // The attempt brought others, so it does not count.
                request.attempt = request.attempt.saturating_sub(1);
            }
        }
        if stale > 0 {
            cx.count(counters::STALE, stale);
        }
        self.give_outcomes(cx, name, outcomes);
        self.settle(cx, name);
    }

    /// Reports outcomes to the owner of the request, and ends the request if none is open.
    pub(super) fn give_outcomes(
        &mut self,
        cx: &mut Cx<'_>,
        name: u32,
        outcomes: Vec<(Key, Outcome)>,
    ) {
        let Some(request) = self.state().requests.get(name) else {
            return;
        };
        let (owner, open) = (request.owner, request.open);
        if open == 0 {
            self.state().requests.remove(name);
        }
        if outcomes.is_empty() {
            return;
        }
        match owner {
            Owner::Application(id) => cx.deliver(Event::Outcome { id, outcomes }),
            Owner::Table => self.table_found(cx, &outcomes),
            Owner::Join => self.join_found(cx, &outcomes),
            Owner::Merge(_) => self.merge_found(cx, &outcomes),
            Owner::Sync => self.owners_found(cx, &outcomes),
        }
    }

    /// Goes on with what can go on: writes once all is located, asks again soon if nothing is
    /// under way.
    pub(super) fn settle(&mut self, cx: &mut Cx<'_>, name: u32) {
        let now = cx.now;
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        let is_seeking = request.slots.iter().any(|slot| slot.state == State::Seeking);
        let is_located = request.slots.iter().any(|slot| matches!(slot.state, State::Located(_)));
        if is_located && !is_seeking {
            return self.act(cx, name);
        }
        if request.is_idle() {
            let retry_after = RETRY_AFTER * (1 << request.pauses.min(DOUBLINGS_MAX));
            request.due_at = request.due_at.min(now + retry_after);
        }
    }

    /// Repeats requests that have been open for too long, or gives them up.
    pub(super) fn handle_requests_due(&mut self, cx: &mut Cx<'_>) {
        let Some(state) = self.state_if_any() else {
            return;
        };
        let due = state.requests.iter().filter(|(_, request)| request.due_at <= cx.now);
        let due: Vec<u32> = due.map(|(name, _)| name).collect();
        for name in due {
            self.try_again(cx, name);
        }
    }

    fn try_again(&mut self, cx: &mut Cx<'_>, name: u32) {
        let (now, attempts) = (cx.now, cx.shared.attempts);
        let answer_within = cx.shared.answer_within;
        let Some(request) = self.state().requests.get_mut(name) else {
            return;
        };
        // Answers that put all of it off are no failed attempt.
        if request.is_put_off() {
            request.pauses = request.pauses.saturating_add(1);
        } else {
            request.attempt = request.attempt.saturating_add(1);
        }
        request.due_at = now + answer_within;
        let (is_last, is_late) = (request.attempt >= attempts, now >= request.give_up_at);
        let owner = request.owner;
        let is_write = matches!(request.kind, Kind::Put | Kind::PutIf(_) | Kind::Remove);
        let is_conditional = matches!(request.kind, Kind::PutIf(_));
        request.asked.clear();
        let mut failed = Vec::new();
        let mut asked_again = 0;
        for slot in &mut request.slots {
            match slot.state {
                State::Done => {}
                // The write ends by itself, and soon.
                State::Acting if is_write => {}
                _ if is_late || is_last && !slot.is_put_off(owner) => {
                    slot.state = State::Done;
                    request.open -= 1;
                    let why = if is_conditional { slot.why_conditional() } else { slot.why };
                    failed.push((slot.key, Outcome::Failed(why)));
                }
                State::Located(_) => {}
                State::Seeking | State::Waiting | State::Acting => {
                    slot.state = State::Seeking;
                    asked_again += 1;
                }
            }
        }
        if asked_again > 0 {
            cx.count(counters::ASKED_AGAIN, asked_again);
        }
        if !failed.is_empty() {
            cx.count(counters::GIVEN_UP, failed.len() as u64);
        }
        self.give_outcomes(cx, name, failed);
        // Keys that are located need not wait for the rest.
        self.act(cx, name);
        self.seek(cx, name);
    }

    /// Gives up all requests: the node is no longer a member.
    pub(super) fn fail_requests(&mut self, cx: &mut Cx<'_>) {
        let Some(state) = self.state_if_any() else {
            return;
        };
        let names: Vec<u32> = state.requests.iter().map(|(name, _)| name).collect();
        for name in names {
            let Some(request) = self.state().requests.remove(name) else {
                continue;
            };
            let open = request.slots.iter().filter(|slot| slot.state != State::Done);
            let failed = Outcome::Failed(FailReason::Left);
            let outcomes: Vec<_> = open.map(|slot| (slot.key, failed.clone())).collect();
            if let Owner::Application(id) = request.owner {
                cx.deliver(Event::Outcome { id, outcomes });
            }
        }
    }
}

/// A value as it is sent, unless it is too large or expires at once.
fn put_item(
    cx: &Cx<'_>,
    key: Key,
    value: Payload,
    lifetime: Duration,
) -> Result<PutItem, FailReason> {
    let lifetime_ms = lifetime.min(cx.shared.lifetime_max).as_millis() as u32;
    if value.len() > cx.shared.value_bytes_max {
        return Err(FailReason::TooLarge);
    }
    if lifetime_ms == 0 {
        return Err(FailReason::Expired);
    }
    Ok(PutItem { key, lifetime_ms, after: 0, value: Some(value) })
}

/// The wait before a retry of targets that no node could forward.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// How often that time doubles while nodes answer that they are busy or unsettled.
const DOUBLINGS_MAX: u8 = 2;

/// A request's name to others: this run's, and no other's.
pub(super) fn tag(cx: &Cx<'_>, name: u32) -> u64 {
    u64::from(cx.incarnation as u32) << 32 | u64::from(name)
}
