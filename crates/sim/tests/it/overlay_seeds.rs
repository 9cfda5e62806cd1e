//! Random overlays whose nodes come and go under random faults: who is reached, what is kept.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::overlay_swarm;

use overlay_swarm::{Outcome, Scenario, honest};
use paceline_check::seeds;

fn run_with(scenario: &Scenario) -> Result<Outcome, String> {
    let outcome = scenario.run(honest(&scenario.config))?;
    if scenario.seed.is_multiple_of(16) {
        let again = |codec| {
            let again = Scenario { codec, ..scenario.clone() };
            Ok(again.run(honest(&scenario.config))?.digest)
        };
        seeds::check_digests(&outcome.digest, again, || scenario.replay())?;
    }
    Ok(outcome)
}

/// Runs a seed; every sixteenth also through the other codec.
fn run(seed: u64) -> Result<Outcome, String> {
    let scenario = Scenario::draw(seed);
    run_with(&scenario)
}

/// A node gave away, while its ring came apart, what it was then responsible for.
#[test]
fn seeds_that_failed_once_keep_what_was_acknowledged() {
    seeds::run_found(&[13_180], run);
}

#[test]
fn seeds_reach_the_responsible_and_keep_what_was_acknowledged() {
    let measured = |outcome: Outcome| {
        let Outcome { outcomes, failed, events, ring_checks, .. } = outcome;
        [outcomes, failed, events, ring_checks]
    };
    let (count, [outcomes, failed, events, ring_checks]) =
        seeds::run_all(|seed| run(seed).map(measured));
    println!(
        "{count} seeds: {outcomes} outcomes, {failed} of them failures, {events} events, \
         {ring_checks} looks at rings"
    );
    if count >= 100 {
        assert!(outcomes > 100 * count && ring_checks > 0, "the seeds tested nothing");
        assert!(failed > 0 && failed < outcomes / 10, "{failed} of {outcomes} failed");
    }
}
