//! Shared parts of the protocols' tests: checkers of promises, runs over seeds, sabotaged nodes,
//! strangers that send false messages, some under forged names, and members that turn rogue. For
//! development only: no shipped crate depends on it.
#![forbid(unsafe_code)]

mod access;
pub mod amid;
pub mod checkers;
pub mod clock;
pub mod cuts;
mod forger;
pub mod fuzz;
mod honest;
mod instances;
pub mod lies;
pub mod moves;
mod rogue;
pub mod seeds;
mod stranger;
pub mod swarm;
mod wrapped;

pub use checkers::Report;
pub use forger::{Forgers, Gate, Verdict};
pub use honest::Honest;
#[doc(hidden)]
pub use instances::named_here;
pub use rogue::{Conduct, Misdeed, Rogue, Rogues};
pub use stranger::{LIES, LieTally, Lies, Spoken, Stranger, Strangers};
pub use swarm::Swarm;
pub use wrapped::{Tamper, Wrapped};
