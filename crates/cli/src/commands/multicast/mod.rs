//! `paceline multicast`: messages that arrive in time or not at all, from the shell.

mod member;
mod recv;
mod repairs;
mod send;
mod tune;

pub use member::{describe, leave};

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Send messages to a group with a deadline, and receive them
///
/// A message is sent once, in as many packets as it needs; receivers repair each other's losses
/// within milliseconds. Messages that are not repaired in time are reported lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples, one in each terminal:
  paceline multicast recv --bootstrap --bind 127.0.0.1:7001 --id 1
  paceline multicast recv --peer 127.0.0.1:7001 --id 2
  paceline multicast send --peer 127.0.0.1:7001 --id 3

The overhead of repairs:
  paceline multicast tune --within 10ms --recover 95% --overhead 30%")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Send(send::Args),
    Recv(recv::Args),
    Tune(tune::Args),
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Send(args) => send::run(args, ui),
        What::Recv(args) => recv::run(args, ui),
        What::Tune(args) => tune::run(args, ui),
    }
}
