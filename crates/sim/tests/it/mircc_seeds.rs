//! Networks of named data under faults, over seeds: every fetched segment arrives once and as
//! published; no node exceeds its rate, no packet loops, and no bound is exceeded.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::mircc_swarm;

use mircc_swarm::{Outcome, Scenario};
use paceline_check::checkers::mircc::Totals;
use paceline_check::swarm;

#[test]
fn seeds_fetch_what_was_published_at_the_rates_they_are_told_and_come_to_rest() {
    let measured = |outcome: Outcome| {
        let Totals { segments, fetched, failed, forgotten } = outcome.totals;
        let Outcome { events, loops, refused, expired, stored, full, .. } = outcome;
        [segments, fetched, failed, forgotten, loops, refused, expired, stored, full, events]
    };
    let (count, totals) = swarm::run_all(Scenario::draw, measured);
    let [segments, fetched, failed, forgotten, loops, refused, expired, stored, full, events] =
        totals;
    println!(
        "{count} seeds: {segments} segments of {fetched} objects, {failed} given up, {loops} \
         loops ({forgotten} forgotten), {refused} refused, {full} found no room, {expired} \
         expired, {stored} from stores, {events} events"
    );
    let is_tested = [segments, fetched, loops, refused, expired, stored, full];
    assert!(
        count < 100 || is_tested.iter().all(|&total| total > 0),
        "the seeds tested nothing: {totals:?}"
    );
}
