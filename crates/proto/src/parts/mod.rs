//! What several protocols are made of.
//!
//! A part has no messages and no timers of its own: a protocol calls it, and is told what came of
//! it.

pub mod fec;
pub(crate) mod pacer;
