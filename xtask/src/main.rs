//! Tasks of the workspace, run as `cargo xtask TASK`.

#![forbid(unsafe_code)]

mod checks;
mod chosen;
mod compare;
mod count;
mod digests;
mod maven;
mod modules;
mod peers;
mod programs;
mod setup;
mod shell;
mod spelling;
mod steps;
mod supply;
mod table;
mod tally;
mod tidy;
mod venv;
mod verify;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

use checks::Check;
use chosen::Choice;
use peers::Peer;
use steps::Step;

/// Tasks of the Paceline workspace.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = EXIT_STATUS,
    subcommand_value_name = "TASK",
    subcommand_help_heading = "Tasks"
)]
struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
}

const EXIT_STATUS: &str = "\
Exit status: 0 all passed, 1 something failed, 2 the task could not be understood, 3 nothing
failed, but a check was left out because this machine cannot run it.";

#[derive(Subcommand)]
enum Task {
    /// Run everything a change must pass: formatting, form, spelling, tests, clippy, docs
    Test(Choice<Step>),

    /// Make sure that this machine has the tools of the network lab, and Python for peers
    ///
    /// These are `ip`, `tc`, `nft`, `iperf3`, and `python3` with venv.
    Setup,

    /// Install other implementations that ours is tried against; print what to run of them
    Peers(Choice<Peer>),

    /// Check the sources' form, or count their lines
    ///
    /// The form: sizes, leftovers, module docs, links, layers, circles of modules.
    Tidy {
        /// Count lines of source and of tests by crate; with a revision of git, beside those there
        #[arg(long, value_name = "REVISION", num_args = 0..=1)]
        count: Option<Option<String>>,
    },

    /// Compare the digests of scenarios that are built and driven in several ways
    ///
    /// In debug and release, with one thread and with many, typed and through the codec.
    Digests {
        /// Scenarios [default: all that are built in]
        #[arg(value_name = "NAME")]
        scenarios: Vec<String>,
    },

    /// Compare what this tree does with what a revision of it does
    ///
    /// Builds the revision under target/compare, and this tree. What is compared: digests, metrics
    /// and figures of scenarios, deliveries on sockets, totals of seeded tests
    /// (PACELINE_TEST_SEEDS of them, by default 200) and golden vectors.
    Compare(compare::Options),

    /// Run the long checks: figures, soaks, many seeds, the network lab (root)
    Verify(Choice<Check>),
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Passed,
    Failed,
    /// Nothing failed, and something could not be checked here.
    Uncertain,
}

impl Ended {
    /// The exit status.
    fn status(self) -> u8 {
        match self {
            Ended::Passed => 0,
            Ended::Failed => 1,
            Ended::Uncertain => 3,
        }
    }
}

impl From<bool> for Ended {
    fn from(passed: bool) -> Ended {
        if passed { Ended::Passed } else { Ended::Failed }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|error| {
        if error.kind() == ErrorKind::InvalidSubcommand {
            // The error itself names similar tasks only.
            eprintln!("{}", Arguments::command().render_help());
        }
        error.exit()
    });
    let Some(task) = arguments.task else {
        // Fails only where standard output is closed.
        let _ = Arguments::command().print_help();
        return ExitCode::SUCCESS;
    };
    let outcome = match task {
        Task::Test(steps) => Ok(steps::test(&steps).into()),
        Task::Setup => Ok(setup::setup().into()),
        Task::Peers(peers) => Ok(peers::run(&peers).into()),
        Task::Tidy { count: None } => Ok(tidy::run().into()),
        Task::Tidy { count: Some(revision) } => count::run(revision.as_deref()).map(Ended::from),
        Task::Digests { scenarios } => Ok(digests::run(&scenarios).into()),
        Task::Compare(options) => compare::run(options).map(Ended::from),
        Task::Verify(checks) => Ok(verify::run(&checks)),
    };
    match outcome {
        Ok(ended) => ExitCode::from(ended.status()),
        Err(misuse) => Arguments::command().error(ErrorKind::ValueValidation, misuse).exit(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is printed for a command line that is refused.
    fn misuse(line: &str) -> String {
        let arguments = ["xtask"].into_iter().chain(line.split_whitespace());
        match Arguments::try_parse_from(arguments) {
            Ok(_) => panic!("`{line}` is accepted"),
            Err(error) => {
                assert_eq!(error.exit_code(), 2, "{line}");
                error.to_string()
            }
        }
    }

    #[test]
    fn clap_accepts_the_definition_of_the_arguments() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn an_unknown_part_is_refused_with_the_known_ones() {
        let step = misuse("test clipy");
        assert!(step.contains("'clipy'") && step.contains("clippy, doc"), "{step}");
        let check = misuse("verify fmt");
        assert!(check.contains("'fmt'") && check.contains("reproduce, tour"), "{check}");
    }

    #[test]
    fn arguments_that_a_task_does_not_take_are_refused() {
        for line in
            ["tset", "setup now", "tidy --count HEAD now", "compare", "compare HEAD --excpt x"]
        {
            misuse(line);
        }
    }
}
