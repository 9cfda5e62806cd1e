//! The random groups of `chain_seeds` over streams that behave as TCP: segments are lost, doubled
//! and reordered, ports overflow, time-outs double. The same promises hold.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the first
//! one.

use crate::chain_swarm;

use chain_swarm::{Outcome, Scenario};
use paceline_check::swarm;
use paceline_proto::core::Rng;
use paceline_sim::{Congestion, Shape, Streams, TcpConfig};

/// The group of a seed, on a star whose ports buffer little or much.
fn draw(seed: u64) -> Scenario {
    let mut scenario = Scenario::draw(seed);
    let mut rng = Rng::new(seed, 0x7c9);
    let port_bytes_max = [2 << 10, 16 << 10, 64 << 10, 1 << 20][rng.below(4) as usize];
    let congestion = if rng.chance(0.5) { Congestion::Reno } else { Congestion::Cubic };
    let rates = [20_000_000, 100_000_000, 1_000_000_000];
    scenario.suite = "chain_tcp_seeds";
    scenario.network.shape = Shape::Star;
    scenario.network.rate_bits_per_second = Some(rates[rng.below(3) as usize]);
    scenario.network.streams = Streams::Tcp(TcpConfig { port_bytes_max, congestion });
    scenario
}

#[test]
fn seeds_keep_the_promises_over_streams_that_lose_and_resend_segments() {
    let measured = |outcome: Outcome| {
        let Outcome { deliveries, events, resumed, resent, .. } = outcome;
        [deliveries, events, resumed, resent]
    };
    let (count, totals) = swarm::run_all(draw, measured);
    let [deliveries, events, resumed, resent] = totals;
    println!(
        "{count} seeds: {deliveries} deliveries, {events} events, {resumed} resumed, \
         {resent} segments sent again"
    );
    let tested = deliveries > 0 && resumed > 0 && resent > 0;
    assert!(count < 100 || tested, "the seeds tested nothing");
}
