use std::time::Duration;

use paceline_lab::bench::Bench;
use paceline_lab::bench::walk::{WalkPlan, run as measure};
use paceline_lab::figure::number;
use paceline_lab::scenario::units::parse_duration;
use paceline_lab::table::table;

use crate::commands::{Outcome, seed, this_program};
use crate::error::CliError;
use crate::ui::Ui;

/// The published experiment with random walkers, on three processes of this machine
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Which experiment
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=1))]
    experiment: u8,

    /// Where the servers run
    #[arg(long, value_name = "WORLD", default_value = "sockets")]
    on: World,

    /// Walks from each vertex, 1 to 100000
    #[arg(long, value_name = "N", default_value_t = 20)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    walks: u32,

    /// Vertices of each of the three servers, 10 to 10000
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=10_000))]
    block: u32,

    /// What a hop takes: all other times go by it
    #[arg(long, value_name = "TIME", default_value = "400us", value_parser = parse_hop)]
    hop: Duration,

    /// The root of all randomness, 0 to 2^63 - 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed())]
    seed: u64,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench walk --experiment 1 --on sockets
  paceline bench walk --walks 50 --hop 1ms --json

Walks from every vertex of three servers, of which the third has the densest part of the graph, by
six methods. A hop takes 4 us in the paper; timers of sockets want more. `additional` are walkers
beyond one for each walk, `queue` the mean length of the third server's queue.

Exit status 1 unless RED with pausing sources (rq-rg) has fewer additional walkers than tail drop
and than sources that never pause, a shorter queue than tail drop, and less time than sources that
always pause; or if marks (mark-exact) drop a walker. From 300 walks on it must also have fewer
additional walkers than sources that do not hear at once: in shorter runs they have as many.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum World {
    /// Loopback, a process for each server
    Sockets,
    /// The simulator
    Sim,
}

fn parse_hop(text: &str) -> Result<Duration, String> {
    let hop = parse_duration(text)?;
    if hop < Duration::from_micros(1) || hop > Duration::from_secs(1) {
        return Err("a hop takes 1us to 1s".to_owned());
    }
    Ok(hop)
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let plan = WalkPlan { walks: args.walks, hop: args.hop, block: args.block, seed: args.seed };
    let program = match args.on {
        World::Sockets => Some(this_program()?),
        World::Sim => None,
    };
    let rows = measure(&plan, program.as_deref(), &ui.progress())?;
    let bench = Bench::new(vec![rows]);
    ui.document(&bench)?;
    let rows = &bench.results[0];
    let header = ["method", "time", "additional", "queue", "dropped", "mean hops", "cpu", "load"];
    let cells: Vec<[String; 8]> = rows
        .methods
        .iter()
        .map(|row| {
            [
                row.method.to_owned(),
                number(row.time_s),
                number(row.additional),
                number(row.queue_mean),
                number(row.dropped),
                number(row.mean_hops),
                row.cpu_s.map_or("-".to_owned(), number),
                number(row.load),
            ]
        })
        .collect();
    ui.print(&table(header, &cells))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    for missed in &rows.missed {
        ui.warn(missed);
    }
    Ok(Outcome::of(rows.missed.is_empty()))
}
