//! Named data from the shell: `serve`, `forward`, `fetch`, and `ndn` to examine paths.

pub mod args;
pub mod fetch;
pub mod forward;
mod ping;
pub mod serve;
pub mod setup;
mod traceroute;

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Examine the paths that lead to a name
///
/// Returned Data carries the label of its path, which steers the next Interest along it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline ndn ping /music --face 127.0.0.1:7001
  paceline ndn traceroute /music --all-paths --face 127.0.0.1:7001")]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Ping(ping::Args),
    Traceroute(traceroute::Args),
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Ping(args) => ping::run(args, ui),
        What::Traceroute(args) => traceroute::run(args, ui),
    }
}
