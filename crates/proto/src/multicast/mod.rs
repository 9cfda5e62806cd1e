//! Multicast in time among members that come and go: [`crate::slingshot`] in the views of a
//! [`crate::group`].
//!
//! The group's detector and agreement say who the members are; each view goes to the multicast,
//! under the incarnation by which the others know this member. A member that was excluded, or has
//! left, is told what it will not get any more, and begins anew as another.
//!
//! A message is one of the two, behind a tag of a byte: 0 of the group, 1 of the multicast.

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
