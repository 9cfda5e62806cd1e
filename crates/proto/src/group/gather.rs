//! Hosts that start together and create a group: they find each other, and the one with the least
//! id proposes the first view ([`super::founding`]).
//!
//! Each host sends [`Message::Gather`] to all that it knows, with the contacts of those that it has
//! heard. A member answers it as a request to join. A host that has heard of enough others proposes
//! when its turn comes: the least id after `gather_joins`, each further one `answer_within` later.
//! A host that is silent for eight `join_every` has no turn. So a proposer that stops delays the
//! others, and the agreement lets them go on with what it may have decided.
//!
//! Proposers that act at the same time outbid each other, which costs time and is safe.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::config::REPEAT_EVERY;
use super::counters;
use super::founding::{FoundingAcceptor, FoundingAttempt};
use super::interface::{Gather, Role};
use super::join::{KNOWN_MAX, REQUESTS_MISSED_MAX};
use super::message::{Contact, EXPECT_MAX, Founding, FoundingBallot, Message};
use super::propose::{INSTALL_REPEATS, Installing};
use super::{Cx, Group};
use crate::core::field::Field;
use crate::core::{Instant, Member, NodeId, ViewId, Wire};

/// How far a round may be ahead of the last one known here: no host makes that many attempts.
const ROUNDS_AHEAD_MAX: u32 = 1 << 16;

/// Another host that gathers.
#[derive(Debug)]
struct Seen {
    contact: Contact,
    heard_at: Instant,
}

/// A host's part in the creation of a group.
#[derive(Debug)]
pub(super) struct Gathering {
    expect: usize,
    seen: BTreeMap<NodeId, Seen>,
    acceptor: FoundingAcceptor,
    attempt: Option<FoundingAttempt>,
    // The highest round seen.
    round: u32,
    // Since when enough hosts are seen and no other one proposes.
    turn_since: Option<Instant>,
    attempt_after: Instant,
    // A first view without this host, which this host decided and has not heard of again.
    decided: Option<Arc<Founding>>,
    install_at: Instant,
    // When a member of a group answered last.
    group_heard_at: Option<Instant>,
    wake_at: Instant,
}

impl Gathering {
    fn new(expect: usize) -> Gathering {
        Gathering {
            expect,
            seen: BTreeMap::new(),
            acceptor: FoundingAcceptor::default(),
            attempt: None,
            round: 0,
            turn_since: None,
            attempt_after: Instant::ZERO,
            decided: None,
            install_at: Instant::ZERO,
            group_heard_at: None,
            wake_at: Instant::MAX,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.seen.len() * size_of::<(NodeId, Seen)>()
    }

    /// When the next step is due.
    pub(super) fn deadline(&self) -> Instant {
        self.wake_at
    }

    /// The request to all hosts. The hosts that it names are drawn if they do not fit a datagram.
    pub(super) fn request(&self, cx: &mut Cx<'_>, me: &Contact) -> Message {
        let count = self.seen.len();
        let first = cx.rng.below(count.max(1) as u32) as usize;
        let contacts = self.seen.values().map(|seen| &seen.contact).cycle().skip(first).take(count);
        let mut bytes = self.message(me, Vec::new()).wire_len();
        let mut seen = Vec::new();
        for contact in contacts.take(EXPECT_MAX) {
            bytes += Contact::bytes(contact);
            if bytes > cx.datagram_bytes_max {
                break;
            }
            seen.push(contact.clone());
        }
        self.message(me, seen)
    }

    fn message(&self, me: &Contact, seen: Vec<Contact>) -> Message {
        Message::Gather { contact: me.clone(), expect: self.expect as u32, seen }
    }

    /// True while a member of a group answers: this host joins that group and creates none.
    fn hears_group(&self, cx: &Cx<'_>) -> bool {
        self.group_heard_at.is_some_and(|at| cx.now.since(at) <= patience(cx))
    }

    /// Another host's attempt goes on: it gets its time.
    fn yield_to(&mut self, cx: &Cx<'_>, ballot: FoundingBallot) {
        self.attempt.take_if(|attempt| attempt.ballot < ballot);
        self.turn_since = self.turn_since.map(|_| cx.now);
        self.attempt_after = cx.now + cx.shared.answer_within;
    }

    /// Notes the round of a message; false if it is too far ahead to be true.
    fn note_round(&mut self, cx: &mut Cx<'_>, round: u32) -> bool {
        if round > self.round.saturating_add(ROUNDS_AHEAD_MAX) {
            cx.count(counters::ROUND_AHEAD, 1);
            return false;
        }
        self.round = self.round.max(round);
        true
    }

    /// When this host may propose. The least id of those that it hears goes first.
    fn next_attempt_at(&self, cx: &Cx<'_>) -> Option<Instant> {
        let before_me = self.seen.range(..cx.node).count() as u32;
        let turn = cx.shared.answer_within.saturating_mul(before_me);
        let at = self.turn_since? + cx.shared.gather_joins + turn;
        Some(at.max(self.attempt_after))
    }
}

/// Hosts that are silent for longer have no turn.
fn patience(cx: &Cx<'_>) -> Duration {
    cx.shared.join_every * REQUESTS_MISSED_MAX
}

impl Group {
    pub(super) fn gather(&mut self, cx: &mut Cx<'_>, command: Gather) {
        let Gather { address, peers, expect } = command;
        if self.role != Role::Outside {
            return cx.count(counters::ALREADY_IN, 1);
        }
        self.me.address = address;
        self.asked = peers;
        self.begin(cx);
        self.role = Role::Joining;
        self.gathering = Some(Box::new(Gathering::new(expect.hosts() as usize)));
        self.ask_to_join(cx);
        self.repeat_soon(cx);
    }

    /// A member of a group has answered.
    pub(super) fn note_group(&mut self, cx: &Cx<'_>) {
        if let Some(gathering) = &mut self.gathering {
            gathering.group_heard_at = Some(cx.now);
            gathering.decided = None;
        }
    }

    /// A message of a host that creates the group with others.
    pub(super) fn receive_gathering(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        if self.is_member()
            && let Message::Gather { contact, .. } = message
        {
            return self.receive_join(cx, from, contact);
        }
        let Some(mut gathering) = self.gathering.take() else {
            return cx.count(counters::FOUNDING_ELSEWHERE, 1);
        };
        let decided = self.receive_gathering_with(cx, &mut gathering, from, message);
        self.gathering = Some(gathering);
        if let Some(founding) = decided {
            self.found(cx, &founding);
        }
    }

    /// Returns the first view if the message decides it.
    fn receive_gathering_with(
        &mut self,
        cx: &mut Cx<'_>,
        gathering: &mut Gathering,
        from: NodeId,
        message: Message,
    ) -> Option<Arc<Founding>> {
        if let Message::Gather { expect, .. }
        | Message::GatherPrepare { expect, .. }
        | Message::GatherAccept { expect, .. } = message
            && expect as usize != gathering.expect
        {
            cx.count(counters::FOUNDING_OTHER_EXPECT, 1);
            return None;
        }
        match message {
            Message::Gather { contact, seen, .. } => {
                self.receive_gather(cx, gathering, from, contact, seen);
            }
            Message::GatherPrepare { ballot, .. } => {
                if may_answer(cx, gathering, from, ballot) {
                    let reply = match gathering.acceptor.prepare(ballot) {
                        Ok(accepted) => {
                            gathering.yield_to(cx, ballot);
                            let contact = self.me.clone();
                            Message::GatherPromise { ballot, contact, accepted }
                        }
                        Err(promised) => Message::GatherRejected { ballot, promised },
                    };
                    self.send(cx, from, reply);
                }
            }
            Message::GatherAccept { ballot, founding, .. } => {
                let sizes = gathering.expect..=cx.shared.members_max;
                if !sizes.contains(&founding.members.len()) {
                    cx.count(counters::BAD_PROPOSAL, 1);
                } else if may_answer(cx, gathering, from, ballot) {
                    let reply = match gathering.acceptor.accept(ballot, founding) {
                        Ok(()) => {
                            gathering.yield_to(cx, ballot);
                            Message::GatherAccepted { ballot }
                        }
                        Err(promised) => Message::GatherRejected { ballot, promised },
                    };
                    self.send(cx, from, reply);
                }
            }
            Message::GatherPromise { ballot, contact, accepted } => {
                let attempt = gathering.attempt.as_mut().filter(|it| it.ballot == ballot);
                let Some(attempt) = attempt.filter(|_| contact.member.node == from) else {
                    cx.count(counters::LATE_ANSWER, 1);
                    return None;
                };
                if let Some(founding) = attempt.note_promise(contact, accepted) {
                    return self.propose_founding(cx, gathering, ballot, founding);
                }
            }
            Message::GatherAccepted { ballot } => {
                let attempt = gathering.attempt.as_mut().filter(|it| it.ballot == ballot);
                let Some(attempt) = attempt else {
                    cx.count(counters::LATE_ANSWER, 1);
                    return None;
                };
                return attempt.note_accepted(from);
            }
            Message::GatherRejected { ballot, promised } => {
                let is_current = gathering.attempt.as_ref().is_some_and(|it| it.ballot == ballot);
                if is_current && promised > ballot && gathering.note_round(cx, promised.round) {
                    gathering.attempt = None;
                    // Drawn, so that two proposers do not outbid each other again and again.
                    let pause = cx.shared.answer_within.mul_f64(0.5 + cx.rng.unit());
                    gathering.attempt_after = cx.now + pause;
                }
            }
            _ => unreachable!("the caller passes messages of hosts that gather"),
        }
        None
    }

    /// Another host gathers as well, and names more of them.
    fn receive_gather(
        &mut self,
        cx: &mut Cx<'_>,
        gathering: &mut Gathering,
        from: NodeId,
        contact: Contact,
        seen: Vec<Contact>,
    ) {
        if contact.member.node != from || from == cx.node {
            return cx.count(counters::FOREIGN_JOIN, 1);
        }
        let heard_at = cx.now;
        let before = gathering.seen.get(&from).map(|seen| seen.contact.member);
        if before.is_none() && gathering.seen.len() >= KNOWN_MAX {
            return;
        }
        cx.note_address(from, &contact.address);
        let is_new = before != Some(contact.member);
        gathering.seen.insert(from, Seen { contact, heard_at });
        let mut told = Vec::new();
        if is_new {
            told.push(from);
        }
        if !self.asked.contains(&from) && self.asked.len() < KNOWN_MAX {
            self.asked.push(from);
        }
        for other in seen {
            let node = other.member.node;
            let is_known = node == cx.node || self.asked.contains(&node);
            if !is_known && self.asked.len() < KNOWN_MAX {
                cx.note_address(node, &other.address);
                self.asked.push(node);
                told.push(node);
            }
        }
        // Without a delay of `join_every`: the hosts see each other within a round trip.
        for node in told {
            let request = gathering.request(cx, &self.me);
            self.send(cx, node, request);
        }
    }

    /// Does what is due.
    pub(super) fn poll_gathering(&mut self, cx: &mut Cx<'_>) {
        let Some(mut gathering) = self.gathering.take() else { return };
        let patience = patience(cx);
        gathering.seen.retain(|_, seen| cx.now.since(seen.heard_at) <= patience);
        if gathering.seen.len() + 1 < gathering.expect || gathering.hears_group(cx) {
            (gathering.turn_since, gathering.attempt) = (None, None);
        } else {
            gathering.turn_since.get_or_insert(cx.now);
        }
        let answer_within = cx.shared.answer_within;
        if gathering.attempt.take_if(|it| cx.now.since(it.since) >= answer_within).is_some() {
            // Drawn, for the same reason as after a rejection.
            gathering.attempt_after = cx.now + answer_within.mul_f64(cx.rng.unit() / 2.0);
        }
        let is_due = gathering.next_attempt_at(cx).is_some_and(|at| at <= cx.now);
        if is_due && gathering.attempt.is_none() {
            self.attempt_founding(cx, &mut gathering);
        }
        if let Some(attempt) = &mut gathering.attempt
            && attempt.repeat_at <= cx.now
        {
            attempt.repeat_at = cx.now + REPEAT_EVERY;
            self.send_attempt(cx, &gathering);
        }
        if let Some(founding) = &gathering.decided
            && gathering.install_at <= cx.now
        {
            gathering.install_at = cx.now + REPEAT_EVERY;
            self.send_install(cx, founding);
        }
        gathering.wake_at = match &gathering.attempt {
            Some(attempt) => attempt.repeat_at.min(attempt.since + answer_within),
            None => gathering.next_attempt_at(cx).unwrap_or(Instant::MAX),
        };
        if gathering.decided.is_some() {
            gathering.wake_at = gathering.wake_at.min(gathering.install_at);
        }
        self.gathering = Some(gathering);
    }

    /// Begins an attempt to create the group.
    fn attempt_founding(&mut self, cx: &mut Cx<'_>, gathering: &mut Gathering) {
        let Some(round) = gathering.round.checked_add(1) else {
            gathering.attempt_after = Instant::MAX;
            return cx.count(counters::ROUNDS_USED_UP, 1);
        };
        cx.count(counters::FOUNDING_ATTEMPTS, 1);
        gathering.round = round;
        let ballot = FoundingBallot { round, proposer: self.me.member };
        let mut attempt = FoundingAttempt::new(ballot, gathering.expect, cx.now);
        let accepted = gathering.acceptor.prepare(ballot).expect("a round above all others");
        // It takes two hosts at least.
        let proposal = attempt.note_promise(self.me.clone(), accepted);
        debug_assert_eq!(proposal, None);
        gathering.attempt = Some(attempt);
    }

    /// Enough hosts have promised. Returns the first view if it is decided by that.
    fn propose_founding(
        &mut self,
        cx: &mut Cx<'_>,
        gathering: &mut Gathering,
        ballot: FoundingBallot,
        founding: Arc<Founding>,
    ) -> Option<Arc<Founding>> {
        // A higher ballot that was promised here has ended the attempt.
        gathering.acceptor.accept(ballot, founding).expect("the attempt goes on");
        let attempt = gathering.attempt.as_mut().expect("the attempt goes on");
        let decided = attempt.note_accepted(cx.node);
        attempt.repeat_at = cx.now + REPEAT_EVERY;
        self.send_attempt(cx, gathering);
        decided
    }

    /// Sends the present step of the attempt to all hosts that have not answered it.
    fn send_attempt(&self, cx: &mut Cx<'_>, gathering: &Gathering) {
        let Some(attempt) = &gathering.attempt else { return };
        let (ballot, expect) = (attempt.ballot, gathering.expect as u32);
        let message = match attempt.founding.clone() {
            None => Message::GatherPrepare { ballot, expect },
            Some(founding) => Message::GatherAccept { ballot, expect, founding },
        };
        for &node in gathering.seen.keys().filter(|&&node| !attempt.has_answered(node)) {
            self.send(cx, node, message.clone());
        }
    }

    /// The first view is decided.
    fn found(&mut self, cx: &mut Cx<'_>, founding: &Arc<Founding>) {
        if !founding.members.contains(&self.me) {
            // Adopted from an earlier attempt. This host joins once a member answers.
            if let Some(gathering) = &mut self.gathering {
                (gathering.attempt, gathering.turn_since) = (None, None);
                gathering.attempt_after = cx.now + cx.shared.answer_within;
                gathering.decided = Some(founding.clone());
                gathering.install_at = cx.now;
            }
            return;
        }
        self.role = Role::Member;
        self.send_install(cx, founding);
        let others = founding.members.iter().map(|contact| contact.member.node);
        let waiting = others.filter(|&node| node != cx.node).collect();
        self.install(cx, ViewId(0), founding.made_at, founding.members.clone());
        self.installing = Some(Installing {
            view: ViewId(1),
            message: install_message(founding),
            waiting,
            repeats_left: INSTALL_REPEATS,
        });
        self.repeat_soon(cx);
    }

    fn send_install(&self, cx: &mut Cx<'_>, founding: &Founding) {
        for Contact { member: Member { node, .. }, address, .. } in &founding.members {
            if *node != cx.node {
                cx.note_address(*node, address);
                self.send(cx, *node, install_message(founding));
            }
        }
    }
}

fn install_message(founding: &Founding) -> Message {
    let (made_at, members) = (founding.made_at, founding.members.clone());
    Message::Install { after: ViewId(0), made_at, members }
}

/// Whether this host answers an attempt of another one.
fn may_answer(
    cx: &mut Cx<'_>,
    gathering: &mut Gathering,
    from: NodeId,
    ballot: FoundingBallot,
) -> bool {
    if ballot.proposer.node != from || from == cx.node {
        cx.count(counters::FOREIGN_BALLOT, 1);
        return false;
    }
    gathering.note_round(cx, ballot.round) && !gathering.hears_group(cx)
}
