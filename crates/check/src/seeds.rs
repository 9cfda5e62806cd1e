//! Runs a test over many seeds, on all processors, and says which failed.

use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

#[allow(clippy::disallowed_methods, reason = "a test has no arguments of its own")]
fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs `PACELINE_TEST_SEEDS` seeds (default 200) from `PACELINE_TEST_SEED_FIRST` on. Returns how
/// many, and the sums of what the runs gave.
///
/// # Panics
/// With what the first seed that failed said.
pub fn run_all<const N: usize>(
    run: impl Fn(u64) -> Result<[u64; N], String> + Sync,
) -> (u64, [u64; N]) {
    run_all_explained(run, |_| String::new())
}

/// The same; `explain` looks into the first seed that failed.
///
/// # Panics
/// With what that seed said, and its explanation.
pub(crate) fn run_all_explained<const N: usize>(
    run: impl Fn(u64) -> Result<[u64; N], String> + Sync,
    explain: impl Fn(u64) -> String,
) -> (u64, [u64; N]) {
    let (first, count) =
        (variable("PACELINE_TEST_SEED_FIRST", 0), variable("PACELINE_TEST_SEEDS", 200));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let totals = Mutex::new([0u64; N]);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                return;
            }
            let begun = seed - first;
            if begun > 0 && begun.is_multiple_of(1_000) {
                println!("{begun} of {count} seeds");
            }
            match run(seed) {
                Ok(measured) => {
                    let mut totals = totals.lock().expect("no panic under the lock");
                    totals.iter_mut().zip(measured).for_each(|(total, one)| *total += one);
                }
                Err(what) => {
                    // Printed now, so that it is known also if the run is ended early.
                    println!("seed {seed}: {}", what.lines().next().unwrap_or_default());
                    failures.lock().expect("no panic under the lock").push((seed, what));
                }
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    let mut failures = failures.into_inner().expect("no panic");
    failures.sort();
    let seeds: Vec<u64> = failures.iter().map(|&(seed, _)| seed).collect();
    if let Some((seed, what)) = failures.first() {
        let explained = explain(*seed);
        panic!(
            "{} of {count} seeds failed: {seeds:?}\nseed {seed}: {what}\n{explained}",
            seeds.len()
        );
    }
    (count, totals.into_inner().expect("no panic"))
}

/// Runs seeds that failed once, whatever `PACELINE_TEST_SEEDS` says.
///
/// # Panics
/// With what the first seed that fails said.
pub fn run_found<T>(found: &[u64], run: impl Fn(u64) -> Result<T, String>) {
    for &seed in found {
        if let Err(what) = run(seed) {
            panic!("seed {seed}: {what}");
        }
    }
}

/// Looks for a seed that reveals each planted bug. The violation must begin with the rule that the
/// bug was planted for, and the same seed without the bug must pass.
///
/// # Panics
/// If a bug goes unnoticed, or is against another rule.
pub fn catch_all<B: Copy + Debug, R: Display>(
    planted: impl IntoIterator<Item = (B, R)>,
    verdict: impl Fn(u64, Option<B>) -> Result<(), String>,
) {
    let mut missed = Vec::new();
    for (bug, rule) in planted {
        let found = (0..1_000).find_map(|seed| Some((seed, verdict(seed, Some(bug)).err()?)));
        let Some((seed, found)) = found else {
            missed.push(format!("{bug:?} went unnoticed"));
            continue;
        };
        let found = found.lines().next().unwrap_or_default();
        println!("{bug:?}, seed {seed}: {found}");
        if !found.starts_with(&rule.to_string()) {
            missed.push(format!("{bug:?}, seed {seed}, is against {rule}: {found}"));
        }
        // Without the bug nothing is found there.
        assert_eq!(verdict(seed, None), Ok(()), "seed {seed}");
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// What a run says, a panic among it.
pub fn caught<T>(run: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("panicked").to_owned())
    })
}

/// The command that runs one seed of a suite of the simulator again.
pub fn replay(suite: &str, seed: u64) -> String {
    replay_with(&format!("-p paceline-sim --test it {suite}::"), seed)
}

/// The command that runs one seed again of the test that cargo chooses by these arguments.
pub fn replay_with(arguments: &str, seed: u64) -> String {
    let variables = format!("PACELINE_TEST_SEED_FIRST={seed} PACELINE_TEST_SEEDS=1");
    format!("{variables} cargo test --release {arguments}")
}

/// Runs seeds in which members saturate a group; each run says how many deliveries, events and
/// saturating members it had.
///
/// # Panics
/// With what the first seed that failed said, or if the seeds saturated nothing.
pub fn run_saturated(run: impl Fn(u64) -> Result<[u64; 3], String> + Sync) {
    let (count, [deliveries, events, saturating]) = run_all(run);
    println!("{count} seeds: {deliveries} deliveries, {events} events, {saturating} senders");
    assert!(count < 100 || deliveries > 1000 * count, "the seeds saturated nothing");
}
