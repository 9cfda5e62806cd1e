//! Checkers: what must hold in every run, judged from outside the protocol.
//!
//! A checker is an [`Observer`](paceline_sim::Observer) with a ledger of its own. It sees inputs,
//! outputs and public accessors only, costs amortised constant time an event and origin, and stops
//! the run at the first violation.

use std::fmt;

use paceline_proto::core::{Instant, NodeId};

pub mod chain;
mod direct;
pub mod group;
mod hops;
pub mod mircc;
pub mod offered;
pub mod overlay;
pub mod slingshot;
pub mod tables;
pub mod timely;
pub mod walk;
pub mod zave;

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation<R> {
    /// Which promise.
    pub rule: R,
    /// When.
    pub at: Instant,
    /// By which node.
    pub node: NodeId,
    /// What was seen, and what was expected.
    pub what: String,
}

impl<R: fmt::Display> fmt::Display for Violation<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} broken at {} by {}: {}", self.rule, self.at, self.node, self.what)
    }
}
