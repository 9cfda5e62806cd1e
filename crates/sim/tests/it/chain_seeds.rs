//! Random groups under random faults: everything accepted is delivered everywhere, once, in order.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::chain_swarm;

use chain_swarm::{Outcome, Scenario, honest};
use paceline_check::{seeds, swarm};

#[test]
fn seeds_deliver_everything_everywhere_and_come_to_rest() {
    let measured = |outcome: Outcome| {
        let Outcome { deliveries, events, resumed, lost, bundled, .. } = outcome;
        [deliveries, events, resumed, lost, bundled]
    };
    let (count, totals) = swarm::run_all(Scenario::draw, measured);
    let [deliveries, events, resumed, lost, bundled] = totals;
    println!(
        "{count} seeds: {deliveries} deliveries, {events} events, {resumed} resumed, {lost} lost, \
         {bundled} bundled"
    );
    let have_acted = deliveries > 0 && resumed > 0 && lost > 0 && bundled > 0;
    assert!(count < 100 || have_acted, "the seeds tested nothing");
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
