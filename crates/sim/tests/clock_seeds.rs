//! The swarms where every node goes by a clock of its own, up to six hours ahead of others. The
//! promises are those of `group_seeds`, `overlay_seeds` and so on. Groups and overlays promise
//! nothing by the length of a second, so their clocks also gain or lose up to a hundredth.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

mod group_swarm;
mod overlay_swarm;

use paceline_check::clock::Clock;
use paceline_check::{Wrapped, seeds};
use paceline_proto::core::{NodeId, Rng};
use paceline_proto::group::Group;
use paceline_proto::overlay::Overlay;
use paceline_sim::checkers::tables::Table;

/// Parts in a million that a clock gains or loses at most.
const DRIFT_PPM_MAX: u32 = 10_000;

/// A node that restarts has another clock: its machine may have been set meanwhile.
struct Clocks(Rng);

impl Clocks {
    fn new(seed: u64) -> Clocks {
        Clocks(Rng::new(seed, 0xc10c))
    }

    fn next(&mut self) -> Clock {
        Clock::draw(&mut self.0, DRIFT_PPM_MAX)
    }
}

#[test]
fn group_seeds_keep_their_promises_by_clocks_of_their_own() {
    let run = |seed| {
        let mut scenario = group_swarm::Scenario::draw(seed);
        scenario.suite = "clock_seeds group";
        let (config, mut clocks) = (scenario.config.clone(), Clocks::new(seed));
        let make = move |_: NodeId| {
            Wrapped::<_, ()>::new(Group::new(&config), None).with_clock(clocks.next())
        };
        let outcome = scenario.run(make)?;
        Ok([outcome.deliveries, outcome.views])
    };
    let (count, [deliveries, views]) = seeds::run_all(run);
    println!("{count} seeds: {deliveries} deliveries, {views} views");
    assert!(count < 100 || deliveries > 100 * count && views > count, "the seeds tested nothing");
}

fn overlay_with<R: Table + 'static>(
    scenario: &overlay_swarm::Scenario,
) -> Result<overlay_swarm::Outcome, String> {
    let (config, mut clocks) = (scenario.config.clone(), Clocks::new(scenario.seed));
    scenario.run(move |node| {
        Wrapped::<_, ()>::new(Overlay::<R>::new(&config, node), None).with_clock(clocks.next())
    })
}

#[test]
fn overlay_seeds_keep_their_promises_by_clocks_of_their_own() {
    use overlay_swarm::{Scenario, with_router};
    let run = |seed| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "clock_seeds overlay";
        scenario.cut_off.clear();
        let outcome = with_router!(scenario.algorithm, R => overlay_with::<R>(&scenario))?;
        Ok([outcome.outcomes, outcome.failed])
    };
    let (count, [outcomes, failed]) = seeds::run_all(run);
    println!("{count} seeds: {outcomes} outcomes, {failed} of them failures");
    assert!(count < 100 || outcomes > 100 * count, "the seeds tested nothing");
}
