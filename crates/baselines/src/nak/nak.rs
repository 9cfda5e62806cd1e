use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{Context, GroupId, Instant, Lane, NodeId, Protocol, View, ViewId};
use paceline_proto::parts::deadline::Deadline;
use paceline_proto::parts::token_bucket::TokenBucket;
use paceline_proto::slingshot::flow::Way;
use paceline_proto::slingshot::{
    Command, Data, Event, Heartbeat, Name, Names, NamesBuilder, Supply, allowance,
};

use super::config::{Answer, Config};
use super::counters;
use super::message::Message;
use crate::store::{Key, Store};

type Cx<'a> = Context<'a, Nak>;

/// Maximum number of packets in one request.
const ASKED_AT_ONCE: usize = 32;

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// These packets, missed together, are due to be requested again or given up.
    Ask(u32),
    /// The heartbeat of a silent sender is due.
    Heartbeat,
    /// A packet that was retransmitted to the group may be requested again.
    Loud(Key),
}

/// Packets that are requested at the same time.
#[derive(Debug)]
struct Batch {
    keys: Vec<Key>,
    /// How often they were requested. A packet requested more often is in a later batch.
    asked: u8,
}

/// The heartbeat timer of a silent sender.
#[derive(Clone, Copy, Debug)]
struct Beat {
    due: Instant,
    /// How often since the last packet.
    times: u32,
}

/// A member of groups in which a member requests a missing packet from a single node.
#[derive(Debug)]
pub struct Nak {
    store: Store,
    /// Batches that wait for their request or its answer. Each missing packet is in one of them,
    /// and perhaps in older ones that have not ended.
    batches: BTreeMap<u32, Batch>,
    turn: u32,
    /// By group, what this node has received last.
    received: BTreeMap<GroupId, VecDeque<(Key, u32)>>,
    /// Packets that were retransmitted to a group just now.
    quiet: BTreeSet<Key>,
    allowance: TokenBucket,
    /// By group to which this node has sent.
    beats: BTreeMap<GroupId, Beat>,
    beat: Deadline,
    names: NamesBuilder,
}

impl Nak {
    /// A member of the configured groups.
    pub fn new(config: &Config) -> Nak {
        Nak {
            store: Store::new(&config.base, &counters::STORE),
            batches: BTreeMap::new(),
            turn: 0,
            received: BTreeMap::new(),
            quiet: BTreeSet::new(),
            allowance: allowance(config.supplies_per_second),
            beats: BTreeMap::new(),
            beat: Deadline::UNARMED,
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

    /// Batches of packets that wait for their request or its answer.
    pub fn batches(&self) -> usize {
        self.batches.len()
    }

    fn receive_data(&mut self, cx: &mut Cx<'_>, from: NodeId, data: Data) {
        if !self.store.admits(cx, data.group, from) {
            return;
        }
        let config = cx.shared;
        let (key, checksum) =
            (Key { group: data.group, sender: from, seq: data.seq }, data.checksum);
        if self.store.accept(cx, &config.base, from, data, Way::Direct) {
            self.note_received(config, key, checksum);
        }
    }

    fn note_received(&mut self, config: &Config, key: Key, checksum: u32) {
        if config.digest_names == 0 {
            return;
        }
        let received = self.received.entry(key.group).or_default();
        if received.len() >= config.digest_names {
            received.pop_front();
        }
        received.push_back((key, checksum));
    }

    /// A member has these packets: requests the missing ones from it.
    fn receive_digest(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId, names: &Names) {
        let Some(view) = self.store.view_named(cx, view) else { return };
        let config = cx.shared;
        let mut keys = Vec::new();
        for name in names.iter() {
            let Some(key) = self.store.find(cx, &config.base, &view, name) else { continue };
            if key.sender == cx.node || self.store.held(key).is_some() {
                continue;
            }
            self.store.exists(cx, &config.base, key, None);
            if let Some(missing) = self.store.missing_mut(key) {
                missing.holder = Some(from);
                if missing.asked == 0 {
                    keys.push(key);
                }
            }
        }
        // Packets found missing before these still wait for their backoff.
        self.store.missed.retain(|key| !keys.contains(key));
        if !keys.is_empty() {
            self.ask(cx, Batch { keys, asked: 0 });
        }
    }

    /// Starts the backoff for packets that were found missing.
    fn watch_missed(&mut self, cx: &mut Cx<'_>) {
        let mut missed = std::mem::take(&mut self.store.missed);
        missed.retain(|&key| self.store.missing(key).is_some());
        if !missed.is_empty() {
            let after = cx.shared.backoff.mul_f64(cx.rng.unit());
            self.wait(cx, after, Batch { keys: missed, asked: 0 });
        }
    }

    fn wait(&mut self, cx: &mut Cx<'_>, after: Duration, batch: Batch) {
        self.turn = self.turn.wrapping_add(1);
        self.batches.insert(self.turn, batch);
        cx.set_timer(after, Timer::Ask(self.turn));
    }

    fn ask_timer(&mut self, cx: &mut Cx<'_>, turn: u32) {
        if let Some(batch) = self.batches.remove(&turn) {
            self.ask(cx, batch);
        }
    }

    /// Requests the packets of a batch that are still missing, or gives them up.
    fn ask(&mut self, cx: &mut Cx<'_>, mut batch: Batch) {
        let mut asks = Vec::new();
        let asks_max = cx.shared.asks_max;
        let store = &mut self.store;
        batch.keys.retain(|&key| {
            let name = store.name(key);
            let Some(missing) = store.missing_mut(key).filter(|m| m.asked == batch.asked) else {
                return false;
            };
            if missing.asked >= asks_max {
                store.abandon(cx, key);
                return false;
            }
            missing.asked += 1;
            let to = missing.holder.filter(|&holder| holder != cx.node).unwrap_or(key.sender);
            asks.extend(name.map(|name| (to, name)));
            true
        });
        if batch.keys.is_empty() {
            return;
        }
        cx.count(counters::ASKED, asks.len() as u64);
        asks.sort_by_key(|&(to, _)| to);
        let view = self.store.view().id();
        for of_one in asks.chunk_by(|a, b| a.0 == b.0) {
            for chunk in of_one.chunks(ASKED_AT_ONCE) {
                chunk.iter().for_each(|&(_, name)| self.names.push(name));
                let names = self.names.build();
                cx.send(chunk[0].0, Lane::Datagram, Message::Ask { view, names });
            }
        }
        batch.asked += 1;
        self.wait(cx, cx.shared.retry_after, batch);
    }

    /// Sends a member the requested packets that are held here.
    fn receive_ask(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId, names: &Names) {
        let Some(view) = self.store.view_named(cx, view) else { return };
        let config = cx.shared;
        for name in names.iter() {
            let unknown = counters::ASK_UNKNOWN;
            let asked = self.store.asked(cx, &config.base, (from, &view), name, unknown);
            let Some((key, supply)) = asked else { continue };
            if self.quiet.contains(&key) {
                cx.count(counters::ASK_QUIET, 1);
                continue;
            }
            if !self.allowance.try_take(cx.now, 1.0, config.supplies_per_second.into()) {
                cx.count(counters::ASK_REFUSED, 1);
                continue;
            }
            cx.count(counters::SUPPLIED, 1);
            let supply = Message::Supply(supply);
            match config.answer {
                Answer::Unicast => cx.send(from, Lane::Datagram, supply),
                Answer::Group { quiet } => {
                    cx.send_group(key.group, supply);
                    if self.quiet.len() < config.answers_max {
                        self.quiet.insert(key);
                        cx.set_timer(quiet, Timer::Loud(key));
                    } else {
                        cx.count(counters::ANSWERS_FULL, 1);
                    }
                }
            }
        }
    }

    fn receive_supply(&mut self, cx: &mut Cx<'_>, from: NodeId, supply: Supply) {
        let Some(sender) = self.store.sender_supplied(cx, from, &supply) else { return };
        let (config, data) = (cx.shared, supply.data);
        let (key, checksum) = (Key { group: data.group, sender, seq: data.seq }, data.checksum);
        if self.store.accept_pulled(cx, &config.base, sender, data) {
            self.note_received(config, key, checksum);
        }
    }

    fn send(&mut self, cx: &mut Cx<'_>, data: Data) {
        let (group, config) = (data.group, cx.shared);
        for &(key, checksum) in self.received.get(&group).into_iter().flatten() {
            if let Some(name) = self.store.name(key) {
                self.names.push(Name { checksum, ..name });
            }
        }
        let message = if self.names.is_empty() {
            Message::Data(data)
        } else {
            let view = self.store.view().id();
            Message::Digest { view, names: self.names.build(), data }
        };
        cx.send_group(group, message);
        if let Some(after) = config.base.heartbeat_after() {
            self.beats.insert(group, Beat { due: cx.now + after, times: 0 });
            self.arm_beat(cx);
        }
    }

    /// Sends heartbeats to the groups to which this node has long sent nothing.
    fn beat_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.beat.fired(cx.now) {
            return;
        }
        let Some(after) = cx.shared.base.heartbeat_after() else { return };
        let joined: BTreeMap<GroupId, u64> = self.store.joined().collect();
        let beats_max = cx.shared.base.heartbeats_max();
        self.beats.retain(|&group, beat| {
            let Some(&next) = joined.get(&group) else { return false };
            if beat.due <= cx.now {
                cx.count(counters::HEARTBEATS, 1);
                let heartbeat = Heartbeat { group, incarnation: cx.incarnation, next };
                cx.send_group(group, Message::Heartbeat(heartbeat));
                beat.times += 1;
                beat.due = cx.now + after * (1 << beat.times.min(16));
            }
            beat.times < beats_max
        });
        self.arm_beat(cx);
    }

    /// Sees to it that the member is woken for the next heartbeat.
    fn arm_beat(&mut self, cx: &mut Cx<'_>) {
        let Some(after) = cx.shared.base.heartbeat_after() else { return };
        let Some(due) = self.beats.values().map(|beat| beat.due).min() else { return };
        // The heartbeat of a later packet is due after this at the earliest.
        self.beat.set(cx, due.min(cx.now + after), Timer::Heartbeat);
    }

    /// Forgets the packets of groups of which this node is no longer a member.
    fn leave_groups(&mut self) {
        let store = &self.store;
        self.received.retain(|&group, _| store.joined().any(|(joined, _)| joined == group));
    }

    /// Looks after what every handler leaves behind.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.watch_missed(cx);
        self.store.flush(cx);
    }
}

impl Protocol for Nak {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.store.start(cx);
    }

    fn handle_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        self.store.enter_view(cx, view);
        self.leave_groups();
        self.finish(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        if !self.store.knows(cx, from) {
            return;
        }
        match message {
            Message::Data(data) => self.receive_data(cx, from, data),
            Message::Digest { view, names, data } => {
                let is_admitted = self.store.admits(cx, data.group, from);
                if is_admitted {
                    self.receive_data(cx, from, data);
                    self.receive_digest(cx, from, view, &names);
                }
            }
            Message::Ask { view, names } => self.receive_ask(cx, from, view, &names),
            Message::Heartbeat(Heartbeat { group, incarnation, next }) => {
                if self.store.admits(cx, group, from) {
                    let config = cx.shared;
                    let flow = (group, from);
                    self.store.has_sent(cx, &config.base, flow, Some(incarnation), next);
                }
            }
            Message::Supply(supply) => self.receive_supply(cx, from, supply),
        }
        self.finish(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Ask(turn) => self.ask_timer(cx, turn),
            Timer::Heartbeat => self.beat_timer(cx),
            Timer::Loud(key) => {
                self.quiet.remove(&key);
            }
        }
        self.finish(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        let config = cx.shared;
        let bytes_max = config.payload_bytes_max(cx.datagram_bytes_max);
        if let Some(data) = self.store.command(cx, &config.base, bytes_max, command) {
            self.send(cx, data);
        }
        self.leave_groups();
        self.finish(cx);
    }
}
