//! Runs a protocol of `paceline-proto` in simulated time, from two nodes to millions.
//!
//! [`Sim`] is single-threaded and deterministic: the same seed gives the same [`Digest`], in debug
//! and release, with typed messages and through their encoding. Parallelism is over runs.
#![forbid(unsafe_code)]

pub mod counters;
mod fault;
mod groups;
mod instances;
mod links;
mod network;
mod observer;
mod queue;
mod services;
mod sim;
mod tcp;
mod trace;
mod wires;

pub use fault::Fault;
#[doc(hidden)]
pub use instances::{Around, named_around, named_here};
pub use network::{Multicast, NetworkConfig, Overhead, Shape};
pub use observer::{Input, Observer, Reply};
pub use queue::RadixHeap;
pub use services::{HostNode, Nodes, OfService, ServiceNodes};
pub use sim::{Codec, FaultSupport, Sim, SimConfig};
pub use tcp::{Congestion, Streams, TcpConfig};
pub use trace::{Digest, Trace};
pub use wires::Wires;
