//! Structured overlays: whoever is responsible for a key gets what is sent to it, by a few hops,
//! and what shares a hop travels as one message.
//!
//! A [`Router`] is the routing table of one algorithm, free of messages: [`Key`]s in, nodes out.
//! There are five, one for each [`Algorithm`]: [`Chord`], [`Koorde`], [`Pastry`], [`Tapestry`] and
//! [`Kademlia`]. They agree on this much:
//!
//! - A table takes in only nodes that were heard from. Those that others name are asked first, so
//!   the dead do not live on in hearsay.
//! - A message comes nearer with each hop, by a measure that does not depend on what other tables
//!   say. So it does not go in circles while tables are being repaired; it may end at a node that
//!   is not responsible.
//! - The [`Oracle`] knows who is responsible once tables are right.
//!
//! An [`Overlay`] is a node: it sends, waits, stores, and looks after its router's table.
//!
//! # Collective forwarding
//!
//! An application's request is a *bundle* of keys. The requester, and each hop after it, looks up
//! the next hop of every target, divides the bundle by next hop, and sends one message to each;
//! parts are never put together again, and never held back. Targets for which the node itself is
//! responsible end there. So a bundle spreads as a tree, and a bundle of one key travels as any
//! message does. Shudo, *Message Bundling on Structured Overlays*, ISCC 2017.
//!
//! *Recursive*: each hop acknowledges the bundle and forwards its parts; the node where targets end
//! sends one result straight to the requester. *Iterative*: the requester asks each hop for the
//! next. Either way a hop that does not answer is forgotten and its targets are divided anew, and
//! at the requester what has no outcome in time is asked for again. Each key gets one outcome.
//!
//! # Storage
//!
//! The node that is responsible for a key gives its record a version, stores it, and answers once
//! the other replicas hold copies. Replicas compare ages of what they hold from time to time, so
//! that copies are restored after failures, and go to those that became responsible. What was
//! removed leaves a mark for a while, so that no copy comes back.

mod act;
mod addresses;
mod algorithm;
mod bundle;
mod cells;
mod chord;
mod command;
mod config;
mod exchange;
mod fields;
mod guest;
mod kademlia;
mod key;
mod koorde;
mod leg;
mod list;
mod lookup;
mod losses;
mod message;
mod node;
mod oracle;
mod parallel;
mod pastry;
mod persist;
mod place;
mod ranges;
mod read;
mod relay;
mod replicate;
mod request;
mod router;
mod shape;
mod store;
mod sync;
mod tapestry;
#[cfg(test)]
mod tests;
mod upkeep;
mod walk;
mod wire;

pub use algorithm::{Algorithm, UnknownAlgorithm};
pub use chord::Chord;
pub use command::{
    Command, Event, FailReason, Item, JoinFailure, Operation, Outcome, RejectReason, Role, Style,
};
pub use config::{Config, PingPolicy};
pub use kademlia::Kademlia;
pub use key::{Key, Space};
pub use koorde::{Koorde, KoordeWalk, Side};
pub use leg::Leg;
pub use message::{
    ADDRESS_BYTES_MAX, Addresses, Answer, Body, CANDIDATES_MAX, CopyAnswer, Found, HEAD_BYTES_MAX,
    ITEMS_MAX, MESSAGE_BYTES_MAX, MISSING_MAX, Message, NODES_MAX, Purpose, PutAnswer, PutItem,
    Record, Route, Segment, Stamp, Target, Version,
};
pub use node::{Overlay, Timer};
pub use oracle::Oracle;
pub use pastry::Pastry;
pub use router::{Chore, Hop, Router, Step, Topic};
use router::{keep_distinct, keep_nearest};
pub use shape::Shape;
pub use store::{Held, Store};
pub use tapestry::Tapestry;
pub use walk::Walk;
