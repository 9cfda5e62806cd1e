//! The command `paceline`: parses, calls the lab and the library, prints.
#![forbid(unsafe_code)]

mod commands;
mod content;
mod error;
mod files;
mod log;
mod parse;
mod progress;
mod service_tables;
mod signals;
mod ui;

use std::process::ExitCode;

use clap::Parser;

use commands::Command;
use ui::Ui;

/// Group messaging without IP multicast: run it, measure it, check what papers claim of it.
#[derive(Debug, Parser)]
#[command(name = "paceline", version, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Print one JSON document on standard output; all other output goes to standard error
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    log: log::Args,
}

const AFTER_HELP: &str = "Examples:
  paceline list                            the scenarios
  paceline run chain/ten                   ten members broadcast, in the simulator
  paceline reproduce chain                 published and measured figures
  paceline doctor                          features of this machine

Exit status: 0 success; 1 the run failed; 2 the arguments, scenario or input are invalid.";

/// Runs the command with the arguments of the process.
pub fn main() -> ExitCode {
    let Cli { command, json, log } = Cli::parse();
    error::report_bugs_in_a_line();
    let ui = Ui::new(json, command.ending());
    let outcome = log.start().and_then(|()| command.run(&ui));
    match outcome {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => {
            ui.error(&error);
            ExitCode::from(error.exit_status())
        }
    }
}
