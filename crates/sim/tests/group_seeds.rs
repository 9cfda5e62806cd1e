//! Random groups whose members come and go under random faults: agreement, order, convergence.
//!
//! `PACELINE_SEEDS` is the number of seeds (default 200), `PACELINE_SEED_FIRST` the first one.

mod group_swarm;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use group_swarm::{Outcome, Scenario, honest};
use paceline_sim::Codec;

// A test has no arguments of its own.
#[allow(clippy::disallowed_methods)]
fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// Runs a seed; every eighth also through the other codec.
fn run(seed: u64) -> Result<Outcome, String> {
    let scenario = Scenario::draw(seed);
    let outcome = scenario.run(honest(&scenario.config))?;
    if seed.is_multiple_of(8) {
        for codec in [Codec::Typed, Codec::CheckWire] {
            let again = Scenario { codec, ..scenario.clone() };
            if again.run(honest(&scenario.config))?.digest != outcome.digest {
                return Err(format!("{codec:?} gives another digest\n{}", scenario.replay()));
            }
        }
    }
    Ok(outcome)
}

#[test]
fn seeds_agree_on_views_and_on_what_was_delivered_in_them() {
    let (first, count) = (variable("PACELINE_SEED_FIRST", 0), variable("PACELINE_SEEDS", 200));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicU64::new(first);
    let failures = Mutex::new(Vec::new());
    let totals = Mutex::new([0u64; 5]);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    match run(seed) {
                        Ok(outcome) => {
                            let mut totals = totals.lock().expect("no panic under the lock");
                            totals[0] += outcome.deliveries;
                            totals[1] += outcome.events;
                            totals[2] += outcome.views;
                            totals[3] += outcome.excluded;
                            totals[4] += u64::from(outcome.is_lost);
                        }
                        Err(what) => {
                            failures.lock().expect("no panic under the lock").push((seed, what));
                        }
                    }
                }
            });
        }
    });
    let [deliveries, events, views, excluded, lost] = totals.into_inner().expect("no panic");
    println!(
        "{count} seeds: {deliveries} deliveries, {events} events, {views} views, \
         {excluded} excluded, {lost} without a primary in the end"
    );
    let mut failures = failures.into_inner().expect("no panic");
    failures.sort();
    for (seed, what) in failures.iter().skip(1) {
        println!("seed {seed}: {}", what.lines().next().unwrap_or_default());
    }
    let seeds: Vec<u64> = failures.iter().map(|&(seed, _)| seed).collect();
    if let Some((seed, what)) = failures.first() {
        panic!("{} of {count} seeds failed: {seeds:?}\nseed {seed}: {what}", seeds.len());
    }
    if count >= 100 {
        assert!(deliveries > 0 && excluded > 0 && views > count, "the seeds tested nothing");
        assert!(lost < count / 4, "{lost} of {count} groups were lost for good");
    }
}
