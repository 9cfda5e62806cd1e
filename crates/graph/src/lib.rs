//! Graphs in memory and in files, and random walks over them on one machine.
//!
//! A graph is a [`Graph`]. It comes [from files](files), or [from generators](generate); has
//! [statistics], and [parts](partition) that servers hold. [`walk::Job`] walks it with
//! all cores of the machine, each walk on exactly the path that it would take between servers, and
//! [`corpus`] writes the walks to files.

#![deny(unsafe_code)]

pub mod chi_square;
pub mod corpus;
pub mod csr;
pub mod files;
pub mod generate;
pub mod memory;
pub mod partition;
mod printable;
pub mod statistics;
pub mod walk;

pub use paceline_proto::walk::{Graph, Vertex};
pub use printable::Printable;
