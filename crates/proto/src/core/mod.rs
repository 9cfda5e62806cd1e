//! A protocol's view of its environment: clock, names, messages, and an outbox to write into.

mod counters;
pub mod field;
mod instant;
pub mod knobs;
pub mod laws;
mod link;
mod membership;
mod node;
mod overhead;
mod payload;
mod protocol;
mod rng;
mod service;
mod view;
mod watch;
mod wire;

pub use counters::{Counter, CounterId, CounterSet, Counters};
pub use instant::Instant;
pub use knobs::{ConfigError, Knob, Knobs};
pub use link::{Copies, EndBuffer, LinkFaults, LinkState, Loss};
pub use membership::{ADDRESS_BYTES_MAX, MembershipCommand};
pub use node::{GroupId, Health, Lane, Membership, NodeId, PeerState};
pub use overhead::Overhead;
pub use payload::Payload;
pub use protocol::{Backlog, Context, LinkRequests, Outbox, Outgoing, Protocol};
pub use rng::{Rng, mix};
pub use service::{ServiceNumber, Terms, hash_prefix};
pub use view::{Member, View, ViewId};
pub use watch::{WatchList, WatchNews, WatchedMember};
pub use wire::{
    DecodeError, Wire, decode_exact, encode_to_bytes, split, take_u8, take_u16, take_u32, take_u64,
};
