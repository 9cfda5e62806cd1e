//! The ledger of a broadcast group: accepted messages, their deliveries, and the frames of each
//! hop.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use paceline_proto::chain::counters::COUNTERS;
use paceline_proto::chain::{Chain, Command, Config, Event, Frame, Message};
use paceline_proto::core::{
    Instant, Lane, NodeId, Payload, PeerState, Protocol, View, ViewId, Wire,
};

use super::hops::{Hop, Passage};
use super::offered::{Offer, Offered};
use super::report::{Report, Violation, rules};
use paceline_sim::{Input, Observer, Reply, Sim};

rules! {
    /// What a group promises.
    pub enum Rule {
        /// C1: a delivered message was sent by its origin, byte for byte, and is delivered once.
        Integrity => "C1 integrity",
        /// C2: the messages of an origin are delivered in the order in which it sent them, without
        /// gap.
        Fifo => "C2 fifo",
        /// C5: once faults are over, every accepted message is delivered by every member.
        Validity => "C5 validity",
        /// C7: a hop carries a block once, and again only after its stream broke; nothing
        /// circulates.
        Transmission => "C7 transmission",
        /// C8: a block is freed only when all members have it; what is held stays within the
        /// windows.
        Stability => "C8 stability",
        /// C9: credits add up, and no sender waits for ever: neither a message that was accepted
        /// nor an application that wants to submit one.
        Flow => "C9 flow",
        /// G7: what came in is what was accepted, seen before or refused; an honest group refuses
        /// nothing.
        Balance => "G7 balance",
        /// G6: once faults are over the group comes to rest and no timer runs on.
        Quiescence => "G6 quiescence",
    }
}

/// A protocol in which a [`Chain`] can be found: itself, or what wraps it.
pub trait Member: Protocol<Message = Message, Command = Command, Event = Event> {
    /// The member.
    fn chain(&self) -> &Chain;
}

impl Member for Chain {
    fn chain(&self) -> &Chain {
        self
    }
}

#[derive(Debug)]
struct Accepted {
    blocks: u64,
    // Its end, as it was given to the first member that delivered it.
    end: Option<u64>,
    payload: Payload,
    deliveries: usize,
}

impl Accepted {
    // Whether the message may end there if the one before it ended at `begins`. Of the messages of
    // one block only the last moves on. All members have the same blocks.
    fn may_end(&self, begins: u64, end: u64) -> bool {
        let is_last = end == begins + self.blocks;
        let is_before_last = self.blocks == 1 && end == begins;
        self.end.map_or(is_last || is_before_last, |known| known == end)
    }
}

#[derive(Debug, Default)]
struct Origin {
    // Messages that some member has not delivered; the first is message number `first`.
    accepted: VecDeque<Accepted>,
    first: usize,
    incarnation: Option<u64>,
    // No member has received less, as far as was looked.
    received_lowest: u64,
    credit_lowest: u64,
    stable: u64,
}

impl Origin {
    fn message(&self, number: usize) -> Option<&Accepted> {
        self.accepted.get(number.checked_sub(self.first)?)
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    messages: usize,
    // The end of the last delivered message.
    blocks: u64,
    received: u64,
    credit: u64,
    stable: u64,
}

/// Watches a group in a fixed view.
#[derive(Debug)]
pub struct ChainLedger {
    view: View,
    block_bytes_max: usize,
    window_blocks: usize,
    window_bytes: usize,
    message_bytes_max: usize,
    origins: Vec<Origin>,
    // By member's rank, then by origin's.
    progress: Vec<Vec<Progress>>,
    hops: BTreeMap<(NodeId, NodeId), Hop>,
    views: Vec<ViewId>,
    frames_arrived: u64,
    deliveries: u64,
    // A message was too large: the rejection is due before the call ends.
    is_rejection_due: bool,
    offered: Offered,
    report: Report<Rule>,
}

impl ChainLedger {
    /// A ledger for the roster of this configuration.
    pub fn new(config: &Config) -> ChainLedger {
        let view = View::clone(config.roster());
        let members = view.len();
        ChainLedger {
            block_bytes_max: config.block_bytes_max(),
            window_blocks: config.window_blocks(),
            window_bytes: config.window_bytes(),
            message_bytes_max: config.message_bytes_max(),
            origins: (0..members).map(|_| Origin::default()).collect(),
            progress: vec![vec![Progress::default(); members]; members],
            hops: BTreeMap::new(),
            views: vec![view.id(); members],
            frames_arrived: 0,
            deliveries: 0,
            is_rejection_due: false,
            offered: Offered::default(),
            report: Report::default(),
            view,
        }
    }

    /// Applications submit at these times whatever is admitted; `within` is the longest time that
    /// a member may then admit nothing.
    pub fn with_offers(mut self, offers: Vec<Offer>, within: Duration) -> ChainLedger {
        self.offered = Offered::new(offers, within);
        self
    }

    /// The first promise that was broken, if one was.
    pub fn violation(&self) -> Option<&Violation<Rule>> {
        self.report.violation()
    }

    /// Messages delivered so far, over all members.
    pub fn deliveries(&self) -> u64 {
        self.deliveries
    }

    /// Checks that everything was delivered, no member waits, the counters balance, and no work is
    /// left. Call it after the faults and enough time to recover.
    pub fn check_quiescent<P: Member>(&mut self, sim: &Sim<P>) -> Result<(), Violation<Rule>> {
        let at = sim.now();
        for rank in 0..self.view.len() {
            self.check_member_quiescent(at, rank, sim.node(self.view.node(rank)).chain());
        }
        self.check_balance(sim);
        let pending = sim.events_pending();
        if pending > 0 {
            self.fail(
                Rule::Quiescence,
                at,
                self.view.node(0),
                format!("{pending} events are pending"),
            );
        }
        self.report.verdict()
    }

    fn check_member_quiescent(&mut self, at: Instant, rank: usize, chain: &Chain) {
        let node = self.view.node(rank);
        let waiting = chain.messages_waiting();
        if waiting > 0 {
            let what = format!(
                "{waiting} messages wait, {} blocks of {} bytes in flight, {} sent, {} consumed",
                chain.blocks_in_flight(),
                chain.bytes_in_flight(),
                chain.blocks_sent(),
                chain.blocks_consumed()
            );
            self.fail(Rule::Flow, at, node, what);
        }
        for (origin, state) in self.origins.iter().enumerate() {
            let accepted = state.first + state.accepted.len();
            let delivered = self.progress[rank][origin].messages;
            if delivered != accepted {
                let what = format!("delivered {delivered} of {accepted} messages of rank {origin}");
                return self.fail(Rule::Validity, at, node, what);
            }
        }
        if !chain.is_at_rest() {
            let held: Vec<_> = chain.origins().filter(|&(_, freed, all)| freed < all).collect();
            self.fail(Rule::Quiescence, at, node, format!("not at rest: holds {held:?}"));
        }
    }

    fn check_balance<P: Member>(&mut self, sim: &Sim<P>) {
        let (at, counters) = (sim.now(), sim.counters());
        let mut accounted =
            counters.count("chain_skipped") + counters.count("chain_link_duplicate");
        for rank in 0..self.view.len() {
            let origins = sim.node(self.view.node(rank)).chain().origins();
            accounted +=
                origins.filter(|o| o.0 != rank).map(|(_, _, received)| received).sum::<u64>();
        }
        let refused: Vec<_> =
            counters.sorted().into_iter().filter(|(name, _)| shows_fault(name)).collect();
        if accounted != self.frames_arrived || !refused.is_empty() {
            let what = format!(
                "{} frames arrived, {accounted} taken or known; refused {refused:?}",
                self.frames_arrived
            );
            self.fail(Rule::Balance, at, self.view.node(0), what);
        }
    }

    fn fail(&mut self, rule: Rule, at: Instant, node: NodeId, what: String) {
        self.report.note(at, node, (rule, what));
    }

    fn rank(&self, node: NodeId) -> usize {
        self.view.rank(node).expect("the ledger's members are the run's nodes")
    }

    fn accept(&mut self, node: NodeId, payload: &Payload) {
        let rank = self.rank(node);
        if payload.len() > self.message_bytes_max {
            self.is_rejection_due = true;
            return;
        }
        let blocks = payload.len().div_ceil(self.block_bytes_max).max(1) as u64;
        let payload = payload.clone();
        let accepted = Accepted { blocks, end: None, payload, deliveries: 0 };
        self.origins[rank].accepted.push_back(accepted);
    }

    fn check_delivery(&mut self, at: Instant, node: NodeId, event: &Event) {
        let (origin, incarnation, seq, end, payload) = match event {
            Event::Delivered { origin, incarnation, seq, end, payload } => {
                (*origin, *incarnation, *seq, *end, payload)
            }
            Event::Rejected { reason } => {
                if !std::mem::take(&mut self.is_rejection_due) {
                    self.fail(Rule::Validity, at, node, format!("rejected for no cause: {reason}"));
                }
                return;
            }
        };
        let (member, rank) = (self.rank(node), self.rank(origin));
        let members = self.view.len();
        let progress = &mut self.progress[member][rank];
        let state = &mut self.origins[rank];
        let (next, begins) = (progress.messages, progress.blocks);
        let accepted = (state.first + state.accepted.len()) as u64;
        let broken = match state.message(next) {
            _ if seq < next as u64 => Some((Rule::Integrity, " again".to_owned())),
            _ if seq >= accepted => Some((Rule::Integrity, ", which was never sent".to_owned())),
            Some(_) if seq > next as u64 => Some((Rule::Fifo, format!(", but {next} comes first"))),
            Some(message)
                if !message.may_end(begins, end)
                    || message.payload != *payload
                    || state.incarnation.is_some_and(|known| known != incarnation) =>
            {
                Some((Rule::Integrity, format!(", {} bytes, altered", payload.len())))
            }
            _ => None,
        };
        if let Some((rule, what)) = broken {
            let what = format!("delivered message {seq} of {origin}, to block {end}{what}");
            return self.fail(rule, at, node, what);
        }
        state.incarnation = Some(incarnation);
        let message = &mut state.accepted[next - state.first];
        message.deliveries += 1;
        message.end = Some(end);
        progress.messages += 1;
        progress.blocks = end;
        self.deliveries += 1;
        while state.accepted.front().is_some_and(|message| message.deliveries == members) {
            state.accepted.pop_front();
            state.first += 1;
        }
    }

    fn check_frame(&mut self, at: Instant, from: NodeId, to: NodeId, frame: &Frame) {
        let (sender, receiver) = (self.rank(from), self.rank(to));
        let wrong = match Passage::from(frame).wrong(self.view.len(), sender, receiver) {
            _ if frame.view != self.views[sender] => Some("of a view that is not current"),
            Some(wrong) => Some(wrong),
            None => {
                let is_new = self.check_link(at, from, to, frame.link);
                let stable = self.origins[frame.origin as usize].stable;
                let hop = self.hops.entry((from, to)).or_default();
                (is_new && !hop.is_first(frame.origin, frame.seq, stable))
                    .then_some("sent a second time under a new link number")
            }
        };
        if let Some(what) = wrong {
            let name = format!("block {} of rank {} to {to}", frame.seq, frame.origin);
            self.fail(Rule::Transmission, at, from, format!("{name} {what}"));
        }
    }

    /// Notes a link number. True if it is a new one.
    fn check_link(&mut self, at: Instant, from: NodeId, to: NodeId, link: u64) -> bool {
        let hop = self.hops.entry((from, to)).or_default();
        hop.note_link(link).unwrap_or_else(|what| {
            self.fail(Rule::Transmission, at, from, format!("frame {link} to {to} {what}"));
            false
        })
    }

    fn check_state(&mut self, at: Instant, node: NodeId, chain: &Chain) {
        let rank = self.rank(node);
        for (origin, stable, received) in chain.origins() {
            self.progress[rank][origin].received = received;
            if stable > self.progress[rank][origin].stable {
                self.progress[rank][origin].stable = stable;
                self.check_freed(at, node, origin, stable);
            }
        }
        for (origin, credit) in chain.credits() {
            self.progress[rank][origin].credit = credit;
        }
        self.origins[rank].stable = chain.blocks_stable();
        let (sent, consumed) = (chain.blocks_sent(), chain.blocks_consumed());
        let (blocks, bytes) = (chain.blocks_in_flight(), chain.bytes_in_flight());
        if sent != consumed + blocks as u64 {
            let what =
                format!("{sent} blocks sent, but {blocks} in flight and {consumed} consumed");
            self.fail(Rule::Flow, at, node, what);
        }
        if consumed > self.origins[rank].credit_lowest {
            let credits = self.progress.iter().map(|origins| origins[rank].credit);
            let lowest = credits.min().unwrap_or(0);
            self.origins[rank].credit_lowest = lowest;
            if consumed > lowest {
                let what =
                    format!("takes {consumed} blocks for consumed, a member granted {lowest}");
                self.fail(Rule::Flow, at, node, what);
            }
        }
        if blocks > self.window_blocks || bytes > self.window_bytes {
            let what = format!("{blocks} blocks of {bytes} bytes in flight, beyond the window");
            self.fail(Rule::Stability, at, node, what);
        }
        let (held, held_max) = (chain.bytes_held(), self.window_bytes * self.view.len());
        if held > held_max {
            let what = format!("holds {held} bytes, at most {held_max} are allowed");
            self.fail(Rule::Stability, at, node, what);
        }
    }

    fn check_freed(&mut self, at: Instant, node: NodeId, origin: usize, freed: u64) {
        if freed <= self.origins[origin].received_lowest {
            return;
        }
        let received = self.progress.iter().map(|origins| origins[origin].received);
        let lowest = received.min().unwrap_or(0);
        self.origins[origin].received_lowest = lowest;
        if freed > lowest {
            let what =
                format!("freed blocks of rank {origin} below {freed}, a member has {lowest}");
            self.fail(Rule::Stability, at, node, what);
        }
    }
}

impl<P: Member> Observer<P> for ChainLedger {
    fn before_call(&mut self, _at: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        match input {
            Input::Command(Command::Broadcast { payload, .. }) => self.accept(node, payload),
            Input::Message { message: Message::Data(_) | Message::Skip { .. }, .. } => {
                self.frames_arrived += 1;
            }
            Input::Peer { peer, state: PeerState::Up { .. } } => {
                self.hops.entry((node, *peer)).or_default().resume();
            }
            Input::View(view) => {
                let rank = self.rank(node);
                self.views[rank] = view.id();
            }
            _ => {}
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        self.check_delivery(at, node, event);
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, lane: Lane, message: &Message) {
        match message {
            Message::Data(frame) => self.check_frame(at, from, to, frame),
            Message::Skip { link, .. } => {
                self.check_link(at, from, to, *link);
            }
            _ => {}
        }
        let is_stream =
            matches!(message, Message::Data(_) | Message::Skip { .. } | Message::Resync { .. });
        if is_stream != (lane == Lane::Stream) {
            let what = format!("{} bytes to {to} on the wrong lane", message.wire_len());
            self.fail(Rule::Transmission, at, from, what);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        if std::mem::take(&mut self.is_rejection_due) {
            self.fail(Rule::Validity, at, node, "accepted a message that is too large".into());
        }
        self.check_state(at, node, protocol.chain());
        if let Err(what) = self.offered.check(at, node, protocol.admission()) {
            let chain = protocol.chain();
            let (waiting, in_flight) = (chain.messages_waiting(), chain.blocks_in_flight());
            let what = format!("{what}: {waiting} messages wait, {in_flight} blocks in flight");
            self.fail(Rule::Flow, at, node, what);
        }
        if self.report.is_broken() {
            reply.stop();
        }
    }
}

/// True of what an honest group of live members never counts.
fn shows_fault(counter: &str) -> bool {
    COUNTERS.find(counter).is_some_and(|id| id.counter().shows_fault)
}
