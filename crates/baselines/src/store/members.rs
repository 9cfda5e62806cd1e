//! The members of groups, and the commands that do not depend on the repair method.

use std::sync::Arc;

use paceline_proto::core::{Context, GroupId, NodeId, Protocol, View, ViewId};
use paceline_proto::slingshot::{Command, Config, Data, Event, MEMBERS_MAX, RejectReason};

use super::{Group, Store, sorted};

impl Store {
    /// Groups of which this node is a member, each with the number of its next packet.
    pub(crate) fn joined(&self) -> impl Iterator<Item = (GroupId, u64)> + '_ {
        let joined = self.groups.iter().filter(|(_, group)| group.is_joined);
        joined.map(|(&id, group)| (id, group.seq))
    }

    /// The members of a group that are in the view, without this node, sorted.
    pub(crate) fn others(&self, group: GroupId, own: NodeId) -> Vec<NodeId> {
        let members = self.view.members().iter().map(|member| member.node);
        let mut others: Vec<NodeId> =
            members.filter(|&node| node != own && self.is_member(group, node)).collect();
        others.sort_unstable();
        others
    }

    /// True if this node is in the group and the other one too; else counted.
    pub(crate) fn admits<P: Protocol>(
        &self,
        cx: &mut Context<'_, P>,
        group: GroupId,
        node: NodeId,
    ) -> bool {
        if !self.groups.get(&group).is_some_and(|group| group.is_joined) {
            cx.count(self.counts.foreign_group, 1);
            return false;
        }
        let is_member = self.is_member(group, node);
        if !is_member {
            cx.count(self.counts.foreign_sender, 1);
        }
        is_member
    }

    /// False, and counted, if nothing of this node may be listened to.
    pub(crate) fn knows<P: Protocol>(&self, cx: &mut Context<'_, P>, from: NodeId) -> bool {
        if from == cx.node {
            cx.count(self.counts.own_echo, 1);
        } else if self.view.rank(from).is_none() {
            cx.count(self.counts.foreign_sender, 1);
        } else {
            return true;
        }
        false
    }

    pub(super) fn is_member(&self, group: GroupId, node: NodeId) -> bool {
        let listed = self.groups.get(&group).map(|group| &group.listed);
        let is_listed = listed.is_some_and(|listed| {
            listed.as_ref().is_none_or(|listed| listed.binary_search(&node).is_ok())
        });
        is_listed && self.view.len() <= MEMBERS_MAX && self.view.rank(node).is_some()
    }

    /// Works with the configured roster until a view is installed.
    pub(crate) fn start<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>) {
        let roster = self.view.clone();
        self.enter_view(cx, &roster);
    }

    /// Works with this view from now on. False, and counted, if it is older than the present one.
    pub(crate) fn enter_view<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        view: &Arc<View>,
    ) {
        if view.id() < self.view.id() {
            return cx.count(self.counts.stale_view, 1);
        }
        if view.len() > MEMBERS_MAX {
            cx.count(self.counts.view_too_large, 1);
        }
        if view.id() != self.view.id() {
            self.previous = Some(std::mem::replace(&mut self.view, view.clone()));
        }
        let groups: Vec<GroupId> = self.groups.keys().copied().collect();
        for group in groups {
            self.regroup(cx, group);
        }
    }

    /// Handles the commands of Slingshot that do not concern its repairs. Returns the packet to
    /// send.
    pub(crate) fn command<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        payload_bytes_max: usize,
        command: Command,
    ) -> Option<Data> {
        match command {
            Command::Multicast { group, payload, ticket } => {
                match self.multicast(cx, config, group, payload, payload_bytes_max) {
                    Ok(data) => {
                        if ticket != 0 {
                            cx.deliver(Event::Sent { ticket, seq: data.seq });
                        }
                        return Some(data);
                    }
                    Err(reason) => self.reject(cx, ticket, reason),
                }
            }
            Command::Members { group, members } => self.set_members(cx, config, group, &members),
            // There are no repairs to be sent at a rate.
            Command::SetRate(rate) => {
                self.reject(cx, 0, RejectReason::RateTooLarge { r: rate.r, r_max: 0 });
            }
            Command::Consumed { events } => self.ledger.consumed(cx, events),
        }
        None
    }

    pub(super) fn reject<P: Protocol<Event = Event>>(
        &self,
        cx: &mut Context<'_, P>,
        ticket: u64,
        reason: RejectReason,
    ) {
        cx.count(self.counts.rejected, 1);
        cx.deliver(Event::Rejected { ticket, reason });
    }

    fn set_members<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        id: GroupId,
        members: &[NodeId],
    ) {
        let is_known = self.groups.contains_key(&id);
        if !is_known && members.is_empty() {
            return;
        }
        let groups_max = config.groups_max();
        if !is_known && self.groups.len() >= groups_max {
            return self.reject(cx, 0, RejectReason::TooManyGroups { groups_max });
        }
        let group = Group { listed: None, is_joined: false, seq: 0 };
        self.groups.entry(id).or_insert(group).listed = Some(sorted(members));
        self.regroup(cx, id);
        if members.is_empty() {
            self.groups.remove(&id);
        }
    }

    /// Determines which members of a group are in the view. Ends the flows of members that left it
    /// or are in another incarnation.
    fn regroup<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>, id: GroupId) {
        let is_joined = self.is_member(id, cx.node);
        let group = self.groups.get_mut(&id).expect("the caller knows it");
        match (group.is_joined, is_joined) {
            (false, true) => cx.join_group(id),
            (true, false) => cx.leave_group(id),
            _ => {}
        }
        group.is_joined = is_joined;
        let of_group = self.flows.range((id, NodeId(0))..=(id, NodeId(u64::MAX)));
        let ended = of_group.filter(|((_, sender), flow)| {
            let known = flow.source.incarnation;
            let in_view = self.incarnation_in_view(*sender);
            // A node's own flow has its own incarnation, even if the view names another.
            let is_same = *sender == cx.node
                || in_view.is_none_or(|in_view| known.is_none_or(|known| known == in_view));
            !(is_joined && is_same && self.is_member(id, *sender))
        });
        let ended: Vec<NodeId> = ended.map(|((_, sender), _)| *sender).collect();
        for sender in ended {
            self.end_flow(cx, id, sender);
        }
    }

    pub(super) fn incarnation_in_view(&self, sender: NodeId) -> Option<u64> {
        let rank = self.view.rank(sender)?;
        Some(self.view.members()[rank].incarnation).filter(|&incarnation| incarnation != 0)
    }

    /// The view under whose ranks a message names packets; else counted.
    pub(crate) fn view_named<P: Protocol>(
        &self,
        cx: &mut Context<'_, P>,
        id: ViewId,
    ) -> Option<Arc<View>> {
        let views = [Some(&self.view), self.previous.as_ref()];
        let view = views.into_iter().flatten().find(|view| view.id() == id).cloned();
        if view.is_none() {
            cx.count(self.counts.foreign_view, 1);
        }
        view
    }
}
