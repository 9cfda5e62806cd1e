//! The long checks.

mod bounds;
mod figures;
mod group;
mod member;
mod netlab;
mod soak;

use crate::chosen::Named;
use crate::shell::cargo;
use crate::steps::run_tests;

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
    fn of(passed: bool) -> Outcome {
        if passed { Outcome::Passed } else { Outcome::Failed }
    }
}

/// A long check. An error is a failure that kept it from its end.
pub struct Check {
    /// The name on the command line.
    pub name: &'static str,
    /// What it shows, in a line.
    pub what: &'static str,
    /// Runs it and prints what it measured.
    pub run: fn() -> Result<Outcome, String>,
}

impl Named for Check {
    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

/// Every check, in the order of a full run.
pub const CHECKS: &[Check] = &[
    Check {
        name: "reproduce",
        what: "the papers' figures at full size, each inside its band",
        run: figures::reproduce,
    },
    Check { name: "tour", what: "the tour ends well, in under 60 s", run: figures::tour },
    Check {
        name: "idle",
        what: "a group of five at rest for 30 s: under 1 % of a core and 2 kB/s a member",
        run: soak::idle,
    },
    Check {
        name: "netlab",
        what: "broadcast on shaped links reaches its floors, best of five (root)",
        run: netlab::run,
    },
    Check {
        name: "group",
        what: "members killed, paused, cut off, all at once, as processes on the lab (root)",
        run: group::run,
    },
    Check {
        name: "soak-32k",
        what: "32 KiB sockets, all sending for 60 s: progress in each second (root)",
        run: soak::small_sockets,
    },
    Check {
        name: "seeds",
        what: "the seeded tests with 20,000 seeds (or PACELINE_SEEDS)",
        run: seeds,
    },
];

/// Runs every test with `seeds` in its name; they take their number of seeds from the environment.
fn seeds() -> Result<Outcome, String> {
    let seeds = std::env::var("PACELINE_SEEDS").unwrap_or_else(|_| "20000".into());
    println!("PACELINE_SEEDS={seeds} cargo test --release --workspace seeds");
    let mut command = cargo(&["test", "--release", "--workspace", "--no-fail-fast", "seeds"]);
    command.env("PACELINE_SEEDS", seeds);
    let tally = run_tests(command);
    if tally.passed + tally.failed == 0 {
        return Err("no test has `seeds` in its name".into());
    }
    Ok(Outcome::of(tally.failed == 0))
}
