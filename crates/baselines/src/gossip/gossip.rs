use std::collections::BTreeSet;
use std::sync::Arc;

use paceline_proto::core::field::Field;
use paceline_proto::core::{Context, GroupId, Instant, Lane, NodeId, Protocol, View, ViewId};
use paceline_proto::parts::deadline::Deadline;
use paceline_proto::slingshot::flow::Way;
use paceline_proto::slingshot::{self, Command, Event, Name, Names, NamesBuilder, Supply};

use super::config::Config;
use super::counters;
use super::digest::Origin;
use super::message::{DIGEST_BYTES_MIN, Message};
use crate::store::{Key, Overdue, Store};

type Cx<'a> = Context<'a, Gossip>;

/// Packets that one solicitation names, at most.
const SOLICITED_AT_ONCE: usize = 32;

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A round begins.
    Gossip,
    /// Packets have been missing for as many rounds as they are waited for.
    GiveUp,
}

/// A member of groups that recover lost packets by gossip.
#[derive(Debug)]
pub struct Gossip {
    store: Store,
    /// Members, groups and bounds, with the time for which packets are held in rounds.
    base: slingshot::Config,
    overdue: Overdue,
    /// The present round.
    round: u32,
    /// Packets that were retransmitted in it.
    retransmitted: usize,
    /// Packets that were solicited in it.
    solicited: BTreeSet<Key>,
    gossip: Deadline,
    /// The next round begins then at the earliest.
    next_round: Instant,
    names: NamesBuilder,
}

impl Gossip {
    /// A member of the configured groups.
    pub fn new(config: &Config) -> Gossip {
        let held_for = config.held_for();
        let base = config.base.clone().with_keep(held_for).with_lost_after(held_for);
        Gossip {
            store: Store::new(&base, &counters::STORE),
            base,
            overdue: Overdue::default(),
            round: 0,
            retransmitted: 0,
            solicited: BTreeSet::new(),
            gossip: Deadline::UNARMED,
            next_round: Instant::ZERO,
            names: NamesBuilder::default(),
        }
    }

    /// Missing packets: known to exist, not held, and not given up.
    pub fn packets_missing(&self) -> usize {
        self.store.packets_missing()
    }

    /// Packets in the buffer, and their bytes.
    pub fn packets_held(&self) -> (usize, usize) {
        self.store.packets_held()
    }

    /// A round begins: sends a digest of each group to members drawn at random.
    fn gossip_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.gossip.fired(cx.now) {
            return;
        }
        self.round = self.round.wrapping_add(1);
        self.next_round = cx.now + cx.shared.gossip_every;
        self.retransmitted = 0;
        self.solicited.clear();
        self.store.expire(cx, &self.base);
        let groups: Vec<GroupId> = self.store.joined().map(|(group, _)| group).collect();
        for group in groups {
            self.gossip(cx, group);
        }
        if self.is_active() {
            self.gossip.set(cx, self.next_round, Timer::Gossip);
        }
    }

    fn gossip(&mut self, cx: &mut Cx<'_>, group: GroupId) {
        let view = self.store.view();
        let flows = self.store.flows(group);
        let mut origins: Vec<Origin> =
            flows.filter_map(|(sender, flow)| Origin::of(view.rank(sender)?, flow)).collect();
        if origins.is_empty() {
            return;
        }
        let (round, view) = (self.round, view.id());
        let mut others = self.store.others(group, cx.node);
        let fanout = cx.shared.fanout.min(others.len());
        for place in 0..fanout {
            let left = (others.len() - place) as u32;
            others.swap(place, place + cx.rng.below(left) as usize);
        }
        while !origins.is_empty() {
            let rest = origins.split_off(fitting(&origins, cx.datagram_bytes_max));
            let digest = Message::Digest { round, view, group, origins };
            for &to in &others[..fanout] {
                cx.count(counters::DIGESTS, 1);
                cx.send(to, Lane::Datagram, digest.clone());
            }
            origins = rest;
        }
    }

    /// A member holds these packets: solicits the ones missing here.
    fn receive_digest(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (round, view, group): (u32, ViewId, GroupId),
        origins: &[Origin],
    ) {
        if !self.store.admits(cx, group, from) {
            return;
        }
        let Some(view) = self.store.view_named(cx, view) else { return };
        let mut wanted: Vec<(Instant, Key)> = Vec::new();
        for origin in origins {
            self.compare(cx, &view, group, origin, &mut wanted);
        }
        // Most recent first.
        wanted.sort_unstable_by_key(|&(since, key)| std::cmp::Reverse((since, key.seq, key)));
        let room = cx.shared.solicit_max - self.solicited.len();
        if wanted.len() > room {
            cx.count(counters::SOLICIT_DEFERRED, (wanted.len() - room) as u64);
            wanted.truncate(room);
        }
        cx.count(counters::SOLICITED, wanted.len() as u64);
        self.solicited.extend(wanted.iter().map(|&(_, key)| key));
        let view = self.store.view().id();
        for chunk in wanted.chunks(SOLICITED_AT_ONCE) {
            let names = chunk.iter().filter_map(|&(_, key)| self.store.name(key));
            names.for_each(|name| self.names.push(name));
            let names = self.names.build();
            cx.send(from, Lane::Datagram, Message::Solicit { round, view, names });
        }
    }

    /// Notes which packets of one sender a gossiper holds that are missing here and were not
    /// solicited in this round, each with when it was missed.
    fn compare(
        &mut self,
        cx: &mut Cx<'_>,
        view: &View,
        group: GroupId,
        origin: &Origin,
        wanted: &mut Vec<(Instant, Key)>,
    ) {
        // A member ignores digests of its own packets; others may hold some that it has dropped.
        if view.rank(cx.node) == Some(origin.rank.into()) {
            return;
        }
        let name = Name { group, rank: origin.rank, seq: origin.last, checksum: 0 };
        let Some(last) = self.store.find(cx, &self.base, view, name) else { return };
        // Only the sender itself can announce a new incarnation.
        let known = self.store.progress(group, last.sender);
        if known.is_some_and(|(incarnation, _)| incarnation as u32 != origin.life) {
            return cx.count(counters::OTHER_INCARNATION, 1);
        }
        self.store.exists(cx, &self.base, last, None);
        let first = self.store.first(last);
        for run in origin.held(last.seq).take_while(|run| run.end > first) {
            for seq in (run.start.max(first)..run.end).rev() {
                let key = Key { seq, ..last };
                let missing = self.store.missing(key);
                let missing = missing.filter(|_| !self.solicited.contains(&key));
                wanted.extend(missing.map(|missing| (missing.since, key)));
            }
        }
    }

    /// Retransmits what a member solicits, in the round of the digest that it has seen.
    fn receive_solicit(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (round, view): (u32, ViewId),
        names: &Names,
    ) {
        if round != self.round {
            return cx.count(counters::SOLICIT_LATE, names.len() as u64);
        }
        let Some(view) = self.store.view_named(cx, view) else { return };
        for name in names.iter() {
            let unknown = counters::ASK_UNKNOWN;
            let asked = self.store.asked(cx, &self.base, (from, &view), name, unknown);
            let Some((_, supply)) = asked else { continue };
            if self.retransmitted >= cx.shared.retransmit_max {
                cx.count(counters::RETRANSMIT_REFUSED, 1);
                continue;
            }
            self.retransmitted += 1;
            cx.count(counters::RETRANSMITTED, 1);
            cx.send(from, Lane::Datagram, Message::Retransmission(supply));
        }
    }

    fn receive_retransmission(&mut self, cx: &mut Cx<'_>, from: NodeId, supply: Supply) {
        if let Some(sender) = self.store.sender_supplied(cx, from, &supply) {
            self.store.accept_pulled(cx, &self.base, sender, supply.data);
        }
    }

    /// True while there are packets to gossip about, or to wait for.
    fn is_active(&self) -> bool {
        self.store.packets_held().0 > 0 || self.store.packets_missing() > 0
    }

    /// Looks after what every handler leaves behind.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.overdue.note(cx, &mut self.store, self.base.lost_after());
        self.store.flush(cx);
        if self.is_active() && !self.gossip.is_armed() {
            // The packet that ends a silence comes to all members at about the same time.
            let at = cx.now + cx.shared.gossip_every.mul_f64(cx.rng.unit());
            self.gossip.set(cx, at.max(self.next_round), Timer::Gossip);
        }
        self.overdue.arm(cx, Timer::GiveUp);
    }
}

/// How many of these origins go into a digest of one datagram, at least one.
fn fitting(origins: &[Origin], datagram_bytes_max: usize) -> usize {
    let mut room = datagram_bytes_max.saturating_sub(DIGEST_BYTES_MIN);
    let fits = |origin: &&Origin| match room.checked_sub(Origin::bytes(origin)) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    origins.iter().take_while(fits).count().max(1)
}

impl Protocol for Gossip {
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
        self.finish(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        if !self.store.knows(cx, from) {
            return;
        }
        match message {
            Message::Data(data) => {
                if self.store.admits(cx, data.group, from) {
                    self.store.accept(cx, &self.base, from, data, Way::Direct);
                }
            }
            Message::Digest { round, view, group, origins } => {
                self.receive_digest(cx, from, (round, view, group), &origins);
            }
            Message::Solicit { round, view, names } => {
                self.receive_solicit(cx, from, (round, view), &names);
            }
            Message::Retransmission(supply) => self.receive_retransmission(cx, from, supply),
        }
        self.finish(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Gossip => self.gossip_timer(cx),
            Timer::GiveUp => self.overdue.give_up(cx, &mut self.store),
        }
        self.finish(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        let bytes_max = cx.shared.payload_bytes_max(cx.datagram_bytes_max);
        if let Some(data) = self.store.command(cx, &self.base, bytes_max, command) {
            cx.send_group(data.group, Message::Data(data));
        }
        self.finish(cx);
    }
}
