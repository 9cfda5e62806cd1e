use std::time::Duration;

use bytes::Bytes;
use foca::{Header, Message, Notification, Runtime, State, Timer, TimerToken};

use super::Config;
use super::config::SPREAD_EVERY;
use super::counters;
use super::identity::{Dice, Identity};
use super::local::LocalHealth;
use super::packet::{Claim, Packet};
use super::schedule::{Schedule, Task};
use super::{Health, Output};
use crate::core::{Instant, Member, NodeId};

/// A member under watch.
#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub member: Member,
    /// The state that was reported last.
    pub health: Health,
    /// Whether a gossip of this very incarnation came in.
    pub is_heard: bool,
    /// The latest generation that it named itself.
    pub generation: u32,
    /// Whether its node runs a later incarnation: it will not come back.
    pub is_superseded: bool,
    /// The direct question that waits for an answer.
    pub question: Option<Question>,
}

/// A direct question.
#[derive(Clone, Copy, Debug)]
pub(super) struct Question {
    pub nonce: u64,
    /// Pings sent.
    pub tries: u8,
}

/// Foca's present probe.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    pub target: Identity,
    pub number: u8,
    pub is_answered: bool,
    /// The ping, for a second try.
    pub ping: Bytes,
}

/// The state around foca: the watched members, the schedule, the local health.
pub(super) struct Surroundings {
    pub config: Config,
    pub now: Instant,
    /// This member, as foca names it at present.
    pub me: Identity,
    /// How often this member refuted a suspicion in this generation. This is foca's incarnation,
    /// which foca does not expose.
    pub refutations: u16,
    /// Sorted by node; this member is not in it.
    pub watched: Vec<Watched>,
    pub schedule: Schedule,
    pub local: LocalHealth,
    pub probe: Option<Probe>,
    pub rng: Dice,
    /// The token that foca's timers must carry to be valid.
    pub token: TimerToken,
    /// This member took a new generation, and foca has not checked its members since.
    pub has_rejoined: bool,
}

impl Surroundings {
    pub fn place(&self, node: NodeId) -> Option<usize> {
        self.watched.binary_search_by_key(&node, |watched| watched.member.node).ok()
    }

    /// The place of a member in this very incarnation.
    pub fn place_of(&self, member: Member) -> Option<usize> {
        self.place(member.node).filter(|&place| self.watched[place].member == member)
    }

    pub fn is_mine(&self, member: Member) -> bool {
        member == self.me.member
    }

    /// A gossip of our own making, where foca has no call for it.
    pub fn gossip(&self, to: Identity, message: Message<Identity>, claims: Vec<Claim>) -> Bytes {
        let header = Header { src: self.me, src_incarnation: self.refutations, dst: to, message };
        Packet::Gossip { header, claims }.encode()
    }

    /// Starts the suspicion of a member, unless it runs. A later one of the same member replaces
    /// it, so a member is never in the schedule twice.
    pub fn suspect(&mut self, id: Identity, refutations: u16, out: &mut Output) {
        let is_it = |(other, later): (&Identity, u16)| *other == id && later >= refutations;
        if self.schedule.condemned().any(is_it) {
            return;
        }
        self.schedule.acquit(id.member.node);
        let timer = Timer::ChangeSuspectToDown {
            member_id: id,
            incarnation: refutations,
            token: self.token,
        };
        let at = self.now + self.local.stretch(self.config.suspect_for);
        self.schedule.add(at, Task::Condemn { since: self.now, timer });
        self.tell_suspect(id, refutations, out);
        self.spread_soon();
    }

    /// Tells a suspected member, so that it refutes: foca leaves that to chance.
    pub fn tell_suspect(&self, id: Identity, refutations: u16, out: &mut Output) {
        let claim = Claim::new(id, refutations, State::Suspect);
        out.sends.push((id.member.node, self.gossip(id, Message::Gossip, vec![claim])));
    }

    pub fn spread_soon(&mut self) {
        if !self.schedule.has(|task| matches!(task, Task::Spread)) {
            self.schedule.add(self.now + SPREAD_EVERY, Task::Spread);
        }
    }

    /// foca restarts: drops the timers that it asked for before.
    fn forget_timers(&mut self) {
        self.schedule.drop_focas();
        self.probe = None;
    }
}

/// Receives foca's output.
pub(super) struct Sink<'a> {
    pub around: &'a mut Surroundings,
    pub out: &'a mut Output,
}

impl Runtime<Identity> for Sink<'_> {
    /// Changes of members are read off foca's list instead: suspicions are not notified.
    fn notify(&mut self, notification: Notification<'_, Identity>) {
        let around = &mut *self.around;
        match notification {
            // Members that begin to watch at one time would otherwise probe in step for ever.
            Notification::Active => {
                let share = around.rng.0.unit();
                let first = around.now + around.config.probe_every.mul_f64(share);
                around.schedule.move_next_probe(|_| first);
            }
            Notification::Idle | Notification::Defunct => around.forget_timers(),
            Notification::Rejoin(id) => {
                around.forget_timers();
                around.me = *id;
                around.refutations = 0;
                around.has_rejoined = true;
            }
            _ => {}
        }
    }

    fn send_to(&mut self, to: Identity, bytes: &[u8]) {
        // A peer may name any node as the target of a probe on its behalf.
        if self.around.place_of(to.member).is_none() {
            self.out.counters.add(counters::UNWATCHED_TARGET, 1);
            return;
        }
        let packet = Packet::of_foca(bytes).expect("foca wrote it by our codec");
        let bytes = packet.encode();
        if let Packet::Gossip { header, .. } = packet {
            let is_present = header.src == self.around.me;
            debug_assert!(!is_present || header.src_incarnation == self.around.refutations);
            if let Message::Ping(number) = header.message {
                let ping = bytes.clone();
                self.around.probe = Some(Probe { target: to, number, is_answered: false, ping });
            }
        }
        self.out.sends.push((to.member.node, bytes));
    }

    fn submit_after(&mut self, timer: Timer<Identity>, after: Duration) {
        let around = &mut *self.around;
        let at = around.now + around.local.stretch(after);
        match timer {
            Timer::ProbeRandomMember(token) => {
                around.token = token;
                around.schedule.add(at, Task::NextProbe(timer));
            }
            Timer::SendIndirectProbe { .. } => around.schedule.add(at, Task::AskHelpers(timer)),
            Timer::ChangeSuspectToDown { member_id, incarnation, .. } => {
                around.suspect(member_id, incarnation, self.out);
            }
            // Nothing else is configured.
            _ => self.out.counters.add(counters::TIMER_UNKNOWN, 1),
        }
    }
}
