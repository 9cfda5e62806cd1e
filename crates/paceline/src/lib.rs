//! Paceline for Rust programs: group broadcast on real sockets.
//!
//! ```no_run
//! use paceline::{Host, NodeId, Roster};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let roster = Roster::from_file("roster.txt")?; // lines of `ID HOST:PORT`
//! let host = Host::builder("orders", roster, NodeId(0)).start()?;
//! let (group, mut deliveries) = host.group();
//! group.broadcast("to everybody").await?;
//! while let Some(message) = deliveries.recv().await {
//!     println!("{}: {} bytes", message.origin, message.payload.len());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The protocols themselves are in [`proto`], the runtime that drives any of them (also yours) in
//! [`net`]: see `examples/ping.rs` for a protocol of one's own.
#![forbid(unsafe_code)]

mod group;
mod host;

pub use group::{BroadcastError, Deliveries, Delivery, Group, TryBroadcastError};
pub use host::{Host, HostBuilder, HostError};

pub use paceline_net as net;
pub use paceline_net::{Roster, Stats};
pub use paceline_proto as proto;
pub use paceline_proto::chain::{Config as GroupConfig, Topology, Urgency};
pub use paceline_proto::core::NodeId;
