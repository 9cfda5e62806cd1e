use std::time::Duration;

use paceline_net::{Closed, Events, StartError};
use paceline_proto::core::NodeId;
use paceline_proto::status::{Event, Status};
use thiserror::Error;

use super::report::HostStatus;
use crate::peers::PeerError;

/// Why the status of a host is not known.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StatusError {
    /// No address is behind the peer.
    #[error("`{0}` names no host")]
    NoAddress(String),
    /// The peer has none of the forms, or its name is not known.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The asking host cannot start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No host answered in time.
    #[error(
        "no host answered at {peers} within {within:?}: is one running there, with the same \
         cluster name?"
    )]
    Unanswered {
        /// The peers.
        peers: String,
        /// How long was waited.
        within: Duration,
    },
    /// A host is there and gives no status.
    #[error(
        "host {host} is at {peers} and gave no status within {within:?}: its program does not \
         answer such questions, or is overloaded"
    )]
    NoStatus {
        /// The host.
        host: NodeId,
        /// The peers.
        peers: String,
        /// How long was waited.
        within: Duration,
    },
    /// The asking host has stopped.
    #[error("the host has stopped")]
    Closed,
}

impl From<Closed> for StatusError {
    fn from(Closed: Closed) -> StatusError {
        StatusError::Closed
    }
}

/// The host that was found last, in a wait for an answer.
#[derive(Debug, Default)]
pub(super) struct Found(pub(super) Option<NodeId>);

/// Waits for the answer of a host, and notes which one was found meanwhile.
pub(super) async fn answer(
    events: &mut Events<Status>,
    found: &mut Found,
) -> Result<HostStatus, Closed> {
    while let Some(event) = events.recv().await {
        match event {
            Event::Answered { from, report } => return Ok(HostStatus::new(from, report)),
            Event::Found { host } => found.0 = Some(host),
            // A host that only asks does not answer.
            Event::Asked { .. } => {}
        }
    }
    Err(Closed)
}
