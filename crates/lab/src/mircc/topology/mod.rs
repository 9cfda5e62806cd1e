//! Networks for named data: routers, links, and where consumers and producers sit.
//!
//! A [`Graph`] is built in ([`Dumbbell`], [`Slingshot`], [`Diamond`], [`Abilene`]), drawn
//! ([`Random`]) or read from a file ([`load`]). [`Routes`] says which next hops each node has
//! towards a prefix, and which paths a consumer has under them; [`Flows`] makes an oracle's problem
//! of it.
//!
//! Built-in networks have all their nodes attached; to one that was read, consumers and producers
//! are added by name.

mod builtin;
mod file;
mod flows;
mod graph;
mod graphml;
mod ndnsim;
mod random;
mod routes;

pub use builtin::{Abilene, Branch, Diamond, Dumbbell, Slingshot};
pub use file::{Defaults, load};
pub use flows::Flows;
pub use graph::{Consumer, Graph, GraphError, Link, Neighbour, Port, Producer};
pub use graphml::read as read_graphml;
pub use ndnsim::read as read_ndnsim;
pub use random::{Random, Ways};
pub use routes::{Path, Routes, Routing};
