//! A client's work on the graph: it supplies each server with its part, and again if the server has
//! lost it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::graph::{Graph, Vertex};
use super::interface::{GraphEvent, Supply, SupplyFault};
use super::message::{GraphMessage, GraphPlan, Holding, OpenRequest, PartChunk, PartPosition};
use super::part::Part;
use super::{Host, LocalPart, Usage, send};
use crate::core::{Context, Instant, Lane, NodeId, Wire};

/// Bytes of a chunk, about; a row that is longer is cut.
const CHUNK_BYTES: usize = 48 << 10;
/// Most vertices of a chunk.
const CHUNK_VERTICES: usize = 8192;
/// Most bytes on their way to a server that it has not acknowledged.
const UNACKNOWLEDGED_BYTES_MAX: usize = 1 << 20;
/// The interval of requests to a server whose part is incomplete, or that has been silent.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// The interval of requests to the other servers, while the graph is used.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// Pieces are sent again after this time without progress.
const STALLED: Duration = Duration::from_secs(1);
/// A server counts as silent after this time without an answer.
const SILENT: Duration = Duration::from_secs(3);

/// A client's work on the servers' parts.
#[derive(Debug)]
pub(super) struct Supplier {
    supply: Supply,
    feeds: Vec<Feed>,
    /// The progress in the last report to the application.
    reported: u64,
    /// Whether all servers have had their parts once.
    is_complete: bool,
}

/// A server that is supplied with its part.
#[derive(Debug)]
struct Feed {
    server: NodeId,
    place: u16,
    is_whole: bool,
    next: PartPosition,
    /// Pieces under way: the position after each, and its bytes.
    in_flight: VecDeque<(PartPosition, usize)>,
    in_flight_bytes: usize,
    acknowledged: PartPosition,
    progressed: Instant,
    heard: Instant,
    asked: Instant,
    opened: Instant,
    is_silent: bool,
}

impl Supplier {
    /// Begins to supply the servers.
    pub(super) fn begin<H: Host>(cx: &mut Context<'_, H>, supply: Supply) -> Supplier {
        for (&server, address) in supply.owners.servers().iter().zip(&supply.addresses) {
            cx.note_address(server, address);
        }
        let servers = (0..).zip(supply.owners.servers());
        let feeds = servers.map(|(place, &server)| Feed::new(server, place, cx.now)).collect();
        let supplier = Supplier { supply, feeds, reported: 0, is_complete: false };
        for feed in &supplier.feeds {
            supplier.open(cx, feed.server);
        }
        supplier
    }

    /// A server says what it has of a plan. An error ends the supply.
    pub(super) fn on_held<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &LocalPart,
        from: NodeId,
        plan: u64,
        holding: Holding,
    ) -> Result<(), SupplyFault> {
        if self.supply.id != plan {
            return Ok(());
        }
        // Once the servers have had it, another client has given them another one: two that replace
        // each other's graphs would do so for ever.
        let replaces = self.supply.replaces && !self.is_complete;
        let Some(place) = self.feeds.iter().position(|feed| feed.server == from) else {
            return Ok(());
        };
        let feed = &mut self.feeds[place];
        feed.heard = cx.now;
        if std::mem::take(&mut feed.is_silent) {
            cx.deliver(H::graph_event(GraphEvent::ServerBack(from)));
        }
        match holding {
            Holding::Whole => {
                feed.is_whole = true;
                feed.rewind(PartPosition::default(), cx.now);
            }
            Holding::Until(at) => {
                feed.is_whole = false;
                feed.on_acknowledged(at, cx.now);
            }
            Holding::Other(other) if other == 0 || replaces => {
                feed.is_whole = false;
                // The server has restarted, or the plan has not reached it yet.
                if cx.now.since(feed.opened) >= ASK_EVERY {
                    feed.opened = cx.now;
                    self.open(cx, from);
                }
            }
            Holding::Other(other) => return Err(SupplyFault::Other(from, other)),
            Holding::Refused => return Err(SupplyFault::Refused(from)),
        }
        self.feed(cx, local, place);
        self.report_progress(cx);
        Ok(())
    }

    /// Asks servers that are due to be asked.
    pub(super) fn ask_servers<H: Host>(&mut self, cx: &mut Context<'_, H>, usage: Usage) {
        let plan = self.supply.id;
        for feed in &mut self.feeds {
            if feed.ask_at(usage).is_none_or(|at| at > cx.now) {
                continue;
            }
            // A server that was not asked does not count as silent.
            let pause = cx.now.since(feed.asked);
            if pause > CHECK_EVERY * 2 {
                feed.heard = cx.now;
            }
            feed.asked = cx.now;
            if cx.now.since(feed.heard) >= SILENT && !std::mem::replace(&mut feed.is_silent, true) {
                cx.deliver(H::graph_event(GraphEvent::ServerSilent(feed.server)));
            }
            send(cx, feed.server, Lane::Datagram, plan, GraphMessage::Ask);
        }
    }

    /// When to ask a server next.
    pub(super) fn next_at(&self, usage: Usage) -> Option<Instant> {
        self.feeds.iter().filter_map(|feed| feed.ask_at(usage)).min()
    }

    fn open<H: Host>(&self, cx: &mut Context<'_, H>, server: NodeId) {
        let Supply { id, replaces, .. } = self.supply;
        let open = GraphMessage::Open(OpenRequest { plan: self.supply.plan(), replaces });
        send(cx, server, Lane::Stream, id, open);
    }

    /// Sends a server as much of its part as there is room for.
    fn feed<H: Host>(&mut self, cx: &mut Context<'_, H>, local: &LocalPart, place: usize) {
        let Supplier { supply, feeds, .. } = self;
        let feed = &mut feeds[place];
        while !feed.is_whole && feed.in_flight_bytes < UNACKNOWLEDGED_BYTES_MAX {
            let Some((chunk, until)) = feed.chunk(supply, &local.part) else { break };
            let message = H::graph_message(supply.id, GraphMessage::Chunk(chunk));
            let bytes = message.wire_len();
            feed.next = until;
            feed.in_flight.push_back((until, bytes));
            feed.in_flight_bytes += bytes;
            cx.send(feed.server, Lane::Stream, message);
        }
    }

    fn report_progress<H: Host>(&mut self, cx: &mut Context<'_, H>) {
        if self.is_complete {
            return;
        }
        let plan = self.supply.id;
        let vertices = u64::from(self.supply.owners.vertices());
        let of =
            |feed: &Feed| if feed.is_whole { vertices } else { feed.acknowledged.vertex.into() };
        let reached: u64 = self.feeds.iter().map(of).sum();
        let all = vertices * self.feeds.len() as u64;
        let further = reached.saturating_sub(self.reported);
        if further > all / 1000 || further > 0 && reached == all {
            self.reported = reached;
            cx.deliver(H::graph_event(GraphEvent::Supplying(plan, reached)));
        }
        if self.feeds.iter().all(|feed| feed.is_whole) {
            self.is_complete = true;
            cx.deliver(H::graph_event(GraphEvent::Supplied(plan)));
        }
    }
}

impl Feed {
    fn new(server: NodeId, place: u16, now: Instant) -> Feed {
        Feed {
            server,
            place,
            is_whole: false,
            next: PartPosition::default(),
            in_flight: VecDeque::new(),
            in_flight_bytes: 0,
            acknowledged: PartPosition::default(),
            progressed: now,
            heard: now,
            asked: now,
            opened: now,
            is_silent: false,
        }
    }

    /// Goes on from there, whatever is on its way.
    fn rewind(&mut self, at: PartPosition, now: Instant) {
        (self.next, self.acknowledged, self.progressed) = (at, at, now);
        self.in_flight.clear();
        self.in_flight_bytes = 0;
    }

    /// The server has its part up to there.
    fn on_acknowledged(&mut self, at: PartPosition, now: Instant) {
        let is_stalled = now.since(self.progressed) >= STALLED;
        if at < self.acknowledged || at > self.next || at == self.acknowledged && is_stalled {
            return self.rewind(at, now);
        }
        while let Some(&(until, bytes)) = self.in_flight.front()
            && until <= at
        {
            self.in_flight.pop_front();
            self.in_flight_bytes -= bytes;
        }
        if at > self.acknowledged {
            (self.acknowledged, self.progressed) = (at, now);
        }
    }

    /// The next piece, with owners as the client knows them; `None` at the end.
    fn chunk(&self, supply: &Supply, part: &Part) -> Option<(PartChunk, PartPosition)> {
        let vertices = supply.owners.vertices();
        let mut at = self.next;
        let mut chunk = PartChunk { from: at, ..PartChunk::default() };
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
                at = PartPosition { vertex: at.vertex + 1, edge: 0 };
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
            at = PartPosition { vertex: at.vertex + 1, edge: 0 };
        }
        (!chunk.owners.is_empty()).then_some((chunk, at))
    }

    /// When to ask the server next: soon while its part is incomplete, now and then while the graph
    /// is used, else never.
    fn ask_at(&self, usage: Usage) -> Option<Instant> {
        let is_used = usage == Usage::InUse;
        if !self.is_whole || self.is_silent && is_used {
            Some(self.asked + ASK_EVERY)
        } else {
            is_used.then_some(self.asked + CHECK_EVERY)
        }
    }
}

impl Supply {
    /// Whether servers can be supplied with it.
    pub(super) fn check(&self) -> Result<(), SupplyFault> {
        if self.owners.servers().is_empty() {
            return Err(SupplyFault::NoServers);
        }
        let (graph, owners) = (self.graph.vertices(), self.owners.vertices());
        if graph != owners {
            return Err(SupplyFault::Vertices { graph, owners });
        }
        if self.graph.is_weighted() && self.weights.is_none() {
            return Err(SupplyFault::Weights);
        }
        self.pass.map_or(Ok(()), |pass| Ok(pass.check()?))
    }

    /// A client's view of the graph: the owner of each vertex.
    pub(super) fn part(&self, me: NodeId) -> Part {
        let none = Graph::from_edges(0, []).expect("no edge is wrong");
        let (is_weighted, is_labelled) = (self.graph.is_weighted(), self.graph.is_labelled());
        Part::new(me, Arc::new(none), self.owners.clone()).with_edges(is_weighted, is_labelled)
    }

    fn plan(&self) -> GraphPlan {
        let servers = self.owners.servers().iter().copied();
        let addresses = self.addresses.iter().cloned().chain(std::iter::repeat(Bytes::new()));
        GraphPlan {
            id: self.id,
            vertices: self.owners.vertices(),
            is_weighted: self.graph.is_weighted(),
            is_labelled: self.graph.is_labelled(),
            servers: servers.zip(addresses).collect(),
            pass: self.pass,
        }
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
