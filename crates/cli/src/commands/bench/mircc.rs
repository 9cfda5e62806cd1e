use std::time::Duration;

use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::mircc::{Exchanges, Row, Settings, Simulation, run as measure};

use crate::commands::Outcome;
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Processor time of simulated flows, beside ns-3, and exchanges of a forwarder in a core-second
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// How often each simulator runs, by turns; the least time of each counts
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,
    /// How long the forwarder is measured for each kind of faces, 1s to 1h; a bare number counts
    /// seconds
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = measured_time)]
    seconds: Duration,
    /// Interests that are pending in the forwarder meanwhile, 2048 to 65536
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    #[arg(value_parser = clap::value_parser!(u32).range(2_048..=65_536))]
    pending: u32,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench mircc
  cargo xtask peers ns3
  PACELINE_PYTHON_NS3=target/peers/ns3/bin/python paceline bench mircc --json

Simulated: eight flows share a link of 100 Mbit/s for 20 s, with 28 ms there and back. ns-3 runs if
PACELINE_PYTHON_NS3 is the Python that has it. There `requests` are the same packets at a steady
pace, without congestion control; `tcp` are eight streams that find their rates, as ns-3's
helpers set them up. Its loading is not counted.

The forwarder stands between a consumer and a producer on loopback, each in a thread of its own, who
keep as many Interests pending. An exchange is an Interest in and out and its Data in and out, of
1,000 bytes of content. With `plain` faces they go as they come; with `stamped` ones Interests are
shaped, links paced and Data stamped.";

/// A time of 1 s to 1 h.
fn measured_time(text: &str) -> Result<Duration, String> {
    let time = parse::seconds(text)?;
    let is_in_range = (Duration::from_secs(1)..=Duration::from_secs(3600)).contains(&time);
    is_in_range.then_some(time).ok_or_else(|| format!("`{text}`: expected 1s to 1h"))
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let Args { rounds, seconds, pending } = args;
    let settings = Settings { rounds, duration: seconds, pending: pending as usize };
    let bench = Bench::new(measure(settings, &ui.progress())?);
    ui.document(&bench)?;
    let simulations = bench.results.iter().filter_map(|row| match row {
        Row::Simulation(simulation) => Some(simulation_cells(simulation)),
        Row::Forwarder(_) => None,
    });
    let header = ["simulator", "flows are", "processor s", "Data", "events", "ns/event", "times"];
    ui.print(&table(header, &simulations.collect::<Vec<_>>()))?;
    let forwarders = bench.results.iter().filter_map(|row| match row {
        Row::Forwarder(exchanges) => Some(forwarder_cells(exchanges)),
        Row::Simulation(_) => None,
    });
    let header = ["faces", "exchanges/core s", "exchanges/s", "pending", "train in", "out", "lost"];
    ui.print(&format!("\n{}", table(header, &forwarders.collect::<Vec<_>>())))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::Done)
}

fn simulation_cells(row: &Simulation) -> [String; 7] {
    [
        format!("{} {}", row.simulator, row.version),
        row.flows.to_owned(),
        number(row.cpu_seconds),
        row.data_packets.to_string(),
        row.events.to_string(),
        number((row.cpu_seconds * 1e9 / row.events.max(1) as f64).round()),
        row.times.map_or("-".to_owned(), number),
    ]
}

fn forwarder_cells(row: &Exchanges) -> [String; 7] {
    let [least, most] = [row.pending[0].min(row.pending[1]), row.pending[0].max(row.pending[1])];
    [
        row.faces.name().to_owned(),
        number(row.exchanges_per_core_second.round()),
        number((row.exchanges as f64 / row.seconds).round()),
        if least == most { least.to_string() } else { format!("{least}-{most}") },
        number(row.datagrams_per_call[0]),
        number(row.datagrams_per_call[1]),
        row.lost.to_string(),
    ]
}
