//! Joining, leaving, and the start of a view.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::counters;
use super::interface::{Event, Role};
use super::message::{Ballot, Contact, Message, Refusal};
use super::{Cx, Group};
use crate::core::{Health, Instant, Member, NodeId, View, ViewId};

/// The most nodes remembered as contacts for the group: the peers to ask, and members of views.
pub(super) const KNOWN_MAX: usize = 256;
/// Nodes that may wait to be let in.
const JOINERS_MAX: usize = 256;
/// A join request expires unless the node repeats it within this many times `join_every`.
pub(super) const REQUESTS_MISSED_MAX: u32 = 8;
/// A node that asked to join.
#[derive(Debug)]
pub(super) struct Joiner {
    pub(super) contact: Contact,
    // The nonce that it must return, and whether it has.
    nonce: u64,
    pub(super) is_proven: bool,
    // Members that have seen their links to it work, if those were dead.
    pub(super) vouched: BTreeSet<NodeId>,
    // True while it has to wait for them. No refusal is sent before `refused_after`.
    is_barred: bool,
    refused_after: Instant,
    // When it asked last.
    asked_at: Instant,
}

impl Group {
    pub(super) fn bootstrap(&mut self, cx: &mut Cx<'_>, address: Bytes) {
        if self.role != Role::Outside {
            return cx.count(counters::ALREADY_IN, 1);
        }
        self.me.address = address;
        self.begin(cx);
        self.role = Role::Member;
        let made_at = Ballot { round: 0, proposer: cx.node };
        self.install(cx, ViewId(0), made_at, vec![self.me.clone()]);
    }

    pub(super) fn join(&mut self, cx: &mut Cx<'_>, address: Bytes, peers: Vec<NodeId>) {
        if self.role != Role::Outside {
            return cx.count(counters::ALREADY_IN, 1);
        }
        self.me.address = address;
        self.asked = peers;
        self.begin(cx);
        self.role = Role::Joining;
        self.ask_to_join(cx);
        self.repeat_soon(cx);
    }

    /// One more node to ask.
    pub(super) fn add_asked(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if !self.asked.contains(&node) {
            self.asked.push(node);
            let request = self.request_to_join(cx);
            self.send(cx, node, request);
        }
    }

    pub(super) fn ask_to_join(&mut self, cx: &mut Cx<'_>) {
        let request = self.request_to_join(cx);
        for &node in &self.asked {
            if node != cx.node {
                self.send(cx, node, request.clone());
            }
        }
    }

    fn request_to_join(&self, cx: &mut Cx<'_>) -> Message {
        match &self.gathering {
            Some(gathering) => gathering.request(cx, &self.me),
            None => Message::Join(self.me.clone()),
        }
    }

    pub(super) fn receive_join(&mut self, cx: &mut Cx<'_>, from: NodeId, contact: Contact) {
        if !self.is_member() {
            return cx.count(counters::JOIN_ELSEWHERE, 1);
        }
        let member = contact.member;
        // Members pass requests on.
        if from != member.node && self.view.rank(from).is_none() {
            return cx.count(counters::FOREIGN_JOIN, 1);
        }
        let refused = |refusal| Message::Refused { token: contact.token, refusal };
        if let Some(rank) = self.view.rank(member.node) {
            if self.view.members()[rank] == member {
                // It has missed that it is in.
                return self.tell_view(cx, member.node);
            }
            // An earlier run of the node is still in the view. A host runs a service once, so that
            // run is over if the host is the same and says so itself; else the detector sees to it.
            // If it is well, two nodes have one id.
            let is_same_host = contact.host != 0 && contact.host == self.contacts[rank].host;
            if is_same_host && from == member.node {
                self.expelled.insert(member.node);
            } else if self.health(member.node) == Some(Health::Up) {
                self.probe_member(cx, member.node);
                return self.send(cx, member.node, refused(Refusal::IdInUse));
            }
        }
        let oldest = self.oldest();
        if oldest != self.me.member.node {
            let is_suspect = self.links.is_kept_out_over(member.node, self.me.member.node);
            if is_suspect && let Some(nonce) = self.links.echo(&contact, || cx.rng.next_u64()) {
                cx.note_address(member.node, &contact.address);
                let token = contact.token;
                return self.send(cx, member.node, Message::Challenge { token, nonce });
            }
            // Passed on once: a member does not pass on what came from a member, unless that asks
            // whether the link works.
            if from == member.node || is_suspect {
                self.send(cx, oldest, Message::Join(contact));
            }
            return;
        }
        if let Some(joiner) = self.joiners.get_mut(&member.node)
            && joiner.contact == contact
        {
            joiner.asked_at = cx.now;
        } else if !self.has_room_for(cx, member.node) {
            return self.send(cx, member.node, refused(Refusal::Full));
        } else {
            cx.note_address(member.node, &contact.address);
            let nonce = cx.rng.next_u64();
            let joiner = Joiner {
                contact,
                nonce,
                is_proven: false,
                vouched: BTreeSet::new(),
                is_barred: false,
                refused_after: cx.now,
                asked_at: cx.now,
            };
            self.joiners.insert(member.node, joiner);
        }
        self.judge_joiner(cx, from, member.node);
        let joiner = &self.joiners[&member.node];
        if !joiner.is_proven {
            let (token, nonce) = (joiner.contact.token, joiner.nonce);
            self.send(cx, member.node, Message::Challenge { token, nonce });
        }
    }

    /// A node that waits to be let in has asked, or `from` has passed that on: looks whether it was
    /// left out because of a link that has not been seen to work since.
    fn judge_joiner(&mut self, cx: &mut Cx<'_>, from: NodeId, node: NodeId) {
        let is_vouched = from != node && self.links.is_kept_out_over(node, from);
        let Some(joiner) = self.joiners.get_mut(&node) else { return };
        if is_vouched {
            joiner.vouched.insert(from);
        }
        let me = self.me.member.node;
        let bar = self.links.bar(cx.now, me, &self.view, joiner);
        let was_barred = std::mem::replace(&mut joiner.is_barred, bar.is_some());
        let Some((peer, is_due)) = bar else {
            if was_barred && joiner.is_proven {
                self.joins_at = self.joins_at.min(cx.now + cx.shared.gather_joins);
            }
            return;
        };
        if cx.now < joiner.refused_after {
            return;
        }
        joiner.refused_after = cx.now + cx.shared.join_every;
        let contact = joiner.contact.clone();
        let refusal = Refusal::LinkDead { peer };
        self.send(cx, node, Message::Refused { token: contact.token, refusal });
        if is_due && peer != me {
            // It may not know that the node asks, nor where it is.
            self.send(cx, peer, Message::Join(contact));
        }
    }

    /// True if the node may wait to be let in. A node that has proven nothing makes room for
    /// others.
    fn has_room_for(&mut self, cx: &Cx<'_>, node: NodeId) -> bool {
        let proven = self.joiners.values().filter(|joiner| joiner.is_proven).count();
        if self.view.len() + proven >= cx.shared.members_max {
            return false;
        }
        if self.joiners.len() >= JOINERS_MAX && !self.joiners.contains_key(&node) {
            let unproven = self.joiners.iter().filter(|(_, joiner)| !joiner.is_proven);
            let oldest = unproven.min_by_key(|(_, joiner)| joiner.asked_at).map(|(&node, _)| node);
            return oldest.is_some_and(|node| self.joiners.remove(&node).is_some());
        }
        true
    }

    /// A member asks for the proof that this node is where its request to join says.
    pub(super) fn receive_challenge(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        token: u64,
        nonce: u64,
    ) {
        if self.role != Role::Joining || token != self.me.token {
            return cx.count(counters::FOREIGN_CHALLENGE, 1);
        }
        self.note_group(cx);
        self.send(cx, from, Message::Response { nonce });
    }

    pub(super) fn receive_response(&mut self, cx: &mut Cx<'_>, from: NodeId, nonce: u64) {
        let joiner = self.joiners.get_mut(&from).filter(|joiner| joiner.nonce == nonce);
        let Some(joiner) = joiner else {
            if !self.links.take_echo(from, nonce) {
                cx.count(counters::FOREIGN_RESPONSE, 1);
            }
            return;
        };
        joiner.is_proven = true;
        if !joiner.is_barred {
            self.joins_at = self.joins_at.min(cx.now + cx.shared.gather_joins);
        }
    }

    /// Those that may be let in now, at most `count`.
    pub(super) fn proven_joiners(&self, count: usize) -> impl Iterator<Item = &Contact> {
        let proven = self.joiners.values().filter(|joiner| joiner.is_proven && !joiner.is_barred);
        proven.map(|joiner| &joiner.contact).take(count)
    }

    /// Forgets nodes that have stopped asking.
    pub(super) fn forget_silent_joiners(&mut self, cx: &Cx<'_>) {
        if self.joiners.is_empty() {
            return;
        }
        let patience = cx.shared.join_every * REQUESTS_MISSED_MAX;
        self.joiners.retain(|_, joiner| cx.now.since(joiner.asked_at) <= patience);
        if self.proven_joiners(1).next().is_none() {
            self.joins_at = Instant::MAX;
        }
    }

    /// The oldest member that is not suspected and does not leave, or this one.
    fn oldest(&self) -> NodeId {
        let me = self.me.member.node;
        let nodes = self.view.members().iter().map(|member| member.node);
        let stays = |node: &NodeId| !self.leavers.contains(node);
        nodes.filter(stays).find(|&node| self.is_trusted(node)).unwrap_or(me)
    }

    /// A member of the view, drawn; it may be this one.
    pub(super) fn any_member(&self, cx: &mut Cx<'_>) -> NodeId {
        self.view.node(cx.rng.below(self.view.len() as u32) as usize)
    }

    pub(super) fn leave(&mut self, cx: &mut Cx<'_>) {
        match self.role {
            Role::Member => {
                self.role = Role::Leaving;
                self.leavers.insert(cx.node);
                self.ask_to_leave(cx);
                self.repeat_soon(cx);
            }
            Role::Joining => {
                (self.role, self.gathering) = (Role::Outside, None);
                cx.deliver(Event::Left);
            }
            Role::Outside | Role::Leaving => {}
        }
    }

    pub(super) fn ask_to_leave(&mut self, cx: &mut Cx<'_>) {
        let (view, incarnation) = (self.view.id(), self.me.member.incarnation);
        // Asks another member too, each time: the oldest may reach members without hearing a
        // quorum.
        for node in BTreeSet::from([self.oldest(), self.any_member(cx)]) {
            if node != cx.node {
                self.send(cx, node, Message::Leave { view, incarnation });
            }
        }
    }

    pub(super) fn receive_leave(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        view: ViewId,
        incarnation: u64,
    ) {
        let member = Member { node: from, incarnation };
        match self.view.rank(from) {
            Some(rank) if self.is_member() && self.view.members()[rank] == member => {
                self.leavers.insert(from);
            }
            _ if self.is_member() && view < self.view.id() => self.tell_excluded(cx, from),
            _ => cx.count(counters::LEAVE_ELSEWHERE, 1),
        }
    }

    /// Tells a member of the present view what it is.
    pub(super) fn tell_view(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let message = Message::Install {
            after: ViewId(self.view.id().0 - 1),
            made_at: self.made_at,
            members: self.contacts.clone(),
        };
        self.send(cx, node, message);
    }

    pub(super) fn receive_install(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        after: ViewId,
        made_at: Ballot,
        members: Vec<Contact>,
    ) {
        let Some(view) = after.0.checked_add(1).map(ViewId) else {
            return cx.count(counters::FOREIGN_INSTALL, 1);
        };
        match self.role {
            Role::Outside => {}
            // Only members know the token.
            Role::Joining if members.contains(&self.me) => {
                self.role = Role::Member;
                self.install(cx, after, made_at, members);
                self.send(cx, from, Message::Installed { view });
            }
            Role::Joining => cx.count(counters::FOREIGN_INSTALL, 1),
            Role::Member | Role::Leaving if view == self.view.id() => {
                self.send(cx, from, Message::Installed { view });
            }
            Role::Member | Role::Leaving if view < self.view.id() => {
                cx.count(counters::LATE_INSTALL, 1);
            }
            Role::Member | Role::Leaving if self.view.rank(from).is_none() => {
                cx.count(counters::FOREIGN_INSTALL, 1);
            }
            Role::Member | Role::Leaving if after == self.view.id() => {
                let accepted = self.acceptor.accepted.as_ref();
                let flushed = accepted.filter(|(_, proposal)| proposal.made_at == made_at);
                if let Some((_, proposal)) = flushed {
                    // Whatever this message says: all that accepted it have the same.
                    let members = proposal.next.clone();
                    self.install(cx, after, made_at, members);
                    self.send(cx, from, Message::Installed { view });
                } else {
                    // The others went on without what this member should have flushed.
                    self.note_claim(cx, from);
                }
            }
            Role::Member | Role::Leaving => self.note_claim(cx, from),
        }
    }

    /// Another node says that the group went on without this member.
    fn note_claim(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        if self.view.rank(from).is_some() {
            self.claims.insert(from);
            self.present.remove(&from);
        }
        self.claimed_since.get_or_insert(cx.now);
        self.repeat_soon(cx);
        self.judge_claims(cx);
    }

    /// Whether the group went on without this member. A view follows only what a quorum of the view
    /// before has accepted. So it did if a quorum says so. If fewer do, because the others are
    /// gone, it cannot have done so if too many say that they are in the present view, or seem to
    /// be. They are asked, and given the time in which a member answers.
    fn judge_claims(&mut self, cx: &mut Cx<'_>) {
        let Some(since) = self.claimed_since else { return };
        let ranks = |is_counted: &dyn Fn(NodeId) -> bool| -> Vec<u32> {
            let nodes = self.view.members().iter().map(|member| member.node);
            (0..).zip(nodes).filter(|&(_, node)| is_counted(node)).map(|(rank, _)| rank).collect()
        };
        let claiming = ranks(&|node| self.claims.contains(&node));
        let is_present = |node: NodeId| {
            let heard = self.present.get(&node);
            heard.is_some_and(|&at| cx.now.since(at) < cx.shared.answer_within)
        };
        let me = self.me.member.node;
        let absent = ranks(&|node| node != me && !is_present(node));
        let mut seeming = self.alive_ranks();
        seeming.retain(|&rank| !self.claims.contains(&self.view.node(rank as usize)));
        let is_late = cx.now.since(since) >= cx.shared.answer_within;
        let may_have = is_late && self.is_quorum(&absent) && !self.is_quorum(&seeming);
        if self.is_quorum(&claiming) || may_have {
            self.exclude(cx);
        } else if self.is_quorum(&ranks(&|node| node == me || is_present(node))) {
            self.claims.clear();
            self.claimed_since = None;
        }
    }

    /// Asks the others whether the group went on without this member, while some say so.
    pub(super) fn ask_for_claims(&mut self, cx: &mut Cx<'_>) -> bool {
        if self.claimed_since.is_none() || !self.is_member() {
            return false;
        }
        self.judge_claims(cx);
        if !self.is_member() {
            return true;
        }
        let (me, view) = (self.me.member.node, self.view.id());
        let others = self.view.members().iter().map(|member| member.node);
        for node in others.filter(|node| *node != me && !self.claims.contains(node)) {
            self.send(cx, node, Message::Installed { view });
        }
        true
    }

    /// Begins the view that follows `after`.
    pub(super) fn install(
        &mut self,
        cx: &mut Cx<'_>,
        after: ViewId,
        made_at: Ballot,
        members: Vec<Contact>,
    ) {
        let id = ViewId(after.0 + 1);
        let me = self.me.member;
        if members.iter().all(|contact| contact.member != me) {
            if self.role == Role::Leaving {
                self.go_outside(cx);
            } else {
                self.exclude(cx);
            }
            return;
        }
        self.keep_out_unreachable(cx, &members);
        let view = Arc::new(View::new(id, members.iter().map(|contact| contact.member)));
        self.links.enter(cx.now, view.len());
        let last = std::mem::replace(&mut self.view, view.clone());
        self.contacts = members;
        self.made_at = made_at;
        self.back_off(cx, made_at);
        (self.proposer, self.installing, self.gathering) = (None, None, None);
        self.note_progress(cx);
        self.round = 0;
        self.change_since = None;
        self.has_primary = true;
        self.unanswered.clear();
        self.expelled.clear();
        self.claims.clear();
        self.claimed_since = None;
        self.present.clear();
        let view_ref = &self.view;
        self.joiners.retain(|&node, joiner| {
            let member = joiner.contact.member;
            view_ref.rank(node).is_none_or(|rank| view_ref.members()[rank] != member)
        });
        for member in view.members() {
            if !self.asked.contains(&member.node) {
                self.asked.push(member.node);
            }
        }
        let surplus = self.asked.len().saturating_sub(KNOWN_MAX);
        self.asked.drain(..surplus);
        let is_awaited = self.proven_joiners(1).next().is_some();
        self.joins_at = if is_awaited { cx.now } else { Instant::MAX };
        // A node that left may be back already, in another incarnation.
        self.leavers.retain(|&node| {
            last.rank(node).is_some_and(|rank| view_ref.contains(last.members()[rank]))
        });
        for contact in &self.contacts {
            cx.note_address(contact.member.node, &contact.address);
        }
        cx.deliver(Event::View(view.clone()));
        self.watch_view(cx);
        self.with_chain(cx, |chain, cx| crate::core::Protocol::handle_view(chain, cx, &view));
        self.carry_direct(cx);
        self.replay_early(cx);
        self.watch_links(cx);
    }

    pub(super) fn receive_installed(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId) {
        let present = self.view.id();
        if let Some(installing) = self.installing.as_mut().filter(|it| it.view == view)
            && installing.waiting.remove(&from)
        {
            self.note_progress(cx);
            return;
        }
        if view == present {
            let is_open = self.is_member() && self.acceptor.accepted.is_none();
            if is_open && self.view.rank(from).is_some() {
                self.send(cx, from, Message::Present { view });
            }
        } else if self.is_member()
            && view.0.checked_add(1) == Some(present.0)
            && self.view.rank(from).is_some()
        {
            self.tell_view(cx, from);
        } else if self.is_member()
            && (view < present || self.has_primary && self.view.rank(from).is_none())
        {
            self.tell_excluded(cx, from);
        }
    }

    /// A member says that it is in this view, and has accepted no other to follow it.
    pub(super) fn receive_present(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId) {
        if view != self.view.id() || self.view.rank(from).is_none() || !self.is_member() {
            return cx.count(counters::LATE_ANSWER, 1);
        }
        self.claims.remove(&from);
        self.present.insert(from, cx.now);
        self.note_progress(cx);
        self.watch.note_present(from);
        self.judge_claims(cx);
    }

    pub(super) fn receive_excluded(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId) {
        if !self.is_member() {
            return;
        }
        let is_known = self.view.rank(from).is_some();
        // Members of any view that this node was in are asked.
        let may_judge = !self.has_primary && (is_known || self.asked.contains(&from));
        // Without a primary also in an earlier view: this one's was made up by the member that told
        // it of it, or the other misses it, and learns of it when it is asked.
        if (view > self.view.id() && is_known) || (view != self.view.id() && may_judge) {
            self.note_claim(cx, from);
        } else if view < self.view.id() && !is_known {
            // It is the other way round.
            self.tell_excluded(cx, from);
        }
    }

    /// The node has left.
    fn go_outside(&mut self, cx: &mut Cx<'_>) {
        self.role = Role::Outside;
        self.end_watch(cx);
        self.renew_chain(cx);
        self.give_up_direct(cx);
        (self.proposer, self.has_primary) = (None, false);
        cx.deliver(Event::Left);
    }

    /// The others went on without this member: it comes back as another.
    fn exclude(&mut self, cx: &mut Cx<'_>) {
        cx.count(counters::EXCLUDED, 1);
        if self.role == Role::Leaving {
            return self.go_outside(cx);
        }
        self.give_up_direct(cx);
        self.disconnect_dead(cx);
        cx.deliver(Event::Excluded);
        self.begin(cx);
        self.role = Role::Joining;
        self.ask_to_join(cx);
        self.repeat_soon(cx);
    }
}
