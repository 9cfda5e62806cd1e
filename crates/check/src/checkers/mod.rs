//! Checkers: what must hold in every run, judged from outside the protocol.
//!
//! A checker is an [`Observer`](paceline_sim::Observer) with a ledger of its own. It sees inputs,
//! outputs and public accessors only, costs amortised constant time an event and origin, and stops
//! the run at the first violation.

pub mod chain;
pub mod conditional;
pub mod gossip;
pub mod group;
mod hops;
pub mod mircc;
pub mod offered;
pub mod overlay;
mod report;
pub mod scan;
pub mod slingshot;
pub mod tables;
pub mod timely;
pub mod walk;
pub mod zave;

pub use report::{Report, Violation};
