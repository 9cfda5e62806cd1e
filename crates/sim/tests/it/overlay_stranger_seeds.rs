//! Overlays beside strangers: nodes that send well-formed messages, each field true, nearly true or
//! extreme, under their own names, and never answer. The promises are those of `overlay_seeds`.
//!
//! Some of them are weaker, since nodes have no keys to authenticate messages:
//! - Nodes treat a node that claims to be a member as one until it fails to answer. So tables and
//!   look-ups are right only once the strangers are silent: lies are faults, and end with them.
//! - Until then a ring may have members that lie about others: Zave's invariant is not checked.
//! - Later the strangers are members that failed, and may have held the only copy of something: a
//!   key that no node holds may be called `Unsettled` where it would be `Absent`.
//! - Any node may write under any key: strangers write under keys of their own only.

use crate::overlay_swarm;

use overlay_swarm::{FAULTS, Outcome, Scenario, at};
use paceline_check::lies::Known;
use paceline_check::{LieTally, Lies, Strangers, seeds};
use paceline_proto::core::Rng;
use paceline_proto::overlay::{Message, Overlay};

fn run_with(scenario: &Scenario, lies: Lies, tally: &LieTally) -> Result<Outcome, String> {
    let known = Known { keys: scenario.keys(), ..Known::default() };
    let strangers = Strangers::new(scenario.nodes, known, lies);
    let (config, all) = (scenario.config.clone(), strangers.clone());
    let outcome = scenario.run(move |node| all.wrap(node, Overlay::new(&config, node)))?;
    tally.add(&strangers);
    Ok(outcome)
}

#[test]
fn seeds_hold_their_promises_beside_strangers_that_lie() {
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = Rng::new(seed, 0x57a6);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "overlay_stranger_seeds";
        scenario.strangers = 1 + rng.below(3);
        let lies = Lies::draw(&mut rng, [50_000, 200_000, 1_000_000], at(FAULTS));
        let outcome = run_with(&scenario, lies, &tally)?;
        Ok([outcome.outcomes, outcome.failed, outcome.lies])
    };
    let (count, [outcomes, failed, lies]) = seeds::run_all(run);
    println!("{count} seeds: {outcomes} outcomes, {failed} of them failures, {lies} lies");
    tally.assert_acted::<Message>(count, lies, 100);
    if count >= 100 {
        assert!(outcomes > 100 * count, "the seeds tested nothing");
        assert!(failed < outcomes / 10, "{failed} of {outcomes} failed");
    }
}
