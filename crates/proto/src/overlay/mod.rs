//! Structured overlays: whoever is responsible for a key gets what is sent to it, by a few hops,
//! and what shares a hop travels as one message.
//!
//! A [`Router`] is the routing table of one algorithm, free of messages: [`Key`]s in, nodes out.

mod key;
mod router;

pub use key::{Key, Space};
pub use router::{Chore, Hop, Router, Step, Topic};
