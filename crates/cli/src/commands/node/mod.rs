//! `paceline node`: a member of a group, a host of a table, or a server of walks, as a process.

pub mod dht;
mod file;
mod group;
pub mod service;
mod walk;

use std::path::PathBuf;

use paceline_lab_services::serve_control;

use super::{Outcome, member};
use crate::error::CliError;
use crate::signals::Ending;
use crate::ui::Ui;

/// Run a member that forwards broadcasts, a host of a table, or a server of walks, until Ctrl-C
///
/// With --config a file names any number of services, which share one host.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Run the services of this file (docs/operations/node.md). Variables PACELINE_* stand above
    /// the file, and the options of the host above both
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_SERVICE)]
    config: Option<PathBuf>,

    #[command(flatten)]
    member: member::Args,

    #[command(flatten)]
    service: service::Args,

    /// Obey the parent process by JSON lines on standard input: one node of a scenario
    #[arg(long, hide = true)]
    control: bool,
}

/// Options of a node with one service, for which a file has keys.
const OF_ONE_SERVICE: [&str; 10] = [
    "service",
    "topology",
    "algorithm",
    "copies",
    "quota",
    "durable",
    "durable_async",
    "stat",
    "workers",
    "control",
];

const AFTER_HELP: &str = "\
Examples:
  paceline node --bootstrap --bind 127.0.0.1:7001   the first of a group
  paceline node --peer 127.0.0.1:7001               one more
  paceline node --service dht --bootstrap --bind 127.0.0.1:7001 --durable 7001.redb
                                                    the first of a distributed hash table
  paceline node --service walk --bind 127.0.0.1:7001
                                                    a server of random walks
  paceline node --service walk --bind 127.0.0.1:7001 --workers 2
                                                    two of them, at 7001 and 7002, on two cores
  paceline node --config node.toml                  the services of a file

With --json the counters at the end are one JSON document.";

impl Args {
    /// How it ends after the first Ctrl-C. A node of a scenario ends when its parent says so, a
    /// host of a table hands its values over first, and a node of a file has `leave_within`.
    pub fn ending(&self) -> Ending {
        match self.control || self.config.is_some() {
            true => Ending::AfterItsPart,
            false => self.service.shared.service.ending,
        }
    }
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.control {
        serve_control()?;
        return Ok(Outcome::Done);
    }
    if let Some(path) = &args.config {
        return file::run(path, &args.member.host, ui);
    }
    (args.service.shared.service.run)(&args.member, &args.service, ui)
}
