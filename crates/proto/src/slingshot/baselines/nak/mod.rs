//! Questions to single nodes: of a sender that is told what it has to send again, and of members
//! whose packets say what they have.
//!
//! - **Sender NAK** ([`Config::sender`]): who sees a gap in a sender's numbers, or hears by its
//!   heartbeat that there are more, waits for a short random time and asks the sender, again and
//!   again until the packet comes or is given up. The sender answers who asked, or everybody.
//! - **Digest pull** ([`Config::digest`]): every packet names the last few that its sender has
//!   received. Who misses one of them asks that sender at once; the packets of all members together
//!   show a loss much sooner than the next one of its own sender does.
//!
//! Sources: negative acknowledgements with backoff as in RFC 5740 (NORM), section 5; the
//! digests are the rival that Slingshot's second phase comes from, without repairs before it.

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
