use std::net::SocketAddr;
use std::time::Duration;

use paceline_net::{BindError, Closed, FaceError, StartError};
use paceline_proto::core::ConfigError;
use paceline_proto::ndn::{NackReason, Name, NameError, VerifyError};
use rand::rngs::SysError;
use thiserror::Error;

/// Why a forwarder did not start, or could not be changed.
#[derive(Debug, Error)]
pub enum ForwarderError {
    /// A knob is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The socket could not be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The node could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No face can have the address.
    #[error(transparent)]
    Face(#[from] FaceError),
    /// A route leads to an address that is no face.
    #[error("the route for {prefix} leads to {address}, which has no face: add one")]
    NoFace {
        /// The prefix.
        prefix: Name,
        /// The address.
        address: SocketAddr,
    },
    /// The forwarder has stopped.
    #[error("the forwarder has stopped")]
    Closed,
}

/// Why an Interest has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AskError {
    /// A forwarder or the producer refused it.
    #[error("{}", match .0 {
        NackReason::NoRoute => "no route leads to the name, or no producer has it".to_owned(),
        NackReason::Congestion => "the path is congested".to_owned(),
        NackReason::Duplicate => "the Interest looped".to_owned(),
        NackReason::Other(reason) => format!("a forwarder refused the Interest with reason \
            {reason}"),
    })]
    Refused(NackReason),
    /// Nothing came in time.
    #[error("no Data within {0:?}")]
    Unanswered(Duration),
    /// The Data is not signed as it must be.
    #[error("the Data failed verification: {0}")]
    Unverified(#[from] VerifyError),
    /// The name would be too long.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The forwarder has stopped.
    #[error("the forwarder has stopped")]
    Closed,
}

impl From<Closed> for AskError {
    fn from(_: Closed) -> AskError {
        AskError::Closed
    }
}

/// Why a neighbour does not route a prefix to this forwarder.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// The address is no face.
    #[error("there is no face to {0}: add one")]
    NoFace(SocketAddr),
    /// It did not answer, or refused.
    #[error("{neighbour} does not accept registrations: {why}")]
    Unanswered {
        /// The neighbour.
        neighbour: SocketAddr,
        /// The result in place of a response.
        why: AskError,
    },
    /// It refused.
    #[error("{neighbour} refused the registration: {code} {text}")]
    Refused {
        /// The neighbour.
        neighbour: SocketAddr,
        /// A status code as in HTTP: 403 is not allowed, 400 not understood.
        code: u64,
        /// Its words.
        text: String,
    },
    /// Its Data is not a response.
    #[error("{neighbour} replied with Data that is not a response")]
    Malformed {
        /// The neighbour.
        neighbour: SocketAddr,
    },
    /// The command's name would be too long.
    #[error("the prefix is too long to be registered: {why}")]
    Prefix {
        /// Why.
        why: NameError,
    },
    /// The operating system gives no random bytes for the command.
    #[error("cannot get random bytes from the operating system: {0}")]
    Random(SysError),
}
