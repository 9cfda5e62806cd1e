use std::net::SocketAddr;
use std::time::Duration;

use paceline_net::Closed;
use paceline_proto::graphshare::SupplyFault;
use paceline_proto::walk::Refusal;
use thiserror::Error;

/// Why a graph or walks are not available.
///
/// - The caller is at fault, and nothing has changed: `Refused`, and `Supply` of a graph that does
///   not fit its owners.
/// - Another client is: with `OtherGraph` nothing has changed, with `GraphLost` walks are lost.
/// - The servers are, or the path to them: with `SupplyTime` and `Supply` some may have their
///   parts.
/// - This host is: with `Closed` walks that were under way are lost.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WalksError {
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
    /// The client or its host has stopped.
    #[error("the client or its host has stopped")]
    Closed,
}

impl From<Closed> for WalksError {
    fn from(Closed: Closed) -> WalksError {
        WalksError::Closed
    }
}
