//! Counts of checks, and those that `cargo test` prints.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

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
    pub fn one(passed: bool) -> Tally {
        Tally { passed: passed.into(), failed: (!passed).into(), ignored: 0 }
    }

    pub fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// Counts a failure if the tests ended badly and named none: something did not compile, or a
    /// test process died without a word.
    pub fn note_end(&mut self, succeeded: bool) {
        if !succeeded && self.failed == 0 {
            self.failed = 1;
        }
    }
}

/// How a check ended.
pub enum Outcome {
    /// Every bound was kept.
    Passed,
    /// A bound was broken; what was printed says which.
    Failed,
    /// This machine cannot run it, for this reason.
    LeftOut(String),
}

impl Outcome {
    /// Passed or failed.
    pub fn of(passed: bool) -> Outcome {
        if passed { Outcome::Passed } else { Outcome::Failed }
    }
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
    total.note_end(succeeded);
    total
}

/// Reads `test result: ok. 7 passed; 0 failed; 1 ignored; ..`.
pub fn result_line(line: &str) -> Option<Tally> {
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
}
