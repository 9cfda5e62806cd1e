use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use paceline_net::{Events, Node};
use paceline_proto::core::NodeId;
use paceline_proto::graphshare::{GraphCommand, GraphEvent};
use paceline_proto::walk::{Command, Config, Event, PassConfig, Server};

use super::Walks;
use super::error::WalksError;
use super::replies::PendingReplies;
use super::server::WalkServer;
use crate::Host;
use crate::joining::Joining;

/// Most servers: as many peers are contacted at once.
const SERVERS_MAX: usize = 64;
/// Separates servers and clients of walks from other services of the same name.
const KIND: &str = "walks";
/// Interval between attempts to reach servers that have not answered.
const SEEK_EVERY: Duration = Duration::from_millis(500);

/// Serves walks or connects to servers; made by [`Host::walks`].
#[derive(Debug)]
pub struct WalksBuilder {
    joining: Joining,
    config: Config,
    pass: Option<PassConfig>,
}

/// A server that has answered.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub node: NodeId,
    pub address: SocketAddr,
}

impl WalksBuilder {
    pub(crate) fn new(host: Host, name: &str) -> WalksBuilder {
        let joining = Joining::new(host, name);
        WalksBuilder { joining, config: Config::default(), pass: None }
    }

    /// Changes the configuration: queues, bundles, windows, timeouts. A server uses its queues and
    /// bundles for walkers that pass, a client its generation rate and timeouts for its own walks.
    pub fn with_config(mut self, change: impl FnOnce(Config) -> Config) -> WalksBuilder {
        self.config = change(self.config);
        self
    }

    /// Replaces, for the walkers of this client's graph, the settings of queues and bundles at its
    /// servers. Default: each server's own. A graph with other settings at the servers counts as
    /// another graph.
    pub fn with_pass(mut self, pass: PassConfig) -> WalksBuilder {
        self.pass = Some(pass);
        self
    }

    /// The service's weight on the host's link, 1 to 1,000 or the nearest of these. While several
    /// services of the host have something to send, each gets a share in proportion, as
    /// [`HostBuilder::link_rate`](crate::HostBuilder::link_rate) says. Default 1.
    pub fn weight(mut self, weight: u32) -> WalksBuilder {
        self.joining.weight = weight;
        self
    }

    /// How long servers may take to answer. Default 10 s.
    pub fn within(mut self, time: Duration) -> WalksBuilder {
        self.joining.within = time;
        self
    }

    /// Starts a server: it waits for a client that supplies a part of a graph.
    ///
    /// A client recognises a restarted server only under the same address and
    /// [id](crate::HostBuilder::id).
    ///
    /// # Errors
    /// If a setting is out of range, or there is no tokio runtime.
    pub async fn serve(self) -> Result<WalkServer, WalksError> {
        let (id, address) = (self.joining.id(), self.joining.address());
        let protocol = Server::awaiting(self.config, id)?;
        let (node, events) = self.joining.start(KIND, protocol, ())?;
        node.command(Command::Graph(GraphCommand::Serve(address)))?;
        Ok(WalkServer::new(node, events, id))
    }

    /// Finds these servers (`host:port`) and becomes their client. Vertices are distributed to them
    /// in this order.
    ///
    /// # Errors
    /// If a setting is out of range, there is no tokio runtime, a name cannot be resolved, or a
    /// server does not answer in time.
    pub async fn connect(
        self,
        servers: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> Result<Walks, WalksError> {
        let names: Vec<String> = servers.into_iter().map(|name| name.as_ref().to_owned()).collect();
        if names.is_empty() || names.len() > SERVERS_MAX {
            return Err(WalksError::Servers(names.len()));
        }
        let mut sought = Vec::new();
        for name in &names {
            let unresolved = |source| WalksError::Unresolved { server: name.clone(), source };
            let addresses = tokio::net::lookup_host(name.as_str()).await.map_err(unresolved)?;
            sought.push(addresses.collect::<Vec<_>>());
        }
        let protocol = Server::client(self.config, self.joining.id())?;
        let (within, pass) = (self.joining.within, self.pass);
        let (node, mut events) = self.joining.start(KIND, protocol, ())?;
        let finding = find(&node, &mut events, &names, &sought, within);
        match finding.await {
            Ok(found) => {
                let replies = Arc::new(PendingReplies::default());
                tokio::spawn(replies.clone().serve(events));
                Ok(Walks::new(node, replies, found, pass))
            }
            Err(error) => {
                node.stop().await;
                Err(error)
            }
        }
    }
}

/// Waits until all servers have answered, and returns them in the given order.
async fn find(
    node: &Node<Server>,
    events: &mut Events<Server>,
    names: &[String],
    sought: &[Vec<SocketAddr>],
    within: Duration,
) -> Result<Vec<Found>, WalksError> {
    let mut places: Vec<Option<Found>> = vec![None; names.len()];
    // Servers that answered from another address than the requested one.
    let mut others: BTreeMap<NodeId, Found> = BTreeMap::new();
    let deadline = tokio::time::Instant::now() + within;
    let mut seek_at = tokio::time::Instant::now();
    loop {
        let missing: Vec<usize> = (0..names.len()).filter(|&at| places[at].is_none()).collect();
        if missing.len() <= others.len() {
            for (place, (_, found)) in missing.into_iter().zip(std::mem::take(&mut others)) {
                places[place] = Some(found);
            }
            return Ok(places.into_iter().flatten().collect());
        }
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Err(WalksError::Closed) };
                let Event::Graph(GraphEvent::Found(server, address, _)) = event else { continue };
                let address = std::str::from_utf8(&address).ok().and_then(|text| text.parse().ok());
                let Some(address) = address else { continue };
                let found = Found { node: server, address };
                let mut of = sought.iter().map(|addresses| addresses.contains(&address));
                let Some(place) = of.position(|is_it| is_it) else {
                    others.insert(server, found);
                    continue;
                };
                if sought.iter().filter(|addresses| addresses.contains(&address)).count() > 1 {
                    return Err(WalksError::Twice(names[place].clone()));
                }
                places[place] = Some(found);
            }
            () = tokio::time::sleep_until(seek_at) => {
                let addresses = missing.iter().flat_map(|&place| sought[place].clone());
                node.seek(addresses.collect())?;
                seek_at += SEEK_EVERY;
            }
            () = tokio::time::sleep_until(deadline) => {
                let servers = missing.iter().map(|&place| names[place].clone()).collect();
                return Err(WalksError::Unanswered { servers, within });
            }
        }
    }
}
