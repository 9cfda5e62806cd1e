//! Paceline's protocols on real sockets.
//!
//! A [`Node`] drives any [`Protocol`](paceline_proto::core::Protocol): one task, one TCP listener,
//! one UDP socket of the same port number. The protocol is the very state machine that the
//! simulator drives; this crate gives it time, messages and back-pressure.
//!
//! # Peers
//!
//! A peer is presumed up. The first message for it on the stream lane opens a connection, and
//! attempts are repeated for as long as it takes: what was sent meanwhile waits. When an
//! established stream breaks, the node discards its backlog and notifies the protocol of `Down`,
//! and, after a new connection, of `Up` with the peer's incarnation. Each ordered pair of members
//! has a connection of its own, so data flows one way on each.
//!
//! # Back-pressure
//!
//! A node reads its peers even while its own sends wait, so a cyclic wait on a ring cannot form. It
//! stops reading only while its own application does not receive the events that peers cause
//! ([`NodeConfig::with_events_bytes_max`]). The protocol limits what it sends to a peer, by the
//! backlog in user space. The kernel holds only what the path takes within some milliseconds
//! ([`NodeConfig::with_stream_delay`]), so those bytes count as on the link. The protocol also
//! limits what the application submits: [`Node::try_submit`] returns `WouldBlock` when it admits
//! nothing more.
//!
//! # Groups
//!
//! A message to a group leaves as a copy for each known peer, or once, by IP multicast, if
//! [`NodeConfig::with_multicast`] says so and the interface supports it ([`Node::multicast`]).
//! Nodes share a multicast port. The kernel drops messages to other addresses than those joined,
//! and the node those of other groups, by the group's number.
//!
//! # Faces
//!
//! A [`FaceNode`] drives protocols whose messages are raw UDP datagrams that other programs answer,
//! with neither our record header nor streams: NDN's first. It knows remote addresses: static ones
//! and, where [`FacesConfig`] allows it, those from which a datagram that decodes has come.
//!
//! # Faults
//!
//! [`Node::emulate`] puts delay, loss, partitions, resets and pauses on a node's links, with the
//! simulator's model of a link, and loss on what arrives at it, with that of an end buffer.
//!
//! # Security
//!
//! A node with an identity ([`NodeConfig::with_identity`]) seals what it sends to peers, and takes
//! from them only what is sealed. Without one, records are neither encrypted nor authenticated. A
//! face's datagrams have no protection from the driver. So a node without an identity listens on
//! loopback only unless configured otherwise ([`Exposure`]).
#![deny(unsafe_code)]

mod admission;
mod bundle;
mod chassis;
mod config;
pub mod counters;
mod datagrams;
mod departure;
mod description;
mod driver;
mod emulate;
mod error;
mod events;
mod faces;
mod handle;
mod handshakes;
mod instances;
mod node;
mod nonces;
mod observer;
mod pending;
pub mod record;
mod roster;
mod session;
mod stats;
mod streams;
mod sys;
mod tally;

pub use chassis::{ends::Stopped, machine::Hosted};
pub use config::{DATAGRAM_HEAD_BYTES, Exposure, NodeConfig};
pub use datagrams::multicast::{Multicast, MulticastUse};
pub use description::{Mismatch, PeerMismatch, ServiceDescription, ServiceDifference};
pub use emulate::{EmulateChange, Peers};
pub use error::{BindError, Closed, FaceError, StartError, TrySubmitError};
pub use events::Events;
pub use faces::{AddressRange, BoundFaces, FaceNode, FacesConfig, LOCAL, RangeError};
pub use handle::{Handle, WeakHandle};
#[doc(hidden)]
pub use instances::named_here;
pub use node::{Bound, Endpoint, Node, WeakNode};
pub use observer::Observer;
pub use pending::Pending;
pub use roster::{Roster, RosterError, RosterFault, RosterLineError};
pub use stats::{Held, Stats, Traffic};
