//! The origin's part: cuts own messages into blocks, or bundles small ones in one, and puts these
//! into the queues of the hops.
//!
//! While a hop is busy, small messages wait until it runs low or until they fill a block, and leave
//! together: a block has a head of its own at each hop. On an idle hop a message leaves at once.

use super::counters;
use super::flow::Flow;
use super::link::{LinkState, OutLink};
use super::message::Frame;
use super::own::{Own, Waiting};
use super::pipeline::Transfer;
use super::plan::{Plan, Reason, Urgency, plan};
use super::{Chain, Cx, Event, RejectReason};
use super::{Config, Topology};
use crate::core::Payload;

/// The least that is worth a queue, bytes: some small messages for one wake-up.
pub(super) const QUEUE_BYTES_MIN: usize = 4096;

impl Chain {
    pub(super) fn broadcast(
        &mut self,
        cx: &mut Cx<'_>,
        payload: Payload,
        topology: Option<Topology>,
        urgency: Urgency,
    ) {
        let config = cx.shared;
        let bytes = payload.len();
        let reason = if self.rank.is_none() {
            RejectReason::NotAMember
        } else if bytes > config.message_bytes_max {
            RejectReason::TooLarge { bytes, bytes_max: config.message_bytes_max }
        } else {
            let blocks = bytes.div_ceil(config.block_bytes_max).max(1);
            let plan = self.plan(config, blocks, topology, urgency);
            let rank = self.rank.expect("checked above") as usize;
            let members = self.members();
            let own = self.own.get_or_insert_with(|| Box::new(Own::new(rank, members)));
            own.waiting_bytes += bytes.max(1);
            own.waiting_blocks += blocks;
            own.waiting.push_back(Waiting { payload, blocks: blocks as u16, injected: 0, plan });
            self.inject(cx);
            return self.note_admission(cx);
        };
        cx.count(counters::REJECTED, 1);
        cx.deliver(Event::Rejected { reason });
    }

    pub(super) fn plan(
        &self,
        config: &Config,
        blocks: usize,
        asked: Option<Topology>,
        urgency: Urgency,
    ) -> Plan {
        if !self.is_installed {
            return Plan { topology: Topology::Unicast, reason: Reason::NoView };
        }
        if let Some(topology) = asked.or(config.topology) {
            return Plan { topology, reason: Reason::Asked };
        }
        let waiting = self.own.as_ref().map_or(0, |own| own.waiting_blocks) + blocks;
        plan(self.members(), blocks, waiting, urgency)
    }

    /// Cuts blocks off own messages and puts them into the queues of the hops, as far as window and
    /// room allow.
    pub(super) fn inject(&mut self, cx: &mut Cx<'_>) {
        if self.is_frozen {
            return;
        }
        while let Some(topology) = self.own.as_ref().and_then(|own| own.head()) {
            let has_injected = match topology {
                Topology::Pipeline if self.members() > 1 => self.inject_step(cx),
                _ => self.inject_block(cx, topology),
            };
            if !has_injected {
                return;
            }
        }
    }

    /// Sends the next own block to all that the origin itself serves. False if it has to wait.
    pub(super) fn inject_block(&mut self, cx: &mut Cx<'_>, topology: Topology) -> bool {
        let rank = self.rank.expect("only members send");
        let children = topology.children(0, self.members());
        let is_gathering = self.gathers(cx, topology);
        self.own.as_mut().expect("a head message waits").is_gathering = is_gathering;
        if is_gathering {
            return false;
        }
        if !children.into_iter().all(|child| self.own_room(cx, self.node_at(rank, child)) > 0) {
            return false;
        }
        let Some(seq) = self.take_block(cx, topology) else {
            return false;
        };
        for child in children {
            self.send_block(cx, rank, child, seq);
        }
        self.retire_head();
        true
    }

    /// True while what waits had better wait for more to share its block: a hop is busy with own
    /// blocks. Asks the driver to say when the hop runs low. Beside blocks of others nothing waits
    /// for that, or it would miss its turns.
    fn gathers(&self, cx: &mut Cx<'_>, topology: Topology) -> bool {
        let (Some(rank), Some(own)) = (self.rank, &self.own) else { return false };
        if own.is_due || own.bundle(cx.shared).1 == 0 {
            return false;
        }
        for child in topology.children(0, self.members()) {
            let to = self.node_at(rank, child);
            let is_own = |link: &OutLink| {
                link.state == LinkState::Open && !link.has_queue() && link.carries_only(rank)
            };
            if self.out_link(to).is_some_and(is_own) && cx.backlog_bytes(to) > 0 {
                // What the driver has handed on keeps the link busy meanwhile.
                cx.notify_drained(to, (cx.shared.hop_bytes / 16).max(1));
                return true;
            }
        }
        false
    }

    /// Makes the next step of the head message's way through the pipeline. False if it has to wait.
    pub(super) fn inject_step(&mut self, cx: &mut Cx<'_>) -> bool {
        let rank = self.rank.expect("only members send");
        let members = self.members();
        let own = self.own.as_mut().expect("a head message waits");
        let head = own.waiting.front().expect("a head message waits");
        let (first, blocks) = (own.next - u64::from(head.injected), head.blocks);
        let transfer = own.transfer.get_or_insert_with(|| Transfer::new(members, 0, first, blocks));
        let Some((to, seq)) = transfer.next_send(|_| true) else {
            own.transfer = None;
            own.waiting.pop_front();
            return true;
        };
        let is_new = seq == own.next;
        if self.own_room(cx, self.node_at(rank, to)) == 0 {
            return false;
        }
        if is_new && self.take_block(cx, Topology::Pipeline).is_none() {
            return false;
        }
        self.send_block(cx, rank, to, seq);
        let own = self.own.as_mut().expect("a head message waits");
        own.transfer.as_mut().expect("just used").sent();
        true
    }

    /// Forgets messages at the head once all their blocks were injected.
    pub(super) fn retire_head(&mut self) {
        let own = self.own.as_mut().expect("a head message was sent");
        while own.waiting.front().is_some_and(|head| head.injected == head.blocks) {
            own.waiting.pop_front();
        }
    }

    /// Cuts the next block off the head message, or makes one of the small messages at the head;
    /// holds it and delivers it here. `None` if the window is full.
    pub(super) fn take_block(&mut self, cx: &mut Cx<'_>, topology: Topology) -> Option<u64> {
        let config = cx.shared;
        let rank = self.rank.expect("only members send");
        let members = self.members();
        let own = self.own.as_mut().expect("a head message waits");
        let (payload, lengths) = own.next_block(config, topology);
        let bytes = payload.len() + lengths.window_bytes();
        let window_bytes = match topology {
            Topology::Pipeline => {
                own.window.compare(rank, &self.flows, config.window_bytes);
                own.window.bytes(config.window_bytes, config.block_bytes_max)
            }
            _ => config.window_bytes,
        };
        if !own.has_window(bytes, config.window_blocks, window_bytes) {
            self.arm_probe(cx);
            return None;
        }
        let seq = own.inject(bytes);
        own.pace.note(cx.now, payload.len());
        let messages = lengths.several().map_or(1, <[u16]>::len);
        if messages > 1 {
            cx.count(counters::BUNDLED, messages as u64);
        }
        let head = own.waiting.front().expect("a head message waits");
        let frame = Frame {
            view: self.view.id(),
            origin: rank,
            incarnation: cx.incarnation,
            seq,
            index: head.injected,
            count: head.blocks,
            topology,
            checksum: 0,
            stable_lag: 0,
            link: 0,
            hops_left: if topology == Topology::Unicast { 0 } else { members as u32 - 1 },
            lengths,
            payload,
        };
        own.note_injected(messages, frame.payload.len());
        let checksum = frame.computed_checksum();
        let flow = self.own_flow(cx.incarnation);
        self.take_in(cx, flow, Frame { checksum, ..frame })
            .expect("an own block is new and in the window");
        self.settle_own(cx);
        Some(seq)
    }

    /// The index of this member's own flow.
    pub(super) fn own_flow(&mut self, incarnation: u64) -> usize {
        let rank = self.rank.expect("only members send");
        self.flow_index(rank).unwrap_or_else(|place| {
            self.flows.insert(place, Flow::new(rank, incarnation));
            place
        })
    }

    /// Notes how much more is admitted: what leaves within the queue's time, what the hops take at
    /// once, what shares the block that waits, or what hops are owed on which this member misses
    /// turns, whichever is most.
    pub(super) fn note_admission(&mut self, cx: &mut Cx<'_>) {
        if self.is_frozen {
            self.queue_bytes_left = 0;
            return;
        }
        let Some(own) = &mut self.own else { return };
        let (waiting, bytes_max) = (own.waiting_bytes, cx.shared.queue_bytes);
        let paced = own.pace.bytes_within(cx.now, cx.shared.queue_time).min(bytes_max);
        let paced = if paced >= QUEUE_BYTES_MIN { paced.saturating_sub(waiting) } else { 0 };
        // The reserve is meant for hops: small messages fill it with their heads.
        let on_hops = own.waiting_frames_bytes(cx.shared);
        let gathered = if own.is_gathering { own.bundle(cx.shared).1 } else { 0 };
        let at_once = if own.waiting.is_empty() { self.open_bytes(cx).min(bytes_max) } else { 0 };
        let reserve = self.reserve().saturating_sub(on_hops);
        self.queue_bytes_left = paced.max(at_once).max(gathered.min(bytes_max)).max(reserve);
    }

    /// Bytes to keep waiting for the hops on which this member is behind and has missed turns.
    fn reserve(&self) -> usize {
        let lags = self.out_links.iter().filter_map(|link| link.lag.as_ref());
        lags.map(|lag| lag.reserve()).max().unwrap_or(0)
    }

    /// Bytes that could leave at once, as far as the hops limit it. If none, asks the driver for a
    /// notification.
    fn open_bytes(&self, cx: &mut Cx<'_>) -> usize {
        let (Some(rank), members) = (self.rank, self.members()) else { return QUEUE_BYTES_MIN };
        match cx.shared.topology.filter(|_| self.is_installed) {
            // Which hops the next message takes is not known yet.
            None | Some(Topology::Pipeline) => QUEUE_BYTES_MIN,
            Some(topology) => {
                let children = topology.children(0, members).into_iter();
                let rooms = children.map(|child| self.own_room(cx, self.node_at(rank, child)));
                rooms.min().unwrap_or(QUEUE_BYTES_MIN)
            }
        }
    }
}
