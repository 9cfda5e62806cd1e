//! Random walkers over a partitioned graph: each one a message, queues that warn early, sources
//! that slow down.
//!
//! Source: Takizawa and Kaneko, *Autonomous congestion control with random early detection for
//! asynchronous processing of random walkers*, IEICE Tech. Rep. IN2022-18, 2022 (its slides).

mod bundler;
mod config;
mod flights;
mod graph;
mod interface;
mod kind;
mod known;
mod message;
mod part;
mod red;
mod rtt;
mod run;
mod server;
mod walker;
mod window;

pub use config::{
    BundleConfig, Config, ConfigError, Control, Discipline, Generation, PacedConfig, QueueConfig,
    Recovery, WindowConfig,
};
pub use graph::{Adjacency, Alias, AliasScratch, Graph, GraphError, Row, Vertex};
pub use interface::{Command, Event, Job, JobId, JobReport, Refusal, Sources, Walk};
pub use kind::{Chance, Kind, KindError, Length, Node2Vec, Step};
pub use message::{Ended, Head, Message, Stop, Traveller};
pub use part::{Owners, Part};
pub use red::{Red, Verdict, probability};
pub use server::{Census, Server, Timer, UnderWay};
pub use walker::{NOWHERE, Walker};

#[cfg(test)]
mod tests;
