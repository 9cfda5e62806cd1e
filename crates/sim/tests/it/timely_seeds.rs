//! The protocols that Slingshot is compared with under faults, over seeds: ACK, repairs by senders,
//! NAK, digests, SRM and gossip.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::timely_swarm;

use paceline_check::swarm;
use timely_swarm::{Baseline, Outcome, Scenario};

#[test]
fn seeds_of_each_baseline_report_each_packet_once_and_as_it_was_sent() {
    for baseline in Baseline::ALL {
        let measured = |outcome: Outcome| [outcome.delivered, outcome.lost, outcome.events];
        let (count, totals) = swarm::run_all(|seed| Scenario::draw(seed, baseline), measured);
        let [delivered, lost, events] = totals;
        println!(
            "{baseline:?}, {count} seeds: {delivered} delivered, {lost} lost, {events} events"
        );
        assert!(count < 100 || delivered > 1_000, "the seeds tested nothing");
    }
}
