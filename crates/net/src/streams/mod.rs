//! Streams: the one that a node dials to each peer, and those that peers dial to it.

pub(crate) mod gather;
pub(crate) mod incoming;
pub(crate) mod outgoing;
pub(crate) mod pool;
pub(crate) mod queue;
mod share;
