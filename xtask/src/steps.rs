//! `cargo xtask test`: the steps a change must pass.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::chosen::{Named, chosen};
use crate::shell::{answers, cargo};
use crate::{peers, setup, supply, table, tidy};

/// What a step found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
    /// Tests that were not run.
    pub ignored: usize,
}

impl Tally {
    /// A step that is one check.
    fn one(passed: bool) -> Tally {
        Tally { passed: passed.into(), failed: (!passed).into(), ignored: 0 }
    }

    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn() -> Tally,
}

impl Named for Step {
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
        run: || Tally::one(setup::setup()),
    },
    Step {
        name: "peers",
        what: "python-ndn in a virtual environment, for the tests",
        run: || Tally::one(peers::make(&peers::PYTHON_NDN)),
    },
    Step {
        name: "fmt",
        what: "cargo fmt --check",
        run: || cargo_step(&["fmt", "--all", "--check"]),
    },
    Step {
        name: "supply",
        what: "licences, sources and versions of what is built in, by cargo-deny",
        run: || Tally::one(supply::check()),
    },
    Step { name: "tidy", what: "the sources' form", run: || Tally::one(tidy::run()) },
    Step {
        name: "clippy",
        what: "cargo clippy, warnings refused",
        run: || {
            cargo_step(&[
                "clippy",
                "--release",
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ])
        },
    },
    Step {
        name: "doc",
        what: "cargo doc, warnings refused",
        run: || cargo_step(&["doc", "--release", "--workspace", "--no-deps", "--quiet"]),
    },
    Step { name: "tests", what: "cargo test --release --workspace", run: tests },
];

/// Runs the named steps, or all.
pub fn test(names: &[String]) -> Result<bool, String> {
    let Some(chosen) = chosen("step", STEPS, names)? else { return Ok(true) };
    let began = Instant::now();
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for step in chosen {
        println!("\n== {}: {}", step.name, step.what);
        let started = Instant::now();
        let tally = (step.run)();
        let seconds = started.elapsed().as_secs_f64();
        let verdict = if tally.failed == 0 { "passed" } else { "FAILED" };
        println!("== {}: {verdict} in {seconds:.1} s", step.name);
        rows.push(vec![
            step.name.to_string(),
            format!("{seconds:.1}"),
            tally.passed.to_string(),
            tally.failed.to_string(),
            tally.ignored.to_string(),
        ]);
        total.add(tally);
    }
    println!();
    table::print(&["step", "seconds", "passed", "failed", "ignored"], &rows);
    println!("\n{:.1} s", began.elapsed().as_secs_f64());
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn cargo_step(arguments: &[&str]) -> Tally {
    let component = arguments[0];
    if !answers("cargo", &[component, "--version"]) && component != "doc" {
        println!("cargo {component} is not installed: `rustup component add {component}`");
    }
    let status = cargo(arguments).env("RUSTDOCFLAGS", "-D warnings").status();
    if let Err(error) = &status {
        println!("cannot run cargo {}: {error}", arguments.join(" "));
    }
    Tally::one(status.is_ok_and(|status| status.success()))
}

fn tests() -> Tally {
    let mut command = cargo(&["test", "--release", "--workspace", "--no-fail-fast"]);
    let peer = &peers::PYTHON_NDN;
    // Without it its tests skip, and the step `peers` has failed.
    match peer.interpreter() {
        Ok(interpreter) => {
            command.env(peer.variable, interpreter);
        }
        Err(error) => println!("{error}"),
    }
    run_tests(command)
}

/// Runs a `cargo test`, passes on what it prints, and adds up the result lines.
pub fn run_tests(mut command: Command) -> Tally {
    let mut child = match command.stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            println!("cannot run cargo test: {error}");
            return Tally::one(false);
        }
    };
    let output = child.stdout.take().expect("standard output was piped");
    let mut total = Tally::default();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        total.add(result_line(&line).unwrap_or_default());
    }
    let succeeded = child.wait().is_ok_and(|status| status.success());
    if !succeeded && total.failed == 0 {
        // Something did not compile, or a test process died without a word.
        total.failed = 1;
    }
    total
}

/// Reads `test result: ok. 7 passed; 0 failed; 1 ignored; ..`.
fn result_line(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let count = |word: &str| {
        let part = counts.split("; ").find_map(|part| part.strip_suffix(word))?;
        part.trim().parse().ok()
    };
    Some(Tally { passed: count("passed")?, failed: count("failed")?, ignored: count("ignored")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_read_and_others_are_not() {
        let line = "test result: FAILED. 6 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out";
        assert_eq!(result_line(line), Some(Tally { passed: 6, failed: 1, ignored: 2 }));
        assert_eq!(result_line("test result is near"), None);
        assert_eq!(result_line("test a ... ok"), None);
    }

    #[test]
    fn an_unknown_step_is_refused_with_the_known_ones() {
        let misuse = test(&["clipy".into()]).unwrap_err();
        assert!(misuse.contains("`clipy`") && misuse.contains("clippy, doc"), "{misuse}");
    }
}
