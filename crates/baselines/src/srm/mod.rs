//! Scalable Reliable Multicast: requests and repairs to the whole group, spread by random timers.
//!
//! A member that misses a packet multicasts a request after a time drawn from [C1 d, (C1 + C2) d],
//! where d is its distance to the packet's sender. A member that hears the request and misses the
//! packet too backs off its own request. A member that has the packet multicasts it after a time
//! drawn from [D1 d, (D1 + D2) d], where d is its distance to the requester, unless another one did
//! before. A member detects a loss by a later packet of the sender, by another's request, or by a
//! session message that tells how far the sender got; session messages also measure the distances.
//!
//! Source: Floyd, Jacobson, Liu, McCanne, Zhang, *A Reliable Multicast Framework for Light-weight
//! Sessions and Application Level Framing*, IEEE/ACM Transactions on Networking 5(6), 1997. The
//! adaptive timers follow the rules of ns-2, which are those of its section VII with other
//! constants.
//!
//! Departures: packets are kept for a limited time, and a packet missing for longer than
//! [`lost_after`](paceline_proto::slingshot::Config::with_lost_after) is given up and reported
//! lost; members that do not fit a session message are in the next one; session messages come at a
//! fixed rate, which the paper adapts to the size of the group.
//!
//! The paper's session messages report on all members ([`Reports::All`], the default). If 64
//! members send one each per second, some session message names a packet about 16 ms after it was
//! sent, long before the sender's next packet if that comes 64 ms later: the median recovery time
//! is then about 17 ms. Comparisons of Slingshot with SRM assume that a receiver detects a loss
//! only by the sender's next packet, and give 64 ms; that is SRM with [`Reports::Own`].

mod config;
pub mod counters;
mod message;
mod session;
mod timers;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Context, GroupId, Instant, NodeId, Protocol, View, ViewId};
use paceline_proto::slingshot::flow::Way;
use paceline_proto::slingshot::{Command, Event, Names, NamesBuilder, Supply};

use crate::store::{Key, Store};

use session::{Distances, micros};
use timers::Spread;

pub use config::{Config, Distance, Factors, Reports, Timers};
pub use message::{Echo, Message, Reached, Session};

type Cx<'a> = Context<'a, Srm>;

/// How long a member ignores requests for a packet that was just repaired, in distances. Source:
/// the paper, section III.
const DEAF: u32 = 3;

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A session message is due.
    Session,
    /// A request or its repetition is due. The number identifies the timer that was set last;
    /// earlier ones are ignored.
    Request(Key, u32),
    /// A repair is due, or a member listens to requests again after a repair.
    Answer(Key, u32),
}

/// A missing packet, and when it is requested.
#[derive(Clone, Copy, Debug)]
struct Request {
    turn: u32,
    since: Instant,
    /// How often it was backed off.
    backoffs: u8,
    /// Requests of others until then repeat the request that caused the backoff.
    ignore_until: Instant,
    /// This member has asked in the first round.
    has_asked: bool,
}

/// A requested packet that this member has.
#[derive(Clone, Copy, Debug)]
struct Answer {
    turn: u32,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The repair is due when the timer fires.
    Waits { requestor: NodeId, since: Instant },
    /// It was repaired: the member ignores requests until the timer fires. `repaired` is the
    /// distance to the requester if this member sent the repair.
    Deaf { repaired: Option<Duration> },
}

/// A member of groups that multicast by SRM.
#[derive(Debug)]
pub struct Srm {
    store: Store,
    /// One for each packet that is missing.
    requests: BTreeMap<Key, Request>,
    answers: BTreeMap<Key, Answer>,
    request_spread: Spread,
    answer_spread: Spread,
    distances: Distances,
    /// The rank of the first member in the next session message.
    next_told: usize,
    turn: u32,
    names: NamesBuilder,
}

impl Srm {
    /// A member of the configured groups.
    pub fn new(config: &Config) -> Srm {
        let [request_spread, answer_spread] = Spread::both(config.timers);
        Srm {
            store: Store::new(&config.base, &counters::STORE),
            requests: BTreeMap::new(),
            answers: BTreeMap::new(),
            request_spread,
            answer_spread,
            distances: Distances::default(),
            next_told: 0,
            turn: 0,
            names: NamesBuilder::default(),
        }
    }

    /// Missing packets: known to exist, not held, and not given up.
    pub fn packets_missing(&self) -> usize {
        self.store.packets_missing()
    }

    /// Packets kept to answer requests, and their bytes.
    pub fn packets_held(&self) -> (usize, usize) {
        self.store.packets_held()
    }

    /// Packets whose repairs wait, or that have just been repaired.
    pub fn answers(&self) -> usize {
        self.answers.len()
    }

    /// C1, C2, D1 and D2 as they are now.
    pub fn factors(&self) -> Factors {
        let ((c1, c2), (d1, d2)) = (self.request_spread.factors(), self.answer_spread.factors());
        Factors { c1, c2, d1, d2 }
    }

    fn next_turn(&mut self) -> u32 {
        self.turn = self.turn.wrapping_add(1);
        self.turn
    }

    /// Sets request timers for packets that were found missing.
    fn watch_missed(&mut self, cx: &mut Cx<'_>) {
        let mut missed = std::mem::take(&mut self.store.missed);
        for key in missed.drain(..) {
            if self.store.missing(key).is_none() {
                continue;
            }
            let distance = self.distance(cx.shared, key.sender);
            let after = self.request_spread.begin(distance, cx.rng);
            let turn = self.next_turn();
            let request = Request {
                turn,
                since: cx.now,
                backoffs: 0,
                ignore_until: cx.now,
                has_asked: false,
            };
            self.requests.insert(key, request);
            cx.set_timer(after.min(cx.shared.base.lost_after()), Timer::Request(key, turn));
        }
        self.store.missed = missed;
    }

    fn request_timer(&mut self, cx: &mut Cx<'_>, key: Key, turn: u32) {
        let Entry::Occupied(mut entry) = self.requests.entry(key) else { return };
        if entry.get().turn != turn {
            return;
        }
        if self.store.missing(key).is_none() {
            entry.remove();
            return;
        }
        let request = entry.get_mut();
        if cx.now.since(request.since) >= cx.shared.base.lost_after() {
            entry.remove();
            return self.store.abandon(cx, key);
        }
        let since = request.since;
        let is_first = request.backoffs == 0;
        request.has_asked |= is_first;
        let distance = self.distance(cx.shared, key.sender);
        if is_first {
            self.request_spread.ended(cx.now.since(since), distance);
            self.request_spread.is_first();
        }
        if let Some(name) = self.store.name(key) {
            self.names.push(name);
            let (view, names) = (self.store.view().id(), self.names.build());
            let distance_us = micros(distance);
            cx.count(counters::REQUESTS, 1);
            cx.send_group(key.group, Message::Request { view, distance_us, names });
        }
        self.back_off(cx, key);
    }

    /// Backs off the request: restarts its timer with a longer time.
    fn back_off(&mut self, cx: &mut Cx<'_>, key: Key) {
        let turn = self.next_turn();
        let distance = self.distance(cx.shared, key.sender);
        let growth = if cx.shared.timers == Timers::Adaptive { 3u32 } else { 2 };
        let Some(request) = self.requests.get_mut(&key) else { return };
        request.turn = turn;
        request.backoffs = request.backoffs.saturating_add(1);
        let scale = growth.saturating_pow(request.backoffs.min(cx.shared.backoffs_max).into());
        let after = self.request_spread.draw(distance, cx.rng).saturating_mul(scale);
        request.ignore_until = cx.now + after / 2;
        let lost_after = (request.since + cx.shared.base.lost_after()).since(cx.now);
        cx.set_timer(after.min(lost_after), Timer::Request(key, turn));
    }

    fn receive_request(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (view, distance_us): (ViewId, u32),
        names: &Names,
    ) {
        let Some(view) = self.store.view_named(cx, view) else { return };
        let config = cx.shared;
        for name in names.iter() {
            let Some(key) = self.store.find(cx, &config.base, &view, name) else { continue };
            if !self.store.admits(cx, key.group, from) {
                continue;
            }
            if self.store.held(key).is_some() {
                self.hear_request(cx, from, key);
                continue;
            }
            self.store.exists(cx, &config.base, key, None);
            self.watch_missed(cx);
            self.put_off(cx, key, Duration::from_micros(distance_us.into()));
        }
    }

    /// Another member has requested a packet that is missing here.
    fn put_off(&mut self, cx: &mut Cx<'_>, key: Key, other: Duration) {
        let own = self.distance(cx.shared, key.sender);
        let Some(request) = self.requests.get(&key) else { return };
        let is_first_round = request.backoffs <= 1;
        if cx.now < request.ignore_until {
            if is_first_round {
                self.request_spread.duplicate(request.has_asked, own, other);
            }
            return cx.count(counters::REQUEST_DUPLICATE, 1);
        }
        if request.backoffs == 0 {
            self.request_spread.ended(cx.now.since(request.since), own);
        }
        cx.count(counters::BACKOFFS, 1);
        self.back_off(cx, key);
    }

    /// Another member requests a packet that this one has.
    fn hear_request(&mut self, cx: &mut Cx<'_>, from: NodeId, key: Key) {
        match self.answers.get(&key).map(|answer| answer.stage) {
            Some(Stage::Waits { .. }) => return cx.count(counters::REQUEST_KNOWN, 1),
            Some(Stage::Deaf { .. }) => return cx.count(counters::REQUEST_DEAF, 1),
            None => {}
        }
        if self.answers.len() >= cx.shared.answers_max {
            return cx.count(counters::ANSWERS_FULL, 1);
        }
        let distance = self.distance(cx.shared, from);
        let after = self.answer_spread.begin(distance, cx.rng);
        let turn = self.next_turn();
        let stage = Stage::Waits { requestor: from, since: cx.now };
        self.answers.insert(key, Answer { turn, stage });
        cx.set_timer(after, Timer::Answer(key, turn));
    }

    fn answer_timer(&mut self, cx: &mut Cx<'_>, key: Key, turn: u32) {
        let Entry::Occupied(entry) = self.answers.entry(key) else { return };
        if entry.get().turn != turn {
            return;
        }
        let Stage::Waits { requestor, since } = entry.get().stage else {
            entry.remove();
            return;
        };
        let Some((rank, data)) = self.store.held(key) else {
            entry.remove();
            return cx.count(counters::ANSWER_GONE, 1);
        };
        let distance = self.distance(cx.shared, requestor);
        self.answer_spread.ended(cx.now.since(since), distance);
        self.answer_spread.is_first();
        let supply = Supply { view: self.store.view().id(), rank, data };
        cx.count(counters::REPAIRS, 1);
        cx.send_group(key.group, Message::Repair { distance_us: micros(distance), supply });
        self.be_deaf(cx, key, requestor, Some(distance));
    }

    /// The packet was repaired: requests for it that are still under way are not heard.
    fn be_deaf(&mut self, cx: &mut Cx<'_>, key: Key, other: NodeId, repaired: Option<Duration>) {
        // To itself a sender has no distance.
        let to = if key.sender == cx.node { other } else { key.sender };
        let after = self.distance(cx.shared, to) * DEAF;
        let turn = self.next_turn();
        if self.answers.len() >= cx.shared.answers_max && !self.answers.contains_key(&key) {
            return cx.count(counters::ANSWERS_FULL, 1);
        }
        self.answers.insert(key, Answer { turn, stage: Stage::Deaf { repaired } });
        cx.set_timer(after, Timer::Answer(key, turn));
    }

    fn receive_repair(&mut self, cx: &mut Cx<'_>, from: NodeId, other_us: u32, supply: Supply) {
        let Some(sender) = self.store.sender_supplied(cx, from, &supply) else { return };
        let data = supply.data;
        let key = Key { group: data.group, sender, seq: data.seq };
        let is_held = self.store.held(key).is_some_and(|(_, held)| {
            (held.incarnation, held.checksum) == (data.incarnation, data.checksum)
        });
        if !is_held {
            let config = cx.shared;
            if !self.store.accept_pulled(cx, &config.base, sender, data) {
                return;
            }
            if let Some(request) = self.requests.remove(&key).filter(|r| r.backoffs == 0) {
                let distance = self.distance(cx.shared, sender);
                self.request_spread.ended(cx.now.since(request.since), distance);
            }
            return self.be_deaf(cx, key, from, None);
        }
        cx.count(counters::REPAIR_DUPLICATE, 1);
        let other = Duration::from_micros(other_us.into());
        match self.answers.get(&key).map(|answer| answer.stage) {
            Some(Stage::Waits { requestor, since }) => {
                cx.count(counters::SUPPRESSED, 1);
                let distance = self.distance(cx.shared, requestor);
                self.answer_spread.ended(cx.now.since(since), distance);
                self.be_deaf(cx, key, from, None);
            }
            // It is deaf already: the second repair of the same request does not make it longer.
            Some(Stage::Deaf { repaired }) => {
                self.answer_spread.duplicate(repaired.is_some(), repaired.unwrap_or(other), other);
            }
            None => self.be_deaf(cx, key, from, None),
        }
    }

    fn set_group_size(&mut self) {
        let members = self.store.view().len();
        self.request_spread.set_group_size(members, false);
        self.answer_spread.set_group_size(members, true);
    }

    /// Looks after what every handler leaves behind.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.watch_missed(cx);
        if self.requests.len() > 2 * self.store.packets_missing() + 64 {
            let store = &self.store;
            self.requests.retain(|&key, _| store.missing(key).is_some());
        }
        self.store.flush(cx);
    }

    /// For a sender to a group: the number after the last packet that is known of.
    pub fn reached(&self, group: GroupId, sender: NodeId) -> Option<u64> {
        self.store.progress(group, sender).map(|(_, end)| end)
    }
}

impl Protocol for Srm {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.store.start(cx);
        self.set_group_size();
        self.begin_sessions(cx);
    }

    fn handle_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        self.store.enter_view(cx, view);
        self.distances.enter_view(self.store.view());
        self.set_group_size();
        self.finish(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        if !self.store.knows(cx, from) {
            return;
        }
        match message {
            Message::Data(data) => {
                if self.store.admits(cx, data.group, from) {
                    let config = cx.shared;
                    let key = Key { group: data.group, sender: from, seq: data.seq };
                    if self.store.accept(cx, &config.base, from, data, Way::Direct) {
                        self.requests.remove(&key);
                    }
                }
            }
            Message::Session(session) => self.receive_session(cx, from, &session),
            Message::Request { view, distance_us, names } => {
                self.receive_request(cx, from, (view, distance_us), &names);
            }
            Message::Repair { distance_us, supply } => {
                self.receive_repair(cx, from, distance_us, supply);
            }
        }
        self.finish(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Session => self.session_timer(cx),
            Timer::Request(key, turn) => self.request_timer(cx, key, turn),
            Timer::Answer(key, turn) => self.answer_timer(cx, key, turn),
        }
        self.finish(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        let config = cx.shared;
        let bytes_max = config.payload_bytes_max(cx.datagram_bytes_max);
        if let Some(data) = self.store.command(cx, &config.base, bytes_max, command) {
            cx.send_group(data.group, Message::Data(data));
        }
        self.finish(cx);
    }
}

#[cfg(test)]
mod tests;
