//! A network of one machine: every node in a network namespace of its own, all of them on one
//! bridge, every port shaped in both directions, faults by packet filter.
//!
//! [`NetworkLab::build`] creates the network and its `Drop` removes it; [`NetworkLab::command_in`]
//! makes a command run in a node. Needs Linux, root, and the tools `ip`, `tc` and (for faults)
//! `nft`; [`available`] reports which are missing.
//!
//! ```no_run
//! use paceline_netlab::{NetworkLab, Plan};
//! use std::process::Command;
//!
//! let lab = NetworkLab::build(Plan::new(4, 100_000_000))?;
//! let mut children = Vec::new();
//! for node in 0..lab.nodes() {
//!     let mut command = Command::new("my-program");
//!     command.arg("--bind").arg(lab.address(node).to_string());
//!     children.push(lab.command_in(node, command).spawn()?);
//! }
//! for mut child in children {
//!     child.wait()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Cleanup
//!
//! Dropping the lab removes everything, and kills processes that are still in a node. A process
//! that wants its labs removed on Ctrl-C must unwind then, since the default action of a signal
//! drops nothing. The next build of any process removes what a killed process left ([`sweep`]).

mod error;
mod faults;
mod network;
mod plan;
mod sweep;
mod tool;
mod traffic;

pub use error::NetlabError;
pub use network::NetworkLab;
pub use plan::{NODES_MAX, Plan, Port};
pub use sweep::sweep;
pub use tool::available;
pub use traffic::{PortTraffic, Traffic};
