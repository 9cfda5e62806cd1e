//! `paceline multicast`: packets that arrive in time or not at all, from the shell.

mod member;
mod recv;
mod repairs;
mod send;
mod tune;

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Send packets to a group that get there in time, and receive them
///
/// A packet is sent once; receivers repair each other's losses within milliseconds. What cannot be
/// repaired in time is reported lost.
#[derive(Debug, clap::Args)]
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
