//! One seed, one set of hosts that run two groups, a table and a multicast, one set of faults.

use std::sync::Arc;
use std::time::Duration;

use paceline_check::Swarm;
use paceline_check::checkers::group::GroupLedger;
use paceline_check::checkers::overlay::{OverlayLedger, Terms};
use paceline_check::checkers::timely::TimelyLedger;
use paceline_check::checkers::zave::RingChecker;
use paceline_check::swarm::Options;
use paceline_proto::core::{NodeId, Rng, ServiceNumber};
use paceline_proto::group::Group;
use paceline_proto::host::{self, Host};
use paceline_proto::overlay::Overlay;
use paceline_proto::slingshot::{self, Slingshot};
use paceline_sim::{
    Codec, Digest, Fault, FaultSupport, HostNode, Nodes, OfService, Shape, Sim, SimConfig,
};

use crate::group_swarm;
use crate::overlay_swarm::{self, ANSWER, BEGIN, FAULTS, HEAL, at};
use crate::timely_swarm::{self, Baseline};

pub const ORDERS: ServiceNumber = ServiceNumber(0x0123_0000);
pub const AUDIT: ServiceNumber = ServiceNumber(7);
pub const STOCK: ServiceNumber = ServiceNumber(u32::MAX);
pub const PRICES: ServiceNumber = ServiceNumber(0x8000_0000);

/// A run, wholly drawn from its seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub seed: u64,
    pub codec: Codec,
    /// The table, the network, and the faults of all.
    pub stock: overlay_swarm::Scenario,
    /// The groups: their commands, no faults.
    pub orders: group_swarm::Scenario,
    pub audit: group_swarm::Scenario,
    pub prices: slingshot::Config,
    pub packets: u32,
}

impl Scenario {
    /// Draws a run. Every kind of fault is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x313d);
        let nodes = 3 + rng.below(6);
        let algorithm = overlay_swarm::algorithm_of(seed);
        let mut stock = overlay_swarm::Scenario::new(seed, algorithm, nodes);
        stock.config = stock.config.with_copies(1 + rng.below(4) as usize);
        stock.draw_faults(&mut rng);
        if rng.chance(0.5) {
            stock.network.shape = Shape::Mesh;
        }
        if rng.chance(0.5) {
            stock.network.rate_bits_per_second = Some(100_000_000);
        }
        let orders = group_beside(&stock, &mut rng, 1);
        let audit = group_beside(&stock, &mut rng, 2);
        let prices = timely_swarm::draw_config(&mut rng, nodes, Baseline::Ack);
        let codec = if rng.chance(0.5) { Codec::CheckWire } else { Codec::Typed };
        Scenario { seed, codec, stock, orders, audit, prices, packets: 50 + rng.below(200) }
    }

    /// A host of this run, not tampered with.
    pub fn host(&self, node: NodeId) -> Host {
        let [orders, audit] = [&self.orders, &self.audit].map(|group| &group.config);
        let stock = self.table_config();
        Host::new(orders.detector().clone())
            .with_link_rate(self.stock.network.link_rate())
            .with_service(ORDERS, Group::new(orders), Arc::new(orders.clone()))
            .with_service(AUDIT, Group::new(audit), Arc::new(audit.clone()))
            .with_service(STOCK, Overlay::new(&stock, node), Arc::new(stock))
            .with_service(PRICES, Slingshot::new(&self.prices), Arc::new(self.prices.clone()))
    }

    fn table_config(&self) -> paceline_proto::overlay::Config {
        self.stock.config.clone().build().expect("within the ranges")
    }

    /// Runs the scenario; `make` may put something around each host.
    pub fn run<H: HostNode + 'static>(
        &self,
        make: impl Fn(NodeId, Host) -> H,
    ) -> Result<Outcome, String> {
        self.judged(|| self.run_checked(make))
    }

    fn run_checked<H: HostNode + 'static>(
        &self,
        make: impl Fn(NodeId, Host) -> H,
    ) -> Result<Outcome, String> {
        let mut config = SimConfig::new(self.stock.nodes as usize, self.seed);
        config.network = self.stock.network.clone();
        config.codec = self.codec;
        config.faults = FaultSupport::Any;
        let make = |node| make(node, self.host(node));
        let mut sim = Sim::new(config, Arc::new(()), make);
        self.submit(&mut sim);

        let group = |number, group: &group_swarm::Scenario| {
            let observer =
                (GroupLedger::new(&group.config), group_swarm::Application::new(group.seed));
            OfService::<Group, _>::new(number, Arc::new(group.config.clone()), observer)
        };
        let repaired_within = (!self.stock.has_network_faults).then_some(Duration::from_secs(8));
        let terms = Terms { repaired_within, has_strangers: false };
        let ledger = OverlayLedger::new(&self.stock.config, terms);
        let ring = RingChecker::new(&self.stock.config, !self.stock.has_network_faults);
        let observer = ((ledger, ring), overlay_swarm::Application::new(&self.stock));
        let mut stock =
            OfService::<Overlay, _>::new(STOCK, Arc::new(self.table_config()), observer);
        for writer in 0..self.stock.writers {
            let first = at(BEGIN + 100 * u64::from(writer));
            stock.wake_at(&mut sim, first, NodeId::from(writer));
        }
        let is_ordered = self.prices.order() == slingshot::Order::Fifo;
        let prices = OfService::<Slingshot, _>::new(
            PRICES,
            Arc::new(self.prices.clone()),
            TimelyLedger::new(is_ordered),
        );
        let groups = (group(ORDERS, &self.orders), group(AUDIT, &self.audit));
        let mut all = (groups, (stock, prices));

        sim.run_until(at(FAULTS + HEAL), &mut all);
        // A checker that found something has ended the run: the others have nothing to say then.
        judge(&all)?;
        let ((orders, audit), (stock, prices)) = &mut all;
        let mut lost = 0;
        for (of, group, name) in
            [(&*orders, &self.orders, "orders"), (&*audit, &self.audit, "audit")]
        {
            let is_lost = group.judge_end(&of.nodes(&sim), &of.observer.0);
            lost += u64::from(is_lost.map_err(|what| format!("{what} in {name}"))?);
        }
        if lost > 0 && self.is_harmless() {
            return Err(format!("{lost} groups without a primary although nothing went wrong"));
        }
        for node in (0..self.stock.nodes).map(NodeId::from).filter(|&node| sim.is_alive(node)) {
            let missing = prices.nodes(&sim).node(node).packets_missing();
            prices.observer.check_accounts(sim.now(), node, missing);
        }
        let nodes = stock.nodes(&sim);
        stock.observer.0.0.check_quiet(&nodes, self.stock.nodes);
        judge(&all)?;

        // Now that all is quiet, every member of the table is asked.
        let (_, (stock, _)) = &mut all;
        let keys: Vec<_> = stock.observer.0.0.keys().collect();
        stock.observer.1.end();
        for (node, command) in self.stock.last_requests(&stock.nodes(&sim), &keys)? {
            let command = host::Command::new(STOCK, command);
            sim.command_at(at(FAULTS + HEAL + 1000), node, command);
        }
        sim.run_until(at(FAULTS + HEAL + ANSWER), &mut all);
        judge(&all)?;
        let (_, (stock, _)) = &mut all;
        let answers = std::mem::take(&mut stock.observer.1.answers);
        for (when, node, key, told) in &answers {
            let nodes = stock.nodes(&sim);
            let ledger = &mut stock.observer.0.0;
            ledger.check_answer(&nodes, self.stock.nodes, *when, *node, *key, told);
        }
        let nodes = stock.nodes(&sim);
        stock.observer.0.0.check_quiet(&nodes, self.stock.nodes);
        judge(&all)?;
        let ((orders, audit), (stock, prices)) = &all;
        let unknown = sim.counters().count("host_unknown_service");
        let undecodable = sim.counters().count("host_undecodable");
        if unknown + undecodable > 0 {
            return Err(format!("{unknown} messages for no service, {undecodable} undecodable"));
        }
        Ok(Outcome {
            digest: sim.digest(),
            deliveries: [orders, audit].map(|of| of.observer.0.deliveries()),
            views: [orders, audit].map(|of| of.observer.0.views().count() as u64),
            outcomes: stock.observer.0.0.outcomes().0,
            packets: prices.observer.delivered,
            lost,
            events: sim.events_handled(),
        })
    }

    /// True if the links alone have faults.
    fn is_harmless(&self) -> bool {
        let mut acts = self.stock.acts.iter().map(|(_, act)| act);
        acts.all(|act| match act {
            overlay_swarm::Act::Fault(fault) => matches!(fault, Fault::Link { .. } | Fault::Heal),
            overlay_swarm::Act::Command(..) => true,
        })
    }

    fn submit<H: HostNode>(&self, sim: &mut Sim<'_, H>) {
        for (number, group) in [(ORDERS, &self.orders), (AUDIT, &self.audit)] {
            for (when, act) in &group.acts {
                match act.clone() {
                    group_swarm::Act::Command(node, command) => {
                        sim.command_at(*when, node, host::Command::new(number, command));
                    }
                    group_swarm::Act::Fault(fault) => sim.fault_at(*when, fault),
                }
            }
        }
        for (when, act) in &self.stock.acts {
            match act.clone() {
                overlay_swarm::Act::Command(node, command) => {
                    sim.command_at(*when, node, host::Command::new(STOCK, command));
                }
                overlay_swarm::Act::Fault(fault) => sim.fault_at(*when, fault),
            }
        }
        let within = BEGIN as u32..FAULTS as u32;
        let packets = timely_swarm::packets(self.seed, self.packets, self.stock.nodes, within);
        for (when, node, command) in packets {
            sim.command_at(when, node, host::Command::new(PRICES, command));
        }
    }
}

type Members = OfService<Group, (GroupLedger, group_swarm::Application)>;
type Table = OfService<Overlay, ((OverlayLedger, RingChecker), overlay_swarm::Application)>;
type Packets = OfService<Slingshot, TimelyLedger>;

/// The first rule that a checker of any service has found broken.
fn judge(
    ((orders, audit), (stock, prices)): &((Members, Members), (Table, Packets)),
) -> Result<(), String> {
    for (of, name) in [(orders, "orders"), (audit, "audit")] {
        if let Some(violation) = of.observer.0.violation() {
            return Err(format!("{violation} in {name}"));
        }
    }
    if let Some(violation) = prices.observer.violation() {
        return Err(violation.to_string());
    }
    overlay_swarm::judge(&stock.observer.0)
}

/// A group of the hosts that run this table, with the commands that the faults there need.
fn group_beside(
    table: &overlay_swarm::Scenario,
    rng: &mut Rng,
    number: u64,
) -> group_swarm::Scenario {
    let mut group = group_swarm::Scenario::new(table.seed ^ number << 32, table.nodes);
    let count = u64::from(1 + rng.below(20));
    group = group.with_traffic(rng, count);
    for (when, act) in &mut group.acts {
        // Up to the end of the faults.
        if act.is_broadcast() && rng.chance(0.5) {
            *when += Duration::from_secs(13);
        }
    }
    let restarted = table.acts.iter().filter_map(|(when, act)| match act {
        overlay_swarm::Act::Fault(Fault::Restart(node)) => Some((*when, *node)),
        _ => None,
    });
    for (when, node) in restarted {
        let others = (0..table.nodes).filter(|&other| NodeId::from(other) != node);
        group.acts.push((when, group_swarm::Act::Command(node, group_swarm::join(others))));
    }
    group
}

impl Swarm for Scenario {
    type Outcome = Outcome;

    const OPTIONS: Options<Scenario> = &[
        ("faults", |run| {
            run.stock.acts.retain(|(_, act)| !matches!(act, overlay_swarm::Act::Fault(_)));
        }),
        ("messages to orders", |run| run.orders.acts.retain(|(_, act)| !act.is_broadcast())),
        ("messages to audit", |run| run.audit.acts.retain(|(_, act)| !act.is_broadcast())),
        ("packets", |run| run.packets = 0),
        ("writers", |run| run.stock.writers = 0),
        ("the codec", |run| run.codec = Codec::Typed),
    ];

    fn seed(&self) -> u64 {
        self.seed
    }

    fn suite(&self) -> &'static str {
        "mixed_seeds"
    }

    fn describe(&self) -> String {
        let table = self.stock.describe();
        format!("{table}\n{} packets\n{}", self.packets, self.orders.describe())
    }

    fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    fn run_honest(&self) -> Result<Outcome, String> {
        self.run(|_, host| host)
    }

    fn digest(outcome: &Outcome) -> Digest {
        outcome.digest
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    pub digest: Digest,
    pub deliveries: [u64; 2],
    pub views: [u64; 2],
    pub outcomes: u64,
    pub packets: u64,
    /// Groups without a primary in the end.
    pub lost: u64,
    pub events: u64,
}
