//! `paceline bench`: how fast Paceline itself is.

mod broadcast;
mod coding;
mod comparison;
mod dht;
mod fetch;
mod hosts;
mod link;
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
#[command(after_help = "\
Examples:
  paceline bench broadcast
  paceline bench coding --time 10ms
  paceline bench simulator --json")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Broadcast(broadcast::Args),
    Coding(coding::Args),
    #[command(after_help = "\
Examples:
  paceline bench dht
  paceline bench dht --nodes 8 --keys 20000 --json")]
    Dht(dht::Args),
    Fetch(fetch::Args),
    Hosts(hosts::Args),
    Link(link::Args),
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
        What::Hosts(args) => hosts::run(args, ui),
        What::Link(args) => link::run(args, ui),
        What::Mircc(args) => mircc::run(args, ui),
        What::Multicast(args) => multicast::run(args, ui),
        What::Overlay(args) => overlay::run(args, ui),
        What::Simulator(args) => simulator::run(args, ui),
        What::Slingshot(args) => slingshot::run(args, ui),
        What::Walk(args) => walk::run(args, ui),
    }
}
