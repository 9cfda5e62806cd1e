//! A network of one machine: every node in a network namespace of its own, all of them on one
//! bridge, every port shaped in both directions, faults by packet filter.
//!
//! [`NetworkLab::build`] makes the network and its `Drop` removes it; [`run_members`] runs one
//! process in each node and collects what it printed and what it cost. Needs Linux, root, and the
//! tools `ip`, `tc` and (for faults) `nft`; [`available`] says what is missing.
//!
//! ```no_run
//! use paceline_netlab::{NetworkLab, Plan, run_members};
//! use std::process::Command;
//! use std::time::Duration;
//!
//! let lab = NetworkLab::build(Plan::new(4, 100_000_000))?;
//! let outputs = run_members(
//!     &lab,
//!     |node| {
//!         let mut command = Command::new("my-program");
//!         command.arg("--bind").arg(lab.address(node).to_string());
//!         command
//!     },
//!     Duration::from_secs(30),
//! )?;
//! for output in outputs {
//!     println!("{}: {:?}, {:?} of CPU", output.node, output.result, output.cpu());
//! }
//! # Ok::<(), paceline_netlab::NetlabError>(())
//! ```
//!
//! # Signals
//!
//! [`run_members`] and [`NetworkLab::build`] install a handler for SIGINT, SIGTERM and SIGHUP that
//! only sets a flag. The runner sees the flag at once, kills its members and returns
//! [`NetlabError::Interrupted`]; unwinding the stack then drops the lab. What a killed process
//! leaves behind is removed by the next build of any process ([`sweep`]).

mod error;
mod faults;
mod members;
mod network;
mod plan;
mod signals;
mod sweep;
mod tool;

pub use error::NetlabError;
pub use members::{Ending, MemberOutput, run_members};
pub use network::NetworkLab;
pub use plan::{NODES_MAX, Plan};
pub use signals::{interrupted, watch as watch_signals};
pub use sweep::sweep;
pub use tool::available;
