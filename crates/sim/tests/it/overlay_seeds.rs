//! Random overlays with churn under random faults: reachability and stored values.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::overlay_swarm;

use overlay_swarm::{Outcome, Scenario};
use paceline_check::{Swarm, seeds, swarm};

/// A node gave away, while its ring came apart, what it was then responsible for.
#[test]
fn seeds_that_failed_once_keep_what_was_acknowledged() {
    seeds::run_found(&[13_180], |seed| Scenario::draw(seed).run_repeated());
}

#[test]
fn seeds_reach_the_responsible_and_keep_what_was_acknowledged() {
    let measured = |outcome: Outcome| {
        let Outcome { outcomes, failed, events, ring_checks, .. } = outcome;
        [outcomes, failed, events, ring_checks]
    };
    let (count, [outcomes, failed, events, ring_checks]) = swarm::run_all(Scenario::draw, measured);
    println!(
        "{count} seeds: {outcomes} outcomes, {failed} of them failures, {events} events, \
         {ring_checks} looks at rings"
    );
    if count >= 100 {
        assert!(outcomes > 100 * count && ring_checks > 0, "the seeds tested nothing");
        assert!(failed > 0 && failed < outcomes / 10, "{failed} of {outcomes} failed");
    }
}
