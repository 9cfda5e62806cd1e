//! What Slingshot is compared with: multicast whose receivers ask for what they miss.
//!
//! - [`srm`]: requests and repairs to the whole group, spread by random timers (Floyd, Jacobson,
//!   Liu, McCanne, Zhang, *A Reliable Multicast Framework for Light-weight Sessions and
//!   Application Level Framing*, IEEE/ACM Transactions on Networking, 1997).
//! - [`nak`]: questions to single nodes. To the sender, once a gap in its numbers or its heartbeat
//!   shows a loss; or, with digests, to the member whose packet says that it has the missing one.
//!
//! Both are protocols of their own. What they share with Slingshot is not what is measured: the
//! packets, the record of what came of each sender, and what the application asks and is told, so
//! that the same workload drives all and the same ledger judges them. Of Slingshot's
//! [`Config`](super::Config) they read the members and groups, the order, the deadline, the bounds
//! and the heartbeats (only [`nak`]) or the time after which packets are given up (only [`srm`]);
//! what it says about repairs and questions does not concern them.

#[cfg(test)]
mod bench;
pub mod nak;
pub mod srm;
mod store;
