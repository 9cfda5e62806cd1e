//! `cargo xtask test`: the steps a change must pass.

use std::process::{Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::chosen::{Choice, Named};
use crate::shell::{Priority, answers, cargo_at};
use crate::tally::Tally;
use crate::{peers, programs, setup, spelling, supply, table, tidy};

/// A step that a change must pass.
pub struct Step {
    name: &'static str,
    what: &'static str,
    /// Seconds that it takes at most from a clean checkout, on two cores.
    budget_s: u32,
    run: Run,
}

/// How a step is done.
#[derive(Clone, Copy)]
enum Run {
    /// By a call.
    Call(fn() -> Tally),
    /// By cargo.
    Cargo(&'static [&'static str]),
    /// By cargo while the tests run, if they are chosen too, and at the lowest priority: tests
    /// wait for timers more than for the processor. What cargo prints is shown when the tests are
    /// over.
    CargoBesideTests(&'static [&'static str]),
    /// By the tests.
    Tests,
}

impl Named for Step {
    const PLACEHOLDER: &'static str = "STEP";

    fn all() -> Vec<&'static Step> {
        STEPS.iter().collect()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

/// In this order. All use the release profile, so that build scripts, procedural macros and the
/// binary are compiled once.
const STEPS: &[Step] = &[
    Step {
        name: "setup",
        what: "the tools of the network lab, and Python",
        budget_s: 30,
        run: Run::Call(|| Tally::one(setup::setup())),
    },
    Step {
        name: "peers",
        what: "python-ndn in a virtual environment, for the tests",
        budget_s: 30,
        run: Run::Call(|| Tally::one(peers::make(&peers::PYTHON_NDN))),
    },
    Step {
        name: "fmt",
        what: "cargo fmt --check",
        budget_s: 10,
        run: Run::Cargo(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "supply",
        what: "licences, sources and versions of what is built in, by cargo-deny",
        budget_s: 90,
        run: Run::Call(|| Tally::one(supply::check())),
    },
    Step {
        name: "tidy",
        what: "the sources' form",
        budget_s: 5,
        run: Run::Call(|| Tally::one(tidy::run())),
    },
    Step {
        name: "typos",
        what: "spelling of sources and docs, by typos",
        budget_s: 30,
        run: Run::Call(|| Tally::one(spelling::check())),
    },
    Step {
        name: "build",
        what: "cargo test --release --workspace --no-run",
        budget_s: 1100,
        run: Run::Cargo(&["test", "--release", "--workspace", "--no-run"]),
    },
    Step {
        name: "tests",
        what: "the tests of cargo test --release --workspace",
        budget_s: 900,
        run: Run::Tests,
    },
    Step {
        name: "clippy",
        what: "cargo clippy, warnings refused",
        budget_s: 180,
        run: Run::CargoBesideTests(&[
            "clippy",
            "--release",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "-D",
            "warnings",
        ]),
    },
    Step {
        name: "doc",
        what: "cargo doc, warnings refused",
        budget_s: 90,
        run: Run::CargoBesideTests(&["doc", "--release", "--workspace", "--no-deps", "--quiet"]),
    },
];

/// What a step came to.
struct Done {
    tally: Tally,
    took: Duration,
    /// What it printed, if that has not been shown yet.
    printed: Vec<u8>,
}

/// Runs the named steps, or all.
pub fn test(choice: &Choice<Step>) -> bool {
    let Some(chosen) = choice.parts() else { return true };
    let began = Instant::now();
    let has_tests = chosen.iter().any(|step| matches!(step.run, Run::Tests));
    let beside = chosen.iter().filter_map(|step| match step.run {
        Run::CargoBesideTests(arguments) if has_tests => Some(arguments),
        _ => None,
    });
    let mut beside = Beside::Waiting(beside.collect());
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for step in chosen {
        println!("\n== {}: {}", step.name, step.what);
        let done = match step.run {
            Run::CargoBesideTests(_) if has_tests => beside.next(),
            Run::CargoBesideTests(arguments) | Run::Cargo(arguments) => {
                let mut command = cargo_step(Priority::Usual, arguments);
                shown(|| succeeded(arguments, command.status()))
            }
            Run::Call(call) => shown(call),
            Run::Tests => shown(|| tests(|| beside.start())),
        };
        print!("{}", String::from_utf8_lossy(&done.printed));
        let seconds = done.took.as_secs_f64();
        let verdict = if done.tally.failed == 0 { "passed" } else { "FAILED" };
        let over = if seconds > step.budget_s.into() { ", over its budget" } else { "" };
        println!("== {}: {verdict} in {seconds:.1} s{over}", step.name);
        rows.push(vec![
            step.name.to_string(),
            format!("{seconds:.1}"),
            step.budget_s.to_string(),
            done.tally.passed.to_string(),
            done.tally.failed.to_string(),
            done.tally.ignored.to_string(),
        ]);
        total.add(done.tally);
    }
    println!();
    table::print(&["step", "seconds", "budget", "passed", "failed", "ignored"], &rows);
    println!("\n{:.1} s", began.elapsed().as_secs_f64());
    println!("{} passed, {} failed", total.passed, total.failed);
    total.failed == 0
}

/// A step that shows what it does while it does it.
fn shown(step: impl FnOnce() -> Tally) -> Done {
    let started = Instant::now();
    let tally = step();
    Done { tally, took: started.elapsed(), printed: Vec::new() }
}

/// What cargo is to do while the tests run, one after the other.
enum Beside {
    Waiting(Vec<&'static [&'static str]>),
    Running(Receiver<Done>),
}

impl Beside {
    /// Begins, if it has not. Not before the tests are built: cargo builds one thing at a time.
    fn start(&mut self) {
        let Beside::Waiting(commands) = self else { return };
        let commands = std::mem::take(commands);
        let (done, results) = channel();
        thread::spawn(move || {
            for arguments in commands {
                let started = Instant::now();
                let (status, printed) = match cargo_step(Priority::Lowest, arguments).output() {
                    Ok(output) => (Ok(output.status), output.stderr),
                    Err(error) => (Err(error), Vec::new()),
                };
                let tally = succeeded(arguments, status);
                // The receiver is gone if the steps ended by a panic.
                let _ = done.send(Done { tally, took: started.elapsed(), printed });
            }
        });
        *self = Beside::Running(results);
    }

    /// The next of them, when it is done.
    fn next(&mut self) -> Done {
        // The tests may not have begun: they do not compile.
        self.start();
        let Beside::Running(results) = self else { unreachable!("it has been started") };
        results.recv().expect("as many are done as were to be done")
    }
}

fn cargo_step(priority: Priority, arguments: &[&str]) -> Command {
    let component = arguments[0];
    if !answers("cargo", &[component, "--version"]) && !["doc", "test"].contains(&component) {
        println!("cargo {component} is not installed: `rustup component add {component}`");
    }
    let mut command = cargo_at(priority, arguments);
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

fn succeeded(arguments: &[&str], status: std::io::Result<ExitStatus>) -> Tally {
    if let Err(error) = &status {
        println!("cannot run cargo {}: {error}", arguments.join(" "));
    }
    Tally::one(status.is_ok_and(|status| status.success()))
}

/// All tests. `begun` is called when the first of them runs.
fn tests(begun: impl FnOnce()) -> Tally {
    let peer = &peers::PYTHON_NDN;
    let mut variables = Vec::new();
    // Without it its tests skip, and the step `peers` has failed.
    match peer.installed() {
        Ok(interpreter) => variables.push((peer.variable, interpreter.into())),
        Err(error) => println!("{error}"),
    }
    programs::run_all(&variables, begun)
}
