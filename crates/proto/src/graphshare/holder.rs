//! A server's work on its part of the graph: it receives the part from a client, changes rows, and
//! moves vertices.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::counters;
use super::graph::{Graph, Vertex};
use super::message::{
    ADDRESS_BYTES_MAX, GraphMessage, GraphPlan, Holding, OpenRequest, PartChunk, PartPosition,
};
use super::part::{EditOutcome, Owners, Part, TransferReply, VertexTransfer};
use super::rows::VertexChange;
use super::{Host, LocalPart, Replaced, say_held, send};
use crate::core::{Context, Instant, Lane, NodeId};

/// Clients whose latest edits are remembered, so that none is done twice.
const CLIENTS_MAX: usize = 1024;
/// The most vertices in one report to another server: they fit a datagram.
const REPORTED_VERTICES_MAX: usize = 64;
/// Bytes of rows on their way to other servers, at most.
const TRANSFER_BYTES_MAX: usize = 8 << 20;
/// A vertex is sent again after this time if its next server has not answered.
const RESEND_AFTER: Duration = Duration::from_secs(1);

/// A server that takes its part from a client.
#[derive(Debug, Default)]
pub(super) struct Holder {
    /// Where the server is, in a form that drivers of sockets read.
    address: Bytes,
    building: Option<Building>,
    /// The last edits of each client, by their number, and their outcomes.
    edited: BTreeMap<NodeId, (u64, Vec<EditOutcome>)>,
    /// Vertices on their way to other servers: when they were sent last, and their bytes.
    transfers: BTreeMap<Vertex, (Instant, usize)>,
    transfer_bytes: usize,
}

/// A part that is not whole yet.
#[derive(Debug)]
struct Building {
    plan: GraphPlan,
    /// The server's own place among all.
    place: u16,
    at: PartPosition,
    owners: Vec<u16>,
    offsets: Vec<u64>,
    targets: Vec<Vertex>,
    weights: Vec<f32>,
    labels: Vec<u8>,
    moved: Vec<(Vertex, u32)>,
}

impl Holder {
    /// The server is at this address.
    pub(super) fn set_address(&mut self, mut address: Bytes) {
        address.truncate(ADDRESS_BYTES_MAX);
        self.address = address;
    }

    /// A client asks who is there.
    pub(super) fn announce<H: Host>(&self, cx: &mut Context<'_, H>, to: NodeId, plan: u64) {
        send(cx, to, Lane::Datagram, plan, GraphMessage::Here(self.address.clone()));
    }

    /// A client names the graph that this server must hold.
    pub(super) fn on_open<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &mut LocalPart,
        from: NodeId,
        OpenRequest { plan, replaces }: OpenRequest,
    ) -> Option<Replaced> {
        let id = plan.id;
        let place = plan.servers.iter().position(|&(server, _)| server == cx.node);
        let mut named: Vec<NodeId> = plan.servers.iter().map(|&(server, _)| server).collect();
        named.sort_unstable();
        let is_sound = id != 0 && named.windows(2).all(|pair| pair[0] != pair[1]);
        let Some(place) = place.filter(|_| is_sound) else {
            say_held(cx, from, id, Holding::Refused);
            return None;
        };
        if local.plan != id && local.plan != 0 && !replaces {
            say_held(cx, from, id, Holding::Other(local.plan));
            return None;
        }
        for (server, address) in &plan.servers {
            if *server != cx.node {
                cx.note_address(*server, address);
            }
        }
        let mut replaced = None;
        if local.plan != id && !self.is_building(id) {
            self.building = Some(Building::new(plan, place as u16));
            // A graph without vertices is whole at once.
            replaced = self.finish(cx.node, local).ok().flatten();
        }
        say_held(cx, from, id, self.holding(local, id));
        replaced
    }

    /// A client gives a piece of the part.
    pub(super) fn on_chunk<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &mut LocalPart,
        from: NodeId,
        plan: u64,
        chunk: &PartChunk,
    ) -> Option<Replaced> {
        let mut fits = Ok(());
        if let Some(building) = self.building.as_mut().filter(|b| b.plan.id == plan) {
            if chunk.from != building.at {
                // It was given twice, or one before it got lost with its connection.
                cx.count(counters::CHUNK_MISPLACED, 1);
            } else if building.append(chunk).is_err() || building.bytes() > local.bytes_max {
                cx.count(counters::CHUNK_REFUSED, 1);
                fits = Err(BadChunk);
            }
        }
        match fits.and_then(|()| self.finish(cx.node, local)) {
            Ok(replaced) => {
                say_held(cx, from, plan, self.holding(local, plan));
                replaced
            }
            Err(BadChunk) => {
                self.building = None;
                say_held(cx, from, plan, Holding::Refused);
                None
            }
        }
    }

    /// Once a part is whole it takes the place of the one before.
    fn finish(&mut self, me: NodeId, local: &mut LocalPart) -> Result<Option<Replaced>, BadChunk> {
        let Some(building) = self.building.take_if(|building| building.is_whole()) else {
            return Ok(None);
        };
        let pass = building.plan.pass;
        let (plan, part) = building.finish(me)?;
        *self = Holder { address: std::mem::take(&mut self.address), ..Holder::default() };
        Ok(Some(local.replace(plan, part, pass)))
    }

    /// What there is of a plan.
    pub(super) fn holding(&self, local: &LocalPart, plan: u64) -> Holding {
        match &self.building {
            Some(building) if building.plan.id == plan && local.plan != plan => {
                Holding::Until(building.at)
            }
            _ => local.holding(plan),
        }
    }

    /// A client wants changes.
    pub(super) fn on_edits<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &mut LocalPart,
        from: NodeId,
        batch: u64,
        edits: &[(Vertex, VertexChange)],
    ) {
        let outcomes = match self.edited.get(&from) {
            Some((number, outcomes)) if *number == batch => outcomes.clone(),
            _ => {
                let mut outcomes = Vec::with_capacity(edits.len());
                for (vertex, change) in edits {
                    let is_full = self.transfer_bytes > TRANSFER_BYTES_MAX;
                    outcomes.push(match change {
                        VertexChange::Move { .. } if is_full => EditOutcome::Busy,
                        _ => local.part.edit(*vertex, change, local.bytes_max),
                    });
                    self.give(cx, local, *vertex);
                }
                outcomes
            }
        };
        if self.edited.len() >= CLIENTS_MAX && !self.edited.contains_key(&from) {
            self.edited.pop_first();
        }
        self.edited.insert(from, (batch, outcomes.clone()));
        send(cx, from, Lane::Stream, local.plan, GraphMessage::Edited(batch, outcomes));
    }

    /// Sends a vertex to its next server, if a move is pending and the vertex is not under way.
    fn give<H: Host>(&mut self, cx: &mut Context<'_, H>, local: &LocalPart, vertex: Vertex) {
        if self.transfers.contains_key(&vertex) {
            return;
        }
        let Some((to, transfer)) = local.part.transfer_of(vertex) else { return };
        let bytes = transfer.row.wire_bytes();
        self.transfers.insert(vertex, (cx.now, bytes));
        self.transfer_bytes += bytes;
        send(cx, to, Lane::Stream, local.plan, GraphMessage::Give(transfer));
    }

    /// Sends vertices again whose new owner has not answered in time.
    pub(super) fn give_again<H: Host>(&mut self, cx: &mut Context<'_, H>, local: &LocalPart) {
        let is_old = |&(at, _): &(Instant, usize)| cx.now.since(at) >= RESEND_AFTER;
        let old = self.transfers.iter().filter(|(_, transfer)| is_old(transfer));
        let old: Vec<Vertex> = old.map(|(&vertex, _)| vertex).collect();
        for vertex in old {
            self.end_transfer(vertex);
            self.give(cx, local, vertex);
        }
    }

    /// When to look for vertices that must be sent again.
    pub(super) fn next_at(&self, now: Instant) -> Option<Instant> {
        (!self.transfers.is_empty()).then_some(now + RESEND_AFTER)
    }

    /// Another server says what it did with a vertex.
    pub(super) fn on_received<H: Host>(
        &mut self,
        cx: &mut Context<'_, H>,
        local: &mut LocalPart,
        from: NodeId,
        vertex: Vertex,
        reply: TransferReply,
    ) {
        local.part.on_reply(from, vertex, reply);
        self.end_transfer(vertex);
        self.give(cx, local, vertex);
    }

    fn is_building(&self, plan: u64) -> bool {
        self.building.as_ref().is_some_and(|building| building.plan.id == plan)
    }

    fn end_transfer(&mut self, vertex: Vertex) {
        if let Some((_, bytes)) = self.transfers.remove(&vertex) {
            self.transfer_bytes -= bytes;
        }
    }
}

/// Another server gives a vertex away.
pub(super) fn on_give<H: Host>(
    cx: &mut Context<'_, H>,
    local: &mut LocalPart,
    from: NodeId,
    transfer: VertexTransfer,
) {
    let vertex = transfer.vertex;
    let reply = local.part.install(from, transfer, local.bytes_max);
    send(cx, from, Lane::Stream, local.plan, GraphMessage::Received(vertex, reply));
}

/// Tells another node the owners of vertices that it attributed to this one.
pub(super) fn say_owners<H: Host>(
    cx: &mut Context<'_, H>,
    local: &LocalPart,
    to: NodeId,
    vertices: &[Vertex],
) {
    let mut places = Vec::new();
    for &vertex in vertices.iter().take(REPORTED_VERTICES_MAX) {
        let epoch = local.part.epoch(vertex);
        if let Some(owner) = local.part.owner(vertex).filter(|_| epoch > 0) {
            places.push((vertex, owner, epoch));
        }
    }
    if !places.is_empty() {
        send(cx, to, Lane::Datagram, local.plan, GraphMessage::Moved(places));
    }
}

/// A piece that does not fit: its sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadChunk;

impl Building {
    fn new(plan: GraphPlan, place: u16) -> Building {
        Building {
            plan,
            place,
            at: PartPosition::default(),
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
    fn append(&mut self, chunk: &PartChunk) -> Result<(), BadChunk> {
        let PartChunk { owners, degrees, targets, weights, labels, is_cut, .. } = chunk;
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
            return Err(BadChunk);
        }
        let mut degrees = degrees.iter();
        let mut end = self.targets.len() as u64;
        for (nth, &owner) in owners.iter().enumerate() {
            let is_first_part = nth > 0 || self.at.edge == 0;
            if is_first_part {
                self.owners.push(owner);
            }
            if owner == self.place {
                end += u64::from(*degrees.next().ok_or(BadChunk)?);
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
        let edge = u32::try_from(edge).map_err(|_| BadChunk)?;
        self.at = PartPosition { vertex: whole_rows as Vertex, edge };
        Ok(())
    }

    fn finish(self, me: NodeId) -> Result<(u64, Part), BadChunk> {
        let Building { plan, owners, offsets, targets, weights, labels, moved, .. } = self;
        let mut graph = Graph::new(offsets, targets).map_err(|_| BadChunk)?;
        if plan.is_weighted {
            graph = graph.with_weights(&weights).map_err(|_| BadChunk)?;
        }
        if plan.is_labelled {
            graph = graph.with_labels(labels).map_err(|_| BadChunk)?;
        }
        let servers = plan.servers.iter().map(|&(server, _)| server).collect();
        let owners = Owners::new(servers, owners).ok_or(BadChunk)?;
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
