//! The origin's part: cuts own messages into blocks and puts these into the queues of the hops.

use super::counters;
use super::flow::Flow;
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

    /// Forgets the head message once all its blocks were injected.
    pub(super) fn retire_head(&mut self) {
        let own = self.own.as_mut().expect("a head message was sent");
        if own.waiting.front().is_some_and(|head| head.injected == head.blocks) {
            own.waiting.pop_front();
        }
    }

    /// Cuts the next block off the head message, holds it and delivers it here. `None` if the
    /// window is full.
    pub(super) fn take_block(&mut self, cx: &mut Cx<'_>, topology: Topology) -> Option<u64> {
        let config = cx.shared;
        let rank = self.rank.expect("only members send");
        let members = self.members();
        let own = self.own.as_mut().expect("a head message waits");
        let head = own.waiting.front().expect("a head message waits");
        let start = usize::from(head.injected) * config.block_bytes_max;
        let end = (start + config.block_bytes_max).min(head.payload.len());
        let window_bytes = match topology {
            Topology::Pipeline => {
                own.window.compare(rank, &self.flows, config.window_bytes);
                own.window.bytes(config.window_bytes, config.block_bytes_max)
            }
            _ => config.window_bytes,
        };
        if !own.has_window(end - start, config.window_blocks, window_bytes) {
            self.arm_probe(cx);
            return None;
        }
        let seq = own.inject(end - start);
        own.pace.note(cx.now, end - start);
        own.waiting_bytes -= (end - start).max(1);
        own.waiting_blocks -= 1;
        let head = own.waiting.front_mut().expect("a head message waits");
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
            payload: head.payload.slice(start..end),
        };
        head.injected += 1;
        if head.injected == head.blocks {
            own.end_message();
        }
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
    /// once, or what hops are owed on which this member misses turns, whichever is most.
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
        let on_hops = waiting + own.waiting_blocks * Frame::HEAD_BYTES;
        let at_once = if own.waiting.is_empty() { self.open_bytes(cx).min(bytes_max) } else { 0 };
        let reserve = self.reserve().saturating_sub(on_hops);
        self.queue_bytes_left = paced.max(at_once).max(reserve);
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
