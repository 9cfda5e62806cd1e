use std::path::PathBuf;

use paceline_lab::figure::{number, table as figure_table};
use paceline_lab::run::Place;
use paceline_lab::table::table;
use paceline_lab::tour::{self, Broadcasts};

use super::{Outcome, runs};
use crate::error::CliError;
use crate::ui::Ui;

/// See in a minute what Paceline does: broadcasts on real sockets, then the published figures
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The folder to write, which must not exist or be empty [default: runs/tour-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    ui.print("Four members on real loopback sockets; every delivery is checked.\n\n")?;
    let place = args.out.map_or(Place::Under(runs()), Place::At);
    let tour = tour::run(&place, &ui.progress())?;
    ui.document(&tour)?;
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
    ui.print(&format!("{}\n", table(header, &rows)))?;
    ui.print(
        "Loopback has no links to save: the processor is the limit. `paceline bench broadcast \
         --lab netns` shapes them.\n\n",
    )?;
    ui.print("In the simulator, beside what was published:\n\n")?;
    ui.print(&figure_table(&tour.results))?;
    let verdict = if tour.is_good() { "All as it should be" } else { "Not all is as it should be" };
    ui.print(&format!("\n{verdict}, in {} s.\n", number(tour.seconds)))?;
    ui.print(&format!("report: {}\n", tour.report.display()))?;
    Ok(Outcome::of(tour.is_good()))
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
