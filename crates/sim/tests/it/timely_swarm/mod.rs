//! One seed, one group, one set of faults, for each protocol that Slingshot is compared with.

pub mod faulty;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use faulty::{Bug, Faulty};
use paceline_baselines::{ack, gossip, nak, srm};
use paceline_check::checkers::gossip::GossipLedger;
use paceline_check::checkers::timely::TimelyLedger;
use paceline_check::swarm::Options;
use paceline_check::{Swarm, Wrapped};
use paceline_proto::core::{
    GroupId, Instant, LinkFaults, Loss, NodeId, Payload, Protocol, Rng, View,
};
use paceline_proto::slingshot::{
    Code, Command, Config, Event, Order, Pull, Rate, RepairBy, Slingshot,
};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, Multicast, NetworkConfig, Observer, Sim, SimConfig,
};

/// Faults and traffic end by then, milliseconds.
const FAULTS_MS: u32 = 1_000;

/// A protocol that Slingshot is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    Ack,
    SenderFec,
    Nak,
    DigestPull,
    Srm,
    Gossip,
}

impl Baseline {
    pub const ALL: [Baseline; 6] = [
        Baseline::Ack,
        Baseline::SenderFec,
        Baseline::Nak,
        Baseline::DigestPull,
        Baseline::Srm,
        Baseline::Gossip,
    ];
}

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub baseline: Baseline,
    pub config: Config,
    pub network: NetworkConfig,
    pub codec: Codec,
    pub faults: Vec<(Instant, Fault)>,
    pub packets: u32,
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub digest: Digest,
    pub delivered: u64,
    pub lost: u64,
    pub events: u64,
}

fn at(ms: u32) -> Instant {
    Instant::ZERO + Duration::from_millis(ms.into())
}

impl Scenario {
    /// Draws a run. Every option is off in some seeds.
    pub fn draw(seed: u64, baseline: Baseline) -> Scenario {
        let mut rng = Rng::new(seed, 0x71e1);
        let nodes = 2 + rng.below(7);
        Scenario {
            seed,
            baseline,
            config: draw_config(&mut rng, nodes, baseline),
            network: draw_network(&mut rng),
            codec: if rng.chance(0.2) { Codec::CheckWire } else { Codec::Typed },
            faults: draw_faults(&mut rng, nodes),
            packets: 50 + rng.below(200),
        }
    }

    /// Runs the scenario; with a bug, every member has it.
    pub fn run(&self, bug: Option<Bug>) -> Result<Outcome, String> {
        let base = self.config.clone();
        let faulty = || bug.map(Faulty::new);
        self.judged(|| match self.baseline {
            Baseline::SenderFec => {
                let make = |config: &_| Wrapped::new(Slingshot::new(config), faulty());
                self.run_checked(base, make, Slingshot::packets_missing, &mut ())
            }
            Baseline::Ack => {
                let config = ack::Config::new(base).build().expect("within the ranges");
                let make = |config: &_| Wrapped::new(ack::Ack::new(config), faulty());
                self.run_checked(config, make, ack::Ack::packets_missing, &mut ())
            }
            Baseline::Nak | Baseline::DigestPull => {
                let config = match self.baseline {
                    Baseline::Nak => nak::Config::sender(base),
                    _ => nak::Config::digest(base),
                };
                let config = config.build().expect("within the ranges");
                let make = |config: &_| Wrapped::new(nak::Nak::new(config), faulty());
                self.run_checked(config, make, nak::Nak::packets_missing, &mut ())
            }
            Baseline::Srm => {
                let distance = srm::Distance::Fixed(Duration::from_millis(1));
                let config = srm::Config::new(base).with_distance(distance);
                let config = config.build().expect("within the ranges");
                let make = |config: &_| Wrapped::new(srm::Srm::new(config), faulty());
                self.run_checked(config, make, srm::Srm::packets_missing, &mut ())
            }
            Baseline::Gossip => {
                self.run_gossip(|config| Wrapped::new(gossip::Gossip::new(config), faulty()))
            }
        })
    }

    /// Runs the scenario with such members of gossip, and checks its own rules as well.
    pub fn run_gossip(
        &self,
        make: impl Fn(&gossip::Config) -> Wrapped<gossip::Gossip>,
    ) -> Result<Outcome, String> {
        let mut rng = Rng::new(self.seed, 0x9055);
        let config = gossip::Config::new(self.config.clone())
            .with_gossip_every(Duration::from_millis(u64::from(5 + rng.below(50))))
            .with_fanout(1 + rng.below(3) as usize)
            .with_rounds_held(3 + rng.below(20))
            .with_solicit_max(1 + rng.below(32) as usize)
            .with_retransmit_max(1 + rng.below(32) as usize)
            .build()
            .expect("drawn within the ranges");
        let mut ledger = GossipLedger::new(&config);
        let missing = gossip::Gossip::packets_missing;
        let outcome = self.run_checked(config, make, missing, &mut ledger);
        match ledger.violation() {
            Some(violation) => Err(violation.to_string()),
            None => outcome,
        }
    }

    fn run_checked<P>(
        &self,
        shared: P::Shared,
        make: impl Fn(&P::Shared) -> Wrapped<P>,
        missing: impl Fn(&P) -> usize,
        also: &mut impl Observer<Wrapped<P>>,
    ) -> Result<Outcome, String>
    where
        P: Protocol<Command = Command, Event = Event> + 'static,
        P::Shared: Clone,
        P::Message: paceline_proto::core::Wire,
    {
        let nodes = self.config.roster().len() as u32;
        let mut config = SimConfig::new(nodes as usize, self.seed);
        config.network = self.network.clone();
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let members = shared.clone();
        let mut sim = Sim::new(config, Arc::new(shared), |_| make(&members));
        for (when, node, command) in packets(self.seed, self.packets, nodes, 0..FAULTS_MS) {
            sim.command_at(when, node, command);
        }
        for (at, fault) in &self.faults {
            sim.fault_at(*at, fault.clone());
        }
        let mut ledger = TimelyLedger::new(self.config.order() == Order::Fifo);
        sim.run_until(at(30_000), &mut (&mut ledger, also));
        for node in (0..nodes).map(NodeId::from).filter(|&node| sim.is_alive(node)) {
            ledger.check_accounts(sim.now(), node, missing(sim.node(node).node()));
        }
        match ledger.violation() {
            Some(violation) => Err(violation.to_string()),
            None => Ok(Outcome {
                digest: sim.digest(),
                delivered: ledger.delivered,
                lost: ledger.lost,
                events: sim.events_handled(),
            }),
        }
    }
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const OPTIONS: Options<Scenario> = &[
        ("faults", |run| run.faults.clear()),
        ("link faults", |run| run.network.link = LinkFaults::default()),
        ("loss at receivers", |run| run.network.receive_loss = Loss::None),
        ("most of the packets", |run| run.packets = 20),
        ("the codec", |run| run.codec = Codec::Typed),
    ];

    fn seed(&self) -> u64 {
        self.seed
    }

    fn suite(&self) -> &'static str {
        "timely_seeds"
    }

    fn describe(&self) -> String {
        format!("{self:#?}")
    }

    fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    fn run_honest(&self) -> Result<Outcome, String> {
        self.run(None)
    }

    fn digest(outcome: &Outcome) -> Digest {
        outcome.digest
    }
}

/// Packets, each with bytes of its own, and when which node sends it, in milliseconds.
pub fn packets(
    seed: u64,
    count: u32,
    nodes: u32,
    within: Range<u32>,
) -> impl Iterator<Item = (Instant, NodeId, Command)> {
    let mut rng = Rng::new(seed, 0x3055);
    (0..count).map(move |number| {
        let mut bytes = vec![number as u8; 4 + rng.below(200) as usize];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        let (payload, ticket) = (Payload::from(bytes), u64::from(number) + 1);
        let command = Command::Multicast { group: GroupId(0), payload, ticket };
        let when = at(within.start + rng.below(within.end - within.start));
        (when, NodeId::from(rng.below(nodes)), command)
    })
}

/// Draws the knobs of the members of a group.
pub fn draw_config(rng: &mut Rng, nodes: u32, baseline: Baseline) -> Config {
    let on = |rng: &mut Rng| rng.chance(0.5);
    let millis = |rng: &mut Rng, most| Duration::from_millis(1 + u64::from(rng.below(most)));
    let (r, c) = (1 + rng.below(8) as usize, 1 + rng.below(4) as usize);
    let deadline = millis(rng, 100);
    let config = Config::new(View::roster((0..nodes).map(NodeId::from)))
        .with_rate(Rate::new(r, c).expect("within the ranges"))
        .with_order(if on(rng) { Order::Fifo } else { Order::Unordered })
        .with_pull(on(rng).then(Pull::default))
        .with_flush_after(on(rng).then(|| millis(rng, 20)))
        .with_heartbeat_after(on(rng).then(|| millis(rng, 50)))
        .with_deadline(deadline)
        .with_lost_after(deadline + millis(rng, 400));
    let config = match baseline {
        Baseline::SenderFec => config
            .with_repair_by(RepairBy::Sender)
            .with_code(Code::Rlc { window: 8 + rng.below(24) as usize }),
        _ => config,
    };
    config.build().expect("drawn within the ranges")
}

fn draw_network(rng: &mut Rng) -> NetworkConfig {
    let on = |rng: &mut Rng| rng.chance(0.5);
    let micros = |rng: &mut Rng, most| Duration::from_micros(u64::from(rng.below(most)));
    let loss = Loss::Independent(0.1 * rng.unit());
    NetworkConfig {
        multicast: if on(rng) { Multicast::Native } else { Multicast::FanOut },
        link: LinkFaults {
            delay: micros(rng, 500),
            jitter: micros(rng, 3_000),
            loss: if on(rng) { loss } else { Loss::None },
            duplicate: if on(rng) { 0.1 } else { 0.0 },
            reorder: if on(rng) { 0.1 } else { 0.0 },
            reorder_delay: micros(rng, 20_000),
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
    for _ in 0..rng.below(4) {
        let (node, when) = (NodeId::from(rng.below(nodes)), rng.below(FAULTS_MS));
        match rng.below(3) {
            0 => {
                faults.push((at(when), Fault::Crash(node)));
                faults.push((at(when + rng.below(300)), Fault::Restart(node)));
            }
            1 => {
                let pause = Duration::from_millis(u64::from(1 + rng.below(300)));
                faults.push((at(when), Fault::Pause(node, pause)));
            }
            _ => {
                let side = (0..nodes).map(NodeId::from).filter(|_| rng.chance(0.3)).collect();
                faults.push((at(when), Fault::Partition(vec![side])));
                faults.push((at(when + 1 + rng.below(200)), Fault::Heal));
            }
        }
    }
    faults
}
