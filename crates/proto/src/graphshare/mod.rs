//! A graph that several servers share: its rows, who has which of them, and the messages about it.

mod graph;
mod message;
mod part;
mod rows;
mod service;

pub use graph::{Adjacency, Alias, AliasScratch, Graph, GraphError, Row, Vertex};
pub(crate) use message::ADDRESS_BYTES_MAX;
pub use message::{
    Chunk, EDITS_MAX, Holding, Opening, Plan, Position, UPKEEP_BYTES_MAX, Upkeep, VERTICES_MAX,
};
pub use part::{Given, Outcome, Owners, Part, Reception};
pub use rows::{Change, EditFault, OwnRow};
pub use service::{BundleConfig, Discipline, PassConfig, QueueConfig};
