//! One module for each subcommand, with its arguments and its code.

mod bench;
mod broadcast;
mod cluster;
mod completions;
mod counters;
mod dht;
mod doctor;
mod graph;
mod key;
mod list;
mod member;
mod multicast;
mod ndn;
mod node;
mod report;
mod reproduce;
mod run;
mod schema;
mod sealing;
mod status;
mod sweep;
mod topology;
mod tour;
mod walk;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use paceline_lab::scenario::SEED_MAX;

use crate::error::CliError;
use crate::signals::Ending;
use crate::ui::Ui;

/// Columns of output that goes to no terminal.
const COLUMNS_UNKNOWN: usize = 80;

/// What to do.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    Tour(tour::Args),
    Run(run::Args),
    Sweep(sweep::Args),
    Reproduce(reproduce::Args),
    Report(report::Args),
    List(list::Args),
    Schema(schema::Args),
    Counters(counters::Args),
    Bench(bench::Args),
    Broadcast(broadcast::Args),
    Multicast(multicast::Args),
    Serve(ndn::serve::Args),
    Forward(ndn::forward::Args),
    Fetch(ndn::fetch::Args),
    Ndn(ndn::Args),
    Node(node::Args),
    Dht(dht::Args),
    Graph(graph::Args),
    Key(key::Args),
    Walk(walk::Args),
    Up(cluster::UpArgs),
    Down(cluster::DownArgs),
    Status(status::Args),
    Doctor(doctor::Args),
    Completions(completions::Args),
}

/// How a command ended that came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it should.
    Done,
    /// It ran, and what it measured or checked is not as it should be.
    Failed,
    /// It ran, and some answers are not certain.
    Unsure,
}

impl Outcome {
    /// `Done` if it is true.
    pub fn of(is_good: bool) -> Outcome {
        if is_good { Outcome::Done } else { Outcome::Failed }
    }

    /// 0, 1 or 3.
    pub fn exit_code(self) -> ExitCode {
        match self {
            Outcome::Done => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::FAILURE,
            Outcome::Unsure => ExitCode::from(3),
        }
    }
}

impl Command {
    /// How it ends after the first Ctrl-C.
    pub fn ending(&self) -> Ending {
        match self {
            // Experiments print what they measured until then, and take down what they set up.
            Command::Tour(_)
            | Command::Run(_)
            | Command::Sweep(_)
            | Command::Reproduce(_)
            | Command::Bench(_) => Ending::AfterItsPart,
            Command::Node(args) => args.ending(),
            _ => Ending::Soon,
        }
    }

    /// Does it.
    pub fn run(self, ui: &Ui) -> Result<Outcome, CliError> {
        match self {
            Command::Tour(args) => tour::run(args, ui),
            Command::Run(args) => run::run(args, ui),
            Command::Sweep(args) => sweep::run(args, ui),
            Command::Reproduce(args) => reproduce::run(args, ui),
            Command::Report(args) => report::run(args, ui),
            Command::List(args) => list::run(args, ui),
            Command::Schema(args) => schema::run(args, ui),
            Command::Counters(args) => counters::run(args, ui),
            Command::Bench(args) => bench::run(args, ui),
            Command::Broadcast(args) => broadcast::run(args, ui),
            Command::Multicast(args) => multicast::run(args, ui),
            Command::Serve(args) => ndn::serve::run(args, ui),
            Command::Forward(args) => ndn::forward::run(args, ui),
            Command::Fetch(args) => ndn::fetch::run(args, ui),
            Command::Ndn(args) => ndn::run(args, ui),
            Command::Dht(args) => dht::run(args, ui),
            Command::Graph(args) => graph::run(args, ui),
            Command::Key(args) => key::run(args, ui),
            Command::Walk(args) => walk::run(args, ui),
            Command::Node(args) => node::run(args, ui),
            Command::Up(args) => cluster::up(args, ui),
            Command::Down(args) => cluster::down(args, ui),
            Command::Status(args) => status::run(args, ui),
            Command::Doctor(args) => doctor::run(args, ui),
            Command::Completions(args) => completions::run(args, ui),
        }
    }
}

/// The seed of a run, as an argument.
fn seed() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(0..=SEED_MAX)
}

/// This program, to be started again as a node.
fn this_program() -> Result<PathBuf, CliError> {
    std::env::current_exe()
        .map_err(|error| CliError::Failed(format!("cannot find the path of this program: {error}")))
}

/// Where folders go of which the user does not say where.
fn runs() -> PathBuf {
    Path::new("runs").to_owned()
}
