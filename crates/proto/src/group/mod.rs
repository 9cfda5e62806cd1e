//! Groups: members that come and go agree on views, and broadcast inside them.
//!
//! A [`Group`] holds a member's broadcast ([`crate::chain`]), its failure detector
//! ([`crate::detector`]) and the agreement on views. What it promises is *virtual synchrony*:
//! members that go from one view to the next together have delivered the same messages in it.
//!
//! # How a view ends
//!
//! The oldest member that is not suspected proposes. Under a ballot it asks the members that it
//! takes for alive to *prepare*: each freezes the broadcast, so that nothing of the view is sent or
//! taken any more, and promises to take part in no earlier attempt; it says what it has received of
//! each origin and what it accepted before. From that the proposer makes a proposal: who belongs to
//! the next view, and for each origin the last block that some survivor has. Members fetch what
//! they lack straight from such a survivor, deliver, and *accept*. Once all that were asked have,
//! the view is decided, and *installed*.
//!
//! # Why two views never follow one
//!
//! The members asked must be a quorum of the view that ends: more than half, or half with the
//! oldest among them. Two quorums share a member. A view is decided only when all that its ballot
//! asked have accepted it; so the proposer of a later ballot, who has the promises of a quorum,
//! finds it accepted by every one of them that the earlier ballot asked. Only then was it perhaps
//! decided, and only then must it be proposed again. A proposal that was adopted so counts as
//! perhaps decided from then on.

mod agree;
mod config;
mod direct;
#[allow(clippy::module_inception, reason = "the file bears the name of the type in it")]
mod group;
mod interface;
mod join;
mod links;
mod message;
mod pair;
mod post;
mod propose;
mod seen;

pub use config::Config;
pub use direct::Direct;
pub use group::Group;
pub use interface::{Command, Event, Role, Timer};
pub use message::{
    ADDRESS_BYTES_MAX, Ballot, Contact, Cut, MEMBERS_MAX, Message, Proposal, Received, Refusal,
};
pub use post::SendFailure;

#[cfg(test)]
mod tests;
