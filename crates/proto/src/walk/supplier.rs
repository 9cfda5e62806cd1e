//! A client's side of the graph: it gives each server its part, and again if the server has lost
//! it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::Server;
use super::interface::{Event, Supply, SupplyFault};
use super::message::Message;
use crate::core::{Context, Instant, Lane, NodeId};
use crate::graphshare::{Chunk, Graph, Holding, Opening, Part, Plan, Position, Upkeep, Vertex};

/// Bytes of a chunk, about; a row that is longer is cut.
const CHUNK_BYTES: usize = 48 << 10;
/// Most vertices of a chunk.
const CHUNK_VERTICES: usize = 8192;
/// Bytes that are on their way to a server and not yet known to be there, at most.
const UNTOLD_BYTES_MAX: usize = 1 << 20;
/// The interval of requests to a server whose part is incomplete, or that has been silent.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// The interval of requests to the other servers, while walks are under way.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pieces are sent again after this time without progress.
const STALLED: Duration = Duration::from_secs(1);
/// A server counts as silent after this time without an answer.
const SILENT: Duration = Duration::from_secs(3);

type Cx<'a> = Context<'a, Server>;

/// A client's work on the servers' parts.
#[derive(Debug)]
pub(super) struct Supplier {
    supply: Supply,
    feeds: Vec<Feed>,
    /// The progress in the last report to the application.
    reached: u64,
    /// All servers have had their parts once.
    is_told: bool,
}

/// A server that is given its part.
#[derive(Debug)]
struct Feed {
    server: NodeId,
    place: u16,
    is_whole: bool,
    next: Position,
    /// Pieces under way: the position after each, and its bytes.
    untold: VecDeque<(Position, usize)>,
    untold_bytes: usize,
    told: Position,
    progressed: Instant,
    heard: Instant,
    asked: Instant,
    opened: Instant,
    is_silent: bool,
}

impl Supply {
    fn plan(&self) -> Plan {
        let servers = self.owners.servers().iter().copied();
        let addresses = self.addresses.iter().cloned().chain(std::iter::repeat(Bytes::new()));
        Plan {
            id: self.id,
            vertices: self.owners.vertices(),
            is_weighted: self.graph.is_weighted(),
            is_labelled: self.graph.is_labelled(),
            servers: servers.zip(addresses).collect(),
            pass: self.pass,
        }
    }

    /// A client's view of the graph: the owner of each vertex.
    fn part(&self, me: NodeId) -> Part {
        let none = Graph::from_edges(0, []).expect("no edge is wrong");
        let (is_weighted, is_labelled) = (self.graph.is_weighted(), self.graph.is_labelled());
        Part::new(me, Arc::new(none), self.owners.clone()).with_edges(is_weighted, is_labelled)
    }

    /// The edges of a vertex from one on, with what they carry.
    fn edges(&self, vertex: Vertex, from: usize) -> (&[Vertex], &[f32], &[u8]) {
        let row = self.graph.row_of(vertex);
        let begin = self.graph.offsets()[vertex as usize] as usize;
        let weights = match &self.weights {
            Some(weights) => &weights[begin + from..begin + row.targets.len()],
            None => &[],
        };
        let labels = row.labels.map_or(&[][..], |labels| &labels[from..]);
        (&row.targets[from..], weights, labels)
    }
}

impl Feed {
    fn new(server: NodeId, place: u16, now: Instant) -> Feed {
        Feed {
            server,
            place,
            is_whole: false,
            next: Position::default(),
            untold: VecDeque::new(),
            untold_bytes: 0,
            told: Position::default(),
            progressed: now,
            heard: now,
            asked: now,
            opened: now,
            is_silent: false,
        }
    }

    /// Goes on from there, whatever is on its way.
    fn rewind(&mut self, at: Position, now: Instant) {
        (self.next, self.told, self.progressed) = (at, at, now);
        self.untold.clear();
        self.untold_bytes = 0;
    }

    /// The server has its part up to there.
    fn on_told(&mut self, at: Position, now: Instant) {
        let is_stalled = now.since(self.progressed) >= STALLED;
        if at < self.told || at > self.next || at == self.told && is_stalled {
            return self.rewind(at, now);
        }
        while let Some(&(until, bytes)) = self.untold.front()
            && until <= at
        {
            self.untold.pop_front();
            self.untold_bytes -= bytes;
        }
        if at > self.told {
            (self.told, self.progressed) = (at, now);
        }
    }

    /// The next piece, with owners as the client knows them; `None` at the end.
    fn chunk(&self, supply: &Supply, part: &Part) -> Option<(Chunk, Position)> {
        let vertices = supply.owners.vertices();
        let mut at = self.next;
        let mut chunk = Chunk { from: at, ..Chunk::default() };
        let each = 4
            + if supply.weights.is_some() { 4 } else { 0 }
            + usize::from(supply.graph.is_labelled());
        let mut room = CHUNK_BYTES;
        while at.vertex < vertices && chunk.owners.len() < CHUNK_VERTICES && room > 16 + each {
            let place = part.place(at.vertex)? as u16;
            chunk.owners.push(place);
            room -= 2;
            let epoch = part.epoch(at.vertex);
            if epoch > 0 {
                chunk.moved.push((at.vertex, epoch));
                room -= 8;
            }
            if place != self.place {
                at = Position { vertex: at.vertex + 1, edge: 0 };
                continue;
            }
            let (targets, weights, labels) = supply.edges(at.vertex, at.edge as usize);
            room -= 4;
            let count = targets.len().min(room / each);
            room -= count * each;
            chunk.degrees.push(count as u32);
            chunk.targets.extend_from_slice(&targets[..count]);
            chunk.weights.extend_from_slice(&weights[..count.min(weights.len())]);
            chunk.labels.extend_from_slice(&labels[..count.min(labels.len())]);
            chunk.is_cut = count < targets.len();
            if chunk.is_cut {
                at.edge += count as u32;
                break;
            }
            at = Position { vertex: at.vertex + 1, edge: 0 };
        }
        (!chunk.owners.is_empty()).then_some((chunk, at))
    }
}

impl Server {
    /// The application wants servers to have this graph.
    pub(super) fn supply(&mut self, cx: &mut Cx<'_>, supply: Supply) {
        let fault = if !self.is_client {
            Some(SupplyFault::NoClient)
        } else if supply.owners.servers().is_empty() {
            Some(SupplyFault::NoServers)
        } else if supply.graph.vertices() != supply.owners.vertices() {
            let (graph, owners) = (supply.graph.vertices(), supply.owners.vertices());
            Some(SupplyFault::Vertices { graph, owners })
        } else if supply.graph.is_weighted() && supply.weights.is_none() {
            Some(SupplyFault::Weights)
        } else if let Some(Err(error)) = supply.pass.map(|pass| pass.check()) {
            Some(SupplyFault::Pass(error))
        } else {
            None
        };
        if let Some(fault) = fault {
            return cx.deliver(Event::SupplyFailed(supply.id, fault));
        }
        for (&server, address) in supply.owners.servers().iter().zip(&supply.addresses) {
            cx.note_address(server, address);
        }
        let part = supply.part(cx.node);
        self.replace_part(cx, supply.id, part);
        let servers = (0..).zip(supply.owners.servers());
        let feeds = servers.map(|(place, &server)| Feed::new(server, place, cx.now)).collect();
        let supplier = Supplier { supply, feeds, reached: 0, is_told: false };
        for feed in &supplier.feeds {
            supplier.open(cx, feed.server);
        }
        self.supplier = Some(supplier);
    }

    /// A server says what it has.
    pub(super) fn on_held(&mut self, cx: &mut Cx<'_>, from: NodeId, plan: u64, holding: Holding) {
        let Some(supplier) = self.supplier.as_mut().filter(|s| s.supply.id == plan) else { return };
        // Once the servers have had it, another client has given them another one: two that replace
        // each other's graphs would do so for ever.
        let replaces = supplier.supply.replaces && !supplier.is_told;
        let Some(place) = supplier.feeds.iter().position(|feed| feed.server == from) else {
            return;
        };
        let feed = &mut supplier.feeds[place];
        feed.heard = cx.now;
        if std::mem::take(&mut feed.is_silent) {
            cx.deliver(Event::ServerBack(from));
        }
        match holding {
            Holding::Whole => {
                feed.is_whole = true;
                feed.rewind(Position::default(), cx.now);
            }
            Holding::Until(at) => {
                feed.is_whole = false;
                feed.on_told(at, cx.now);
            }
            Holding::Other(other) if other == 0 || replaces => {
                feed.is_whole = false;
                // The server has restarted, or the plan has not reached it yet.
                if cx.now.since(feed.opened) >= ASK_EVERY {
                    feed.opened = cx.now;
                    supplier.open(cx, from);
                }
            }
            Holding::Other(other) => return self.give_up(cx, SupplyFault::Other(from, other)),
            Holding::Refused => return self.give_up(cx, SupplyFault::Refused(from)),
        }
        self.feed(cx, place);
        self.tell_supplied(cx);
    }

    fn give_up(&mut self, cx: &mut Cx<'_>, fault: SupplyFault) {
        if let Some(supplier) = self.supplier.take() {
            cx.deliver(Event::SupplyFailed(supplier.supply.id, fault));
            let me = cx.node;
            self.replace_part(cx, 0, Part::nothing(me));
        }
    }

    /// Gives a server what there is room for.
    fn feed(&mut self, cx: &mut Cx<'_>, place: usize) {
        let Some(supplier) = &mut self.supplier else { return };
        let Supplier { supply, feeds, .. } = supplier;
        let feed = &mut feeds[place];
        while !feed.is_whole && feed.untold_bytes < UNTOLD_BYTES_MAX {
            let Some((chunk, until)) = feed.chunk(supply, &self.part) else { break };
            let message = Message::Upkeep(supply.id, Box::new(Upkeep::Chunk(chunk)));
            let bytes = crate::core::Wire::wire_len(&message);
            feed.next = until;
            feed.untold.push_back((until, bytes));
            feed.untold_bytes += bytes;
            cx.send(feed.server, Lane::Stream, message);
        }
    }

    fn tell_supplied(&mut self, cx: &mut Cx<'_>) {
        let Some(supplier) = self.supplier.as_mut().filter(|supplier| !supplier.is_told) else {
            return;
        };
        let plan = supplier.supply.id;
        let vertices = u64::from(supplier.supply.owners.vertices());
        let of = |feed: &Feed| if feed.is_whole { vertices } else { feed.told.vertex.into() };
        let reached: u64 = supplier.feeds.iter().map(of).sum();
        let all = vertices * supplier.feeds.len() as u64;
        let further = reached.saturating_sub(supplier.reached);
        if further > all / 1000 || further > 0 && reached == all {
            supplier.reached = reached;
            cx.deliver(Event::Supplying(plan, reached));
        }
        if supplier.feeds.iter().all(|feed| feed.is_whole) {
            supplier.is_told = true;
            cx.deliver(Event::Supplied(plan));
        }
    }

    /// Asks servers that are due to be asked.
    pub(super) fn look_after_servers(&mut self, cx: &mut Cx<'_>) {
        let is_busy = !self.runs.is_empty() || self.editor.is_busy();
        let Some(supplier) = &mut self.supplier else { return };
        let plan = supplier.supply.id;
        for feed in &mut supplier.feeds {
            if feed.ask_at(is_busy).is_none_or(|at| at > cx.now) {
                continue;
            }
            // A server that was not asked does not count as silent.
            let pause = cx.now.since(feed.asked);
            if pause > LOOK_EVERY * 2 {
                feed.heard = cx.now;
            }
            feed.asked = cx.now;
            if cx.now.since(feed.heard) >= SILENT && !std::mem::replace(&mut feed.is_silent, true) {
                cx.deliver(Event::ServerSilent(feed.server));
            }
            cx.send(feed.server, Lane::Datagram, Message::Upkeep(plan, Box::new(Upkeep::Ask)));
        }
    }

    /// When to ask a server next.
    pub(super) fn look_at(&self) -> Option<Instant> {
        let is_busy = !self.runs.is_empty() || self.editor.is_busy();
        let feeds = self.supplier.iter().flat_map(|supplier| &supplier.feeds);
        feeds.filter_map(|feed| feed.ask_at(is_busy)).min()
    }
}

impl Feed {
    /// When to ask the server next: soon while its part is incomplete, now and then while walks are
    /// under way, else never.
    fn ask_at(&self, is_busy: bool) -> Option<Instant> {
        if !self.is_whole || self.is_silent && is_busy {
            Some(self.asked + ASK_EVERY)
        } else {
            is_busy.then_some(self.asked + LOOK_EVERY)
        }
    }
}

impl Supplier {
    fn open(&self, cx: &mut Cx<'_>, server: NodeId) {
        let Supply { id, replaces, .. } = self.supply;
        let open = Upkeep::Open(Opening { plan: self.supply.plan(), replaces });
        cx.send(server, Lane::Stream, Message::Upkeep(id, Box::new(open)));
    }
}
