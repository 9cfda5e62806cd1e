//! One seed, some groups, one set of faults: what the seeds and the canaries share.

pub mod rogue;

use std::sync::Arc;
use std::time::Duration;

use paceline_check::amid::CRASHED_AMID;
use paceline_check::checkers::slingshot::{Member, SlingshotLedger, Totals};
use paceline_check::clock::{ByClock, Clocks};
use paceline_check::cuts::SEVERED;
use paceline_check::swarm::Options;
use paceline_check::{Gate, Honest, LIES, Swarm, Wrapped};
use paceline_proto::core::{GroupId, Instant, LinkFaults, Loss, NodeId, Payload, Rng, View};
use paceline_proto::slingshot::{
    Code, Command, Config, Event, Follow, Order, Pull, PullFrom, Rate, RateControl, Slingshot,
    tuner,
};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, Multicast, NetworkConfig, Observer, Reply, Sim, SimConfig,
};
use rogue::Rogue;

/// Groups that may be configured.
pub const GROUPS: u32 = 4;

/// Faults and traffic end by then, milliseconds.
pub const FAULTS_MS: u32 = 1_000;

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub config: Config,
    pub network: NetworkConfig,
    pub codec: Codec,
    pub faults: Vec<(Instant, Fault)>,
    pub rogue: Option<NodeId>,
    pub packets: u32,
    /// Messages that may take several packets.
    pub messages: Vec<Long>,
    /// How long the application takes to consume an event; `None` for never.
    pub consumes_within_ms: Option<u32>,
    /// Some members change their rate of fire on the way.
    pub changes_rate: bool,
    /// Members that leave a group and come back.
    pub absences: Vec<Absence>,
    /// Nodes with the numbers after those of the members that are none.
    pub strangers: u32,
    /// What it refuses is not seen.
    pub gate: Gate,
    /// What nodes go by.
    pub clocks: Clocks,
    /// The test file that replays it.
    pub suite: &'static str,
}

/// A message that may take several packets.
#[derive(Clone, Debug)]
pub struct Long {
    pub group: GroupId,
    pub node: NodeId,
    pub at_ms: u32,
    pub bytes: u32,
}

/// A member is not in a group for a while.
#[derive(Clone, Debug)]
pub struct Absence {
    pub group: GroupId,
    pub node: NodeId,
    pub from_ms: u32,
    pub until_ms: u32,
    /// It forgets the group: it gets a command that sets an empty membership.
    pub forgets: bool,
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub digest: Digest,
    pub totals: Totals,
    pub events: u64,
    /// Repairs that were not what their sender received, and were found out.
    pub refused: u64,
    pub overrun: u64,
    /// Messages that strangers sent.
    pub lies: u64,
    /// Messages dropped by permanently cut links.
    pub severed: u64,
    /// Crashes within a handler call.
    pub crashed_amid: u64,
    /// Reports of receivers that a sender follows.
    pub reports: u64,
    /// Messages of several packets that were delivered, and those that were given up.
    pub messages: u64,
    pub messages_lost: u64,
}

impl Scenario {
    /// Draws a run. Every option is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x511);
        let nodes = if rng.chance(0.05) { 1 } else { 2 + rng.below(9) };
        let config = draw_config(&mut rng, nodes, draw_pull_from(seed));
        Scenario {
            seed,
            network: draw_network(&mut rng),
            codec: if rng.chance(0.2) { Codec::CheckWire } else { Codec::Typed },
            faults: draw_faults(&mut rng, nodes),
            rogue: (nodes > 2 && rng.chance(0.3)).then(|| NodeId::from(rng.below(nodes))),
            packets: 100 + rng.below(300),
            messages: draw_messages(seed, nodes),
            consumes_within_ms: [Some(0), Some(30), Some(300), None][rng.below(4) as usize],
            changes_rate: rng.chance(0.2),
            absences: draw_absences(seed, nodes),
            strangers: 0,
            gate: Gate::default(),
            clocks: Clocks::default(),
            suite: "slingshot_seeds",
            config: draw_rate_control(seed, draw_message_rate(seed, config)),
        }
    }

    /// How many members there are.
    pub fn nodes(&self) -> u32 {
        self.config.roster().len() as u32
    }

    /// Runs the scenario with honest members, but for the rogue.
    pub fn run(&self) -> Result<Outcome, String> {
        let (config, rogue) = (self.config.clone(), self.rogue);
        self.run_with(move |node| {
            let rogue = (Some(node) == rogue).then(Rogue::default);
            Wrapped::new(Slingshot::new(&config), rogue)
        })
    }

    /// Runs the scenario with members made by `make`.
    pub fn run_with<P: Member<Shared = Config>>(
        &self,
        make: impl FnMut(NodeId) -> P,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<P: Member<Shared = Config>>(
        &self,
        make: impl FnMut(NodeId) -> P,
    ) -> Result<Outcome, String> {
        let mut config = SimConfig::new((self.nodes() + self.strangers) as usize, self.seed);
        config.network = self.network.clone();
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let mut sim = Sim::new(config, Arc::new(self.config.clone()), make);
        let mut rng = Rng::new(self.seed, 0x3055);
        for number in 0..self.packets {
            let payload = match rng.below(3) {
                0 => Payload::Zeros(rng.below(400)),
                _ => Payload::from(vec![number as u8; rng.below(400) as usize]),
            };
            let group = GroupId(rng.below(GROUPS));
            let command = Command::Multicast { group, payload, ticket: number.into() };
            let node = NodeId::from(rng.below(self.nodes()));
            sim.command_at(at(rng.below(FAULTS_MS)), node, command);
        }
        for (number, long) in (self.packets..).zip(&self.messages) {
            let bytes = Vec::from_iter((0..long.bytes).map(|at| (at * 7 + number) as u8));
            let (group, ticket) = (long.group, number.into());
            let command = Command::Multicast { group, payload: Payload::from(bytes), ticket };
            sim.command_at(at(long.at_ms), long.node, command);
        }
        if self.changes_rate {
            for _ in 0..1 + rng.below(4) {
                let (r, c) = (1 + rng.below(8) as usize, 1 + rng.below(4) as usize);
                let (when, node) =
                    (at(rng.below(FAULTS_MS)), NodeId::from(rng.below(self.nodes())));
                sim.command_at(when, node, Command::SetRate(Rate { r, c }));
            }
        }
        for (at, fault) in &self.faults {
            sim.fault_at(*at, fault.clone());
        }
        for absence in &self.absences {
            self.regroup(absence, |when, node, command| sim.command_at(when, node, command));
        }
        let application = Application { rng, consumes_within_ms: self.consumes_within_ms };
        let ledger = SlingshotLedger::new(&self.config, self.rogue);
        let ledger = ByClock { clocks: self.clocks.clone(), observer: ledger };
        let observer = (ledger, application);
        let mut observers = Honest { nodes: self.nodes(), observer, gate: self.gate.clone() };
        sim.run_until(at(60_000), &mut observers);
        let (ByClock { observer: ledger, .. }, _) = &mut observers.observer;
        if let Some(violation) = ledger.violation() {
            return Err(violation.to_string());
        }
        ledger.check_quiescent(&sim).map_err(|violation| violation.to_string())?;
        let count = |name| sim.counters().count(name);
        let refused = ["slingshot_recovered_wrong", "slingshot_repair_wrong"];
        Ok(Outcome {
            digest: sim.digest(),
            totals: ledger.totals(),
            events: sim.events_handled(),
            refused: refused.into_iter().map(count).sum(),
            overrun: count("slingshot_overrun"),
            lies: count(LIES.name()),
            severed: count(SEVERED),
            crashed_amid: count(CRASHED_AMID),
            reports: count("slingshot_reports_received"),
            messages: count("slingshot_messages"),
            messages_lost: count("slingshot_messages_lost"),
        })
    }
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const OPTIONS: Options<Scenario> = &[
        ("faults", |run| run.faults.clear()),
        ("link faults", |run| run.network.link = LinkFaults::default()),
        ("loss at receivers", |run| run.network.receive_loss = Loss::None),
        ("the rogue", |run| run.rogue = None),
        ("absences", |run| run.absences.clear()),
        ("changes of the rate of fire", |run| run.changes_rate = false),
        ("late consumption", |run| run.consumes_within_ms = Some(0)),
        ("most of the packets", |run| run.packets = 20),
        ("messages of several packets", |run| run.messages.clear()),
        ("most of these messages", |run| run.messages.truncate(1)),
        ("congestion control", |run| {
            run.config = run.config.clone().with_rate_control(RateControl::Fixed);
        }),
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

impl Scenario {
    /// Tells all members, not quite at the same time, that one leaves a group and comes back.
    fn regroup(&self, absence: &Absence, mut command: impl FnMut(Instant, NodeId, Command)) {
        let &Absence { group, node, from_ms, until_ms, forgets } = absence;
        let listed = self.config.groups().iter().find(|(id, _)| *id == group);
        let Some((_, listed)) = listed else { return };
        let all = || self.config.roster().members().iter().map(|member| member.node);
        let with: Arc<[NodeId]> = listed.clone().unwrap_or_else(|| all().collect());
        let without: Arc<[NodeId]> = with.iter().copied().filter(|&other| other != node).collect();
        for (number, other) in (0..).zip(all()) {
            let late = Duration::from_micros(500 * number);
            let left = if forgets && other == node { Arc::default() } else { without.clone() };
            command(at(from_ms) + late, other, Command::Members { group, members: left });
            let members = with.clone();
            command(at(until_ms) + late, other, Command::Members { group, members });
        }
    }
}

/// A clean run with independent loss: 32 members send a packet each 32 ms for six seconds. The
/// share of lost packets that is recovered, if it is what the closed form says.
pub fn recovered_share<P: Member<Shared = Config>>(
    rate: Rate,
    code: Code,
    loss: f64,
    make: impl Fn(&Config) -> P,
) -> Result<f64, String> {
    let nodes = 32u32;
    let roster = View::roster((0..nodes).map(NodeId::from));
    let config = Config::published(roster, rate).with_code(code).build().expect("within ranges");
    let mut sim_config = SimConfig::new(nodes as usize, 1);
    sim_config.network.link.delay = Duration::from_micros(50);
    sim_config.network.link.jitter = Duration::from_micros(50);
    sim_config.network.receive_loss = Loss::Independent(loss);
    let mut sim = Sim::new(sim_config, Arc::new(config.clone()), |_| make(&config));
    for number in 0..6_000 {
        let payload = Payload::Zeros(300);
        sim.command_at(at(number), NodeId::from(number % nodes), Command::multicast(payload));
    }
    let mut ledger = SlingshotLedger::new(&config, None);
    sim.run_until(at(20_000), &mut ledger);
    if let Some(violation) = ledger.violation() {
        return Err(violation.to_string());
    }
    let code = match code {
        Code::Xor { .. } => tuner::Code::Xor,
        Code::Rlc { window } => tuner::Code::Linear { window: window as u16 },
    };
    let setting = tuner::Setting { r: rate.r as u8, c: rate.c as u8, code };
    let conditions = tuner::Conditions::new(nodes, loss, 1_000.0);
    let predicted = tuner::predict(setting, &conditions).recovered();
    // The formulas agree with simulations to 0.7 points.
    let share = ledger.check_share(sim.now(), nodes.into(), predicted, 0.007);
    share.map_err(|violation| violation.to_string())
}

pub fn at(ms: u32) -> Instant {
    Instant::ZERO + Duration::from_millis(ms.into())
}

fn draw_config(rng: &mut Rng, nodes: u32, from: PullFrom) -> Config {
    let r = 1 + rng.below(8) as usize;
    let c_max = if rng.chance(0.1) { 16 } else { 4 };
    let c = 1 + rng.below(c_max) as usize;
    let on = |rng: &mut Rng| rng.chance(0.5);
    let millis = |rng: &mut Rng, most| Duration::from_millis(1 + u64::from(rng.below(most)));
    let groups = (0..1 + rng.below(GROUPS)).map(|group| {
        let members = (0..nodes).map(NodeId::from).filter(|_| rng.chance(0.8)).collect();
        (GroupId(group), on(rng).then_some(members))
    });
    let groups: Vec<(GroupId, Option<Arc<[NodeId]>>)> = groups.collect();
    let deadline = millis(rng, 100);
    Config::new(View::roster((0..nodes).map(NodeId::from)))
        .with_groups(groups)
        .with_rate(Rate::new(r, c).expect("within the ranges"))
        .with_r_max(8)
        .with_code(match rng.below(3) {
            0 => Code::Xor { stagger: 1 },
            1 => Code::Xor { stagger: 2 + rng.below(6) as usize },
            _ => Code::Rlc { window: 8 + rng.below(24) as usize },
        })
        .with_order(if on(rng) { Order::Fifo } else { Order::Unordered })
        .with_pull(on(rng).then(|| Pull { from, ..Pull::default() }))
        .with_flush_after(on(rng).then(|| millis(rng, 20)))
        .with_heartbeat_after(on(rng).then(|| millis(rng, 50)))
        .with_deadline(deadline)
        .with_lost_after(deadline + millis(rng, 400))
        .with_keep(millis(rng, 1000))
        .with_window_packets(32 + rng.below(200) as usize)
        .with_packets_max(64 + rng.below(2000) as usize)
        .with_bytes_max(1 << 16)
        .with_missing_max(16 + rng.below(500) as usize)
        .with_regions_max(1 + rng.below(6) as usize)
        .with_parked_max(1 + rng.below(40) as usize)
        .with_unread_max(rng.chance(0.2).then(|| 1 + rng.below(50) as usize))
        .build()
        .expect("drawn within the ranges")
}

/// From a stream of its own, so that it shifts no other draw.
fn draw_pull_from(seed: u64) -> PullFrom {
    if Rng::new(seed, 0x9011).chance(0.5) { PullFrom::Holders } else { PullFrom::Sender }
}

/// Of their own stream, as all that was added later.
fn draw_messages(seed: u64, nodes: u32) -> Vec<Long> {
    let mut rng = Rng::new(seed, 0x106);
    let messages = if rng.chance(0.5) { 1 + rng.below(12) } else { 0 };
    let mut message = |_| {
        let most = [600, 4_000, 15_000][rng.below(3) as usize];
        Long {
            group: GroupId(rng.below(GROUPS)),
            node: NodeId::from(rng.below(nodes)),
            at_ms: rng.below(FAULTS_MS),
            bytes: 1_000 + rng.below(most),
        }
    };
    (0..messages).map(&mut message).collect()
}

/// At the lowest of these rates some messages are too long for the deadline, and refused.
fn draw_message_rate(seed: u64, config: Config) -> Config {
    let mut rng = Rng::new(seed, 0x10e);
    let rate = [100_000, 500_000, 2_000_000, 12_500_000][rng.below(4) as usize];
    config.with_message_bytes_per_second(rate)
}

/// All members send alike, and each may be followed.
fn draw_rate_control(seed: u64, config: Config) -> Config {
    let mut rng = Rng::new(seed, 0x7fc);
    if !rng.chance(0.3) {
        return config;
    }
    let follow = [Follow::Slowest, Follow::Fastest, Follow::Tagged][rng.below(3) as usize];
    let rate_min = [None, Some(1_000), Some(100_000)][rng.below(3) as usize];
    let is_followed = rng.chance(0.5);
    config
        .with_rate_control(RateControl::Tfmcc)
        .with_follow(follow)
        .with_rate_min(rate_min)
        .with_followed(is_followed)
}

fn draw_network(rng: &mut Rng) -> NetworkConfig {
    let on = |rng: &mut Rng| rng.chance(0.5);
    let micros = |rng: &mut Rng, most| Duration::from_micros(u64::from(rng.below(most)));
    let loss = Loss::Independent(0.1 * rng.unit());
    NetworkConfig {
        multicast: if on(rng) { Multicast::Native } else { Multicast::FanOut },
        link: LinkFaults {
            delay: micros(rng, 500),
            jitter: micros(rng, 5_000),
            loss: if on(rng) { loss } else { Loss::None },
            duplicate: if on(rng) { 0.1 } else { 0.0 },
            reorder: if on(rng) { 0.1 } else { 0.0 },
            reorder_delay: micros(rng, 30_000),
            ..LinkFaults::default()
        },
        receive_loss: match rng.below(3) {
            0 => Loss::None,
            1 => Loss::Independent(0.02),
            _ => Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.2, bad_loss: 1.0 },
        },
        ..NetworkConfig::default()
    }
}

fn draw_faults(rng: &mut Rng, nodes: u32) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..rng.below(5) {
        let (node, when) = (NodeId::from(rng.below(nodes)), rng.below(FAULTS_MS));
        match rng.below(4) {
            0 => {
                faults.push((at(when), Fault::Crash(node)));
                faults.push((at(when + rng.below(300)), Fault::Restart(node)));
            }
            1 => {
                let pause = Duration::from_millis(u64::from(1 + rng.below(300)));
                faults.push((at(when), Fault::Pause(node, pause)));
            }
            2 => {
                let side = (0..nodes).map(NodeId::from).filter(|_| rng.chance(0.3)).collect();
                faults.push((at(when), Fault::Partition(vec![side])));
                faults.push((at(when + 1 + rng.below(200)), Fault::Heal));
            }
            _ => {
                faults.push((at(when), Fault::Block(node, NodeId::from(rng.below(nodes)))));
                faults.push((at(when + 1 + rng.below(200)), Fault::Heal));
            }
        }
    }
    faults
}

fn draw_absences(seed: u64, nodes: u32) -> Vec<Absence> {
    let mut rng = Rng::new(seed, 0xab5e);
    let absences = if rng.chance(0.4) { 1 + rng.below(4) } else { 0 };
    let mut absence = |_| {
        let from_ms = rng.below(FAULTS_MS);
        Absence {
            group: GroupId(rng.below(GROUPS)),
            node: NodeId::from(rng.below(nodes)),
            from_ms,
            until_ms: from_ms + 1 + rng.below(300),
            forgets: rng.chance(0.5),
        }
    };
    (0..absences).map(&mut absence).collect()
}

/// Consumes events after a while, or never.
struct Application {
    rng: Rng,
    consumes_within_ms: Option<u32>,
}

impl<P: Member> Observer<P> for Application {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        let is_counted = !matches!(event, Event::Sent { .. } | Event::Rejected { .. });
        if let Some(within_ms) = self.consumes_within_ms.filter(|_| is_counted) {
            let after = Duration::from_micros(self.rng.below(within_ms * 1000 + 1).into());
            let events = match event {
                Event::Delivered { packets, .. } => *packets as usize,
                _ => 1,
            };
            reply.command(after, node, Command::Consumed { events });
        }
    }
}
