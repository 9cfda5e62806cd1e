//! One seed, a graph and its servers, jobs, one set of faults: what the seeds and the canaries
//! share.

pub mod draw;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use paceline_check::amid::CRASHED_AMID;
use paceline_check::checkers::walk::{Node, Totals, WalkLedger, World};
use paceline_check::clock::{ByClock, Clocks};
use paceline_check::cuts::SEVERED;
use paceline_check::lies::Known;
use paceline_check::swarm::Options;
use paceline_check::{Gate, Honest, LIES, Swarm};
use paceline_proto::core::{Instant, LinkFaults, NodeId, Rng};
use paceline_proto::walk::{Command, Config, Event, Graph, Job, JobId, Owners, Part, Server};
use paceline_sim::{Codec, Digest, Fault, FaultSupport, Observer, Overhead, Reply, Sim, SimConfig};

/// Faults end by then, milliseconds.
pub const FAULTS_MS: u32 = 300;
/// Within this time after the faults all jobs must be over: seconds.
const COMPLETE_S: u64 = 120;
/// Events of a run at most: several times as many as any has that ends.
const EVENTS_MAX: u64 = 3_000_000;
/// Steps of a walker that a stranger or a rogue node makes up, at most.
const LIE_STEPS_MAX: u32 = 300;
/// Copies of such a walker that a network which duplicates datagrams may make, on average.
const LIE_COPIES_MAX: f64 = 10.0;

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub vertices: u32,
    /// In the order of the rows.
    pub edges: Vec<(u32, u32)>,
    pub weights: Option<Vec<f32>>,
    pub labels: Option<Vec<u8>>,
    pub servers: u32,
    /// Nodes without vertices, after the servers.
    pub clients: u32,
    /// By vertex.
    pub owners: Vec<u16>,
    /// By node.
    pub configs: Vec<Config>,
    pub datagram_bytes_max: usize,
    pub link: LinkFaults,
    pub codec: Codec,
    pub faults: Vec<(Instant, Fault)>,
    pub jobs: Vec<(Instant, NodeId, Job)>,
    pub cancels: Vec<(Instant, NodeId, JobId)>,
    /// How long the application takes to consume an event.
    pub consumes_within_micros: u32,
    /// Nodes with the numbers after all others that have no part in this.
    pub strangers: u32,
    /// What it refuses is not seen.
    pub gate: Gate,
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
    /// Messages that the network lost.
    pub messages_lost: u64,
    /// Messages that strangers sent.
    pub lies: u64,
    /// Messages dropped by permanently cut links.
    pub severed: u64,
    /// Crashes within a handler call.
    pub crashed_amid: u64,
}

impl Scenario {
    pub fn nodes(&self) -> u32 {
        self.servers + self.clients
    }

    /// What nodes that lie know. The walkers that they make up take few steps where the network
    /// duplicates datagrams: each step may be a datagram, and of one that arrives twice two
    /// walkers go on.
    pub fn known(&self) -> Known {
        let steps = (LIE_COPIES_MAX.ln() / self.link.duplicate.ln_1p()) as u32;
        let steps_max = steps.min(LIE_STEPS_MAX);
        Known { vertices: self.vertices, steps_max, ..Known::default() }
    }

    pub fn graph(&self) -> Graph {
        let graph = Graph::from_edges(self.vertices, self.edges.iter().copied());
        let mut graph = graph.expect("edges lead to vertices");
        if let Some(weights) = &self.weights {
            graph = graph.with_weights(weights).expect("a weight for each edge");
        }
        if let Some(labels) = &self.labels {
            graph = graph.with_labels(labels.clone()).expect("a label for each edge");
        }
        graph
    }

    pub fn world(&self) -> (Arc<Graph>, Arc<Owners>, World) {
        let graph = Arc::new(self.graph());
        let servers = (0..self.servers).map(NodeId::from).collect();
        let owners = Owners::new(servers, self.owners.clone()).expect("each vertex has a server");
        let owners = Arc::new(owners);
        let weights = self.weights.as_deref().map(Arc::from);
        let world = World::new(graph.clone(), owners.clone(), weights);
        (graph, owners, world)
    }

    /// Runs the scenario with honest nodes.
    pub fn run(&self) -> Result<Outcome, String> {
        self.run_with(|_, config, part| {
            Server::new(config, part).expect("what is drawn is possible")
        })
    }

    /// Runs the scenario with nodes made by `make`.
    pub fn run_with<P: Node>(
        &self,
        make: impl FnMut(NodeId, Config, Part) -> P,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Node>(
        &self,
        mut make: impl FnMut(NodeId, Config, Part) -> P,
    ) -> Result<Outcome, String> {
        let (graph, owners, world) = self.world();
        let mut config = SimConfig::new((self.nodes() + self.strangers) as usize, self.seed);
        config.network.overhead = Overhead::None;
        config.network.link = self.link;
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        config.datagram_bytes_max = self.datagram_bytes_max;
        let doubles = self.link.duplicate > 0.0;
        let ledger = WalkLedger::new(world, self.configs.clone(), self.datagram_bytes_max, doubles);
        let mut sim = Sim::new(config, Arc::new(()), |node| {
            let part = Part::new(node, graph.clone(), owners.clone());
            let config = self.configs.get(node.index()).unwrap_or(&self.configs[0]);
            make(node, *config, part)
        });
        self.schedule(&mut sim);
        let ledger = ByClock { clocks: self.clocks.clone(), observer: ledger };
        let observer = (ledger, Application::new(self));
        let mut observers = Honest { nodes: self.nodes(), observer, gate: self.gate.clone() };
        let until = at(FAULTS_MS) + Duration::from_secs(COMPLETE_S);
        while sim.now() < until
            && observers.observer.0.observer.violation().is_none()
            && (sim.now() <= at(FAULTS_MS) || observers.observer.0.observer.is_busy())
            && sim.step(&mut observers)
        {
            if sim.events_handled() > EVENTS_MAX {
                let now = sim.now();
                let open = observers.observer.0.observer.check_complete(now).err();
                return Err(format!("{EVENTS_MAX} events and no end at {now}: {open:?}"));
            }
        }
        let now = sim.now();
        observers
            .observer
            .0
            .observer
            .check_complete(now)
            .map_err(|violation| violation.to_string())?;
        let events = sim.events_handled();
        while sim.events_handled() < events + EVENTS_MAX
            && observers.observer.0.observer.violation().is_none()
            && sim.step(&mut observers)
        {}
        observers
            .observer
            .0
            .observer
            .check_rest(&sim)
            .map_err(|violation| violation.to_string())?;
        let count = |name| sim.counters().count(name);
        Ok(Outcome {
            digest: sim.digest(),
            totals: observers.observer.0.observer.totals(),
            events: sim.events_handled(),
            messages_lost: count("sim_lost") + count("sim_partitioned"),
            lies: count(LIES.name()),
            severed: count(SEVERED),
            crashed_amid: count(CRASHED_AMID),
        })
    }

    fn schedule<P: Node>(&self, sim: &mut Sim<'_, P>) {
        for (at, fault) in &self.faults {
            sim.fault_at(*at, fault.clone());
        }
        for (at, node, job) in &self.jobs {
            sim.command_at(*at, *node, Command::Run(Box::new(job.clone())));
        }
        for &(at, node, job) in &self.cancels {
            sim.command_at(at, node, Command::Cancel(job));
        }
        let when = at(FAULTS_MS);
        sim.fault_at(when, Fault::Heal);
        sim.fault_at(when, Fault::Link { from: None, to: None, link: LinkFaults::default() });
        let crashed = self.faults.iter().filter_map(|(_, fault)| match fault {
            Fault::Crash(node) => Some(*node),
            _ => None,
        });
        for node in crashed.collect::<BTreeSet<NodeId>>() {
            // If it is up by then, this changes nothing.
            sim.fault_at(when, Fault::Restart(node));
        }
    }
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const REPEATED_EVERY: u64 = 16;

    const OPTIONS: Options<Scenario> = &[
        ("faults", |run| run.faults.clear()),
        ("link faults", |run| run.link = LinkFaults::default()),
        ("cancellations", |run| run.cancels.clear()),
        ("more than one job", |run| run.jobs.truncate(1)),
        ("weights", |run| run.weights = None),
        ("labels", |run| run.labels = None),
        ("late consumption", |run| run.consumes_within_micros = 0),
        ("clocks", |run| run.clocks = Clocks::default()),
        ("strangers", |run| run.strangers = 0),
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

pub fn millis(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

/// Consumes events after a while.
struct Application {
    rng: Rng,
    consumes_within_micros: u32,
}

impl Application {
    fn new(scenario: &Scenario) -> Application {
        let consumes_within_micros = scenario.consumes_within_micros;
        Application { rng: Rng::new(scenario.seed, 0xa221), consumes_within_micros }
    }
}

impl<P: Node> Observer<P> for Application {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if let Event::Walks(job, walks) = event {
            let micros = self.rng.below(self.consumes_within_micros + 1);
            let after = Duration::from_micros(micros.into());
            reply.command(after, node, Command::Consumed(*job, walks.len()));
        }
    }
}
