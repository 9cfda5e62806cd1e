//! Servers of walks beside strangers: nodes that send well-formed messages, each field true, nearly
//! true or extreme, under their own names, and never answer. The promises are those of
//! `walk_seeds`. Servers serve walkers of strangers, since any node may request walks. The ledger
//! accounts for them, but does not know where they were before. They take up to a few hundred
//! steps, so that runs end; what longer ones cost is in `walk_homes`.

use crate::walk_swarm;

use paceline_check::{LieTally, Lies, Strangers, seeds};
use paceline_proto::core::Rng;
use paceline_proto::walk::{Message, Server};
use walk_swarm::{FAULTS_MS, Outcome, Scenario, at};

#[test]
fn seeds_hold_their_promises_beside_strangers_that_lie() {
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = Rng::new(seed, 0x57a6);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "walk_stranger_seeds";
        scenario.strangers = 1 + rng.below(3);
        let lies = Lies::draw(&mut rng, [500, 2_000, 10_000], at(2 * FAULTS_MS));
        let known = scenario.known();
        let strangers = Strangers::new(scenario.nodes(), known, lies);
        let make = |node, config, part| {
            let server = Server::new(config, part).expect("what is drawn is possible");
            strangers.wrap(node, server)
        };
        let Outcome { totals, lies, .. } = scenario.run_with(make)?;
        tally.add(&strangers);
        Ok([totals.finished, totals.failed, totals.ended, lies])
    };
    let (count, [finished, failed, ended, lies]) = seeds::run_all(run);
    println!("{count} seeds: {finished} walks, {failed} given up, {ended} jobs, {lies} lies");
    tally.assert_acted::<Message>(count, lies, 50);
    assert!(count < 100 || finished > 10 * count && ended > count, "the seeds tested nothing");
}
