//! Why a host does not enter a service.

use std::net::SocketAddr;
use std::time::Duration;

use paceline_net::{Closed, ServiceDifference, StartError};
use paceline_proto::core::{ConfigError, NodeId};
use paceline_proto::group::Refusal;
use thiserror::Error;

use crate::DiskError;
use crate::peers::PeerError;

/// Why a host did not enter a service, of any kind. It runs nothing of the service afterwards, and
/// may try again.
///
/// - The caller is at fault: `Config`, `NoPeer`, `Peer`, `OtherExpect`, `NotRun`, `Differs`,
///   `DurableClient`, `Servers`, `ServerTwice`.
/// - The peers are, or the path to them: `Unanswered`, `TooFewHosts`, `Refused`.
/// - This host is: `Start`, `ClockBehind`, `Disk`, `Closed`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A knob is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The service could not start: the host runs one of this kind and name, or has stopped.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No peer was given, neither to the service nor to its host.
    #[error("no peer: name a member, or create the service with `bootstrap`")]
    NoPeer,
    /// A peer has none of the forms, or its name is not known.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// No member answered in time. A member may still know this host as one that wants to join, and
    /// forgets it after some seconds.
    #[error(
        "no member of `{service}` answered at {peers} within {within:?}: is one running there, \
         with the same cluster, key, kind and name?"
    )]
    Unanswered {
        /// The kind of the service, as in the status of a host, and its name: `dht/chord stock`.
        service: String,
        /// The peers.
        peers: String,
        /// How long was waited.
        within: Duration,
    },
    /// Hosts answered, and run no service of this kind and name.
    #[error("{hosts} answered within {within:?}, and none runs `{service}`: is the name right?")]
    NotRun {
        /// The kind of the service and its name.
        service: String,
        /// The hosts, with their addresses.
        hosts: String,
        /// How long was waited.
        within: Duration,
    },
    /// A host runs another service under this name: of another kind, of another version, or with
    /// another value of a knob that all its hosts need alike. Hosts that differ do not hear each
    /// other.
    #[error("{host} at {address} runs another service under the name of `{service}`: {difference}")]
    Differs {
        /// The kind of the service and its name.
        service: String,
        /// The host.
        host: NodeId,
        /// Where it is.
        address: SocketAddr,
        /// How its service differs.
        difference: ServiceDifference,
    },
    /// Too few hosts found each other to create the group, and no member answered in time.
    #[error(
        "fewer than {expect} hosts found each other at {peers} within {within:?}, and no member \
         of the group answered there: do as many run, with the same cluster, key and group name?"
    )]
    TooFewHosts {
        /// Number of hosts that create the group.
        expect: u32,
        /// The peers.
        peers: String,
        /// How long was waited.
        within: Duration,
    },
    /// Other hosts expect another number of hosts.
    #[error(
        "this host creates the group with {expect} hosts, and others with another number: all \
         need the same"
    )]
    OtherExpect {
        /// Number of hosts that create the group.
        expect: u32,
    },
    /// A member refused, or another host that runs has the same id.
    #[error("refused: {refusal}")]
    Refused {
        /// Why.
        refusal: Refusal,
    },
    /// A member knows a later start of this id.
    #[error(
        "a later start of this id is known: the clock of this machine was set back, or is behind \
         that of the machine where the id was used; correct the clock or use another id"
    )]
    ClockBehind,
    /// The file of a durable host of a table cannot be used.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// A client of a table holds nothing.
    #[error("a client stores no records and needs no file: leave out `durable`, or join the table")]
    DurableClient,
    /// No servers of walks were given, or too many.
    #[error("{servers} servers, expected 1 to 64")]
    Servers {
        /// How many.
        servers: usize,
    },
    /// Two names resolve to the same server of walks.
    #[error("{server} is named twice")]
    ServerTwice {
        /// The server, as it was named.
        server: String,
    },
    /// The service or its host was stopped meanwhile.
    #[error("the service or its host has stopped")]
    Closed,
}

impl From<Closed> for JoinError {
    fn from(Closed: Closed) -> JoinError {
        JoinError::Closed
    }
}
