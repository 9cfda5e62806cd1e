//! `paceline node`: a member of a group, a host of a table, or a server of walks, as a process.

pub mod dht;
mod group;
pub mod service;
mod walk;

use paceline_lab_services::serve_control;

use super::{Outcome, member};
use crate::error::CliError;
use crate::signals::Ending;
use crate::ui::Ui;

/// Run a member that forwards broadcasts, a host of a table, or a server of walks, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    #[command(flatten)]
    service: service::Args,

    /// Obey the parent process by JSON lines on standard input: one node of a scenario
    #[arg(long, hide = true)]
    control: bool,
}

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

With --json the counters at the end are one JSON document.";

impl Args {
    /// How it ends after the first Ctrl-C. A node of a scenario ends when its parent says so, and a
    /// host of a table hands its values over first.
    pub fn ending(&self) -> Ending {
        match self.control {
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
    (args.service.shared.service.run)(&args.member, &args.service, ui)
}
