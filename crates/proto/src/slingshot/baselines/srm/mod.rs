//! Scalable Reliable Multicast: requests and repairs to everybody, spread by random timers.
//!
//! Who misses a packet asks the whole group for it after a time drawn from [C1 d, (C1 + C2) d],
//! where d is its distance to the packet's sender; whoever hears the request and misses the packet
//! too does not ask but waits for longer. Who has the packet sends it to the whole group after a
//! time drawn from [D1 d, (D1 + D2) d], with the distance to who asked, unless another did before.
//! A packet is missed when a later one of its sender comes, when somebody asks for it, or when a
//! session message tells how far its sender got; these also measure the distances.
//!
//! Source: Floyd, Jacobson, Liu, McCanne, Zhang, *A Reliable Multicast Framework for Light-weight
//! Sessions and Application Level Framing*, IEEE/ACM Transactions on Networking 5(6), 1997. The
//! adaptive timers follow the rules of ns-2, which are those of its section VII with numbers of
//! their own.
//!
//! Departures: packets are kept for a time and not for good, and what is missing for longer than
//! [`lost_after`](crate::slingshot::Config::with_lost_after) is given up and said to be lost; a
//! session message that has no room for all members tells of the next ones next time; session
//! messages come at a fixed rate, which the paper adapts to the size of the group.
//!
//! The paper's session messages tell of all members ([`Reports::All`], the default). Where 64
//! members send one each second, one of them names a packet some 16 ms after it, long before its
//! sender's next packet does if that comes 64 ms later: the median of recovery is then about 17 ms.
//! Comparisons of Slingshot with SRM take a receiver to learn of a loss from the sender's next
//! packet alone, and give 64 ms; that is SRM with [`Reports::Own`].

mod config;
mod message;
mod session;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod srm;
mod timers;

pub use config::{Config, Distance, Factors, Reports, Timers};
pub use message::{Echo, Message, Reached, Session};
pub use srm::{Srm, Timer};

#[cfg(test)]
mod tests;
