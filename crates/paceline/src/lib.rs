//! Paceline for Rust programs: group broadcast, multicast in time, a distributed hash table, random
//! walks and named data on real sockets.
//!
//! A program runs a [`Host`], and on it any number of services of one shape: `host.group(..)` and
//! the like configure a service, `bootstrap`, `join` and the like enter it, and what these return
//! is a handle, for groups with the stream of their events.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use paceline::prelude::*;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("shop")
//!     .bind("127.0.0.1:7946".parse()?)
//!     .peers(["127.0.0.1:7900", "127.0.0.1:7901"])
//!     .start()
//!     .await?;
//!
//! // A group: every message to every member, in the order of its sender. The very first host says
//! // `bootstrap()` in the place of `join()`; hosts that start together say `expect(3)`.
//! let (orders, mut events) = host.group("orders").join().await?;
//! orders.broadcast("to everybody").await?;
//! if let Some(Event::Delivered(message)) = events.recv().await {
//!     println!("{}: {:?}", message.origin, message.payload);
//! }
//!
//! // A multicast: a packet comes soon, or its loss is reported.
//! let (prices, mut packets) = host.multicast("prices").join().await?;
//! prices.send("apples 17").await?;
//! if let Some(packet) = packets.packet().await {
//!     println!("{}: {:?}", packet.sender, packet.payload);
//! }
//!
//! // A table: values under keys, each on several hosts.
//! let stock = host.dht("stock").join().await?;
//! stock.put("apples", "17").await?;
//! assert_eq!(stock.get("apples").await?.unwrap(), "17");
//!
//! // Walks over a graph that servers share. A server says `serve()`.
//! let servers = ["127.0.0.1:7900", "127.0.0.1:7901"];
//! let visits = host.walks("visits").peers(servers).connect().await?;
//! let graph = Graph::from_edges(3, [(0, 1), (1, 2), (2, 0), (2, 1)])?;
//! let owners = vec![0, 1, 0];
//! visits.supply(&SharedGraph::new(graph, owners), Duration::from_secs(60)).await?;
//! let job = Job::new(Length::Steps(80), Sources::Range(0..3)).with_walks(10);
//! let mut walking = visits.run(job)?;
//! while let Some(walked) = walking.next().await? {
//!     println!("{walked:?}");
//! }
//!
//! // Leaves all services, sends what is queued, and closes the ports.
//! let stopped = host.stop().await;
//! assert!(stopped.is_orderly(), "{stopped:?}");
//! # Ok(())
//! # }
//! ```
//!
//! # Handles
//!
//! A handle is cheap to clone; clones are of the same service.
//!
//! | | [`Group`] | [`Multicast`] | [`Dht`] | [`WalkServer`] | [`Walks`] |
//! |---|---|---|---|---|---|
//! | `id`, `local_addr`, `stats` | yes | yes | yes | yes | yes |
//! | `view`, `members` | yes | yes | no view: [`Dht::hosts`] asks | | [`Walks::servers`] |
//! | `leave`: others agree to go on without it | yes | yes | yes | | |
//! | `stop`: it ends, as in a crash | yes | yes | yes | yes | yes |
//! | `recv` and `try_recv` | [`Events`] | [`multicast::Events`] | [`dht::Deliveries`] | | |
//!
//! `leave` also ends the service, whether others agreed in time or not. Events that were not
//! received by then still can be; after the last one `recv` returns `None`. A service whose handles
//! and events are all dropped ends as by `stop`.
//!
//! # Errors
//!
//! Each operation has one type of error. Entering any service fails with [`JoinError`], leaving it
//! with [`LeaveError`]. What sends has its own: [`BroadcastError`], [`SendError`],
//! [`RequestError`], [`MulticastError`], [`KeyError`], [`WalksError`]. In each `Closed` says that
//! the service or its host has stopped, and `WouldBlock`, which only `try_` calls return, that too
//! much waits. Where an operation may have taken effect, the variant says so.
//!
//! # Named data
//!
//! Named data runs beside a host, on a port of its own, since other programs speak its protocol:
//!
//! ```no_run
//! use paceline::named::{FaceConfig, Forwarder, Name};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let near = "127.0.0.1:6363".parse()?;
//! let forwarder = Forwarder::builder()
//!     .face(near, FaceConfig::of_rate(10_000_000))
//!     .route(Name::root(), near)
//!     .start()?;
//! let fetching = forwarder.fetch("/music/waltz.flac".parse()?, "waltz.flac").start();
//! println!("{} bytes", fetching.finish().await?.bytes);
//! # Ok(())
//! # }
//! ```
//!
//! # A protocol of one's own
//!
//! The protocols themselves are in [`proto`], the runtime that drives any of them (also yours) in
//! [`net`]: see `examples/ping.rs`. A program that only uses services needs neither.
#![forbid(unsafe_code)]

mod builder;
pub mod dht;
mod group;
mod host;
mod join_error;
mod joining;
mod leaving;
mod member;
mod mismatch;
pub mod multicast;
mod peers;
pub mod prelude;
mod reader;
pub mod status;
pub mod walks;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use builder::{Expects, Joins, ServiceBuilder};
pub use dht::{Algorithm, Dht, DhtBuilder, DiskError, KeyError};
pub use group::{
    BroadcastError, Delivery, DirectDelivery, Event, Events, Group, GroupBuilder, MemberOutcome,
    PreparedRequest, PreparedRequestAll, Receipt, Replies, Request, RequestAllError, RequestError,
    SendError, Sent, TryBroadcastError, TrySendError,
};
pub use host::{Host, HostBuilder, HostError};
pub use join_error::JoinError;
pub use leaving::{HostStopped, LeaveError, NotLeft};
pub use member::MemberHandle;
pub use multicast::{Multicast, MulticastBuilder, MulticastError};
pub use peers::{PeerError, PeerFormError, PeerSource};
pub use reader::TryRecvError;
pub use walks::{WalkServer, Walks, WalksBuilder, WalksError};

pub use paceline_named as named;
/// For a protocol of one's own, and tests that emulate faults: the runtime on sockets.
pub use paceline_net as net;
pub use paceline_net::{Closed, Exposure, Multicast as IpMulticast, StartError, Stats};
/// For a protocol of one's own, and knobs that no builder has: the protocols.
pub use paceline_proto as proto;
pub use paceline_proto::chain::{Config as BroadcastConfig, Topology, Urgency};
pub use paceline_proto::core::{Member, NodeId, View, ViewId};
pub use paceline_proto::detector::Config as DetectorConfig;
pub use paceline_proto::group::{
    Config as ViewsConfig, Quorum, Refusal, RequestFailure, SendFailure,
};

/// Keys and certificates of hosts, and their files.
pub use paceline_seal::identity;

/// Locks a state that a panic of another thread leaves intact.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
