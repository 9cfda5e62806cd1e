//! Broadcast: every member receives each message, at line rate.
//!
//! The members of a view form a ring. A broadcast goes to the successor only; each member delivers
//! and forwards, and the last one before the origin stops. So every link carries a message once,
//! where sending to each member in turn would load the origin's link N - 1 times.
//!
//! Sources: Bela Ban, *Daisychaining in the clouds*, 2010; Guerraoui, Levy, Pochon, Quema,
//! *Throughput optimal total order broadcast for cluster environments*, TOCS 2010 (ring, fairness);
//! Behrens, Jha, Birman, Tremel, *RDMC: A Reliable RDMA Multicast for Large Objects*, DSN 2018, and
//! Ganesan, Seshadri, *On Cooperative Content Distribution and the Price of Barter*, ICDCS 2005
//! (binomial pipeline).
//!
//! Additions to the published ring: a view id, hop limit and checksum in each frame; credits that
//! return when the application has consumed; stability; a broken hop that resumes by link sequence;
//! hops that serve origins by deficit round robin; three more topologies and a planner.

mod acks;
mod config;
pub mod counters;
mod fair_queue;
mod flow;
mod flush;
mod hop;
mod inject;
mod lag;
mod link;
mod message;
mod own;
mod pace;
mod pipeline;
mod plan;
mod receive;
mod serve;
mod shares;
mod topology;
mod unread;
mod uplink;
mod watch;
mod window;

use std::sync::Arc;

use crate::core::{Context, NodeId, Payload, PeerState, Protocol, View};
use crate::parts::deadline::Deadline;
use flow::Flow;
use inject::QUEUE_BYTES_MIN;
use link::{InLink, LinkState, OutLink, known_link};
use own::{Own, Unconsumed};
use unread::Unread;
use uplink::Uplink;

pub use config::Config;
pub use flush::Reached;
pub use message::{Frame, Lengths, Message};
pub use pipeline::{Schedule, Step};
pub use plan::{Plan, Reason, Urgency, plan};
pub use shares::fair_shares;
pub use topology::{Children, Topology};

/// A command of the application to its member.
#[derive(Clone, Debug)]
pub enum Command {
    /// Send this to every member, this one included.
    Broadcast {
        /// The message, at most `message_bytes_max`.
        payload: Payload,
        /// The topology to use; `None` for the configured one.
        topology: Option<Topology>,
        /// What the planner, if it chooses the topology, optimises for.
        urgency: Urgency,
    },
    /// The application is done with all messages of this origin up to and including the one that
    /// ended at `end`: returns the origin's credit.
    Consumed {
        /// The origin.
        origin: NodeId,
        /// The `end` of the last message consumed.
        end: u64,
    },
}

impl Command {
    /// A broadcast the configured way.
    pub fn broadcast(payload: impl Into<Payload>) -> Command {
        let payload = payload.into();
        Command::Broadcast { payload, topology: None, urgency: Urgency::Throughput }
    }
}

/// An event of a member for its application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message: once, whole, and in the order in which its origin sent.
    Delivered {
        /// The member that sent it.
        origin: NodeId,
        /// The origin's incarnation.
        incarnation: u64,
        /// Its number among the messages of its origin in the view: 0, 1, 2, ...
        seq: u64,
        /// What [`Command::Consumed`] wants: blocks below this are consumed once the message is.
        /// Of the messages of one block the last has the number after the block, and the others
        /// that of the block.
        end: u64,
        /// The message.
        payload: Payload,
    },
    /// A broadcast was not accepted; nothing was sent.
    Rejected {
        /// Why.
        reason: RejectReason,
    },
}

/// Why a broadcast was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RejectReason {
    /// It is larger than `message_bytes_max`.
    #[error("message of {bytes} bytes, at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// This node is not in the view.
    #[error("this node is not a member of the view")]
    NotAMember,
    /// Too few members of the group are reachable.
    #[error("too few members are reachable: the group may continue without this node")]
    LostPrimary,
}

/// Why the driver wakes a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Acknowledge what has come.
    Ack,
    /// Remind origins of blocks that are held here and were not called stable.
    Remind,
    /// Ask again from which link number a broken hop must resume.
    Resync,
    /// Ask the members that keep the window closed whether their credit got lost.
    Probe,
}

/// A member of a group that broadcasts.
#[derive(Debug)]
pub struct Chain {
    view: Arc<View>,
    is_installed: bool,
    // The view ends: see `freeze`.
    is_frozen: bool,
    // This member's place in the view; `None` outside it.
    rank: Option<u32>,
    own: Option<Box<Own>>,
    // Sorted by the origin's rank, this member's own blocks among them.
    flows: Vec<Flow>,
    // Of origins that stayed: what earlier views left unconsumed.
    unread: Vec<Unread>,
    out_links: Vec<OutLink>,
    // What each origin got of all hops together. `None` on members with one hop.
    uplink: Option<Box<Uplink>>,
    in_links: Vec<InLink>,
    ack: Deadline,
    remind: Deadline,
    resync: Deadline,
    probe: Deadline,
    queue_bytes_left: usize,
}

type Cx<'a> = Context<'a, Chain>;

impl Chain {
    /// A member of the configured roster. Until a view is installed it sends to each member itself.
    pub fn new(config: &Config) -> Chain {
        Chain {
            view: config.roster.clone(),
            is_installed: false,
            is_frozen: false,
            rank: None,
            own: None,
            flows: Vec::new(),
            unread: Vec::new(),
            out_links: Vec::new(),
            uplink: None,
            in_links: Vec::new(),
            ack: Deadline::UNARMED,
            remind: Deadline::UNARMED,
            resync: Deadline::UNARMED,
            probe: Deadline::UNARMED,
            queue_bytes_left: QUEUE_BYTES_MIN.min(config.queue_bytes),
        }
    }

    /// The view in which the member sends.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The member's rank in the view; `None` if it is not in it.
    pub fn rank(&self) -> Option<usize> {
        self.rank.map(|rank| rank as usize)
    }

    /// Blocks that this member broadcast so far in the view.
    pub fn blocks_sent(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.next)
    }

    /// Blocks below this, of this member, are with every member.
    pub fn blocks_stable(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.stable())
    }

    /// Messages of this member that are with every member, since it first sent one. In a view that
    /// was flushed all that had left wholly are.
    pub fn messages_stable(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.messages_stable)
    }

    /// Blocks below this, of this member, were consumed by every member's application.
    pub fn blocks_consumed(&self) -> u64 {
        self.own.as_ref().map_or(0, |own| own.consumed())
    }

    /// Blocks of this member in flight: sent, and not consumed by every member's application.
    pub fn blocks_in_flight(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.in_flight_blocks())
    }

    /// Bytes of this member in flight.
    pub fn bytes_in_flight(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.in_flight_bytes())
    }

    /// While this member's window is closed: the members that keep it closed, and a number that
    /// changes with whatever they consume. Those that do not read, or are slow.
    pub fn held_back_by(&self) -> Option<(u64, impl Iterator<Item = NodeId>)> {
        let own = self.own.as_ref().filter(|own| self.is_window_closed(own))?;
        let me = self.rank.map(|rank| rank as usize);
        let others = own.holding_back().filter(move |&rank| Some(rank) != me);
        Some((own.progress(), others.map(|rank| self.view.node(rank))))
    }

    /// Messages that wait here to be sent.
    pub fn messages_waiting(&self) -> usize {
        self.own.as_ref().map_or(0, |own| own.waiting.len())
    }

    /// For each origin that has sent blocks: its rank, its blocks freed as stable, and its blocks
    /// received, both as the number after the last.
    pub fn origins(&self) -> impl Iterator<Item = (usize, u64, u64)> {
        self.flows.iter().map(|flow| (flow.rank as usize, flow.stable, flow.received))
    }

    /// For each origin that has sent blocks: its rank, and the credit that this member granted it.
    pub fn credits(&self) -> impl Iterator<Item = (usize, u64)> {
        self.flows.iter().map(|flow| (flow.rank as usize, flow.credit()))
    }

    /// The nodes at the other ends of the hops that were used in the view.
    pub fn hop_peers(&self) -> impl Iterator<Item = NodeId> {
        let to = self.out_links.iter().map(|link| link.peer);
        to.chain(self.in_links.iter().map(|link| link.peer))
    }

    /// How many members' acknowledgements of own blocks are kept; `None` before the first block.
    pub fn members_counted(&self) -> Option<usize> {
        self.own.as_ref().map(|own| own.members())
    }

    /// Bytes of blocks that are held because some member may lack them.
    pub fn bytes_held(&self) -> usize {
        self.flows.iter().map(|flow| flow.held_bytes).sum()
    }

    /// True if nothing waits, nothing is unacknowledged, and nothing is held for others.
    pub fn is_at_rest(&self) -> bool {
        self.messages_waiting() == 0 && !self.flows.iter().any(Flow::is_unstable)
    }

    fn members(&self) -> usize {
        self.view.len()
    }

    /// The node `position` places after `origin` on the ring.
    fn node_at(&self, origin: u32, position: usize) -> NodeId {
        let place = origin as usize + position;
        let members = self.members();
        // Both are below the number of members; a division here would show in every profile.
        self.view.node(if place < members { place } else { place - members })
    }

    /// How many places after `origin` this member comes.
    fn position(&self, origin: u32, rank: u32) -> usize {
        let (rank, origin) = (rank as usize, origin as usize);
        if rank >= origin { rank - origin } else { rank + self.members() - origin }
    }

    fn flow_index(&self, rank: u32) -> Result<usize, usize> {
        self.flows.binary_search_by_key(&rank, |flow| flow.rank)
    }

    fn set_due(&mut self, is_due: bool) {
        if let Some(own) = &mut self.own {
            own.is_due = is_due;
        }
    }

    fn enter_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        self.view = view.clone();
        self.rank = view.rank(cx.node).map(|rank| rank as u32);
        self.note_admission(cx);
    }
}

impl Protocol for Chain {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        let roster = cx.shared.roster.clone();
        self.enter_view(cx, &roster);
    }

    fn handle_view(&mut self, cx: &mut Cx<'_>, view: &Arc<View>) {
        if view.id() > self.view.id() {
            // Blocks belong to their view; what had not left wholly is sent in the new one.
            self.queue_bytes_left = QUEUE_BYTES_MIN.min(cx.shared.queue_bytes);
            let own = self.own.take();
            let heard = self.carry_unread(view);
            let unconsumed = own.as_ref().map_or(Vec::new(), |own| self.unconsumed_by(own, view));
            let ended = own.as_ref().map_or(0, |own| own.messages_ended());
            let mut waiting = own.map(|own| own.waiting).unwrap_or_default();
            waiting.retain(|message| message.injected < message.blocks);
            waiting.iter_mut().for_each(|message| message.injected = 0);
            self.flows.clear();
            self.out_links.clear();
            self.uplink = None;
            self.in_links.clear();
            self.is_installed = true;
            self.is_frozen = false;
            self.enter_view(cx, view);
            let is_any_unconsumed = unconsumed.iter().any(|unconsumed| !unconsumed.is_nothing());
            if let Some(rank) = self.rank.filter(|_| ended > 0 || is_any_unconsumed) {
                let mut own = Own::new(rank as usize, self.members());
                own.messages_stable = ended;
                own.set_unconsumed(unconsumed);
                self.own = Some(Box::new(own));
            }
            self.tell_all_owed(cx, &heard);
            for message in waiting {
                let asked = (message.plan.reason == Reason::Asked).then_some(message.plan.topology);
                self.broadcast(cx, message.payload, asked, Urgency::Throughput);
            }
        } else if view.id() == self.view.id() {
            self.is_installed = true;
            self.enter_view(cx, view);
        } else {
            cx.count(counters::STALE_VIEW, 1);
        }
    }

    fn handle_peer(&mut self, cx: &mut Cx<'_>, peer: NodeId, state: PeerState) {
        let Some(link) = known_link(&mut self.out_links, peer) else {
            return;
        };
        match state {
            PeerState::Down => {
                link.state = LinkState::Down;
                // What waits there keeps no other hop waiting.
                self.serve_all(cx);
            }
            // Whatever the state was: a hop first used while its stream was down lost frames too.
            PeerState::Up { .. } => {
                link.state = LinkState::Resyncing;
                self.ask_resync(cx);
            }
            PeerState::Suspect => {}
        }
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        let view = message.view();
        if view != self.view.id() {
            return cx.count(counters::FOREIGN_VIEW, 1);
        }
        let Some(sender) = self.view.rank(from) else {
            return cx.count(counters::FOREIGN_SENDER, 1);
        };
        match message {
            Message::Data(frame) => self.receive_frame(cx, from, frame),
            Message::Ack { incarnation, received, consumed, .. } => {
                self.receive_ack(cx, sender, incarnation, received, consumed);
            }
            Message::Stable { incarnation, stable, .. } => {
                if let Ok(flow) = self.flow_index(sender as u32)
                    && self.flows[flow].incarnation == incarnation
                {
                    self.flows[flow].free(stable);
                }
            }
            Message::LinkAck { next, .. } => {
                if let Some(link) = known_link(&mut self.out_links, from)
                    && !link.acknowledge(next)
                {
                    cx.count(counters::ACK_OUT_OF_RANGE, 1);
                }
            }
            Message::Resync { next, .. } => self.answer_resync(cx, from, next),
            Message::Resume { next, .. } => self.resume(cx, from, next),
            Message::Probe { incarnation, .. } => self.answer_probe(cx, sender, incarnation),
            Message::Unconsumed { incarnation, blocks, bytes, .. } => {
                self.receive_unconsumed(cx, from, incarnation, Unconsumed { blocks, bytes });
            }
            Message::Skip { link, .. } => {
                if self.accept_link(cx, from, link) {
                    cx.count(counters::SKIPPED, 1);
                }
            }
        }
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Ack => self.ack_timer(cx),
            Timer::Remind => self.remind_timer(cx),
            Timer::Resync => self.resync_timer(cx),
            Timer::Probe => self.probe_timer(cx),
        }
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Broadcast { payload, topology, urgency } => {
                self.broadcast(cx, payload, topology, urgency);
            }
            Command::Consumed { origin, end } => self.consumed(cx, origin, end),
        }
    }

    fn handle_drained(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        self.serve(cx, to);
        self.set_due(true);
        self.inject(cx);
        self.set_due(false);
        self.note_admission(cx);
    }

    fn admission(&self) -> usize {
        self.queue_bytes_left
    }

    fn event_bytes(_: &Event) -> usize {
        // Deliveries have credits, and a rejection answers a broadcast.
        0
    }
}

#[cfg(test)]
mod tests;
