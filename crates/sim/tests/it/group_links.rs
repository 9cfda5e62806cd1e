//! Permanently cut links between members, in one direction or both, while every other link works:
//! the group continues without one end of the link.
//!
//! Runs end with the cut in force, so that nothing but the group itself can repair it.
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the first
//! one.

use crate::group_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use group_swarm::{Act, Application, Scenario, at, config, honest, join, message};
use paceline_check::checkers::group::{GroupLedger, Host};
use paceline_check::{Swarm, Tamper, Wrapped, seeds};
use paceline_proto::chain;
use paceline_proto::core::{Context, Instant, NodeId, Protocol, Rng};
use paceline_proto::group::{Event, Group, Message, Refusal, Role};
use paceline_sim::{Fault, FaultSupport, Observer, Reply, Shape, Sim, SimConfig};

/// The longest time for which remaining members deliver nothing from an origin: the time until a
/// link counts as dead, and the time to agree on a view.
const STALL_MAX: Duration = Duration::from_secs(7);
/// How long the load continues after the cut: several times as long as the stall.
const LOAD: Duration = Duration::from_secs(15);
/// Within this time after the load, all messages arrive.
const REST: Duration = Duration::from_secs(5);

/// When each member last delivered from each origin, and the longest time without a delivery, since
/// the cut.
#[derive(Default)]
struct Stalls {
    cut_at: Option<Instant>,
    recorded: BTreeMap<(NodeId, NodeId), (Instant, Duration)>,
    refusals: Vec<(Instant, NodeId, Refusal)>,
}

impl Stalls {
    fn longest(&self, member: NodeId, origin: NodeId, until: Instant) -> Duration {
        let cut_at = self.cut_at.unwrap_or_default();
        let (last, longest) =
            self.recorded.get(&(member, origin)).copied().unwrap_or((cut_at, Duration::ZERO));
        longest.max(until.since(last))
    }
}

impl Observer<Group> for Stalls {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<Group>) {
        match event {
            Event::Delivered { origin, .. } => {
                let Some(cut_at) = self.cut_at else { return };
                let (last, longest) =
                    self.recorded.entry((node, *origin)).or_insert((cut_at, Duration::ZERO));
                *longest = at.since(*last).max(*longest);
                *last = at;
            }
            Event::JoinRefused { refusal } => self.refusals.push((at, node, *refusal)),
            _ => {}
        }
    }
}

/// A group under load, and one link of its ring that is cut.
struct Cut {
    scenario: Scenario,
    senders: Vec<NodeId>,
    at: Instant,
    // The rank of the sender's end in the view then, the other end being its successor.
    rank: usize,
    is_backward: bool,
    is_both_ways: bool,
}

/// What a run did.
struct Ran {
    // Of any survivor, of any origin that survives.
    stall: Duration,
    left: usize,
    // Views that began after the cut.
    views: u64,
    dropped: u64,
    dead: u64,
    deliveries: u64,
    violation: Option<String>,
}

impl Cut {
    fn draw(seed: u64) -> Cut {
        let mut rng = Rng::new(seed, 0x11_4c);
        let nodes = 3 + rng.below(6);
        let mut scenario = Scenario::new(seed, nodes);
        scenario.suite = "group_links";
        if rng.chance(0.5) {
            scenario.network.shape = Shape::Star;
        }
        scenario.network.link.delay = Duration::from_micros(u64::from(rng.below(2000)));
        scenario.network.link.jitter = Duration::from_micros(u64::from(rng.below(1000)));
        let cut_at = 3000 + u64::from(rng.below(3000));
        let mut senders: Vec<NodeId> =
            (0..nodes).filter(|_| rng.chance(0.7)).map(NodeId::from).collect();
        if senders.is_empty() {
            senders.push(NodeId::from(rng.below(nodes)));
        }
        for &node in &senders {
            let every = 20 + u64::from(rng.below(30));
            let bytes = [12, 1000, 4000, 6000][rng.below(4) as usize];
            let times = (1500..cut_at + LOAD.as_millis() as u64).step_by(every as usize);
            for (number, when) in (0..).zip(times) {
                scenario.acts.push((at(when), Act::Command(node, message(node, number, bytes))));
            }
        }
        Cut {
            scenario,
            senders,
            at: at(cut_at),
            rank: rng.below(nodes) as usize,
            is_backward: rng.chance(0.5),
            is_both_ways: rng.chance(0.2),
        }
    }

    /// The same with members that do not watch their links.
    fn unwatched(self) -> Cut {
        Cut { scenario: self.scenario.unwatched(), ..self }
    }

    fn run(&self) -> Result<Ran, String> {
        let Scenario { ref config, nodes, seed, .. } = self.scenario;
        let mut sim = simulated(&self.scenario);
        let application = (Application::new(seed), Stalls::default());
        let mut observers = (GroupLedger::new(config), application);
        sim.run_until(self.at, &mut observers);
        let view = sim.node(NodeId(0)).group_view();
        if view.len() != nodes as usize {
            return Err(format!("{view:?} before the cut"));
        }
        let (a, b) = (view[self.rank], view[(self.rank + 1) % view.len()]);
        let (from, to) = if self.is_backward { (b, a) } else { (a, b) };
        sim.fault_at(self.at, Fault::Block(from, to));
        if self.is_both_ways {
            sim.fault_at(self.at, Fault::Block(to, from));
        }
        observers.1.1.cut_at = Some(self.at);
        let views = observers.0.views().count();
        let loaded = self.at + LOAD;
        sim.run_until(loaded, &mut observers);
        let stays = |&node: &NodeId| {
            let group = sim.node(node);
            group.role() == Role::Member && group.has_primary()
        };
        let primary: Vec<NodeId> = (0..nodes).map(NodeId::from).filter(stays).collect();
        // One that does not know yet that it was left out is in an older view.
        let last = primary.iter().map(|&node| sim.node(node).view().id()).max();
        let survivors: Vec<NodeId> =
            primary.into_iter().filter(|&node| Some(sim.node(node).view().id()) == last).collect();
        let mut stall = Duration::ZERO;
        for &member in &survivors {
            for origin in self.senders.iter().filter(|origin| survivors.contains(origin)) {
                stall = stall.max(observers.1.1.longest(member, *origin, loaded));
            }
        }
        sim.run_until(loaded + REST, &mut observers);
        let ledger = &observers.0;
        let broken = ledger.violation().map(ToString::to_string);
        let settled = ledger.check_converged(&sim, &survivors).map_err(|broken| broken.to_string());
        Ok(Ran {
            stall,
            left: survivors.len(),
            views: (ledger.views().count() - views) as u64,
            dropped: sim.counters().count("sim_partitioned"),
            dead: sim.counters().count("group_link_dead"),
            deliveries: ledger.deliveries(),
            violation: broken.or(settled.err()),
        })
    }

    fn describe(&self) -> String {
        let Cut { scenario, at, rank, is_backward, is_both_ways, senders } = self;
        format!(
            "replay: {}\n{} nodes, {senders:?} send, at {at} the link from rank {rank} is cut, \
             backward {is_backward}, both ways {is_both_ways}",
            scenario.replay(),
            scenario.nodes
        )
    }

    /// Whether the group kept its promises and went on.
    fn judge(&self) -> Result<Ran, String> {
        let nodes = self.scenario.nodes as usize;
        let judged = seeds::caught(|| {
            let ran = self.run()?;
            if let Some(violation) = ran.violation {
                return Err(violation);
            }
            if ran.dropped == 0 {
                return Err("the cut did not act".to_owned());
            }
            if ran.stall > STALL_MAX {
                return Err(format!("told nothing for {:?}", ran.stall));
            }
            if ran.left + 1 < nodes {
                return Err(format!("{} of {nodes} members are left", ran.left));
            }
            // Who was left out does not come back only to die again.
            if ran.views > 2 {
                return Err(format!("{} views after the cut", ran.views));
            }
            Ok(ran)
        });
        judged.map_err(|what| format!("{what}\n{}", self.describe()))
    }
}

fn simulated(scenario: &Scenario) -> Sim<'static, Group> {
    simulated_with(scenario, honest(&scenario.config))
}

fn simulated_with<P: Host>(
    scenario: &Scenario,
    make: impl FnMut(NodeId) -> P + Send + 'static,
) -> Sim<'static, P> {
    let mut sim_config = SimConfig::new(scenario.nodes as usize, scenario.seed);
    sim_config.network = scenario.network.clone();
    sim_config.faults = FaultSupport::Any;
    let shared = Arc::new(scenario.config.clone());
    let mut sim = Sim::new(sim_config, shared, make);
    for (when, act) in &scenario.acts {
        match act.clone() {
            Act::Command(node, command) => sim.command_at(*when, node, command),
            Act::Fault(fault) => sim.fault_at(*when, fault),
        }
    }
    sim
}

trait GroupView {
    /// The nodes of the view, by rank.
    fn group_view(&self) -> Vec<NodeId>;
}

impl GroupView for Group {
    fn group_view(&self) -> Vec<NodeId> {
        self.view().members().iter().map(|member| member.node).collect()
    }
}

#[test]
fn seeds_go_on_without_one_end_of_a_link_that_is_cut_for_good() {
    let (count, totals) = seeds::run_all(|seed| {
        let cut = Cut::draw(seed);
        let ran = cut.judge()?;
        let left_out = cut.scenario.nodes as u64 - ran.left as u64;
        Ok([ran.deliveries, ran.dropped, ran.dead, left_out])
    });
    let [deliveries, dropped, dead, left_out] = totals;
    println!(
        "{count} seeds: {deliveries} deliveries, {dropped} messages stopped by cuts, {dead} links \
         reported dead, {left_out} members left out"
    );
    assert!(count < 100 || left_out * 10 > count * 9, "the cuts cost {left_out} members");
}

#[test]
fn a_group_that_does_not_watch_its_links_stands_still() {
    let still = (0..40).filter(|&seed| {
        let ran = Cut::draw(seed).unwatched().run();
        ran.is_ok_and(|ran| ran.stall > LOAD / 2)
    });
    let still = still.count();
    println!("{still} of 40 seeds stood still");
    assert!(still >= 20, "the cuts are harmless: {still} of 40 seeds stood still");
}

/// A group of four under load until `until`, and the link from rank 1 to rank 2 that is cut after
/// three seconds.
fn four(until: u64) -> Scenario {
    let mut scenario = Scenario::new(1, 4);
    // One after the other, so that ranks are known.
    for node in 1..4 {
        scenario.acts[node as usize] = (at(300 * node), Act::Command(NodeId(node), join([0])));
    }
    for node in (0..4).map(NodeId) {
        for (number, when) in (0..).zip((1500..until).step_by(40)) {
            scenario.acts.push((at(when), Act::Command(node, message(node, number, 2000))));
        }
    }
    scenario.acts.push((at(3000), Act::Fault(Fault::Block(NodeId(1), NodeId(2)))));
    scenario
}

/// How many messages each member delivered.
#[derive(Default)]
struct Recorder(BTreeMap<NodeId, u32>);

impl<P: Protocol<Event = Event>> Observer<P> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        if matches!(event, Event::Delivered { .. }) {
            *self.0.entry(node).or_default() += 1;
        }
    }
}

/// Puts something else in the place of the first block of node 2 that this member passes on.
struct Spoil(bool);

impl Tamper<Group> for Spoil {
    fn tamper(&mut self, group: &mut Group, cx: &mut Context<'_, Group>) {
        let is_of_two = |origin: u32| group.view().node(origin as usize) == NodeId(2);
        for send in &mut cx.outbox.sends {
            if let Message::Chain(chain::Message::Data(frame)) = &mut send.message
                && !self.0
                && is_of_two(frame.origin)
            {
                frame.incarnation ^= 1;
                self.0 = true;
            }
        }
    }
}

#[test]
fn a_block_that_a_member_did_not_pass_on_comes_with_the_next_view() {
    let mut scenario = four(0);
    scenario.acts.retain(|(_, act)| !matches!(act, Act::Fault(_)));
    for number in 0..3u64 {
        let when = at(2000 + 100 * number);
        scenario.acts.push((when, Act::Command(NodeId(2), message(NodeId(2), number, 100))));
    }
    // The ring goes from node 2 over 3 and 0 to 1.
    for (spoils, views) in [(None, 0), (Some(3), 1), (Some(0), 1)] {
        let config = scenario.config.clone();
        let spoil = move |node: NodeId| (Some(node.0) == spoils).then_some(Spoil(false));
        let make = move |node| Wrapped::new(Group::new(&config), spoil(node));
        let mut sim = simulated_with(&scenario, make);
        let mut observers = (Application::new(1), Recorder::default());
        sim.run_until(at(2500), &mut observers);
        let before = sim.node(NodeId(1)).group().view().id();
        sim.run_until(at(30_000), &mut observers);
        let recorded = &observers.1.0;
        assert!(
            (0..4).all(|node| recorded.get(&NodeId(node)) == Some(&3)),
            "{spoils:?}: {recorded:?}"
        );
        let after = sim.node(NodeId(1)).group().view();
        assert_eq!((after.id().0 - before.0, after.len()), (views, 4), "{spoils:?}");
        assert_eq!(sim.counters().count("group_block_lost"), views);
    }
}

#[test]
fn a_member_that_was_left_out_is_told_why_and_is_back_once_the_link_works() {
    let scenario = four(24_000);
    let mut sim = simulated(&scenario);
    sim.fault_at(at(20_000), Fault::Heal);
    let observers = (Application::new(1), Stalls::default());
    let mut observers = (GroupLedger::new(&scenario.config), observers);
    sim.run_until(at(19_900), &mut observers);
    let nodes = |sim: &Sim<'_, Group>| sim.node(NodeId(0)).group_view();
    assert_eq!(nodes(&sim), [0, 1, 3].map(NodeId));
    assert_eq!(sim.node(NodeId(2)).role(), Role::Joining);
    let refusals = &observers.1.1.refusals;
    let refusal = Refusal::LinkDead { peer: NodeId(1) };
    let says_why = |&(_, node, why): &(Instant, NodeId, Refusal)| node.0 == 2 && why == refusal;
    assert!(refusals.len() > 10 && refusals.iter().all(says_why), "{refusals:?}");
    let counters = sim.counters();
    assert_eq!(counters.count("group_left_out"), 3, "each member that goes on says so");
    let dead = counters.count("group_link_dead");
    assert!(
        (1..=2).contains(&dead),
        "its two ends report it, once each, and no other member: \
        {dead}"
    );

    sim.run_until(at(21_500), &mut observers);
    assert_eq!(nodes(&sim), [0, 1, 3, 2].map(NodeId));
    sim.run_until(at(30_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    assert_eq!(sim.counters().count("group_left_out"), 3);
    let all = [0, 1, 3, 2].map(NodeId);
    observers.0.check_converged(&sim, &all).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn a_link_that_heals_at_once_still_keeps_the_member_out_for_its_time() {
    let scenario = four(16_000);
    let mut sim = simulated(&scenario);
    let observers = (Application::new(1), Stalls::default());
    let mut observers = (GroupLedger::new(&scenario.config), observers);
    let is_left_out = |sim: &Sim<'_, Group>| sim.counters().count("group_left_out") > 0;
    let mut left_out_at = at(3000);
    while !is_left_out(&sim) {
        assert!(left_out_at < at(12_000), "no member was left out");
        left_out_at += Duration::from_millis(10);
        sim.run_until(left_out_at, &mut observers);
    }
    sim.fault_at(left_out_at, Fault::Heal);
    sim.run_until(left_out_at + Duration::from_millis(4900), &mut observers);
    assert_eq!(sim.node(NodeId(0)).group_view(), [0, 1, 3].map(NodeId));
    sim.run_until(left_out_at + Duration::from_millis(6500), &mut observers);
    assert_eq!(sim.node(NodeId(0)).group_view(), [0, 1, 3, 2].map(NodeId));
    assert_eq!(observers.0.violation(), None);
}

/// An origin whose first block does not reach a member, because a link further on is dead, gets an
/// answer all the same: its own link to that member works.
#[test]
fn an_origin_accuses_no_member_that_its_blocks_do_not_reach() {
    let mut scenario = four(1500);
    for (number, when) in (0..).zip((3500..12_000).step_by(40)) {
        let command = message(NodeId(3), number, 2000);
        scenario.acts.push((at(when), Act::Command(NodeId(3), command)));
    }
    let mut sim = simulated(&scenario);
    let mut observers = (GroupLedger::new(&scenario.config), Application::new(1));
    sim.run_until(at(8_000), &mut observers);
    assert_eq!(sim.counters().count("group_link_dead"), 0);
    sim.run_until(at(14_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    assert_eq!(sim.node(NodeId(0)).group_view(), [0, 1, 3].map(NodeId));
    assert_eq!(sim.counters().count("group_link_dead"), 1, "the end that forwards says so");
}

/// What an origin sent last is with no other member. When the view ends for another reason its
/// successor cannot fetch that from it, but from the proposer.
#[test]
fn a_flush_goes_round_a_link_that_is_dead() {
    let scenario = four(16_000);
    let mut sim = simulated(&scenario);
    let observers = (Application::new(1), Stalls::default());
    let mut observers = (GroupLedger::new(&scenario.config), observers);
    sim.fault_at(at(3500), Fault::Crash(NodeId(3)));
    // Without the proposer's help it would be silent for `answer_within`, 2 s.
    sim.run_until(at(5400), &mut observers);
    assert_eq!(sim.node(NodeId(0)).group_view(), [0, 1, 2].map(NodeId));
    assert!(sim.counters().count("group_fetch_missed") < 20);
    sim.run_until(at(16_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    assert_eq!(sim.node(NodeId(0)).group_view(), [0, 1].map(NodeId));
}

#[test]
fn two_members_have_nobody_to_say_which_of_them_is_at_fault_but_the_detector() {
    let mut scenario = Scenario::new(1, 2);
    for (number, when) in (0..).zip((1500..20_000).step_by(40)) {
        for node in (0..2).map(NodeId) {
            scenario.acts.push((at(when), Act::Command(node, message(node, number, 2000))));
        }
    }
    scenario.acts.push((at(3000), Act::Fault(Fault::Block(NodeId(0), NodeId(1)))));
    let mut sim = simulated(&scenario);
    let mut observers = (GroupLedger::new(&scenario.config), Application::new(1));
    sim.run_until(at(20_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    assert_eq!(sim.node(NodeId(0)).group_view(), [NodeId(0)], "half, with the oldest");
    assert!(!sim.node(NodeId(1)).has_primary());
    assert_eq!(sim.counters().count("group_left_out"), 0);
}

/// Reads at once, but for one node, which reads nothing.
struct Idler(NodeId);

impl Observer<Group> for Idler {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<Group>) {
        use paceline_proto::group::Command;
        match event {
            Event::Delivered { view, origin, end, .. } if node != self.0 => {
                let consumed = Command::Consumed { view: *view, origin: *origin, end: *end };
                reply.command(Duration::ZERO, node, consumed);
            }
            Event::Direct { from, end, .. } if node != self.0 => {
                reply.command(
                    Duration::ZERO,
                    node,
                    Command::ConsumedDirect { from: *from, end: *end },
                );
            }
            _ => {}
        }
    }
}

/// Windows are closed for half a minute, and no link is dead.
#[test]
fn a_member_whose_application_reads_nothing_is_not_left_out() {
    let mut scenario = Scenario::new(1, 4);
    for node in (0..4).map(NodeId) {
        for (number, when) in (0..).zip((1500..31_000).step_by(100)) {
            scenario.acts.push((at(when), Act::Command(node, message(node, number, 4000))));
        }
    }
    scenario.config = config();
    let mut sim = simulated(&scenario);
    let mut observers = (GroupLedger::new(&scenario.config), Idler(NodeId(2)));
    sim.run_until(at(1500), &mut observers);
    // To the reader that stands still, more than a window and what may wait.
    let idler = sim.node(NodeId(2)).member();
    for node in [0, 1, 3].map(NodeId) {
        for ticket in 1..40 {
            sim.command_at(at(1600 + ticket), node, group_swarm::direct(node, idler, ticket, 4000));
        }
    }
    sim.run_until(at(32_000), &mut observers);
    assert_eq!(observers.0.violation(), None);
    assert_eq!(sim.node(NodeId(0)).group_view().len(), 4);
    let waits = sim.node(NodeId(0)).chain().messages_waiting();
    assert!(waits > 200, "the window did not close: {waits} messages wait");
    assert!(sim.node(NodeId(0)).direct_bytes_queued(NodeId(2)) > 0);
    assert_eq!(sim.counters().count("group_link_dead"), 0);
}
