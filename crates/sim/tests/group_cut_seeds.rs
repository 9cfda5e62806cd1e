//! Groups where links are cut for good, beside the faults of `group_seeds`. The members that are
//! left in a primary view go on: they are in one view, and each is told all that is sent after the
//! faults, but for messages of a member that reaches and hears some of the others only.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

mod group_swarm;

use std::sync::Arc;
use std::time::Duration;

use group_swarm::{Act, Application, FAULTS, HEAL, Scenario, at, honest, message};
use paceline_check::cuts::{Cuts, SEVERED};
use paceline_check::seeds;
use paceline_proto::core::{Instant, NodeId, Rng};
use paceline_proto::group::{Group, Role};
use paceline_sim::checkers::group::{GroupLedger, Rule};
use paceline_sim::{FaultSupport, Sim, SimConfig};

/// Messages of each member after the faults.
const MESSAGES: u64 = 20;
/// They are sent within this,
const LOAD: Duration = Duration::from_secs(2);
/// and all are delivered within this time and `answer_within` for each member. Members propose in
/// turn, `answer_within` apart, and every proposer but the last may fail to hear a quorum.
const REST: Duration = Duration::from_secs(20);

/// Members with a primary, in its newest view.
fn survivors(sim: &Sim<'_, Group>, nodes: u32) -> Vec<NodeId> {
    let is_primary = |&node: &NodeId| {
        let group = sim.node(node);
        sim.is_alive(node) && group.role() == Role::Member && group.has_primary()
    };
    let primary: Vec<NodeId> = (0..nodes).map(NodeId).filter(is_primary).collect();
    let last = primary.iter().map(|&node| sim.node(node).view().id()).max();
    primary.into_iter().filter(|&node| Some(sim.node(node).view().id()) == last).collect()
}

fn judge(ledger: &GroupLedger) -> Result<(), String> {
    ledger.violation().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// Messages severed, deliveries after the faults, whether there was a primary view, and whether
/// most of the core was in it.
fn run(scenario: &Scenario, cuts: &Cuts) -> Result<[u64; 4], String> {
    let mut config = SimConfig::new(scenario.nodes as usize, scenario.seed);
    config.network = scenario.network.clone();
    config.codec = scenario.codec;
    config.faults = FaultSupport::Any;
    let shared = Arc::new(scenario.config.clone());
    let mut sim = Sim::new(config, shared, honest(&scenario.config));
    for (when, act) in &scenario.acts {
        match act.clone() {
            Act::Command(node, command) => sim.command_at(*when, node, command),
            Act::Fault(fault) => sim.fault_at(*when, fault),
        }
    }
    for (when, fault) in cuts.faults() {
        sim.fault_at(when, fault);
    }
    let application = Application::new(scenario.seed);
    let mut observers = (GroupLedger::new(&scenario.config), application);
    sim.run_until(Instant::ZERO + FAULTS + HEAL, &mut observers);
    judge(&observers.0)?;
    let before = observers.0.deliveries();
    let members = survivors(&sim, scenario.nodes);
    for &node in &members {
        for number in 0..MESSAGES {
            let when = sim.now() + LOAD.mul_f64(number as f64 / MESSAGES as f64);
            sim.command_at(when, node, message(node, 1_000_000 + number, 1_000));
        }
    }
    let rest = REST + scenario.config.answer_within() * scenario.nodes;
    sim.run_until(Instant::ZERO + FAULTS + HEAL + LOAD + rest, &mut observers);
    judge(&observers.0)?;
    let left = survivors(&sim, scenario.nodes);
    if !members.is_empty()
        && let Err(violation) = observers.0.check_converged(&sim, &left)
        && (violation.rule != Rule::Validity || cuts.core.contains(&violation.node))
    {
        return Err(violation.to_string());
    }
    let delivered = observers.0.deliveries() - before;
    if left.len() > 1 && delivered < MESSAGES {
        return Err(format!("{members:?}, then {left:?}: told of {delivered} messages only"));
    }
    let in_core = left.iter().filter(|node| cuts.core.contains(node)).count();
    let severed = sim.counters().count(SEVERED);
    let most = in_core * 2 > cuts.core.len();
    Ok([severed, delivered, u64::from(!left.is_empty()), u64::from(most)])
}

#[test]
fn a_leader_that_hears_no_quorum_makes_way_for_others() {
    const NODES: u32 = 5;
    let mut scenario = Scenario::new(3, NODES);
    scenario.suite = "group_cut_seeds";
    let all = || (0..NODES).map(NodeId);
    let alone = |node| all().filter(move |&other| other != node).map(move |other| (other, node));
    // The oldest member is cut off, and the next one, which proposes then, hears the last one only:
    // by that it knows that all are there.
    let to_oldest = alone(NodeId(0));
    let from_oldest = alone(NodeId(0)).map(|(other, oldest)| (oldest, other));
    let to_next = alone(NodeId(1)).filter(|(from, _)| from.0 != NODES - 1);
    let links = to_oldest.chain(from_oldest).chain(to_next).collect();
    let core = all().skip(2).collect();
    let cuts = Cuts { at: at(3000), links, core, is_partial: true };
    let [severed, delivered, primary, most] = run(&scenario, &cuts).expect("no promise broken");
    assert!(severed > 0 && delivered >= 3 * 3 * MESSAGES, "{severed}, {delivered}");
    assert_eq!((primary, most), (1, 1));
}

#[test]
fn seeds_go_on_among_those_that_are_left_where_links_are_cut_for_good() {
    let (count, [severed, delivered, primary, most]) = seeds::run_all(|seed| {
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "group_cut_seeds";
        let mut rng = Rng::new(seed, 0x5e7e);
        let when = at(3_000 + u64::from(rng.below(FAULTS.as_millis() as u32 - 3_000)));
        let Some(cuts) = Cuts::draw(&mut rng, scenario.nodes, when) else {
            return Ok([0; 4]);
        };
        seeds::caught(|| run(&scenario, &cuts))
            .map_err(|what| format!("{what}\nreplay: {}\n{cuts:?}", scenario.replay()))
    });
    println!(
        "{count} seeds: {severed} messages severed, {delivered} deliveries after the faults, \
         {primary} with a primary view, {most} with most of the core"
    );
    assert!(count < 100 || severed > 100 * count, "the cuts did not act");
    assert!(count < 100 || delivered > 100 * count, "the seeds tested nothing");
    assert!(count < 100 || primary * 4 > count * 3, "{primary} of {count} had a primary view");
}
