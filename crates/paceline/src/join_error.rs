//! Why a host does not enter a service.

use std::time::Duration;

use paceline_net::{Closed, StartError};
use paceline_proto::core::ConfigError;
use paceline_proto::group::Refusal;
use thiserror::Error;

use crate::peers::PeerError;

/// Why a node did not become a member.
#[derive(Debug, Error)]
pub enum JoinError {
    /// A knob is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The node could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No peer was given.
    #[error("no peer: name a member, or create the group with `bootstrap`")]
    NoPeer,
    /// A peer has none of the forms, or its name is not known.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// No member answered in time.
    #[error(
        "no member of the group answered at {peers} within {within:?}: is one running there, with \
         the same cluster and group name?"
    )]
    Unanswered {
        /// The peers.
        peers: String,
        /// How long was waited.
        within: Duration,
    },
    /// Too few hosts found each other to create the group, and no member answered in time.
    #[error(
        "fewer than {expect} hosts found each other at {peers} within {within:?}, and no member \
         of the group answered there: do as many run, with the same cluster and group name?"
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
    /// A member refused.
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
    /// The host has stopped.
    #[error("the host has stopped")]
    Closed,
}

impl From<Closed> for JoinError {
    fn from(Closed: Closed) -> JoinError {
        JoinError::Closed
    }
}
