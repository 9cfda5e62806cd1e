//! One seed, one group whose members come and go, one set of faults.

pub mod boundary;
pub mod hunt;
pub mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_check::amid::CRASHED_AMID;
use paceline_check::checkers::group::{GroupLedger, Host, RequestTotals};
use paceline_check::checkers::offered::Phase;
use paceline_check::swarm::Options;
use paceline_check::{Gate, Honest, LIES, Swarm};
use paceline_proto::core::{
    Instant, Lane, LinkFaults, Loss, Member, MembershipCommand, NodeId, Payload, Rng, View,
};
use paceline_proto::group::{Command, Config, Event, Group, Message, Role};
use paceline_proto::{chain, detector};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, Input, NetworkConfig, Nodes, Observer, Reply, Shape, Sim,
    SimConfig,
};
use requests::Requests;

/// Faults end at this time.
pub const FAULTS: Duration = Duration::from_secs(12);
/// After that the group has this long to be whole again.
pub const HEAL: Duration = Duration::from_secs(20);
/// From this time on, long after the last message was sent, no frame may be under way.
pub const REST: Duration = Duration::from_secs(27);

/// What a seed does to a group.
#[derive(Clone, Debug)]
pub enum Act {
    Command(NodeId, Command),
    Fault(Fault),
}

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub nodes: u32,
    pub config: Config,
    pub network: NetworkConfig,
    pub codec: Codec,
    /// The application of this node consumes nothing.
    pub never_reads: Option<NodeId>,
    pub acts: Vec<(Instant, Act)>,
    pub phases: Vec<Phase>,
    /// Members make requests to each other.
    pub has_requests: bool,
    /// Nodes with the numbers after those of the group that are no part of it.
    pub strangers: u32,
    /// What it refuses is not seen.
    pub gate: Gate,
    /// The test file that replays it.
    pub suite: &'static str,
}

/// The group's configuration with small windows, so that they fill.
pub fn config() -> Config {
    let chain = chain::Config::for_groups()
        .with_block_bytes_max(4096)
        .with_window_blocks(32)
        .with_window_bytes(64 << 10)
        .with_ack_blocks(8)
        .build()
        .expect("within the ranges");
    let config = Config::new(chain, detector::Config::default());
    config.with_direct_window_bytes(64 << 10).build().expect("within the ranges")
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

/// A message that says who sent it and which it is.
pub fn message(node: NodeId, number: u64, bytes: usize) -> Command {
    let mut content = Vec::with_capacity(bytes.max(12));
    content.extend_from_slice(&(node.index() as u32).to_be_bytes());
    content.extend_from_slice(&number.to_be_bytes());
    content.resize(bytes.max(12), node.0 as u8);
    Command::broadcast(Payload::from(content))
}

impl Scenario {
    /// A group of `nodes` that is formed by node 0 and joined by the others at once.
    pub fn new(seed: u64, nodes: u32) -> Scenario {
        let network = NetworkConfig {
            shape: Shape::Mesh,
            rate_bits_per_second: Some(100_000_000),
            link: LinkFaults { delay: Duration::from_micros(200), ..LinkFaults::default() },
            ..NetworkConfig::default()
        };
        let mut acts = vec![(
            at(1),
            Act::Command(NodeId(0), MembershipCommand::Bootstrap { address: Bytes::new() }.into()),
        )];
        for node in 1..nodes {
            acts.push((at(2), Act::Command(NodeId::from(node), join([0]))));
        }
        Scenario {
            seed,
            nodes,
            config: config(),
            network,
            codec: Codec::Typed,
            never_reads: None,
            acts,
            phases: Vec::new(),
            has_requests: false,
            strangers: 0,
            gate: Gate::default(),
            suite: "group_seeds",
        }
    }

    /// The same with members that do not watch their links: the group does not help itself where
    /// one carries nothing.
    pub fn unwatched(mut self) -> Scenario {
        // Longer than any run.
        let config = self.config.with_link_dead_after(Duration::from_secs(3600));
        self.config = config.build().expect("within the range");
        self
    }

    /// Every member sends `count` messages, evenly over the time of the faults.
    pub fn with_traffic(mut self, rng: &mut Rng, count: u64) -> Scenario {
        for node in (0..self.nodes).map(NodeId::from) {
            for number in 0..count {
                let bytes = [12, 100, 4000, 20_000][rng.below(4) as usize];
                let when = 300 + u64::from(rng.below(FAULTS.as_millis() as u32 + 3000));
                self.acts.push((at(when), Act::Command(node, message(node, number, bytes))));
            }
        }
        self
    }

    /// Draws a run. Every kind of fault is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x6709);
        let nodes = match rng.below(20) {
            0 => 33,
            1 => 2,
            _ => 3 + rng.below(6),
        };
        let mut scenario = Scenario::new(seed, nodes);
        if rng.chance(0.5) {
            scenario.codec = Codec::CheckWire;
        }
        // Joins at any time, by any peers.
        for (when, act) in scenario.acts.iter_mut().skip(1) {
            if rng.chance(0.5) {
                *when = at(u64::from(rng.below(4000)));
                // By then node 0 may be gone.
                if let Act::Command(_, Command::Membership(MembershipCommand::Join { peers, .. })) =
                    act
                {
                    *peers = (0..nodes).map(NodeId::from).collect();
                }
            }
        }
        let count = u64::from(1 + rng.below(if nodes > 12 { 5 } else { 30 }));
        scenario = scenario.with_traffic(&mut rng, count);
        scenario.draw_faults(&mut rng);
        scenario
    }

    /// Draws the same run, in which members also make requests to each other.
    pub fn draw_with_requests(seed: u64) -> Scenario {
        let mut scenario = Scenario::draw(seed);
        scenario.has_requests = true;
        // Small bounds, so that they are reached.
        let config = scenario.config.with_requests_max(8).with_requests_bytes_max(16 << 10);
        scenario.config = config.build().expect("within the ranges");
        scenario.suite = "group_request_seeds";
        scenario
    }

    /// Draws a run in which drawn members saturate the group, two sets of them one after the other,
    /// longer than a member may admit nothing. Between the two a member may crash or leave, and may
    /// come back.
    pub fn draw_saturated(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x5a7e);
        let nodes = 3 + rng.below(4);
        let mut scenario = Scenario::new(seed, nodes);
        if rng.chance(0.5) {
            scenario.network.shape = Shape::Star;
        }
        // Slow, so that a run is short. At 4 Mbit/s heartbeats wait behind bursts of messages to
        // one member for longer than the failure detector allows.
        scenario.network.rate_bits_per_second = Some(10_000_000);
        scenario.network.link.delay = Duration::from_micros(rng.below(1000).into());
        for (from, until) in [(3000, 7200), (10_000, 14_200)] {
            let senders = (0..nodes).filter(|_| rng.chance(0.6)).map(NodeId::from).collect();
            let message_bytes = [200, 1000, 4096, 20_000][rng.below(4) as usize];
            let (from, until) = (at(from), at(until));
            scenario.phases.push(Phase { from, until, senders, message_bytes });
        }
        let node = NodeId::from(rng.below(nodes));
        let begin = 7300 + u64::from(rng.below(300));
        let comes_back = rng.chance(0.7);
        let others = join((0..nodes).filter(|&other| NodeId::from(other) != node));
        match rng.below(3) {
            0 => {
                scenario.acts.push((at(begin), Act::Command(node, MembershipCommand::Leave.into())))
            }
            1 => {
                scenario.acts.push((at(begin), Act::Fault(Fault::Crash(node))));
                if comes_back {
                    scenario.acts.push((at(begin + 500), Act::Fault(Fault::Restart(node))));
                }
            }
            _ => return scenario,
        }
        if comes_back {
            scenario.acts.push((at(begin + 501), Act::Command(node, others)));
        }
        scenario
    }

    fn draw_faults(&mut self, rng: &mut Rng) {
        let span = FAULTS.as_millis() as u32;
        let when = |rng: &mut Rng| 500 + u64::from(rng.below(span - 3000));
        let nodes = self.nodes;
        let any = |rng: &mut Rng| NodeId::from(rng.below(nodes));
        let mut acts = Vec::new();
        if rng.chance(0.5) {
            let link = LinkFaults {
                delay: Duration::from_micros(u64::from(rng.below(3000))),
                jitter: Duration::from_micros(u64::from(rng.below(5000))),
                loss: Loss::Independent(rng.unit() * 0.1),
                duplicate: if rng.chance(0.5) { rng.unit() * 0.3 } else { 0.0 },
                reorder: if rng.chance(0.5) { rng.unit() * 0.3 } else { 0.0 },
                reorder_delay: Duration::from_millis(u64::from(1 + rng.below(10))),
                stream_resend_after: Duration::from_millis(u64::from(1 + rng.below(30))),
            };
            acts.push((at(when(rng)), Act::Fault(Fault::Link { from: None, to: None, link })));
        }
        if rng.chance(0.5) {
            // A minority, one after the other; most come back.
            for _ in 0..1 + rng.below(nodes.div_ceil(2)) {
                let (node, begin) = (any(rng), when(rng));
                acts.push((at(begin), Act::Fault(Fault::Crash(node))));
                if rng.chance(0.8) {
                    let again = begin + u64::from(rng.below(3000)) + 1;
                    acts.push((at(again), Act::Fault(Fault::Restart(node))));
                    let others = (0..nodes).filter(|&other| NodeId::from(other) != node);
                    acts.push((at(again), Act::Command(node, join(others))));
                }
            }
        }
        if rng.chance(0.4) {
            for _ in 0..1 + rng.below(4) {
                let pause = Duration::from_millis(u64::from(100 + rng.below(3000)));
                acts.push((at(when(rng)), Act::Fault(Fault::Pause(any(rng), pause))));
            }
        }
        if rng.chance(0.5) {
            for _ in 0..1 + rng.below(3) {
                let begin = when(rng);
                let fault = if rng.chance(0.6) {
                    let part = (0..nodes).filter(|_| rng.chance(0.5)).map(NodeId::from).collect();
                    Fault::Partition(vec![part])
                } else {
                    Fault::Block(any(rng), any(rng))
                };
                acts.push((at(begin), Act::Fault(fault)));
                acts.push((at(begin + 200 + u64::from(rng.below(4000))), Act::Fault(Fault::Heal)));
            }
        }
        if rng.chance(0.4) {
            for _ in 0..1 + rng.below(10) {
                let (from, to) = (any(rng), any(rng));
                if from != to {
                    let down = Duration::from_millis([0, 1, 20, 300][rng.below(4) as usize]);
                    acts.push((at(when(rng)), Act::Fault(Fault::Reset(from, to, down))));
                }
            }
        }
        if nodes > 2 && rng.chance(0.3) {
            let node = any(rng);
            let begin = when(rng);
            acts.push((at(begin), Act::Command(node, MembershipCommand::Leave.into())));
            if rng.chance(0.5) {
                let others = (0..nodes).filter(|&other| NodeId::from(other) != node);
                let again = begin + 1000 + u64::from(rng.below(2000));
                acts.push((at(again), Act::Command(node, join(others))));
            }
        }
        acts.sort_by_key(|&(when, _)| when);
        self.acts.extend(acts);
        let end = Instant::ZERO + FAULTS;
        let link = LinkFaults { delay: Duration::from_micros(200), ..LinkFaults::default() };
        self.acts.push((end, Act::Fault(Fault::Heal)));
        self.acts.push((end, Act::Fault(Fault::Link { from: None, to: None, link })));
    }

    /// Runs the scenario with nodes made by `make`.
    pub fn run<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Host + 'static>(
        &self,
        make: impl FnMut(NodeId) -> P + Send + 'static,
    ) -> Result<Outcome, String> {
        let nodes = self.nodes + self.strangers;
        let mut config = SimConfig::new(nodes as usize, self.seed);
        config.network = self.network.clone();
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let mut sim = Sim::new(config, Arc::new(self.config.clone()), make);
        for (when, act) in &self.acts {
            match act.clone() {
                Act::Command(node, command) => sim.command_at(*when, node, command),
                Act::Fault(fault) => sim.fault_at(*when, fault),
            }
        }
        for phase in &self.phases {
            phase.senders.iter().for_each(|&node| sim.wake_at(phase.from, node));
        }
        let ledger = GroupLedger::new(&self.config).with_offers(Phase::offers(&self.phases));
        let mut application = Application::new(self.seed);
        application.never_reads = self.never_reads;
        application.phases = self.phases.clone();
        application.requests = self.has_requests.then(|| Requests::new(self.seed));
        let mut observers =
            Honest { nodes: self.nodes, observer: (ledger, application), gate: self.gate.clone() };
        let end = Instant::ZERO + FAULTS + HEAL;
        sim.run_until(end, &mut observers);
        let (ledger, application) = &observers.observer;
        if let Some(violation) = ledger.violation() {
            return Err(violation.to_string());
        }
        let is_lost = self.judge_end(&sim, ledger)?;
        if is_lost && self.is_harmless() {
            return Err("no primary although nothing went wrong".to_owned());
        }
        if let Some(frame) = application.late_frame.as_ref().filter(|_| !is_lost) {
            return Err(format!("rest broken: {frame}"));
        }
        Ok(Outcome {
            digest: sim.digest(),
            deliveries: ledger.deliveries(),
            directs: ledger.direct_deliveries(),
            requests: ledger.requests(),
            quorums: application.requests.as_ref().map_or([0; 2], |of| of.quorums),
            events: sim.events_handled(),
            views: ledger.views().count() as u64,
            excluded: application.excluded,
            refused: sim.counters().count("group_bad_proposal"),
            lies: sim.counters().count(LIES.name()),
            crashed_amid: sim.counters().count(CRASHED_AMID),
            is_lost,
        })
    }

    /// What the members have come to, long after the faults. True if the group is lost for good.
    pub fn judge_end<P: Host>(
        &self,
        members: &impl Nodes<P>,
        ledger: &GroupLedger,
    ) -> Result<bool, String> {
        // A member that was ordered to leave must have left by now.
        let group = |node| members.node(node).group();
        let wants = |&node: &NodeId| members.is_alive(node) && group(node).role() != Role::Outside;
        let wanted: Vec<NodeId> = (0..self.nodes).map(NodeId::from).filter(wants).collect();
        if wanted.iter().any(|&node| group(node).has_primary()) {
            ledger.check_converged(members, &wanted).map_err(|violation| violation.to_string())?;
            return Ok(false);
        }
        // Too many members of one view crashed at once: no member may continue, and none does.
        Ok(true)
    }

    fn is_harmless(&self) -> bool {
        let is_crash = |act: &Act| matches!(act, Act::Fault(Fault::Crash(_)));
        let leaves = |act: &Act| {
            matches!(act, Act::Command(_, Command::Membership(MembershipCommand::Leave)))
        };
        let cuts = |act: &Act| matches!(act, Act::Fault(Fault::Partition(_) | Fault::Block(..)));
        let pauses = |act: &Act| matches!(act, Act::Fault(Fault::Pause(..)));
        !self.acts.iter().any(|(_, act)| is_crash(act) || leaves(act) || cuts(act) || pauses(act))
    }
}

impl Act {
    pub fn is_broadcast(&self) -> bool {
        matches!(self, Act::Command(_, Command::Broadcast { .. }))
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

    const OPTIONS: Options<Scenario> = &[
        ("crashes", |run| {
            run.retain(|fault| !matches!(fault, Fault::Crash(_) | Fault::CrashAmid { .. }));
        }),
        ("pauses", |run| run.retain(|fault| !matches!(fault, Fault::Pause(..)))),
        ("partitions", |run| {
            run.retain(|fault| !matches!(fault, Fault::Partition(_) | Fault::Block(..)));
        }),
        ("resets", |run| run.retain(|fault| !matches!(fault, Fault::Reset(..)))),
        ("link faults", |run| run.retain(|fault| !matches!(fault, Fault::Link { .. }))),
        ("departures", |run| {
            run.acts.retain(|(_, act)| {
                !matches!(act, Act::Command(_, Command::Membership(MembershipCommand::Leave)))
            });
        }),
        ("broadcasts", |run| run.acts.retain(|(_, act)| !act.is_broadcast())),
        ("saturating phases", |run| run.phases.clear()),
        ("requests", |run| run.has_requests = false),
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
        let acts = self.acts.iter().filter(|(_, act)| !act.is_broadcast());
        let acts: Vec<String> = acts.map(|(when, act)| format!("{when} {act:?}")).collect();
        format!("{} nodes\n{}", self.nodes, acts.join("\n"))
    }

    fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    fn run_honest(&self) -> Result<Outcome, String> {
        let outcome = self.run(honest(&self.config))?;
        if outcome.refused > 0 {
            let (refused, replay) = (outcome.refused, self.replay());
            return Err(format!("{refused} proposals of honest members refused\n{replay}"));
        }
        Ok(outcome)
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
    pub directs: u64,
    pub requests: RequestTotals,
    /// Requests to all members: those that met their quorum, and those that missed it.
    pub quorums: [u64; 2],
    pub events: u64,
    pub views: u64,
    pub excluded: u64,
    /// Proposals that members would not accept.
    pub refused: u64,
    /// Messages that strangers sent.
    pub lies: u64,
    /// Crashes within a handler call.
    pub crashed_amid: u64,
    pub is_lost: bool,
}

/// The application of every member: consumes what it is given after a while, and with each view
/// sends something to some of the others.
pub struct Application {
    rng: Rng,
    directs: Directs,
    requests: Option<Requests>,
    // Reads more slowly than the others.
    laggard: Option<NodeId>,
    never_reads: Option<NodeId>,
    phases: Vec<Phase>,
    // Commands on their way, at most one a node, and how many messages it submitted.
    is_sending: BTreeSet<NodeId>,
    submitted: BTreeMap<NodeId, u64>,
    pub excluded: u64,
    /// The first frame that was sent although the group should be at rest.
    late_frame: Option<String>,
}

impl Application {
    pub fn new(seed: u64) -> Application {
        let rng = Rng::new(seed, 0xa44);
        let laggard = seed.is_multiple_of(3).then_some(NodeId::from((seed / 3 % 3) as u32));
        let directs = Directs::new(seed);
        Application {
            rng,
            directs,
            requests: None,
            laggard,
            never_reads: None,
            phases: Vec::new(),
            is_sending: BTreeSet::new(),
            submitted: BTreeMap::new(),
            excluded: 0,
            late_frame: None,
        }
    }

    fn reads_after(&mut self, node: NodeId) -> Duration {
        let within = if self.laggard == Some(node) { 200_000 } else { 5000 };
        Duration::from_micros(u64::from(self.rng.below(within)))
    }
}

/// Draws messages to one member. Each names its sender, its receiver and its number.
struct Directs {
    rng: Rng,
    number: u64,
}

impl Directs {
    /// None is sent later than this.
    const UNTIL: Duration = Duration::from_secs(20);

    fn new(seed: u64) -> Directs {
        Directs { rng: Rng::new(seed, 0xd1), number: 0 }
    }

    fn send<P: Host>(&mut self, at: Instant, node: NodeId, view: &View, reply: &mut Reply<P>) {
        if view.len() < 2 {
            return;
        }
        // Many at once to one member, more than a window at times; or a few to some.
        let is_burst = self.rng.chance(0.3);
        let count = 1 + self.rng.below(if is_burst { 12 } else { 4 });
        let after = u64::from(self.rng.below(2000));
        let mut to = self.rng.below(view.len() as u32);
        for _ in 0..count {
            let when = if is_burst { after } else { u64::from(self.rng.below(2000)) };
            if !is_burst {
                to = self.rng.below(view.len() as u32);
            }
            let to = view.members()[to as usize];
            let bytes = [24, 100, 4000, 4096, 20_000][self.rng.below(5) as usize];
            self.number += 1;
            let after = Duration::from_millis(when);
            if to.node != node && at + after < Instant::ZERO + Directs::UNTIL {
                reply.command(after, node, direct(node, to, self.number, bytes));
            }
        }
    }
}

/// A message to one member.
pub fn direct(from: NodeId, to: Member, ticket: u64, bytes: usize) -> Command {
    let mut content = Vec::with_capacity(bytes.max(24));
    content.extend_from_slice(&(from.index() as u32).to_be_bytes());
    content.extend_from_slice(&(to.node.index() as u32).to_be_bytes());
    content.extend_from_slice(&to.incarnation.to_be_bytes());
    content.extend_from_slice(&ticket.to_be_bytes());
    content.resize(bytes.max(24), to.node.0 as u8);
    Command::SendTo { to, payload: Payload::from(content), ticket }
}

impl<P: Host> Observer<P> for Application {
    fn before_call(&mut self, _: Instant, node: NodeId, _: &P, input: &Input<'_, P>) {
        if let Input::Command(Command::Broadcast { .. }) = input {
            self.is_sending.remove(&node);
        }
    }

    fn on_fault(&mut self, _: Instant, fault: &Fault) {
        if let Fault::Crash(node) = fault {
            self.is_sending.remove(node);
        }
    }

    fn on_wake(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        self.after_call(at, node, protocol, reply);
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, reply: &mut Reply<P>) {
        let Some(phase) = self.phases.iter().find(|phase| phase.has(at, node)) else { return };
        let is_open = protocol.group().has_primary() && protocol.admission() > 0;
        if is_open && self.is_sending.insert(node) {
            let number = self.submitted.entry(node).or_default();
            *number += 1;
            reply.command(
                Duration::ZERO,
                node,
                message(node, *number, phase.message_bytes as usize),
            );
        }
    }

    fn on_send(&mut self, at: Instant, from: NodeId, to: NodeId, _: Lane, message: &Message) {
        let is_frame =
            matches!(message, Message::Chain(chain::Message::Data(_)) | Message::Direct(_));
        let is_frame = is_frame || matches!(message, Message::Correlated(_));
        if is_frame && at >= Instant::ZERO + REST {
            self.late_frame.get_or_insert_with(|| format!("{at}: {from} to {to}: {message}"));
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if let Some(requests) = &mut self.requests {
            requests.on_event(at, node, event, reply);
        }
        match event {
            Event::Delivered { .. } | Event::Direct { .. } if self.never_reads == Some(node) => {}
            Event::Delivered { view, origin, end, .. } => {
                let command = Command::Consumed { view: *view, origin: *origin, end: *end };
                reply.command(self.reads_after(node), node, command);
            }
            Event::Direct { from, end, .. }
            | Event::Request { from, end, .. }
            | Event::Replied { from, end, .. } => {
                let command = Command::ConsumedDirect { from: *from, end: *end };
                reply.command(self.reads_after(node), node, command);
            }
            Event::View(view) => self.directs.send(at, node, view, reply),
            Event::Excluded => self.excluded += 1,
            _ => {}
        }
    }
}

/// Nodes that are not tampered with.
pub fn honest(config: &Config) -> impl FnMut(NodeId) -> Group + Send + 'static {
    let config = config.clone();
    move |_| Group::new(&config)
}
