//! The swarms of the protocols that hold addresses, where nodes crash or leave and come back under
//! their id at another address, several times a run. The promises are those of `group_seeds` and
//! `overlay_seeds`. In the end each node that holds the address of a member holds the newest, and
//! passes no other to its driver.
//!
//! The other protocols hold no address: chain and slingshot have a fixed roster, mircc has numbers
//! of faces. A client of walks passes on the addresses that its application gave it, and a server
//! of walks that is started again keeps its address.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::acts;
use crate::group_swarm;
use crate::overlay_swarm;

use std::time::Duration;

use acts::with_moves;
use paceline_check::moves::{Move, Whereabouts};
use paceline_check::{Swarm, Wrapped, seeds};
use paceline_proto::core::{Instant, NodeId, Rng};
use paceline_proto::group::Group;
use paceline_proto::overlay::Overlay;

fn rng(seed: u64) -> Rng {
    Rng::new(seed, 0x30fe)
}

#[test]
fn group_seeds_keep_their_promises_where_members_move() {
    use group_swarm::{FAULTS, HEAL, Scenario, at};
    let run = |seed| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "moved_seeds group";
        let nodes: Vec<NodeId> = (0..scenario.nodes).map(NodeId::from).collect();
        let until = Instant::ZERO + FAULTS;
        let moves =
            Move::draw(&mut rng(seed), &nodes, (at(500), until), Duration::from_millis(500));
        let count = moves.len() as u64;
        let addresses = with_moves(&mut scenario.acts, scenario.nodes, moves);
        let right_from = until + HEAL - Duration::from_secs(2);
        let whereabouts = Whereabouts::new(right_from, &addresses);
        let (config, seen) = (scenario.config.clone(), whereabouts.clone());
        let make = move |_| Wrapped::new(Group::new(&config), Some(seen.clone()));
        let outcome = scenario.run(make)?;
        if outcome.is_lost {
            return Ok([outcome.deliveries, count, 0, 1]);
        }
        let held = whereabouts.moved_held();
        let held = held.map_err(|what| format!("{what}\nreplay: {}", scenario.replay()))?;
        Ok([outcome.deliveries, count, held, 0])
    };
    // The only member that is left of its view joins one that is left of the view before.
    seeds::run_found(&[1_422], run);
    let (count, [deliveries, moves, held, lost]) = seeds::run_all(run);
    println!(
        "{count} seeds: {deliveries} deliveries, {moves} moves, {held} addresses held of members \
         that moved, {lost} lost"
    );
    if count >= 100 {
        assert!(deliveries > 100 * count && moves > count, "the seeds tested nothing");
        assert!(held > count, "the moves did not act");
        assert!(lost < count / 4, "{lost} of {count} groups were lost for good");
    }
}

fn overlay_with(
    scenario: &overlay_swarm::Scenario,
    whereabouts: &Whereabouts,
) -> Result<overlay_swarm::Outcome, String> {
    let (config, seen) = (scenario.config.clone(), whereabouts.clone());
    let make = move |node| Wrapped::new(Overlay::new(&config, node), Some(seen.clone()));
    scenario.run(make)
}

#[test]
fn overlay_seeds_keep_their_promises_where_hosts_move() {
    use overlay_swarm::{BEGIN, FAULTS, HEAL, Scenario, at};
    let run = |seed| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "moved_seeds overlay";
        // Writers keep to their numbers, and others join by the founder.
        let first = scenario.writers.min(scenario.nodes - 1).max(1);
        let nodes: Vec<NodeId> = (first..scenario.nodes).map(NodeId::from).collect();
        let times = (at(BEGIN), at(FAULTS));
        let moves = Move::draw(&mut rng(seed), &nodes, times, Duration::from_secs(7));
        let count = moves.len() as u64;
        let addresses = with_moves(&mut scenario.acts, scenario.nodes, moves);
        let whereabouts = Whereabouts::new(at(FAULTS + HEAL), &addresses);
        let outcome = overlay_with(&scenario, &whereabouts)?;
        let held = whereabouts.moved_held();
        let held = held.map_err(|what| format!("{what}\nreplay: {}", scenario.replay()))?;
        Ok([outcome.outcomes, outcome.failed, count, held])
    };
    let (count, [outcomes, failed, moves, held]) = seeds::run_all(run);
    println!(
        "{count} seeds: {outcomes} outcomes, {failed} of them failures, {moves} moves, {held} \
         addresses held of hosts that moved"
    );
    if count >= 100 {
        assert!(outcomes > 100 * count && moves > count, "the seeds tested nothing");
        assert!(held > 10 * count, "the moves did not act");
    }
}
