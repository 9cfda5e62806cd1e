//! Structured overlays: whoever is responsible for a key gets what is sent to it, by a few hops,
//! and what shares a hop travels as one message.
//!
//! A [`Router`] is the routing table of one algorithm, free of messages: [`Key`]s in, nodes out.
//! There are five: [`Chord`], [`Koorde`], [`Pastry`], [`Tapestry`] and [`Kademlia`]. They agree on
//! this much:
//!
//! - A table takes in only nodes that were heard from. Those that others name are asked first, so
//!   the dead do not live on in hearsay.
//! - A message comes nearer with each hop, by a measure that does not depend on what other tables
//!   say. So it does not go in circles while tables are being repaired; it may end at a node that
//!   is not responsible.
//! - The [`Oracle`] knows who is responsible once tables are right.

mod cells;
mod chord;
mod kademlia;
mod key;
mod koorde;
mod leg;
mod list;
mod oracle;
mod pastry;
mod place;
mod router;
mod tapestry;
#[cfg(test)]
mod tests;

pub use chord::Chord;
pub use kademlia::Kademlia;
pub use key::{Key, Space};
pub use koorde::{Koorde, Side, Walk};
pub use leg::Leg;
pub use oracle::Oracle;
pub use pastry::Pastry;
pub use router::{Chore, Hop, Router, Step, Topic};
use router::{keep_distinct, keep_nearest};
pub use tapestry::Tapestry;
