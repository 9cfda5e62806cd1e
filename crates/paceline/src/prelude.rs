//! What programs use of all services: `use paceline::prelude::*`.
//!
//! The events of a multicast have the names of those of a group, so they are in
//! [`multicast`]: `multicast::Event` and `multicast::Events`.

pub use crate::dht::{Algorithm, Dht, KeyError};
pub use crate::multicast::{self, Multicast, MulticastError, Packet};
pub use crate::walks::{
    Graph, Job, Length, SharedGraph, Sources, WalkServer, Walked, Walking, Walks, WalksError,
};
pub use crate::{
    BroadcastError, Closed, Delivery, Event, Events, Expects, Group, Host, HostError, HostStopped,
    JoinError, Joins, LeaveError, Member, NodeId, PeerSource, Receipt, Request, RequestError,
    SendError, ServiceBuilder, Stats, TryBroadcastError, TryRecvError, TrySendError, View,
};
