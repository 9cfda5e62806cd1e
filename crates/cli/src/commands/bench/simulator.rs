use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::simulator::{Row, Settings, run as measure};

use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Nanoseconds an event and bytes a node, from 1,000 nodes to a million
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The largest size, 100 to 4000000; sizes grow tenfold from 1,000
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=4_000_000))]
    nodes_max: u32,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench simulator
  paceline bench simulator --nodes-max 100000 --json

A chain passes waves of 8 blocks from node to node, each until it is acknowledged and freed; the
first one also gets all memory from the system. `hold` pops the earliest event of the queue and
pushes one later, `hold-binary-heap` does the same with the heap of the standard library.";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let settings = Settings { nodes_max: args.nodes_max, ..Settings::default() };
    let bench = Bench::new(measure(settings, &ui.progress())?);
    ui.document(&bench)?;
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let rows: Vec<[String; 9]> = bench
        .results
        .iter()
        .map(|row| {
            [
                row.what.to_owned(),
                shown(row.nodes.map(f64::from)),
                row.pending.to_string(),
                number(row.ns_per_event),
                number(row.ns_per_event / smallest(&bench.results, row.what)),
                shown(row.ns_per_event_first),
                shown(row.bytes_per_node),
                shown(row.protocol_bytes.map(|bytes| bytes as f64)),
                shown(row.resident_bytes_per_node),
            ]
        })
        .collect();
    let header = [
        "what",
        "nodes",
        "pending",
        "ns/event",
        "growth",
        "first wave",
        "bytes/node",
        "protocol",
        "resident/node",
    ];
    ui.print(&table(header, &rows))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::Done)
}

/// Nanoseconds an event at the smallest size of a load.
fn smallest(rows: &[Row], what: &str) -> f64 {
    rows.iter().find(|row| row.what == what).map_or(f64::NAN, |row| row.ns_per_event)
}
