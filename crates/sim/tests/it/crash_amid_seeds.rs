//! The swarms of each protocol where every crash comes within a handler call: some of its messages
//! have left and the others have not, and the application got its events or did not. The promises
//! are those of `group_seeds`, `overlay_seeds` and so on.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::group_swarm;
use crate::mircc_swarm;
use crate::overlay_swarm;
use crate::slingshot_swarm;
use crate::walk_swarm;

use paceline_check::amid::{crash_amid, draw_crashes};
use paceline_check::seeds;
use paceline_proto::core::{Instant, NodeId, Rng};
use paceline_sim::Fault;

fn rng(seed: u64) -> Rng {
    Rng::new(seed, 0xa3d1)
}

/// Replaces the crashes among acts, which are also commands.
fn in_acts<A>(
    seed: u64,
    acts: &mut Vec<(Instant, A)>,
    fault_of: impl Fn(&A) -> Option<&Fault>,
    act: impl Fn(Fault) -> A,
) {
    let faults = |(at, act): &(Instant, A)| Some((*at, fault_of(act)?.clone()));
    let faults: Vec<(Instant, Fault)> = acts.iter().filter_map(faults).collect();
    acts.retain(|(_, act)| fault_of(act).is_none());
    let stops = crash_amid(&mut rng(seed), faults);
    acts.extend(stops.into_iter().map(|(at, fault)| (at, act(fault))));
    // A node restarts before the command to join again.
    acts.sort_by_key(|(at, act)| (*at, fault_of(act).is_none()));
}

/// Adds crashes of these nodes to faults that may have none.
fn add_crashes(seed: u64, faults: &mut Vec<(Instant, Fault)>, nodes: &[NodeId], until: Instant) {
    let mut rng = rng(seed);
    faults.extend(draw_crashes(&mut rng, nodes, until));
    *faults = crash_amid(&mut rng, std::mem::take(faults));
}

/// Runs the seeds, each of which says how much it did and how many nodes crashed in a call.
fn run_all(run: impl Fn(u64) -> Result<[u64; 2], String> + Sync) {
    let (count, [done, crashed]) = seeds::run_all(run);
    println!("{count} seeds: {done} done, {crashed} crashes in the midst of a call");
    assert!(count < 100 || crashed > count / 8, "{crashed} crashes in the midst of a call");
    assert!(count < 100 || done > count, "the seeds tested nothing");
}

#[test]
fn group_seeds_keep_their_promises_where_crashes_come_in_a_call() {
    use group_swarm::{Act, Scenario, honest};
    fn fault_of(act: &Act) -> Option<&Fault> {
        if let Act::Fault(fault) = act { Some(fault) } else { None }
    }
    run_all(|seed| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "crash_amid_seeds group";
        in_acts(seed, &mut scenario.acts, fault_of, Act::Fault);
        let outcome = scenario.run(honest(&scenario.config))?;
        Ok([outcome.deliveries, outcome.crashed_amid])
    });
}

#[test]
fn overlay_seeds_keep_their_promises_where_crashes_come_in_a_call() {
    use overlay_swarm::{Act, Scenario, honest};
    fn fault_of(act: &Act) -> Option<&Fault> {
        if let Act::Fault(fault) = act { Some(fault) } else { None }
    }
    run_all(|seed| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "crash_amid_seeds overlay";
        scenario.cut_off.clear();
        in_acts(seed, &mut scenario.acts, fault_of, Act::Fault);
        let config = &scenario.config;
        let outcome = scenario.run(honest(config))?;
        Ok([outcome.outcomes, outcome.crashed_amid])
    });
}

#[test]
fn slingshot_seeds_keep_their_promises_where_crashes_come_in_a_call() {
    run_all(|seed| {
        let mut scenario = slingshot_swarm::Scenario::draw(seed);
        scenario.suite = "crash_amid_seeds slingshot";
        scenario.faults = crash_amid(&mut rng(seed), std::mem::take(&mut scenario.faults));
        let outcome = scenario.run()?;
        Ok([outcome.totals.direct, outcome.crashed_amid])
    });
}

#[test]
fn mircc_seeds_keep_their_promises_where_crashes_come_in_a_call() {
    run_all(|seed| {
        let mut scenario = mircc_swarm::Scenario::draw(seed);
        scenario.suite = "crash_amid_seeds mircc";
        // What a consumer fetches is gone if it crashes.
        let mut nodes: Vec<NodeId> = (0..scenario.topology.nodes).map(NodeId::from).collect();
        nodes.retain(|node| !scenario.topology.consumers.contains(&(node.index() as u32)));
        let until = mircc_swarm::at(mircc_swarm::FAULTS_MS);
        add_crashes(seed, &mut scenario.faults, &nodes, until);
        let outcome = scenario.run()?;
        Ok([outcome.totals.segments, outcome.crashed_amid])
    });
}

fn walk(seed: u64) -> Result<[u64; 2], String> {
    let mut scenario = walk_swarm::Scenario::draw(seed);
    scenario.suite = "crash_amid_seeds walk";
    let nodes: Vec<NodeId> = (0..scenario.nodes()).map(NodeId::from).collect();
    let until = walk_swarm::at(walk_swarm::FAULTS_MS);
    add_crashes(seed, &mut scenario.faults, &nodes, until);
    let outcome = scenario.run()?;
    Ok([outcome.totals.finished, outcome.crashed_amid])
}

/// The checker took what a node counted in its last call for lost, or what it sent for sent by its
/// next life.
#[test]
fn walk_seeds_that_failed_once_keep_their_promises() {
    seeds::run_found(&[2_076, 2_486, 3_148, 3_220], walk);
}

#[test]
fn walk_seeds_keep_their_promises_where_crashes_come_in_a_call() {
    run_all(walk);
}
