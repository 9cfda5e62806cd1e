//! The protocols that Slingshot is compared with under faults, over seeds: ACK, repairs by senders,
//! NAK, digests and SRM.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::timely_swarm;

use paceline_check::seeds;
use timely_swarm::{Baseline, Scenario};

#[test]
fn seeds_of_each_baseline_report_each_packet_once_and_as_it_was_sent() {
    for baseline in Baseline::ALL {
        let run = |seed: u64| {
            let scenario = Scenario::draw(seed, baseline);
            let outcome = scenario.run(None)?;
            if seed.is_multiple_of(8) {
                let again = |codec| Ok(Scenario { codec, ..scenario.clone() }.run(None)?.digest);
                seeds::check_digests(&outcome.digest, again, || format!("{scenario:#?}"))?;
            }
            Ok([outcome.delivered, outcome.lost, outcome.events])
        };
        let (count, totals) = seeds::run_all(run);
        let [delivered, lost, events] = totals;
        println!(
            "{baseline:?}, {count} seeds: {delivered} delivered, {lost} lost, {events} events"
        );
        assert!(count < 100 || delivered > 1_000, "the seeds tested nothing");
    }
}
