//! Groups, their members, and the flows of the members.

use std::sync::Arc;

use super::congestion::Sender;
use super::counters;
use super::flow::{Flow, Source};
use super::interface::{Event, RejectReason};
use super::{Cx, PacketId, Slingshot};
use crate::core::{GroupId, Instant, NodeId, View};

/// No flow.
pub(super) const NO_FLOW: u32 = u32::MAX;

/// A group of which this node may be a member.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: GroupId,
    /// As configured or set by a command; `None` for all members of the view.
    listed: Option<Arc<[NodeId]>>,
    /// Those of them that are in the view, sorted.
    pub(super) members: Vec<NodeId>,
    /// By place of the member.
    pub(super) flows: Vec<u32>,
    /// This node is one of them.
    pub(super) is_joined: bool,
    /// The number of this node's next packet.
    pub(super) seq: u64,
    pub(super) beat: Beat,
    /// With `rate_control = "tfmcc"`, once this node has sent to others.
    pub(super) congestion: Option<Box<Sender>>,
}

/// The heartbeat timer of a silent sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Beat {
    pub(super) due: Instant,
    /// How often since the last packet.
    pub(super) times: u32,
    pub(super) is_queued: bool,
}

impl Group {
    fn new(id: GroupId, listed: Option<Arc<[NodeId]>>) -> Group {
        Group {
            id,
            listed,
            members: Vec::new(),
            flows: Vec::new(),
            is_joined: false,
            seq: 0,
            beat: Beat::default(),
            congestion: None,
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.members.capacity() * size_of::<NodeId>()
            + self.flows.capacity() * size_of::<u32>()
            + self.congestion.as_ref().map_or(0, |sender| sender.heap_bytes())
    }

    /// The place of a member.
    pub(super) fn place(&self, node: NodeId) -> Option<usize> {
        self.members.binary_search(&node).ok()
    }
}

impl Slingshot {
    /// The place of a group.
    pub(super) fn group_place(&self, group: GroupId) -> Option<usize> {
        self.groups.binary_search_by_key(&group, |known| known.id).ok()
    }

    /// Takes the configured groups.
    pub(super) fn set_up_groups(&mut self, cx: &mut Cx<'_>) {
        self.groups = cx
            .shared
            .groups
            .iter()
            .map(|(group, listed)| Group::new(*group, listed.clone()))
            .collect();
        self.groups.sort_by_key(|group| group.id);
    }

    /// Works with this view from now on.
    pub(super) fn enter_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        self.previous = (view.id() != self.view.id()).then(|| self.view.clone());
        self.view = view.clone();
        if view.len() > super::config::MEMBERS_MAX {
            cx.count(counters::VIEW_TOO_LARGE, 1);
        }
        for place in 0..self.groups.len() {
            self.regroup(cx, place);
        }
    }

    /// Sets the members of a group.
    pub(super) fn set_members(&mut self, cx: &mut Cx<'_>, group: GroupId, members: &Arc<[NodeId]>) {
        let reject = |cx: &mut Cx<'_>, reason| {
            cx.count(counters::REJECTED, 1);
            cx.deliver(Event::Rejected { ticket: 0, reason });
        };
        let found = self.groups.binary_search_by_key(&group, |known| known.id);
        let place = match found {
            Ok(place) => place,
            Err(_) if members.is_empty() => return,
            Err(_) if self.groups.len() >= cx.shared.groups_max => {
                let groups_max = cx.shared.groups_max;
                return reject(cx, RejectReason::TooManyGroups { groups_max });
            }
            Err(_) if !self.groups.is_empty() && !cx.shared.has_overlap => {
                return reject(cx, RejectReason::NoOverlap);
            }
            Err(place) => {
                let mut new = Group::new(group, None);
                // Numbering continues after the packets that were sent before the group was
                // removed.
                let own = self.parted.of(group, cx.node);
                new.seq = own.filter(|own| own.0 == cx.incarnation).map_or(0, |own| own.1);
                self.groups.insert(place, new);
                place
            }
        };
        self.groups[place].listed = Some(members.clone());
        self.regroup(cx, place);
        if members.is_empty() {
            self.groups.remove(place);
        }
    }

    /// Determines which members of a group are in the view. Ends the flows of members that left it
    /// or are in another incarnation.
    fn regroup(&mut self, cx: &mut Cx<'_>, place: usize) {
        self.bins.is_stale = true;
        let view = self.view.clone();
        let is_too_large = view.len() > super::config::MEMBERS_MAX;
        let group = &mut self.groups[place];
        let mut members: Vec<NodeId> = match &group.listed {
            _ if is_too_large => Vec::new(),
            None => view.members().iter().map(|member| member.node).collect(),
            Some(listed) => {
                listed.iter().copied().filter(|&node| view.rank(node).is_some()).collect()
            }
        };
        members.sort_unstable();
        members.dedup();
        let old = std::mem::take(&mut group.flows).into_iter();
        let old: Vec<(NodeId, u32)> = group.members.drain(..).zip(old).collect();
        let mut flows = vec![NO_FLOW; members.len()];
        let mut ended = Vec::new();
        for (node, flow) in old.into_iter().filter(|&(_, flow)| flow != NO_FLOW) {
            let known = self.flows[flow as usize].source.incarnation;
            let in_view = view.rank(node).map_or(0, |rank| view.members()[rank].incarnation);
            // A node's own flow has its own incarnation, even if the view names another.
            let is_same =
                node == cx.node || in_view == 0 || known.is_none_or(|known| known == in_view);
            match members.binary_search(&node) {
                Ok(member) if is_same => flows[member] = flow,
                _ => ended.push(flow),
            }
        }
        if let Some(sender) = &mut group.congestion {
            sender.retain(&members);
        }
        let was_joined = group.is_joined;
        group.is_joined = members.binary_search(&cx.node).is_ok();
        group.members = members;
        group.flows = flows;
        match (was_joined, group.is_joined) {
            (false, true) => cx.join_group(group.id),
            (true, false) => cx.leave_group(group.id),
            _ => {}
        }
        let has_left = was_joined && !group.is_joined;
        if has_left {
            group.congestion = None;
        }
        if !group.is_joined {
            ended.extend(group.flows.iter_mut().map(|flow| std::mem::replace(flow, NO_FLOW)));
            ended.retain(|&flow| flow != NO_FLOW);
        }
        if has_left {
            let is_own = |at: &u32| self.flows[*at as usize].source.sender == cx.node;
            let own = ended.iter().copied().find(is_own);
            self.stop_sending(cx, place, own);
        }
        for at in ended {
            let flow = &self.flows[at as usize];
            if let Some(end) = flow.end() {
                self.parted.note(&flow.source, end, cx.shared.flows_max);
            }
            self.end_flow(cx, at);
        }
    }

    /// The flow of a member that sends under this incarnation, if given. `None`, and counted, if
    /// the incarnation is not the member's, or there are too many flows.
    pub(super) fn flow_of(
        &mut self,
        cx: &mut Cx<'_>,
        group: usize,
        member: usize,
        incarnation: Option<u64>,
    ) -> Option<u32> {
        let sender = self.groups[group].members[member];
        let in_view =
            self.view.rank(sender).map_or(0, |rank| self.view.members()[rank].incarnation);
        let in_view = (in_view != 0 && sender != cx.node).then_some(in_view);
        if in_view.is_some() && incarnation.is_some() && incarnation != in_view {
            cx.count(counters::OTHER_INCARNATION, 1);
            return None;
        }
        let incarnation = incarnation.or(in_view);
        let flow = self.groups[group].flows[member];
        if flow != NO_FLOW {
            let known = &mut self.flows[flow as usize].source.incarnation;
            match (*known, incarnation) {
                (Some(known), Some(new)) if known != new => self.end_flow(cx, flow),
                (None, Some(new)) => {
                    *known = Some(new);
                    self.recovered
                        .extend(self.unverified.extract_if(.., |(id, _)| id.flow == flow));
                    return Some(flow);
                }
                _ => return Some(flow),
            }
        }
        if self.flows.len() - self.free_flows.len() >= cx.shared.flows_max {
            cx.count(counters::FLOWS_FULL, 1);
            return None;
        }
        // A sender that returns counts as the same incarnation until it announces another one.
        let id = self.groups[group].id;
        let parted = self.parted.of(id, sender);
        let incarnation = incarnation.or(parted.map(|(known, _)| known));
        let floor =
            parted.filter(|&(known, _)| incarnation == Some(known)).map_or(0, |(_, end)| end);
        let source = Source { group: id, sender, incarnation };
        let flow = match self.free_flows.pop() {
            Some(flow) => {
                let old = &mut self.flows[flow as usize];
                *old = Flow::from(source, old.generation + 1, floor);
                flow
            }
            None => {
                self.flows.push(Flow::from(source, 0, floor));
                self.flows.len() as u32 - 1
            }
        };
        self.groups[group].flows[member] = flow;
        Some(flow)
    }

    /// No more packets of a sender will come: its missing packets are lost.
    fn end_flow(&mut self, cx: &mut Cx<'_>, at: u32) {
        let flow = &mut self.flows[at as usize];
        let decoder = &mut self.decoder;
        flow.lose_before(cx, &mut self.ledger, u64::MAX, |seq, checksum| {
            decoder.forget(PacketId { flow: at, checksum, seq });
        });
        flow.clear(&mut self.ledger);
        self.unverified.retain(|(id, _)| id.flow != at);
        flow.generation += 1;
        self.free_flows.push(at);
    }
}
