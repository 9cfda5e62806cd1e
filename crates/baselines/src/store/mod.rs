//! Groups, senders and packets: the state that all methods of repair share.

mod counters;
mod members;
mod overdue;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use paceline_proto::core::{Context, CounterId, GroupId, Instant, NodeId, Payload, Protocol, View};
use paceline_proto::slingshot::counters::LedgerCounts;
use paceline_proto::slingshot::flow::{Flow, Held, Missing, Slot, Source, Way};
use paceline_proto::slingshot::ledger::Ledger;
use paceline_proto::slingshot::{
    Config, Data, Event, Framing, Name, RejectReason, Supply, checksum,
};

pub(super) use counters::with_store;
pub(super) use overdue::Overdue;

/// Maximum number of packets that are evicted at a time.
const EVICTED_AT_ONCE: usize = 64;

/// A packet: its group, its sender, its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub(super) group: GroupId,
    pub(super) sender: NodeId,
    pub(super) seq: u64,
}

/// A protocol's counters of what its members got and sent.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) ledger: &'static LedgerCounts,
    pub(super) sent: CounterId,
    pub(super) rejected: CounterId,
    pub(super) too_old: CounterId,
    pub(super) too_far: CounterId,
    pub(super) unneeded: CounterId,
    pub(super) evicted_early: CounterId,
    pub(super) flows_full: CounterId,
    pub(super) own_echo: CounterId,
    pub(super) foreign_sender: CounterId,
    pub(super) foreign_group: CounterId,
    pub(super) foreign_view: CounterId,
    pub(super) stale_view: CounterId,
    pub(super) view_too_large: CounterId,
    pub(super) other_incarnation: CounterId,
    pub(super) unknown_name: CounterId,
    pub(super) name_mismatch: CounterId,
    pub(super) name_not_sent: CounterId,
    pub(super) name_too_old: CounterId,
    pub(super) name_too_far: CounterId,
    pub(super) duplicate: CounterId,
    pub(super) after_lost: CounterId,
}

/// An entry of the list of all kept packets.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Instant,
    key: Key,
    generation: u32,
}

/// A group of which this node may be a member.
#[derive(Debug)]
struct Group {
    /// Sorted; `None` for all members of the view.
    listed: Option<Arc<[NodeId]>>,
    /// This node is one of them.
    is_joined: bool,
    /// The number of this node's next packet.
    seq: u64,
}

/// What a member keeps.
#[derive(Debug)]
pub(super) struct Store {
    view: Arc<View>,
    /// The view before, whose ranks messages under way may use.
    previous: Option<Arc<View>>,
    groups: BTreeMap<GroupId, Group>,
    flows: BTreeMap<(GroupId, NodeId), Flow>,
    /// In the order of arrival; some have been dropped already.
    kept: VecDeque<Kept>,
    ledger: Ledger,
    generation: u32,
    /// Packets that were found missing since this was last emptied, in the order of their names.
    pub(super) missed: Vec<Key>,
    pub(super) counts: &'static Counts,
}

impl Store {
    pub(super) fn new(config: &Config, counts: &'static Counts) -> Store {
        let group = |(id, listed): &(GroupId, Option<Arc<[NodeId]>>)| {
            let listed = listed.as_deref().map(sorted);
            (*id, Group { listed, is_joined: false, seq: 0 })
        };
        Store {
            view: config.roster().clone(),
            previous: None,
            groups: config.groups().iter().map(group).collect(),
            flows: BTreeMap::new(),
            kept: VecDeque::new(),
            ledger: Ledger::new(config, counts.ledger),
            generation: 0,
            missed: Vec::new(),
            counts,
        }
    }

    pub(super) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// Missing packets: known to exist, not held, and not given up.
    pub(super) fn packets_missing(&self) -> usize {
        self.ledger.packets_missing()
    }

    /// Packets that are kept, and their bytes.
    pub(super) fn packets_held(&self) -> (usize, usize) {
        self.ledger.packets_held()
    }

    fn multicast<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        id: GroupId,
        payload: Payload,
        bytes_max: usize,
    ) -> Result<Data, RejectReason> {
        let group = self.groups.get_mut(&id).ok_or(RejectReason::UnknownGroup(id))?;
        if !group.is_joined {
            return Err(RejectReason::NotAMember(id));
        }
        let bytes = payload.len();
        if bytes > bytes_max {
            return Err(RejectReason::TooLarge { bytes, bytes_max });
        }
        let (incarnation, seq) = (cx.incarnation, group.seq);
        group.seq += 1;
        cx.count(self.counts.sent, 1);
        let checksum = checksum(id, incarnation, seq, &payload);
        let framing = Framing::Whole;
        let data =
            Data { group: id, incarnation, seq, framing, checksum, payload: payload.clone() };
        let key = Key { group: id, sender: cx.node, seq };
        // A member looks after its own packets even where it has no room for others'.
        let generation = &mut self.generation;
        let flow = self.flows.entry((id, cx.node)).or_insert_with(|| {
            *generation = generation.wrapping_add(1);
            let source = Source { group: id, sender: cx.node, incarnation: Some(incarnation) };
            Flow::new(source, *generation)
        });
        let (fragment, now) = (None, cx.now);
        let way = Way::Direct;
        let held = Held { payload, checksum, fragment, since: now, noted: now, arrived: now, way };
        flow.keep_own(&mut self.ledger, held, config.window_packets() as u64);
        let generation = flow.generation;
        self.keep(cx, config, Kept { at: cx.now, key, generation });
        Ok(data)
    }

    /// The flow of a member that sends under this incarnation, if given. `None`, and counted, if
    /// the incarnation is not the member's, or there are too many flows.
    fn flow<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        (group, sender): (GroupId, NodeId),
        incarnation: Option<u64>,
    ) -> Option<&mut Flow> {
        let in_view = self.incarnation_in_view(sender).filter(|_| sender != cx.node);
        if in_view.is_some() && incarnation.is_some() && incarnation != in_view {
            cx.count(self.counts.other_incarnation, 1);
            return None;
        }
        let incarnation = incarnation.or(in_view);
        let known = self.flows.get(&(group, sender)).map(|flow| flow.source.incarnation);
        if let (Some(Some(known)), Some(new)) = (known, incarnation)
            && known != new
        {
            self.end_flow(cx, group, sender);
        }
        if !self.flows.contains_key(&(group, sender)) && self.flows.len() >= config.flows_max() {
            cx.count(self.counts.flows_full, 1);
            return None;
        }
        let generation = &mut self.generation;
        let flow = self.flows.entry((group, sender)).or_insert_with(|| {
            *generation = generation.wrapping_add(1);
            Flow::new(Source { group, sender, incarnation }, *generation)
        });
        flow.source.incarnation = flow.source.incarnation.or(incarnation);
        Some(flow)
    }

    /// No more packets of a sender will come: its missing packets are lost.
    fn end_flow<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        group: GroupId,
        sender: NodeId,
    ) {
        if let Some(mut flow) = self.flows.remove(&(group, sender)) {
            flow.lose_before(cx, &mut self.ledger, u64::MAX, |_, _| ());
            flow.clear(&mut self.ledger);
        }
    }

    /// The packet that a name of a member stands for; else counted.
    pub(super) fn find<P: Protocol>(
        &self,
        cx: &mut Context<'_, P>,
        config: &Config,
        view: &View,
        name: Name,
    ) -> Option<Key> {
        let found = self.find_named(cx.node, config, view, name);
        found.map_err(|counter| cx.count(counter, 1)).ok()
    }

    fn find_named(
        &self,
        own: NodeId,
        config: &Config,
        view: &View,
        name: Name,
    ) -> Result<Key, CounterId> {
        let Name { group, .. } = name;
        let is_joined = self.groups.get(&group).is_some_and(|group| group.is_joined);
        let member = view.members().get(usize::from(name.rank)).filter(|_| is_joined);
        let sender = member.ok_or(self.counts.unknown_name)?.node;
        if !self.is_member(group, sender) {
            return Err(self.counts.unknown_name);
        }
        let is_own = sender == own;
        let Some(flow) = self.flows.get(&(group, sender)) else {
            let key = Key { group, sender, seq: name.seq.into() };
            return if is_own { Err(self.counts.name_not_sent) } else { Ok(key) };
        };
        let seq = flow.expand(name.seq);
        match flow.slot(seq) {
            Some(Slot::Held(held)) if name.checksum != 0 && held.checksum != name.checksum => {
                Err(self.counts.name_mismatch)
            }
            Some(Slot::Past | Slot::Lost) => Err(self.counts.name_too_old),
            None if is_own => Err(self.counts.name_not_sent),
            None if flow.has_begun() && seq < flow.base() => Err(self.counts.name_too_old),
            None if flow.has_begun() && seq - flow.next() >= config.window_packets() as u64 => {
                Err(self.counts.name_too_far)
            }
            _ => Ok(Key { group, sender, seq }),
        }
    }

    /// This packet exists. If it is not held, it and those before it are missing.
    pub(super) fn exists<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        key: Key,
        incarnation: Option<u64>,
    ) {
        if let Some(flow) = self.flow(cx, config, (key.group, key.sender), incarnation) {
            flow.begin(key.seq);
            self.reach(cx, config, key, key.seq + 1);
        }
    }

    /// Another member has sent all packets below `next`.
    pub(super) fn has_sent<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        (group, sender): (GroupId, NodeId),
        incarnation: Option<u64>,
        next: u64,
    ) {
        if let Some(flow) = self.flow(cx, config, (group, sender), incarnation) {
            flow.begin(next);
            self.reach(cx, config, Key { group, sender, seq: next }, next);
        }
    }

    /// All packets of a flow below `end` exist: those not held are missing.
    fn reach<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        key: Key,
        end: u64,
    ) {
        let window = config.window_packets() as u64;
        let Some(flow) = self.flows.get_mut(&(key.group, key.sender)) else { return };
        let first = flow.next().max(end.saturating_sub(window));
        // As in the published protocols, a claim about the packets of another member is believed.
        flow.confirm(end);
        flow.reach(cx, &mut self.ledger, end, window, config.missing_max());
        let missing = (first..end).filter(|&seq| flow.missing(seq).is_some());
        self.missed.extend(missing.map(|seq| Key { seq, ..key }));
    }

    /// Takes a packet. False, and counted, if it is no longer needed.
    pub(super) fn accept<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        sender: NodeId,
        data: Data,
        way: Way,
    ) -> bool {
        let Data { group, incarnation, seq, checksum, payload, .. } = data;
        let key = Key { group, sender, seq };
        let Some(flow) = self.flow(cx, config, (group, sender), Some(incarnation)) else {
            return false;
        };
        flow.begin(seq);
        self.reach(cx, config, key, seq);
        let flow = self.flows.get_mut(&(group, sender)).expect("it was there above");
        if seq == flow.next() {
            // Makes room for it.
            flow.reach_to_hold(cx, &mut self.ledger, seq, config.window_packets() as u64);
        }
        let mut since = cx.now;
        let refused = match flow.slot(seq) {
            Some(Slot::Held(_) | Slot::Past) => Some(self.counts.duplicate),
            Some(Slot::Lost) => Some(self.counts.after_lost),
            None if seq < flow.base() => Some(self.counts.too_old),
            Some(Slot::Missing(missing)) => {
                since = missing.since;
                None
            }
            Some(Slot::Doubtful) | None => None,
        };
        if let Some(counter) = refused {
            cx.count(counter, 1);
            return false;
        }
        let fragment = None;
        let held = Held { payload, checksum, fragment, since, noted: since, arrived: cx.now, way };
        flow.confirm(seq + 1);
        flow.fill(cx, &mut self.ledger, seq, held);
        let generation = flow.generation;
        self.keep(cx, config, Kept { at: cx.now, key, generation });
        true
    }

    /// Takes a packet that came from another than its sender, if it is missing.
    pub(super) fn accept_pulled<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        sender: NodeId,
        data: Data,
    ) -> bool {
        let (key, flow) = ((data.group, sender), (data.group, sender));
        let flow = self.flows.get(&flow);
        if flow.is_some_and(|flow| flow.source.incarnation.is_some_and(|i| i != data.incarnation)) {
            // Only the sender itself can announce a new incarnation.
            cx.count(self.counts.other_incarnation, 1);
            return false;
        }
        let window = config.window_packets() as u64;
        match flow.filter(|flow| flow.has_begun()) {
            Some(flow) if flow.missing(data.seq).is_some() => {}
            // A packet of which this member had not known.
            Some(flow) if data.seq >= flow.next() && data.seq - flow.next() < window => {}
            None if key.1 != cx.node => {}
            Some(flow) if data.seq >= flow.next() => {
                cx.count(self.counts.too_far, 1);
                return false;
            }
            _ => {
                cx.count(self.counts.unneeded, 1);
                return false;
            }
        }
        self.accept(cx, config, sender, data, Way::Pulled)
    }

    /// The packet, if it is held, under its sender's rank in the present view.
    pub(super) fn held(&self, key: Key) -> Option<(u16, Data)> {
        let Key { group, sender, seq } = key;
        let flow = self.flows.get(&(group, sender))?;
        let Some(Slot::Held(held)) = flow.slot(seq) else { return None };
        let incarnation = flow.source.incarnation?;
        let Held { payload, checksum, .. } = held;
        let (payload, checksum) = (payload.clone(), *checksum);
        let framing = Framing::Whole;
        let data = Data { group, incarnation, seq, framing, checksum, payload };
        Some((self.view.rank(sender)? as u16, data))
    }

    /// The packet that a member requests by a name in this view, if this member has it. Else counts
    /// the request, as `unknown` if no such packet is kept.
    pub(super) fn asked<P: Protocol>(
        &self,
        cx: &mut Context<'_, P>,
        config: &Config,
        (from, view): (NodeId, &View),
        name: Name,
        unknown: CounterId,
    ) -> Option<(Key, Supply)> {
        let key = self.find(cx, config, view, name)?;
        if !self.admits(cx, key.group, from) {
            return None;
        }
        let held = self.held(key);
        if held.is_none() {
            cx.count(unknown, 1);
        }
        let (rank, data) = held?;
        Some((key, Supply { view: self.view.id(), rank, data }))
    }

    /// The sender of a packet that a member supplies, if both are in its group; else counted.
    pub(super) fn sender_supplied<P: Protocol>(
        &self,
        cx: &mut Context<'_, P>,
        from: NodeId,
        supply: &Supply,
    ) -> Option<NodeId> {
        let view = self.view_named(cx, supply.view)?;
        let Some(member) = view.members().get(usize::from(supply.rank)) else {
            cx.count(self.counts.unknown_name, 1);
            return None;
        };
        let group = supply.data.group;
        let is_admitted = self.admits(cx, group, from) && self.admits(cx, group, member.node);
        is_admitted.then_some(member.node)
    }

    /// The number of the first packet of the same sender that is still tracked.
    pub(super) fn first(&self, key: Key) -> u64 {
        self.flows.get(&(key.group, key.sender)).map_or(u64::MAX, Flow::base)
    }

    /// The flows of all senders to a group.
    pub(super) fn flows(&self, group: GroupId) -> impl Iterator<Item = (NodeId, &Flow)> {
        let flows = self.flows.range((group, NodeId(0))..=(group, NodeId(u64::MAX)));
        flows.map(|(&(_, sender), flow)| (sender, flow))
    }

    /// The packet's name in the present view, if its sender is in it.
    pub(super) fn name(&self, key: Key) -> Option<Name> {
        let rank = self.view.rank(key.sender)? as u16;
        Some(Name { group: key.group, rank, seq: key.seq as u32, checksum: 0 })
    }

    pub(super) fn missing(&self, key: Key) -> Option<&Missing> {
        self.flows.get(&(key.group, key.sender))?.missing(key.seq)
    }

    pub(super) fn missing_mut(&mut self, key: Key) -> Option<&mut Missing> {
        self.flows.get_mut(&(key.group, key.sender))?.missing_mut(key.seq)
    }

    /// The sender's incarnation, and the number after its last packet that is known of.
    pub(super) fn progress(&self, group: GroupId, sender: NodeId) -> Option<(u64, u64)> {
        let flow = self.flows.get(&(group, sender)).filter(|flow| flow.has_begun())?;
        Some((flow.source.incarnation?, flow.next()))
    }

    /// Gives a missing packet up.
    pub(super) fn abandon<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        key: Key,
    ) {
        if let Some(flow) = self.flows.get_mut(&(key.group, key.sender)) {
            flow.abandon(cx, &mut self.ledger, key.seq);
        }
    }

    /// Reports noted losses. Every handler ends with this.
    pub(super) fn flush<P: Protocol<Event = Event>>(&mut self, cx: &mut Context<'_, P>) {
        self.ledger.flush(cx);
    }

    /// Keeps a packet, and lets go of the oldest if there are too many, or they are too old.
    fn keep<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
        kept: Kept,
    ) {
        self.kept.push_back(kept);
        for _ in 0..EVICTED_AT_ONCE {
            if !self.evict(cx, config) {
                return;
            }
        }
    }

    /// Lets go of all packets that are too old.
    pub(super) fn expire<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
    ) {
        while self.evict(cx, config) {}
    }

    /// Lets go of the oldest packet if there are too many, or it is too old. False if it stays.
    fn evict<P: Protocol<Event = Event>>(
        &mut self,
        cx: &mut Context<'_, P>,
        config: &Config,
    ) -> bool {
        let Some(&Kept { at, key, generation }) = self.kept.front() else { return false };
        let is_full = self.kept.len() > config.packets_max()
            || self.ledger.packets_held().1 > config.bytes_max();
        if !is_full && cx.now.since(at) < config.keep() {
            return false;
        }
        self.kept.pop_front();
        let flow = self.flows.get_mut(&(key.group, key.sender));
        if let Some(flow) = flow.filter(|flow| flow.generation == generation) {
            if is_full && matches!(flow.slot(key.seq), Some(Slot::Held(_))) {
                cx.count(self.counts.evicted_early, 1);
            }
            flow.evict(cx, &mut self.ledger, key.seq);
        }
        true
    }
}

fn sorted(nodes: &[NodeId]) -> Arc<[NodeId]> {
    let mut nodes = nodes.to_vec();
    nodes.sort_unstable();
    nodes.into()
}
