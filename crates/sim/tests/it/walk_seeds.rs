//! Servers of walks under faults, over seeds: every walker is accounted for, every walk is reported
//! once or given up, and takes the same path as in memory.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::walk_swarm;

use paceline_check::checkers::walk::Totals;
use paceline_check::swarm;
use walk_swarm::{Outcome, Scenario};

#[test]
fn seeds_account_for_every_walker_and_tell_of_every_walk_as_it_goes_in_memory() {
    let measured = |outcome: Outcome| {
        let Outcome { totals, events, messages_lost, .. } = outcome;
        let Totals { finished, repeated, failed, steps, ended, refused_jobs, generated, .. } =
            totals;
        let Totals { dropped, marked, sent, crashed, doubled, bundled, late, .. } = totals;
        [
            finished,
            repeated,
            failed,
            steps,
            ended,
            refused_jobs,
            generated,
            dropped,
            marked,
            sent,
            crashed,
            doubled,
            bundled,
            late,
            messages_lost,
            events,
        ]
    };
    let (count, totals) = swarm::run_all(Scenario::draw, measured);
    let [finished, repeated, failed, steps, ended, refused, generated, dropped, marked, ..] =
        totals;
    let [.., sent, crashed, doubled, bundled, late, lost, events] = totals;
    println!(
        "{count} seeds: {finished} walks of {steps} steps in {ended} jobs ({refused} refused), \
         {repeated} of more than one attempt, {failed} given up; {generated} walkers, {dropped} \
         dropped, {marked} marked, {sent} sent ({bundled} in company), {doubled} doubled, \
         {crashed} gone with their server, {late} late; {lost} messages lost, {events} events"
    );
    assert!(
        count < 100 || totals.iter().all(|&total| total > 0),
        "the seeds tested nothing: {totals:?}"
    );
}
