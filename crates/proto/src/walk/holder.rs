//! A server's part of the graph: it receives the part from a client, changes rows, and moves
//! vertices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::counters;
use super::interface::Event;
use super::message::Message;
use crate::core::{Context, Instant, Lane, NodeId};
use crate::graphshare::{
    Change, Chunk, Given, Graph, Holding, Opening, Outcome, Owners, Part, PassConfig, Plan,
    Position, Reception, Upkeep, Vertex,
};

/// Clients whose latest edits are remembered, so that none is done twice.
const CLIENTS_MAX: usize = 1024;
/// The most vertices in one report to another server: they fit a datagram.
const VERTICES_TOLD_MAX: usize = 64;
/// Bytes of rows on their way to other servers, at most.
const GIVEN_BYTES_MAX: usize = 8 << 20;
/// A vertex is sent again after this time if its next server has not answered.
const GIVE_AGAIN: Duration = Duration::from_secs(1);

type Cx<'a> = Context<'a, Server>;

/// A server's work on its part of the graph.
#[derive(Debug, Default)]
pub(super) struct Holder {
    building: Option<Building>,
    /// The last edits of each client, by their number, and what became of them.
    edited: BTreeMap<NodeId, (u64, Vec<Outcome>)>,
    /// Vertices on their way to other servers: when they were given last, and their bytes.
    given: BTreeMap<Vertex, (Instant, usize)>,
    given_bytes: usize,
    /// The setting for passing walkers before a client replaced it.
    own: Option<PassConfig>,
}

/// A part that is not whole yet.
#[derive(Debug)]
struct Building {
    plan: Plan,
    /// The server's own place among all.
    place: u16,
    at: Position,
    owners: Vec<u16>,
    offsets: Vec<u64>,
    targets: Vec<Vertex>,
    weights: Vec<f32>,
    labels: Vec<u8>,
    moved: Vec<(Vertex, u32)>,
}

/// A piece that does not fit: its sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Misfit;

impl Building {
    fn new(plan: Plan, place: u16) -> Building {
        Building {
            plan,
            place,
            at: Position::default(),
            owners: Vec::new(),
            offsets: vec![0],
            targets: Vec::new(),
            weights: Vec::new(),
            labels: Vec::new(),
            moved: Vec::new(),
        }
    }

    fn bytes(&self) -> usize {
        let vertices = 2 * self.owners.len() + 8 * self.offsets.len() + 8 * self.moved.len();
        vertices + 4 * (self.targets.len() + self.weights.len()) + self.labels.len()
    }

    fn is_whole(&self) -> bool {
        self.at.vertex == self.plan.vertices
    }

    /// Appends a piece that begins where this ends.
    fn append(&mut self, chunk: &Chunk) -> Result<(), Misfit> {
        let Chunk { owners, degrees, targets, weights, labels, is_cut, .. } = chunk;
        let edges = targets.len();
        let carried = |is: bool, count: usize| count == if is { edges } else { 0 };
        let fits = carried(self.plan.is_weighted, weights.len())
            && carried(self.plan.is_labelled, labels.len())
            && degrees.iter().map(|&degree| u64::from(degree)).sum::<u64>() == edges as u64
            && owners.iter().filter(|&&owner| owner == self.place).count() == degrees.len()
            && owners.iter().all(|&owner| usize::from(owner) < self.plan.servers.len())
            && targets.iter().all(|&target| target < self.plan.vertices)
            && owners.len() as u64 + u64::from(self.at.vertex) <= u64::from(self.plan.vertices)
            && (!is_cut || owners.last() == Some(&self.place))
            && (self.at.edge == 0 || owners.first() == Some(&self.place));
        if !fits {
            return Err(Misfit);
        }
        let mut degrees = degrees.iter();
        let mut end = self.targets.len() as u64;
        for (nth, &owner) in owners.iter().enumerate() {
            let is_first_part = nth > 0 || self.at.edge == 0;
            if is_first_part {
                self.owners.push(owner);
            }
            if owner == self.place {
                end += u64::from(*degrees.next().ok_or(Misfit)?);
            }
            if !(*is_cut && nth + 1 == owners.len()) {
                self.offsets.push(end);
            }
        }
        self.targets.extend_from_slice(targets);
        self.weights.extend_from_slice(weights);
        self.labels.extend_from_slice(labels);
        self.moved.extend_from_slice(&chunk.moved);
        let whole_rows = self.offsets.len() - 1;
        let edge = end - self.offsets[whole_rows];
        let edge = u32::try_from(edge).map_err(|_| Misfit)?;
        self.at = Position { vertex: whole_rows as Vertex, edge };
        Ok(())
    }

    fn finish(self, me: NodeId) -> Result<(u64, Part), Misfit> {
        let Building { plan, owners, offsets, targets, weights, labels, moved, .. } = self;
        let mut graph = Graph::new(offsets, targets).map_err(|_| Misfit)?;
        if plan.is_weighted {
            graph = graph.with_weights(&weights).map_err(|_| Misfit)?;
        }
        if plan.is_labelled {
            graph = graph.with_labels(labels).map_err(|_| Misfit)?;
        }
        let servers = plan.servers.iter().map(|&(server, _)| server).collect();
        let owners = Owners::new(servers, owners).ok_or(Misfit)?;
        let mut part = Part::new(me, Arc::new(graph), Arc::new(owners));
        if plan.is_weighted {
            part = part.with_weights(Arc::new(weights));
        }
        for (vertex, epoch) in moved {
            part.has_moved(vertex, epoch);
        }
        Ok((plan.id, part))
    }
}

impl Server {
    /// Something about the graph.
    pub(super) fn on_upkeep(
        &mut self,
        cx: &mut Context<'_, Server>,
        from: NodeId,
        plan: u64,
        what: Upkeep,
    ) {
        match what {
            Upkeep::Who if self.takes_graphs => {
                let here = Upkeep::Here(self.address.clone());
                cx.send(from, Lane::Datagram, Message::Upkeep(self.plan, Box::new(here)));
            }
            Upkeep::Who => {}
            Upkeep::Here(address) if self.is_client => {
                cx.deliver(Event::Found(from, address, plan));
            }
            Upkeep::Open(Opening { plan: wanted, replaces }) if wanted.id == plan => {
                self.on_open(cx, from, wanted, replaces);
            }
            Upkeep::Held(holding) => self.on_held(cx, from, plan, holding),
            Upkeep::Chunk(chunk) if self.takes_graphs => self.on_chunk(cx, from, plan, &chunk),
            Upkeep::Ask => {
                let holding = self.holding(plan);
                self.say_held(cx, from, plan, holding);
            }
            // All else is about the graph that is here.
            _ if plan != self.plan || plan == 0 => {
                let holding = self.holding(plan);
                self.say_held(cx, from, plan, holding);
            }
            Upkeep::Edits(batch, edits) if self.takes_graphs => {
                self.on_edits(cx, from, batch, &edits);
            }
            Upkeep::Edited(number, outcomes) => self.on_edited(cx, from, number, &outcomes),
            _ if !self.part.is_server(from) => cx.count(counters::UPKEEP_REFUSED, 1),
            Upkeep::Give(given) if self.takes_graphs => self.on_give(cx, from, given),
            Upkeep::Received(vertex, reception) => self.on_received(cx, from, vertex, reception),
            Upkeep::Moved(places) => {
                let bytes_max = self.graph_bytes_max();
                for (vertex, owner, epoch) in places {
                    self.part.learn(vertex, owner, epoch, bytes_max);
                }
            }
            _ => cx.count(counters::UPKEEP_REFUSED, 1),
        }
    }

    /// A client names the graph that this server must hold.
    pub(super) fn on_open(&mut self, cx: &mut Cx<'_>, from: NodeId, plan: Plan, replaces: bool) {
        let id = plan.id;
        let place = plan.servers.iter().position(|&(server, _)| server == cx.node);
        let mut named: Vec<NodeId> = plan.servers.iter().map(|&(server, _)| server).collect();
        named.sort_unstable();
        let is_sound = id != 0 && named.windows(2).all(|pair| pair[0] != pair[1]);
        let Some(place) = place.filter(|_| self.takes_graphs && is_sound) else {
            return self.say_held(cx, from, id, Holding::Refused);
        };
        if self.plan != id && self.plan != 0 && !replaces {
            return self.say_held(cx, from, id, Holding::Other(self.plan));
        }
        for (server, address) in &plan.servers {
            if *server != cx.node {
                cx.note_address(*server, address);
            }
        }
        let is_known = self.plan == id || self.holder.is_building(id);
        if !is_known {
            self.holder.building = Some(Building::new(plan, place as u16));
            self.finish_building(cx);
        }
        let holding = self.holding(id);
        self.say_held(cx, from, id, holding);
    }

    /// A client gives a piece of the part.
    pub(super) fn on_chunk(&mut self, cx: &mut Cx<'_>, from: NodeId, plan: u64, chunk: &Chunk) {
        let bytes_max = self.graph_bytes_max();
        let mut is_refused = false;
        if let Some(building) = self.holder.building.as_mut().filter(|b| b.plan.id == plan) {
            if chunk.from != building.at {
                // It was given twice, or one before it got lost with its connection.
                cx.count(counters::CHUNK_MISPLACED, 1);
            } else if building.append(chunk).is_err() || building.bytes() > bytes_max {
                cx.count(counters::CHUNK_REFUSED, 1);
                is_refused = true;
            }
        }
        is_refused |= !is_refused && !self.finish_building(cx);
        let holding = if is_refused { Holding::Refused } else { self.holding(plan) };
        if is_refused {
            self.holder.building = None;
        }
        self.say_held(cx, from, plan, holding);
    }

    /// Once a part is whole it takes the place of the one before; false if it is no graph.
    fn finish_building(&mut self, cx: &mut Cx<'_>) -> bool {
        let Some(building) = self.holder.building.take_if(|building| building.is_whole()) else {
            return true;
        };
        let asked = building.plan.pass;
        let Ok((plan, part)) = building.finish(cx.node) else { return false };
        self.replace_part(cx, plan, part);
        let set_to = self.pass();
        let own = *self.holder.own.get_or_insert(set_to);
        self.holder = Holder { own: Some(own), ..Holder::default() };
        self.set_pass(asked.unwrap_or(own));
        true
    }

    /// How walkers pass.
    fn pass(&self) -> PassConfig {
        PassConfig { queue: self.config.queue, bundle: self.config.bundle }
    }

    /// Walkers pass like this from now on; the queue is empty.
    fn set_pass(&mut self, PassConfig { queue, bundle }: PassConfig) {
        (self.config.queue, self.config.bundle) = (queue, bundle);
        self.homes.reset_red();
    }

    /// What there is of a plan.
    pub(super) fn holding(&self, plan: u64) -> Holding {
        match &self.holder.building {
            _ if self.plan == plan => Holding::Whole,
            Some(building) if building.plan.id == plan => Holding::Until(building.at),
            _ => Holding::Other(self.plan),
        }
    }

    pub(super) fn say_held(&self, cx: &mut Cx<'_>, to: NodeId, plan: u64, holding: Holding) {
        let message = Message::Upkeep(plan, Box::new(Upkeep::Held(holding)));
        cx.send(to, Lane::Datagram, message);
    }

    /// A client wants changes.
    pub(super) fn on_edits(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        batch: u64,
        edits: &[(Vertex, Change)],
    ) {
        let bytes_max = self.graph_bytes_max();
        let known = self.holder.edited.get(&from);
        let outcomes = match known {
            Some((number, outcomes)) if *number == batch => outcomes.clone(),
            _ => {
                let mut outcomes = Vec::with_capacity(edits.len());
                for (vertex, change) in edits {
                    let is_full = self.holder.given_bytes > GIVEN_BYTES_MAX;
                    outcomes.push(match change {
                        Change::Move { .. } if is_full => Outcome::Busy,
                        _ => self.part.edit(*vertex, change, bytes_max),
                    });
                    self.give(cx, *vertex);
                }
                outcomes
            }
        };
        if self.holder.edited.len() >= CLIENTS_MAX && !self.holder.edited.contains_key(&from) {
            self.holder.edited.pop_first();
        }
        self.holder.edited.insert(from, (batch, outcomes.clone()));
        let message = Message::Upkeep(self.plan, Box::new(Upkeep::Edited(batch, outcomes)));
        cx.send(from, Lane::Stream, message);
    }

    /// Sends a vertex to its next server, if a move is pending and the vertex is not under way.
    fn give(&mut self, cx: &mut Cx<'_>, vertex: Vertex) {
        if self.holder.given.contains_key(&vertex) {
            return;
        }
        let Some((to, given)) = self.part.given(vertex) else { return };
        let bytes = given.row.wire_bytes();
        self.holder.given.insert(vertex, (cx.now, bytes));
        self.holder.given_bytes += bytes;
        cx.send(to, Lane::Stream, Message::Upkeep(self.plan, Box::new(Upkeep::Give(given))));
    }

    /// Sends vertices again whose new owner has not answered in time.
    pub(super) fn give_again(&mut self, cx: &mut Cx<'_>) {
        let is_old = |&(at, _): &(Instant, usize)| cx.now.since(at) >= GIVE_AGAIN;
        let given = self.holder.given.iter().filter(|(_, given)| is_old(given));
        let old: Vec<Vertex> = given.map(|(&vertex, _)| vertex).collect();
        for vertex in old {
            self.holder.forget(vertex);
            self.give(cx, vertex);
        }
    }

    /// When to look for vertices that must be sent again.
    pub(super) fn give_again_at(&self, now: Instant) -> Option<Instant> {
        (!self.holder.given.is_empty()).then_some(now + GIVE_AGAIN)
    }

    /// Another server gives a vertex away.
    pub(super) fn on_give(&mut self, cx: &mut Cx<'_>, from: NodeId, given: Given) {
        let (vertex, bytes_max) = (given.vertex, self.graph_bytes_max());
        let reception = self.part.install(from, given, bytes_max);
        let message = Upkeep::Received(vertex, reception);
        cx.send(from, Lane::Stream, Message::Upkeep(self.plan, Box::new(message)));
    }

    /// Another server says what it did with a vertex.
    pub(super) fn on_received(
        &mut self,
        cx: &mut Cx<'_>,
        from: NodeId,
        vertex: Vertex,
        reception: Reception,
    ) {
        self.part.on_reception(from, vertex, reception);
        self.holder.forget(vertex);
        self.give(cx, vertex);
    }

    /// Tells another server the owners of vertices that it attributed to this server.
    pub(super) fn tell_moved(&self, cx: &mut Cx<'_>, to: NodeId, vertices: &[Vertex]) {
        let mut places = Vec::new();
        for &vertex in vertices.iter().take(VERTICES_TOLD_MAX) {
            let epoch = self.part.epoch(vertex);
            if let Some(owner) = self.part.owner(vertex).filter(|_| epoch > 0) {
                places.push((vertex, owner, epoch));
            }
        }
        if !places.is_empty() {
            let message = Message::Upkeep(self.plan, Box::new(Upkeep::Moved(places)));
            cx.send(to, Lane::Datagram, message);
        }
    }
}

impl Holder {
    fn is_building(&self, plan: u64) -> bool {
        self.building.as_ref().is_some_and(|building| building.plan.id == plan)
    }

    fn forget(&mut self, vertex: Vertex) {
        if let Some((_, bytes)) = self.given.remove(&vertex) {
            self.given_bytes -= bytes;
        }
    }
}
