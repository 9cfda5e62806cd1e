//! Time-critical multicast among strangers: nodes outside of the roster that send well-formed
//! messages, each field true, nearly true or extreme, under their own names. The promises are those
//! of `slingshot_seeds`, and no message of a stranger is a sign of a packet. No member sends false
//! messages here, since members trust the roster.

use crate::slingshot_swarm;

use paceline_check::lies::Known;
use paceline_check::{LieTally, Lies, Strangers, seeds};
use paceline_proto::core::Rng;
use paceline_proto::slingshot::{Message, Slingshot};
use slingshot_swarm::{FAULTS_MS, GROUPS, Outcome, Scenario, at};

#[test]
fn seeds_hold_their_promises_beside_strangers_that_lie() {
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = Rng::new(seed, 0x57a6);
        let mut scenario = Scenario { rogue: None, ..Scenario::draw(seed) };
        scenario.suite = "slingshot_stranger_seeds";
        scenario.strangers = 1 + rng.below(3);
        // Longer than the traffic, and than anything that is missing is waited for.
        let lies = Lies::draw(&mut rng, [500, 2_000, 20_000], at(2 * FAULTS_MS));
        let view = scenario.config.roster().id().0;
        let known = Known { view, groups: GROUPS, ..Known::default() };
        let strangers = Strangers::new(scenario.nodes(), known, lies);
        let make = |node| strangers.wrap(node, Slingshot::new(&scenario.config));
        let Outcome { totals, lies, .. } = scenario.run_with(make)?;
        tally.add(&strangers);
        Ok([totals.direct, totals.recovered, totals.lost, lies])
    };
    let (count, [direct, recovered, lost, lies]) = seeds::run_all(run);
    println!("{count} seeds: {direct} direct, {recovered} recovered, {lost} lost, {lies} lies");
    tally.assert_acted::<Message>(count, lies, 100);
    assert!(count < 100 || direct > 100 * count && recovered > 0, "the members sent nothing");
}
