//! Errors of binding, starting and using a node.

use std::io;
use std::net::SocketAddr;

use paceline_proto::core::NodeId;
use rand::rngs::SysError;
use thiserror::Error;

use crate::record::ServiceNumber;

/// Why a node cannot be bound. No socket is left open.
#[derive(Debug, Error)]
pub enum BindError {
    /// Another process has the port.
    #[error(
        "port {} of {} is in use: stop the other process or choose another port",
        addr.port(),
        addr.ip()
    )]
    PortInUse {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The address is not on this machine.
    #[error("{addr} is not an address of this machine: bind one of its own addresses")]
    NotLocal {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// The node has no identity, and its traffic would leave the machine unprotected.
    #[error(
        "refusing to listen on {addr} without a key: run `paceline key new`, copy cluster.key to \
         each machine and pass `--key cluster.key`; or pass `--insecure-plaintext`, and any host \
         that reaches the port can read and forge messages"
    )]
    Unsealed {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// Named data, which is not encrypted, would leave the machine.
    #[error("refusing to exchange named data on {addr} unencrypted: pass `--insecure-plaintext`")]
    Plaintext {
        /// The address asked for.
        addr: SocketAddr,
    },
    /// [`Multicast::Native`](crate::Multicast::Native) was asked for and does not work.
    #[error(
        "multicast does not work at {addr}: {source}; bind an IPv4 address of an interface with \
         multicast, or send copies (`Multicast::FanOut`, `Multicast::Auto`)"
    )]
    Multicast {
        /// The address asked for.
        addr: SocketAddr,
        /// What does not work.
        source: io::Error,
    },
    /// The operating system refused something else.
    #[error("cannot listen on {addr}: {source}")]
    Io {
        /// The address asked for.
        addr: SocketAddr,
        /// What the operating system said.
        source: io::Error,
    },
}

impl BindError {
    /// The error of the operating system for an attempt to bind `addr`.
    pub(crate) fn refused(addr: SocketAddr, source: io::Error) -> BindError {
        match source.kind() {
            io::ErrorKind::AddrInUse => BindError::PortInUse { addr },
            io::ErrorKind::AddrNotAvailable => BindError::NotLocal { addr },
            _ => BindError::Io { addr, source },
        }
    }
}

/// Why a bound node cannot start. Its sockets are closed.
#[derive(Debug, Error)]
pub enum StartError {
    /// The node was not bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The roster does not name the node.
    #[error("the roster has no member {}: add a line `{} HOST:PORT`", node.0, node.0)]
    NotAMember {
        /// The node.
        node: NodeId,
    },
    /// A static face is invalid.
    #[error(transparent)]
    Face(#[from] FaceError),
    /// No random numbers for the session.
    #[error("cannot get random numbers from the operating system: {0}")]
    Random(SysError),
    /// A socket cannot be used from the runtime.
    #[error("cannot register a socket: {0}")]
    Io(#[from] io::Error),
    /// The call was made outside a tokio runtime.
    #[error("a node starts inside a tokio runtime: call it from an async function")]
    NoRuntime,
    /// The node runs a service of this number.
    #[error("the node runs another service of this kind and name")]
    ServiceTaken {
        /// The number.
        number: ServiceNumber,
    },
    /// The node has stopped.
    #[error("the node has stopped")]
    Closed,
}

/// Why a face cannot be opened. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FaceError {
    /// The address is invalid: its port is 0, it is unspecified, multicast or broadcast, its family
    /// is not that of the node's own, or it is beyond loopback and the node's own is not.
    #[error("a face at {local} cannot have the address {addr}")]
    Address {
        /// The address asked for.
        addr: SocketAddr,
        /// The node's own.
        local: SocketAddr,
    },
    /// The list of static faces has the address twice.
    #[error("two faces have the address {addr}")]
    Twice {
        /// The address.
        addr: SocketAddr,
    },
    /// There are no numbers left: faces have opened 2^32 times.
    #[error("all face numbers are used: restart the node")]
    NumbersExhausted,
    /// The node has stopped.
    #[error("the node has stopped")]
    Closed,
}

/// Why a command was not accepted. The command comes back; nothing changed.
#[derive(Debug, Error)]
pub enum TrySubmitError<C> {
    /// The protocol admits nothing more for now: wait with `submit`, or try again later.
    #[error("the protocol accepts no more data at present")]
    WouldBlock(C),
    /// The node has stopped.
    #[error("the node has stopped")]
    Closed(C),
}

impl<C> TrySubmitError<C> {
    /// The command that was not accepted.
    pub fn into_command(self) -> C {
        match self {
            TrySubmitError::WouldBlock(command) | TrySubmitError::Closed(command) => command,
        }
    }
}

/// The node has stopped; the argument was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the node has stopped")]
pub struct Closed;
