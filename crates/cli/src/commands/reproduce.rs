use std::path::PathBuf;

use paceline_lab::figure::{Scale, Settings};
use paceline_lab::folder::Place;
use paceline_lab::reproduce::{self, Reproduction};
use paceline_lab::standing::summary;
use paceline_lab_services::services::{reproduction, reproductions};

use super::{Outcome, runs, seed};
use crate::error::CliError;
use crate::ui::Ui;

/// Run the experiments of the papers, and show published figures beside measured ones
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// What to reproduce (see `paceline list`) [default: all]
    name: Option<String>,

    /// Smaller runs under the same names, in under 8 s each
    #[arg(long)]
    quick: bool,

    /// Runs as long as the published ones, even where shorter ones give the same figures
    #[arg(long, conflicts_with = "quick")]
    full: bool,

    /// Change a setting of every scenario behind the figures
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// The root of all randomness, 0 to 2^63 - 1 [default: the scenarios']
    #[arg(long, value_name = "N", value_parser = seed())]
    seed: Option<u64>,

    /// The folder to write, which must not exist or be empty [default: runs/reproduce-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  paceline reproduce chain
  paceline reproduce chain --quick --json";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let chosen: Vec<&'static Reproduction> = match &args.name {
        Some(name) => vec![reproduction(name)?],
        None => reproductions().collect(),
    };
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let settings = Settings { scale, sets: args.sets, seed: args.seed, is_long: args.full };
    let progress = ui.progress();
    let reproduced = reproduce::run(chosen, &settings, &progress)?;
    let results = reproduce::results(&reproduced);
    let report = reproduce::report(&reproduced, &settings, &progress)?;
    let place = args.out.map_or(Place::Under(runs()), Place::At);
    let folder = reproduce::write(&results, &report, &place, "reproduce")?;
    ui.document(&results)?;
    ui.figures(&results.results)?;
    ui.print(&format!("\n{}", summary(&results.results)))?;
    ui.print(&format!("\nreport: {}\n", folder.join("report.html").display()))?;
    ui.warn_if_stopped();
    Ok(Outcome::of(results.pass() && !ui.is_stopped()))
}
