//! `paceline bench`: how fast Paceline itself is.

mod broadcast;
mod coding;
mod dht;
mod fetch;
mod mircc;
mod multicast;
mod overlay;
mod simulator;
mod slingshot;
mod walk;

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Measure how fast Paceline is on this machine
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Broadcast(broadcast::Args),
    Coding(coding::Args),
    Dht(dht::Args),
    Fetch(fetch::Args),
    Mircc(mircc::Args),
    Multicast(multicast::Args),
    Overlay(overlay::Args),
    Simulator(simulator::Args),
    Slingshot(slingshot::Args),
    Walk(walk::Args),
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Broadcast(args) => broadcast::run(args, ui),
        What::Coding(args) => coding::run(args, ui),
        What::Dht(args) => dht::run(args, ui),
        What::Fetch(args) => fetch::run(args, ui),
        What::Mircc(args) => mircc::run(args, ui),
        What::Multicast(args) => multicast::run(args, ui),
        What::Overlay(args) => overlay::run(args, ui),
        What::Simulator(args) => simulator::run(args, ui),
        What::Slingshot(args) => slingshot::run(args, ui),
        What::Walk(args) => walk::run(args, ui),
    }
}
