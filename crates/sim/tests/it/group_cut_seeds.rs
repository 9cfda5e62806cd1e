//! Groups where links are cut permanently, in addition to the faults of `group_seeds`. If a quorum
//! of the view is alive when the other faults end, and all links between its members work, then the
//! group goes on: the members with a primary are in one view, and each delivers all that is sent
//! after the faults. Without such a quorum the only promise is that no rule is broken.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::group_swarm;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use group_swarm::{Act, Application, FAULTS, HEAL, Scenario, at, honest, message};
use paceline_check::checkers::group::GroupLedger;
use paceline_check::cuts::{Cuts, SEVERED};
use paceline_check::{Swarm, seeds};
use paceline_proto::core::{Instant, Member, MembershipCommand, NodeId, Rng};
use paceline_proto::group::{Group, Role};
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
    let primary: Vec<NodeId> = (0..nodes).map(NodeId::from).filter(is_primary).collect();
    let last = primary.iter().map(|&node| sim.node(node).view().id()).max();
    primary.into_iter().filter(|&node| Some(sim.node(node).view().id()) == last).collect()
}

/// Whether a quorum of the newest view with a primary is alive and in it, and all links between its
/// members work.
fn has_linked_quorum(sim: &Sim<'_, Group>, nodes: u32, cuts: &Cuts) -> bool {
    let Some(&one) = survivors(sim, nodes).first() else { return false };
    let view = sim.node(one).view();
    let is_in = |&member: &Member| {
        let group = sim.node(member.node);
        sim.is_alive(member.node) && group.member() == member && group.view().id() == view.id()
    };
    let members = view.members().iter().copied().filter(is_in).map(|member| member.node);
    let linked = cuts.most_linked(&members.collect::<Vec<_>>());
    let is_half_with_oldest = linked.len() * 2 == view.len() && linked.contains(&view.node(0));
    linked.len() * 2 > view.len() || is_half_with_oldest
}

fn judge(ledger: &GroupLedger) -> Result<(), String> {
    ledger.violation().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// Messages severed, deliveries after the faults, whether the group had to go on, whether there was
/// a primary view, and whether most of the core was in it.
fn run(scenario: &Scenario, cuts: &Cuts) -> Result<[u64; 5], String> {
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
    sim.run_until(Instant::ZERO + FAULTS, &mut observers);
    let mut goes_on = has_linked_quorum(&sim, scenario.nodes, cuts);
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
    let delivered = observers.0.deliveries() - before;
    goes_on |= has_linked_quorum(&sim, scenario.nodes, cuts);
    if goes_on {
        observers.0.check_converged(&sim, &left).map_err(|violation| violation.to_string())?;
        if left.is_empty() || (left.len() > 1 && delivered < MESSAGES) {
            return Err(format!("{members:?}, then {left:?}: delivered only {delivered} messages"));
        }
    }
    let in_core = left.iter().filter(|node| cuts.core.contains(node)).count();
    let severed = sim.counters().count(SEVERED);
    let most = in_core * 2 > cuts.core.len();
    let [goes_on, primary, most] = [goes_on, !left.is_empty(), most].map(u64::from);
    Ok([severed, delivered, goes_on, primary, most])
}

#[test]
fn a_leader_that_hears_no_quorum_makes_way_for_others() {
    const NODES: u32 = 5;
    let mut scenario = Scenario::new(3, NODES);
    scenario.suite = "group_cut_seeds";
    let all = || (0..NODES).map(NodeId::from);
    let alone = |node| all().filter(move |&other| other != node).map(move |other| (other, node));
    // The oldest member is cut off, and the next one, which proposes then, hears the last one only:
    // by that it knows that all are there.
    let to_oldest = alone(NodeId(0));
    let from_oldest = alone(NodeId(0)).map(|(other, oldest)| (oldest, other));
    let to_next = alone(NodeId(1)).filter(|(from, _)| *from != NodeId::from(NODES - 1));
    let links = to_oldest.chain(from_oldest).chain(to_next).collect();
    let core = all().skip(2).collect();
    let cuts = Cuts { at: at(3000), links, core, is_partial: true };
    let [severed, delivered, goes_on, primary, most] =
        run(&scenario, &cuts).expect("no promise broken");
    assert!(severed > 0 && delivered >= 3 * 3 * MESSAGES, "{severed}, {delivered}");
    assert_eq!((goes_on, primary, most), (1, 1, 1));
}

/// The links of one of four members to the others, or from them, in each way in which some of them
/// can be cut; and another member leaves half of the time.
#[test]
fn three_of_four_go_on_whichever_links_the_fourth_lost() {
    const NODES: u32 = 4;
    for (fourth, ways) in (0..NODES).flat_map(|node| (1..64u32).map(move |ways| (node, ways))) {
        let seed = u64::from(64 * fourth + ways);
        let mut scenario = Scenario::new(seed, NODES).with_traffic(&mut Rng::new(seed, 1), 10);
        scenario.suite = "group_cut_seeds";
        let core: BTreeSet<NodeId> =
            (0..NODES).filter(|&node| node != fourth).map(NodeId::from).collect();
        let (mut links, fourth) = (BTreeSet::new(), NodeId::from(fourth));
        for (place, &other) in core.iter().enumerate() {
            for (way, link) in [(other, fourth), (fourth, other)].into_iter().enumerate() {
                if ways & 1 << (2 * place + way) != 0 {
                    links.insert(link);
                }
            }
        }
        if (fourth.index() as u32 + ways).is_multiple_of(2) {
            let leaver = *core.last().expect("there are three");
            scenario.acts.push((at(4000), Act::Command(leaver, MembershipCommand::Leave.into())));
        }
        let cuts = Cuts { at: at(3000), links, core, is_partial: true };
        let ran = run(&scenario, &cuts);
        let [severed, delivered, goes_on, ..] =
            ran.unwrap_or_else(|what| panic!("{what}\n{cuts:?}"));
        assert!(severed > 0 && delivered >= MESSAGES && goes_on == 1, "{delivered}, {cuts:?}");
    }
}

/// What a seed stands for; `None` if its group is too small to lose a member.
fn drawn(seed: u64) -> Option<(Scenario, Cuts)> {
    let mut scenario = Scenario::draw(seed);
    scenario.suite = "group_cut_seeds";
    let mut rng = Rng::new(seed, 0x5e7e);
    let when = at(3_000 + u64::from(rng.below(FAULTS.as_millis() as u32 - 3_000)));
    let cuts = Cuts::draw(&mut rng, scenario.nodes, when)?;
    Some((scenario, cuts))
}

/// Groups that once made no progress. A member waited for a silent one that it no longer suspected
/// because others heard it; or did not know that its view had ended; or did not watch a dead link
/// on which it had no credit. Or views followed each other without end: without the member that
/// wanted to leave, or because a member that hears no quorum ended each of them before the others
/// detected its dead links.
#[test]
fn groups_that_once_stood_still_go_on() {
    let found =
        [792, 1158, 1398, 1867, 1940, 2331, 4982, 7070, 9309, 11_121, 12_894, 15_022, 16_671];
    seeds::run_found(&found, |seed| {
        let (scenario, cuts) = drawn(seed).expect("three members or more");
        let [.., goes_on, _, _] = run(&scenario, &cuts)
            .map_err(|what| format!("{what}\nreplay: {}\n{cuts:?}", scenario.replay()))?;
        assert_eq!(goes_on, 1, "{seed}");
        Ok(())
    });
}

#[test]
fn seeds_go_on_among_those_that_are_left_where_links_are_cut_for_good() {
    let (count, [severed, delivered, goes_on, primary, most]) = seeds::run_all(|seed| {
        let Some((scenario, cuts)) = drawn(seed) else { return Ok([0; 5]) };
        seeds::caught(|| run(&scenario, &cuts))
            .map_err(|what| format!("{what}\nreplay: {}\n{cuts:?}", scenario.replay()))
    });
    println!(
        "{count} seeds: {severed} messages severed, {delivered} deliveries after the faults, \
         {goes_on} had to go on, {primary} with a primary view, {most} with most of the core"
    );
    assert!(count < 100 || severed > 100 * count, "the cuts did not act");
    assert!(count < 100 || delivered > 100 * count, "the seeds tested nothing");
    assert!(count < 100 || primary * 4 > count * 3, "{primary} of {count} had a primary view");
    assert!(count < 100 || goes_on * 4 > count * 3, "{goes_on} of {count} had to go on");
}
