//! Groups among strangers that send well-formed messages, all fields drawn, under their own names:
//! the same promises hold as without them.

use crate::group_swarm;

use group_swarm::{Outcome, Scenario};
use paceline_check::lies::Known;
use paceline_check::seeds;
use paceline_check::{LieTally, Lies, Strangers};
use paceline_proto::core::{Instant, Rng};
use paceline_proto::group::{Group, Message};

#[test]
fn seeds_hold_their_promises_beside_strangers_that_lie() {
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = Rng::new(seed, 0x57a6);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "group_stranger_seeds";
        scenario.strangers = 1 + rng.below(3);
        let lies = Lies::draw(&mut rng, [500, 2_000, 20_000], Instant::MAX);
        let strangers = Strangers::new(scenario.nodes, Known::default(), lies);
        let (config, all) = (scenario.config.clone(), strangers.clone());
        let make = move |node| all.wrap(node, Group::new(&config));
        let Outcome { deliveries, views, lies, is_lost, .. } = scenario.run(make)?;
        tally.add(&strangers);
        Ok([deliveries, views, lies, u64::from(is_lost)])
    };
    let (count, [deliveries, views, lies, lost]) = seeds::run_all(run);
    println!("{count} seeds: {deliveries} deliveries, {views} views, {lies} lies, {lost} lost");
    tally.assert_acted::<Message>(count, lies, 1000);
    assert!(count < 100 || lost < count / 4, "{lost} of {count} groups were lost for good");
}
