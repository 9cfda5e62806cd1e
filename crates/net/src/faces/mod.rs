//! A second driver: raw UDP datagrams, for protocols that have a wire format of their own.
//!
//! A *face* is a remote address. The protocol knows it by a number, a `NodeId`: the application's
//! static faces count from 0, and each face that a stranger opens takes the next number. A number
//! is never used again, so a message of the protocol to a closed face is dropped. The node itself
//! is [`LOCAL`].
//!
//! A stranger's face opens with the first message that decodes, where
//! [`FacesConfig::with_accepts_unknown`] allows it. The protocol is notified of `Up`, with
//! incarnation 0 since datagrams carry none, and of `Down` when the face has been idle, makes room
//! for another, or is closed by the protocol ([`Context::disconnect`]). Static faces stay and are
//! presumed up.
//!
//! A stranger's address may be forged. It is *proven* if the application allows its range
//! ([`FacesConfig::with_faces_allowed`]). Any other stranger is sent at most three times the bytes
//! received from it, at a limited rate for its network, and its face is the first to make room.
//! Datagrams that are withheld count as `faces_unproven_allowance` or `faces_unproven_rate`.
//!
//! There is no header of ours and no roster: any sender at an address is believed to be its face,
//! and a protocol that needs more signs its messages. There are no streams and no groups; a
//! protocol that sends to them has a bug, counted as `faces_unsupported`.
//!
//! Datagrams that arrive together are handled in one turn, and those sent in a turn leave in
//! trains: consecutive datagrams of equal length for a face share one. A message shares the buffer
//! of its train, 64 KiB at most; a protocol that retains a small part copies it.
//!
//! The sockets, trains, timers and handles are those of [`Node`](crate::Node).
//!
//! [`Context::disconnect`]: paceline_proto::core::Context::disconnect

mod config;
mod driver;
mod node;
mod range;
mod table;
mod unproven;

use paceline_proto::core::NodeId;

pub use config::FacesConfig;
pub use node::{BoundFaces, FaceNode};
pub use range::{AddressRange, RangeError};

/// The number by which the protocol of a node with faces knows the node itself. No face has it, and
/// small numbers may be added to it.
pub const LOCAL: NodeId = NodeId(u64::MAX >> 1);
