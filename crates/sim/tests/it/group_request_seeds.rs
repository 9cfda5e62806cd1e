//! Random groups whose members make requests to each other while members come and go under random
//! faults: each request ends once, in time, with the answer of its callee.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::group_swarm;

use group_swarm::{Outcome, Scenario};
use paceline_check::swarm;

#[test]
fn seeds_end_each_request_once_and_in_time() {
    let measured = |outcome: Outcome| {
        let (of, [met, missed]) = (outcome.requests, outcome.quorums);
        let ended = [of.replied, of.refused, of.departed, of.timed_out];
        let [replied, refused, departed, timed_out] = ended;
        [of.made, of.handled, replied, refused, departed, timed_out, of.settled, met, missed]
    };
    let (count, totals) = swarm::run_all(Scenario::draw_with_requests, measured);
    let [made, handled, replied, refused, departed, timed_out, settled, met, missed] = totals;
    println!(
        "{count} seeds: {made} requests, {handled} handled; {replied} replied, {refused} refused, \
         {departed} departed, {timed_out} timed out, {settled} settled; {met} quorums met, \
         {missed} missed"
    );
    if count >= 100 {
        let is_tested = totals.iter().all(|&total| total > count / 4) && replied > made / 4;
        assert!(is_tested, "the seeds tested nothing");
    }
}
