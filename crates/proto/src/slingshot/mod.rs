//! Time-critical multicast: losses are recovered fast, because receivers repair each other.
//!
//! A member sends each packet once, unreliably, to all others. Every receiver keeps the last few
//! packets that it got in a *repair bin*; when `r` are in it, it sends one *repair*, their
//! exclusive or and their names, to `c` other members drawn at random, and empties the bin. A
//! member that lacks one of the packets computes it from the others. Recovery takes as long as all
//! senders together need for about `r` packets; it does not wait for a round trip or for the
//! sender's next packet. (r, c) is the *rate of fire*: more overhead, c/r repairs per packet,
//! recovers more packets sooner.
//!
//! Sources: Balakrishnan, Pleisch, Birman, *Slingshot: Time-Critical Multicast for Clustered
//! Applications*, NCA 2005 (repairs, special buffer, second phase); Balakrishnan, Birman,
//! Phanishayee, Pleisch, *Ricochet: Lateral Error Correction for Time-Critical Multicast*, NSDI
//! 2007 (staggered bins, regions of overlapping groups); RFC 8681 (sliding-window random linear
//! codes).
//!
//! Additions to the published protocol: a checksum of each packet in every repair that names it, so
//! that a recovered packet equals the sent one; partial bins are sent after a time; a random linear
//! code in place of the exclusive or; a second phase that reports packets it gives up and can be
//! configured to ask members that hold a packet before it asks the sender.
//!
//! Other protocols of multicast share what is not repair: the messages of a packet, commands and
//! events, the record of each sender's packets ([`flow`]) and the events for the application
//! ([`ledger`]). The crate `paceline-baselines` has those that Slingshot is compared with.

mod assembly;
mod bins;
mod config;
mod congestion;
pub mod counters;
pub mod flow;
mod fragment;
mod groups;
mod heartbeat;
mod held;
mod interface;
pub mod ledger;
mod message;
mod parted;
mod pull;
mod pulse;
mod receive;
mod regions;
mod sending;
mod seq;
mod steering;
pub mod tuner;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

use crate::core::{Context, GroupId, Instant, NodeId, Payload, Protocol, View, ViewId};
use crate::parts::deadline::Deadline;
use crate::parts::fec::{Bounds, Decoder, Method};
use crate::parts::token_bucket::TokenBucket;
use bins::Bins;
use flow::Flow;
use groups::{Group, NO_FLOW};
use ledger::Ledger;
use parted::Parted;
use pull::{Gap, Patience};
use sending::Sending;
use steering::Steering;

pub use config::{
    Code, Config, Follow, MEMBERS_MAX, Order, PartialCopies, Pull, PullFrom, Rate, RateControl,
    RepairBy,
};
pub use fragment::Fragment;
pub use interface::{Command, Event, How, RejectReason, Timer};
pub use message::{
    Ages, Data, Framing, Heartbeat, Message, Name, Names, NamesBuilder, Repair, Supply, checksum,
};
pub use pull::allowance;
pub use pulse::{NO_RANK, Pulse, Report, RoundTrips, RoundTripsBuilder};
pub use seq::check_seq;

type Cx<'a> = Context<'a, Slingshot>;

/// The identity of a packet in the decoder. The checksum distinguishes it from packets of the same
/// number that are forged or of another incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PacketId {
    flow: u32,
    checksum: u32,
    seq: u64,
}

/// An entry of the list of all kept packets.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at: Instant,
    flow: u32,
    generation: u32,
    seq: u64,
}

/// A message of several packets, which is given up when it is due unless it is whole by then.
#[derive(Clone, Copy, Debug)]
struct Closing {
    due: Instant,
    flow: u32,
    generation: u32,
    /// The number of the packet of it that came first.
    seq: u64,
}

/// A member of groups that multicast in time.
#[derive(Debug)]
pub struct Slingshot {
    view: Arc<View>,
    /// The view before, whose ranks repairs under way may use.
    previous: Option<Arc<View>>,
    rate: Rate,
    /// Whether senders with `follow = "tagged"` follow this member.
    is_followed: bool,
    /// Sorted by id.
    groups: Vec<Group>,
    flows: Vec<Flow>,
    free_flows: Vec<u32>,
    parted: Parted,
    sending: Sending,
    /// In the order in which they are due; some are whole or lost already.
    closing: VecDeque<Closing>,
    /// In the order of arrival; some have been dropped already.
    kept: VecDeque<Kept>,
    ledger: Ledger,
    bins: Bins,
    decoder: Decoder<PacketId>,
    /// What the decoder had counted when it was last asked.
    decoder_counts: (u64, u64),
    /// Missing packets, by when each is due to be requested or given up.
    gaps: BinaryHeap<Reverse<Gap>>,
    patience: Patience,
    /// If there is a target.
    steering: Option<Steering>,
    allowance: TokenBucket,
    /// Groups to which this node has sent, by when the next heartbeat is due.
    beats: BinaryHeap<Reverse<(Instant, GroupId)>>,
    /// Flows whose report to the sender is due at some time, each with its generation.
    reports: Vec<(u32, u32)>,
    flush: Deadline,
    gap: Deadline,
    beat: Deadline,
    close: Deadline,
    report: Deadline,
    /// Buffers, reused for their memory: the packets of a repair, recovered packets, requests by
    /// member.
    named: Vec<PacketId>,
    recovered: Vec<(PacketId, Payload)>,
    /// Recovered before any packet of their senders came, so that they cannot be verified yet.
    unverified: Vec<(PacketId, Payload)>,
    asks: Vec<(NodeId, Name)>,
    ask_names: NamesBuilder,
}

impl Slingshot {
    /// A member of the configured groups.
    pub fn new(config: &Config) -> Slingshot {
        let method = match config.code {
            Code::Xor { .. } => Method::Peel,
            Code::Rlc { .. } => Method::Eliminate,
        };
        let bounds = Bounds {
            equations_max: config.parked_max,
            unknowns_max: config.parked_packets_max,
            bytes_max: config.parked_bytes_max,
        };
        Slingshot {
            view: config.roster.clone(),
            previous: None,
            rate: config.rate,
            is_followed: config.is_followed,
            groups: Vec::new(),
            flows: Vec::new(),
            free_flows: Vec::new(),
            parted: Parted::default(),
            sending: Sending::new(),
            closing: VecDeque::new(),
            kept: VecDeque::new(),
            ledger: Ledger::new(config, &counters::LEDGER),
            bins: Bins::new(),
            decoder: Decoder::new(method, bounds),
            decoder_counts: (0, 0),
            gaps: BinaryHeap::new(),
            patience: Patience::new(config),
            steering: Steering::new(config),
            allowance: allowance(config.pull.map_or(0, |pull| pull.supplies_per_second)),
            beats: BinaryHeap::new(),
            reports: Vec::new(),
            flush: Deadline::UNARMED,
            gap: Deadline::UNARMED,
            beat: Deadline::UNARMED,
            close: Deadline::UNARMED,
            report: Deadline::UNARMED,
            named: Vec::new(),
            recovered: Vec::new(),
            unverified: Vec::new(),
            asks: Vec::new(),
            ask_names: NamesBuilder::default(),
        }
    }

    /// The view whose members take part.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The members of a group that are in the view, sorted; `None` if it is not known.
    pub fn members(&self, group: GroupId) -> Option<&[NodeId]> {
        self.group_place(group).map(|place| &self.groups[place].members[..])
    }

    /// The rate of fire.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Packets of this member to a group so far.
    pub fn packets_sent(&self, group: GroupId) -> u64 {
        self.group_place(group).map_or(0, |place| self.groups[place].seq)
    }

    /// Missing packets: known to exist, not held, and not given up.
    pub fn packets_missing(&self) -> usize {
        self.ledger.missing
    }

    /// Packets that are kept for repairs that name them, and their bytes.
    pub fn packets_held(&self) -> (usize, usize) {
        (self.ledger.held_packets, self.ledger.held_bytes)
    }

    /// Bytes of the packets of incomplete messages, with 64 more for each packet.
    pub fn incomplete_bytes(&self) -> usize {
        self.ledger.messages.held_bytes
    }

    /// Own messages that wait to be sent, and their bytes.
    pub fn queued(&self) -> (usize, usize) {
        self.sending.queued()
    }

    /// Repairs that wait because more than one of their packets is missing.
    pub fn repairs_parked(&self) -> usize {
        self.decoder.equations()
    }

    /// The size of these repairs: the missing packets in them, and bytes.
    pub fn parked(&self) -> (usize, usize) {
        (self.decoder.unknowns(), self.decoder.bytes())
    }

    /// Recovered packets that wait for a first packet of their senders.
    pub fn packets_unverified(&self) -> usize {
        self.unverified.len()
    }

    /// Since when the packet has waited that is longest in a bin without having been in a repair.
    ///
    /// Cost: looks into each bin.
    pub fn waits_since(&self) -> Option<Instant> {
        self.bins.waits_since()
    }

    /// Packets in repair bins. One that is in the bins of several regions counts in each.
    pub fn packets_binned(&self) -> usize {
        self.bins.packets()
    }

    /// The sets of groups that other members share with this one, each with the number of these
    /// members.
    pub fn regions(&self) -> impl Iterator<Item = (usize, usize)> {
        self.bins.regions().map(|region| (region.groups.len(), region.members.len()))
    }

    /// Flows that are tracked: one for each sender and group.
    pub fn flows(&self) -> usize {
        self.flows.len() - self.free_flows.len()
    }

    /// Bytes on the heap that are kept between messages, without payloads.
    ///
    /// Cost: looks at each sender and each bin.
    pub fn heap_bytes(&self) -> usize {
        let of_groups: usize = self.groups.iter().map(Group::heap_bytes).sum();
        let of_flows: usize = self.flows.iter().map(Flow::heap_bytes).sum();
        self.groups.capacity() * size_of::<Group>()
            + of_groups
            + self.flows.capacity() * size_of::<Flow>()
            + of_flows
            + self.kept.capacity() * size_of::<Kept>()
            + self.closing.capacity() * size_of::<Closing>()
            + self.gaps.capacity() * size_of::<Reverse<Gap>>()
            + self.beats.capacity() * size_of::<Reverse<(Instant, GroupId)>>()
            + self.reports.capacity() * size_of::<(u32, u32)>()
            + self.bins.heap_bytes()
            + self.decoder.bytes()
    }

    /// For a sender to a group: packets below this number are delivered or were given up, and the
    /// number after the last packet that is known of. `None` if nothing is.
    pub fn progress(&self, group: GroupId, sender: NodeId) -> Option<(u64, u64)> {
        let group = &self.groups[self.group_place(group)?];
        let flow = group.flows[group.place(sender)?];
        (flow != NO_FLOW).then(|| {
            let flow = &self.flows[flow as usize];
            let missing = (flow.base()..flow.next()).find(|&seq| flow.missing(seq).is_some());
            (missing.unwrap_or(flow.next()), flow.next())
        })
    }

    /// Looks after what every handler leaves behind: reports, counts, timers.
    fn finish(&mut self, cx: &mut Cx<'_>) {
        self.ledger.flush(cx);
        let (evicted, contradictions) = (self.decoder.evicted(), self.decoder.contradictions());
        if (evicted, contradictions) != self.decoder_counts {
            cx.count(counters::REPAIR_EVICTED, evicted - self.decoder_counts.0);
            cx.count(counters::REPAIR_WRONG, contradictions - self.decoder_counts.1);
            self.decoder_counts = (evicted, contradictions);
        }
        self.count_messages(cx);
        self.arm_flush(cx);
        self.arm_gap(cx);
        self.arm_close(cx);
        self.arm_beat(cx);
        self.arm_steering(cx);
        self.arm_report(cx);
    }

    /// The view under whose ranks a message names packets.
    fn view_named(&self, id: ViewId) -> Option<Arc<View>> {
        if self.view.id() == id {
            return Some(self.view.clone());
        }
        self.previous.as_ref().filter(|view| view.id() == id).cloned()
    }
}

impl Protocol for Slingshot {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.set_up_groups(cx);
        let roster = cx.shared.roster.clone();
        self.enter_view(cx, &roster);
    }

    fn handle_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        if view.id() < self.view.id() {
            return cx.count(counters::STALE_VIEW, 1);
        }
        self.enter_view(cx, view);
        self.finish(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        if from == cx.node {
            return cx.count(counters::OWN_ECHO, 1);
        }
        if self.view.rank(from).is_none() {
            return cx.count(counters::FOREIGN_SENDER, 1);
        }
        match message {
            Message::Data(data) => self.receive_data(cx, from, data),
            Message::Repair(repair) => self.receive_repair(cx, from, &repair),
            Message::Ask { view, names } => self.receive_ask(cx, from, view, &names),
            Message::Heartbeat(heartbeat) => self.receive_heartbeat(cx, from, heartbeat),
            Message::Supply(supply) => self.receive_supply(cx, supply),
            Message::Pulse(pulse) => self.receive_pulse(cx, from, &pulse),
            Message::Report(report) => self.receive_report(cx, from, &report),
        }
        self.finish(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Flush => self.flush_timer(cx),
            Timer::Gap => self.gap_timer(cx),
            Timer::Heartbeat => self.beat_timer(cx),
            Timer::Steer => self.steer(cx),
            Timer::Pace => self.pace_timer(cx),
            Timer::Close => self.close_timer(cx),
            Timer::Report => self.report_timer(cx),
        }
        self.finish(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Multicast { group, payload, ticket } => {
                self.multicast(cx, group, payload, ticket);
            }
            Command::Members { group, members } => self.set_members(cx, group, &members),
            Command::SetRate(rate) => {
                let r_max = cx.shared.names_max();
                if rate.r > r_max {
                    cx.count(counters::REJECTED, 1);
                    let reason = RejectReason::RateTooLarge { r: rate.r, r_max };
                    cx.deliver(Event::Rejected { ticket: 0, reason });
                } else {
                    self.set_rate(rate);
                }
            }
            Command::Consumed { events } => self.ledger.consumed(cx, events),
        }
        self.finish(cx);
    }

    fn event_bytes(event: &Event) -> usize {
        match event {
            Event::Tuned { .. } | Event::Slow { .. } => size_of::<Event>(),
            // `unread_max` bounds the events about packets; the other events answer commands.
            _ => 0,
        }
    }
}

/// True if a repair or a request may hold these names.
fn is_within(config: &Config, names: &Names) -> bool {
    let names_max = match config.code {
        Code::Xor { .. } => config::RATE_R_MAX,
        Code::Rlc { .. } => message::NAMES_MAX,
    };
    names.len() <= names_max
}

#[cfg(test)]
mod tests;
