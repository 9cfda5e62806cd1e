use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use paceline_net::{Events, Node};
use paceline_proto::core::NodeId;
use paceline_proto::graphshare::{GraphCommand, GraphEvent};
use paceline_proto::walk::{Command, Config, Event, PassConfig, Server};

use super::Walks;
use super::replies::PendingReplies;
use super::server::WalkServer;
use crate::builder::ServiceBuilder;
use crate::join_error::JoinError;
use crate::mismatch::{differs, unanswered};
use crate::peers::{self, PeerError};

/// Most servers: as many peers are contacted at once.
const SERVERS_MAX: usize = 64;
/// Separates servers and clients of walks from other services of the same name.
const KIND: &str = "walks";
/// Interval between attempts to reach servers that have not answered.
const SEEK_EVERY: Duration = Duration::from_millis(500);

/// Configures a server of walks, or a client; made by [`Host::walks`](crate::Host::walks).
pub type WalksBuilder = ServiceBuilder<WalksSettings>;

/// What is configured of walks alone.
#[derive(Debug, Default)]
pub struct WalksSettings {
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
    /// Changes the configuration: queues, bundles, windows, timeouts. A server uses its queues and
    /// bundles for walkers that pass, a client its generation rate and timeouts for its own walks.
    pub fn with_config(mut self, change: impl FnOnce(Config) -> Config) -> WalksBuilder {
        self.settings.config = change(self.settings.config);
        self
    }

    /// Replaces, for the walkers of this client's graph, the settings of queues and bundles at its
    /// servers. Default: each server's own. A graph with other settings at the servers counts as
    /// another graph.
    pub fn with_pass(mut self, pass: PassConfig) -> WalksBuilder {
        self.settings.pass = Some(pass);
        self
    }

    /// Starts a server: it waits for a client that supplies a part of a graph.
    ///
    /// A client recognises a restarted server only under the same address and
    /// [id](crate::HostBuilder::id).
    ///
    /// # Errors
    /// If a setting is out of range, or the host serves walks of this name or has stopped.
    pub async fn serve(self) -> Result<WalkServer, JoinError> {
        let (id, address) = (self.joining.id(), self.joining.address());
        let protocol = Server::awaiting(self.settings.config, id)?;
        let (node, events) = self.joining.start(KIND, protocol, ())?;
        node.command(Command::Graph(GraphCommand::Serve(address)))?;
        Ok(WalkServer::new(node, events, id))
    }

    /// Becomes the client of the [peers](Self::peers), all of which must be servers. Vertices are
    /// divided among them in their order, so each is named by `HOST:PORT`: in the list itself, on a
    /// line of `file:PATH`, or in the list of `env:VARIABLE`. DNS records have no order. Each is
    /// resolved once.
    ///
    /// # Errors
    /// If a setting is out of range, a server is not named so or cannot be resolved, or one does
    /// not answer in time.
    pub async fn connect(self) -> Result<Walks, JoinError> {
        let names = peers::in_order(self.joining.forms()?)?;
        if names.is_empty() || names.len() > SERVERS_MAX {
            return Err(JoinError::Servers { servers: names.len() });
        }
        let mut sought = Vec::new();
        for peer in &names {
            let unresolved = |source| PeerError::Unresolved { peer: peer.clone(), source };
            let addresses = tokio::net::lookup_host(peer.as_str()).await.map_err(unresolved)?;
            sought.push(addresses.collect::<Vec<_>>());
        }
        let WalksSettings { config, pass } = self.settings;
        let (id, within) = (self.joining.id(), self.joining.within);
        let service = format!("{KIND} {}", self.joining.registered().1);
        let protocol = Server::client(config, id)?;
        let (node, mut events) = self.joining.start(KIND, protocol, ())?;
        let finding = find(&node, &mut events, (&names, &sought), (service, within));
        match finding.await {
            Ok(found) => {
                let replies = Arc::new(PendingReplies::default());
                tokio::spawn(replies.clone().serve(events));
                Ok(Walks::new(node, id, replies, found, pass))
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
    (names, sought): (&[String], &[Vec<SocketAddr>]),
    (service, within): (String, Duration),
) -> Result<Vec<Found>, JoinError> {
    let mut places: Vec<Option<Found>> = vec![None; names.len()];
    // Servers that answered from another address than the requested one.
    let mut others: BTreeMap<NodeId, Found> = BTreeMap::new();
    let deadline = tokio::time::Instant::now() + within;
    let mut seek_at = tokio::time::Instant::now();
    // All servers are needed.
    let mut differ = pin!(differs(node, 1));
    let missing = loop {
        let missing: Vec<usize> = (0..names.len()).filter(|&at| places[at].is_none()).collect();
        if missing.len() <= others.len() {
            for (place, (_, found)) in missing.into_iter().zip(std::mem::take(&mut others)) {
                places[place] = Some(found);
            }
            return Ok(places.into_iter().flatten().collect());
        }
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return Err(JoinError::Closed) };
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
                    return Err(JoinError::ServerTwice { server: names[place].clone() });
                }
                places[place] = Some(found);
            }
            () = tokio::time::sleep_until(seek_at) => {
                let addresses = missing.iter().flat_map(|&place| sought[place].clone());
                node.seek(addresses.collect())?;
                seek_at += SEEK_EVERY;
            }
            () = &mut differ => break missing,
            () = tokio::time::sleep_until(deadline) => break missing,
        }
    };
    let missing: Vec<&str> = missing.iter().map(|&place| &*names[place]).collect();
    Err(unanswered(node, service, missing.join(", "), within))
}
