//! Other implementations beside Paceline: a process for each member, by a driver in Java under
//! `bench/peers`, and pairs of runs on the same network.

mod comparison;
mod driver;
mod durations;
mod members;
mod report;
mod session;

pub use comparison::{Compared, Comparison, Pair, Spread};

pub(crate) use comparison::{Figure, Peers};
pub(crate) use driver::{Driver, Installation, MemberSettings};
pub(crate) use durations::Durations;
pub(crate) use report::MemberPart;
pub(crate) use session::{Phases, Session};
