//! Overlays in which a few members turn rogue for a while, as in `group_rogue_seeds`. They write
//! under any key.
//!
//! Meanwhile no node panics, and the state of nodes stays within its bounds. Ten seconds after the
//! end the other nodes write under keys that the rogue nodes knew all along, and each other node
//! reads what was written; some time later all tables are right.

use crate::overlay_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use overlay_swarm::{Act, Scenario, algorithm_of, at, join};
use paceline_check::checkers::overlay::Host;
use paceline_check::checkers::tables;
use paceline_check::lies::Known;
use paceline_check::{Conduct, LieTally, Misdeed, Rogues, seeds};
use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Payload, Rng};
use paceline_proto::overlay::{
    Command, Event, Item, Key, Message, Operation, Oracle, Outcome, Overlay, Style,
};
use paceline_sim::{Codec, Fault, FaultSupport, Observer, Reply, Sim, SimConfig};

/// The others write so long after the rogue nodes stop,
const AGREE: Duration = Duration::from_secs(10);
/// read so long after that,
const WRITTEN: Duration = Duration::from_secs(5);
/// and have read by then.
const READ: Duration = Duration::from_secs(5);
/// By then tables are right.
const HEALED: Duration = Duration::from_secs(10);
/// Most messages whose answer a node waits for, and bytes and records that it stores.
const IN_FLIGHT: usize = 512;
const STORE_BYTES: usize = 1 << 20;
const STORE_RECORDS: usize = 2_000;

/// A run, wholly drawn from its seed.
struct World {
    scenario: Scenario,
    rogues: Rogues,
    honest: Vec<NodeId>,
    until: Instant,
}

/// The key under which a node writes before the others turn rogue, or after it.
fn key_of(node: NodeId, is_late: bool) -> Key {
    Key::of(&[&node.0.to_be_bytes()[..], &[u8::from(is_late)]].concat())
}

fn put(node: NodeId, is_late: bool) -> Command {
    let value = Payload::from(key_of(node, is_late).to_bytes().to_vec());
    let item = Item { key: key_of(node, is_late), value, lifetime: Duration::from_secs(600) };
    let operation = Operation::Put(vec![item]);
    Command::Request { id: u64::from(is_late), operation, style: Style::Recursive }
}

impl World {
    fn draw(seed: u64) -> World {
        let mut rng = Rng::new(seed, 0x409e);
        let nodes = 4 + rng.below(8);
        let mut scenario = Scenario::new(seed, algorithm_of(seed), nodes);
        scenario.suite = "overlay_rogue_seeds";
        scenario.config = scenario
            .config
            .with_copies(1 + rng.below(4) as usize)
            .with_in_flight_max(IN_FLIGHT)
            .with_store_bytes_max(STORE_BYTES)
            .with_store_records_max(STORE_RECORDS);
        if rng.chance(0.5) {
            scenario.codec = Codec::CheckWire;
        }
        let from = 4000 + u64::from(rng.below(2000));
        let until = from + 1000 + u64::from(rng.below(6000));
        for (when, act) in scenario.acts.iter_mut().skip(1) {
            if let Act::Command(node, _) = *act
                && rng.chance(0.2)
            {
                *when = at(from + u64::from(rng.below((until - from) as u32)));
                *act = Act::Command(
                    node,
                    join((0..nodes).filter(|&other| NodeId::from(other) != node)),
                );
            }
        }
        let mut honest: Vec<NodeId> = (0..nodes).map(NodeId::from).collect();
        let count = 1 + rng.below(nodes / 5 + 1);
        let rogues: Vec<NodeId> =
            (0..count).map(|_| honest.remove(rng.below(honest.len() as u32) as usize)).collect();
        if rng.chance(0.5) {
            let link = LinkFaults {
                delay: Duration::from_micros(u64::from(rng.below(10_000))),
                jitter: Duration::from_micros(u64::from(rng.below(10_000))),
                loss: Loss::Independent(rng.unit() * 0.1),
                ..LinkFaults::default()
            };
            let act = |link| Act::Fault(Fault::Link { from: None, to: None, link });
            scenario.acts.push((at(from), act(link)));
            let link = LinkFaults { delay: Duration::from_millis(1), ..LinkFaults::default() };
            scenario.acts.push((at(until), act(link)));
        }
        for &node in &honest {
            scenario.acts.push((at(from - 1000), Act::Command(node, put(node, false))));
        }
        for &node in &rogues {
            if rng.chance(0.5) {
                scenario.acts.push((at(until), Act::Fault(Fault::Crash(node))));
            }
        }
        let conduct = Conduct::draw(&mut rng, at(from), at(until));
        let keys = honest.iter().flat_map(|&node| [key_of(node, false), key_of(node, true)]);
        let known = Known { keys: keys.collect(), ..Known::default() };
        World { scenario, rogues: Rogues::new(rogues, known, conduct), honest, until: at(until) }
    }

    fn run(&self) -> Result<[u64; 3], String> {
        let scenario = &self.scenario;
        let mut config = SimConfig::new(scenario.nodes as usize, scenario.seed);
        config.network = scenario.network.clone();
        config.codec = scenario.codec;
        config.faults = FaultSupport::Any;
        let shared = scenario.config.clone().build().map_err(|error| error.to_string())?;
        let (overlay, rogues) = (shared.clone(), self.rogues.clone());
        let make = move |node| rogues.wrap(node, Overlay::new(&overlay, node));
        let mut sim = Sim::new(config, Arc::new(shared), make);
        for (when, act) in &scenario.acts {
            match act.clone() {
                Act::Command(node, command) => sim.command_at(*when, node, command),
                Act::Fault(fault) => sim.fault_at(*when, fault),
            }
        }
        let mut recorded = Recorder { honest: self.honest.clone(), ..Recorder::default() };
        sim.run_until(self.until + AGREE, &mut recorded);
        if let Some(node) = self.honest.iter().find(|&&node| !sim.node(node).overlay().is_member())
        {
            return Err(format!("{node} is no member: {:?}", sim.node(*node).overlay().role()));
        }
        for &node in &self.honest {
            sim.command_at(sim.now(), node, put(node, true));
        }
        sim.run_until(self.until + AGREE + WRITTEN, &mut recorded);
        for &node in &self.honest {
            let key = key_of(node, true);
            let outcome = recorded.outcomes.get(&(node, key));
            if !matches!(outcome, Some(Outcome::Stored { .. })) {
                return Err(format!("{node} wrote {key}: {outcome:?}"));
            }
        }
        recorded.outcomes.clear();
        let keys: Vec<Key> = self.honest.iter().map(|&node| key_of(node, true)).collect();
        for &node in &self.honest {
            let operation = Operation::Get(keys.clone());
            let command = Command::Request { id: 2, operation, style: Style::Recursive };
            sim.command_at(sim.now(), node, command);
        }
        sim.run_until(self.until + AGREE + WRITTEN + READ, &mut recorded);
        for &node in &self.honest {
            for &key in &keys {
                let outcome = recorded.outcomes.get(&(node, key));
                let right = |value: &Payload| value.to_bytes()[..] == key.to_bytes();
                if !matches!(outcome, Some(Outcome::Found { value, .. }) if right(value)) {
                    return Err(format!("{node} read {key}: {outcome:?}"));
                }
            }
        }
        sim.run_until(self.until + AGREE + WRITTEN + READ + HEALED, &mut recorded);
        let space = scenario.config.space();
        let is_member = |&node: &NodeId| sim.is_alive(node) && sim.node(node).overlay().is_member();
        let members = (0..scenario.nodes).map(NodeId::from).filter(is_member);
        let oracle = Oracle::new(space, members);
        for &node in &self.honest {
            let router = sim.node(node).overlay().router();
            if let Some(fault) = tables::fault(router, space, node, oracle.ring()) {
                return Err(format!("the table of {node}: {fault}"));
            }
        }
        match recorded.excess {
            Some(excess) => Err(excess),
            None => Ok([recorded.found, recorded.in_flight_max as u64, recorded.stored_max as u64]),
        }
    }
}

/// The outcomes that the other nodes get, and their state.
#[derive(Default)]
struct Recorder {
    honest: Vec<NodeId>,
    outcomes: BTreeMap<(NodeId, Key), Outcome>,
    found: u64,
    in_flight_max: usize,
    stored_max: usize,
    excess: Option<String>,
}

impl<P: Host> Observer<P> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        let Event::Outcome { outcomes, .. } = event else { return };
        for (key, outcome) in outcomes {
            self.found += u64::from(matches!(outcome, Outcome::Found { .. }));
            self.outcomes.insert((node, *key), outcome.clone());
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        if !self.honest.contains(&node) {
            return;
        }
        let overlay = protocol.overlay();
        let (records, bytes) = overlay.store().map_or((0, 0), |it| (it.len(), it.bytes()));
        let in_flight = overlay.in_flight();
        self.in_flight_max = self.in_flight_max.max(in_flight);
        self.stored_max = self.stored_max.max(records);
        if records > STORE_RECORDS || bytes > STORE_BYTES || in_flight > IN_FLIGHT {
            self.excess.get_or_insert_with(|| {
                format!("{at}: {node}: {records} records, {bytes} bytes, {in_flight} in flight")
            });
        }
    }
}

fn run(seed: u64, tally: &LieTally) -> Result<[u64; 3], String> {
    let world = World::draw(seed);
    let World { rogues, scenario, .. } = &world;
    let judge = || world.run();
    tally.run_rogues((scenario.suite, seed), rogues, scenario, judge)
}

/// A node whose contacts had all failed pinged made-up nodes again and again, and its former
/// contacts never; or nodes of Koorde named a crashed node to each other, and kept it as an edge.
#[test]
fn seeds_that_failed_once_agree_and_go_on() {
    let tally = LieTally::default();
    seeds::run_found(&[836, 916, 3_242, 8_674, 2_326, 10_785], |seed| run(seed, &tally));
}

#[test]
fn seeds_agree_and_go_on_after_nodes_were_rogue() {
    let tally = LieTally::default();
    let (count, [found, in_flight, stored]) = seeds::run_all(|seed| run(seed, &tally));
    let (in_flight, stored) = (in_flight / count, stored / count);
    println!("{count} seeds: {found} values read, {in_flight} in flight, {stored} stored by one");
    let misdeeds = Misdeed::ALL;
    tally.assert_rogue::<Message>(count, 10, &misdeeds);
    assert!(count < 100 || found > 10 * count, "the seeds tested nothing");
}
