//! Random walks over a graph that servers share.
//!
//! Servers ([`WalksBuilder::serve`]) are empty until a client ([`WalksBuilder::connect`]) gives
//! each its part of a graph ([`Walks::supply`]). Then the client starts walks ([`Walks::run`]), and
//! changes the graph while they pass ([`Walks::edit`]).
//!
//! # Guarantees
//!
//! Each walk of a job is reported once, whatever was lost on the way: with the path that it takes
//! in memory for its seed and number ([`Job`]), or as failed, after 60 s unless the configuration
//! says otherwise. Walks that reach a server that is lost wait for it. Restarted under the same
//! address and id it gets its part again, as it was in the client's graph: edits of its rows are
//! lost with it, moves of the same client are not.
//!
//! While a graph changes, each step uses the row that the vertex's server has at that time.
//! [`Trail::Versions`](paceline_proto::walk::Trail) records its version. A server that has an
//! outdated owner for a vertex is corrected by the server that it asks, and the walk continues.
//!
//! Nothing is authenticated: any host that reaches a server's port can give it another graph.

mod builder;
mod error;
mod replies;
mod server;
mod walking;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use paceline_net::{Node, Stats};
use paceline_proto::core::{NodeId, mix};
use paceline_proto::graphshare::{GraphCommand, Supply};
use paceline_proto::walk::{Command, Discipline, JobId, Owners, Server};

use builder::Found;
use replies::PendingReplies;

pub use builder::WalksBuilder;
pub use error::WalksError;
pub use paceline_proto::graphshare::{Edit, EditError, SupplyFault, VertexChange};
pub use paceline_proto::walk::{
    Census, Chance, Config, Graph, GraphError, Job, JobReport, Kind, Length, Node2Vec, PassConfig,
    Refusal, Sources, Stop, Trail, Vertex, Walk,
};
pub use server::WalkServer;
pub use walking::{Walked, Walking};

/// A graph to distribute to servers.
#[derive(Clone, Debug)]
pub struct SharedGraph {
    /// The graph.
    pub graph: Arc<Graph>,
    /// Its weights as they were given, row by row, if edges have any.
    pub weights: Option<Arc<Vec<f32>>>,
    /// For each vertex the index of its server among those that the client is
    /// [connected](WalksBuilder::connect) to.
    pub owners: Vec<u16>,
}

impl SharedGraph {
    /// A graph without weights.
    pub fn new(graph: impl Into<Arc<Graph>>, owners: Vec<u16>) -> SharedGraph {
        SharedGraph { graph: graph.into(), weights: None, owners }
    }

    /// The weights that the graph was made with ([`Graph::with_weights`]), row by row: servers need
    /// them as they were given.
    pub fn with_weights(self, weights: impl Into<Arc<Vec<f32>>>) -> SharedGraph {
        SharedGraph { weights: Some(weights.into()), ..self }
    }
}

/// A client of servers of walks. Clones are of the same; it stops when the last clone and all
/// [`Walking`]s are dropped.
#[derive(Clone)]
pub struct Walks {
    shared: Arc<Shared>,
}

struct Shared {
    node: Node<Server>,
    replies: Arc<PendingReplies>,
    id: NodeId,
    servers: Vec<Found>,
    pass: Option<PassConfig>,
    numbers: AtomicU64,
}

impl Walks {
    fn new(
        node: Node<Server>,
        id: NodeId,
        replies: Arc<PendingReplies>,
        servers: Vec<Found>,
        pass: Option<PassConfig>,
    ) -> Walks {
        let numbers = AtomicU64::new(1);
        Walks { shared: Arc::new(Shared { node, id, replies, servers, pass, numbers }) }
    }

    /// This host's id.
    pub fn id(&self) -> NodeId {
        self.shared.id
    }

    /// The address that the host listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.node.local_addr()
    }

    /// The servers, in the order in which vertices are distributed to them.
    pub fn servers(&self) -> Vec<SocketAddr> {
        self.shared.servers.iter().map(|server| server.address).collect()
    }

    /// Servers that do not answer at present: walks that reach them wait.
    pub fn silent(&self) -> Vec<SocketAddr> {
        let silent = self.shared.replies.silent();
        let servers = self.shared.servers.iter().filter(|server| silent.contains(&server.node));
        servers.map(|server| server.address).collect()
    }

    /// Gives each server its part of a graph, unless they have it; returns once they do. While this
    /// client lives, a server that restarts gets its part again.
    ///
    /// # Errors
    /// If a server has another graph ([`WalksError::OtherGraph`]), or this one divided among other
    /// servers; if one does not take its part, or they get no further with it for `within`.
    pub async fn supply(&self, graph: &SharedGraph, within: Duration) -> Result<(), WalksError> {
        self.give(graph, within, false).await
    }

    /// The same, in the place of any other graph that the servers have: walks of other clients over
    /// that one end.
    ///
    /// # Errors
    /// If a server does not take its part, or they get no further with it for `within`.
    pub async fn replace_graph(
        &self,
        graph: &SharedGraph,
        within: Duration,
    ) -> Result<(), WalksError> {
        self.give(graph, within, true).await
    }

    async fn give(
        &self,
        graph: &SharedGraph,
        within: Duration,
        replaces: bool,
    ) -> Result<(), WalksError> {
        let servers: Vec<NodeId> = self.shared.servers.iter().map(|server| server.node).collect();
        let id = name_of(graph, &servers, self.shared.pass.as_ref());
        let count = graph.owners.len() as u32;
        let owners = Owners::new(servers, graph.owners.clone());
        let vertices = graph.graph.vertices();
        let owners = owners.ok_or(SupplyFault::Vertices { graph: vertices, owners: count })?;
        let address = |server: &Found| Bytes::from(server.address.to_string());
        let supply = Supply {
            id,
            graph: graph.graph.clone(),
            weights: graph.weights.clone(),
            owners: Arc::new(owners),
            addresses: self.shared.servers.iter().map(address).collect(),
            replaces,
            pass: self.shared.pass,
        };
        let mut reply = self.shared.replies.expect_supply(id);
        self.command(Command::Graph(GraphCommand::Supply(Box::new(supply))))?;
        let mut reached = 0;
        let reply = loop {
            let reply = tokio::time::timeout(within, &mut reply).await;
            let before = std::mem::replace(&mut reached, self.shared.replies.supplied());
            if reply.is_ok() || reached == before {
                break reply;
            }
        };
        match reply {
            Ok(Ok(Ok(()))) => Ok(()),
            Ok(Ok(Err(SupplyFault::Other(server, _)))) => {
                let found = self.shared.servers.iter().find(|found| found.node == server);
                Err(found.map_or(WalksError::Closed, |found| WalksError::OtherGraph(found.address)))
            }
            Ok(Ok(Err(fault))) => Err(fault.into()),
            Ok(Err(_)) => Err(WalksError::Closed),
            Err(_) => Err(WalksError::SupplyTime(within)),
        }
    }

    /// Progress of [`supply`](Self::supply): the vertices that each server has received, its own
    /// with their edges, summed over all servers.
    pub fn supplied(&self) -> u64 {
        self.shared.replies.supplied()
    }

    /// Starts walks. The job's own id is ignored: it gets a new one.
    ///
    /// # Errors
    /// If the node has stopped. [`Walking::next`] returns the error of an invalid job.
    pub fn run(&self, job: Job) -> Result<Walking, WalksError> {
        let id = JobId(self.shared.numbers.fetch_add(1, Ordering::Relaxed));
        let reply = self.shared.replies.expect_job(id);
        self.command(Command::Run(Box::new(Job { id, ..job })))?;
        Ok(Walking::new(self.shared.clone(), id, reply))
    }

    /// Changes rows, in this order, while walks pass, and returns the result of each in the same
    /// order. A successful edit returns the new version of the row; a move, how often the vertex
    /// has moved.
    ///
    /// An edit is made once, even if messages get lost, unless its server restarts meanwhile.
    ///
    /// # Errors
    /// If the node has stopped.
    pub async fn edit(&self, edits: Vec<Edit>) -> Result<Vec<Result<u32, EditError>>, WalksError> {
        let id = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
        let reply = self.shared.replies.expect_edits(id);
        self.command(Command::Graph(GraphCommand::Edit(id, edits)))?;
        reply.await.map_err(|_| WalksError::Closed)
    }

    /// What the node counted.
    pub fn stats(&self) -> Stats {
        self.shared.node.stats()
    }

    /// Ends the client: it gives up its walks. Servers keep the graph. A client is no member, so
    /// there is nothing to leave.
    pub async fn stop(&self) {
        self.shared.node.stop().await;
    }

    fn command(&self, command: Command) -> Result<(), WalksError> {
        Ok(self.shared.node.command(command)?)
    }
}

/// A hash that depends on the graph, the partition, and the settings of passing walkers.
fn name_of(graph: &SharedGraph, servers: &[NodeId], pass: Option<&PassConfig>) -> u64 {
    let SharedGraph { graph, weights, owners } = graph;
    let mut name = mix(graph.edges() ^ u64::from(graph.vertices()) << 32);
    let mut add = |word: u64| name = mix(name ^ word);
    graph.offsets().iter().for_each(|&offset| add(offset));
    graph.targets().iter().for_each(|&target| add(target.into()));
    let weights = weights.iter().flat_map(|weights| weights.iter());
    weights.for_each(|weight| add(weight.to_bits().into()));
    graph.labels().unwrap_or_default().iter().for_each(|&label| add(label.into()));
    owners.iter().for_each(|&owner| add(owner.into()));
    servers.iter().for_each(|server| add(server.0));
    if let Some(PassConfig { queue, bundle }) = pass {
        let discipline = match queue.discipline {
            Discipline::TailDrop => 1,
            Discipline::RedDrop => 2,
            Discipline::RedMark => 3,
        };
        add(discipline << 1 | u64::from(queue.is_gentle));
        [queue.min_th, queue.max_th, queue.limit, bundle.walkers_max]
            .into_iter()
            .for_each(|number| add(number as u64));
        [queue.max_p, queue.weight].into_iter().for_each(|number| add(number.to_bits()));
        add(bundle.deadline.as_micros() as u64);
    }
    name.max(1)
}
