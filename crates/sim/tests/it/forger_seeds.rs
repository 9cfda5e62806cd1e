//! The swarms beside forgers: strangers off the path that send well-formed messages, each field
//! true, nearly true or extreme, in the names of other nodes. The tests refuse what a driver on
//! sockets refuses: messages in the name of a node that this run of the receiver has met, since
//! only that node got the receiver's tag, and messages in the receiver's own name. This leaves the
//! names of nodes that have left permanently and that this run of the receiver has not met. The
//! promises are those of `group_stranger_seeds`, `overlay_stranger_seeds` and so on.
//!
//! Without keys a receiver cannot distinguish a node from a forger that takes its name before the
//! node starts, even in a fixed roster: forgers do not take such a name here. Neighbours of mircc
//! are addresses without names.
//!
//! Open: a member of a group that reaches no quorum believes a seed that says that the group went
//! on. A forger that takes the name of a departed seed makes the member join again without cause
//! (V1). So members of groups do not name a node that leaves permanently as a seed here.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::acts;
use crate::group_swarm;
use crate::overlay_swarm;
use crate::slingshot_swarm;
use crate::walk_swarm;

use std::time::Duration;

use acts::{Act, crash_for_good, gone, with_moves};
use paceline_check::lies::Known;
use paceline_check::moves::Move;
use paceline_check::{Forgers, LieTally, Lies, Verdict, seeds};
use paceline_proto::core::{Instant, Member, MembershipCommand, NodeId, Rng};
use paceline_proto::group::{self, Group};
use paceline_proto::overlay::{self, Overlay};
use paceline_proto::slingshot::{self, Slingshot};
use paceline_proto::walk::{self, Server};

/// The expected verdicts on forged messages.
const VERDICTS: [Verdict; 3] = [Verdict::Met, Verdict::Own, Verdict::Gone];

fn rng(seed: u64) -> Rng {
    Rng::new(seed, 0xf09e)
}

/// One of these nodes crashes permanently, and others restart later, so that they have not met it.
fn lose_one<A: Act>(
    rng: &mut Rng,
    acts: &mut Vec<(Instant, A)>,
    (nodes, may_go): (u32, &[NodeId]),
    (from, until): (Instant, Instant),
) {
    let goes = rng.below(may_go.len() as u32) as usize;
    let when = from + until.since(from).mul_f64(0.3 * rng.unit());
    let others: Vec<NodeId> = may_go.iter().copied().filter(|&it| it != may_go[goes]).collect();
    let times = (when + until.since(from).mul_f64(0.2), until);
    let moves = Move::draw(rng, &others, times, Duration::from_millis(500));
    with_moves(acts, nodes, moves);
    crash_for_good(acts, may_go[goes], when);
}

#[test]
fn group_seeds_keep_their_promises_beside_forgers() {
    use group_swarm::{FAULTS, Scenario, at};
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = rng(seed);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "forger_seeds group";
        scenario.strangers = 1 + rng.below(3);
        let nodes: Vec<NodeId> = (0..scenario.nodes).map(NodeId::from).collect();
        if nodes.len() >= 5 {
            let times = (at(2000), Instant::ZERO + FAULTS);
            lose_one(&mut rng, &mut scenario.acts, (scenario.nodes, &nodes), times);
        }
        let gone = gone(&mut scenario.acts, Duration::from_secs(5));
        for (_, act) in &mut scenario.acts {
            if let group_swarm::Act::Command(
                _,
                group::Command::Membership(MembershipCommand::Join { peers, .. }),
            ) = act
                && peers.iter().any(|peer| !gone.contains_key(peer))
            {
                peers.retain(|peer| !gone.contains_key(peer));
            }
        }
        let lies = Lies::draw(&mut rng, [2_000, 10_000, 50_000], Instant::MAX);
        let forgers = Forgers::new(scenario.nodes, Known::default(), lies, gone);
        scenario.gate = forgers.gate();
        let (config, all) = (scenario.config.clone(), forgers.clone());
        let outcome = scenario.run(move |node| all.wrap(node, Group::new(&config)))?;
        tally.add_forgers(&forgers);
        Ok([outcome.deliveries, outcome.views, outcome.lies, u64::from(outcome.is_lost)])
    };
    let (count, [deliveries, views, lies, lost]) = seeds::run_all(run);
    println!("{count} seeds: {deliveries} deliveries, {views} views, {lies} lies, {lost} lost");
    tally.assert_forged::<group::Message>(count, lies, 500, &VERDICTS);
    assert!(count < 100 || lost < count / 4, "{lost} of {count} groups were lost for good");
    assert!(count < 100 || deliveries > 100 * count, "the seeds tested nothing");
}

fn overlay_with(
    scenario: &mut overlay_swarm::Scenario,
    lies: Lies,
    tally: &LieTally,
) -> Result<overlay_swarm::Outcome, String> {
    let known = Known { keys: scenario.keys(), ..Known::default() };
    let gone = gone(&mut scenario.acts, Duration::from_secs(10));
    let forgers = Forgers::new(scenario.nodes, known, lies, gone);
    scenario.gate = forgers.gate();
    let (config, all) = (scenario.config.clone(), forgers.clone());
    let outcome = scenario.run(move |node| all.wrap(node, Overlay::new(&config, node)))?;
    tally.add_forgers(&forgers);
    Ok(outcome)
}

#[test]
fn overlay_seeds_keep_their_promises_beside_forgers() {
    use overlay_swarm::{BEGIN, FAULTS, Scenario, at};
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = rng(seed);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "forger_seeds overlay";
        scenario.strangers = 1 + rng.below(3);
        let first = scenario.writers.min(scenario.nodes - 1).max(1);
        let nodes: Vec<NodeId> = (first..scenario.nodes).map(NodeId::from).collect();
        if nodes.len() >= 3 {
            let times = (at(BEGIN), at(FAULTS));
            lose_one(&mut rng, &mut scenario.acts, (scenario.nodes, &nodes), times);
        }
        let lies = Lies::draw(&mut rng, [50_000, 200_000, 1_000_000], at(FAULTS));
        let outcome = overlay_with(&mut scenario, lies, &tally)?;
        Ok([outcome.outcomes, outcome.failed, outcome.lies])
    };
    let (count, [outcomes, failed, lies]) = seeds::run_all(run);
    println!("{count} seeds: {outcomes} outcomes, {failed} of them failures, {lies} lies");
    tally.assert_forged::<overlay::Message>(count, lies, 100, &VERDICTS);
    assert!(count < 100 || outcomes > 100 * count, "the seeds tested nothing");
    assert!(count < 100 || failed < outcomes / 10, "{failed} of {outcomes} failed");
}

/// Knows a node that is gone since the beginning.
fn note_gone(known: &mut Known, node: NodeId) -> [(NodeId, Instant); 1] {
    known.note(Member { node, incarnation: 1 });
    [(node, Instant::ZERO)]
}

#[test]
fn walk_seeds_keep_their_promises_beside_forgers() {
    use walk_swarm::{FAULTS_MS, Scenario, at};
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = rng(seed);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "forger_seeds walk";
        let forgers = 1 + rng.below(3);
        // The last one is a client that was here before.
        scenario.strangers = forgers + 1;
        let lies = Lies::draw(&mut rng, [2_000, 5_000, 20_000], at(2 * FAULTS_MS));
        let mut known = scenario.known();
        let gone = note_gone(&mut known, NodeId::from(scenario.nodes() + forgers));
        let forgers = Forgers::new(scenario.nodes(), known, lies, gone);
        scenario.gate = forgers.gate();
        let make = |node, config, part| {
            let server = Server::new(config, part).expect("what is drawn is possible");
            forgers.wrap(node, server)
        };
        let outcome = scenario.run_with(make)?;
        tally.add_forgers(&forgers);
        Ok([outcome.totals.finished, outcome.totals.ended, outcome.lies])
    };
    let (count, [finished, ended, lies]) = seeds::run_all(run);
    println!("{count} seeds: {finished} walks, {ended} jobs, {lies} lies");
    tally.assert_forged::<walk::Message>(count, lies, 30, &VERDICTS);
    assert!(count < 100 || finished > 10 * count && ended > count, "the seeds tested nothing");
}

#[test]
fn slingshot_seeds_keep_their_promises_beside_forgers() {
    use slingshot_swarm::{FAULTS_MS, GROUPS, Scenario, at};
    let tally = LieTally::default();
    let run = |seed| {
        let mut rng = rng(seed);
        let mut scenario = Scenario { rogue: None, ..Scenario::draw(seed) };
        scenario.suite = "forger_seeds slingshot";
        let forgers = 1 + rng.below(3);
        // The last one was a member in an earlier view.
        scenario.strangers = forgers + 1;
        let lies = Lies::draw(&mut rng, [500, 2_000, 20_000], at(2 * FAULTS_MS));
        let view = scenario.config.roster().id().0;
        let mut known = Known { view, groups: GROUPS, ..Known::default() };
        let gone = note_gone(&mut known, NodeId::from(scenario.nodes() + forgers));
        let forgers = Forgers::new(scenario.nodes(), known, lies, gone);
        scenario.gate = forgers.gate();
        let outcome =
            scenario.run_with(|node| forgers.wrap(node, Slingshot::new(&scenario.config)))?;
        tally.add_forgers(&forgers);
        Ok([outcome.totals.direct, outcome.totals.recovered, outcome.lies])
    };
    let (count, [direct, recovered, lies]) = seeds::run_all(run);
    println!("{count} seeds: {direct} direct, {recovered} recovered, {lies} lies");
    tally.assert_forged::<slingshot::Message>(count, lies, 100, &VERDICTS);
    assert!(count < 100 || direct > 100 * count && recovered > 0, "the members sent nothing");
}
