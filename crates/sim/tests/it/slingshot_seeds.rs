//! Time-critical multicast under faults, over seeds: every delivery was sent, is delivered once and
//! in time, no packet goes unreported, and no bound is exceeded.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::slingshot_swarm;

use paceline_check::checkers::slingshot::Totals;
use paceline_check::swarm;
use paceline_proto::slingshot::{Code, Rate, Slingshot};
use slingshot_swarm::{Outcome, Scenario, recovered_share};

#[test]
fn seeds_tell_what_was_sent_once_and_in_time_and_forget_nothing() {
    let measured = |outcome: Outcome| {
        let Totals { direct, recovered, pulled, lost, late } = outcome.totals;
        let Outcome { messages: whole, messages_lost: in_part, reports, .. } = outcome;
        let Outcome { refused, overrun, events, .. } = outcome;
        [direct, recovered, pulled, lost, late, whole, in_part, reports, refused, overrun, events]
    };
    let (count, totals) = swarm::run_all(Scenario::draw, measured);
    let [direct, recovered, pulled, lost, late, whole, in_part, reports, refused, overrun, events] =
        totals;
    println!(
        "{count} seeds: {direct} direct, {recovered} recovered, {pulled} pulled, {lost} lost, \
         {late} late, messages: {whole} whole, {in_part} lost in part; {reports} reports, \
         {refused} refused, {overrun} overrun, {events} events"
    );
    assert!(
        count < 100 || totals.iter().all(|&total| total > 0),
        "the seeds tested nothing: {totals:?}"
    );
}

#[test]
fn the_recovered_share_of_a_clean_run_is_what_the_closed_form_says() {
    for (r, c, code, loss) in [
        (8, 3, Code::Xor { stagger: 1 }, 0.01),
        (8, 5, Code::Xor { stagger: 1 }, 0.05),
        (4, 1, Code::Xor { stagger: 1 }, 0.02),
        (8, 3, Code::Rlc { window: 32 }, 0.01),
    ] {
        let share = recovered_share(Rate { r, c }, code, loss, Slingshot::new);
        println!("({r},{c}) {code:?} at {loss}: {share:?}");
        share.expect("no promise is broken");
    }
}
