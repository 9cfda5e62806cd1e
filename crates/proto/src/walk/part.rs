//! A server's part of a graph, and who has the rest.

use std::sync::Arc;

use super::graph::{Adjacency, Graph, Row, Vertex};
use crate::core::NodeId;

/// Who has which vertex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owners {
    servers: Vec<NodeId>,
    owners: Vec<u16>,
}

impl Owners {
    /// These servers, and for each vertex the place of its own among them.
    ///
    /// None if a vertex is given to a server that is not named.
    pub fn new(servers: Vec<NodeId>, owners: Vec<u16>) -> Option<Owners> {
        let all_named = owners.iter().all(|&owner| usize::from(owner) < servers.len());
        all_named.then_some(Owners { servers, owners })
    }

    /// Who has a vertex; none if it is none.
    pub fn owner(&self, vertex: Vertex) -> Option<NodeId> {
        let owner = self.owners.get(vertex as usize)?;
        Some(self.servers[usize::from(*owner)])
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> u32 {
        self.owners.len() as u32
    }

    /// All servers.
    pub fn servers(&self) -> &[NodeId] {
        &self.servers
    }
}

/// The vertices of one server.
#[derive(Clone, Debug)]
pub struct Part {
    me: NodeId,
    graph: Arc<Graph>,
    owners: Arc<Owners>,
}

impl Part {
    /// What server `me` has of a graph: rows of others may be empty in it.
    pub fn new(me: NodeId, graph: Arc<Graph>, owners: Arc<Owners>) -> Part {
        Part { me, graph, owners }
    }

    /// Who has a vertex; none if it is none.
    pub fn owner(&self, vertex: Vertex) -> Option<NodeId> {
        self.owners.owner(vertex)
    }

    /// How many vertices the whole graph has.
    pub fn vertices(&self) -> u32 {
        self.owners.vertices()
    }

    /// True if edges have labels.
    pub fn is_labelled(&self) -> bool {
        self.graph.is_labelled()
    }
}

impl Adjacency for Part {
    fn row(&self, vertex: Vertex) -> Option<Row<'_>> {
        (self.owner(vertex) == Some(self.me)).then(|| self.graph.row_of(vertex))
    }
}
