//! Structured overlays: a message to a key reaches the responsible node in a few hops, and messages
//! that share a next hop travel as one.
//!
//! A [`Router`] is the routing table of one algorithm, free of messages: [`Key`]s in, nodes out.
//! There are five, one for each [`Algorithm`]: [`Chord`], [`Koorde`], [`Pastry`], [`Tapestry`] and
//! [`Kademlia`]. They agree on this much:
//!
//! - A table admits only nodes that have sent a message themselves. It contacts a node that another
//!   one names before admitting it, so that hearsay does not spread failed nodes.
//! - A message comes nearer with each hop, by a measure that does not depend on other tables. So it
//!   does not go in circles while tables are being repaired; it may end at a node that is not
//!   responsible.
//! - The [`Oracle`] gives the responsible nodes that correct tables lead to.
//!
//! An [`Overlay`] is a node: a router, the look-ups of its application, and storage. It sends,
//! waits for answers, maintains its router's table, and carries out the actions of storage.
//!
//! # Collective forwarding
//!
//! An application's request is a *bundle* of keys. The requester, and each hop after it, looks up
//! the next hop of every target, divides the bundle by next hop, and sends one message to each;
//! parts are never put together again, and never held back. Targets for which the node itself is
//! responsible end there. So a bundle spreads as a tree, and a bundle of one key travels as any
//! message does. Shudo, *Message Bundling on Structured Overlays*, ISCC 2017.
//!
//! *Recursive*: each hop acknowledges the bundle and forwards its parts; the node where targets end
//! sends one result straight to the requester. *Iterative*: the requester asks each hop for the
//! next. In both styles, a hop that does not answer is removed from the table and its targets are
//! divided again; the requester repeats its request for targets without an outcome in time. Each
//! key gets one outcome.
//!
//! # Storage
//!
//! Storage is a state machine of its own, in the folder `storage`, with a narrow interface to
//! routing. The node that is responsible for a key gives its record a version, stores it, and
//! answers once the other replicas hold copies. Replicas compare versions periodically, to restore
//! copies after failures and to move them to nodes that became responsible. A removed record leaves
//! a tombstone for a while, so that no old copy revives it. A scan reads all records, page by page,
//! each page from the node that is responsible for its keys ([`Scan`]).

mod act;
mod addresses;
mod algorithm;
mod bundle;
mod cells;
mod chord;
mod client;
mod command;
mod config;
pub mod counters;
mod exchange;
mod host;
mod kademlia;
mod key;
mod koorde;
mod leg;
mod list;
mod lookup;
mod message;
mod oracle;
mod overdue;
mod parallel;
mod pastry;
mod place;
mod ranges;
mod recent;
mod record;
mod relay;
mod request;
mod router;
mod scan;
mod shape;
mod stat;
mod storage;
mod tapestry;
mod upkeep;
mod walk;
mod wire;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::core::{
    Context, CounterId, DecodeError, Instant, Lane, MembershipCommand, NodeId, Payload, PeerState,
    Protocol, Terms, Wire,
};
use crate::parts::rtt::Rtt;
use addresses::Whereabouts;
use exchange::{Cause, Exchange, Numbered, Trail};
use ranges::Ranges;
use recent::Recent;
use request::{Owner, Request};
use storage::Storage;
use upkeep::{Joining, Upkeep};

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use chord::Chord;
pub use command::{
    Command, Event, FailReason, Item, JoinFailure, NodeDescription, Operation, Outcome, Page,
    RejectReason, Role, Scan, Style,
};
pub use config::{Config, PingPolicy};
pub use kademlia::Kademlia;
pub use key::{InvalidKey, Key, Space};
pub use koorde::{Koorde, KoordeWalk, Side};
pub use leg::Leg;
pub use message::{Addresses, Body, Found, Message, Purpose, Route, Segment, Target};
pub use oracle::Oracle;
pub use pastry::Pastry;
pub use record::{
    Answer, CANDIDATES_MAX, CopyAnswer, Expect, HEAD_BYTES_MAX, ITEMS_MAX, InvalidVersion,
    MESSAGE_BYTES_MAX, MISSING_MAX, NEIGHBOURS_MAX, NODES_MAX, NodeStat, PutAnswer, PutIfAnswer,
    PutIfItem, PutItem, Record, ScanAnswer, Stamp, Successor, Version,
};
pub use router::{Hop, Router, RouterAction, Step, TableQuery};
use router::{keep_distinct, keep_nearest};
pub use shape::Shape;
pub use storage::{Held, Store};
pub use tapestry::Tapestry;
pub use walk::Walk;

/// A node of an overlay: forwards bundles, stores records, and asks on behalf of its application.
pub struct Overlay {
    router: Box<dyn Router>,
    role: Role,
    is_due_armed: bool,
    rtt: Rtt<1_000>,
    exchanges: Numbered<Exchange>,
    recent: Option<Box<Recent>>,
    storage: Storage,
    state: Option<Box<LazyState>>,
}

/// State that a node allocates at first use: a node that only forwards has none.
#[derive(Default)]
struct LazyState {
    pub requests: Numbered<Request>,
    // The number of the last write of this run.
    pub writes: u32,
    // No write of this node has a higher version count, by key.
    version_floors: BTreeMap<Key, u64>,
    pub ranges: Ranges,
    pub delivered: Vec<(NodeId, u64, Key, Instant)>,
    pub upkeep: Upkeep,
    pub joining: Option<Joining>,
    // Members that a client knows from outside.
    pub guides: Vec<NodeId>,
    pub leave_by: Instant,
    // Where this node is, and others are. Empty if the application gave no address.
    pub address: Bytes,
    pub addresses: BTreeMap<NodeId, Whereabouts>,
}

/// How much longer a node waits for an answer that waits for a disk.
const DISK_PATIENCE: Duration = Duration::from_millis(500);
/// Keys of which a writer remembers how high versions may have gone.
const VERSION_FLOORS_MAX: usize = 4096;
/// How far one write may raise the version: one step for each node that may consider itself
/// responsible without knowing the others.
const VERSION_FLOOR_STEP: u64 = 16;

impl LazyState {
    /// How high the version of this node's earlier writes under a key may be. It goes up with
    /// each write, known to have been done or not, so that after a cut of the network the last
    /// write is the newest.
    pub fn raise_version_floor(&mut self, key: Key) -> u64 {
        if self.version_floors.len() >= VERSION_FLOORS_MAX
            && !self.version_floors.contains_key(&key)
        {
            self.version_floors.pop_first();
        }
        let floor = self.version_floors.entry(key).or_default();
        let before = *floor;
        *floor += VERSION_FLOOR_STEP;
        before
    }
}

/// Why the driver wakes a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Something may be unanswered for too long.
    Due,
    /// Upkeep of the table and of stored records is due.
    Upkeep,
}

type Cx<'a> = Context<'a, Overlay>;

impl Overlay {
    /// A node outside the overlay.
    pub fn new(config: &Config, own: NodeId) -> Overlay {
        Overlay {
            router: config.router(own),
            role: Role::Outside,
            is_due_armed: false,
            rtt: Rtt::default(),
            exchanges: Numbered::default(),
            recent: None,
            storage: Storage::default(),
            state: None,
        }
    }

    /// A member from the beginning, with this table, which is one of the configured algorithm.
    pub fn with_router(config: &Config, own: NodeId, router: Box<dyn Router>) -> Overlay {
        Overlay { router, role: Role::Member, ..Overlay::new(config, own) }
    }

    /// The routing table.
    pub fn router(&self) -> &dyn Router {
        &*self.router
    }

    /// The node's role in the overlay.
    pub fn role(&self) -> Role {
        self.role
    }

    /// True if the node forwards, stores and answers.
    pub fn is_member(&self) -> bool {
        self.role == Role::Member
    }

    /// The records stored here. `None` at a node that has only forwarded bundles.
    pub fn store(&self) -> Option<&Store> {
        self.storage.store()
    }

    /// Nodes that failed, are not back, and whose records have no new copies: they may hold the
    /// only copies of a record. Restarted nodes are not included.
    pub fn missing(&self) -> impl Iterator<Item = NodeId> {
        self.storage.missing()
    }

    /// Messages whose answer is awaited.
    pub fn in_flight(&self) -> usize {
        self.exchanges.len()
    }

    /// Requests of the application that are open.
    pub fn requests_open(&self) -> usize {
        let is_of_application =
            |(_, request): &(u32, &Request)| matches!(request.owner, Owner::Application(_));
        self.state
            .as_ref()
            .map_or(0, |state| state.requests.iter().filter(is_of_application).count())
    }

    /// Bytes on the heap that are kept between events, without those of the table and the values.
    pub fn heap_bytes(&self) -> usize {
        let state = self.state.as_ref();
        let state = state.map_or(0, |state| size_of::<LazyState>() + state.requests.heap_bytes());
        let recent = self.recent.as_ref().map_or(0, |_| size_of::<Recent>());
        self.exchanges.heap_bytes() + self.storage.heap_bytes() + state + recent
    }

    fn state(&mut self) -> &mut LazyState {
        self.state.get_or_insert_default()
    }

    fn state_if_any(&self) -> Option<&LazyState> {
        self.state.as_deref()
    }

    /// Sends a message on the lane that it fits.
    fn send(&self, cx: &mut Cx<'_>, to: NodeId, body: Body) {
        cx.count(counter_of(&body), 1);
        self.send_uncounted(cx, to, body);
    }

    fn send_uncounted(&self, cx: &mut Cx<'_>, to: NodeId, body: Body) {
        let addresses = self.addresses_for(cx.node, &body);
        let message = Message { body, addresses };
        let is_small = message.wire_len() <= cx.datagram_bytes_max;
        cx.send(to, if is_small { Lane::Datagram } else { Lane::Stream }, message);
    }

    /// Sends a message that has an answer, and waits for that.
    fn ask(
        &mut self,
        cx: &mut Cx<'_>,
        to: NodeId,
        cause: Cause,
        tries: u8,
        trail: Option<Box<Trail>>,
        mut body: Body,
    ) {
        self.exchanges.set_first_generation(cx.incarnation as u16 as u32);
        let due_at = cx.now + self.patience_for(cx.shared, &body);
        let exchange = Exchange {
            to,
            sends: 1,
            tries,
            sent_at: cx.now,
            due_at,
            cause,
            body: Body::Notify,
            trail,
        };
        let number = self.exchanges.insert(exchange);
        body.number(number);
        let kept = self.exchanges.get_mut(number).expect("it was put in just now");
        kept.body = body.clone();
        self.send(cx, to, body);
        self.arm(cx);
    }

    /// The exchange that an answer ends, if it is awaited from that node.
    fn answered(&mut self, cx: &mut Cx<'_>, from: NodeId, number: u32) -> Option<Exchange> {
        match self.exchanges.get(number) {
            Some(exchange) if exchange.to == from => {
                let exchange = self.exchanges.remove(number)?;
                let waits = match exchange.body {
                    Body::Put { .. } | Body::PutIf { .. } | Body::Scan { .. } => true,
                    Body::Copy { .. } | Body::CopyIf { .. } => cx.shared.awaits_disk,
                    _ => false,
                };
                // A second copy may have been answered (Karn and Partridge, 1987); a write waits
                // for others, or for the disk.
                if exchange.sends == 1 && !waits {
                    self.rtt.sample(cx.now - exchange.sent_at);
                }
                Some(exchange)
            }
            _ => {
                cx.count(counters::STALE, 1);
                None
            }
        }
    }

    /// How long to wait for an answer.
    fn patience(&self, config: &Config) -> Duration {
        config.patience(&self.rtt)
    }

    fn patience_for(&self, config: &Config, body: &Body) -> Duration {
        let for_disk = if config.awaits_disk { DISK_PATIENCE } else { Duration::ZERO };
        match body {
            // The responsible node asks its replicas first; and values take their time.
            Body::Put { .. } => 6 * self.patience(config) + for_disk,
            // It asks its neighbours what they hold.
            Body::Scan { .. } => 6 * self.patience(config),
            // It asks them twice: what they hold, and to hold copies.
            Body::PutIf { .. } => 8 * self.patience(config) + for_disk,
            Body::Copy { .. } | Body::CopyIf { .. } => 2 * self.patience(config) + for_disk,
            Body::Fetch { .. } => 2 * self.patience(config),
            _ => self.patience(config),
        }
    }

    /// Sets the timer that handles what is overdue.
    fn arm(&mut self, cx: &mut Cx<'_>) {
        if !self.is_due_armed {
            self.is_due_armed = true;
            cx.set_timer(self.patience(cx.shared), Timer::Due);
        }
    }

    /// A node does not answer, or says that it is no member.
    fn forget(&mut self, cx: &mut Cx<'_>, node: NodeId) {
        cx.count(counters::FORGOTTEN, 1);
        self.router.forget(node);
        self.doubt_address(node);
        let state = self.state();
        state.ranges.forget(node);
        state.upkeep.hurry();
        self.storage.hurry();
    }

    /// A member was heard from. If it did not answer before, it may not hear this node, and stays
    /// out of the table until it answers.
    fn heard(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        if from != cx.node && self.is_lost(from) {
            return self.look_for(cx, from);
        }
        self.note_answer(cx, from);
    }

    /// A member answered.
    fn note_answer(&mut self, cx: &mut Cx<'_>, from: NodeId) {
        let policy = cx.shared.ping;
        let is_static = cx.shared.upkeep_every.is_none() && policy == PingPolicy::Off;
        if from == cx.node || is_static {
            return;
        }
        self.storage.note_found(cx, from);
        let Some(longest_silent) = self.router.learn(from) else {
            return;
        };
        // A pinged node may take the sender for a member.
        let may_ping = match policy {
            PingPolicy::Suppressed => true,
            PingPolicy::EachMention => self.is_member(),
            PingPolicy::Off => false,
        };
        if may_ping && self.has_room(cx) {
            let body = Body::Ping { exchange: 0 };
            self.ask(cx, longest_silent, Cause::Ping(from), 0, None, body);
        }
    }

    /// A member was named so often, beyond having sent something.
    fn mentioned(&mut self, cx: &mut Cx<'_>, node: NodeId, times: usize) {
        if cx.shared.ping == PingPolicy::EachMention {
            (0..times).for_each(|_| self.heard(cx, node));
        }
    }

    /// Whether one more answer may be waited for on behalf of others.
    fn has_room(&mut self, cx: &mut Cx<'_>) -> bool {
        let has_room = self.exchanges.len() < cx.shared.in_flight_max;
        if !has_room {
            cx.count(counters::IN_FLIGHT_FULL, 1);
        }
        has_room
    }

    /// A node that is not a member refuses messages that only a member can handle. True if it did.
    fn refuses(&self, cx: &mut Cx<'_>, from: NodeId, body: &Body) -> bool {
        if self.is_member() {
            return false;
        }
        let exchange = match body {
            // A leaving node still answers requests for its records.
            Body::Fetch { .. } | Body::Summary { .. } | Body::List { .. }
                if self.role == Role::Leaving =>
            {
                return false;
            }
            Body::Route(Route { exchange, .. })
            | Body::Find { exchange, .. }
            | Body::Put { exchange, .. }
            | Body::PutIf { exchange, .. }
            | Body::Copy { exchange, .. }
            | Body::CopyIf { exchange, .. }
            | Body::Fetch { exchange, .. }
            | Body::Summary { exchange, .. }
            | Body::Ask { exchange, .. }
            | Body::Scan { exchange, .. }
            | Body::List { exchange, .. }
            | Body::Stat { exchange, .. }
            | Body::Ping { exchange } => *exchange,
            Body::Notify | Body::Goodbye => return true,
            _ => return false,
        };
        self.send(cx, from, Body::NotMember { exchange });
        true
    }

    fn receive(&mut self, cx: &mut Cx<'_>, from: NodeId, body: Body) {
        if let Some((number, fits)) = body.answer_to()
            && let Some(exchange) = self.exchanges.get(number)
            && exchange.to == from
            && !fits(&exchange.body)
        {
            // The question stays open: its answer may still come.
            return cx.count(counters::BAD_ANSWER, 1);
        }
        match body {
            Body::Route(route) => self.receive_route(cx, from, route),
            Body::Ack { exchange } => {
                self.answered(cx, from, exchange);
            }
            Body::Result { tag, answers, range } => {
                self.heard(cx, from);
                self.mentioned(cx, from, answers.len());
                self.receive_answers(cx, from, tag, answers, range.as_deref().copied());
            }
            Body::Find { exchange, is_member, tag, purpose, targets } => {
                self.receive_find(cx, from, is_member, exchange, tag, &purpose, &targets);
            }
            Body::Found(found) => self.receive_found(cx, from, *found),
            Body::Put { exchange, is_member, write, items } => {
                self.receive_put(cx, from, exchange, is_member, write, &items);
            }
            Body::PutReply { exchange, answers } => {
                self.receive_put_reply(cx, from, exchange, &answers);
            }
            Body::PutIf { exchange, is_member, write, items } => {
                self.receive_put_if(cx, from, exchange, is_member, write, &items);
            }
            Body::PutIfReply { exchange, answers } => {
                self.receive_put_if_reply(cx, from, exchange, &answers);
            }
            Body::Copy { exchange, records } => {
                self.with_storage(cx, |storage, cx, routing| {
                    storage.receive_copy(cx, routing, from, exchange, &records);
                });
            }
            Body::CopyIf { exchange, records } => {
                self.with_storage(cx, |storage, cx, routing| {
                    storage.receive_copy_if(cx, routing, from, exchange, &records);
                });
            }
            Body::CopyReply { exchange, answers } => {
                self.receive_copy_reply(cx, from, exchange, &answers);
            }
            Body::Fetch { exchange, keys } => {
                self.with_storage(cx, |storage, cx, routing| {
                    storage.receive_fetch(cx, routing, from, exchange, &keys);
                });
            }
            Body::Fetched { exchange, records, is_whole } => {
                self.receive_fetched(cx, from, exchange, records, is_whole);
            }
            Body::Summary { exchange, entries } => {
                self.with_storage(cx, |storage, cx, routing| {
                    storage.receive_summary(cx, routing, from, exchange, &entries);
                });
            }
            Body::SummaryReply { exchange, lacking, newer, surplus } => {
                self.receive_summary_reply(cx, from, exchange, [&lacking, &newer, &surplus]);
            }
            Body::Ask { exchange, is_member, query } => {
                self.receive_ask(cx, from, exchange, is_member, query);
            }
            Body::Answer { exchange, nodes } => self.receive_answer(cx, from, exchange, &nodes),
            Body::Notify => self.receive_notify(cx, from),
            Body::Ping { exchange } => {
                self.send(cx, from, Body::Pong { exchange });
                self.mentioned(cx, from, 1);
            }
            Body::Pong { exchange } => self.receive_pong(cx, from, exchange),
            Body::NotMember { exchange } => {
                if let Some(exchange) = self.answered(cx, from, exchange) {
                    cx.count(counters::NOT_MEMBER, 1);
                    self.unanswered(cx, exchange);
                    self.state().upkeep.find_again(from);
                    self.storage.note_no_member(cx, from);
                }
            }
            Body::Goodbye => {
                self.forget(cx, from);
                self.storage.note_goodbye(cx, from);
            }
            Body::Missing { nodes } => self.receive_missing(cx, from, &nodes),
            Body::Scan { exchange, is_member, range } => {
                self.receive_scan(cx, from, exchange, is_member, range);
            }
            Body::ScanReply { exchange, answer, records } => {
                self.receive_scan_reply(cx, from, exchange, answer, records);
            }
            Body::List { exchange, range } => self.with_storage(cx, |storage, cx, routing| {
                storage.receive_list(cx, routing, from, exchange, range);
            }),
            Body::Listed { exchange, until, entries } => {
                self.receive_listed(cx, from, exchange, until, &entries);
            }
            Body::Stat { exchange, is_member, key } => {
                self.receive_stat(cx, from, exchange, is_member, key);
            }
            Body::StatReply { exchange, until, stat } => {
                self.receive_stat_reply(cx, from, exchange, until, *stat);
            }
        }
    }

    /// True if this is the first time that the message is seen.
    fn is_new(&mut self, from: NodeId, exchange: u32) -> bool {
        self.recent.get_or_insert_default().note(from, exchange)
    }
}

/// Under which name a message is counted.
fn counter_of(body: &Body) -> CounterId {
    match body {
        Body::Route(Route { purpose: Purpose::Upkeep, .. })
        | Body::Find { purpose: Purpose::Upkeep, .. } => counters::UPKEEP,
        Body::Route(_) => counters::ROUTE,
        Body::Ack { .. } => counters::ACK,
        Body::Result { .. } => counters::RESULT,
        Body::Find { .. } => counters::FIND,
        Body::Found(_) => counters::FOUND,
        Body::Put { .. } | Body::PutIf { .. } => counters::PUT,
        Body::PutReply { .. } | Body::PutIfReply { .. } => counters::PUT_REPLY,
        Body::Ping { .. } => counters::PING,
        Body::Pong { .. } => counters::PONG,
        Body::Copy { .. } | Body::CopyIf { .. } | Body::CopyReply { .. } => counters::COPY,
        Body::Scan { .. } | Body::ScanReply { .. } | Body::List { .. } | Body::Listed { .. } => {
            counters::SCAN
        }
        Body::Stat { .. } | Body::StatReply { .. } => counters::STAT,
        _ => counters::UPKEEP,
    }
}

impl Protocol for Overlay {
    type Message = Message;
    type Timer = Timer;
    type Command = Command;
    type Event = Event;
    type Shared = Config;

    fn decode(config: &Config, bytes: Bytes) -> Result<Message, DecodeError> {
        Message::decode_for(config.algorithm, bytes)
    }

    fn terms(config: &Config) -> Terms {
        config.terms()
    }

    fn handle_start(&mut self, cx: &mut Cx<'_>) {
        if self.role == Role::Member {
            self.begin_upkeep(cx);
            if cx.shared.upkeep_every.is_some() {
                self.trust_neighbours(cx);
            }
        }
    }

    fn handle_peer(&mut self, cx: &mut Cx<'_>, peer: NodeId, state: PeerState) {
        // The driver has found the node at the address of a peer.
        if let PeerState::Up { .. } = state {
            self.add_peer(cx, peer);
        }
    }

    fn handle_message(&mut self, cx: &mut Cx<'_>, from: NodeId, message: Message) {
        self.note_addresses(cx, from, &message.addresses);
        if !self.refuses(cx, from, &message.body) {
            self.receive(cx, from, message.body);
        }
    }

    fn handle_timer(&mut self, cx: &mut Cx<'_>, timer: Timer) {
        match timer {
            Timer::Due => {
                self.is_due_armed = false;
                self.handle_due(cx);
            }
            Timer::Upkeep => self.handle_upkeep(cx),
        }
    }

    fn handle_command(&mut self, cx: &mut Cx<'_>, command: Command) {
        match command {
            Command::Membership(command) => match command {
                MembershipCommand::Bootstrap { address } => self.bootstrap(cx, address),
                MembershipCommand::Join { address, peers } => self.join(cx, address, peers),
                MembershipCommand::Leave => self.leave(cx),
            },
            Command::Visit { address } => self.visit(cx, address),
            Command::Request { id, operation, style } => self.request(cx, id, operation, style),
            Command::Restore { records } => self.storage.restore(cx, records),
            Command::Persisted { number } => self.persisted(cx, number),
            Command::AcceptLosses => self.storage.accept_losses(cx),
            Command::Describe { id } => self.describe(cx, id),
        }
    }

    fn event_bytes(event: &Event) -> usize {
        let more = match event {
            Event::Delivered { keys, payload, .. } => size_of_val(keys.as_slice()) + payload.len(),
            Event::Persist { record, .. } => record.value.as_ref().map_or(0, Payload::len),
            Event::Erase { .. } => 0,
            Event::Joined
            | Event::Left
            | Event::JoinFailed { .. }
            | Event::Outcome { .. }
            | Event::Rejected { .. }
            | Event::Described { .. } => return 0,
        };
        size_of::<Event>() + more
    }

    fn is_departure(event: &Event) -> bool {
        matches!(event, Event::Left)
    }
}

#[cfg(test)]
mod tests;
