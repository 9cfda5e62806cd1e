//! One seed, one overlay whose nodes come and go, one set of faults.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_check::amid::CRASHED_AMID;
use paceline_check::checkers::overlay::{Host, OverlayLedger, Terms};
use paceline_check::checkers::zave::RingChecker;
use paceline_check::swarm::Options;
use paceline_check::{Gate, Honest, LIES, Swarm};
use paceline_proto::core::{Instant, LinkFaults, Loss, MembershipCommand, NodeId, Payload, Rng};
use paceline_proto::overlay::{
    Algorithm, Command, Config, Event, Item, Key, Operation, Outcome as KeyOutcome, Overlay, Space,
    Style,
};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, NetworkConfig, Nodes, Observer, Reply, Sim, SimConfig,
};

/// Requests and faults begin at this time,
pub const BEGIN: u64 = 8_000;
/// and end at this one.
pub const FAULTS: u64 = 30_000;
/// After that the overlay has this long to be whole again,
pub const HEAL: u64 = 45_000;
/// and what is asked then must be answered within this.
pub const ANSWER: u64 = 10_000;
/// Some runs end with a permanent partition. After this long both parts take themselves for whole,
pub const CUT: u64 = 30_000;
/// and what is asked then has its outcome, or is given up, within this.
pub const CUT_ANSWER: u64 = 12_000;

/// Consecutive seeds have different algorithms.
pub fn algorithm_of(seed: u64) -> Algorithm {
    Algorithm::ALL[(seed % Algorithm::ALL.len() as u64) as usize]
}

/// What a seed does to an overlay.
#[derive(Clone, Debug)]
pub enum Act {
    Command(NodeId, Command),
    Fault(Fault),
}

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub algorithm: Algorithm,
    pub nodes: u32,
    pub config: Config,
    pub network: NetworkConfig,
    pub codec: Codec,
    pub acts: Vec<(Instant, Act)>,
    /// Nodes that write, each under keys of its own.
    pub writers: u32,
    /// Messages may be lost or late beyond what time-outs allow for.
    pub has_network_faults: bool,
    /// Nodes that are permanently cut off from the others at the end.
    pub cut_off: Vec<NodeId>,
    /// Nodes with the numbers after those of the overlay that are no part of it.
    pub strangers: u32,
    /// What it refuses is not seen.
    pub gate: Gate,
    /// The test file that replays it.
    pub suite: &'static str,
}

pub fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

pub fn join(peers: impl IntoIterator<Item = u32>) -> Command {
    MembershipCommand::Join {
        address: Bytes::new(),
        peers: peers.into_iter().map(NodeId::from).collect(),
    }
    .into()
}

/// Knobs with which an overlay mends itself within the time of a run.
pub fn config(seed: u64) -> Config {
    Config::new(Space::new(seed))
        .with_upkeep_every(Some(Duration::from_millis(250)))
        .with_upkeep_every_max(Duration::from_millis(500))
        .with_sync_every(Duration::from_secs(1))
        .with_answer_within(Duration::from_secs(2))
        .with_ack_after_max(Duration::from_millis(500))
        .with_join_within(Duration::from_secs(40))
        .with_leave_within(Duration::from_secs(6))
}

impl Scenario {
    /// An overlay of `nodes` that is founded by node 0 and joined by the others one by one.
    pub fn new(seed: u64, algorithm: Algorithm, nodes: u32) -> Scenario {
        let link = LinkFaults { delay: Duration::from_millis(1), ..LinkFaults::default() };
        let network = NetworkConfig { link, ..NetworkConfig::default() };
        let mut acts = vec![(
            at(1),
            Act::Command(NodeId(0), MembershipCommand::Bootstrap { address: Bytes::new() }.into()),
        )];
        for node in 1..nodes {
            acts.push((
                at(50 + 100 * u64::from(node)),
                Act::Command(NodeId::from(node), join([0])),
            ));
        }
        Scenario {
            seed,
            algorithm,
            nodes,
            config: config(seed).with_algorithm(algorithm),
            network,
            codec: Codec::Typed,
            acts,
            writers: 3.min(nodes),
            has_network_faults: false,
            cut_off: Vec::new(),
            strangers: 0,
            gate: Gate::default(),
            suite: "overlay_seeds",
        }
    }

    /// Draws a run. Every kind of fault is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x0e71);
        let algorithm = algorithm_of(seed);
        let nodes = match rng.below(10) {
            0 => 1 + rng.below(4),
            1 => 30 + rng.below(10),
            _ => 5 + rng.below(20),
        };
        let mut scenario = Scenario::new(seed, algorithm, nodes);
        scenario.config = scenario.config.with_copies(1 + rng.below(4) as usize);
        if rng.chance(0.2) {
            scenario.config = scenario.config.with_ranges(true);
        }
        if rng.chance(0.5) {
            scenario.codec = Codec::CheckWire;
        }
        if rng.chance(0.3) {
            // All at once, through whomever.
            for (when, act) in scenario.acts.iter_mut().skip(1) {
                *when = at(2 + u64::from(rng.below(500)));
                if let Act::Command(_, Command::Membership(MembershipCommand::Join { peers, .. })) =
                    act
                {
                    *peers = (0..nodes).map(NodeId::from).collect();
                }
            }
        }
        scenario.draw_faults(&mut rng);
        scenario.draw_cut(&mut Rng::new(seed, 0xc07));
        scenario
    }

    /// Draws what goes wrong between [`BEGIN`] and [`FAULTS`], and who leaves and comes back.
    pub fn draw_faults(&mut self, rng: &mut Rng) {
        let when = |rng: &mut Rng| BEGIN + u64::from(rng.below((FAULTS - BEGIN - 4000) as u32));
        let nodes = self.nodes;
        // Node 0 stays, so that there is always a host to join through.
        let is_cut = nodes > 2 && rng.chance(0.3);
        // A writer that forgets how far it was cannot tell those who were cut off from it.
        let first = if is_cut { self.writers.min(nodes - 1) } else { 1 };
        let any =
            |rng: &mut Rng| NodeId::from(first + rng.below(nodes.saturating_sub(first).max(1)));
        let mut acts = Vec::new();
        if rng.chance(0.4) {
            self.has_network_faults = true;
            let link = LinkFaults {
                delay: Duration::from_micros(u64::from(rng.below(10_000))),
                jitter: Duration::from_micros(u64::from(rng.below(20_000))),
                loss: Loss::Independent(rng.unit() * 0.15),
                duplicate: if rng.chance(0.5) { rng.unit() * 0.3 } else { 0.0 },
                reorder: if rng.chance(0.5) { rng.unit() * 0.3 } else { 0.0 },
                reorder_delay: Duration::from_millis(u64::from(1 + rng.below(30))),
                stream_resend_after: Duration::from_millis(u64::from(1 + rng.below(30))),
            };
            acts.push((when(rng), Act::Fault(Fault::Link { from: None, to: None, link })));
        }
        let others = |node: NodeId| (0..nodes).filter(move |&other| NodeId::from(other) != node);
        if nodes > 1 && rng.chance(0.6) {
            for _ in 0..1 + rng.below(nodes.div_ceil(3)) {
                let (node, begin) = (any(rng), when(rng));
                acts.push((begin, Act::Fault(Fault::Crash(node))));
                if rng.chance(0.8) {
                    let again = begin + u64::from(rng.below(4000)) + 1;
                    acts.push((again, Act::Fault(Fault::Restart(node))));
                    acts.push((again, Act::Command(node, join(others(node)))));
                }
            }
        }
        if nodes > 1 && rng.chance(0.4) {
            for _ in 0..1 + rng.below(3) {
                let (node, begin) = (any(rng), when(rng));
                acts.push((begin, Act::Command(node, MembershipCommand::Leave.into())));
                if rng.chance(0.5) {
                    let again = begin + 7000 + u64::from(rng.below(3000));
                    acts.push((again, Act::Command(node, join(others(node)))));
                }
            }
        }
        if nodes > 1 && rng.chance(0.25) {
            self.has_network_faults = true;
            for _ in 0..1 + rng.below(3) {
                let pause = Duration::from_millis(u64::from(100 + rng.below(3000)));
                acts.push((when(rng), Act::Fault(Fault::Pause(any(rng), pause))));
            }
        }
        if is_cut {
            self.has_network_faults = true;
            for _ in 0..1 + rng.below(2) {
                let begin = when(rng);
                let fault = if rng.chance(0.6) {
                    let part = (0..nodes).filter(|_| rng.chance(0.5)).map(NodeId::from).collect();
                    Fault::Partition(vec![part])
                } else {
                    Fault::Block(any(rng), NodeId(0))
                };
                acts.push((begin, Act::Fault(fault)));
                acts.push((begin + 100 + u64::from(rng.below(5000)), Act::Fault(Fault::Heal)));
            }
        }
        acts.sort_by_key(|&(when, _)| when);
        self.acts.extend(acts.into_iter().map(|(when, act)| (at(when), act)));
        let link = LinkFaults { delay: Duration::from_millis(1), ..LinkFaults::default() };
        self.acts.push((at(FAULTS), Act::Fault(Fault::Heal)));
        self.acts.push((at(FAULTS), Act::Fault(Fault::Link { from: None, to: None, link })));
    }

    fn draw_cut(&mut self, rng: &mut Rng) {
        if self.nodes > 1 && rng.chance(0.4) {
            // From one node alone to halves.
            let share = rng.unit() * 0.5;
            let others = (0..self.nodes).filter(|_| rng.chance(share)).map(NodeId::from).collect();
            let alone = NodeId::from(rng.below(self.nodes));
            self.cut_off = if rng.chance(0.3) { vec![alone] } else { others };
        }
    }

    /// Runs the scenario with nodes made by `make`.
    pub fn run<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    /// A run of the scenario that has not begun.
    pub fn sim<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Sim<'static, P>, String> {
        let mut config = SimConfig::new((self.nodes + self.strangers) as usize, self.seed);
        config.network = self.network.clone();
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let shared = self.config.clone().build().map_err(|error| error.to_string())?;
        let mut sim = Sim::new(config, Arc::new(shared), make);
        for (when, act) in &self.acts {
            match act.clone() {
                Act::Command(node, command) => sim.command_at(*when, node, command),
                Act::Fault(fault) => sim.fault_at(*when, fault),
            }
        }
        for writer in 0..self.writers {
            sim.wake_at(at(BEGIN + 100 * u64::from(writer)), NodeId::from(writer));
        }
        Ok(sim)
    }

    fn run_checked<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        let mut sim = self.sim(make)?;
        let repaired_within = (!self.has_network_faults).then_some(Duration::from_secs(8));
        let terms = Terms { repaired_within, has_strangers: self.strangers > 0 };
        let ledger = OverlayLedger::new(&self.config, terms);
        let is_ring = !self.has_network_faults && self.strangers == 0;
        let ring = RingChecker::new(&self.config, is_ring);
        let application = Application::new(self);
        let observer = ((ledger, ring), application);
        let mut watching = Honest { nodes: self.nodes, observer, gate: self.gate.clone() };
        sim.run_until(at(FAULTS + HEAL), &mut watching);
        let observers = &mut watching.observer;
        judge(&observers.0)?;
        observers.0.0.check_quiet(&sim, self.nodes);
        judge(&observers.0)?;
        // Now that all is quiet, everybody is asked.
        let keys: Vec<Key> = observers.0.0.keys().collect();
        observers.1.end();
        for (node, command) in self.last_requests(&sim, &keys)? {
            sim.command_at(at(FAULTS + HEAL + 1000), node, command);
        }
        sim.run_until(at(FAULTS + HEAL + ANSWER), &mut watching);
        let observers = &mut watching.observer;
        judge(&observers.0)?;
        let answers = std::mem::take(&mut observers.1.answers);
        for (when, node, key, told) in &answers {
            observers.0.0.check_answer(&sim, self.nodes, *when, *node, *key, told);
        }
        observers.0.0.check_quiet(&sim, self.nodes);
        judge(&observers.0)?;
        self.check_cut(&mut sim, observers, &keys)?;
        let oversized = sim.counters().count("sim_datagram_oversized");
        if oversized > 0 {
            return Err(format!("{oversized} datagrams were too large"));
        }
        let (outcomes, failed) = observers.0.0.outcomes();
        Ok(Outcome {
            digest: sim.digest(),
            outcomes,
            failed,
            events: sim.events_handled(),
            ring_checks: observers.0.1.checks(),
            lies: sim.counters().count(LIES.name()),
            crashed_amid: sim.counters().count(CRASHED_AMID),
        })
    }
}

impl Scenario {
    /// What is asked of all members once all is quiet.
    pub fn last_requests<P: Host + 'static>(
        &self,
        nodes: &impl Nodes<P>,
        keys: &[Key],
    ) -> Result<Vec<(NodeId, Command)>, String> {
        let mut rng = Rng::new(self.seed, 0xf1a1);
        let members = self.members(nodes);
        if !members.contains(&NodeId(0)) {
            return Err("the founder is no member".into());
        }
        let mut requests = Vec::new();
        for (number, &node) in (0..).zip(&members) {
            let style = if rng.chance(0.5) { Style::Recursive } else { Style::Iterative };
            let any = |rng: &mut Rng| Key::of(&rng.next_u64().to_be_bytes());
            let located: Vec<Key> = (0..8).map(|_| any(&mut rng)).collect();
            let request = |id, operation| Command::Request { id, operation, style };
            let id = 1_000_000 + 2 * number;
            requests.push((node, request(id, Operation::Locate(located))));
            if !keys.is_empty() && number < 6 {
                requests.push((node, request(id + 1, Operation::Get(keys.to_vec()))));
            }
        }
        Ok(requests)
    }

    pub fn members<P: Host + 'static>(&self, sim: &impl Nodes<P>) -> Vec<NodeId> {
        let is_member = |&node: &NodeId| sim.is_alive(node) && sim.node(node).overlay().is_member();
        (0..self.nodes).map(NodeId::from).filter(is_member).collect()
    }

    /// Partitions the overlay permanently, and requests all keys from both parts.
    fn check_cut<P: Host + 'static>(
        &self,
        sim: &mut Sim<'_, P>,
        observers: &mut ((OverlayLedger, RingChecker), Application),
        keys: &[Key],
    ) -> Result<(), String> {
        if self.cut_off.is_empty() || keys.is_empty() {
            return Ok(());
        }
        let begin = sim.now();
        sim.fault_at(begin, Fault::Partition(vec![self.cut_off.clone()]));
        // After a partition there is no valid ring until each side has closed its own.
        let (ledger, application) = (&mut observers.0.0, &mut observers.1);
        let observer = (ledger, application);
        let mut watching = Honest { nodes: self.nodes, observer, gate: self.gate.clone() };
        sim.run_until(begin + Duration::from_millis(CUT), &mut watching);
        for (id, node) in (2_000_000..).zip(self.members(sim)) {
            let operation = Operation::Get(keys.to_vec());
            let command = Command::Request { id, operation, style: Style::Recursive };
            sim.command_at(sim.now(), node, command);
        }
        sim.run_until(begin + Duration::from_millis(CUT + CUT_ANSWER), &mut watching);
        let (ledger, application) = watching.observer;
        let answers = std::mem::take(&mut application.answers);
        if !self.members(sim).is_empty() && answers.is_empty() {
            return Err("no request was answered after the cut".into());
        }
        for (when, node, key, told) in &answers {
            ledger.check_cut_off(*when, *node, *key, told);
        }
        judge(&observers.0)
    }
}

impl Scenario {
    /// Keeps only the faults for which this is true.
    fn retain(&mut self, stays: impl Fn(&Fault) -> bool) {
        self.acts.retain(|(_, act)| !matches!(act, Act::Fault(fault) if !stays(fault)));
    }
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const REPEATED_EVERY: u64 = 16;

    const OPTIONS: Options<Scenario> = &[
        ("crashes", |run| {
            run.retain(|fault| !matches!(fault, Fault::Crash(_) | Fault::CrashAmid { .. }));
        }),
        ("pauses", |run| run.retain(|fault| !matches!(fault, Fault::Pause(..)))),
        ("partitions", |run| {
            run.retain(|fault| !matches!(fault, Fault::Partition(_) | Fault::Block(..)));
        }),
        ("link faults", |run| run.retain(|fault| !matches!(fault, Fault::Link { .. }))),
        ("departures", |run| {
            run.acts.retain(|(_, act)| {
                !matches!(act, Act::Command(_, Command::Membership(MembershipCommand::Leave)))
            });
        }),
        ("the cut at the end", |run| run.cut_off.clear()),
        ("more than one writer", |run| run.writers = 1),
        ("more than one copy", |run| run.config = run.config.clone().with_copies(1)),
        ("ranges", |run| run.config = run.config.clone().with_ranges(false)),
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
        let acts: Vec<String> =
            self.acts.iter().map(|(when, act)| format!("{when} {act:?}")).collect();
        let (algorithm, copies) = (self.algorithm, self.config.copies());
        format!("{algorithm:?}, {} nodes, {copies} copies\n{}", self.nodes, acts.join("\n"))
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

pub fn judge((ledger, ring): &(OverlayLedger, RingChecker)) -> Result<(), String> {
    if let Some(violation) = ledger.violation() {
        return Err(violation.to_string());
    }
    ring.violation().map_or(Ok(()), |violation| Err(violation.to_string()))
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub digest: Digest,
    pub outcomes: u64,
    pub failed: u64,
    pub events: u64,
    pub ring_checks: u64,
    /// Messages that strangers sent.
    pub lies: u64,
    /// Crashes within a handler call.
    pub crashed_amid: u64,
}

/// Writes and reads: a writer has one write open at a time.
pub struct Application {
    rng: Rng,
    writers: u32,
    next_id: u64,
    // Until when a writer that crashed leaves its keys alone.
    resting: BTreeMap<NodeId, Instant>,
    // The write a writer waits for, and keys without an outcome.
    writing: BTreeMap<NodeId, (u64, usize)>,
    pub is_over: bool,
    pub answers: Vec<(Instant, NodeId, Key, KeyOutcome)>,
}

/// Keys of a writer.
const KEYS: u32 = 12;

fn key_of(writer: u32, number: u32) -> Key {
    Key::of(&[writer.to_be_bytes(), number.to_be_bytes()].concat())
}

/// The keys that a writer writes.
pub fn keys_of(writer: u32) -> impl Iterator<Item = Key> {
    (0..KEYS).map(move |number| key_of(writer, number))
}

impl Scenario {
    /// All keys that are written.
    pub fn keys(&self) -> Vec<Key> {
        (0..self.writers).flat_map(keys_of).collect()
    }
}

impl Application {
    /// No more is written; what is asked from now on is kept.
    pub fn end(&mut self) {
        self.is_over = true;
        self.answers.clear();
    }

    pub fn new(scenario: &Scenario) -> Application {
        Application {
            rng: Rng::new(scenario.seed, 0xa44),
            writers: scenario.writers,
            next_id: 0,
            resting: BTreeMap::new(),
            writing: BTreeMap::new(),
            is_over: false,
            answers: Vec::new(),
        }
    }

    fn some_keys(&mut self, writer: u32) -> Vec<Key> {
        let mut keys: Vec<Key> = (0..KEYS)
            .filter(|_| self.rng.chance(0.4))
            .map(|number| key_of(writer, number))
            .collect();
        if keys.is_empty() {
            keys.push(key_of(writer, 0));
        }
        keys
    }

    fn operation(&mut self, at: Instant, node: NodeId) -> Operation {
        let any = self.rng.below(self.writers);
        let may_write = !self.writing.contains_key(&node)
            && self.resting.get(&node).is_none_or(|&until| until <= at);
        match self.rng.below(10) {
            0..4 if may_write => {
                let keys = self.some_keys(node.index() as u32);
                let item = |key| {
                    let mut value = self.next_id.to_be_bytes().to_vec();
                    let bytes = [8, 30, 500, 5000][self.rng.below(4) as usize];
                    value.resize(bytes, node.0 as u8);
                    let lifetime = Duration::from_secs(600);
                    Item { key, value: Payload::from(value), lifetime }
                };
                Operation::Put(keys.into_iter().map(item).collect())
            }
            4 if may_write => Operation::Remove(self.some_keys(node.index() as u32)),
            5 => Operation::Locate(self.some_keys(any)),
            6 => {
                let payload = Payload::from(self.next_id.to_be_bytes().to_vec());
                Operation::Send { keys: self.some_keys(any), payload }
            }
            _ => Operation::Get(self.some_keys(any)),
        }
    }
}

impl<P: Host> Observer<P> for Application {
    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        if at < self::at(FAULTS) {
            reply.wake(Duration::from_millis(20 + u64::from(self.rng.below(300))), node);
        }
        if !protocol.overlay().is_member() || self.is_over {
            return;
        }
        let operation = self.operation(at, node);
        let id = self.next_id;
        self.next_id += 1;
        if matches!(operation, Operation::Put(_) | Operation::Remove(_)) {
            self.writing.insert(node, (id, operation.keys().count()));
        }
        let style = if self.rng.chance(0.5) { Style::Recursive } else { Style::Iterative };
        reply.submit(Command::Request { id, operation, style });
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<P>) {
        match event {
            Event::Outcome { id, outcomes } => {
                if self.is_over {
                    self.answers
                        .extend(outcomes.iter().map(|(key, told)| (at, node, *key, told.clone())));
                }
                if let Some((writing, left)) = self.writing.get_mut(&node)
                    && writing == id
                {
                    *left -= outcomes.len();
                    // What became of a write that timed out is not known: it may still happen.
                    let is_open =
                        |(_, told): &(Key, KeyOutcome)| matches!(told, KeyOutcome::Failed(_));
                    if outcomes.iter().any(is_open) {
                        self.resting.insert(node, at + Duration::from_secs(10));
                    }
                    if *left == 0 {
                        self.writing.remove(&node);
                    }
                }
            }
            Event::Rejected { id, .. }
                if self.writing.get(&node).is_some_and(|(writing, _)| writing == id) =>
            {
                self.writing.remove(&node);
            }
            _ => {}
        }
    }

    fn on_fault(&mut self, at: Instant, fault: &Fault) {
        if let Fault::Crash(node) = fault {
            self.writing.remove(node);
            self.resting.insert(*node, at + Duration::from_secs(10));
        }
    }
}

/// Nodes that are not tampered with.
pub fn honest(config: &Config) -> impl FnMut(NodeId) -> Overlay + Send + 'static {
    let config = config.clone();
    move |node| Overlay::new(&config, node)
}
