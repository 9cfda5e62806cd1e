use std::path::PathBuf;

use paceline_lab::figure::number;
use paceline_lab::folder::Place;
use paceline_lab::table::table;
use paceline_lab_services::tour::{self, Broadcasts, Tour};

use super::{Outcome, runs};
use crate::error::CliError;
use crate::ui::Ui;

/// See in a minute what Paceline does: broadcasts on real sockets, then the published figures
///
/// Ends with a summary that fits one screen. The tables are in the report.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline tour
  paceline tour --verbose            each broadcast and each figure as well
  paceline tour --json > tour.json")]
pub struct Args {
    /// Print the tables as well: each broadcast on sockets, and each figure with its band
    #[arg(long, short)]
    verbose: bool,

    /// The folder to write, which must not exist or be empty [default: runs/tour-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let place = args.out.map_or(Place::Under(runs()), Place::At);
    let tour = tour::run(&place, &ui.progress())?;
    ui.document(&tour)?;
    if args.verbose {
        ui.print(&broadcasts(&tour))?;
        ui.print("\n")?;
        ui.figures(&tour.results)?;
        ui.print("\n")?;
    }
    ui.print(&tour.summary())?;
    Ok(Outcome::of(tour.is_good()))
}

fn broadcasts(tour: &Tour) -> String {
    let rows: Vec<[String; 8]> = tour.sockets.iter().map(cells).collect();
    let header = [
        "topology",
        "senders",
        "deliveries",
        "missing",
        "damaged",
        "MB/node/s",
        "p50 ms",
        "p99 ms",
    ];
    table(header, &rows)
}

fn cells(row: &Broadcasts) -> [String; 8] {
    [
        row.topology.to_owned(),
        row.senders.to_owned(),
        row.messages_delivered.to_string(),
        row.messages_missing.to_string(),
        row.messages_damaged.to_string(),
        number(row.mb_per_node_per_s),
        number(row.p50_ms),
        number(row.p99_ms),
    ]
}
