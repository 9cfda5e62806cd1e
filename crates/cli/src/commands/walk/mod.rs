//! `paceline walk`: random walks over a graph.
//!
//! A [`Plan`](plan::Plan) says which walks to do. Paths arrive in blocks, in the order of the
//! walks' numbers; [`Outputs`](outputs::Outputs) takes the blocks, and does not depend on where the
//! walks ran.

mod kind;
mod outputs;
mod plan;
mod run;
mod servers;
mod sources;
mod summary;

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Walk at random over a graph, and write the walks down
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  paceline walk run web.npz --kind deepwalk --length 80 --walks 10 --out walks.txt
  paceline walk run web.npz --kind ppr --source 7 --ends ranks.csv --top-k 20";

#[derive(Debug, clap::Subcommand)]
enum What {
    Run(run::Args),
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Run(args) => run::run(args, ui),
    }
}
