//! The proposer's part: choosing the members to ask, and making a proposal from their answers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::agree::{ATTEMPT_TAKES, Acceptor, joining_max};
use super::config::REPEAT_EVERY;
use super::counters;
use super::interface::{Event, Role};
use super::message::{Ballot, Contact, Cut, Message, Proposal, Received};
use super::{Cx, Group};
use crate::core::{Instant, NodeId, ViewId};

/// How often a decided view is sent again to members that have not confirmed its installation.
pub(super) const INSTALL_REPEATS: u32 = 50;

/// How many times the pause after a failed attempt doubles.
const BACK_OFF_DOUBLINGS: u32 = 5;

/// An attempt to end the view.
#[derive(Debug)]
pub(super) struct Proposer {
    pub(super) ballot: Ballot,
    // Ranks of those that must answer.
    pub(super) asked: Vec<u32>,
    promises: BTreeMap<u32, Promise>,
    pub(super) proposal: Option<Arc<Proposal>>,
    accepted: BTreeSet<u32>,
    // When it was last made or moved on.
    pub(super) since: Instant,
}

#[derive(Debug)]
pub(super) struct Promise {
    pub(super) accepted: Option<(Ballot, Arc<Proposal>)>,
    pub(super) received: Vec<Received>,
}

/// A view that was decided here, and the members that have not confirmed its installation.
#[derive(Debug)]
pub(super) struct Installing {
    pub(super) view: ViewId,
    pub(super) message: Message,
    pub(super) waiting: BTreeSet<NodeId>,
    pub(super) repeats_left: u32,
}

impl Group {
    /// Whether these members of the present view may decide what follows it.
    pub(super) fn is_quorum(&self, ranks: &[u32]) -> bool {
        let members = self.view.len();
        2 * ranks.len() > members || (2 * ranks.len() == members && ranks.contains(&0))
    }

    /// The members that are alive and that the view is not to go on without, this one among them.
    pub(super) fn alive_ranks(&self) -> Vec<u32> {
        let nodes = self.view.members().iter().map(|member| member.node);
        let me = self.me.member.node;
        let counts = |&(rank, node): &(u32, NodeId)| {
            self.is_alive(node) && (node == me || !self.links.leaves_out(rank))
        };
        (0u32..).zip(nodes).filter(counts).map(|(rank, _)| rank).collect()
    }

    /// Looks whether the view should change, and whether it is on this member to change it.
    pub(super) fn consider_change(&mut self, cx: &mut Cx<'_>) {
        if !self.is_member() {
            return;
        }
        self.forget_silent_joiners(cx);
        self.judge_links(cx);
        let alive = self.alive_ranks();
        let has_primary = self.is_quorum(&alive);
        if has_primary != self.has_primary {
            self.has_primary = has_primary;
            if !has_primary {
                self.repeat_soon(cx);
            }
            cx.deliver(if has_primary { Event::RegainedPrimary } else { Event::LostPrimary });
        }
        let should_end = self.has_requests(cx) || self.links.has_lost_block;
        if self.is_ending() || alive.len() < self.view.len() || should_end {
            self.change_since.get_or_insert(cx.now);
        } else {
            self.change_since = None;
        }
        if !has_primary {
            self.proposer = None;
        }
        if let Some(proposer) = &self.proposer {
            let answered = |rank: &u32| match proposer.proposal {
                None => proposer.promises.contains_key(rank),
                Some(_) => proposer.accepted.contains(rank),
            };
            let mut awaited = proposer.asked.iter().filter(|rank| !answered(rank));
            let has_lost = awaited.any(|rank| !alive.contains(rank));
            let is_late = cx.now.since(proposer.since) >= cx.shared.answer_within;
            if is_late && self.is_last_to_accept() {
                // Another member goes on without this one, if need be.
                cx.count(counters::OWN_FLUSH_LATE, 1);
                self.proposer = None;
                self.acceptor.attempt_after = cx.now + cx.shared.answer_within * ATTEMPT_TAKES;
            } else if has_lost || is_late {
                self.attempt(cx, &alive);
            }
        } else if self.next_attempt_at(cx) <= cx.now {
            self.attempt(cx, &alive);
        }
    }

    /// True if all others have accepted this member's proposal, and it lacks blocks itself.
    fn is_last_to_accept(&self) -> bool {
        let Some((proposer, me)) = self.proposer.as_ref().zip(self.rank_of_me()) else {
            return false;
        };
        let lacks = proposer.asked.iter().filter(|rank| !proposer.accepted.contains(rank));
        proposer.proposal.is_some() && lacks.eq([&(me as u32)])
    }

    /// A node waits to join or to leave.
    fn has_requests(&self, cx: &Cx<'_>) -> bool {
        !self.leavers.is_empty() || self.joins_at <= cx.now
    }

    /// When this member makes an attempt, or checks the one under way.
    pub(super) fn next_attempt_at(&self, cx: &Cx<'_>) -> Instant {
        if !self.is_member() || !self.has_primary {
            return Instant::MAX;
        }
        if let Some(proposer) = &self.proposer {
            return proposer.since + cx.shared.answer_within;
        }
        let attempt_after = self.acceptor.attempt_after;
        let Some(since) = self.change_since else {
            return self.joins_at.max(attempt_after);
        };
        let (me, rank) = (self.me.member.node, self.rank_of_me().unwrap_or(0) as u32);
        if self.only_accuses(cx, rank) {
            return self.joins_at.max(attempt_after);
        }
        if self.links.has_lost_block && !self.is_ending() {
            return since.max(attempt_after); // No other member knows.
        }
        let place = self.links.place(rank);
        let nodes = (0u32..).zip(self.view.members().iter().map(|member| member.node));
        let before_me =
            nodes.filter(|&(other, node)| self.links.place(other) < place && self.is_trusted(node));
        let mut turn = before_me.count() as u32;
        // Another's attempt that goes on gets its time.
        if let Some(ballot) = self.acceptor.promised
            && ballot.proposer != me
            && self.is_alive(ballot.proposer)
        {
            turn = turn.max(1);
        }
        (since + cx.shared.answer_within.saturating_mul(turn)).max(attempt_after)
    }

    /// True if the view should change for no other reason than a dead link, and it is not on the
    /// member of this rank, which is this one, to propose that.
    fn only_accuses(&self, cx: &Cx<'_>, rank: u32) -> bool {
        let left_out = self.links.left_out_but(rank);
        left_out > 0
            && !self.links.may_propose(rank)
            && !self.is_ending()
            && !self.has_requests(cx)
            && self.alive_ranks().len() + left_out == self.view.len()
    }

    /// Makes an attempt with all that are alive and answer, under a ballot above all seen.
    fn attempt(&mut self, cx: &mut Cx<'_>, alive: &[u32]) {
        let is_silent = |&&rank: &&u32| {
            let since = self.unanswered.get(&self.view.node(rank as usize));
            since.is_some_and(|&since| cx.now.since(since) >= cx.shared.answer_within)
        };
        let answering: Vec<u32> = alive.iter().filter(|rank| !is_silent(rank)).copied().collect();
        let asked = if self.is_quorum(&answering) { answering } else { alive.to_vec() };
        let Some(round) = self.round.checked_add(1) else {
            return cx.count(counters::ROUNDS_USED_UP, 1);
        };
        self.round = round;
        let ballot = Ballot { round: self.round, proposer: self.me.member.node };
        self.acceptor.attempted = Some(ballot);
        cx.count(counters::ATTEMPTS, 1);
        self.proposer = Some(Box::new(Proposer {
            ballot,
            asked,
            promises: BTreeMap::new(),
            proposal: None,
            accepted: BTreeSet::new(),
            since: cx.now,
        }));
        let me = self.rank_of_me().expect("a member has a rank") as u32;
        let view = self.view.id();
        // A silent member is not waited for, but it is asked: it may answer by now.
        let digest = self.view.digest();
        for &rank in alive.iter().filter(|&&rank| rank != me) {
            self.ask(cx, rank, Message::Prepare { view, digest, ballot });
        }
        self.repeat_soon(cx);
        if let Message::Promise { accepted, received, .. } = self.promise(cx, ballot) {
            self.note_promise(cx, me, Promise { accepted, received });
        }
    }

    /// Tells a member something that it has to answer.
    fn ask(&mut self, cx: &mut Cx<'_>, rank: u32, message: Message) {
        let node = self.view.node(rank as usize);
        self.unanswered.entry(node).or_insert(cx.now);
        self.send(cx, node, message);
    }

    pub(super) fn receive_promise(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        (view, digest): (ViewId, u64),
        ballot: Ballot,
        promise: Promise,
    ) {
        self.note_answer(from, view);
        let Some(rank) = self.rank_in_attempt(from, view, ballot) else {
            return cx.count(counters::LATE_ANSWER, 1);
        };
        if digest != self.view.digest() {
            return self.expel_other_view(cx, from);
        }
        let Promise { accepted, received } = &promise;
        let members = self.view.len();
        let is_sound =
            accepted.as_ref().is_none_or(|(at, it)| *at <= ballot && self.is_sound(*at, it));
        if !is_sound || received.iter().any(|row| row.origin as usize >= members) {
            return cx.count(counters::BAD_PROMISE, 1);
        }
        self.note_promise(cx, rank, promise);
    }

    /// Asks one silent member again: one that has not answered the last attempt and is not waited
    /// for now. If it answers in time, the next attempt must not leave it out.
    fn ask_silent(&mut self, cx: &mut Cx<'_>) {
        let Some(ballot) = self.acceptor.attempted else { return };
        let is_awaited = |node: &NodeId| {
            let rank = self.view.rank(*node).map(|rank| rank as u32);
            let asked = self.proposer.as_ref().zip(rank);
            asked.is_some_and(|(proposer, rank)| proposer.asked.contains(&rank))
        };
        let silent = self.unanswered.keys().filter(|node| !is_awaited(node)).copied();
        let silent: Vec<NodeId> = silent.collect();
        if !silent.is_empty() {
            let node = silent[cx.rng.below(silent.len() as u32) as usize];
            let (view, digest) = (self.view.id(), self.view.digest());
            self.send(cx, node, Message::Prepare { view, digest, ballot });
        }
    }

    /// A view begins that was proposed at `made_at`. If this member's own attempt to end the view
    /// before came to nothing, then it waits longer each time before the next: it may hear no
    /// quorum, and a view has to last until the others see that its links are dead.
    pub(super) fn back_off(&mut self, cx: &Cx<'_>, made_at: Ballot) {
        let me = self.me.member.node;
        let is_vain = self.acceptor.has_attempts_of(me) && made_at.proposer != me;
        self.vain_views = if is_vain { self.vain_views.saturating_add(1) } else { 0 };
        self.acceptor = Acceptor::default();
        if let Some(doublings) = self.vain_views.checked_sub(1) {
            let pause = cx.shared.answer_within * (1 << doublings.min(BACK_OFF_DOUBLINGS));
            self.acceptor.attempt_after = cx.now + pause;
        }
    }

    /// Whatever the member says to an attempt to end this view, it is not silent.
    fn note_answer(&mut self, from: NodeId, view: ViewId) {
        if view == self.view.id() {
            self.unanswered.remove(&from);
        }
    }

    fn rank_in_attempt(&self, from: NodeId, view: ViewId, ballot: Ballot) -> Option<u32> {
        let proposer = self.proposer.as_ref()?;
        let rank = self.view.rank(from)? as u32;
        let is_asked =
            view == self.view.id() && ballot == proposer.ballot && proposer.asked.contains(&rank);
        is_asked.then_some(rank)
    }

    fn note_promise(&mut self, cx: &mut Cx<'_>, rank: u32, promise: Promise) {
        let Some(proposer) = &mut self.proposer else { return };
        if proposer.proposal.is_some() {
            return;
        }
        let is_new = proposer.promises.insert(rank, promise).is_none();
        let is_complete = proposer.promises.len() >= proposer.asked.len();
        if is_new {
            self.note_progress(cx);
        }
        let Some(proposer) = self.proposer.as_mut().filter(|_| is_complete) else { return };
        proposer.since = cx.now;
        let proposal = Arc::new(self.choose(cx));
        let proposer = self.proposer.as_mut().expect("looked at above");
        proposer.proposal = Some(proposal.clone());
        let (ballot, asked) = (proposer.ballot, proposer.asked.clone());
        let (view, me) = (self.view.id(), self.me.member.node);
        for rank in asked {
            if self.view.node(rank as usize) != me {
                let proposal = proposal.clone();
                self.ask(cx, rank, Message::Accept { view, ballot, proposal });
            }
        }
        self.receive_accept(cx, me, view, ballot, proposal);
    }

    /// Chooses the proposal, given the promises of all members that were asked.
    fn choose(&self, cx: &Cx<'_>) -> Proposal {
        let proposer = self.proposer.as_ref().expect("only a proposer chooses");
        let promises = &proposer.promises;
        let accepted = promises.values().filter_map(|promise| promise.accepted.as_ref());
        if let Some((at, proposal)) = accepted.max_by_key(|(at, _)| *at)
            && self.may_be_decided(promises, *at, proposal)
        {
            return Proposal { is_adopted: true, ..(**proposal).clone() };
        }
        let cuts = cuts(promises);
        let stays = |rank: &&u32| !self.leavers.contains(&self.view.node(**rank as usize));
        let kept = proposer.asked.iter().filter(stays);
        let mut next: Vec<Contact> =
            kept.map(|&rank| self.contacts[rank as usize].clone()).collect();
        let stay = next.len();
        let room = cx.shared.members_max.saturating_sub(next.len());
        let joining_max = joining_max(stay).min(room);
        for joiner in self.proven_joiners(usize::MAX).filter(|_| self.joins_at <= cx.now) {
            let is_new = next.iter().all(|c| c.member.node != joiner.member.node);
            if is_new && next.len() < stay + joining_max {
                next.push(joiner.clone());
            }
        }
        let kept = proposer.asked.clone();
        Proposal { made_at: proposer.ballot, is_adopted: false, kept, next, cuts }
    }

    /// Whether what was accepted at this ballot, the highest of the promises, may be decided.
    fn may_be_decided(
        &self,
        promises: &BTreeMap<u32, Promise>,
        at: Ballot,
        proposal: &Proposal,
    ) -> bool {
        if proposal.is_adopted {
            return true;
        }
        if at.proposer == self.me.member.node {
            return false; // Only this member could have decided it, and it is still in the view.
        }
        // Every member that its ballot asked had to accept it, and those that did say so in their
        // promises.
        let has_accepted = |promise: &Promise| {
            promise.accepted.as_ref().is_some_and(|(_, p)| p.made_at == proposal.made_at)
        };
        let mut asked = promises.iter().filter(|(rank, _)| proposal.kept.contains(rank));
        asked.all(|(_, promise)| has_accepted(promise))
    }

    pub(super) fn receive_accepted(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        ballot: Ballot,
    ) {
        self.note_answer(from, view);
        let Some(rank) = self.rank_in_attempt(from, view, ballot) else {
            return cx.count(counters::LATE_ANSWER, 1);
        };
        let proposer = self.proposer.as_mut().expect("looked at above");
        let Some(proposal) = proposer.proposal.clone() else {
            return cx.count(counters::LATE_ANSWER, 1);
        };
        let is_new = proposer.accepted.insert(rank);
        proposer.since = cx.now;
        let is_complete = proposer.accepted.len() >= proposer.asked.len();
        if is_new {
            self.note_progress(cx);
        }
        let Some(proposer) = self.proposer.as_mut().filter(|_| is_complete) else { return };
        let (asked, me) = (proposer.asked.clone(), self.me.member.node);
        let asked = asked.iter().map(|&rank| self.view.node(rank as usize));
        let next = proposal.next.iter().map(|contact| contact.member.node);
        let waiting: BTreeSet<NodeId> = asked.chain(next).filter(|&node| node != me).collect();
        let message = Message::Install {
            after: view,
            made_at: proposal.made_at,
            members: proposal.next.clone(),
        };
        for &node in &waiting {
            self.send(cx, node, message.clone());
        }
        self.install(cx, view, proposal.made_at, proposal.next.clone());
        // A member that leaves repeats as well: the others may not know yet that it may.
        let installed = ViewId(view.0 + 1);
        self.installing =
            Some(Installing { view: installed, message, waiting, repeats_left: INSTALL_REPEATS });
        self.repeat_soon(cx);
    }

    pub(super) fn receive_rejected(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        promised: Ballot,
    ) {
        if view != self.view.id() || self.view.rank(from).is_none() {
            return cx.count(counters::LATE_ANSWER, 1);
        }
        if self.is_round_ahead(promised) {
            return cx.count(counters::ROUND_AHEAD, 1);
        }
        if !self.is_member() || self.view.rank(promised.proposer).is_none() {
            return cx.count(counters::FOREIGN_BALLOT, 1);
        }
        self.round = self.round.max(promised.round);
        self.note_answer(from, view);
        if !self.is_ending() {
            // The proposer does not reach this member, or has left it out.
            let _ = self.promise(cx, promised);
        }
        if self.proposer.as_ref().is_some_and(|proposer| proposer.ballot < promised) {
            let (other, me) = (promised.proposer, self.me.member.node);
            let alive = self.alive_ranks();
            if self.acceptor.is_vain(other) && !self.acceptor.is_vain(me) && self.is_quorum(&alive)
            {
                // Members that know how often the other has failed do not make way for it, so that
                // nothing would come of either attempt.
                return self.attempt(cx, &alive);
            }
            // The other proposer continues. If it fails, this member takes its turn again, at a
            // time of its own.
            self.proposer = None;
            let jitter = REPEAT_EVERY.mul_f64(cx.rng.unit());
            self.change_since = Some(cx.now + jitter);
        }
    }

    /// Repeats what was not answered.
    pub(super) fn repeat(&mut self, cx: &mut Cx<'_>) {
        let mut is_waiting = false;
        if self.role == Role::Joining {
            self.ask_to_join(cx);
            is_waiting = true;
        }
        if let Some(proposer) = &self.proposer {
            is_waiting = true;
            let (view, digest, ballot) = (self.view.id(), self.view.digest(), proposer.ballot);
            let mut sends = Vec::new();
            for &rank in &proposer.asked {
                let node = self.view.node(rank as usize);
                let message = match &proposer.proposal {
                    None if !proposer.promises.contains_key(&rank) => {
                        Message::Prepare { view, digest, ballot }
                    }
                    Some(proposal) if !proposer.accepted.contains(&rank) => {
                        Message::Accept { view, ballot, proposal: proposal.clone() }
                    }
                    _ => continue,
                };
                if node != self.me.member.node {
                    sends.push((node, message));
                }
            }
            sends.into_iter().for_each(|(node, message)| self.send(cx, node, message));
        }
        if let Some(mut installing) = self.installing.take() {
            installing.repeats_left -= 1;
            for &node in &installing.waiting {
                self.send(cx, node, installing.message.clone());
            }
            if installing.repeats_left > 0 && !installing.waiting.is_empty() {
                is_waiting = true;
                self.installing = Some(installing);
            }
        }
        if self.role == Role::Leaving {
            self.ask_to_leave(cx);
            is_waiting = true;
        }
        if self.is_member() && !self.has_primary {
            // Members that know the outcome may be in no view with this member.
            for &node in self.asked.iter().filter(|&&node| node != self.me.member.node) {
                self.send(cx, node, Message::Installed { view: self.view.id() });
            }
            is_waiting = true;
        } else if self.is_ending() && self.proposer.is_none() {
            // The proposer that decided may be gone, so ask one member at a time; a member that
            // knows tells others.
            let node = self.any_member(cx);
            if node != self.me.member.node {
                self.send(cx, node, Message::Installed { view: self.view.id() });
            }
            is_waiting = true;
        }
        self.ask_silent(cx);
        self.repeat_flush(cx);
        is_waiting |= self.probe_direct(cx);
        is_waiting |= self.ask_for_claims(cx);
        if is_waiting {
            self.repeat_soon(cx);
        }
    }
}

/// The end to which the members can bring each other, for each origin. If an origin falsely called
/// blocks stable, there may be blocks that no remaining holder can give to the others.
pub(super) fn cuts(promises: &BTreeMap<u32, Promise>) -> Vec<Cut> {
    let mut rows: BTreeMap<u32, Vec<(u32, Received)>> = BTreeMap::new();
    for (&holder, promise) in promises {
        for &row in &promise.received {
            rows.entry(row.origin).or_default().push((holder, row));
        }
    }
    let cut = |(origin, rows): (u32, Vec<(u32, Received)>)| {
        let least = rows.iter().map(|(_, row)| row.end).min();
        let mut end = least.filter(|_| rows.len() == promises.len()).unwrap_or(0);
        let mut last = None;
        // Each turn adds what one member can give to all that have what came before.
        while let Some((holder, row)) = rows
            .iter()
            .filter(|(_, row)| row.first <= end && (row.end > end || last.is_none()))
            .max_by_key(|(holder, row)| (row.end, Reverse(*holder)))
        {
            end = row.end;
            last = Some((*holder, row.incarnation));
        }
        let (holder, incarnation) = last?;
        Some(Cut { origin, incarnation, end, holder })
    };
    rows.into_iter().filter_map(cut).collect()
}
