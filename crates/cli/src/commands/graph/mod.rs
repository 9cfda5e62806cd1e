//! `paceline graph`: graphs in files, from one format to another, in numbers, drawn, divided.

mod convert;
mod files;
mod generate;
mod parts;
mod stat;

pub use files::{Input, failed, writable};
pub use parts::{By, divide};

use super::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Convert, measure, generate and partition graphs
///
/// Edge lists (SNAP, TSV, CSV; plain, gzip or zstd), METIS, SciPy's .npz, and Parquet in a build
/// with the feature `parquet`. Vertices keep their ids of up to 64 bits.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  paceline graph gen rmat --scale 16 --undirected --out web.npz
  paceline graph stat web.npz --parts 3
  paceline graph convert web.npz web.tsv.gz
  paceline graph partition web.npz --parts 3 --by edges --out web.part";

#[derive(Debug, clap::Subcommand)]
enum What {
    Convert(convert::Args),
    Stat(stat::Args),
    Gen(generate::Args),
    Partition(parts::Args),
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Convert(args) => convert::run(args, ui),
        What::Stat(args) => stat::run(args, ui),
        What::Gen(args) => generate::run(args, ui),
        What::Partition(args) => parts::run(args, ui),
    }
}
