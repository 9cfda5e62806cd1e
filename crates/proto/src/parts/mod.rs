//! What several protocols are made of.
//!
//! A part has no messages and no handlers: a protocol calls it, and acts on what it returns.

pub(crate) mod block_flow;
pub mod deadline;
pub(crate) mod deficit_rounds;
pub mod fec;
pub mod link_share;
pub(crate) mod rtt;
pub mod slab;
pub mod slots;
pub mod spans;
pub mod token_bucket;
