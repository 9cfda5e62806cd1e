//! The long checks.

mod aeron;
mod beside;
mod bounds;
mod congestion;
mod endurance;
mod fairness;
mod fetch;
mod figures;
mod fuzz;
mod group;
mod inside;
mod jgroups;
mod link;
mod member;
mod mircc;
mod multicast;
mod netlab;
mod overlay;
mod soak;
mod tcp;
mod walk;

use std::path::Path;
use std::time::Instant;

use crate::chosen::Named;
use crate::shell::{cargo, root};
pub use crate::tally::Outcome;
use crate::tally::run_tests;
use crate::{supply, table};

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
    const PLACEHOLDER: &'static str = "CHECK";

    fn all() -> Vec<&'static Check> {
        CHECKS.iter().collect()
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn what(&self) -> &'static str {
        self.what
    }
}

/// Every check, in the order of a full run.
const CHECKS: &[Check] = &[
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
        name: "jgroups",
        what: "small messages on shaped links beside JGroups' DAISYCHAIN, in pairs (root, Maven)",
        run: jgroups::pairs,
    },
    Check {
        name: "aeron",
        what: "multicast by namespaces that lose 1 % beside Aeron, in pairs (root, Maven)",
        run: aeron::pairs,
    },
    Check {
        name: "group",
        what: "members killed, paused, cut off, all at once, as processes on the lab (root)",
        run: group::run,
    },
    Check {
        name: "multicast",
        what: "sixteen processes lose 1 % for a minute a setting: recovered, times, nothing untold",
        run: multicast::loopback,
    },
    Check {
        name: "multicast-netlab",
        what: "the same by IP multicast in namespaces, with packet filters that drop (root)",
        run: multicast::netns,
    },
    Check {
        name: "link",
        what: "a group, a multicast, a table and walks share a link of 100 Mbit by weight",
        run: link::run,
    },
    Check {
        name: "congestion",
        what: "multicast that follows its receivers: of the slowest link, beside TCP (root)",
        run: congestion::run,
    },
    Check {
        name: "fetch",
        what: "named data over two paths behind one link, shared and alone, and one path (root)",
        run: fetch::netns,
    },
    Check {
        name: "mircc",
        what: "simulated 20 times faster than ns-3's TCP, 7 times than its like; exchanges a core",
        run: mircc::speed,
    },
    Check {
        name: "coding",
        what: "sums of packets: 4 GB/s over GF(256), 15 GB/s by exclusive or, best of five",
        run: multicast::coding,
    },
    Check {
        name: "overlay",
        what: "the published experiment within 20 s and 200 MB, a million nodes within 60 s",
        run: overlay::speed,
    },
    Check {
        name: "dht",
        what: "sixteen processes: bundles load five times faster; two are killed, nothing is lost",
        run: overlay::table,
    },
    Check {
        name: "disks",
        what: "durable hosts: 20,000 seeds on disks that fail; three killed together, 20 times",
        run: overlay::disks,
    },
    Check {
        name: "walk",
        what: "walkers: 100 M steps/s on one machine, 3 M crossings a core-second, the experiment",
        run: walk::speed,
    },
    Check {
        name: "parquet",
        what: "a build with the feature `parquet` has it for tables, graphs and walks",
        run: overlay::parquet,
    },
    Check {
        name: "soak-32k",
        what: "32 KiB sockets, all sending for 60 s: progress in each second (root)",
        run: soak::small_sockets,
    },
    Check {
        name: "soak",
        what: "all services for 30 minutes: memory grows < 1 MB/h a process, descriptors stay",
        run: endurance::soak,
    },
    Check {
        name: "attacks",
        what: "honest traffic beside 1,000 lies a second, a job of walks beside hostile walkers",
        run: attacks,
    },
    Check {
        name: "agreement",
        what: "every order in which members agree on a view, three steps further than each test",
        run: agreement,
    },
    Check {
        name: "miri",
        what: "the sums of packets that are compiled for chosen processors, under Miri (nightly)",
        run: fuzz::miri,
    },
    Check {
        name: "fuzz",
        what: "an hour of libFuzzer on decoders and nodes (nightly, C++)",
        run: fuzz::fuzz,
    },
    Check {
        name: "supply",
        what: "cargo-deny: licences, sources, versions, and RustSec's advisories",
        run: supply::with_advisories,
    },
    Check {
        name: "seeds",
        what: "each protocol over 20,000 seeds (or PACELINE_TEST_SEEDS)",
        run: seeds,
    },
];

/// Runs tests of a release build, each telling what it prints. A variable that is not set gets
/// its usual value.
fn release_tests(arguments: &[&str], of_tests: &[&str], variable: Option<(&str, &str)>) -> Outcome {
    let arguments = [&["test", "--release", "--package"], arguments].concat();
    let mut command = cargo(&arguments);
    command.args(["--", "--nocapture"]).args(of_tests);
    let mut shown = format!("cargo {}", arguments.join(" "));
    if let Some((name, usual)) = variable {
        let value = std::env::var(name).unwrap_or_else(|_| usual.into());
        shown = format!("{name}={value} {shown}");
        command.env(name, value);
    }
    println!("{shown}");
    let tally = run_tests(command);
    Outcome::of(tally.failed == 0 && tally.passed > 0)
}

/// Runs the tests of the library that measure time beside strangers that lie, one by one.
fn attacks() -> Result<Outcome, String> {
    let tests = ["beside_lies::", "walk_homes::", "--ignored", "--test-threads=1"];
    Ok(release_tests(&["paceline", "--test=it"], &tests, None))
}

/// Runs the exhaustive test of the agreement, longer.
fn agreement() -> Result<Outcome, String> {
    let tests = ["paceline-proto", "--test=agreement"];
    Ok(release_tests(&tests, &[], Some(("PACELINE_TEST_STEPS", "3"))))
}

/// Runs every seeded suite, one after the other; they take their number of seeds from the
/// environment.
fn seeds() -> Result<Outcome, String> {
    let seeds = std::env::var("PACELINE_TEST_SEEDS").unwrap_or_else(|_| "20000".into());
    let mut rows = Vec::new();
    let mut passed = true;
    let program = ["test", "--release", "--package", "paceline-sim", "--test=it"];
    // Built first, so that the seconds are those of the seeds.
    let built = cargo(&program).args(["--no-run", "--quiet"]).status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the tests of paceline-sim do not compile".into());
    }
    for suite in seeded_suites(root())? {
        let filter = format!("{suite}::");
        let arguments = [&program[..], &[&filter]].concat();
        println!("PACELINE_TEST_SEEDS={seeds} cargo {}", arguments.join(" "));
        let mut command = cargo(&arguments);
        command.args(["--", "--nocapture"]).env("PACELINE_TEST_SEEDS", &seeds);
        let started = Instant::now();
        let tally = run_tests(command);
        let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
        if tally.passed + tally.failed == 0 {
            return Err(format!("`{suite}` has no test"));
        }
        passed &= tally.failed == 0;
        let verdict = if tally.failed == 0 { "passed" } else { "FAILED" };
        rows.push(vec![suite, seeds.clone(), seconds, verdict.into()]);
    }
    table::print(&["suite", "seeds", "seconds", "verdict"], &rows);
    Ok(Outcome::of(passed))
}

/// The names of the simulator's tests in a tree that run random seeds.
pub fn seeded_suites(tree: &Path) -> Result<Vec<String>, String> {
    let folder = tree.join("crates/sim/tests/it");
    let entries = std::fs::read_dir(&folder)
        .map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let suites = names.filter_map(|name| Some(name.strip_suffix(".rs")?.to_string()));
    let mut suites: Vec<String> = suites.filter(|suite| suite.ends_with("_seeds")).collect();
    suites.sort();
    match suites.is_empty() {
        true => Err(format!("{} has no file `*_seeds.rs`", folder.display())),
        false => Ok(suites),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contributing_names_every_check_in_the_order_of_the_list() {
        let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("it is there");
        let row = text.lines().find(|line| line.starts_with("| `cargo xtask verify` |"));
        let (_, names) = row.and_then(|row| row.split_once("choose some: ")).expect("the row");
        let names: Vec<&str> = names.trim_end_matches([' ', '|']).split(", ").collect();
        let known: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names, known);
    }

    #[test]
    fn the_seeds_of_each_protocol_are_among_the_suites() {
        let suites = seeded_suites(root()).expect("the folder is there");
        for suite in ["chain_seeds", "group_seeds", "mircc_seeds", "slingshot_seeds", "walk_seeds"]
        {
            assert!(suites.iter().any(|name| name == suite), "{suite} is not in {suites:?}");
        }
    }
}
