//! Groups: members that come and go agree on views, and broadcast inside them.
//!
//! A [`Group`] holds a member's broadcast ([`crate::chain`]), its failure detector
//! ([`crate::detector`]) and the agreement on views. It guarantees *virtual synchrony*: members
//! that go from one view to the next together have delivered the same messages in it.
//!
//! # How a view ends
//!
//! The oldest member that is not suspected proposes. It asks all members that it takes for alive to
//! *prepare*, under a ballot. Each of them freezes its broadcast, so that it neither sends nor
//! accepts blocks of the view, and promises to take part in no earlier attempt. Its promise says
//! what it has received of each origin and which proposal it has accepted before. From the promises
//! the proposer makes a proposal: the members of the next view, and for each origin the last block
//! that some survivor has. Members fetch missing blocks from such a survivor, deliver them, and
//! *accept*. Once all members that the ballot asked have accepted, the view is decided, and
//! *installed*.
//!
//! # Why two views never follow one
//!
//! The members that a ballot asks must be a quorum of the view that ends: more than half, or half
//! with the oldest among them. Any two quorums share a member. A view is decided only when all
//! members that its ballot asked have accepted it. So if it was decided, a later proposer, which
//! holds the promises of a quorum, finds it accepted by every promised member that the earlier
//! ballot asked. Only in that case may the view have been decided, and only then must it be
//! proposed again. A proposal adopted in this way counts as perhaps decided from then on.

mod agree;
mod config;
mod correlated;
pub mod counters;
mod direct;
mod founding;
mod gather;
mod interface;
mod join;
mod links;
mod message;
mod pair;
mod post;
mod propose;
mod quorum;
mod requests;
mod seen;
mod watch;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;

use crate::chain::{self, Chain, RejectReason};
use crate::core::{
    Context, Instant, Lane, Member, MembershipCommand, NodeId, Outbox, PeerState, Protocol, Terms,
    View, ViewId, WatchNews, Wire,
};
use crate::parts::deadline::Deadline;
use agree::Acceptor;
use config::REPEAT_EVERY;
use gather::Gathering;
use join::Joiner;
use links::Links;
use post::Post;
use propose::{Installing, Promise, Proposer};
use requests::Requests;
use watch::Watch;

pub use config::Config;
pub use correlated::{Correlated, Correlation, CorrelationId};
pub use direct::Direct;
pub use interface::{
    Answer, Command, Event, Expect, Gather, RequestFailure, Role, SendFailure, Timer,
};
pub use message::{
    Ballot, Contact, Cut, EXPECT_MAX, Founding, FoundingBallot, MEMBERS_MAX, Message, Proposal,
    Received, Refusal,
};
pub use quorum::{Quorum, Tally, Verdict};

/// A node's part in a group.
pub struct Group {
    chain: Chain,
    inner: Outbox<Chain>,
    watch: Watch,
    me: Contact,
    role: Role,
    // The driver's incarnation is used up.
    has_begun: bool,
    asked: Vec<NodeId>,
    // Set while the node may create the group with others.
    gathering: Option<Box<Gathering>>,
    // The view installed last, its members' contacts by rank, and the name of its proposal.
    view: Arc<View>,
    contacts: Vec<Contact>,
    made_at: Ballot,
    acceptor: Acceptor,
    proposer: Option<Box<Proposer>>,
    installing: Option<Installing>,
    joiners: BTreeMap<NodeId, Joiner>,
    joins_at: Instant,
    leavers: BTreeSet<NodeId>,
    // Members of the view that claim that the group continued without this one, and since when
    // there has been a claim.
    claims: BTreeSet<NodeId>,
    claimed_since: Option<Instant>,
    // When each member last confirmed that it is in the present view and has accepted no other.
    present: BTreeMap<NodeId, Instant>,
    // Members that have not answered an attempt, and since when.
    unanswered: BTreeMap<NodeId, Instant>,
    // Taken for down: they held this member back for too long, or are in another view of the same
    // number.
    expelled: BTreeSet<NodeId>,
    stall: Option<Stall>,
    // Of accepted messages, from the first that is not known to be everywhere.
    tickets: VecDeque<u64>,
    stable: u64,
    // The broadcast that is being handed over.
    ticket: u64,
    round: u32,
    // Views in a row that others ended while an attempt of this member came to nothing.
    vain_views: u32,
    has_primary: bool,
    // Since when the view should change.
    change_since: Option<Instant>,
    // Messages to one member, and requests among them.
    post: Post,
    requests: Requests,
    links: Links,
    // Blocks of the next view that came before it was installed here.
    early: Vec<(NodeId, Message)>,
    early_bytes: usize,
    repeat_at: Instant,
    // Times in a row that messages were repeated and nothing of the agreement arrived.
    repeats: u32,
    excluded_after: Instant,
    wake_up: Deadline,
}

/// This member's window is closed.
#[derive(Clone, Copy, Debug)]
struct Stall {
    // The first block that was not consumed, and since when.
    consumed: u64,
    since: Instant,
    is_told: bool,
}

type Cx<'a> = Context<'a, Group>;

impl Group {
    /// A node outside the group.
    pub fn new(config: &Config) -> Group {
        let no_member = Member { node: NodeId(u64::MAX), incarnation: 0 };
        Group {
            chain: Chain::new(&config.chain),
            inner: Outbox::default(),
            watch: Watch::default(),
            me: Contact { member: no_member, host: 0, token: 0, address: Bytes::new() },
            role: Role::Outside,
            has_begun: false,
            asked: Vec::new(),
            gathering: None,
            view: Arc::new(View::new(ViewId(0), [])),
            contacts: Vec::new(),
            made_at: Ballot { round: 0, proposer: NodeId(0) },
            acceptor: Acceptor::default(),
            proposer: None,
            installing: None,
            joiners: BTreeMap::new(),
            joins_at: Instant::MAX,
            leavers: BTreeSet::new(),
            claims: BTreeSet::new(),
            claimed_since: None,
            present: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            expelled: BTreeSet::new(),
            stall: None,
            tickets: VecDeque::new(),
            stable: 0,
            ticket: 0,
            round: 0,
            vain_views: 0,
            has_primary: false,
            change_since: None,
            post: Post::default(),
            requests: Requests::default(),
            links: Links::default(),
            early: Vec::new(),
            early_bytes: 0,
            repeat_at: Instant::MAX,
            repeats: 0,
            excluded_after: Instant::ZERO,
            wake_up: Deadline::UNARMED,
        }
    }

    /// The node's role in the group.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The view installed last; view 0 without members before the first.
    pub fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// The member's broadcast.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// True while the node is a member and enough others are reachable.
    pub fn has_primary(&self) -> bool {
        self.has_primary && self.is_member()
    }

    /// This node's identity in the group; it changes after the node was excluded.
    pub fn member(&self) -> Member {
        self.me.member
    }

    /// Bytes that this member holds because of what others sent: blocks and messages, also those of
    /// a view to come, and what it remembers of nodes.
    pub fn memory_bytes(&self) -> usize {
        let nodes = self.leavers.len() + self.claims.len() + self.expelled.len() + self.asked.len();
        self.chain.bytes_held()
            + self.early_bytes
            + self.post.memory_bytes()
            + self.requests.memory_bytes()
            + self.links.memory_bytes()
            + self.gathering.as_ref().map_or(0, |gathering| gathering.memory_bytes())
            + self.joiners.len() * size_of::<Joiner>()
            + (self.unanswered.len() + self.present.len()) * size_of::<(NodeId, Instant)>()
            + nodes * size_of::<NodeId>()
    }

    fn is_member(&self) -> bool {
        matches!(self.role, Role::Member | Role::Leaving)
    }

    fn rank_of_me(&self) -> Option<usize> {
        self.view.rank(self.me.member.node)
    }

    /// Calls the broadcast and passes on what it asks for.
    fn with_chain<R>(
        &mut self,
        cx: &mut Cx<'_>,
        call: impl FnOnce(&mut Chain, &mut Context<'_, Chain>) -> R,
    ) -> R {
        let shared = cx.shared;
        let incarnation = self.me.member.incarnation;
        let mut inner = cx.nest(incarnation, &shared.chain, &mut self.inner, 1);
        let result = call(&mut self.chain, &mut inner);
        let view = self.chain.view().id();
        self.inner.pass_to(cx.outbox, Message::Chain, Timer::Chain);
        for event in self.inner.events.drain(..) {
            cx.deliver(match event {
                chain::Event::Delivered { origin, incarnation, seq, end, payload } => {
                    Event::Delivered { view, origin, incarnation, seq, end, payload }
                }
                chain::Event::Rejected { reason } => {
                    Event::Rejected { ticket: self.ticket, reason }
                }
            });
        }
        while self.stable < self.chain.messages_stable() {
            self.stable += 1;
            match self.tickets.pop_front() {
                None | Some(0) => {}
                Some(ticket) => cx.deliver(Event::Stable { ticket }),
            }
        }
        result
    }

    /// Sends a message of the agreement: by datagram, or by stream if it is longer than one.
    fn send(&self, cx: &mut Cx<'_>, to: NodeId, message: Message) {
        let fits = message.wire_len() <= cx.datagram_bytes_max;
        cx.send(to, if fits { Lane::Datagram } else { Lane::Stream }, message);
    }

    /// Starts over, before joining for the first time or again: as another incarnation each time.
    fn begin(&mut self, cx: &mut Cx<'_>) {
        let incarnation = if self.has_begun { cx.rng.next_u64() } else { cx.incarnation };
        self.has_begun = true;
        self.me.member = Member { node: cx.node, incarnation };
        self.me.host = cx.host.unwrap_or(0);
        self.me.token = cx.rng.next_u64();
        self.renew_chain(cx);
        self.begin_watch(cx);
        self.view = Arc::new(View::new(ViewId(0), []));
        self.contacts.clear();
        self.acceptor = Acceptor::default();
        (self.proposer, self.installing, self.gathering) = (None, None, None);
        self.joiners.clear();
        self.leavers.clear();
        self.claims.clear();
        self.claimed_since = None;
        self.present.clear();
        self.unanswered.clear();
        self.expelled.clear();
        self.stall = None;
        self.links = Links::default();
        self.early.clear();
        self.early_bytes = 0;
        (self.has_primary, self.change_since, self.vain_views) = (false, None, 0);
        (self.joins_at, self.repeat_at, self.repeats) = (Instant::MAX, Instant::MAX, 0);
    }

    /// A broadcast outside any view.
    fn renew_chain(&mut self, cx: &Cx<'_>) {
        self.chain = Chain::new(&cx.shared.chain);
        self.tickets.clear();
        self.stable = 0;
    }

    /// Blocks that the broadcast cannot take yet wait; others go to it.
    fn receive_chain(&mut self, cx: &mut Cx<'_>, from: NodeId, message: chain::Message) {
        let view = message.view();
        if view > self.view.id() && self.awaits_view() {
            if !message.waits_for_view() {
                return; // It is repeated.
            }
            return self.keep_early(cx, from, Message::Chain(message));
        }
        if view < self.view.id() && self.is_member() && self.view.rank(from).is_none() {
            self.tell_excluded(cx, from);
        }
        let mut asks = None;
        match message {
            chain::Message::Ack { received, .. } => {
                self.note_heard(from, view);
                if received == 0 && self.chain.members_counted().is_none() {
                    return; // It says that the link works, to one that has sent nothing.
                }
            }
            chain::Message::Unconsumed { .. } => self.note_heard(from, view),
            chain::Message::Probe { incarnation, .. } if view == self.view.id() => {
                let member = Member { node: from, incarnation };
                asks = self.view.contains(member).then_some(incarnation);
            }
            _ => {}
        }
        self.with_chain(cx, |chain, cx| chain.handle_message(cx, from, message));
        if let Some(incarnation) = asks {
            self.tell_that_view_ends(cx, from);
            self.with_chain(cx, |chain, cx| chain.answer_ask(cx, from, incarnation));
        }
    }

    /// An acknowledgement that belongs to this view has come.
    fn note_heard(&mut self, from: NodeId, view: ViewId) {
        if let Some(rank) = self.view.rank(from).filter(|_| view == self.view.id()) {
            self.links.note_heard(rank);
        }
    }

    /// True if another view than the present one may be installed already elsewhere, with this
    /// node in it.
    fn awaits_view(&self) -> bool {
        self.is_ending() || self.role == Role::Joining
    }

    /// Keeps a message of a view that is not installed here yet.
    fn keep_early(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        let bytes = message.wire_len();
        if self.early_bytes + bytes > cx.shared.early_bytes_max {
            cx.count(counters::EARLY_OVERFLOW, 1);
            return cx.disconnect(from);
        }
        self.early_bytes += bytes;
        self.early.push((from, message));
    }

    /// Handles the messages that came before their view was installed here.
    fn replay_early(&mut self, cx: &mut Cx<'_>) {
        let early = std::mem::take(&mut self.early);
        self.early_bytes = 0;
        for (from, message) in early {
            match message {
                Message::Chain(message) if message.view() >= self.view.id() => {
                    self.receive_chain(cx, from, message);
                }
                Message::Direct(block) => self.receive_direct(cx, from, None, block),
                Message::Correlated(message) => {
                    self.receive_direct(cx, from, Some(message.head), message.block);
                }
                _ => {}
            }
        }
    }

    fn tell_excluded(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        if cx.now < self.excluded_after {
            return;
        }
        // Several may ask each `repeat_every`.
        self.excluded_after = cx.now + REPEAT_EVERY / 4;
        self.send(cx, node, Message::Excluded { view: self.view.id() });
    }

    /// Checks whether this member's window stays closed, and which members keep it closed.
    fn look_for_laggards(&mut self, cx: &mut Cx<'_>) {
        let Some((consumed, members)) = self.chain.held_back_by() else {
            self.stall = None;
            return;
        };
        let stall = self.stall.get_or_insert(Stall { consumed, since: cx.now, is_told: false });
        if stall.consumed != consumed {
            *stall = Stall { consumed, since: cx.now, is_told: false };
        }
        let lasts = cx.now.since(stall.since);
        if lasts >= cx.shared.lag_after && !stall.is_told {
            stall.is_told = true;
            let members = members.collect();
            cx.deliver(Event::Lagging { members });
        } else if cx.shared.expel_after.is_some_and(|after| lasts >= after) {
            self.expelled.extend(members);
        }
    }

    /// When to check a closed window again.
    fn stall_deadline(&self, cx: &Cx<'_>) -> Instant {
        let Some(stall) = &self.stall else { return Instant::MAX };
        match (stall.is_told, cx.shared.expel_after) {
            (false, _) => stall.since + cx.shared.lag_after,
            (true, Some(after)) if self.expelled.is_empty() => {
                stall.since + after.max(cx.shared.lag_after)
            }
            (true, _) => Instant::MAX,
        }
    }

    /// After an input: does what is due and asks to be woken for what comes next.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        self.poll_gathering(cx);
        self.look_for_laggards(cx);
        self.consider_change(cx);
        let deadline = self.deadline(cx);
        self.arm(cx, deadline);
    }

    /// After an input of the broadcast. Such an input can only change which members hold this one
    /// back, so a block does not cost a check of every member.
    fn settle_broadcast(&mut self, cx: &mut Cx<'_>) {
        let expelled = self.expelled.len();
        self.look_for_laggards(cx);
        if self.expelled.len() != expelled {
            return self.settle(cx);
        }
        self.watch_links(cx);
        let deadline = self.stall_deadline(cx).min(self.links.look_at);
        self.arm(cx, deadline);
    }

    /// Before an input. A late wake-up by the driver shows that this member was paused. Others may
    /// have acted meanwhile, and their messages wait to be read, so the time does not count.
    fn compensate_pause(&mut self, cx: &Cx<'_>) {
        let lost = self.wake_up.late_by(cx.now);
        if lost.is_zero() {
            return;
        }
        self.wake_up.fired(cx.now);
        if let Some(proposer) = &mut self.proposer {
            proposer.since += lost;
        }
        self.unanswered.values_mut().for_each(|since| *since += lost);
        if let Some(stall) = &mut self.stall {
            stall.since += lost;
        }
        if let Some(since) = &mut self.claimed_since {
            *since += lost;
        }
        self.present.values_mut().for_each(|at| *at += lost);
        self.watch.make_up(lost);
        self.links.make_up(lost);
    }

    fn arm(&mut self, cx: &mut Cx<'_>, deadline: Instant) {
        if deadline != Instant::MAX {
            // One that is due now may fire before this input or after it.
            self.wake_up.fired(cx.now);
            self.wake_up.set(cx, deadline, Timer::Group);
        }
    }

    fn deadline(&self, cx: &Cx<'_>) -> Instant {
        let detector = if self.is_member() { self.watch.deadline() } else { Instant::MAX };
        let gathering = self.gathering.as_ref().map_or(Instant::MAX, |it| it.deadline());
        let agreement = self.repeat_at.min(self.next_attempt_at(cx)).min(gathering);
        let requests = self.requests.deadline();
        let own = self.stall_deadline(cx).min(self.links.look_at);
        detector.min(agreement).min(own).min(requests)
    }
}

impl Protocol for Group {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn terms(config: &Config) -> Terms {
        config.terms()
    }

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        self.me.member = Member { node: cx.node, incarnation: cx.incarnation };
    }

    fn handle_peer(&mut self, cx: &mut Cx<'_>, peer: NodeId, state: PeerState) {
        self.compensate_pause(cx);
        self.with_chain(cx, |chain, cx| chain.handle_peer(cx, peer, state));
        self.note_stream(cx, peer, state);
        match state {
            PeerState::Down => self.probe_member(cx, peer),
            // A driver has found which node is at the address of a peer.
            PeerState::Up { .. } if self.role == Role::Joining => self.add_asked(cx, peer),
            PeerState::Up { .. } | PeerState::Suspect => {}
        }
        self.settle(cx);
    }

    fn handle_watched(&mut self, cx: &mut Cx<'_>, node: NodeId, news: WatchNews) {
        self.compensate_pause(cx);
        self.note_news(cx, node, news);
        self.settle(cx);
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        self.compensate_pause(cx);
        match message {
            Message::Chain(message) => {
                self.receive_chain(cx, from, message);
                return self.settle_broadcast(cx);
            }
            Message::Direct(block) => {
                self.receive_direct(cx, from, None, block);
                return self.settle_broadcast(cx);
            }
            Message::Correlated(message) => {
                self.receive_direct(cx, from, Some(message.head), message.block);
                return self.settle_broadcast(cx);
            }
            Message::DirectAck { sender, receiver, received, consumed } => {
                self.receive_direct_ack(cx, from, (sender, receiver), received, consumed);
                return self.settle_broadcast(cx);
            }
            Message::DirectProbe { sender, receiver } => {
                self.receive_direct_probe(cx, from, (sender, receiver));
                return self.settle_broadcast(cx);
            }
            Message::Detector(bytes) => self.receive_detector(cx, from, &bytes),
            Message::Join(contact) => self.receive_join(cx, from, contact),
            Message::Challenge { token, nonce } => self.receive_challenge(cx, from, token, nonce),
            Message::Response { nonce } => self.receive_response(cx, from, nonce),
            Message::Refused { token, refusal } => {
                if self.role == Role::Joining && token == self.me.token {
                    self.note_group(cx);
                    cx.deliver(Event::JoinRefused { refusal });
                }
            }
            Message::Unreachable { view, members } => {
                self.receive_unreachable(cx, from, view, &members);
            }
            Message::Leave { view, incarnation } => {
                self.receive_leave(cx, from, view, incarnation);
            }
            Message::Prepare { view, digest, ballot } => {
                self.receive_prepare(cx, from, view, digest, ballot);
            }
            Message::Promise { view, digest, ballot, accepted, received } => {
                let promise = Promise { accepted, received };
                self.receive_promise(cx, from, (view, digest), ballot, promise);
            }
            Message::Accept { view, ballot, proposal } => {
                self.receive_accept(cx, from, view, ballot, proposal);
            }
            Message::Accepted { view, ballot } => self.receive_accepted(cx, from, view, ballot),
            Message::Rejected { view, promised } => {
                self.receive_rejected(cx, from, view, promised);
            }
            Message::Install { after, made_at, members } => {
                self.receive_install(cx, from, after, made_at, members);
            }
            Message::Installed { view } => self.receive_installed(cx, from, view),
            Message::Present { view } => self.receive_present(cx, from, view),
            Message::Fetch { view, origin, from: first, to } => {
                self.answer_fetch(cx, from, view, origin, first, to);
            }
            Message::Flushed(frame) => self.receive_flushed(cx, from, frame),
            Message::Excluded { view } => self.receive_excluded(cx, from, view),
            Message::Gather { .. }
            | Message::GatherPrepare { .. }
            | Message::GatherPromise { .. }
            | Message::GatherAccept { .. }
            | Message::GatherAccepted { .. }
            | Message::GatherRejected { .. } => self.receive_gathering(cx, from, message),
        }
        self.settle(cx);
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        self.compensate_pause(cx);
        match timer {
            Timer::Chain(timer) => {
                self.with_chain(cx, |chain, cx| chain.handle_timer(cx, timer));
                return self.settle_broadcast(cx);
            }
            Timer::Group => {
                // Whichever fire it is, the parts below look at their own deadlines.
                self.wake_up.fired(cx.now);
                self.expire_requests(cx);
                self.poll_detector(cx);
                self.look_at_links(cx);
                if self.repeat_at <= cx.now {
                    self.repeat_at = Instant::MAX;
                    self.repeats = self.repeats.saturating_add(1);
                    self.repeat(cx);
                }
            }
        }
        self.settle(cx);
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        self.compensate_pause(cx);
        match command {
            Command::Membership(command) => match command {
                MembershipCommand::Bootstrap { address } => self.bootstrap(cx, address),
                MembershipCommand::Join { address, peers } => self.join(cx, address, peers),
                MembershipCommand::Leave => self.leave(cx),
            },
            Command::Gather(command) => self.gather(cx, command),
            Command::Broadcast { payload, topology, urgency, ticket } => {
                if self.role != Role::Member {
                    cx.deliver(Event::Rejected { ticket, reason: RejectReason::NotAMember });
                } else if !self.has_primary {
                    cx.deliver(Event::Rejected { ticket, reason: RejectReason::LostPrimary });
                } else {
                    self.ticket = ticket;
                    // The only reason for which the broadcast of a member refuses.
                    if payload.len() <= cx.shared.chain.message_bytes_max() {
                        self.tickets.push_back(ticket);
                    }
                    let command = chain::Command::Broadcast { payload, topology, urgency };
                    self.with_chain(cx, |chain, cx| chain.handle_command(cx, command));
                }
            }
            Command::SendTo { to, payload, ticket } => self.send_to(cx, to, payload, ticket),
            Command::Request { to, payload, within, ticket } => {
                self.request(cx, to, payload, within, ticket);
            }
            Command::CancelRequest { ticket } => self.cancel_request(ticket),
            Command::Answer { to, id, answer, ticket } => self.answer(cx, to, id, answer, ticket),
            Command::ConsumedDirect { from, end } => self.consumed_direct(cx, from, end),
            Command::Consumed { view, origin, end } => {
                self.with_chain(cx, |chain, cx| chain.consumed_in(cx, view, origin, end));
            }
        }
        self.watch_links(cx);
        self.settle(cx);
    }

    fn handle_drained(&mut self, cx: &mut Cx<'_>, to: NodeId) {
        self.with_chain(cx, |chain, cx| chain.handle_drained(cx, to));
    }

    fn admission(&self) -> usize {
        // Refused, not delayed, where no view is in sight.
        if self.has_primary() { self.chain.admission() } else { 1 }
    }

    fn event_bytes(event: &Event) -> usize {
        event.bytes()
    }

    fn is_departure(event: &Event) -> bool {
        matches!(event, Event::Left)
    }
}

#[cfg(test)]
mod tests;
