use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use paceline_proto::core::{Context, GroupId, Instant, Lane, NodeId, Protocol, View};
use paceline_proto::parts::deadline::Deadline;
use paceline_proto::parts::token_bucket::TokenBucket;
use paceline_proto::slingshot::flow::Way;
use paceline_proto::slingshot::{Command, Data, Event, allowance};

use super::config::Config;
use super::counters;
use super::message::Message;
use crate::store::{Key, Overdue, Store};

type Cx<'a> = Context<'a, Ack>;

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Packets of this member have waited for acknowledgements for the retransmission timeout.
    Resend,
    /// Packets of others have been missing for as long as they are waited for.
    GiveUp,
}

/// A packet of this member that is not acknowledged by all.
#[derive(Debug)]
struct Pending {
    /// The members whose acknowledgement has not come, sorted.
    unacknowledged: Vec<NodeId>,
    due: Instant,
    resends: u8,
}

/// A member of groups in which every packet is acknowledged by every receiver.
#[derive(Debug)]
pub struct Ack {
    store: Store,
    pending: BTreeMap<(GroupId, u64), Pending>,
    /// The same by when they are due.
    due: BTreeSet<(Instant, GroupId, u64)>,
    overdue: Overdue,
    allowance: TokenBucket,
    resend: Deadline,
}

impl Ack {
    /// A member of the configured groups.
    pub fn new(config: &Config) -> Ack {
        Ack {
            store: Store::new(&config.base, &counters::STORE),
            pending: BTreeMap::new(),
            due: BTreeSet::new(),
            overdue: Overdue::default(),
            allowance: allowance(config.resends_per_second),
            resend: Deadline::UNARMED,
        }
    }

    /// Missing packets: known to exist, not held, and not given up.
    pub fn packets_missing(&self) -> usize {
        self.store.packets_missing()
    }

    /// Packets of this member that some member has not acknowledged.
    pub fn packets_pending(&self) -> usize {
        self.pending.len()
    }

    fn send(&mut self, cx: &mut Cx<'_>, data: Data) {
        let (group, seq) = (data.group, data.seq);
        let others = self.store.others(group, cx.node);
        cx.send_group(group, Message::Data(data));
        if others.is_empty() {
            return;
        }
        while self.pending.len() >= cx.shared.pending_max {
            let Some((_, group, seq)) = self.due.pop_first() else { break };
            self.pending.remove(&(group, seq));
            cx.count(counters::PENDING_FULL, 1);
        }
        let due = cx.now + cx.shared.retry_after;
        let pending = Pending { unacknowledged: others, due, resends: 0 };
        self.pending.insert((group, seq), pending);
        self.due.insert((due, group, seq));
    }

    /// A packet from its sender, for the first time or again. It is acknowledged also if it is not
    /// needed: the acknowledgement before may be lost.
    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, data: Data, way: Way) {
        if !self.store.admits(cx, data.group, from) {
            return;
        }
        let Data { group, incarnation, seq, .. } = data;
        let config = cx.shared;
        self.store.accept(cx, &config.base, from, data, way);
        cx.count(counters::ACKS, 1);
        cx.send(from, Lane::Datagram, Message::Ack { group, incarnation, seq });
    }

    fn receive_ack(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        group: GroupId,
        incarnation: u64,
        seq: u64,
    ) {
        if !self.store.admits(cx, group, from) {
            return;
        }
        if incarnation != cx.incarnation {
            return cx.count(counters::OTHER_INCARNATION, 1);
        }
        let Some(pending) = self.pending.get_mut(&(group, seq)) else {
            return cx.count(counters::UNNEEDED, 1);
        };
        if let Ok(place) = pending.unacknowledged.binary_search(&from) {
            pending.unacknowledged.remove(place);
        }
        if pending.unacknowledged.is_empty() {
            self.due.remove(&(pending.due, group, seq));
            self.pending.remove(&(group, seq));
        }
    }

    /// Sends packets again to the members that have not acknowledged them.
    fn resend_timer(&mut self, cx: &mut Cx<'_>) {
        if !self.resend.fired(cx.now) {
            return;
        }
        let config = cx.shared;
        while let Some(&(due, group, seq)) = self.due.first().filter(|(due, ..)| *due <= cx.now) {
            self.due.remove(&(due, group, seq));
            let Some(mut pending) = self.pending.remove(&(group, seq)) else { continue };
            let key = Key { group, sender: cx.node, seq };
            let held = self.store.held(key).filter(|_| pending.resends < config.resends_max);
            let Some((_, data)) = held else {
                cx.count(counters::GIVEN_UP, pending.unacknowledged.len() as u64);
                continue;
            };
            for &to in &pending.unacknowledged {
                if self.allowance.try_take(cx.now, 1.0, config.resends_per_second.into()) {
                    cx.count(counters::RESENT, 1);
                    cx.send(to, Lane::Datagram, Message::Again(data.clone()));
                } else {
                    cx.count(counters::RESEND_DEFERRED, 1);
                }
            }
            pending.resends += 1;
            pending.due = cx.now + config.retry_after;
            self.due.insert((pending.due, group, seq));
            self.pending.insert((group, seq), pending);
        }
    }

    /// Nothing is expected of members that have left.
    fn forget_parted(&mut self, own: NodeId) {
        let store = &self.store;
        let due = &mut self.due;
        self.pending.retain(|&(group, seq), pending| {
            let others = store.others(group, own);
            pending.unacknowledged.retain(|node| others.binary_search(node).is_ok());
            if pending.unacknowledged.is_empty() {
                due.remove(&(pending.due, group, seq));
            }
            !pending.unacknowledged.is_empty()
        });
    }

    /// Looks after what every handler leaves behind.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.overdue.note(cx, &mut self.store, cx.shared.base.lost_after());
        self.store.flush(cx);
        if let Some(&(due, ..)) = self.due.first() {
            self.resend.set(cx, due, Timer::Resend);
        }
        self.overdue.arm(cx, Timer::GiveUp);
    }
}

impl Protocol for Ack {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.store.start(cx);
    }

    fn handle_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        self.store.enter_view(cx, view);
        self.forget_parted(cx.node);
        self.finish(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        if !self.store.knows(cx, from) {
            return;
        }
        match message {
            Message::Data(data) => self.receive(cx, from, data, Way::Direct),
            Message::Again(data) => self.receive(cx, from, data, Way::Pulled),
            Message::Ack { group, incarnation, seq } => {
                self.receive_ack(cx, from, group, incarnation, seq);
            }
        }
        self.finish(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Resend => self.resend_timer(cx),
            Timer::GiveUp => self.overdue.give_up(cx, &mut self.store),
        }
        self.finish(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        let config = cx.shared;
        let bytes_max = config.payload_bytes_max(cx.datagram_bytes_max);
        let changes_members = matches!(command, Command::Members { .. });
        if let Some(data) = self.store.command(cx, &config.base, bytes_max, command) {
            self.send(cx, data);
        }
        if changes_members {
            self.forget_parted(cx.node);
        }
        self.finish(cx);
    }
}
