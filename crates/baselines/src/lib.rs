//! What Slingshot is compared with: multicast repaired by requests or acknowledgements, free of
//! input and output as the protocols of `paceline-proto` are.
//!
//! - [`ack`]: every receiver acknowledges every packet, and its sender retransmits.
//! - [`srm`]: requests and repairs to the whole group, spread by random timers (Floyd, Jacobson,
//!   Liu, McCanne, Zhang, *A Reliable Multicast Framework for Light-weight Sessions and
//!   Application Level Framing*, IEEE/ACM Transactions on Networking, 1997).
//! - [`nak`]: requests to single nodes: to the sender, once a gap in its numbers or its heartbeat
//!   shows a loss; or, with digests, to a member whose packet says that it has the missing one.
//! - [`gossip`]: digests to members drawn at random, in rounds, and retransmissions to soliciting
//!   members (Birman, Hayden, Ozkasap, Xiao, Budiu, Minsky, *Bimodal Multicast*, ACM Transactions
//!   on Computer Systems, 1999).
//!
//! Sender-based forward error correction is no protocol of its own but a setting of Slingshot's:
//! [`RepairBy::Sender`](paceline_proto::slingshot::RepairBy::Sender).
//!
//! All are protocols of their own, for measurements only: the library of Paceline has none of them.
//! They share with Slingshot the parts that are not compared: packets, the record of each sender's
//! packets, commands and events. So one workload drives all, and one ledger judges them. Of
//! Slingshot's [`Config`](paceline_proto::slingshot::Config) they read the members and groups, the
//! order, the deadline, the bounds and the heartbeats (only [`nak`]) or the time after which
//! packets are given up ([`srm`] and [`ack`]; [`gossip`] counts it in rounds); its settings for
//! repairs and requests do not apply to them.
#![forbid(unsafe_code)]

pub mod ack;
#[cfg(test)]
mod bench;
pub mod gossip;
pub mod nak;
pub mod srm;
mod store;
