//! Time-critical multicast among members that join, crash, are cut off, and leave.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_proto::core::{
    GroupId, Instant, Loss, MembershipCommand, NodeId, Payload, View, ViewId,
};
use paceline_proto::multicast::{Command, Config, Event, Multicast};
use paceline_proto::slingshot::{self, Order, Rate};
use paceline_proto::{chain, detector, group};
use paceline_sim::{Codec, Fault, FaultSupport, NetworkConfig, Observer, Reply, Sim, SimConfig};

const NODES: u32 = 6;
/// A member's incarnation, from the view on in which it had it.
type Life = u64;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn config(order: Order) -> Config {
    let group = group::Config::new(chain::Config::for_groups(), detector::Config::new());
    let slingshot = slingshot::Config::new(View::new(ViewId(0), []))
        .with_rate(Rate { r: 6, c: 2 })
        .with_order(order);
    Config::new(group, slingshot).expect("within the ranges")
}

/// The reports of members, by receiver and incarnation of the sender.
#[derive(Default)]
struct Ledger {
    views: BTreeMap<NodeId, Vec<Arc<View>>>,
    excluded: Vec<NodeId>,
    left: Vec<NodeId>,
    /// True for a delivery, false for a loss, in the order of the reports.
    told: BTreeMap<(NodeId, NodeId, Life), Vec<(u64, bool)>>,
    sent: BTreeMap<NodeId, u64>,
    rejected: u64,
}

impl Observer<Multicast> for Ledger {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, _: &mut Reply<Multicast>) {
        match event {
            Event::Group(group::Event::View(view)) => {
                self.views.entry(node).or_default().push(view.clone());
            }
            Event::Group(group::Event::Excluded) => self.excluded.push(node),
            Event::Group(group::Event::Left) => self.left.push(node),
            Event::Group(_) => {}
            Event::Slingshot(event) => self.hear(node, event),
        }
    }
}

impl Ledger {
    fn hear(&mut self, node: NodeId, event: &slingshot::Event) {
        match event {
            slingshot::Event::Delivered { sender, incarnation, seq, payload, .. } => {
                assert_eq!(payload.to_bytes(), packet(*sender));
                let told = self.told.entry((node, *sender, *incarnation)).or_default();
                assert!(told.iter().all(|&(known, _)| known != *seq), "{sender}.{seq} twice");
                told.push((*seq, true));
            }
            slingshot::Event::Lost { sender, incarnation, first, end, .. } => {
                let told = self.told.entry((node, *sender, *incarnation)).or_default();
                for seq in *first..*end {
                    assert!(told.iter().all(|&(known, _)| known != seq), "{sender}.{seq} lost too");
                    told.push((seq, false));
                }
            }
            slingshot::Event::Sent { .. } => *self.sent.entry(node).or_default() += 1,
            slingshot::Event::Rejected { .. } => self.rejected += 1,
            slingshot::Event::Overrun { .. }
            | slingshot::Event::Tuned { .. }
            | slingshot::Event::Slow { .. } => {
                panic!("{node}: {event:?}")
            }
        }
    }

    /// Packets of one sender that a receiver reported, over all its incarnations: delivered, and
    /// lost.
    fn between(&self, receiver: NodeId, sender: NodeId) -> (u64, u64) {
        let told = self.told.iter().filter(|((to, from, _), _)| (*to, *from) == (receiver, sender));
        told.flat_map(|(_, told)| told).fold((0, 0), |(delivered, lost), &(_, is_delivered)| {
            if is_delivered { (delivered + 1, lost) } else { (delivered, lost + 1) }
        })
    }
}

fn packet(sender: NodeId) -> Bytes {
    Bytes::from(format!("from {sender}"))
}

/// All members send every 10 ms, one after another, from 2 s to 14 s.
fn simulation(config: &Config, seed: u64, loss: f64) -> Sim<'static, Multicast> {
    let mut sim_config = SimConfig::new(NODES as usize, seed);
    sim_config.network =
        NetworkConfig { receive_loss: Loss::Independent(loss), ..NetworkConfig::default() };
    sim_config.network.link.delay = Duration::from_micros(100);
    sim_config.codec = Codec::CheckWire;
    sim_config.faults = FaultSupport::Any;
    let own = config.clone();
    let mut sim = Sim::new(sim_config, Arc::new(config.clone()), move |_| Multicast::new(&own));
    sim.command_at(at(1), NodeId(0), MembershipCommand::Bootstrap { address: Bytes::new() }.into());
    for node in 1..NODES {
        let join = MembershipCommand::Join { address: Bytes::new(), peers: vec![NodeId(0)] }.into();
        sim.command_at(at(2), NodeId::from(node), join);
    }
    for number in 0..1200 {
        for node in (0..NODES).map(NodeId::from) {
            let group = GroupId(0);
            let payload = Payload::from(packet(node));
            let command = slingshot::Command::Multicast { group, payload, ticket: number + 1 };
            let when = at(2_000 + 10 * number) + Duration::from_micros(node.0 * 1_600);
            sim.command_at(when, node, Command::Slingshot(command));
        }
    }
    sim
}

#[test]
fn all_is_delivered_or_told_lost_among_members_that_stay() {
    for order in [Order::Unordered, Order::Fifo] {
        let config = config(order);
        let mut ledger = Ledger::default();
        let mut sim = simulation(&config, 1, 0.02);
        sim.run_until(at(16_000), &mut ledger);
        for (receiver, sender) in pairs() {
            let (delivered, lost) = ledger.between(receiver, sender);
            assert_eq!(delivered + lost, 1_200, "{receiver} of {sender}");
            assert!(lost < 4, "{lost} lost at {receiver} of {sender}");
        }
        if order == Order::Fifo {
            let in_order = |told: &Vec<(u64, bool)>| told.is_sorted_by_key(|&(seq, _)| seq);
            assert!(ledger.told.values().all(in_order));
        }
        assert_eq!(ledger.rejected, 0);
    }
}

#[test]
fn a_member_that_crashes_is_heard_again_under_its_new_incarnation() {
    let config = config(Order::Unordered);
    let mut ledger = Ledger::default();
    let mut sim = simulation(&config, 2, 0.01);
    let victim = NodeId(3);
    sim.fault_at(at(5_000), Fault::Crash(victim));
    sim.fault_at(at(8_000), Fault::Restart(victim));
    let join = MembershipCommand::Join { address: Bytes::new(), peers: vec![NodeId(0)] }.into();
    sim.command_at(at(8_001), victim, join);
    sim.run_until(at(16_000), &mut ledger);
    for (receiver, sender) in pairs() {
        let (delivered, lost) = ledger.between(receiver, sender);
        if receiver != victim && sender != victim {
            assert_eq!(delivered + lost, 1_200, "{receiver} of {sender}");
        } else {
            assert!(delivered > 800, "{receiver} of {sender}: {delivered}");
        }
    }
    let lives =
        ledger.told.keys().filter(|(to, from, _)| (*to, *from) == (NodeId(0), victim)).count();
    assert_eq!(lives, 2);
}

/// A member that is cut off for longer than the others wait is excluded, joins again, and sends and
/// receives.
#[test]
fn a_member_that_was_cut_off_begins_anew() {
    let config = config(Order::Unordered);
    let mut ledger = Ledger::default();
    let mut sim = simulation(&config, 3, 0.01);
    let victim = NodeId(5);
    sim.fault_at(at(4_000), Fault::Partition(vec![vec![victim]]));
    sim.fault_at(at(8_000), Fault::Heal);
    sim.run_until(at(16_000), &mut ledger);
    assert_eq!(ledger.excluded, [victim]);
    let lives = |receiver: NodeId, sender: NodeId| {
        ledger.told.keys().filter(|(to, from, _)| (*to, *from) == (receiver, sender)).count()
    };
    assert_eq!(lives(NodeId(0), victim), 2, "the others know it as two");
    for other in (0..5).map(NodeId) {
        assert_eq!(lives(victim, other), 1);
        let (delivered, _) = ledger.between(victim, other);
        assert!(delivered > 600, "{delivered} of {other}");
        let (delivered, _) = ledger.between(other, victim);
        assert!(delivered > 600, "{delivered} at {other}");
    }
}

#[test]
fn a_member_that_has_left_delivers_nothing_and_may_not_send() {
    let config = config(Order::Unordered);
    let mut ledger = Ledger::default();
    let mut sim = simulation(&config, 4, 0.0);
    let leaver = NodeId(1);
    sim.command_at(at(6_000), leaver, MembershipCommand::Leave.into());
    sim.run_until(at(16_000), &mut ledger);
    assert_eq!(ledger.left, [leaver]);
    assert_eq!(ledger.rejected + ledger.sent[&leaver], 1_200);
    assert!((780..820).contains(&ledger.rejected), "{}", ledger.rejected);
    for other in [0, 2, 3, 4, 5].map(NodeId) {
        let (delivered, lost) = ledger.between(other, leaver);
        assert_eq!(delivered + lost, ledger.sent[&leaver]);
        assert!(ledger.between(leaver, other).0 < 420);
    }
    let group = sim.node(leaver).slingshot();
    assert_eq!((group.packets_missing(), group.packets_held().0), (0, 0));
}

fn pairs() -> impl Iterator<Item = (NodeId, NodeId)> {
    (0..NODES)
        .flat_map(|a| (0..NODES).map(move |b| (NodeId::from(a), NodeId::from(b))))
        .filter(|(a, b)| a != b)
}
