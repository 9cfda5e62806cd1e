//! Random walks over a graph that servers share.
//!
//! Servers ([`WalksBuilder::serve`]) have nothing until a client ([`WalksBuilder::connect`]) gives
//! each its part of a graph ([`Walks::supply`]). Then the client asks for walks ([`Walks::run`]),
//! and changes the graph while they pass ([`Walks::edit`]).
//!
//! # What is promised
//!
//! Each walk that is asked for is told of once, with the path that it takes in memory for its seed
//! and number ([`Job`](paceline_proto::walk::Job)), whatever was lost on the way, or it is told
//! that it failed: after 60 s, unless the configuration says otherwise. A server
//! that is lost holds up the walks that come to it. Started again under the same address and id it
//! is given its part again, as it was in the client's graph: edits of its rows are lost with it,
//! moves of the same client are not.
//!
//! Over a graph that changes, a walk goes at each vertex by the row that the vertex's server has
//! then. [`Trail::Versions`](paceline_proto::walk::Trail) tells which that was. A server that took
//! another for a vertex's owner is set right by who it asks, and the walk goes on.
//!
//! Nothing is authenticated: whoever reaches a server's port can give it another graph.

mod builder;
mod client;
mod desk;
mod error;
mod server;
mod walking;

pub use builder::WalksBuilder;
pub use client::{SharedGraph, Walks};
pub use error::WalksError;
pub use server::WalkServer;
pub use walking::{Walked, Walking};
