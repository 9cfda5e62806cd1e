//! Groups among strangers that send well-formed messages, all fields drawn, under their own names:
//! the same promises hold as without them.

mod group_swarm;
mod seeds;

use std::time::Duration;

use group_swarm::{Outcome, Scenario, stranger};
use paceline_proto::core::Rng;

#[test]
fn seeds_hold_their_promises_beside_strangers_that_lie() {
    let run = |seed| {
        let mut rng = Rng::new(seed, 0x57a6);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "group_stranger_seeds";
        scenario.strangers = 1 + rng.below(3);
        let lies_every = Duration::from_micros([500, 2000, 20_000][rng.below(3) as usize]);
        let make = stranger::nodes(&scenario.config, scenario.nodes, lies_every);
        let Outcome { deliveries, views, lies, is_lost, .. } = scenario.run(make)?;
        Ok([deliveries, views, lies, u64::from(is_lost)])
    };
    let (count, [deliveries, views, lies, lost]) = seeds::run_all(run);
    println!("{count} seeds: {deliveries} deliveries, {views} views, {lies} lies, {lost} lost");
    assert!(lies > 1000 * count, "the strangers did not act");
    assert!(count < 100 || lost < count / 4, "{lost} of {count} groups were lost for good");
}
