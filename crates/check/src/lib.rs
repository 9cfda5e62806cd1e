//! What tests of the protocols share: runs over seeds, nodes that are tampered with, strangers that
//! send false messages, and members that turn rogue. For development only: nothing of the product
//! depends on it.
#![forbid(unsafe_code)]

mod access;
pub mod amid;
pub mod clock;
pub mod cuts;
pub mod fuzz;
mod honest;
pub mod lies;
pub mod moves;
mod rogue;
pub mod seeds;
mod stranger;
mod wrapped;

pub use honest::Honest;
pub use rogue::{Conduct, Misdeed, Rogue, Rogues};
pub use stranger::{LIES, LieTally, Lies, Spoken, Stranger, Strangers};
pub use wrapped::{Tamper, Wrapped};
