//! Multicast in time: everybody gets it soon, because receivers repair each other.
//!
//! A member sends each packet once, unreliably, to all others. Every receiver keeps the last few
//! packets that it got in a *repair bin*; when `r` are in it, it sends one *repair*, their
//! exclusive or and their names, to `c` other members drawn at random, and empties the bin. Who
//! lacks one of the packets computes it from the others. That takes as long as the group needs for
//! about `r` packets, whoever sends them, and not a round trip or a sender's next packet. (r, c) is
//! the *rate of fire*: it buys recovery and time with overhead, c/r repairs for each packet.
//!
//! Sources: Balakrishnan, Pleisch, Birman, *Slingshot: Time-Critical Multicast for Clustered
//! Applications*, NCA 2005 (repairs, special buffer, second phase); Balakrishnan, Birman,
//! Phanishayee, Pleisch, *Ricochet: Lateral Error Correction for Time-Critical Multicast*, NSDI
//! 2007 (staggered bins, regions of overlapping groups); RFC 8681 (sliding-window random linear
//! codes).
//!
//! What this adds to what was published: a checksum of each packet in every repair that names it,
//! so that what is recovered is what was sent; partial bins are sent after a time; a random linear
//! code in place of the exclusive or; a second phase that reports what it gives up and can, if
//! configured so, ask members that have the packet before it asks the sender.

pub mod baselines;
mod bins;
mod config;
mod flow;
mod groups;
mod heartbeat;
mod interface;
mod ledger;
mod message;
mod parted;
mod pull;
mod receive;
mod regions;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod slingshot;
mod steering;
pub mod tuner;

pub use config::{Code, Config, Order, PartialCopies, Pull, PullFrom, Rate, RepairBy};
pub use interface::{Command, Event, How, RejectReason, Timer};
pub use message::{Ages, Data, Message, Name, Names, NamesBuilder, Repair, Supply, checksum};
pub use slingshot::Slingshot;

#[cfg(test)]
mod tests;
