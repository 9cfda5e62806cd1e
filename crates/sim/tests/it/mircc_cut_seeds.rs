//! Networks of named data where links are cut permanently, in addition to the faults of
//! `mircc_seeds`. A consumer with one whole path of next hops to a producer fetches everything. The
//! fetches of all others end: with all segments, if content stores had them, or with an error in
//! bounded time.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::mircc_swarm;

use std::collections::BTreeSet;
use std::time::Duration;

use mircc_swarm::{FAULTS_MS, Scenario, at};
use paceline_check::seeds;
use paceline_proto::core::{NodeId, Rng};
use paceline_sim::Fault;

/// How long after its last Data a fetch ends: four times its `give_up_after`, 20 s here, and the
/// time until it looks.
const ENDED_WITHIN: Duration = Duration::from_secs(82);

type Links = BTreeSet<(NodeId, NodeId)>;

/// Nodes from which next hops lead to a producer over links that work both ways.
fn served(scenario: &Scenario, cut: &Links) -> BTreeSet<NodeId> {
    let topology = &scenario.topology;
    let works = |a: NodeId, b: NodeId| !cut.contains(&(a, b)) && !cut.contains(&(b, a));
    let mut served: BTreeSet<NodeId> =
        topology.producers.iter().copied().map(NodeId::from).collect();
    loop {
        let leads = |&node: &NodeId| {
            topology
                .next_hops(node.index() as u32)
                .any(|next| works(node, next) && served.contains(&next))
        };
        let more: Vec<NodeId> = (0..topology.nodes)
            .map(NodeId::from)
            .filter(|node| !served.contains(node))
            .filter(leads)
            .collect();
        if more.is_empty() {
            return served;
        }
        served.extend(more);
    }
}

fn run(seed: u64) -> Result<[u64; 5], String> {
    let mut rng = Rng::new(seed, 0x5e7e);
    let mut scenario = Scenario::draw(seed);
    scenario.suite = "mircc_cut_seeds";
    let when = at(rng.below(FAULTS_MS));
    let mut cut = Links::new();
    for _ in 0..1 + rng.below(3) {
        let edge =
            &scenario.topology.edges[rng.below(scenario.topology.edges.len() as u32) as usize];
        let [one, other] = edge.ends.map(NodeId::from);
        let direction = rng.below(3);
        if direction != 0 {
            cut.insert((one, other));
        }
        if direction != 1 {
            cut.insert((other, one));
        }
    }
    scenario.faults.extend(cut.iter().map(|&(from, to)| (when, Fault::Sever(from, to))));
    let served = served(&scenario, &cut);
    let consumers = scenario.topology.consumers.iter().copied().map(NodeId::from);
    scenario.cut_off = consumers.clone().filter(|node| !served.contains(node)).collect();
    let whole = consumers.filter(|node| served.contains(node)).count() as u64;
    let cut_off = scenario.cut_off.len() as u64;
    let outcome = scenario.run()?;
    if outcome.silent_max > ENDED_WITHIN {
        let replay = seeds::replay(scenario.suite, seed);
        let silent = outcome.silent_max;
        return Err(format!("a fetch failed after {silent:?} without a Data\nreplay: {replay}"));
    }
    Ok([outcome.severed, whole, cut_off, outcome.totals.fetched, outcome.totals.failed])
}

/// Copies by a hop without a path back came first, so that those by the other hop were refused.
#[test]
fn seeds_that_failed_once_fetch() {
    seeds::run_found(&[10_217], run);
}

#[test]
fn seeds_fetch_what_one_whole_path_leads_to_where_links_are_cut_for_good() {
    let (count, [severed, whole, cut_off, fetched, failed]) = seeds::run_all(run);
    println!(
        "{count} seeds: {severed} messages severed, {fetched} objects fetched by {whole} consumers \
         with a path and {cut_off} without, {failed} given up"
    );
    assert!(count < 100 || severed > 10 * count, "the cuts did not act");
    assert!(
        count < 100 || fetched > whole && cut_off > 0 && failed > 0,
        "the seeds tested nothing"
    );
}
