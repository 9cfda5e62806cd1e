//! What tests of the protocols share: checkers of what is promised, runs over seeds, nodes that are
//! tampered with, strangers that send false messages, some in the names of others, and members
//! that turn rogue. For development only: nothing of the product depends on it.
#![forbid(unsafe_code)]

mod access;
pub mod amid;
pub mod checkers;
pub mod clock;
pub mod cuts;
mod forger;
pub mod fuzz;
mod honest;
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
pub use rogue::{Conduct, Misdeed, Rogue, Rogues};
pub use stranger::{LIES, LieTally, Lies, Spoken, Stranger, Strangers};
pub use swarm::Swarm;
pub use wrapped::{Tamper, Wrapped};
