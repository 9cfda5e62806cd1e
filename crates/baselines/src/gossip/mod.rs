//! Bimodal multicast (pbcast): what the group send loses comes back by gossip.
//!
//! A packet goes to the group once, unreliably. Each member then gossips in rounds of its own: it
//! sends a *digest* of the packets in its buffer to a few members drawn at random. A member that
//! lacks a packet of a digest *solicits* it from the gossiper, which *retransmits* it. After a
//! fixed number of rounds a packet leaves the buffers, and members that still lack it report it
//! lost: nearly all members deliver a packet, or nearly none do, with high probability. No member
//! acknowledges, and the load of a member does not depend on the size of the group.
//!
//! Source: Birman, Hayden, Ozkasap, Xiao, Budiu, Minsky, *Bimodal Multicast*, ACM Transactions on
//! Computer Systems 17(2), 1999. Of its optimizations, which keep a slow member from burdening the
//! others, these are here:
//!
//! - *Soft failure detection*: a solicitation is answered only within the gossiper's round to which
//!   it belongs. A later one comes from a member or a network that is too slow to help.
//! - *Round retransmission limit*: a member retransmits at most
//!   [`retransmit_max`](Config::with_retransmit_max) packets a round.
//! - *Most recent first*: a member solicits the packets first that it has missed last, so that it
//!   does not spend its round on packets that leave the buffers next.
//! - *Independent numbering of rounds*: a round is a number of one gossiper, which others echo.
//!
//! Departures:
//!
//! - A limit counts packets, not bytes; a solicitation has one as well
//!   ([`solicit_max`](Config::with_solicit_max)).
//! - A member solicits a packet once in a round of its own, even if several members offer it: where
//!   a round takes hundreds of round-trip times, a second answer would be a duplicate. For the same
//!   reason *cyclic retransmission*, which skips what was retransmitted in the round before, is
//!   left out.
//! - Retransmissions go to the member that solicited; the paper multicasts those that several
//!   members solicit.
//! - A digest covers one group and all senders to it, and is split if it does not fit a datagram. A
//!   member that holds and misses nothing is silent.

mod config;
pub mod counters;
mod digest;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod gossip;
mod message;

pub use config::Config;
pub use digest::Origin;
pub use gossip::{Gossip, Timer};
pub use message::Message;

#[cfg(test)]
mod tests;
