//! Random hosts of several services under random faults: each service keeps its promises beside
//! the others.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use paceline_check::swarm;

use crate::mixed_swarm::{Outcome, Scenario};

#[test]
fn seeds_keep_every_promise_of_two_groups_a_table_and_a_multicast_on_the_same_hosts() {
    let measured = |outcome: Outcome| {
        let Outcome { deliveries, views, outcomes, packets, lost, events, .. } = outcome;
        [deliveries[0], deliveries[1], views[0], views[1], outcomes, packets, lost, events]
    };
    let (count, totals) = swarm::run_all(Scenario::draw, measured);
    let [orders, audit, order_views, audit_views, outcomes, packets, lost, events] = totals;
    println!(
        "{count} seeds: {orders} and {audit} deliveries in {order_views} and {audit_views} views, \
         {outcomes} outcomes, {packets} packets, {lost} groups lost, {events} events"
    );
    if count >= 100 {
        let acted = [orders, audit, order_views, audit_views, outcomes, packets];
        assert!(acted.iter().all(|&times| times > 2 * count), "the seeds tested nothing");
        assert!(lost < count / 4, "{lost} of {} groups were lost for good", 2 * count);
    }
}
