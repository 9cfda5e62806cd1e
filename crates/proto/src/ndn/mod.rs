//! Named data: the packets of NDN, and what a hop adds to them.
//!
//! A consumer asks for the Data of a name with an [`Interest`]. [`Data`] comes back the way that it
//! took, or a forwarder refuses with a [`NackReason`]. One [`Packet`] is one datagram, or a sender
//! splits it into several, each with a [`Fragment`].
//!
//! The decoder accepts encodings that this encoder does not produce. An Interest is passed on in
//! this encoder's form, without elements that may be skipped. From its parameters on its bytes are
//! kept, since they are signed. The bytes of Data are always kept.
//!
//! Sources: *NDN Packet Format Specification* 0.3 (names, Interest, Data, signatures); *NDNLPv2*
//! (header fields of a hop). Golden vectors come from another implementation, python-ndn.
//!
//! Not supported: splitting packets into fragments, and verifying signatures other than a digest
//! and Ed25519.

mod data;
mod header;
mod interest;
mod join;
mod label;
mod name;
mod packet;
mod signature;
pub mod tlv;
mod uri;

pub use data::{Data, Meta};
pub use header::{Class, Header, NackReason, Stamps, Token, field};
pub use interest::{Interest, InterestExtra, LIFETIME_DEFAULT};
pub use join::JoinRates;
pub use label::PathLabel;
pub use name::{Component, Components, NAME_BYTES_MAX, NAME_COMPONENTS_MAX, Name, NameError};
pub use packet::{Body, Fragment, PACKET_BYTES_MAX, Packet};
pub use signature::{KeyError, SignatureType, Signer, Trust, VerifyError};

#[cfg(test)]
mod tests;
