//! Multicast in time: everybody gets a packet soon, or is told that it will not.
//!
//! A packet is sent once, as a datagram, and members repair each other's losses within
//! milliseconds ([`proto::slingshot`](paceline_proto::slingshot)). Who the members are, and which
//! of them are alive, is agreed upon as in a [`Group`](crate::Group).

mod builder;
mod error;
mod events;
mod handle;

pub use builder::MulticastBuilder;
pub use error::MulticastError;
pub use events::{Event, Events, Packet};
pub use handle::Multicast;
pub use paceline_proto::core::GroupId;
pub use paceline_proto::slingshot::tuner;
pub use paceline_proto::slingshot::{Code, Config, How, Order, Pull, PullFrom, Rate};
