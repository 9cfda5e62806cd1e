//! Coming in, going, and the moment a view begins.

use std::sync::Arc;

use bytes::Bytes;

use super::agree::Acceptor;
use super::group::{Cx, Group};
use super::interface::{Event, Role};
use super::message::{Ballot, Contact, Message, Refusal};
use crate::core::{Instant, Member, NodeId, View, ViewId};
use crate::detector::Health;

/// Nodes that are remembered, to ask them what became of the group: seeds, and members of views.
const KNOWN_MAX: usize = 256;
/// Nodes that may wait to be let in.
const JOINERS_MAX: usize = 256;

impl Group {
    pub(super) fn bootstrap(&mut self, cx: &mut Cx<'_>, address: Bytes) {
        if self.role != Role::Outside {
            return cx.count("group_already_in", 1);
        }
        self.me.address = address;
        self.begin(cx);
        self.role = Role::Member;
        let made_at = Ballot { round: 0, proposer: cx.node };
        self.install(cx, ViewId(0), made_at, vec![self.me.clone()]);
    }

    pub(super) fn join(&mut self, cx: &mut Cx<'_>, address: Bytes, seeds: Vec<NodeId>) {
        if self.role != Role::Outside {
            return cx.count("group_already_in", 1);
        }
        self.me.address = address;
        self.seeds = seeds;
        self.begin(cx);
        self.role = Role::Joining;
        self.ask_to_join(cx);
        self.repeat_soon(cx);
    }

    /// One more node to ask.
    pub(super) fn add_seed(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if !self.seeds.contains(&node) {
            self.seeds.push(node);
            self.tell(cx, node, Message::Join(self.me.clone()));
        }
    }

    pub(super) fn ask_to_join(&mut self, cx: &mut Cx<'_>) {
        for &seed in &self.seeds {
            if seed != cx.node {
                self.tell(cx, seed, Message::Join(self.me.clone()));
            }
        }
    }

    pub(super) fn receive_join(&mut self, cx: &mut Cx<'_>, from: NodeId, contact: Contact) {
        if !self.is_member() {
            return cx.count("group_join_elsewhere", 1);
        }
        let member = contact.member;
        if let Some(rank) = self.view.rank(member.node) {
            if self.view.members()[rank] == member {
                // It has missed that it is in.
                return self.tell_view(cx, member.node);
            }
            // An earlier run of the node is still in the view: the detector sees to it. If it is
            // well, two nodes have one id.
            if self.health(member.node) == Some(Health::Up) {
                self.probe_member(cx, member.node);
                let refusal = Refusal::IdInUse;
                return self.tell(cx, member.node, Message::Refused { refusal });
            }
        }
        let oldest = self.oldest();
        if oldest != self.me.member.node {
            // Passed on once: a member does not pass on what came from a member.
            if from == member.node || self.view.rank(from).is_none() {
                self.tell(cx, oldest, Message::Join(contact));
            }
            return;
        }
        let is_full = self.joiners.len() >= JOINERS_MAX
            || self.view.len() + self.joiners.len() >= cx.shared.members_max;
        if is_full && !self.joiners.contains_key(&member.node) {
            return self.tell(cx, member.node, Message::Refused { refusal: Refusal::Full });
        }
        if !contact.address.is_empty() {
            cx.outbox.contacts.push((member.node, contact.address.clone()));
        }
        if self.joiners.is_empty() {
            self.joins_at = cx.now + cx.shared.gather_joins;
        }
        self.joiners.insert(member.node, contact);
    }

    /// The oldest member that is not suspected and does not leave, or this one.
    fn oldest(&self) -> NodeId {
        let me = self.me.member.node;
        let nodes = self.view.members().iter().map(|member| member.node);
        let stays = |node: &NodeId| !self.leavers.contains(node);
        nodes.filter(stays).find(|&node| self.is_trusted(node)).unwrap_or(me)
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
                self.role = Role::Outside;
                cx.deliver(Event::Left);
            }
            Role::Outside | Role::Leaving => {}
        }
    }

    pub(super) fn ask_to_leave(&mut self, cx: &mut Cx<'_>) {
        let oldest = self.oldest();
        if oldest != cx.node {
            let (view, incarnation) = (self.view.id(), self.me.member.incarnation);
            self.tell(cx, oldest, Message::Leave { view, incarnation });
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
            _ => cx.count("group_leave_elsewhere", 1),
        }
    }

    /// Tells a member of the present view what it is.
    pub(super) fn tell_view(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        let message = Message::Install {
            after: ViewId(self.view.id().0 - 1),
            made_at: self.made_at,
            members: self.contacts.clone(),
        };
        self.tell(cx, node, message);
    }

    pub(super) fn receive_install(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        after: ViewId,
        made_at: Ballot,
        members: Vec<Contact>,
    ) {
        let view = ViewId(after.0.saturating_add(1));
        let me = self.me.member;
        let names_me = members.iter().any(|contact| contact.member == me);
        match self.role {
            Role::Outside => {}
            Role::Joining if names_me => {
                self.role = Role::Member;
                self.install(cx, after, made_at, members);
                self.tell(cx, from, Message::Installed { view });
            }
            Role::Joining => {}
            Role::Member | Role::Leaving if after == self.view.id() => {
                let accepted = self.acceptor.accepted.as_ref();
                let has_flushed = accepted.is_some_and(|(_, p)| p.made_at == made_at);
                if self.view.rank(from).is_none() && !names_me {
                    return cx.count("group_foreign_install", 1);
                }
                if has_flushed {
                    self.install(cx, after, made_at, members);
                    self.tell(cx, from, Message::Installed { view });
                } else {
                    // The others went on without what this member should have flushed.
                    self.exclude(cx);
                }
            }
            Role::Member | Role::Leaving if view == self.view.id() => {
                self.tell(cx, from, Message::Installed { view });
            }
            Role::Member | Role::Leaving if after > self.view.id() => {
                if names_me || self.view.rank(from).is_some() {
                    self.exclude(cx);
                }
            }
            Role::Member | Role::Leaving => cx.count("group_late_install", 1),
        }
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
        let view = Arc::new(View::new(id, members.iter().map(|contact| contact.member)));
        self.view = view.clone();
        self.contacts = members;
        self.made_at = made_at;
        self.acceptor = Acceptor::default();
        (self.proposer, self.installing) = (None, None);
        self.round = 0;
        self.change_since = None;
        self.has_primary = true;
        self.silent.clear();
        self.expelled.clear();
        let view_ref = &self.view;
        self.joiners.retain(|&node, joiner| {
            view_ref.rank(node).is_none_or(|rank| view_ref.members()[rank] != joiner.member)
        });
        for member in view.members() {
            if !self.seeds.contains(&member.node) {
                self.seeds.push(member.node);
            }
        }
        let surplus = self.seeds.len().saturating_sub(KNOWN_MAX);
        self.seeds.drain(..surplus);
        self.joins_at = if self.joiners.is_empty() { Instant::MAX } else { cx.now };
        self.leavers.retain(|&node| view_ref.rank(node).is_some());
        for contact in &self.contacts {
            if !contact.address.is_empty() {
                cx.outbox.contacts.push((contact.member.node, contact.address.clone()));
            }
        }
        cx.deliver(Event::View(view.clone()));
        self.watch_view(cx);
        self.with_chain(cx, |chain, cx| crate::core::Protocol::handle_view(chain, cx, &view));
        self.carry_direct(cx);
        self.replay_early(cx);
    }

    pub(super) fn receive_installed(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId) {
        let present = self.view.id();
        if let Some(installing) = self.installing.as_mut().filter(|it| it.view == view) {
            installing.waiting.remove(&from);
        }
        if view == present {
            // As here.
        } else if self.is_member() && view.0 + 1 == present.0 && self.view.rank(from).is_some() {
            self.tell_view(cx, from);
        } else if self.is_member() && view < present {
            self.tell_excluded(cx, from);
        }
    }

    pub(super) fn receive_excluded(&mut self, cx: &mut Cx<'_>, from: NodeId, view: ViewId) {
        if !self.is_member() {
            return;
        }
        let is_known = self.view.rank(from).is_some();
        if view > self.view.id() && (is_known || !self.has_primary) {
            self.exclude(cx);
        } else if view < self.view.id() && !is_known {
            // It is the other way round.
            self.tell_excluded(cx, from);
        }
    }

    /// The node has left.
    fn go_outside(&mut self, cx: &mut Cx<'_>) {
        self.role = Role::Outside;
        self.renew_chain(cx);
        self.give_up_direct(cx);
        (self.proposer, self.has_primary) = (None, false);
        cx.deliver(Event::Left);
    }

    /// The others went on without this member: it comes back as another.
    fn exclude(&mut self, cx: &mut Cx<'_>) {
        cx.count("group_excluded", 1);
        if self.role == Role::Leaving {
            return self.go_outside(cx);
        }
        self.give_up_direct(cx);
        cx.deliver(Event::Excluded);
        self.begin(cx);
        self.role = Role::Joining;
        self.ask_to_join(cx);
        self.repeat_soon(cx);
    }
}
