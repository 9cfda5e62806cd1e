//! Tasks of the workspace, run as `cargo xtask TASK`.

#![forbid(unsafe_code)]

mod checks;
mod chosen;
mod compare;
mod count;
mod digests;
mod modules;
mod peers;
mod setup;
mod shell;
mod steps;
mod supply;
mod table;
mod tally;
mod tidy;
mod verify;

use std::process::ExitCode;

const HELP: &str = "\
Tasks of the Paceline workspace.

Usage: cargo xtask <TASK>

Tasks:
  test [STEP..]      Everything a change must pass: setup, peers, fmt, clippy, docs, tidy, tests.
                     With names, only those steps; `--list` prints them.
  setup              Make sure `ip`, `tc` and `nft` are there for the network lab, and `python3`
                     with venv for peers
  peers [NAME..]     Install other implementations that ours is tried against, and print their
                     interpreters. With names, only those; `--list` prints them.
  tidy               Check the sources' form: sizes, leftovers, module docs, links, layers,
                     circles of modules
  tidy --count [REV] Count lines of source and of tests by crate; with a revision of git beside
                     what they were there
  digests [NAME..]   Run built-in scenarios in debug and release, with one thread and with many,
                     typed and through the codec, and compare the digests of the runs
  compare REVISION [NAME..] [--except NAME].. [--debug]
                     Build a revision under target/compare and this tree, and compare what they do:
                     digests, metrics and figures of scenarios, deliveries on sockets, totals of
                     seeded tests (PACELINE_TEST_SEEDS of them, by default 200) and golden vectors.
                     Names choose parts (vectors, scenarios, sockets, seeds), scenarios or suites;
                     those after `--except`, and metrics, may differ
  verify [NAME..]    The long checks: figures, soaks, many seeds, the network lab (root).
                     With names, only those; `--list` prints them.
  help               This text

Exit status: 0 all passed, 1 something failed, 2 the task could not be understood, 3 nothing
failed, but a check was left out because this machine cannot run it.
";

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
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[] as &[String]),
    };
    if rest.iter().any(|argument| argument == "--help" || argument == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let outcome = match task {
        "test" => steps::test(rest).map(Ended::from),
        "setup" => no_arguments(rest).map(|()| setup::setup()).map(Ended::from),
        "peers" => peers::run(rest).map(Ended::from),
        "tidy" => match rest {
            [] => Ok(tidy::run().into()),
            [option, revision @ ..] if option == "--count" => count::run(revision).map(Ended::from),
            [argument, ..] => Err(format!("unexpected argument `{argument}`")),
        },
        "digests" => digests::run(rest).map(Ended::from),
        "compare" => compare::run(rest).map(Ended::from),
        "verify" => verify::run(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        other => Err(format!("there is no task `{other}`")),
    };
    match outcome {
        Ok(ended) => ExitCode::from(ended.status()),
        Err(misuse) => {
            eprintln!("xtask: {misuse}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn no_arguments(rest: &[String]) -> Result<(), String> {
    match rest.first() {
        None => Ok(()),
        Some(argument) => Err(format!("unexpected argument `{argument}`")),
    }
}
