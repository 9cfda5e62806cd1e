//! Commands of an application about a shared graph, and events to it.

use std::sync::Arc;

use bytes::Bytes;
use thiserror::Error;

use super::graph::{Graph, Vertex};
use super::part::Owners;
use super::rows::{EditFault, VertexChange};
use super::service::PassConfig;
use crate::core::{ConfigError, NodeId};

/// A command of the local application about the graph.
#[derive(Clone, Debug)]
pub enum GraphCommand {
    /// This server is where the bytes say, in a form that drivers of sockets read.
    Serve(Bytes),
    /// Give this graph to the servers. Only a client does so.
    Supply(Box<Supply>),
    /// Change rows, in this order. The number returns with the results.
    Edit(u64, Vec<Edit>),
}

/// A notification to the local application about the graph.
#[derive(Clone, Debug)]
pub enum GraphEvent {
    /// A server was found: where it says it is, and the plan of the graph that it has, 0 if none.
    Found(NodeId, Bytes, u64),
    /// Progress of the supply of this plan: how many vertices each server knows of, its own with
    /// their rows, summed over all servers. The end is the number of vertices times that of
    /// servers. Reported each time that it has advanced by a thousandth of the end.
    Supplying(u64, u64),
    /// All servers have their parts of the graph of this plan: jobs can begin.
    Supplied(u64),
    /// They have not.
    SupplyFailed(u64, SupplyFault),
    /// The results of these edits: the new version of the row, or for a move how often the vertex
    /// has moved.
    Edited(u64, Vec<Result<u32, EditError>>),
    /// A server has not answered for some seconds. Walks wait for it.
    ServerSilent(NodeId),
    /// It answers again.
    ServerBack(NodeId),
}

/// A graph for servers, and the assignment of its vertices.
#[derive(Clone, Debug)]
pub struct Supply {
    /// The name of graph and owners: another for other ones. Not 0.
    pub id: u64,
    /// The graph.
    pub graph: Arc<Graph>,
    /// Its weights as they were given, row by row, if it has any.
    pub weights: Option<Arc<Vec<f32>>>,
    /// The owner of each vertex.
    pub owners: Arc<Owners>,
    /// Where the servers are, in a form that drivers of sockets read; empty elsewhere.
    pub addresses: Vec<Bytes>,
    /// Whether a graph that servers have gives way to it.
    pub replaces: bool,
    /// How its walkers pass the servers; none for what each server is set to.
    pub pass: Option<PassConfig>,
}

/// A vertex and the change to make to it.
pub type Edit = (Vertex, VertexChange);

/// Why servers do not have a graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SupplyFault {
    /// This node is a server, or has its part from the start.
    #[error("only a client gives servers a graph")]
    NoClient,
    /// No server is named.
    #[error("no servers are named")]
    NoServers,
    /// The graph and the partition are not of each other.
    #[error("a graph of {graph} vertices with a partition of {owners}")]
    Vertices {
        /// Vertices of the graph.
        graph: u32,
        /// Vertices of the partition.
        owners: u32,
    },
    /// Weights are missing.
    #[error("the graph's edges have weights, and what they are is not said")]
    Weights,
    /// The setting for passing walkers is out of range.
    #[error(transparent)]
    Pass(#[from] ConfigError),
    /// A server has another graph.
    #[error("{0} has another graph, of plan {1:x}")]
    Other(NodeId, u64),
    /// A server does not take it.
    #[error("{0} does not take the graph: it has no room for its part")]
    Refused(NodeId),
}

/// Why an edit was not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EditError {
    /// The vertex's server refused it. Nothing has changed.
    #[error(transparent)]
    Refused(#[from] EditFault),
    /// A server has not answered. It may have made it.
    #[error("{0} does not answer")]
    Unanswered(NodeId),
    /// No servers have a graph.
    #[error("no servers have been given a graph")]
    NoGraph,
}
