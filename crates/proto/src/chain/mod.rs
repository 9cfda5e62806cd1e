//! Broadcast: everybody gets it, at line rate.
//!
//! The members of a view form a ring. A broadcast goes to the successor only; each member delivers
//! and forwards, and the last one before the origin stops. So every link carries a message once,
//! where sending to each member in turn would load the origin's link N - 1 times.
//!
//! Sources: Bela Ban, *Daisychaining in the clouds*, 2010; Guerraoui, Levy, Pochon, Quema,
//! *Throughput optimal total order broadcast for cluster environments*, TOCS 2010 (ring, fairness);
//! Behrens, Jha, Birman, Tremel, *RDMC: A Reliable RDMA Multicast for Large Objects*, DSN 2018, and
//! Ganesan, Seshadri, *On Cooperative Content Distribution and the Price of Barter*, ICDCS 2005
//! (binomial pipeline).
//!
//! What this adds to the published ring: a view id, hop limit and checksum in each frame; credits
//! that return when the application has consumed; stability; a broken hop that resumes by link
//! sequence; hops that serve origins by deficit round robin; three more topologies and a planner.

mod acks;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod chain;
mod config;
mod fair_queue;
mod flow;
mod flush;
mod hop;
mod inject;
mod lag;
mod link;
mod message;
mod own;
mod pace;
mod pipeline;
mod plan;
mod receive;
mod serve;
mod shares;
mod topology;
mod unread;
mod uplink;
mod watch;
mod window;

pub use chain::{Chain, Command, Event, RejectReason, Timer};
pub use config::Config;
pub use flush::Reached;
pub use message::{Frame, Message};
pub use pipeline::{Schedule, Step};
pub use plan::{Plan, Reason, Urgency, plan};
pub use shares::fair_shares;
pub use topology::{Children, Topology};

#[cfg(test)]
mod tests;
