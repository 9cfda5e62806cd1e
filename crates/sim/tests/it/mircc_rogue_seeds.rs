//! Networks of named data in which some forwarders turn rogue for a while, as in
//! `group_rogue_seeds`. Afterwards each is honest, or has crashed permanently.
//!
//! Meanwhile no node panics, and what forwarders hold stays within its bounds. Ten seconds after
//! the end each other consumer fetches each object. Each fetch ends: with all segments, or with an
//! error if a crashed forwarder left no path or a content store holds what a rogue forwarder put
//! into it. Consumers that trust one key deliver only content that was published.
//!
//! `PACELINE_TEST_SEEDS` is the number of seeds (default 200), `PACELINE_TEST_SEED_FIRST` the
//! first one.

use crate::mircc_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mircc_swarm::{FAULTS_MS, Scenario, at, object_name};
use paceline_check::checkers::mircc::Node;
use paceline_check::lies::Known;
use paceline_check::{Conduct, LieTally, Misdeed, Rogues, seeds};
use paceline_proto::core::{Instant, LinkFaults, NodeId, Payload, Rng};
use paceline_proto::mircc::{Command, Event, Fetch, Forwarder};
use paceline_proto::ndn::{Data, Packet, Signer, Trust};
use paceline_sim::{Fault, FaultSupport, Observer, Reply, Sim, SimConfig};

/// The others fetch this long after the rogue forwarders stop,
const AGREE: Duration = Duration::from_secs(10);
/// and each fetch ends within this, which includes `give_up_after` four times,
const FETCHED: Duration = Duration::from_secs(90);
/// and this many times as long as all that is fetched takes on the slowest link.
const TIMES_SLOWEST: f64 = 10.0;
const GIVE_UP_AFTER: Duration = Duration::from_secs(20);
/// Bytes that a segment takes on a link beside its content, at most.
const HEADERS_BYTES: u64 = 250;
/// Flows of these fetches have numbers from here on.
const LATE: u64 = 1_000;
/// Signatures of a run at most: each takes as long as many events.
const SIGNED_MAX: u64 = 1_000;
/// Bytes that a forwarder holds at most beside what its configuration names: the nonces of
/// Interests, and what waits at a face or is not whole.
const NONCES_BYTES: usize = 1 << 20;
const FACE_BYTES: usize = 1 << 20;

/// A run, wholly drawn from its seed.
struct World {
    scenario: Scenario,
    rogues: Rogues,
    until: u32,
    crashes: Vec<NodeId>,
    consumers: Vec<NodeId>,
    trust: Trust,
}

impl World {
    fn draw(seed: u64) -> World {
        let mut rng = Rng::new(seed, 0x409e);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "mircc_rogue_seeds";
        scenario.link = LinkFaults::default();
        let nodes = scenario.topology.nodes;
        let rogues: Vec<NodeId> =
            (0..1 + nodes / 8).map(|_| NodeId::from(rng.below(nodes))).collect();
        let from = rng.below(FAULTS_MS / 2);
        let until = from + 500 + rng.below(FAULTS_MS);
        let conduct = Conduct::draw(&mut rng, at(from), at(until));
        let mut crashes = rogues.clone();
        crashes.retain(|_| rng.chance(0.3));
        let names = (0..scenario.objects.len()).map(object_name).collect();
        let rogues = Rogues::new(rogues, Known { names, ..Known::default() }, conduct);
        let consumers = scenario.topology.consumers.iter().map(|&node| NodeId::from(node));
        let consumers: Vec<NodeId> = consumers.filter(|&node| !rogues.has(node)).collect();
        let segments: u64 = scenario.objects.iter().map(|&(segments, _)| segments).sum();
        if segments * consumers.len() as u64 <= SIGNED_MAX && rng.chance(0.5) {
            let signer = Signer::from_seed(&[7; 32], object_name(0));
            scenario.fetches.iter_mut().for_each(|(.., fetch)| fetch.trust = signer.trust());
            scenario.config.signer = signer;
        }
        let trust = match &scenario.config.signer {
            Signer::Null => Trust::Anything,
            Signer::Digest => Trust::Digest,
            key => key.trust(),
        };
        World { scenario, rogues, until, crashes, consumers, trust }
    }

    /// How long the fetches after the end may take.
    fn time_max(&self) -> Duration {
        let Scenario { topology, objects, .. } = &self.scenario;
        let object = |&(segments, bytes): &(u64, usize)| segments * (bytes as u64 + HEADERS_BYTES);
        let bytes = objects.iter().map(object).sum::<u64>() * self.consumers.len() as u64;
        let faces = topology.edges.iter().flat_map(|edge| &edge.faces);
        let rates = faces.flat_map(|face| [face.in_bits_per_second, face.out_bits_per_second]);
        let slowest = rates.flatten().min().unwrap_or(500_000);
        FETCHED + Duration::from_secs_f64(TIMES_SLOWEST * bytes as f64 * 8.0 / slowest as f64)
    }

    fn run(&self) -> Result<[u64; 5], String> {
        let scenario = &self.scenario;
        let (topology, setups) = (&scenario.topology, scenario.setups());
        let wires = topology.wires();
        let mut config = SimConfig::of_forwarders(setups.len(), scenario.seed, wires);
        config.network.link = scenario.link;
        config.codec = scenario.codec;
        config.faults = FaultSupport::Any;
        let make = |node: NodeId| {
            let to: Vec<NodeId> =
                topology.faces(node.index() as u32).map(|(peer, _)| peer).collect();
            let setup = setups[node.index()].clone();
            self.rogues.wrap_with(node, Forwarder::new(setup, &scenario.config), &to)
        };
        let mut sim = Sim::new(config, Arc::new(scenario.config.clone()), make);
        for (when, node, fetch) in &scenario.fetches {
            sim.command_at(*when, *node, Command::Fetch(fetch.clone()));
        }
        for &node in &self.crashes {
            sim.fault_at(at(self.until), Fault::Crash(node));
        }
        let mut recorded = Recorder::new(self);
        let begin = at(self.until) + AGREE;
        sim.run_until(begin, &mut recorded);
        for &node in &self.consumers {
            for (number, &(segments, _)) in scenario.objects.iter().enumerate() {
                let fetch = Fetch {
                    segments: Some(segments),
                    trust: self.trust.clone(),
                    give_up_after: GIVE_UP_AFTER,
                    ..Fetch::new(LATE + number as u64, object_name(number))
                };
                sim.command_at(begin, node, Command::Fetch(fetch));
            }
        }
        let fetches = self.consumers.len() * scenario.objects.len();
        let mut now = begin;
        while recorded.ended.len() < fetches && now < begin + self.time_max() {
            now += Duration::from_secs(1);
            sim.run_until(now, &mut recorded);
        }
        for &node in &self.consumers {
            for flow in (LATE..).take(scenario.objects.len()) {
                if !recorded.ended.contains_key(&(node, flow)) {
                    let flows = sim.node(node).node().report().flows;
                    let held = flows.into_iter().find(|held| held.flow == flow);
                    return Err(format!("{now}: flow {flow} of {node} has not ended: {held:#?}"));
                }
            }
        }
        if let Some(broken) = recorded.broken {
            return Err(broken);
        }
        let whole = recorded.ended.values().filter(|&&is_whole| is_whole).count() as u64;
        let failed = recorded.ended.len() as u64 - whole;
        // Without a way only where a forwarder crashed.
        let failed = if self.crashes.is_empty() { [failed, 0] } else { [0, failed] };
        Ok([whole, failed[0], failed[1], recorded.signed, recorded.false_segments])
    }
}

/// The segments that consumers deliver, and the state of forwarders.
struct Recorder<'a> {
    world: &'a World,
    contents: Vec<(Payload, usize)>,
    // Fetches after the end, and whether all segments came.
    ended: BTreeMap<(NodeId, u64), bool>,
    bytes_max: usize,
    // Segments whose signature was checked with a key.
    signed: u64,
    // Segments that other consumers delivered and that differ from the published ones.
    false_segments: u64,
    broken: Option<String>,
}

impl Recorder<'_> {
    fn new(world: &World) -> Recorder<'_> {
        let Scenario { topology, config, .. } = &world.scenario;
        let faces = (0..topology.nodes).map(|node| topology.faces(node).count()).max();
        let bytes_max = config.pending_bytes()
            + config.store_bytes_max
            + NONCES_BYTES
            + faces.unwrap_or_default() * FACE_BYTES;
        Recorder {
            world,
            contents: world.scenario.contents(),
            ended: BTreeMap::new(),
            bytes_max,
            signed: 0,
            false_segments: 0,
            broken: None,
        }
    }

    /// Whether a segment is one of the objects, as it was published.
    fn is_true(&self, number: u64, data: &Data) -> bool {
        let is_it = |&object: &usize| *data.name() == object_name(object).with_segment(number);
        let Some(object) = (0..self.contents.len()).find(is_it) else { return false };
        let (content, segment_bytes) = &self.contents[object];
        let begin = number as usize * segment_bytes;
        let end = (begin + segment_bytes).min(content.len());
        begin < end && data.content() == content.slice(begin..end)
    }
}

impl<P: Node> Observer<P> for Recorder<'_> {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        match event {
            &Event::Segment { flow, number, ref data, .. } => {
                reply.command(Duration::ZERO, node, Command::Consumed { flow, segments: 1 });
                let is_keyed = matches!(self.world.trust, Trust::Key(_));
                self.signed += u64::from(is_keyed);
                if !self.is_true(number, data) && !self.world.rogues.has(node) {
                    if is_keyed {
                        let what = format!("{at}: {node} was told a false {}", data.name());
                        self.broken.get_or_insert(what);
                    }
                    self.false_segments += 1;
                }
            }
            Event::Fetched { flow, .. } if *flow >= LATE => {
                _ = self.ended.insert((node, *flow), true)
            }
            Event::Failed { flow, .. } if *flow >= LATE => {
                _ = self.ended.insert((node, *flow), false)
            }
            _ => {}
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        let forwarder = protocol.forwarder();
        let (bytes, pending) = (forwarder.memory_bytes(), forwarder.pending());
        if bytes > self.bytes_max || pending > self.world.scenario.config.pending_max {
            let what = format!("{at}: {node} holds {bytes} bytes, and {pending} Interests");
            self.broken.get_or_insert(what);
        }
    }
}

#[test]
fn seeds_end_fetches_after_forwarders_were_rogue() {
    let tally = LieTally::default();
    let run = |seed| {
        let world = World::draw(seed);
        let World { rogues, crashes, scenario, .. } = &world;
        tally.run_rogues((scenario.suite, seed), rogues, &(crashes, scenario), || world.run())
    };
    let (count, [whole, failed, failed_crashed, signed, false_segments]) = seeds::run_all(run);
    println!(
        "{count} seeds: {whole} fetched, {failed} given up, and {failed_crashed} where a forwarder \
         crashed; {signed} segments signed by a key, {false_segments} false ones of others"
    );
    tally.assert_rogue::<Packet>(count, 10, &Misdeed::ALL);
    if count >= 100 {
        assert!(whole > count && failed < whole / 10, "{failed} of {whole} fetches failed");
        assert!(failed_crashed > 0 && signed > count && false_segments > 0, "nothing was tested");
    }
}
