//! Random overlays with churn under random faults, in which nodes scan all records meanwhile.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::scanners;

use paceline_check::swarm;
use scanners::Survey;

#[test]
fn seeds_scan_every_value_that_was_stored_all_the_time_and_each_once() {
    let (count, [completed, pages, records, given_up]) =
        swarm::run_all(Survey::draw, |outcome| outcome.totals);
    println!(
        "{count} seeds: {completed} scans completed, {given_up} given up; {pages} pages, \
         {records} records"
    );
    if count >= 100 {
        assert!(completed > 4 * count && records > 60 * count, "the seeds tested nothing");
        assert!(given_up < completed / 4, "{given_up} of {completed} scans were given up");
    }
}
