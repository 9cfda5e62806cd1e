//! The part of every member: promising, flushing and accepting.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::config::{REPEAT_DOUBLINGS, REPEAT_EVERY};
use super::counters;
use super::interface::Role;
use super::message::{Ballot, Contact, Cut, Message, Proposal, Received};
use super::{Cx, Group};
use crate::chain::{Frame, Reached};
use crate::core::{Instant, Lane, NodeId, ViewId};

/// How far a round may be ahead of the last one known here. An attempt takes `answer_within`, so a
/// member would have to miss attempts of a day and a half.
const ROUNDS_AHEAD_MAX: u32 = 1 << 16;
/// Attempts of one proposer of which nothing came, after which the others take their turns.
const ATTEMPTS_MAX: u32 = 3;
/// Time that an attempt gets, in `answer_within`; the next attempt leaves out members that are
/// silent.
pub(super) const ATTEMPT_TAKES: u32 = 3;
/// Blocks asked for at once of one origin.
const FETCH_BLOCKS: u64 = 32;

/// A member's answers about the end of its view. Forgotten with the view.
#[derive(Debug, Default)]
pub(super) struct Acceptor {
    /// Set once the member has promised: it answers no earlier attempt, and the broadcast is
    /// frozen.
    pub(super) promised: Option<Ballot>,
    // When that was promised.
    promised_at: Instant,
    // Attempts of each proposer since one of them came so far that something was to be accepted.
    attempts: BTreeMap<NodeId, u32>,
    /// What was accepted last: flushed, if this member takes part.
    pub(super) accepted: Option<(Ballot, Arc<Proposal>)>,
    // The proposal to accept once flushed, and for each of its cuts the end of the blocks asked
    // for.
    pending: Option<(Ballot, Arc<Proposal>)>,
    asked: Vec<u64>,
    /// The last attempt of this member.
    pub(super) attempted: Option<Ballot>,
    /// It was outbid, or came to nothing: this member makes no other before this time.
    pub(super) attempt_after: Instant,
    // Blocks flushed here since the last request for missing blocks.
    flushed: u64,
    // Requests for blocks since one was answered.
    fruitless: usize,
}

impl Acceptor {
    /// True if the node made an attempt to end the view and has sent no proposal here since.
    pub(super) fn has_attempts_of(&self, node: NodeId) -> bool {
        self.attempts.contains_key(&node)
    }

    /// True if the node made [`ATTEMPTS_MAX`] attempts to end the view and sent no proposal after
    /// any of them: the other members no longer wait for it.
    pub(super) fn is_vain(&self, proposer: NodeId) -> bool {
        self.attempts.get(&proposer) >= Some(&ATTEMPTS_MAX)
    }
}

/// The relation of the view that an attempt names to the view here.
enum Standing {
    Present,
    Other,
}

impl Group {
    /// Sees to messages of an agreement about another view than the present one.
    fn standing(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId) -> Standing {
        if !self.is_member() {
            return Standing::Other;
        }
        if view == self.view.id() {
            if self.view.rank(from).is_some() {
                return Standing::Present;
            }
            cx.count(counters::FOREIGN_PROPOSER, 1);
        } else if view < self.view.id() {
            match self.view.rank(from) {
                Some(_) => self.tell_view(cx, from),
                None => self.tell_excluded(cx, from),
            }
        } else {
            // A view ends that has not begun here: the answer asks for it.
            self.send(cx, from, Message::Installed { view: self.view.id() });
        }
        Standing::Other
    }

    pub(super) fn receive_prepare(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        digest: u64,
        ballot: Ballot,
    ) {
        let Standing::Present = self.standing(cx, from, view) else { return };
        if digest != self.view.digest() {
            self.expel_other_view(cx, from);
            let promise = self.promise_of(ballot, Vec::new());
            return self.send(cx, from, promise);
        }
        if ballot.proposer != from {
            return cx.count(counters::FOREIGN_BALLOT, 1);
        }
        if self.is_round_ahead(ballot) {
            return cx.count(counters::ROUND_AHEAD, 1);
        }
        self.round = self.round.max(ballot.round);
        if let Some(promised) = self.acceptor.promised.filter(|&promised| promised > ballot) {
            return self.send(cx, from, Message::Rejected { view, promised });
        }
        if let Some(promised) = self.makes_way_for(cx, from) {
            cx.count(counters::VAIN_ATTEMPT, 1);
            return self.send(cx, from, Message::Rejected { view, promised });
        }
        let promise = self.promise(cx, ballot);
        self.send(cx, from, promise);
    }

    /// True of a round that no member can have reached: it would use up the rounds that are left.
    pub(super) fn is_round_ahead(&self, ballot: Ballot) -> bool {
        ballot.round > self.round.saturating_add(ROUNDS_AHEAD_MAX)
    }

    /// The promised attempt, if it must not yield to one of `proposer`. That is so if `proposer`
    /// has failed so often that it may reach members without hearing a quorum. A promised proposer
    /// that has failed as often yields: each member has asked by then and knows which members
    /// answer, so an attempt that can succeed takes a round trip.
    fn makes_way_for(&self, cx: &Cx<'_>, proposer: NodeId) -> Option<Ballot> {
        let acceptor = &self.acceptor;
        acceptor.promised.filter(|promised| {
            promised.proposer != proposer
                && acceptor.is_vain(proposer)
                && !acceptor.is_vain(promised.proposer)
                && self.is_alive(promised.proposer)
                && cx.now < acceptor.promised_at + cx.shared.answer_within * ATTEMPT_TAKES
        })
    }

    /// Reports the end of the view to a member that does not seem to know of it. Otherwise that
    /// member would wait for blocks that are no longer accepted here, or miss its turn to propose.
    pub(super) fn tell_that_view_ends(&self, cx: &mut Cx<'_>, node: NodeId) {
        if let Some(promised) = self.acceptor.promised {
            self.send(cx, node, Message::Rejected { view: self.view.id(), promised });
        }
    }

    /// Promises an attempt, which ends the view for this member's broadcast.
    pub(super) fn promise(&mut self, cx: &mut Cx<'_>, ballot: Ballot) -> Message {
        if self.acceptor.promised < Some(ballot) {
            self.note_progress(cx);
            self.acceptor.promised = Some(ballot);
            self.acceptor.promised_at = cx.now;
            self.acceptor.pending = None;
            let attempts = self.acceptor.attempts.entry(ballot.proposer).or_default();
            *attempts = attempts.saturating_add(1);
            // The turns of others come, counted from the last attempt that may yet succeed.
            if *attempts <= ATTEMPTS_MAX || self.change_since.is_none() {
                self.change_since = Some(cx.now);
            }
            self.repeat_soon(cx);
        }
        if self.proposer.as_ref().is_some_and(|proposer| proposer.ballot < ballot) {
            self.proposer = None;
            // Not at once, or two that outbid each other would do so for ever.
            let pause = cx.shared.answer_within.mul_f64(0.5 + cx.rng.unit());
            self.acceptor.attempt_after = cx.now + pause;
        }
        self.chain.freeze();
        let received = self.chain.reached().map(|reached| Received {
            origin: reached.origin as u32,
            incarnation: reached.incarnation,
            first: reached.first,
            end: reached.end,
        });
        self.promise_of(ballot, received.collect())
    }

    fn promise_of(&self, ballot: Ballot, received: Vec<Received>) -> Message {
        let (view, digest) = (self.view.id(), self.view.digest());
        Message::Promise {
            view,
            digest,
            ballot,
            accepted: self.acceptor.accepted.clone(),
            received,
        }
    }

    /// A member that lies has made this member and another install different views under one
    /// number. Each continues without the other, if it is with a quorum.
    pub(super) fn expel_other_view(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if self.expelled.insert(node) {
            cx.count(counters::OTHER_VIEW, 1);
        }
    }

    pub(super) fn receive_accept(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        ballot: Ballot,
        proposal: Arc<Proposal>,
    ) {
        let Standing::Present = self.standing(cx, from, view) else { return };
        match self.acceptor.promised {
            Some(promised) if promised == ballot && ballot.proposer == from => {}
            Some(promised) if promised > ballot => {
                return self.send(cx, from, Message::Rejected { view, promised });
            }
            // A member that has not promised may have received blocks that the proposal does not
            // cover.
            _ => return cx.count(counters::UNPROMISED_ACCEPT, 1),
        }
        if self.acceptor.accepted.as_ref().is_some_and(|(at, _)| *at == ballot) {
            return self.send(cx, from, Message::Accepted { view, ballot });
        }
        if self.acceptor.pending.as_ref().is_some_and(|(at, _)| *at == ballot) {
            return;
        }
        if !self.is_sound(ballot, &proposal) || !self.covers_received(&proposal) {
            return cx.count(counters::BAD_PROPOSAL, 1);
        }
        self.acceptor.attempts.remove(&from);
        self.acceptor.asked = vec![0; proposal.cuts.len()];
        self.acceptor.fruitless = 0;
        self.acceptor.pending = Some((ballot, proposal));
        self.flush(cx);
    }

    /// Whether some member can have made or adopted this proposal by this ballot. Members that
    /// adopt it rely on that: its members must be able to accept it, and to undo it.
    pub(super) fn is_sound(&self, ballot: Ballot, proposal: &Proposal) -> bool {
        let Proposal { made_at, is_adopted, kept, next, cuts } = proposal;
        let members = self.view.len() as u32;
        let stays = |contact: &&Contact| {
            let rank = self.view.rank(contact.member.node);
            rank.is_some_and(|rank| {
                self.contacts[rank].member == contact.member && kept.contains(&(rank as u32))
            })
        };
        let stay = next.iter().filter(stays).count();
        (*made_at == ballot || *is_adopted && *made_at < ballot)
            && kept.is_sorted_by(|one, other| one < other)
            && kept.iter().all(|&rank| rank < members)
            && self.is_quorum(kept)
            && next.len() - stay <= joining_max(stay)
            && cuts.iter().all(|cut| cut.origin < members && cut.holder < members)
    }

    /// True if the proposal covers every block that this member has received of each origin.
    fn covers_received(&self, proposal: &Proposal) -> bool {
        // Blocks that were freed here, because their origin falsely called them stable, are left
        // aside: this member cannot give them to others.
        let is_covered = |reached: Reached| {
            let cut = proposal.cuts.iter().find(|cut| cut.origin as usize == reached.origin);
            let end = cut.map_or(0, |cut| cut.end);
            end >= reached.end || end < reached.first
        };
        !self.takes_part(proposal) || self.chain.reached().all(is_covered)
    }

    fn takes_part(&self, proposal: &Proposal) -> bool {
        self.rank_of_me().is_some_and(|rank| proposal.kept.contains(&(rank as u32)))
    }

    /// Asks survivors for what is missing, or accepts if nothing is.
    pub(super) fn flush(&mut self, cx: &mut Cx<'_>) {
        let Some((ballot, proposal)) = self.acceptor.pending.clone() else { return };
        let mut is_flushed = true;
        if self.takes_part(&proposal) {
            for (place, cut) in proposal.cuts.iter().enumerate() {
                let here = self.chain.reached_of(cut.origin as usize);
                if here >= cut.end {
                    continue;
                }
                is_flushed = false;
                if here < self.acceptor.asked[place] {
                    continue;
                }
                let to = cut.end.min(here + FETCH_BLOCKS);
                self.acceptor.asked[place] = to;
                let from_whom = self.giver(ballot, &proposal, cut);
                let (view, origin) = (self.view.id(), cut.origin);
                self.send(cx, from_whom, Message::Fetch { view, origin, from: here, to });
            }
        }
        if !is_flushed {
            return self.repeat_soon(cx);
        }
        self.acceptor.pending = None;
        self.acceptor.accepted = Some((ballot, proposal));
        let view = self.view.id();
        if ballot.proposer == self.me.member.node {
            self.receive_accepted(cx, ballot.proposer, view, ballot);
        } else {
            self.send(cx, ballot.proposer, Message::Accepted { view, ballot });
        }
    }

    /// The member to ask for blocks that a proposal attributes to a holder.
    fn giver(&self, ballot: Ballot, proposal: &Proposal, cut: &Cut) -> NodeId {
        let holder = self.view.node(cut.holder as usize);
        let kept = proposal.kept.iter().map(|&rank| self.view.node(rank as usize));
        let kept: Vec<NodeId> = kept.collect();
        let other = turn(self.acceptor.fruitless, holder, ballot.proposer, &kept);
        if other == self.me.member.node { holder } else { other }
    }

    /// Asks again for what has not come.
    pub(super) fn repeat_flush(&mut self, cx: &mut Cx<'_>) {
        let is_fruitless = std::mem::take(&mut self.acceptor.flushed) == 0;
        self.acceptor.fruitless += usize::from(is_fruitless);
        self.acceptor.asked.iter_mut().for_each(|asked| *asked = 0);
        self.flush(cx);
    }

    pub(super) fn answer_fetch(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        origin: u32,
        first: u64,
        to: u64,
    ) {
        let Standing::Present = self.standing(cx, from, view) else { return };
        for seq in first..to.min(first.saturating_add(FETCH_BLOCKS)) {
            match self.chain.flushed_block(view, origin as usize, seq) {
                Some(frame) => cx.send(from, Lane::Stream, Message::Flushed(frame)),
                None => return cx.count(counters::FETCH_MISSED, 1),
            }
        }
    }

    pub(super) fn receive_flushed(&mut self, cx: &mut Cx<'_>, from: NodeId, frame: Frame) {
        if self.view.rank(from).is_none() {
            return cx.count(counters::FLUSHED_BY_STRANGER, 1);
        }
        let is_due = self.acceptor.pending.as_ref().is_some_and(|(_, proposal)| {
            let covers = |cut: &Cut| {
                (cut.origin, cut.incarnation) == (frame.origin, frame.incarnation)
                    && frame.seq < cut.end
            };
            proposal.cuts.iter().any(covers)
        });
        if !is_due {
            return cx.count(counters::FLUSHED_IN_VAIN, 1);
        }
        let is_new = self.with_chain(cx, |chain, cx| chain.take_flushed(cx, frame));
        if is_new {
            self.note_progress(cx);
            self.acceptor.flushed += 1;
            self.flush(cx);
        }
    }

    /// True if the member has promised that its view ends.
    pub(super) fn is_ending(&self) -> bool {
        self.acceptor.promised.is_some()
    }

    /// The agreement goes on: what is unanswered from now on is repeated soon.
    pub(super) fn note_progress(&mut self, cx: &Cx<'_>) {
        self.repeats = 0;
        if self.repeat_at != Instant::MAX {
            self.repeat_at = self.repeat_at.min(cx.now + REPEAT_EVERY);
        }
    }

    /// Wakes within the time after which unanswered messages are repeated.
    pub(super) fn repeat_soon(&mut self, cx: &Cx<'_>) {
        let every = match self.role {
            Role::Joining => cx.shared.join_every,
            _ => REPEAT_EVERY * (1 << self.repeats.min(REPEAT_DOUBLINGS)),
        };
        if self.repeat_at == Instant::MAX {
            self.repeat_at = cx.now + every;
        }
    }
}

/// The member to ask after `fruitless` requests without an answer. Every other request goes to the
/// holder. The first one in between goes to the proposer, which has everything once it has flushed,
/// since the link to the holder may be dead. Later ones go to each kept member in turn, since both
/// may have freed blocks that another member falsely reported as stable.
fn turn(fruitless: usize, holder: NodeId, proposer: NodeId, kept: &[NodeId]) -> NodeId {
    match fruitless {
        1 => proposer,
        odd if odd % 2 == 1 => kept[(odd / 2 - 1) % kept.len()],
        _ => holder,
    }
}

/// The most members that may join a view in which `stay` members remain. Those that remain are a
/// quorum of that view, so they can undo it if all joiners fail.
pub(super) fn joining_max(stay: usize) -> usize {
    (stay / 2).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_holder_and_the_proposer_do_not_give_each_other_member_is_asked_for() {
        let kept = [3, 4, 5].map(NodeId);
        let asked = (0..9).map(|round| turn(round, NodeId(4), NodeId(3), &kept).0);
        assert_eq!(asked.collect::<Vec<_>>(), [4, 3, 4, 3, 4, 4, 4, 5, 4]);
    }
}
