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
pub use file::Defaults;
pub use flows::Flows;
pub use graph::{Consumer, Graph, GraphError, Link, Neighbour, Port, Producer};
pub use graphml::read as read_graphml;
pub use ndnsim::read as read_ndnsim;
pub use random::{Random, Ways};
pub use routes::{Path, Routes, Routing};

use paceline_lab::LabError;
use paceline_lab::scenario::Diagnostic;

/// Reads a network from a file: GraphML if its name ends in `.graphml` or `.xml`, an annotated
/// topology of ndnSIM if it ends in `.txt`.
pub fn load(path: &std::path::Path, defaults: &Defaults) -> Result<Graph, LabError> {
    let read: Reader = match path.extension().and_then(|extension| extension.to_str()) {
        Some("graphml" | "xml") => graphml::read,
        Some("txt") => ndnsim::read,
        _ => {
            let problem = format!("{}: unknown kind of network file", path.display());
            let accepted = "accepted: .graphml or .xml (GraphML), .txt (ndnSIM annotated topology)";
            return Err(Diagnostic::new(problem).with_note(accepted).into());
        }
    };
    let text = std::fs::read_to_string(path).map_err(LabError::read(path))?;
    read(&path.display().to_string(), &text, defaults)
}

type Reader = fn(&str, &str, &Defaults) -> Result<Graph, LabError>;
