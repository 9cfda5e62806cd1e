//! One seed, one group, one set of faults: what the seeds and the canaries share.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use paceline_check::Swarm;
use paceline_check::checkers::chain::{ChainLedger, Member};
use paceline_check::checkers::offered::Phase;
use paceline_check::swarm::Options;
use paceline_proto::chain::{Chain, Command, Config, Event, Topology, Urgency};
use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Payload, Rng, View};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, Input, NetworkConfig, Observer, Overhead, Reply, Shape,
    Sim, SimConfig, Streams,
};

/// Faults end at this time, milliseconds.
const FAULTS_MS: u32 = 1_000;

/// A group must be at rest this long after the last fault, and over TCP within this time after it
/// last delivered something: time-outs double up to a minute, so a stream that is not stuck tries
/// again twice.
const HEAL_AFTER: Duration = Duration::from_secs(120);

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    /// The test file that replays it.
    pub suite: &'static str,
    pub config: Config,
    pub ring: Vec<u32>,
    pub installs_view: bool,
    pub draws_topologies: bool,
    pub network: NetworkConfig,
    pub codec: Codec,
    pub faults: Vec<(Instant, Fault)>,
    pub senders: Vec<NodeId>,
    pub messages: usize,
    pub keeps_to_admission: bool,
    pub consumes_within_ms: u32,
    pub phases: Vec<Phase>,
}

impl Scenario {
    /// Draws a run. Every option is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x5ce0);
        let members = match rng.below(12) {
            0 => 1,
            1 | 2 => 2,
            3 => 33,
            _ => 3 + rng.below(10),
        };
        let mut ring: Vec<u32> = (0..members).collect();
        if rng.chance(0.5) {
            (1..ring.len()).rev().for_each(|i| ring.swap(i, rng.below(i as u32 + 1) as usize));
        }
        let config = draw_config(&mut rng, &ring);
        let on = |rng: &mut Rng| rng.chance(0.5);
        let network = NetworkConfig {
            shape: if on(&mut rng) { Shape::Star } else { Shape::Mesh },
            rate_bits_per_second: [None, Some(20_000_000), Some(100_000_000), Some(1_000_000_000)]
                [rng.below(4) as usize],
            overhead: if on(&mut rng) { Overhead::Ethernet } else { Overhead::None },
            queue_bytes_max: on(&mut rng).then_some(20_000),
            link: draw_link(&mut rng),
            ..NetworkConfig::default()
        };
        let senders = match rng.below(3) {
            0 => ring.clone(),
            1 => vec![ring[rng.below(members) as usize]],
            _ => ring.iter().copied().filter(|_| rng.chance(0.4)).collect(),
        };
        // The larger the group, the fewer messages: a seed is to take well under a second.
        let messages = 1 + rng.below(if members > 12 { 8 } else { 40 }) as usize;
        Scenario {
            seed,
            suite: "chain_seeds",
            config,
            installs_view: rng.chance(0.8),
            draws_topologies: rng.chance(0.3),
            network,
            codec: if on(&mut rng) { Codec::Typed } else { Codec::CheckWire },
            faults: draw_faults(&mut rng, &ring),
            senders: senders.into_iter().map(NodeId::from).collect(),
            messages,
            keeps_to_admission: rng.chance(0.6),
            consumes_within_ms: [0, 0, 20, 200][rng.below(4) as usize],
            phases: Vec::new(),
            ring,
        }
    }

    /// Draws a run in which drawn members saturate the group, two sets of them one after the other,
    /// with windows, hops and blocks of drawn sizes.
    pub fn draw_saturated(seed: u64) -> Scenario {
        let drawn = Scenario::draw(seed);
        let mut rng = Rng::new(seed, 0x5a7e);
        let members = 2 + rng.below(5);
        let mut ring: Vec<u32> = (0..members).collect();
        (1..ring.len()).rev().for_each(|i| ring.swap(i, rng.below(i as u32 + 1) as usize));
        let block = [500, 1000, 4096][rng.below(3) as usize];
        let config = draw_config(&mut rng, &ring)
            .with_block_bytes_max(block)
            .with_message_bytes_max(3 * block)
            .with_window_bytes(block * [8, 20, 200][rng.below(3) as usize])
            .with_window_blocks([8, 64, 1024][rng.below(3) as usize])
            .with_hop_bytes([4, 4096, 131_072][rng.below(3) as usize])
            .with_ack_blocks(1 + rng.below(4) as usize)
            .build()
            .expect("drawn within the ranges");
        let link = LinkFaults {
            delay: Duration::from_micros(rng.below(1000).into()),
            ..LinkFaults::default()
        };
        let network = NetworkConfig {
            rate_bits_per_second: Some(100_000_000),
            queue_bytes_max: None,
            link,
            ..drawn.network.clone()
        };
        let mut scenario = Scenario {
            config,
            network,
            faults: Vec::new(),
            senders: Vec::new(),
            installs_view: true,
            draws_topologies: false,
            keeps_to_admission: true,
            consumes_within_ms: [0, 0, 1, 5][rng.below(4) as usize],
            ring,
            ..drawn
        };
        let lasts = 2 * scenario.admits_within();
        for number in 0..2 {
            let from = Instant::ZERO + Duration::from_millis(10) + 2 * lasts * number;
            let ring = scenario.ring.iter().copied();
            let mut senders: Vec<NodeId> =
                ring.filter(|_| rng.chance(0.6)).map(NodeId::from).collect();
            senders.sort();
            let message_bytes = [1, 200, block as u32, 3 * block as u32][rng.below(4) as usize];
            scenario.phases.push(Phase { from, until: from + lasts, senders, message_bytes });
        }
        scenario
    }

    /// The longest time that a member which is offered load may admit nothing: while it yields to
    /// all others, and some round trips of a block that waits, at each hop, for a block of each
    /// origin, and is consumed late.
    fn admits_within(&self) -> Duration {
        let members = self.ring.len() as u32;
        let rate = self.network.rate_bits_per_second.expect("a saturated link has a rate");
        let airtime = |bytes: u64| Duration::from_nanos(bytes * 8 * 1_000_000_000 / rate);
        // A turn: what an origin sends when it has saved up for a block.
        let turn = airtime(8192 + self.config.block_bytes_max() as u64);
        let hop = turn * members * members.ilog2().max(1) + self.network.link.delay;
        let consumed = Duration::from_millis(u64::from(self.consumes_within_ms) + 5);
        let yields = airtime(self.config.hop_bytes() as u64) * members * 2;
        (hop * members + consumed) * 3 + yields
    }

    /// Runs the scenario with members made by `make`.
    pub fn run<P: Member<Shared = Config> + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Member<Shared = Config> + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        let mut config = SimConfig::new(self.ring.len(), self.seed);
        config.network = self.network.clone();
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let mut sim = Sim::new(config, Arc::new(self.config.clone()), make);
        let mut rng = Rng::new(self.seed, 0x3055);
        if self.installs_view {
            for &node in &self.ring {
                let at = Instant::ZERO + Duration::from_millis(rng.below(3).into());
                sim.view_at(at, NodeId::from(node), self.config.roster().clone());
            }
        }
        for (at, fault) in &self.faults {
            sim.fault_at(*at, fault.clone());
        }
        let mut application = Application::new(self, &mut rng);
        application.start(&mut sim);
        let ledger = ChainLedger::new(&self.config);
        let ledger = match self.phases.is_empty() {
            true => ledger,
            false => ledger.with_offers(Phase::offers(&self.phases), self.admits_within()),
        };
        let mut observers = (ledger, application);
        let mut end = Instant::ZERO + Duration::from_millis(FAULTS_MS.into()) + HEAL_AFTER;
        sim.run_until(end, &mut observers);
        let (mut before, may_be_slow) = (0, matches!(self.network.streams, Streams::Tcp(_)));
        while may_be_slow && observers.0.deliveries() > before {
            before = observers.0.deliveries();
            end += HEAL_AFTER;
            sim.run_until(end, &mut observers);
        }
        let (ledger, _) = &mut observers;
        if let Some(violation) = ledger.violation() {
            return Err(violation.to_string());
        }
        ledger.check_quiescent(&sim).map_err(|violation| violation.to_string())?;
        Ok(Outcome {
            digest: sim.digest(),
            deliveries: ledger.deliveries(),
            events: sim.events_handled(),
            resumed: sim.counters().count("chain_hop_resumed"),
            resent: sim.counters().count("sim_tcp_resent"),
            lost: sim.counters().count("sim_lost"),
            bundled: sim.counters().count("chain_bundled"),
        })
    }
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const OPTIONS: Options<Scenario> = &[
        ("faults", |run| run.faults.clear()),
        ("link faults", |run| run.network.link = LinkFaults::default()),
        ("bounded queues", |run| run.network.queue_bytes_max = None),
        ("overhead", |run| run.network.overhead = Overhead::None),
        ("a rate", |run| run.network.rate_bits_per_second = None),
        ("TCP", |run| run.network.streams = Streams::default()),
        ("messages of drawn topologies", |run| run.draws_topologies = false),
        ("submissions beyond the admission", |run| run.keeps_to_admission = true),
        ("late consumption", |run| run.consumes_within_ms = 0),
        ("more than one message a sender", |run| run.messages = 1),
        ("more than one sender", |run| run.senders.truncate(1)),
        ("saturating phases", |run| run.phases.clear()),
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
        self.run(honest(&self.config))
    }

    fn digest(outcome: &Outcome) -> Digest {
        outcome.digest
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub digest: Digest,
    pub deliveries: u64,
    pub events: u64,
    pub resumed: u64,
    pub resent: u64,
    pub lost: u64,
    /// Messages that left in a block with others.
    pub bundled: u64,
}

fn draw_config(rng: &mut Rng, ring: &[u32]) -> Config {
    let topology = match rng.below(7) {
        0 => Some(Topology::Unicast),
        1 => Some(Topology::Tree),
        2 | 3 => Some(Topology::Pipeline),
        4 => None,
        _ => Some(Topology::Chain),
    };
    let block = [1 + rng.below(64), 1000, 4096, 65_536][rng.below(4) as usize] as usize;
    let message = block * (1 + rng.below(24)) as usize;
    let window_blocks = [2, 3, 8, 64, 1024][rng.below(5) as usize];
    let window_bytes = block * [2, 2, 3, 5, 64][rng.below(5) as usize] + rng.below(100) as usize;
    Config::new(View::roster(ring.iter().map(|&node| NodeId::from(node))))
        .with_topology(topology)
        .with_block_bytes_max(block)
        .with_message_bytes_max(message)
        .with_window_blocks(window_blocks)
        .with_window_bytes(window_bytes)
        .with_hop_bytes([4, 200, 4096, 131_072][rng.below(4) as usize])
        .with_queue_bytes([1, 1000, 65_536][rng.below(3) as usize])
        .with_ack_blocks(1 + rng.below(window_blocks as u32 / 2).min(40) as usize)
        .with_ack_after(Duration::from_micros([100, 500, 5000][rng.below(3) as usize]))
        .with_resync_after(Duration::from_millis([1, 20, 50][rng.below(3) as usize]))
        .build()
        .expect("drawn within the ranges")
}

fn draw_link(rng: &mut Rng) -> LinkFaults {
    let milliseconds =
        |rng: &mut Rng, max: u32| Duration::from_micros(u64::from(rng.below(max * 1000 + 1)));
    LinkFaults {
        delay: if rng.chance(0.5) { milliseconds(rng, 5) } else { Duration::ZERO },
        jitter: if rng.chance(0.5) { milliseconds(rng, 10) } else { Duration::ZERO },
        loss: match rng.below(4) {
            0 => Loss::Independent(rng.unit() * 0.3),
            1 => Loss::GilbertElliott {
                good_to_bad: rng.unit() * 0.1,
                bad_to_good: 0.05 + rng.unit() * 0.4,
                bad_loss: 0.5 + rng.unit() * 0.5,
            },
            _ => Loss::None,
        },
        duplicate: if rng.chance(0.4) { rng.unit() * 0.5 } else { 0.0 },
        reorder: if rng.chance(0.4) { rng.unit() * 0.5 } else { 0.0 },
        reorder_delay: Duration::from_millis(u64::from(1 + rng.below(20))),
        stream_resend_after: Duration::from_millis(u64::from(1 + rng.below(30))),
    }
}

fn draw_faults(rng: &mut Rng, ring: &[u32]) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    let at = |ms: u32| Instant::ZERO + Duration::from_millis(ms.into());
    let any = |rng: &mut Rng| NodeId::from(ring[rng.below(ring.len() as u32) as usize]);
    // Most faults fall while there is traffic, at the beginning.
    let when = |rng: &mut Rng| {
        let span = if rng.chance(0.7) { 60 } else { FAULTS_MS - 300 };
        rng.below(span)
    };
    if ring.len() > 1 && rng.chance(0.6) {
        let favourite = rng.below(ring.len() as u32) as usize;
        let (from, to) = (ring[favourite], ring[(favourite + 1) % ring.len()]);
        for _ in 0..1 + rng.below(15) {
            let (from, to) = match rng.below(3) {
                0 => (NodeId::from(from), NodeId::from(to)),
                _ => (any(rng), any(rng)),
            };
            if from != to {
                let down = Duration::from_millis([0, 1, 10, 150][rng.below(4) as usize]);
                faults.push((at(when(rng)), Fault::Reset(from, to, down)));
            }
        }
    }
    if rng.chance(0.4) {
        for _ in 0..1 + rng.below(6) {
            let pause = Duration::from_millis(u64::from(1 + rng.below(200)));
            faults.push((at(when(rng)), Fault::Pause(any(rng), pause)));
        }
    }
    if ring.len() > 1 && rng.chance(0.4) {
        for _ in 0..1 + rng.below(4) {
            let begin = when(rng);
            let fault = if rng.chance(0.5) {
                let group =
                    ring.iter().copied().filter(|_| rng.chance(0.5)).map(NodeId::from).collect();
                Fault::Partition(vec![group])
            } else {
                Fault::Block(any(rng), any(rng))
            };
            faults.push((at(begin), fault));
            faults.push((at(begin + 1 + rng.below(200)), Fault::Heal));
        }
    }
    faults.push((at(FAULTS_MS), Fault::Heal));
    faults.push((at(FAULTS_MS), Fault::Link { from: None, to: None, link: LinkFaults::default() }));
    faults
}

/// Sends what it has to send, and consumes what it is given after a while.
struct Application {
    rng: Rng,
    waiting: Vec<VecDeque<Command>>,
    // A command of this node is on its way.
    is_sending: Vec<bool>,
    keeps_to_admission: bool,
    consumes_within_ms: u32,
    phases: Vec<Phase>,
}

impl Application {
    fn new(scenario: &Scenario, rng: &mut Rng) -> Application {
        let mut waiting = vec![VecDeque::new(); scenario.ring.len()];
        for sender in &scenario.senders {
            waiting[sender.index()] = (0..scenario.messages)
                .map(|_| Command::Broadcast {
                    payload: draw_payload(rng, &scenario.config),
                    topology: (scenario.draws_topologies && rng.chance(0.5))
                        .then(|| Topology::ALL[rng.below(4) as usize]),
                    urgency: if rng.chance(0.3) { Urgency::Latency } else { Urgency::Throughput },
                })
                .collect();
        }
        Application {
            rng: Rng::new(scenario.seed, 0xa44),
            is_sending: vec![false; waiting.len()],
            waiting,
            keeps_to_admission: scenario.keeps_to_admission,
            consumes_within_ms: scenario.consumes_within_ms,
            phases: scenario.phases.clone(),
        }
    }

    /// The next message of a member, if its application has one now.
    fn next(&mut self, at: Instant, node: NodeId) -> Option<(Duration, Command)> {
        if let Some(command) = self.waiting[node.index()].pop_front() {
            let after = if self.rng.chance(0.3) { self.rng.below(3000) } else { 0 };
            return Some((Duration::from_micros(after.into()), command));
        }
        let bytes = self.phases.iter().find(|phase| phase.has(at, node))?.message_bytes;
        Some((Duration::ZERO, Command::broadcast(Payload::Zeros(bytes))))
    }

    fn start<P: Member>(&mut self, sim: &mut Sim<P>) {
        for phase in &self.phases {
            phase.senders.iter().for_each(|&node| sim.wake_at(phase.from, node));
        }
        for (node, waiting) in (0..).map(NodeId).zip(&mut self.waiting) {
            let now = if self.keeps_to_admission { 1 } else { waiting.len() };
            for command in waiting.drain(..now.min(waiting.len())) {
                let at = Duration::from_micros(u64::from(self.rng.below(50_000)));
                sim.command_at(Instant::ZERO + at, node, command);
            }
        }
    }
}

impl<P: Member> Observer<P> for Application {
    fn before_call(&mut self, _: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        if let Input::Command(Command::Broadcast { .. }) = input {
            self.is_sending[node.index()] = false;
        }
    }

    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if let Event::Delivered { origin, end, .. } = event {
            let after = self.rng.below(self.consumes_within_ms * 1000 + 1);
            let command = Command::Consumed { origin: *origin, end: *end };
            reply.command(Duration::from_micros(after.into()), node, command);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        let place = node.index();
        if protocol.admission() > 0
            && !self.is_sending[place]
            && let Some((after, command)) = self.next(at, node)
        {
            self.is_sending[place] = true;
            reply.command(after, node, command);
        }
    }

    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.after_call(at, node, protocol, reply);
    }
}

fn draw_payload(rng: &mut Rng, config: &Config) -> Payload {
    let (block, max) = (config.block_bytes_max() as u32, config.message_bytes_max() as u32);
    let bytes = match rng.below(10) {
        0 => 0,
        1 => 1,
        2 => block - 1,
        3 => block,
        4 => block + 1,
        5 => max,
        6 if rng.chance(0.2) => max + 1,
        _ => rng.below(max.min(20_000) + 1),
    };
    if rng.chance(0.3) {
        return Payload::Zeros(bytes);
    }
    let first = rng.next_u32();
    let byte = |i: u32| (first.wrapping_add(i.wrapping_mul(0x9e37_79b9)) >> 24) as u8;
    Payload::from((0..bytes).map(byte).collect::<Vec<u8>>())
}

/// A member that is not tampered with.
pub fn honest(config: &Config) -> impl FnMut(NodeId) -> Chain + Send + 'static {
    let config = config.clone();
    move |_| Chain::new(&config)
}
