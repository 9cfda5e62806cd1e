//! Paceline for Rust programs: group broadcast, multicast in time, a distributed hash table, named
//! data and random walks on real sockets.
//!
//! ```no_run
//! use paceline::{Event, Host};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("shop").bind("127.0.0.1:7946".parse()?).start()?;
//! // The first member says `bootstrap()` instead.
//! let (group, mut events) = host.group("orders").join(["127.0.0.1:7900"]).await?;
//! group.broadcast("to everybody").await?;
//! while let Some(event) = events.recv().await {
//!     match event {
//!         Event::Delivered(message) => println!("{}: {:?}", message.origin, message.payload),
//!         Event::View(view) => println!("{} members", view.len()),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A host runs any number of services, of this and the other kinds, on its one port:
//!
//! ```no_run
//! use paceline::Host;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("shop").start()?;
//! let (prices, mut events) = host.multicast("prices").join(["127.0.0.1:7900"]).await?;
//! prices.send("apples 17").await?;
//! while let Some(packet) = events.packet().await {
//!     println!("{}: {:?}, {:?}", packet.sender, packet.payload, packet.how);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! ```no_run
//! use paceline::Host;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("shop").start()?;
//! let dht = host.dht("stock").join(["127.0.0.1:7900"]).await?;
//! dht.put("apples", "17").await?;
//! assert_eq!(dht.get("apples").await?.unwrap(), "17");
//! let mut results = dht.get_all(["apples".into(), "pears".into()]);
//! while let Some(result) = results.next().await {
//!     println!("{:?}: {:?}", result.key, result.outcome);
//! }
//! # Ok(())
//! # }
//! ```
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
//! ```no_run
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use paceline::Host;
//! use paceline::proto::walk::{Graph, Job, JobId, Kind, Length, Sources, Trail};
//! use paceline::walks::SharedGraph;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let host = Host::builder("shop").start()?;
//! let walks = host.walks("visits").connect(["127.0.0.1:7001", "127.0.0.1:7002"]).await?;
//! let graph = Arc::new(Graph::from_edges(3, [(0, 1), (1, 2), (2, 0), (2, 1)])?);
//! let graph = SharedGraph { graph, weights: None, owners: vec![0, 1, 0] };
//! walks.supply(&graph, Duration::from_secs(60)).await?;
//! let mut walking = walks.run(Job {
//!     id: JobId(0),
//!     seed: 1,
//!     kind: Kind::Uniform,
//!     length: Length::Steps(80),
//!     sources: Sources::Range(0..3),
//!     walks: 10,
//!     trail: Trail::Vertices,
//!     first: 0,
//!     in_flight_max: usize::MAX,
//! })?;
//! while let Some(walked) = walking.next().await? {
//!     println!("{walked:?}");
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The protocols themselves are in [`proto`], the runtime that drives any of them (also yours) in
//! [`net`]: see `examples/ping.rs` for a protocol of one's own.
#![forbid(unsafe_code)]

pub mod dht;
mod group;
mod host;
mod join_error;
mod joining;
mod member;
pub mod multicast;
mod peers;
mod reader;
pub mod status;
pub mod walks;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use dht::{Algorithm, Dht, DhtBuilder, DhtError, KeyError};
pub use group::{
    BroadcastError, Delivery, DirectDelivery, Event, Events, Group, GroupBuilder, MemberOutcome,
    PreparedRequest, PreparedRequestAll, Receipt, Replies, Request, RequestAllError, RequestError,
    SendError, Sent, TryBroadcastError, TrySendError,
};
pub use host::{Host, HostBuilder, HostError};
pub use join_error::JoinError;
pub use member::MemberHandle;
pub use multicast::{Multicast, MulticastBuilder, MulticastError};
pub use peers::{PeerError, PeerFormError, PeerSource};
pub use walks::{WalkServer, Walks, WalksBuilder, WalksError};

pub use paceline_named as named;
pub use paceline_net as net;
pub use paceline_net::{Closed, Stats};
pub use paceline_proto as proto;
pub use paceline_proto::chain::{Config as BroadcastConfig, Topology, Urgency};
pub use paceline_proto::core::{Member, NodeId, View, ViewId};
pub use paceline_proto::detector::Config as DetectorConfig;
pub use paceline_proto::group::{
    Config as ViewsConfig, Quorum, Refusal, RequestFailure, SendFailure,
};

/// Locks a state that a panic of another thread leaves intact.
fn lock<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
