//! A server's part of a graph, and the owners of the rest: both may change while walks are under
//! way.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::graph::{Adjacency, Graph, Row, Vertex};
use super::rows::{EditFault, OwnRow, VertexChange};
use crate::core::NodeId;
use crate::core::field::fields;

/// The owner of each vertex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owners {
    servers: Vec<NodeId>,
    /// The same in the order of their numbers.
    sorted: Vec<NodeId>,
    owners: Vec<u16>,
}

/// Marks a vertex of which a part knows something else than its graph and its owners say.
const CHANGED: u16 = 1 << 15;

impl Owners {
    /// The most servers.
    pub const SERVERS_MAX: usize = CHANGED as usize;

    /// These servers, and for each vertex the place of its own among them.
    ///
    /// None if a vertex is given to a server that is not named, or there are too many servers.
    pub fn new(servers: Vec<NodeId>, owners: Vec<u16>) -> Option<Owners> {
        let all_named = owners.iter().all(|&owner| usize::from(owner) < servers.len());
        let mut sorted = servers.clone();
        sorted.sort_unstable();
        let is_possible = all_named && servers.len() <= Owners::SERVERS_MAX;
        is_possible.then_some(Owners { servers, sorted, owners })
    }

    /// The owner of a vertex. Vertices beyond the last one go to the servers in turn; `None` if
    /// there are no servers.
    pub fn owner(&self, vertex: Vertex) -> Option<NodeId> {
        self.servers.get(self.place(vertex)).copied()
    }

    /// The place of a vertex's server among all, if there are any.
    fn place(&self, vertex: Vertex) -> usize {
        match self.owners.get(vertex as usize) {
            Some(owner) => usize::from(owner & !CHANGED),
            None => vertex as usize % self.servers.len().max(1),
        }
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> u32 {
        self.owners.len() as u32
    }

    /// All servers.
    pub fn servers(&self) -> &[NodeId] {
        &self.servers
    }

    /// True if a node is one of them.
    pub fn is_server(&self, node: NodeId) -> bool {
        self.sorted.binary_search(&node).is_ok()
    }

    fn is_changed(&self, vertex: Vertex) -> bool {
        self.owners.get(vertex as usize).is_none_or(|owner| owner & CHANGED != 0)
    }

    fn set_changed(&mut self, vertex: Vertex) {
        if let Some(owner) = self.owners.get_mut(vertex as usize) {
            *owner |= CHANGED;
        }
    }
}

/// Changes of a vertex since the servers began with the graph.
#[derive(Clone, Debug, PartialEq)]
struct Changed {
    owner: NodeId,
    /// How many times it has moved: the report with the highest number is the newest.
    epoch: u32,
    /// How often its row has changed.
    version: u32,
    /// Its edges, if they are here and other than in the graph.
    row: Option<Box<OwnRow>>,
    /// The server to which it is moving.
    moving: Option<NodeId>,
}

/// A vertex on its way to another server, with its edges.
#[derive(Clone, Debug, PartialEq)]
pub struct VertexTransfer {
    /// The vertex.
    pub vertex: Vertex,
    /// How often it has gone from server to server, this time included.
    pub epoch: u32,
    /// How often its row has changed.
    pub version: u32,
    /// Its edges.
    pub row: OwnRow,
}

fields! {
    /// A server's answer to the transfer of a vertex.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TransferReply {
        /// It has it, or has given it on; that was its move of this number.
        0 => Taken(epoch: u32),
        /// It knows of this many moves, and the giver of fewer.
        1 => Moves(epoch: u32),
        /// It does not take it: it has no room, or the row is no row of this graph.
        2 => Refused,
    }
}

fields! {
    /// The outcome of an edit at the vertex's server.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum EditOutcome {
        /// It is done, or nothing was to be done; the row has this version now.
        0 => Done(version: u32),
        /// The vertex belongs to another server, after this many moves.
        1 => Elsewhere(owner: NodeId, epoch: u32),
        /// The vertex is on its way to another server: ask again.
        2 => Busy,
        /// It cannot be.
        3 => Refused(fault: EditFault),
    }
}

/// A node's view of a graph: the owner of each vertex, and the rows of its own.
#[derive(Clone, Debug)]
pub struct Part {
    me: NodeId,
    graph: Arc<Graph>,
    /// Weights of the graph's edges as they were given: what is needed to change a row.
    weights: Option<Arc<Vec<f32>>>,
    owners: Arc<Owners>,
    changed: BTreeMap<Vertex, Changed>,
    changed_bytes: usize,
    /// One more than the greatest vertex that is known.
    vertices: u32,
    is_weighted: bool,
    is_labelled: bool,
}

impl Part {
    /// The part of server `me` in a graph: rows of other servers may be empty in it. A client has
    /// no rows, but must know which attributes the graph's edges carry.
    pub fn new(me: NodeId, graph: Arc<Graph>, owners: Arc<Owners>) -> Part {
        let vertices = owners.vertices();
        let (is_weighted, is_labelled) = (graph.is_weighted(), graph.is_labelled());
        let (weights, changed) = (None, BTreeMap::new());
        let changed_bytes = 0;
        Part {
            me,
            graph,
            weights,
            owners,
            changed,
            changed_bytes,
            vertices,
            is_weighted,
            is_labelled,
        }
    }

    /// With the graph's weights as they were given, row by row: rows with weights can be changed
    /// only where these are known.
    pub fn with_weights(self, weights: Arc<Vec<f32>>) -> Part {
        Part { weights: Some(weights), ..self }
    }

    /// Of edges that carry this, whatever the graph here, which may be none, has.
    pub fn with_edges(self, is_weighted: bool, is_labelled: bool) -> Part {
        Part { is_weighted, is_labelled, ..self }
    }

    /// Nothing, of a graph that is not known yet.
    pub fn nothing(me: NodeId) -> Part {
        let none = Graph::from_edges(0, []).expect("no edge is wrong");
        Part::new(me, Arc::new(none), Arc::new(Owners::default()))
    }

    /// The owner of a vertex; `None` if there are no servers.
    #[inline]
    pub fn owner(&self, vertex: Vertex) -> Option<NodeId> {
        match self.changed_of(vertex) {
            Some(changed) => Some(changed.owner),
            None => self.owners.owner(vertex),
        }
    }

    /// The place of the vertex's owner among all servers; `None` if the owner is not one of them.
    pub fn place(&self, vertex: Vertex) -> Option<usize> {
        match self.changed_of(vertex) {
            Some(changed) => self.servers().iter().position(|&server| server == changed.owner),
            None => Some(self.owners.place(vertex)),
        }
    }

    /// One more than the greatest vertex that is known here.
    pub fn vertices(&self) -> u32 {
        self.vertices
    }

    /// All servers.
    pub fn servers(&self) -> &[NodeId] {
        self.owners.servers()
    }

    /// True if a node is one of them.
    pub fn is_server(&self, node: NodeId) -> bool {
        self.owners.is_server(node)
    }

    /// True if edges have labels.
    pub fn is_labelled(&self) -> bool {
        self.is_labelled
    }

    /// True if edges have weights.
    pub fn is_weighted(&self) -> bool {
        self.is_weighted
    }

    /// How often a vertex's row has changed, as far as is known here.
    pub fn version(&self, vertex: Vertex) -> u32 {
        self.changed_of(vertex).map_or(0, |changed| changed.version)
    }

    /// How often a vertex has gone from server to server, as far as is known here.
    pub fn epoch(&self, vertex: Vertex) -> u32 {
        self.changed_of(vertex).map_or(0, |changed| changed.epoch)
    }

    /// Bytes of rows that have changed, and of what is known of moved vertices.
    pub fn changed_bytes(&self) -> usize {
        self.changed_bytes
    }

    /// A vertex has gone from server to server so often before it came to be with its owner.
    pub fn has_moved(&mut self, vertex: Vertex, epoch: u32) {
        self.change(vertex).epoch = epoch;
    }

    /// This vertex is known to be from now on, and all before it.
    pub fn reach(&mut self, vertex: Vertex) {
        self.vertices = self.vertices.max(vertex.saturating_add(1));
    }

    /// Changes a row, or lets a vertex go, if it is here.
    pub fn edit(&mut self, vertex: Vertex, change: &VertexChange, bytes_max: usize) -> EditOutcome {
        let owner = match self.owner(vertex) {
            Some(owner) => owner,
            None => return EditOutcome::Refused(EditFault::NoSuchServer),
        };
        if owner != self.me {
            return EditOutcome::Elsewhere(owner, self.epoch(vertex));
        }
        if self.changed_of(vertex).is_some_and(|changed| changed.moving.is_some()) {
            return EditOutcome::Busy;
        }
        if let VertexChange::Move { to } = change {
            return self.begin_move(vertex, *to);
        }
        if let Err(fault) = change.check(self.is_weighted, self.is_labelled) {
            return EditOutcome::Refused(fault);
        }
        let Some(mut row) = self.own_row(vertex) else {
            return EditOutcome::Refused(EditFault::Fixed);
        };
        if !row.apply(change) {
            return EditOutcome::Done(self.version(vertex));
        }
        if row.bytes() > self.row_bytes(vertex) && self.changed_bytes + row.bytes() > bytes_max {
            return EditOutcome::Refused(EditFault::Full);
        }
        if let VertexChange::Set { to, .. } = change {
            self.reach(*to);
        }
        self.reach(vertex);
        let changed = self.change(vertex);
        changed.version += 1;
        let version = changed.version;
        self.keep_row(vertex, Some(row));
        EditOutcome::Done(version)
    }

    fn begin_move(&mut self, vertex: Vertex, to: u16) -> EditOutcome {
        let Some(&to) = self.owners.servers().get(usize::from(to)) else {
            return EditOutcome::Refused(EditFault::NoSuchServer);
        };
        if to == self.me {
            return EditOutcome::Done(self.version(vertex));
        }
        let Some(row) = self.own_row(vertex) else { return EditOutcome::Refused(EditFault::Fixed) };
        if row.wire_bytes() > OwnRow::WIRE_BYTES_MAX {
            return EditOutcome::Refused(EditFault::TooLong);
        }
        self.change(vertex).moving = Some(to);
        EditOutcome::Busy
    }

    /// A vertex that is moving: its next server, and the message for it.
    pub fn transfer_of(&self, vertex: Vertex) -> Option<(NodeId, VertexTransfer)> {
        let changed = self.changed_of(vertex)?;
        let (to, epoch) = (changed.moving?, changed.epoch.saturating_add(1));
        let (version, row) = (changed.version, self.own_row(vertex)?);
        Some((to, VertexTransfer { vertex, epoch, version, row }))
    }

    /// Another server gives a vertex away, to this one.
    pub fn install(
        &mut self,
        from: NodeId,
        transfer: VertexTransfer,
        bytes_max: usize,
    ) -> TransferReply {
        let VertexTransfer { vertex, epoch, version, row } = transfer;
        let known = self.epoch(vertex);
        if known >= epoch {
            // Either this is a duplicate of an old transfer, or the giver has restarted and does
            // not know how often the vertex has moved.
            let is_givers = self.owner(vertex) == Some(from);
            return if is_givers {
                TransferReply::Moves(known)
            } else {
                TransferReply::Taken(known)
            };
        }
        let is_right = row.has(self.is_weighted, self.is_labelled) && row.is_sound();
        if !is_right || self.changed_bytes + row.bytes() > bytes_max {
            return TransferReply::Refused;
        }
        self.reach(vertex);
        let me = self.me;
        let changed = self.change(vertex);
        (changed.owner, changed.epoch, changed.version) = (me, epoch, version);
        changed.moving = None;
        self.keep_row(vertex, Some(row));
        TransferReply::Taken(epoch)
    }

    /// Another server answers for a vertex that was moving to it.
    pub fn on_reply(&mut self, from: NodeId, vertex: Vertex, reply: TransferReply) {
        let Some(changed) = self.changed.get_mut(&vertex) else { return };
        if changed.moving != Some(from) {
            return;
        }
        match reply {
            TransferReply::Taken(epoch) => {
                (changed.owner, changed.epoch, changed.moving) = (from, epoch, None);
                self.keep_row(vertex, None);
            }
            // It is given once more, with a number that is news.
            TransferReply::Moves(epoch) => changed.epoch = changed.epoch.max(epoch),
            TransferReply::Refused => changed.moving = None,
        }
    }

    /// Another node reports a vertex's owner after `epoch` moves.
    pub fn learn(&mut self, vertex: Vertex, owner: NodeId, epoch: u32, bytes_max: usize) {
        let is_news = epoch > self.epoch(vertex) && self.owners.is_server(owner);
        let is_own = self.owner(vertex) == Some(self.me);
        // What is here stays here until it is given away.
        if !is_news || is_own || owner == self.me || self.changed_bytes >= bytes_max {
            return;
        }
        self.reach(vertex);
        let changed = self.change(vertex);
        (changed.owner, changed.epoch) = (owner, epoch);
    }

    #[inline]
    fn changed_of(&self, vertex: Vertex) -> Option<&Changed> {
        if self.owners.is_changed(vertex) { self.changed.get(&vertex) } else { None }
    }

    /// What is known of a vertex, to be changed.
    fn change(&mut self, vertex: Vertex) -> &mut Changed {
        let owner = self.owner(vertex).unwrap_or(self.me);
        if !self.owners.is_changed(vertex) {
            Arc::make_mut(&mut self.owners).set_changed(vertex);
        }
        let bytes = &mut self.changed_bytes;
        self.changed.entry(vertex).or_insert_with(|| {
            *bytes += size_of::<Changed>() + size_of::<Vertex>();
            Changed { owner, epoch: 0, version: 0, row: None, moving: None }
        })
    }

    fn keep_row(&mut self, vertex: Vertex, row: Option<OwnRow>) {
        let Some(changed) = self.changed.get_mut(&vertex) else { return };
        self.changed_bytes -= changed.row.as_ref().map_or(0, |row| row.bytes());
        self.changed_bytes += row.as_ref().map_or(0, OwnRow::bytes);
        changed.row = row.map(Box::new);
    }

    fn row_bytes(&self, vertex: Vertex) -> usize {
        let row = self.changed_of(vertex).and_then(|changed| changed.row.as_ref());
        row.map_or(0, |row| row.bytes())
    }

    /// The edges of one of its vertices, to be changed or given away; none if their weights are
    /// not known.
    fn own_row(&self, vertex: Vertex) -> Option<OwnRow> {
        if let Some(row) = self.changed_of(vertex).and_then(|changed| changed.row.as_deref()) {
            return Some(row.clone());
        }
        if vertex >= self.graph.vertices() {
            return Some(OwnRow::new(self.is_weighted, self.is_labelled));
        }
        let row = self.graph.row_of(vertex);
        let begin = self.graph.offsets()[vertex as usize] as usize;
        let weights = match &self.weights {
            Some(weights) => Some(weights.get(begin..begin + row.targets.len())?),
            None if self.is_weighted => return None,
            None => None,
        };
        Some(OwnRow::of(row.targets, weights, row.labels))
    }
}

/// What a step will read, without a look at what it means: for vertices of others, and for rows
/// that have changed, it is something else.
impl Part {
    /// The place of the edge that a draw falls on.
    #[inline]
    pub(crate) fn edge_ahead(&self, vertex: Vertex, draw: u64) -> u64 {
        self.graph.edge_of(vertex, draw)
    }

    /// Where it leads.
    #[inline]
    pub(crate) fn target_ahead(&self, edge: u64) -> Vertex {
        self.graph.target_of(edge)
    }

    /// The place of the vertex's owner among the servers.
    #[inline]
    pub(crate) fn place_ahead(&self, vertex: Vertex) -> usize {
        self.owners.place(vertex)
    }
}

impl Adjacency for Part {
    #[inline(always)]
    fn row(&self, vertex: Vertex) -> Option<Row<'_>> {
        if let Some(changed) = self.changed_of(vertex) {
            if changed.owner != self.me {
                return None;
            }
            if let Some(row) = &changed.row {
                return Some(row.row());
            }
        } else if self.owners.owner(vertex) != Some(self.me) {
            return None;
        }
        let is_new = vertex >= self.graph.vertices();
        Some(if is_new { Row::EMPTY } else { self.graph.row_of(vertex) })
    }
}
