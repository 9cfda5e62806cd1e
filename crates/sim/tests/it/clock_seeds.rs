//! The swarms where every node has its own clock, up to six hours ahead of others and with a drift
//! of up to one percent; a restarted node has another clock. The promises are those of
//! `group_seeds`, `overlay_seeds` and so on. Forwarders, multicast members and walk servers keep
//! their time bounds by their own clocks.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::group_swarm;
use crate::mircc_swarm;
use crate::overlay_swarm;
use crate::slingshot_swarm;
use crate::walk_swarm;

use paceline_check::clock::{ClockCounts, Clocks};
use paceline_check::{Wrapped, seeds};
use paceline_proto::core::{NodeId, Protocol};
use paceline_proto::group::Group;
use paceline_proto::mircc::Forwarder;
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::Slingshot;
use paceline_proto::walk::Server;

/// Parts in a million that a clock gains or loses at most.
const DRIFT_PPM_MAX: u32 = 10_000;

/// A node that goes by a clock of these.
fn by_clock<P: Protocol + 'static>(clocks: &Clocks, node: NodeId, protocol: P) -> Wrapped<P> {
    Wrapped::alone(protocol).with_clock(clocks.draw(node))
}

/// What was done in a run, and how many of its clocks were wrong.
fn measured([one, other]: [u64; 2], clocks: &Clocks) -> [u64; 5] {
    let ClockCounts { ahead, drifting, replaced } = clocks.counts();
    [one, other, ahead, drifting, replaced]
}

/// Runs seeds of a swarm; says what they did.
fn run_all(
    names: [&str; 2],
    run: impl Fn(u64, Clocks) -> Result<[u64; 2], String> + Sync,
) -> (u64, [u64; 2]) {
    let (count, [one, other, ahead, drifting, replaced]) = seeds::run_all(|seed| {
        let clocks = Clocks::new(seed, DRIFT_PPM_MAX);
        Ok(measured(run(seed, clocks.clone())?, &clocks))
    });
    println!(
        "{count} seeds: {one} {}, {other} {}; {ahead} clocks ahead, {drifting} drifting, \
         {replaced} replaced",
        names[0], names[1]
    );
    assert!(count < 100 || ahead > count && drifting > count && replaced > 0, "no clock was wrong");
    (count, [one, other])
}

#[test]
fn group_seeds_keep_their_promises_by_clocks_of_their_own() {
    let (count, [deliveries, views]) = run_all(["deliveries", "views"], |seed, clocks| {
        let mut scenario = group_swarm::Scenario::draw(seed);
        scenario.suite = "clock_seeds group";
        let config = scenario.config.clone();
        let outcome =
            scenario.run(move |node: NodeId| by_clock(&clocks, node, Group::new(&config)))?;
        Ok([outcome.deliveries, outcome.views])
    });
    assert!(count < 100 || deliveries > 100 * count && views > count, "the seeds tested nothing");
}

fn overlay_with(
    scenario: &overlay_swarm::Scenario,
    clocks: Clocks,
) -> Result<overlay_swarm::Outcome, String> {
    let config = scenario.config.clone();
    scenario.run(move |node| by_clock(&clocks, node, Overlay::new(&config, node)))
}

#[test]
fn overlay_seeds_keep_their_promises_by_clocks_of_their_own() {
    use overlay_swarm::Scenario;
    let (count, [outcomes, _]) = run_all(["outcomes", "of them failures"], |seed, clocks| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "clock_seeds overlay";
        scenario.cut_off.clear();
        let outcome = overlay_with(&scenario, clocks)?;
        Ok([outcome.outcomes, outcome.failed])
    });
    assert!(count < 100 || outcomes > 100 * count, "the seeds tested nothing");
}

#[test]
fn mircc_seeds_keep_their_promises_by_clocks_of_their_own() {
    let (count, [segments, fetched]) = run_all(["segments", "objects"], |seed, clocks| {
        let mut scenario = mircc_swarm::Scenario::draw(seed);
        scenario.suite = "clock_seeds mircc";
        scenario.clocks = clocks.clone();
        let make = |node, setup| by_clock(&clocks, node, Forwarder::new(setup, &scenario.config));
        let outcome = scenario.run_with(make)?;
        Ok([outcome.totals.segments, outcome.totals.fetched])
    });
    assert!(count < 100 || segments > 100 * count && fetched > count, "nothing was fetched");
}

#[test]
fn slingshot_seeds_keep_their_promises_by_clocks_of_their_own() {
    let (count, [direct, lost]) = run_all(["direct", "lost"], |seed, clocks| {
        let mut scenario = slingshot_swarm::Scenario::draw(seed);
        scenario.suite = "clock_seeds slingshot";
        scenario.rogue = None;
        scenario.clocks = clocks.clone();
        let make = |node| by_clock(&clocks, node, Slingshot::new(&scenario.config));
        let outcome = scenario.run_with(make)?;
        Ok([outcome.totals.direct, outcome.totals.lost])
    });
    assert!(count < 100 || direct > 100 * count && lost > 0, "the seeds tested nothing");
}

#[test]
fn walk_seeds_keep_their_promises_by_clocks_of_their_own() {
    let (count, [told, failed]) = run_all(["walks", "given up"], |seed, clocks| {
        let mut scenario = walk_swarm::Scenario::draw(seed);
        scenario.suite = "clock_seeds walk";
        scenario.clocks = clocks.clone();
        let outcome = scenario.run_with(|node, config, part| {
            let server = Server::new(config, part).expect("what is drawn is possible");
            by_clock(&clocks, node, server)
        })?;
        Ok([outcome.totals.finished, outcome.totals.failed])
    });
    assert!(count < 100 || told > 10 * count && failed > 0, "the seeds tested nothing");
}
