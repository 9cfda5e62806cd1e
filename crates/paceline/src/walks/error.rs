use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use paceline_net::{Closed, StartError};
use paceline_proto::core::ConfigError;
use paceline_proto::graphshare::SupplyFault;
use paceline_proto::walk::Refusal;
use thiserror::Error;

/// Why servers, a graph or walks are not available.
#[derive(Debug, Error)]
pub enum WalksError {
    /// A setting is out of its range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No servers are given, or too many.
    #[error("{0} servers, expected 1 to 64")]
    Servers(usize),
    /// A server's name has no address.
    #[error("server {server}: {source}")]
    Unresolved {
        /// Its name as it was given.
        server: String,
        /// The error of the resolver.
        source: io::Error,
    },
    /// Two names resolve to the same server.
    #[error("{0} is named twice")]
    Twice(String),
    /// Servers do not answer.
    #[error(
        "no reply from {} within {within:?}: is `paceline node --service walk` running there?",
        servers.join(", ")
    )]
    Unanswered {
        /// Their names as they were given.
        servers: Vec<String>,
        /// How long they were waited for.
        within: Duration,
    },
    /// The graph could not be supplied.
    #[error(transparent)]
    Supply(#[from] SupplyFault),
    /// Servers have another graph, and the caller did not allow to replace it.
    #[error("{0} has another graph: allow replacing it, or use other servers")]
    OtherGraph(SocketAddr),
    /// Servers got another graph while walks were under way, which are lost.
    #[error("the graph was replaced during the job: {0}; supply the graph and start again")]
    GraphLost(SupplyFault),
    /// Servers accepted nothing further of their parts for this long.
    #[error("the servers made no progress with their parts of the graph for {0:?}")]
    SupplyTime(Duration),
    /// The walks were not begun.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The node has stopped.
    #[error("the node has stopped")]
    Closed,
}

impl From<Closed> for WalksError {
    fn from(Closed: Closed) -> WalksError {
        WalksError::Closed
    }
}
