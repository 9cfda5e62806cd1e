//! Sealed records: authenticated ciphers, keys and their succession, protection against replay.
//!
//! A *lane* is one direction of a session between two hosts, on a stream or on datagrams. Its
//! sender numbers the records and seals each under the key of the lane's generation
//! ([`SendLane`]); its receiver opens each number at most once ([`ReceiveLane`]). Keys come from
//! secrets that the two hosts, or the members of a view, share ([`PairSecret`], [`ViewSecret`]).
//! Who a host is, and which hosts belong to a cluster, is in [`identity`].
//!
//! This crate has no clock, no sockets and no random numbers. The protocol that uses it, with its
//! goals and bounds, is in `docs/SECURITY.md`.
#![forbid(unsafe_code)]

mod cipher;
mod handshake;
pub mod identity;
mod lane;
mod secret;
mod window;

pub use cipher::{Forged, NONCE_BYTES, Nonce, Sealer, Suite, TAG_BYTES, Tag, Unavailable};
pub use handshake::{
    Agreed, Credentials, GREETING_BYTES_MAX, Handshake, HandshakeError, SESSION_NAME_BYTES,
};
pub use lane::{
    FORGERIES_MAX, Number, OpenError, Order, RECORDS_PER_GENERATION, ReceiveLane, SendLane,
};
pub use secret::{KEY_BYTES, PROOF_BYTES, PairSecret, STREAM_NONCE_BYTES, Secret, ViewSecret};
pub use window::Window;
