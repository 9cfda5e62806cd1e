//! Time-critical multicast in a changing group: [`crate::slingshot`] in the views of a
//! [`crate::group`].
//!
//! The group's failure detector and agreement decide the membership; each view goes to the
//! multicast, with the incarnation under which the others know this member. A member that was
//! excluded, or has left, reports the packets that it still missed as lost, and can rejoin only in
//! a new incarnation.
//!
//! A message begins with a tag of one byte, 0 for the group or 1 for the multicast.

mod config;
mod interface;
mod message;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod multicast;

pub use config::Config;
pub use interface::{Command, Event, Timer};
pub use message::Message;
pub use multicast::Multicast;

#[cfg(test)]
mod tests;
