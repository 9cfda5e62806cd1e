use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::overlay::{Row, Settings, run as measure};
use paceline_lab_bench::packets;

use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Seconds, events and bytes a node of bundled gets, from 1,000 nodes to a million
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The largest size, 100 to 4000000; sizes grow tenfold from 1,000
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(100..=4_000_000))]
    nodes_max: u32,
    /// Keys that are put and then got, 1000 to 1000000
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1_000..=1_000_000))]
    keys: u32,
    /// Instead, the published count of messages: five algorithms, both styles, 50,000 keys
    #[arg(long, conflicts_with_all = ["nodes_max", "keys"])]
    packets: bool,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench overlay
  paceline bench overlay --nodes-max 100000 --json
  paceline bench overlay --packets

Chord and Kademlia with filled tables, in the simulator. All keys are put in sorted bundles of ten,
each by any node, and then got the same way; times and counts of events and messages are of the
gets. `table` is the bytes of a node's table, `node` all that it and the simulator keep for it, and
`resident` what the process grew by, for each node, beyond what earlier rows left free.

With --packets, `overlay/packets` with filled tables by all five algorithms, as many at a time as
there are cores: messages in bundles of ten over messages one by one, recursive, and what it took.
The last row has the seconds of all, their processor time, and the most memory that was held.";

/// Keys of the published count of messages.
const PACKETS_KEYS: usize = 50_000;

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.packets {
        return run_packets(ui);
    }
    let keys = args.keys as usize;
    let settings = Settings { nodes_max: args.nodes_max, keys, ..Settings::default() };
    let bench = Bench::new(measure(settings, &ui.progress())?);
    ui.document(&bench)?;
    let rows: Vec<[String; 13]> = bench.results.iter().map(|row| cells(row, &bench)).collect();
    let header = [
        "algorithm",
        "nodes",
        "fill s",
        "put s",
        "get s",
        "events",
        "events/s",
        "ns/event",
        "growth",
        "messages/key",
        "table B",
        "node B",
        "resident B",
    ];
    ui.print(&table(header, &rows))?;
    for row in bench.results.iter().filter(|row| row.found < row.keys) {
        let (found, keys) = (row.found, row.keys);
        ui.print(&format!("\n{} at {}: {found} of {keys} found\n", row.algorithm, row.nodes))?;
    }
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::Done)
}

fn run_packets(ui: &Ui) -> Result<Outcome, CliError> {
    let bench = Bench::new(packets::run(PACKETS_KEYS, &ui.progress())?);
    ui.document(&bench)?;
    let or_none = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let cells = |row: &packets::Row| {
        [
            row.algorithm.to_owned(),
            or_none(row.random),
            or_none(row.clustered),
            row.events.to_string(),
            number(row.seconds),
            or_none(row.cpu_seconds),
            or_none(row.resident_bytes_max.map(|bytes| bytes as f64 / 1e6)),
            row.digest.clone().unwrap_or("-".to_owned()),
        ]
    };
    let rows: Vec<[String; 8]> = bench.results.iter().map(cells).collect();
    let header =
        ["algorithm", "random", "clustered", "events", "s", "processor s", "most MB", "digest"];
    ui.print(&table(header, &rows))?;
    for row in bench.results.iter().filter(|row| row.done < row.asked) {
        let (done, asked) = (row.done, row.asked);
        ui.print(&format!("\n{}: {done} of {asked} keys done\n", row.algorithm))?;
    }
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::Done)
}

fn cells(row: &Row, bench: &Bench<Row>) -> [String; 13] {
    let smallest = bench.results.iter().find(|other| other.algorithm == row.algorithm);
    let growth = smallest.map_or(f64::NAN, |smallest| row.ns_per_event / smallest.ns_per_event);
    [
        row.algorithm.to_owned(),
        row.nodes.to_string(),
        number(row.fill_seconds),
        number(row.put_seconds),
        number(row.get_seconds),
        row.events.to_string(),
        number(row.events_per_second.round()),
        number(row.ns_per_event),
        number(growth),
        number(row.messages_per_key),
        number(row.table_bytes_per_node),
        number(row.bytes_per_node),
        row.resident_bytes_per_node.map_or("-".to_owned(), number),
    ]
}
