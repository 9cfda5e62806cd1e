//! One seed, a network of named data, one set of faults: what the seeds and the canaries share.

pub mod topology;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use paceline_check::amid::CRASHED_AMID;
use paceline_check::checkers::mircc::{MirccLedger, Node, Totals};
use paceline_check::clock::{ByClock, Clocks};
use paceline_check::cuts::SEVERED;
use paceline_check::swarm::Options;
use paceline_check::{LIES, Swarm};
use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Payload, Rng};
use paceline_proto::mircc::{
    Algorithm, Command, Config, ControllerConfig, Event, Fetch, Forwarder, Multipath, Object, Pace,
    Setup, ShaperConfig, Strategy,
};
use paceline_proto::ndn::{Name, Signer, Trust};
use paceline_sim::{Codec, Digest, Fault, FaultSupport, Observer, Reply, Sim, SimConfig};
use topology::{PREFIX, Topology};

/// Faults end by then, milliseconds.
pub const FAULTS_MS: u32 = 2_000;
/// By then every fetch must be complete, and then every node at rest: seconds. Interests without
/// labels walk at random where each neighbour is a next hop: a window gets a Data or two a second
/// there.
const COMPLETE_S: u64 = 1_800;
/// Events of a run at most.
const EVENTS_MAX: u64 = 1_200_000;

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub topology: Topology,
    pub config: Config,
    /// How Interests without a path label find their next hops, and what these cost.
    pub strategy: Strategy,
    pub link: LinkFaults,
    pub codec: Codec,
    pub faults: Vec<(Instant, Fault)>,
    /// How many segments each object has, and how many bytes each of these.
    pub objects: Vec<(u64, usize)>,
    pub fetches: Vec<(Instant, NodeId, Fetch)>,
    pub stops: Vec<(Instant, NodeId, u64)>,
    /// Faces that are removed for a while, at one end only: time, node, neighbour.
    pub absences: Vec<(Instant, NodeId, NodeId)>,
    /// How long the application takes to consume an event.
    pub consumes_within_ms: u32,
    /// Consumers that permanent cuts leave without a path to a producer. Their fetches need not
    /// complete.
    pub cut_off: BTreeSet<NodeId>,
    /// What nodes go by.
    pub clocks: Clocks,
    /// The test file that replays it.
    pub suite: &'static str,
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub digest: Digest,
    pub totals: Totals,
    pub events: u64,
    /// Interests that came back to a node, that were refused, and that nothing came for.
    pub loops: u64,
    pub refused: u64,
    pub expired: u64,
    /// Interests answered from a content store.
    pub stored: u64,
    /// Interests that found the table of a node full.
    pub full: u64,
    /// Messages that strangers sent.
    pub lies: u64,
    /// Messages dropped by permanently cut links.
    pub severed: u64,
    /// Crashes within a handler call.
    pub crashed_amid: u64,
    /// The longest time for which nothing came for a fetch that then failed.
    pub silent_max: Duration,
}

impl Scenario {
    /// Draws a run. Every option is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x3177);
        let topology = Topology::draw(&mut rng);
        let config = draw_config(&mut rng);
        let objects: Vec<(u64, usize)> = (0..1 + rng.below(3))
            .map(|_| {
                let most = [60, 400, 2_000][rng.below(3) as usize];
                (1 + u64::from(rng.below(most)), 50 + rng.below(1_100) as usize)
            })
            .collect();
        let fetches = draw_fetches(&mut rng, &topology, &objects, &config);
        let mut stops = Vec::new();
        for (began, node, fetch) in &fetches {
            if rng.chance(0.1) {
                stops.push((*began + millis(rng.below(FAULTS_MS)), *node, fetch.flow));
            }
        }
        Scenario {
            seed,
            link: draw_link(&mut rng),
            codec: if rng.chance(0.2) { Codec::CheckWire } else { Codec::Typed },
            faults: draw_faults(&mut rng, &topology),
            absences: draw_absences(&mut rng, &topology),
            consumes_within_ms: [0, 5, 100][rng.below(3) as usize],
            strategy: draw_strategy(seed),
            cut_off: BTreeSet::new(),
            topology,
            config,
            objects,
            fetches,
            stops,
            clocks: Clocks::default(),
            suite: "mircc_seeds",
        }
    }

    /// How each node begins, by number.
    pub fn setups(&self) -> Vec<Setup> {
        let objects: Vec<Object> =
            (0..).zip(&self.objects).map(|(n, of)| self.object(n, *of)).collect();
        (0..self.topology.nodes).map(|node| self.setup(node, &objects)).collect()
    }

    fn setup(&self, node: u32, objects: &[Object]) -> Setup {
        let cost = |next: NodeId| self.cost(NodeId::from(node), next);
        let next = self.topology.next_hops(node).map(|next| (name(PREFIX), next, cost(next)));
        Setup {
            name: format!("n{node}"),
            faces: self.topology.faces(node).collect(),
            routes: next.collect(),
            strategies: vec![(name(PREFIX), self.strategy)],
            objects: if self.topology.producers.contains(&node) {
                objects.to_vec()
            } else {
                vec![]
            },
            ..Setup::default()
        }
    }

    /// What a next hop costs a node: 1 to 3.
    fn cost(&self, node: NodeId, next: NodeId) -> u32 {
        1 + Rng::new(self.seed, node.0 << 32 | next.0).below(3)
    }

    /// The content of each object, and the bytes of its segments.
    pub fn contents(&self) -> Vec<(Payload, usize)> {
        let object = |(number, &of)| {
            let Object { content, segment_bytes, .. } = self.object(number, of);
            (content, segment_bytes)
        };
        self.objects.iter().enumerate().map(object).collect()
    }

    fn object(&self, number: usize, (segments, segment_bytes): (u64, usize)) -> Object {
        let mut rng = Rng::new(self.seed, 0x0b1e ^ number as u64);
        // The last segment is shorter than the others, most of the time.
        let short = rng.below(segment_bytes as u32) as usize;
        let bytes = segments as usize * segment_bytes - short;
        let content: Vec<u8> =
            (0..bytes.div_ceil(4)).flat_map(|_| rng.next_u32().to_le_bytes()).collect();
        Object {
            name: object_name(number),
            content: Payload::from(content).slice(0..bytes),
            segment_bytes,
            freshness: None,
        }
    }

    /// Runs the scenario with honest nodes.
    pub fn run(&self) -> Result<Outcome, String> {
        let config = self.config.clone();
        self.run_with(|_, setup| Forwarder::new(setup, &config))
    }

    /// Runs the scenario with nodes made by `make`.
    pub fn run_with<P: Node>(
        &self,
        make: impl FnMut(NodeId, Setup) -> P,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Node>(
        &self,
        mut make: impl FnMut(NodeId, Setup) -> P,
    ) -> Result<Outcome, String> {
        let setups = self.setups();
        let wires = self.topology.wires();
        let mut config = SimConfig::of_forwarders(setups.len(), self.seed, wires);
        config.network.link = self.link;
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let strangers = self.topology.strangers.iter().copied().map(NodeId::from);
        let ledger = MirccLedger::new(&self.config, setups.clone(), strangers);
        let start = |node: NodeId| make(node, setups[node.index()].clone());
        let mut sim = Sim::new(config, Arc::new(self.config.clone()), start);
        for (at, fault) in &self.faults {
            sim.fault_at(*at, fault.clone());
            if let Fault::Restart(node) = fault {
                self.rejoin(*at, *node, |at, node, command| sim.command_at(at, node, command));
            }
        }
        for (at, node, fetch) in &self.fetches {
            sim.command_at(*at, *node, Command::Fetch(fetch.clone()));
        }
        for &(at, node, flow) in &self.stops {
            sim.command_at(at, node, Command::Stop { flow });
        }
        for &(at, node, peer) in &self.absences {
            sim.command_at(at, node, Command::RemoveFace(peer));
        }
        self.heal(&mut sim);
        let ledger = ByClock { clocks: self.clocks.clone(), observer: ledger };
        let mut observer = (ledger, Application::new(self));
        let until = at(FAULTS_MS) + Duration::from_secs(COMPLETE_S);
        let mut look_at = at(FAULTS_MS + 1_000);
        while sim.now() < until
            && observer.0.observer.violation().is_none()
            && sim.step(&mut observer)
        {
            if sim.now() >= look_at {
                look_at = sim.now() + millis(500);
                if observer.0.observer.open().next().is_none() && observer.1.again.is_empty() {
                    break;
                }
            }
            if sim.events_handled() > EVENTS_MAX {
                return Err(format!("{EVENTS_MAX} events and no end at {}", sim.now()));
            }
        }
        if let Some(violation) = observer.0.observer.violation() {
            return Err(violation.to_string());
        }
        let now = sim.now();
        observer.0.observer.check_complete(now).map_err(|violation| violation.to_string())?;
        // A lane's timer may be set for an hour.
        let until = now + Duration::from_secs(2 * 3_600);
        let events = sim.events_handled();
        while sim.now() < until && sim.events_handled() < events + EVENTS_MAX / 10 {
            if !sim.step(&mut observer.0) || observer.0.observer.violation().is_some() {
                break;
            }
        }
        if let Some(violation) = observer.0.observer.violation() {
            return Err(violation.to_string());
        }
        observer.0.observer.check_rest(&sim).map_err(|violation| violation.to_string())?;
        let count = |name| sim.counters().count(name);
        Ok(Outcome {
            digest: sim.digest(),
            totals: observer.0.observer.totals(),
            events: sim.events_handled(),
            loops: count("mircc_loops"),
            refused: count("mircc_refused_face"),
            expired: count("mircc_expired"),
            stored: count("mircc_stored"),
            full: count("mircc_refused_full"),
            lies: count(LIES.name()),
            severed: count(SEVERED),
            crashed_amid: count(CRASHED_AMID),
            silent_max: observer.1.silent_max,
        })
    }

    /// The neighbours of a restarted node get their face to it again, and their routes.
    fn rejoin(&self, at: Instant, node: NodeId, mut command: impl FnMut(Instant, NodeId, Command)) {
        let peers: Vec<NodeId> =
            self.topology.faces(node.index() as u32).map(|(peer, _)| peer).collect();
        for peer in peers {
            self.restore(at + millis(1), peer, node, &mut command);
        }
    }

    fn restore(
        &self,
        at: Instant,
        node: NodeId,
        peer: NodeId,
        command: &mut impl FnMut(Instant, NodeId, Command),
    ) {
        let face = self.topology.faces(node.index() as u32).find(|(other, _)| *other == peer);
        let Some((_, face)) = face else { return };
        command(at, node, Command::AddFace(peer, face));
        if self.topology.next_hops(node.index() as u32).any(|next| next == peer) {
            let (prefix, cost) = (name(PREFIX), self.cost(node, peer));
            command(at, node, Command::AddRoute { prefix, peer, cost });
        }
    }

    fn heal<P: Node>(&self, sim: &mut Sim<'_, P>) {
        let when = at(FAULTS_MS);
        sim.fault_at(when, Fault::Heal);
        sim.fault_at(when, Fault::Link { from: None, to: None, link: LinkFaults::default() });
        let crashed: BTreeSet<NodeId> = self
            .faults
            .iter()
            .filter_map(|(_, fault)| match fault {
                Fault::Crash(node) => Some(*node),
                _ => None,
            })
            .collect();
        for node in crashed {
            // If it is up by then, this changes nothing.
            sim.fault_at(when, Fault::Restart(node));
            self.rejoin(when, node, |at, node, command| sim.command_at(at, node, command));
        }
        for &(_, node, peer) in &self.absences {
            let mut command = |at, node, command| sim.command_at(at, node, command);
            self.restore(when + millis(2), node, peer, &mut command);
        }
    }
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const REPEATED_EVERY: u64 = 16;

    const OPTIONS: Options<Scenario> = &[
        ("faults", |run| run.faults.clear()),
        ("link faults", |run| run.link = LinkFaults::default()),
        ("stops", |run| run.stops.clear()),
        ("absences", |run| run.absences.clear()),
        ("more than one fetch", |run| run.fetches.truncate(1)),
        ("late consumption", |run| run.consumes_within_ms = 0),
        ("clocks", |run| run.clocks = Clocks::default()),
        ("the codec", |run| run.codec = Codec::Typed),
    ];

    fn seed(&self) -> u64 {
        self.seed
    }

    fn suite(&self) -> &'static str {
        self.suite
    }

    fn describe(&self) -> String {
        format!("{self:#?}")
    }

    fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    fn run_honest(&self) -> Result<Outcome, String> {
        self.run()
    }

    fn digest(outcome: &Outcome) -> Digest {
        outcome.digest
    }
}

pub fn at(ms: u32) -> Instant {
    Instant::ZERO + millis(ms)
}

fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

pub fn object_name(number: usize) -> Name {
    name(&format!("{PREFIX}/{number}"))
}

fn draw_config(rng: &mut Rng) -> Config {
    let on = |rng: &mut Rng, share| rng.chance(share);
    let defaults = Config::default();
    let algorithm = if on(rng, 0.2) { Algorithm::Rcp } else { Algorithm::Mircc };
    let interval = on(rng, 0.2).then(|| millis(5 + rng.below(100)));
    let queue_max = if on(rng, 0.3) { 1 + rng.below(20) as usize } else { 100 };
    let signer = if on(rng, 0.5) { Signer::Digest } else { Signer::Null };
    Config {
        controller: ControllerConfig { algorithm, interval, ..ControllerConfig::default() },
        shaper: ShaperConfig { queue_max, ..ShaperConfig::default() },
        pending_max: if on(rng, 0.2) { 5 + rng.below(100) as usize } else { defaults.pending_max },
        store_bytes_max: match rng.below(4) {
            0 => 10_000 + rng.below(50_000) as usize,
            1 => 1 << 20,
            _ => 0,
        },
        mark_after: millis(1 + rng.below(10)),
        window_max: if on(rng, 0.2) { 1 + rng.below(64) as usize } else { defaults.window_max },
        probe_every: millis(20 + rng.below(200)),
        discover_every: millis(100 + rng.below(2_000)),
        tells_round_trip: on(rng, 0.8),
        signer,
        ..defaults
    }
}

// From a stream of its own, so that all else is drawn as before.
fn draw_strategy(seed: u64) -> Strategy {
    let strategies = [Strategy::BestRoute, Strategy::Multicast, Strategy::Adaptive];
    strategies[Rng::new(seed, 0x5742).below(3) as usize]
}

fn draw_fetches(
    rng: &mut Rng,
    topology: &Topology,
    objects: &[(u64, usize)],
    config: &Config,
) -> Vec<(Instant, NodeId, Fetch)> {
    let trust = if let Signer::Digest = config.signer { Trust::Digest } else { Trust::Anything };
    let mut fetches = Vec::new();
    for &consumer in &topology.consumers {
        for flow in 0..1 + u64::from(rng.below(2)) {
            let object = rng.below(objects.len() as u32) as usize;
            let segments = objects[object].0;
            let begins = rng.below(segments as u32) as u64;
            // If no node announces the end of an object, some segment must be left to request.
            let had = begins..(begins + u64::from(rng.below(40))).min(segments - 1);
            let fetch = Fetch {
                segments: rng.chance(0.5).then_some(segments),
                had: if rng.chance(0.2) && !had.is_empty() { vec![had] } else { vec![] },
                pace: match rng.below(6) {
                    0 => Pace::Aimd,
                    1 => Pace::Cubic,
                    _ => Pace::Rates,
                },
                multipath: match rng.below(4) {
                    0 => Multipath::Best,
                    1 => Multipath::Sum,
                    _ => Multipath::Dual,
                },
                bits_per_second_max: rng
                    .chance(0.2)
                    .then(|| 300_000 + u64::from(rng.below(5_000_000))),
                trust: trust.clone(),
                unread_max: rng.chance(0.2).then(|| 1 + rng.below(50) as usize),
                give_up_after: Duration::from_secs(20),
                ..Fetch::new(flow, object_name(object))
            };
            let began = at(rng.below(FAULTS_MS));
            fetches.push((began, NodeId::from(consumer), fetch));
        }
    }
    fetches
}

fn draw_link(rng: &mut Rng) -> LinkFaults {
    let on = |rng: &mut Rng| rng.chance(0.5);
    let micros = |rng: &mut Rng, most| Duration::from_micros(u64::from(rng.below(most)));
    LinkFaults {
        jitter: if on(rng) { micros(rng, 5_000) } else { Duration::ZERO },
        loss: match rng.below(3) {
            0 => Loss::Independent(0.1 * rng.unit()),
            1 => Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.2, bad_loss: 1.0 },
            _ => Loss::None,
        },
        duplicate: if on(rng) { 0.1 * rng.unit() } else { 0.0 },
        reorder: if on(rng) { 0.1 * rng.unit() } else { 0.0 },
        reorder_delay: micros(rng, 30_000),
        ..LinkFaults::default()
    }
}

fn draw_faults(rng: &mut Rng, topology: &Topology) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..rng.below(4) {
        let (node, when) = (rng.below(topology.nodes), rng.below(FAULTS_MS));
        // What a consumer fetches is gone if it crashes.
        let crashes = !topology.consumers.contains(&node) && rng.chance(0.5);
        let node = NodeId::from(node);
        if crashes {
            faults.push((at(when), Fault::Crash(node)));
            faults.push((at(when + rng.below(FAULTS_MS - when)), Fault::Restart(node)));
        } else if rng.chance(0.5) {
            let pause = millis(1 + rng.below(500));
            faults.push((at(when), Fault::Pause(node, pause)));
        } else {
            let edge = &topology.edges[rng.below(topology.edges.len() as u32) as usize];
            let [one, other] = edge.ends.map(NodeId::from);
            faults.push((at(when), Fault::Block(one, other)));
        }
    }
    faults
}

fn draw_absences(rng: &mut Rng, topology: &Topology) -> Vec<(Instant, NodeId, NodeId)> {
    let count = if rng.chance(0.2) { 1 + rng.below(2) } else { 0 };
    let mut absence = |_| {
        let edge = &topology.edges[rng.below(topology.edges.len() as u32) as usize];
        let end = rng.below(2) as usize;
        (at(rng.below(FAULTS_MS)), NodeId::from(edge.ends[end]), NodeId::from(edge.ends[1 - end]))
    };
    (0..count).map(&mut absence).collect()
}

/// Consumes events after a while, and repeats failed fetches.
struct Application {
    rng: Rng,
    consumes_within_ms: u32,
    fetches: BTreeMap<(NodeId, u64), Fetch>,
    told: BTreeMap<(NodeId, u64), BTreeSet<u64>>,
    /// What will be fetched again.
    again: BTreeSet<(NodeId, u64)>,
    cut_off: BTreeSet<NodeId>,
    /// When something came last for a fetch, or when it began.
    heard_at: BTreeMap<(NodeId, u64), Instant>,
    silent_max: Duration,
}

impl Application {
    fn new(scenario: &Scenario) -> Application {
        let fetches = scenario.fetches.iter();
        let fetches = fetches.map(|(_, node, fetch)| ((*node, fetch.flow), fetch.clone()));
        Application {
            rng: Rng::new(scenario.seed, 0xa221),
            consumes_within_ms: scenario.consumes_within_ms,
            fetches: fetches.collect(),
            told: BTreeMap::new(),
            again: BTreeSet::new(),
            cut_off: scenario.cut_off.clone(),
            heard_at: scenario
                .fetches
                .iter()
                .map(|(at, node, fetch)| ((*node, fetch.flow), *at))
                .collect(),
            silent_max: Duration::ZERO,
        }
    }
}

impl<P: Node> Observer<P> for Application {
    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if let Event::Failed { flow, .. } = event {
            let heard_at = self.heard_at[&(node, *flow)];
            self.silent_max = self.silent_max.max(at - heard_at);
        }
        match event {
            Event::Segment { flow, number, .. } => {
                self.heard_at.insert((node, *flow), at);
                self.told.entry((node, *flow)).or_default().insert(*number);
                let after = Duration::from_micros(
                    self.rng.below(self.consumes_within_ms * 1_000 + 1).into(),
                );
                reply.command(after, node, Command::Consumed { flow: *flow, segments: 1 });
            }
            // Nothing would come of another fetch.
            Event::Failed { .. } if self.cut_off.contains(&node) => {}
            Event::Failed { flow, .. } => {
                let again = self.fetches.get_mut(&(node, *flow)).expect("it was fetched");
                let told = self.told.remove(&(node, *flow)).unwrap_or_default();
                again.had.extend(told.into_iter().map(|number| number..number + 1));
                again.had.sort_by_key(|range| range.start);
                let fetch = again.clone();
                self.again.insert((node, *flow));
                self.heard_at.insert((node, *flow), at + millis(500));
                reply.command(millis(500), node, Command::Fetch(fetch));
            }
            _ => {}
        }
    }

    fn after_call(&mut self, _: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        if self.again.iter().any(|(of, _)| *of == node) {
            let flows = protocol.forwarder().report().flows;
            self.again
                .retain(|(of, flow)| *of != node || flows.iter().all(|held| held.flow != *flow));
        }
    }
}
