//! Requests to single nodes: to the sender of a missing packet, or to members whose packets say
//! what they have.
//!
//! - **Sender NAK** ([`Config::sender`]): a member that sees a gap in a sender's numbers, or learns
//!   of more packets from its heartbeat, waits for a short random time and asks the sender. It asks
//!   again until the packet comes or is given up. The sender answers the requester, or the whole
//!   group.
//! - **Digest pull** ([`Config::digest`]): every packet names the last few that its sender has
//!   received. A member that lacks one of them asks that sender at once; the packets of all members
//!   together show a loss much sooner than the next one of its own sender does.
//!
//! Sources: negative acknowledgements with backoff as in RFC 5740 (NORM), section 5; digests are
//! what Slingshot's second phase derives from, here without prior repairs.

mod config;
pub mod counters;
mod message;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod nak;

pub use config::{Answer, Config};
pub use message::Message;
pub use nak::{Nak, Timer};

#[cfg(test)]
mod tests;
