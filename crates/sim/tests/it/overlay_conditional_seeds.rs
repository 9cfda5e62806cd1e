//! Random overlays with churn under random faults, in which several nodes replace the same values
//! by conditional writes.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::contenders;

use contenders::Contest;
use paceline_check::{Swarm, seeds, swarm};

/// A node that was paused decided by answers from before another node took its place. A node was
/// asked again after copies of its record were refused, and said that it had written nothing.
#[test]
fn seeds_that_failed_once_acknowledge_one_write_and_carry_out_no_refused_one() {
    seeds::run_found(&[1_028, 1_549], |seed| Contest::draw(seed).run_repeated());
}

#[test]
fn seeds_acknowledge_one_of_the_writes_that_expect_the_same_version() {
    let (count, [acknowledged, refused, unknown]) =
        swarm::run_all(Contest::draw, |outcome| outcome.totals);
    println!(
        "{count} seeds: {acknowledged} conditional writes acknowledged, {refused} refused, \
         {unknown} without a certain outcome"
    );
    if count >= 100 {
        assert!(acknowledged > 20 * count && refused > 10 * count, "the seeds tested nothing");
        assert!(unknown < (acknowledged + refused) / 4, "{unknown} without a certain outcome");
    }
}
