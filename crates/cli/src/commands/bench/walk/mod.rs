//! `paceline bench walk`: random walkers between processes, and on one machine.

mod crossings;
mod experiment;
mod local;

use std::time::Duration;

use paceline_lab::scenario::units::parse_duration;

use crate::commands::{Outcome, seed};
use crate::error::CliError;
use crate::ui::Ui;

/// Random walkers: a published experiment, walkers between processes, or walks on one machine
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group(clap::ArgGroup::new("what").args(["experiment", "crossings", "local"])))]
pub struct Args {
    /// The published experiment, on three processes of this machine [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=1))]
    experiment: Option<u8>,

    /// How many walkers go from process to process, with delays and losses and without
    #[arg(long)]
    crossings: bool,

    /// How fast walks are in the memory of this machine
    #[arg(long)]
    local: bool,

    /// Of the experiment: where the servers run
    #[arg(long, value_name = "WORLD", default_value = "sockets")]
    #[arg(conflicts_with_all = ["crossings", "local"])]
    on: World,

    /// Walks from each vertex, 1 to 100000 [default: 20; with --crossings 16]
    #[arg(long, value_name = "N", conflicts_with = "local")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    walks: Option<u32>,

    /// Of the experiment: vertices of each of the three servers, 10 to 10000
    #[arg(long, value_name = "N", default_value_t = 100)]
    #[arg(conflicts_with_all = ["crossings", "local"])]
    #[arg(value_parser = clap::value_parser!(u32).range(10..=10_000))]
    block: u32,

    /// Of the experiment: the time of a hop, to which all other times are proportional
    #[arg(long, value_name = "TIME", default_value = "400us", value_parser = parse_hop)]
    #[arg(conflicts_with_all = ["crossings", "local"])]
    hop: Duration,

    /// With --crossings: short walks from each vertex in the runs with delays and losses
    #[arg(long, value_name = "N", default_value_t = 200, requires = "crossings")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    short_walks: u32,

    /// With --local: the graph has 2^SCALE vertices and 16 times as many edges, 8 to 26
    #[arg(long, value_name = "SCALE", default_value_t = 20, requires = "local")]
    #[arg(value_parser = clap::value_parser!(u32).range(8..=26))]
    scale: u32,

    /// With --crossings and --local: times that each run is done, of which the best counts, 1 to
    /// 100 [default: 3; with --local 5]
    #[arg(long, value_name = "N", conflicts_with = "experiment")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: Option<u32>,

    /// The root of all randomness, 0 to 2^63 - 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed())]
    seed: u64,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench walk --experiment 1 --on sockets
  paceline bench walk --walks 50 --hop 1ms --json
  paceline bench walk --crossings --repeats 5
  paceline bench walk --local --scale 22

--experiment: walks from every vertex of three servers, of which the third has the densest part of
the graph, by six methods and in supersteps. A hop takes 4 us in the paper; timers of sockets need
more. `additional` are walkers beyond one for each walk, `queue` the mean length of the third
server's queue. All published orders with RED and pausing sources (rq-rg) are printed, judged or
not, with the reason. Exit status 1 unless rq-rg has fewer additional walkers than tail drop and
than sources that never pause, and more than sources that always pause; a shorter queue than tail
drop; less time than sources that always pause; or if marks (mark-exact) drop a walker. From 300
walks on it must also have fewer additional walkers than without direct notification.

--crossings: two processes and walks that cross at each step, with bundles, with a walker a
datagram, and with a system call for each besides. Then three processes and walks of 4
steps on average, with round trips up to 100 ms and losses up to 1 %. Exit status 1 with fewer than
3 million crossings a core-second, or fewer than 20 times those of single walkers; if 1 in 100
walkers waits for company longer than its deadline; or if a delay or loss takes more than a fifth of
the walks a second of the runs without before and after it. `kept` is what it leaves of them, the
median of all repeats.

--local: DeepWalk of 80 steps from every vertex of an RMAT graph, node2vec, a plain loop, and random
reads of the graph's memory. What is below 150 million steps a second with paths kept, below 4
million of node2vec, or above 100 MiB beside graph and paths is named.";

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

/// Says which goals were missed.
fn judged(missed: &[String], ui: &Ui) -> Outcome {
    missed.iter().for_each(|missed| ui.warn(missed));
    Outcome::of(missed.is_empty())
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match (args.crossings, args.local) {
        (true, _) => crossings::run(&args, ui),
        (_, true) => local::run(&args, ui),
        _ => experiment::run(&args, ui),
    }
}
