//! Random walkers over a partitioned graph: each one a message, queues that warn early, sources
//! that slow down.
//!
//! Source: Takizawa and Kaneko, *Autonomous congestion control with random early detection for
//! asynchronous processing of random walkers*, IEICE Tech. Rep. IN2022-18, 2022 (its slides).

mod admission;
mod ahead;
mod barrier;
mod bundler;
mod census;
mod config;
mod editor;
mod flights;
mod graph;
mod holder;
mod homes;
mod interface;
mod kind;
mod known;
mod message;
mod noting;
mod part;
mod red;
mod rows;
mod rtt;
mod run;
mod runs;
mod server;
mod steps;
mod supplier;
mod upkeep;
mod waits;
mod walker;
mod window;

pub use barrier::Barrier;
pub use census::Census;
pub use config::{
    BundleConfig, Config, Control, Discipline, Generation, PacedConfig, PassConfig, QueueConfig,
    Recovery, StepConfig, WindowConfig,
};
pub use editor::Edit;
pub use graph::{Adjacency, Alias, AliasScratch, Graph, GraphError, Row, Vertex};
pub use interface::{
    Command, EditError, Event, Job, JobId, JobReport, Refusal, Sources, SupplyFault, UnderWay, Walk,
};
pub use kind::{Chance, Kind, KindError, Length, Node2Vec, Step};
pub use message::{Ended, Head, Message, Stop, Trail, Traveller};
pub use part::{Given, Outcome, Owners, Part, Reception};
pub use red::{Red, Verdict, probability};
pub use rows::{Change, EditFault, OwnRow};
pub use server::{Server, Timer};
pub use supplier::Supply;
pub use upkeep::{Chunk, Holding, Opening, Plan, Position, Upkeep};
pub use waits::Waits;
pub use walker::{NOWHERE, Walker};

#[cfg(test)]
mod tests;
