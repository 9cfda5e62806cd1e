//! Positive acknowledgements: every receiver acknowledges every packet to its sender, and the
//! sender sends a packet again to each member whose acknowledgement does not come in time.
//!
//! The oldest reliable multicast, and the reason for all others: a packet to `n` members costs its
//! sender `n - 1` acknowledgements (the *ACK implosion* of Pingali, Towsley, Kurose, *A Comparison
//! of Sender-Initiated and Receiver-Initiated Reliable Multicast Protocols*, SIGMETRICS 1994). It
//! needs no next packet to detect a loss: recovery takes the retransmission timeout and one way.

#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod ack;
mod config;
pub mod counters;
mod message;

pub use ack::{Ack, Timer};
pub use config::Config;
pub use message::Message;

#[cfg(test)]
mod tests;
