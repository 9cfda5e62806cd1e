//! Failure detection: which members of a group answer, and which do not.
//!
//! SWIM. Each member probes one other at a time, in random order, and asks others to probe on its
//! behalf before it suspects a member. A suspected member that is alive refutes the suspicion. One
//! that stays silent is declared down, and gossip on the packets that are sent anyway spreads the
//! news. So neither the cost for each member nor the time to the first detection grows with the
//! group.
//!
//! Sources: Das, Gupta, Motivala, *SWIM: Scalable Weakly-consistent Infection-style Process Group
//! Membership Protocol*, DSN 2002; Dadgar, Phillips, Currey, *Lifeguard: Local Health Awareness for
//! More Accurate Failure Detection*, DSN 2018 (section 4.1: a slow member stretches its own
//! time-outs). The crate `foca` implements the protocol's core. This module adds: an explicit list
//! of watched members, identity by incarnation, no time-outs for time during which this member
//! itself was paused, early ends of failed probes, direct probes on demand, and recovery after a
//! partition in which every other member went down.
//!
//! The module does no input or output: datagrams and instants go in, datagrams and changes come
//! out. [`Detector`] is driven like a part of a protocol: [`Detector::receive`] takes what comes
//! in, and [`Detector::poll`] runs at [`Detector::deadline`].

mod config;
pub mod counters;
mod identity;
mod local;
mod packet;
mod receive;
mod schedule;
mod surroundings;

use std::time::Duration;

use bytes::Bytes;
use foca::{Foca, Message, NoCustomBroadcast, State};

pub use crate::core::Health;
use crate::core::{Counters, DecodeError, Instant, Member, NodeId, Rng, mix};
use config::{ASK_FOR, DATAGRAM_BYTES_MAX, RECALL_EVERY, STALL_MIN};
use identity::{Dice, Identity};
use local::LocalHealth;
use packet::{Claim, Ends, GossipCodec, Packet};
use schedule::{Schedule, Task};
use surroundings::{Question, Sink, Surroundings, Watched};

pub use config::Config;

/// News of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The member, as it is watched.
    pub member: Member,
    /// Its new state.
    pub health: Health,
}

/// The output of one call. Owned, emptied and reused by the caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// Datagrams to send, in order.
    pub sends: Vec<(NodeId, Bytes)>,
    /// News, in order.
    pub changes: Vec<Change>,
    /// Counts since the caller last took them. Names begin with `detector_`.
    pub counters: Counters,
}

/// The failure detector of one member of a group.
///
/// Every call takes the present, which must not go back, and writes into the caller's [`Output`].
/// The same calls and the same seed give the same output. State is bounded by the number of members
/// that are watched; work a call is proportional to it, and so are the datagrams that come of one.
///
/// Datagrams may be lost, doubled, late or overtake each other. The caller vouches for their
/// sender, and that after one of a new incarnation none of an older one of the same node arrives.
pub struct Detector {
    foca: Foca<Identity, GossipCodec, Dice, NoCustomBroadcast>,
    around: Surroundings,
    /// The member that got the last announcement.
    recalled: NodeId,
    /// Time was lost and nothing has come due since.
    is_behind: bool,
    has_left: bool,
}

impl Detector {
    /// The detector of member `me`, with an empty list of watched members. `config` is what
    /// [`Config::build`] returned. Members with equal seeds draw different numbers nevertheless.
    pub fn new(config: Config, me: Member, seed: u64) -> Detector {
        let seed = mix(seed ^ mix(me.incarnation));
        let stream = me.node.0 << 1;
        let identity = Identity::first(me);
        let dice = Dice(Rng::new(seed, stream));
        Detector {
            foca: Foca::new(identity, config.foca(), dice, GossipCodec),
            around: Surroundings {
                config,
                now: Instant::ZERO,
                me: identity,
                refutations: 0,
                watched: Vec::new(),
                schedule: Schedule::default(),
                local: LocalHealth::default(),
                probe: None,
                rng: Dice(Rng::new(seed, stream | 1)),
                token: 0,
                has_rejoined: false,
            },
            recalled: NodeId(u64::MAX),
            is_behind: false,
            has_left: false,
        }
    }

    /// Sets the list of watched members, without this node. Members that are no longer named are
    /// forgotten, new ones start [`Health::Up`], the others keep their state. Another incarnation
    /// of a node is another member; name it once its incarnation is known. Of two members with one
    /// node the first counts. Reports no change.
    pub fn watch(&mut self, now: Instant, members: &[Member], out: &mut Output) {
        if self.has_left {
            return;
        }
        self.advance(now);
        let mut named = members.to_vec();
        named.retain(|member| member.node != self.around.me.member.node);
        named.sort_by_key(|member| member.node);
        named.dedup_by_key(|member| member.node);
        let gone: Vec<Member> = self.around.watched.iter().map(|watched| watched.member).collect();
        for &member in gone.iter().filter(|member| !named.contains(member)) {
            self.forget(member, out);
        }
        for member in named {
            if self.around.place_of(member).is_none() {
                let place = self.around.watched.partition_point(|w| w.member.node < member.node);
                let watched = Watched {
                    member,
                    health: Health::Up,
                    is_heard: false,
                    generation: 0,
                    is_superseded: false,
                    question: None,
                };
                self.around.watched.insert(place, watched);
                let claims = [Claim::alive(Identity::first(member))].into_iter();
                // All know it by the same call; there is nothing to spread.
                let sink = Sink { around: &mut self.around, out };
                self.foca.apply_many(claims, false, sink).expect("a claim always encodes");
            }
        }
        if self.around.watched.is_empty() {
            self.around.schedule = Schedule::default();
        }
        self.settle(out);
    }

    /// A datagram of a detector came in from this node. Returns the incarnation of the sender, if
    /// the datagram names it. An error means that it was damaged or its sender misbehaves: nothing
    /// changed. What is well-formed and not for us is counted.
    pub fn receive(
        &mut self,
        now: Instant,
        from: NodeId,
        bytes: &[u8],
        out: &mut Output,
    ) -> Result<Option<u64>, DecodeError> {
        if self.has_left {
            return Ok(None);
        }
        self.advance(now);
        let bytes_max = DATAGRAM_BYTES_MAX;
        if bytes.len() > bytes_max {
            out.counters.add(counters::MALFORMED, 1);
            return Err(DecodeError::Trailing(bytes.len() - bytes_max));
        }
        if from == self.around.me.member.node {
            out.counters.add(counters::FORGED_SOURCE, 1);
            return Ok(None);
        }
        let ends = Ends { from, to: self.around.me.member.node };
        let packet = Packet::decode(bytes, ends)
            .inspect_err(|_| out.counters.add(counters::MALFORMED, 1))?;
        let sender = match &packet {
            Packet::Gossip { header, .. } => Some(header.src.member.incarnation),
            Packet::Pong { incarnation, .. } => Some(*incarnation),
            Packet::Ping { .. } => None,
        };
        match packet {
            Packet::Gossip { header, claims } => self.receive_gossip(header, claims, out),
            Packet::Ping { incarnation, nonce } => {
                if incarnation == self.around.me.member.incarnation {
                    out.sends.push((from, Packet::Pong { incarnation, nonce }.encode()));
                } else {
                    out.counters.add(counters::FOR_ANOTHER, 1);
                }
            }
            Packet::Pong { incarnation, nonce } => self.receive_pong(from, incarnation, nonce),
        }
        self.settle(out);
        Ok(sender)
    }

    /// Advances time. The caller must call it at [`Detector::deadline`]; an earlier call does
    /// nothing. A call that is late by more than 100 ms shows that this member was paused: all
    /// deadlines move by as much, so that it does not blame others for its own lost time.
    pub fn poll(&mut self, now: Instant, out: &mut Output) {
        self.advance(now);
        while let Some(task) = self.around.schedule.take_due(now) {
            self.is_behind = false;
            self.carry_out(task, out);
        }
        self.settle(out);
    }

    /// When the caller must call [`Detector::poll`]; [`Instant::MAX`] while no member is watched.
    pub fn deadline(&self) -> Instant {
        self.around.schedule.first()
    }

    /// Probes a node directly because of a symptom such as a broken stream: at once, and again
    /// half-way through 300 ms. A node that does not answer is suspected. A node that is down is
    /// sent an announcement instead. Does nothing if the node is not watched or a direct probe is
    /// already under way.
    pub fn probe(&mut self, now: Instant, node: NodeId, out: &mut Output) {
        self.advance(now);
        let Some(place) = self.around.place(node).filter(|_| !self.has_left) else { return };
        let watched = &mut self.around.watched[place];
        if watched.health == Health::Down {
            self.recall(place, out);
        } else if watched.question.is_none() {
            let nonce = self.around.rng.0.next_u64();
            watched.question = Some(Question { nonce, tries: 0 });
            self.ask(place, out);
        }
    }

    /// Leaves the group. Sends a goodbye to each member, which passes it on, so that none has to
    /// wait for a time-out. From then on this detector sends nothing and ignores all input.
    pub fn leave(&mut self, now: Instant, out: &mut Output) {
        self.advance(now);
        if self.has_left {
            return;
        }
        self.has_left = true;
        self.around.schedule = Schedule::default();
        // Foca's own goodbye goes to a few only, and those could miss it.
        let goodbye = Claim::new(self.around.me, self.around.refutations, State::Down);
        for known in self.foca.iter_members() {
            let bytes = self.around.gossip(*known.id(), Message::Gossip, vec![goodbye.clone()]);
            out.sends.push((known.id().member.node, bytes));
        }
        out.sends.sort_by_key(|&(node, _)| node);
    }

    /// A node's state; `None` if it is not watched.
    pub fn health(&self, node: NodeId) -> Option<Health> {
        self.around.place(node).map(|place| self.around.watched[place].health)
    }

    /// The watched members, by node.
    pub fn watched(&self) -> impl Iterator<Item = Member> {
        self.around.watched.iter().map(|watched| watched.member)
    }

    /// Every member of which something is known, and every node for which something is due. None
    /// but those watched.
    pub fn remembered(&self) -> impl Iterator<Item = NodeId> {
        let known = self.foca.iter_membership_state().map(|known| known.id().member.node);
        known.chain(self.around.schedule.nodes())
    }

    /// Sets the clock. If this member was paused, all deadlines move by that time. The first time
    /// they move by a round trip more, so that the datagrams in the socket are read before any
    /// suspicion.
    fn advance(&mut self, now: Instant) {
        self.around.now = now;
        let lost = now - self.deadline();
        if lost > STALL_MIN {
            let trip = self.around.config.probe_trip;
            let grace = if self.is_behind { Duration::ZERO } else { trip };
            self.is_behind = true;
            self.around.schedule.shift(lost + grace);
            self.around.local.worsen();
        }
    }

    fn carry_out(&mut self, task: Task, out: &mut Output) {
        let around = &mut self.around;
        match task {
            Task::AskHelpers(timer) => {
                if let Some(probe) = around.probe.as_ref().filter(|probe| !probe.is_answered) {
                    out.sends.push((probe.target.member.node, probe.ping.clone()));
                    // If that fails as well, the probe need not wait for its period to end.
                    let wait = around.local.stretch(around.config.probe_trip * 2);
                    let end = around.now + wait;
                    around.schedule.move_next_probe(|at| at.min(end));
                }
                self.fire(timer, out);
            }
            Task::NextProbe(timer) => {
                around.probe = None;
                self.fire(timer, out);
            }
            Task::Condemn { since, timer } => {
                // We may have got worse meanwhile.
                let at = since + around.local.stretch(around.config.suspect_for);
                if at > around.now {
                    around.schedule.add(at, Task::Condemn { since, timer });
                } else {
                    self.fire(timer, out);
                }
            }
            Task::Asked(node) => {
                if let Some(place) = around.place(node) {
                    self.ask(place, out);
                }
            }
            Task::Spread => self.spread(out),
            Task::Recall => {
                let down =
                    |watched: &&Watched| watched.health == Health::Down && !watched.is_superseded;
                let next = around.watched.iter().filter(down).map(|watched| watched.member.node);
                let after = next.clone().find(|&node| node > self.recalled);
                if let Some(place) = after.or(next.min()).and_then(|node| around.place(node)) {
                    self.recalled = around.watched[place].member.node;
                    self.recall(place, out);
                }
            }
        }
    }

    /// Foca's timer is due.
    fn fire(&mut self, timer: foca::Timer<Identity>, out: &mut Output) {
        let sink = Sink { around: &mut self.around, out };
        if self.foca.handle_timer(timer, sink).is_err() {
            out.counters.add(counters::TIMER_REFUSED, 1);
        }
    }

    /// Passes foca a claim that did not arrive in a packet.
    fn apply(&mut self, claim: Claim, out: &mut Output) {
        let sink = Sink { around: &mut self.around, out };
        if self.foca.apply_many([claim].into_iter(), true, sink).is_err() {
            out.counters.add(counters::REFUSED, 1);
        }
    }

    /// foca's record of a node.
    fn known(&self, node: NodeId) -> Option<Claim> {
        self.foca.iter_membership_state().find(|known| known.id().member.node == node).cloned()
    }

    /// Foca must not meet two incarnations of a node: the old one goes before the new one comes.
    fn forget(&mut self, member: Member, out: &mut Output) {
        let node = member.node;
        if let Some(known) = self.known(node) {
            let sink = Sink { around: &mut self.around, out };
            let down = [Claim::new(*known.id(), known.incarnation(), State::Down)].into_iter();
            self.foca.apply_many(down, false, sink).expect("nothing is encoded");
            self.fire(foca::Timer::RemoveDown(*known.id()), out);
        }
        self.around.schedule.acquit(node);
        self.around.schedule.drop_where(|task| *task == Task::Asked(node));
        self.around.watched.retain(|watched| watched.member != member);
    }

    /// A try of a direct question, or its end.
    fn ask(&mut self, place: usize, out: &mut Output) {
        let around = &mut self.around;
        let watched = &mut around.watched[place];
        let member = watched.member;
        let Some(question) = &mut watched.question else { return };
        if question.tries == 2 {
            watched.question = None;
            return self.accuse(member.node, out);
        }
        question.tries += 1;
        let ping = Packet::Ping { incarnation: member.incarnation, nonce: question.nonce };
        out.sends.push((member.node, ping.encode()));
        let half = around.local.stretch(ASK_FOR / 2);
        around.schedule.add(around.now + half, Task::Asked(member.node));
    }

    fn receive_pong(&mut self, from: NodeId, incarnation: u64, nonce: u64) {
        let Some(place) = self.around.place_of(Member { node: from, incarnation }) else { return };
        let question = &mut self.around.watched[place].question;
        if question.take_if(|question| question.nonce == nonce).is_some() {
            self.around.schedule.drop_where(|task| *task == Task::Asked(from));
            self.around.local.improve();
        }
    }

    /// This member found that another does not answer. foca starts no suspicion time-out for a
    /// claim passed to it, so this function starts one.
    fn accuse(&mut self, node: NodeId, out: &mut Output) {
        let Some(known) = self.known(node).filter(|known| known.state() != State::Down) else {
            return;
        };
        self.apply(Claim::new(*known.id(), known.incarnation(), State::Suspect), out);
        self.around.suspect(*known.id(), known.incarnation(), out);
    }

    /// Gossips, and tells each suspected member of its suspicion.
    fn spread(&mut self, out: &mut Output) {
        let suspects: Vec<(Identity, u16)> =
            self.around.schedule.condemned().map(|(id, refutations)| (*id, refutations)).collect();
        for &(id, refutations) in &suspects {
            self.around.tell_suspect(id, refutations, out);
        }
        self.gossip(out);
        if !suspects.is_empty() {
            self.around.spread_soon();
        }
    }

    /// Passes news on to a few random members, if there is any.
    fn gossip(&mut self, out: &mut Output) {
        if self.foca.updates_backlog() > 0 {
            let sink = Sink { around: &mut self.around, out };
            self.foca.gossip(sink).expect("a header always encodes");
        }
    }

    /// Announces this member to one that is down. If that member lives, it learns its state from
    /// the answers and comes back. foca stops doing so when all members are down.
    fn recall(&mut self, place: usize, out: &mut Output) {
        if let Some(known) = self.known(self.around.watched[place].member.node) {
            let sink = Sink { around: &mut self.around, out };
            self.foca.announce(*known.id(), sink).expect("a header always encodes");
        }
    }

    /// After every input: reports what changed, passes it on, and keeps our own timers running.
    fn settle(&mut self, out: &mut Output) {
        if self.has_left {
            return;
        }
        if std::mem::take(&mut self.around.has_rejoined) {
            // Its members are still there, and foca looks at them only when told something.
            let sink = Sink { around: &mut self.around, out };
            self.foca.apply_many(std::iter::empty(), true, sink).expect("nothing is encoded");
        }
        debug_assert_eq!(self.foca.identity(), &self.around.me);
        let reported = out.changes.len();
        for known in self.foca.iter_membership_state() {
            let Some(place) = self.around.place_of(known.id().member) else { continue };
            let health = match known.state() {
                State::Alive => Health::Up,
                State::Suspect => Health::Suspect,
                State::Down => Health::Down,
            };
            let watched = &mut self.around.watched[place];
            let before = std::mem::replace(&mut watched.health, health);
            if before == health {
                continue;
            }
            out.changes.push(Change { member: watched.member, health });
            let node = watched.member.node;
            if health == Health::Down {
                watched.question = None;
                self.around.schedule.drop_where(|task| *task == Task::Asked(node));
            }
            if health != Health::Suspect && self.around.schedule.acquit(node) {
                // We suspected it and it lives: perhaps it was us.
                if health == Health::Up {
                    self.around.local.worsen();
                }
            }
        }
        // Foca's order is random.
        out.changes[reported..].sort_by_key(|change| change.member.node);
        if out.changes.len() > reported {
            self.gossip(out);
        }
        if self.foca.updates_backlog() > 0 && self.foca.num_members() > 0 {
            self.around.spread_soon();
        }
        let is_down = |w: &Watched| w.health == Health::Down && !w.is_superseded;
        if !self.around.watched.iter().any(is_down) {
            self.around.schedule.drop_where(|task| *task == Task::Recall);
        } else if !self.around.schedule.has(|task| *task == Task::Recall) {
            let at = self.around.now + RECALL_EVERY;
            self.around.schedule.add(at, Task::Recall);
        }
    }
}

#[cfg(test)]
mod tests;
