//! Networks of named data some of whose forwarders turn rogue for a while, as members of groups do
//! in `group_rogue_seeds`. They are honest again afterwards: many networks have one path only.
//!
//! Meanwhile nobody panics, and what forwarders hold stays within its bounds. Ten seconds after the
//! end each other consumer fetches each object. Each fetch ends, most with all segments; what a
//! rogue forwarder put into content stores is fetched by those that trust anything.

mod mircc_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mircc_swarm::{FAULTS_MS, Scenario, at, object_name};
use paceline_check::lies::Known;
use paceline_check::{Conduct, LieTally, Misdeed, Rogues, seeds};
use paceline_proto::core::{Instant, LinkFaults, NodeId, Rng};
use paceline_proto::mircc::{Command, Event, Fetch, Forwarder};
use paceline_proto::ndn::{Packet, Signer, Trust};
use paceline_sim::checkers::mircc::Node;
use paceline_sim::{FaultSupport, NetworkConfig, Observer, Overhead, Reply, Shape, Sim, SimConfig};

/// The others fetch so long after the rogue forwarders stop,
const AGREE: Duration = Duration::from_secs(10);
/// and each fetch ends within this.
const FETCHED: Duration = Duration::from_secs(60);
/// Flows of these fetches have numbers from here on.
const LATE: u64 = 1_000;
/// Bytes that a forwarder holds at most beside what its configuration names: the nonces of
/// Interests, and what waits at a face or is not whole.
const NONCES_BYTES: usize = 1 << 20;
const FACE_BYTES: usize = 1 << 20;

/// A run, wholly drawn from its seed.
struct World {
    scenario: Scenario,
    rogues: Rogues,
    until: u32,
}

impl World {
    fn draw(seed: u64) -> World {
        let mut rng = Rng::new(seed, 0x409e);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "mircc_rogue_seeds";
        scenario.link = LinkFaults::default();
        let nodes = scenario.topology.nodes;
        let rogues: Vec<NodeId> = (0..1 + nodes / 8).map(|_| NodeId(rng.below(nodes))).collect();
        let from = rng.below(FAULTS_MS / 2);
        let until = from + 500 + rng.below(FAULTS_MS);
        let conduct = Conduct::draw(&mut rng, at(from), at(until));
        let names = (0..scenario.objects.len()).map(object_name).collect();
        let rogues = Rogues::new(rogues, Known { names, ..Known::default() }, conduct);
        World { scenario, rogues, until }
    }

    fn run(&self) -> Result<[u64; 3], String> {
        let scenario = &self.scenario;
        let (topology, setups) = (&scenario.topology, scenario.setups());
        let mut config = SimConfig::new(setups.len(), scenario.seed);
        config.network = NetworkConfig {
            shape: Shape::Mesh,
            overhead: Overhead::None,
            wires: Some(Arc::new(topology.wires())),
            link: scenario.link,
            ..NetworkConfig::default()
        };
        config.codec = scenario.codec;
        config.faults = FaultSupport::Any;
        config.datagram_bytes_max = 8_800;
        let make = |node: NodeId| {
            let to: Vec<NodeId> = topology.faces(node.0).map(|(peer, _)| peer).collect();
            let setup = setups[node.index()].clone();
            self.rogues.wrap_with(node, Forwarder::new(setup, &scenario.config), &to)
        };
        let mut sim = Sim::new(config, Arc::new(scenario.config.clone()), make);
        for (when, node, fetch) in &scenario.fetches {
            sim.command_at(*when, *node, Command::Fetch(fetch.clone()));
        }
        let faces = (0..topology.nodes).map(|node| topology.faces(node).count()).max();
        let allowed = scenario.config.pending_bytes()
            + scenario.config.store_bytes_max
            + NONCES_BYTES
            + faces.unwrap_or_default() * FACE_BYTES;
        let mut told = Told { allowed, ..Told::default() };
        let begin = at(self.until) + AGREE;
        sim.run_until(begin, &mut told);
        let consumers = topology.consumers.iter().map(|&node| NodeId(node));
        let consumers: Vec<NodeId> = consumers.filter(|&node| !self.rogues.has(node)).collect();
        let is_signed = matches!(scenario.config.signer, Signer::Digest);
        let trust = if is_signed { Trust::Digest } else { Trust::Anything };
        for &node in &consumers {
            for (number, &(segments, _)) in scenario.objects.iter().enumerate() {
                let fetch = Fetch {
                    segments: Some(segments),
                    trust: trust.clone(),
                    give_up_after: Duration::from_secs(20),
                    ..Fetch::new(LATE + number as u64, object_name(number))
                };
                sim.command_at(begin, node, Command::Fetch(fetch));
            }
        }
        sim.run_until(begin + FETCHED, &mut told);
        for &node in &consumers {
            for number in 0..scenario.objects.len() {
                if !told.ended.contains_key(&(node, LATE + number as u64)) {
                    return Err(format!("the fetch of object {number} by {node} has not ended"));
                }
            }
        }
        let whole = told.ended.values().filter(|&&is_whole| is_whole).count() as u64;
        match told.excess {
            Some(excess) => Err(excess),
            None => Ok([whole, told.ended.len() as u64 - whole, told.held_max as u64]),
        }
    }
}

/// What consumers are told, and what forwarders hold.
#[derive(Default)]
struct Told {
    // Fetches after the end, and whether all segments came.
    ended: BTreeMap<(NodeId, u64), bool>,
    allowed: usize,
    held_max: usize,
    excess: Option<String>,
}

impl<P: Node> Observer<P> for Told {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        match *event {
            Event::Segment { flow, .. } => {
                reply.command(Duration::ZERO, node, Command::Consumed { flow, segments: 1 });
            }
            Event::Fetched { flow, .. } if flow >= LATE => {
                _ = self.ended.insert((node, flow), true)
            }
            Event::Failed { flow, .. } if flow >= LATE => {
                _ = self.ended.insert((node, flow), false)
            }
            _ => {}
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        let held = protocol.forwarder().memory_bytes();
        self.held_max = self.held_max.max(held);
        if held > self.allowed && self.excess.is_none() {
            self.excess = Some(format!("{at}: {node} holds {held} of {} bytes", self.allowed));
        }
    }
}

#[test]
fn seeds_end_fetches_after_forwarders_were_rogue() {
    let tally = LieTally::default();
    let run = |seed| {
        let world = World::draw(seed);
        let result = seeds::caught(|| world.run()).map_err(|what| {
            let World { rogues, until, scenario } = &world;
            let replay = seeds::replay(scenario.suite, seed);
            format!("{what}\nreplay: {replay}\nrogue until {until} ms: {rogues}\n{scenario:#?}")
        })?;
        tally.add_rogues(&world.rogues);
        Ok(result)
    };
    let (count, [whole, failed, held]) = seeds::run_all(run);
    let held = held / count;
    println!("{count} seeds: {whole} fetched, {failed} given up, {held} bytes held by one");
    tally.assert_rogue::<Packet>(count, 10, &Misdeed::ALL);
    assert!(count < 100 || whole > count && failed < whole / 10, "{failed} fetches failed");
}
