//! `paceline walk`: random walks over a graph.
//!
//! A [`Plan`](plan::Plan) says which walks. They come in the order of their numbers, from wherever
//! they are walked, as blocks of paths; [`Outputs`](outputs::Outputs) takes those and knows nothing
//! else of where they come from.

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
