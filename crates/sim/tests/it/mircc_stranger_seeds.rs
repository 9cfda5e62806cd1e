//! Networks of named data with strangers among the neighbours: nodes that send well-formed packets,
//! each field true, nearly true or extreme, over links of their own, and never answer. The promises
//! are those of `mircc_seeds`, to all other nodes.

use crate::mircc_swarm;

use mircc_swarm::{FAULTS_MS, Outcome, Scenario, at, object_name};
use paceline_check::lies::Known;
use paceline_check::{LieTally, Lies, Strangers, seeds};
use paceline_proto::core::{NodeId, Rng};
use paceline_proto::mircc::Forwarder;
use paceline_proto::ndn::Packet;

#[test]
fn seeds_hold_their_promises_beside_strangers_that_lie() {
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = Rng::new(seed, 0x57a6);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "mircc_stranger_seeds";
        let honest = scenario.topology.nodes;
        let count = 1 + rng.below(3);
        scenario.topology.add_strangers(&mut rng, count);
        let lies = Lies::draw(&mut rng, [1_000, 5_000, 20_000], at(2 * FAULTS_MS));
        let names = (0..scenario.objects.len()).map(object_name).collect();
        let strangers = Strangers::new(honest, Known { names, ..Known::default() }, lies);
        let (config, topology) = (&scenario.config, &scenario.topology);
        let make = |node: NodeId, setup| {
            let to: Vec<NodeId> =
                topology.faces(node.index() as u32).map(|(peer, _)| peer).collect();
            strangers.wrap_with(node, Forwarder::new(setup, config), &to)
        };
        let Outcome { totals, lies, .. } = scenario.run_with(make)?;
        tally.add(&strangers);
        Ok([totals.segments, totals.fetched, totals.failed, lies])
    };
    let (count, [segments, fetched, failed, lies]) = seeds::run_all(run);
    println!(
        "{count} seeds: {segments} segments of {fetched} objects, {failed} given up, {lies} lies"
    );
    tally.assert_acted::<Packet>(count, lies, 100);
    assert!(count < 100 || segments > 100 * count && fetched > count, "nothing was fetched");
}
