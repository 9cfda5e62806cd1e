//! Random groups whose members come and go under random faults: agreement, order, convergence.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::group_swarm;

use group_swarm::{Outcome, Scenario, honest};
use paceline_check::{Swarm, seeds, swarm};

#[test]
fn seeds_agree_on_views_and_on_what_was_delivered_in_them() {
    let measured = |outcome: Outcome| {
        let Outcome { deliveries, directs, events, views, excluded, is_lost, .. } = outcome;
        [deliveries, directs, events, views, excluded, u64::from(is_lost)]
    };
    let (count, totals) = swarm::run_all(Scenario::draw, measured);
    let [deliveries, directs, events, views, excluded, lost] = totals;
    println!(
        "{count} seeds: {deliveries} deliveries, {directs} to one member, {events} events, \
         {views} views, {excluded} excluded, {lost} without a primary in the end"
    );
    if count >= 100 {
        let is_tested = deliveries > 0 && directs > count && excluded > 0 && views > count;
        assert!(is_tested, "the seeds tested nothing");
        assert!(lost < count / 4, "{lost} of {count} groups were lost for good");
    }
}

/// A member was left out by an old proposal: neither its proposer nor the one that outbid it was
/// heard by all.
#[test]
fn seeds_that_failed_once_agree() {
    seeds::run_found(&[14_770], |seed| Scenario::draw(seed).run_repeated());
}

#[test]
fn seeds_with_saturating_phases_let_every_member_submit() {
    seeds::run_saturated(|seed| {
        let scenario = Scenario::draw_saturated(seed);
        let outcome = scenario.run(honest(&scenario.config))?;
        let saturating = scenario.phases.iter().map(|phase| phase.senders.len() as u64).sum();
        Ok([outcome.deliveries, outcome.events, saturating])
    });
}
