//! Multicast under faults, over seeds: what is told was sent, once, and nothing is forgotten.

mod seeds;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use paceline_proto::core::{GroupId, Instant, LinkFaults, Loss, NodeId, Payload, Rng, View};
use paceline_proto::slingshot::{
    Code, Command, Config, Event, How, Message, Order, Pull, Rate, Slingshot,
};
use paceline_sim::{
    Codec, Fault, FaultSupport, Multicast, NetworkConfig, Observer, Reply, Sim, SimConfig,
};
use seeds::{caught, replay, run_all};

/// A sender's packets to a group, in one life of the sender.
type Source = (GroupId, NodeId, u64);

/// What was sent, and what each node was told in its present life.
#[derive(Default)]
struct Checker {
    sent: BTreeMap<(Source, u64), Payload>,
    told: BTreeMap<(NodeId, Source), BTreeSet<u64>>,
    // Reported lost before anything of the sender came, so of which of its lives was not known.
    unheard: BTreeSet<(NodeId, GroupId, NodeId, u64)>,
    // In order: the number that must be told next.
    next: Option<BTreeMap<(NodeId, Source), u64>>,
    direct: u64,
    recovered: u64,
    pulled: u64,
    lost: u64,
    broken: Option<String>,
}

impl Checker {
    fn note(&mut self, at: Instant, node: NodeId, source: Source, seq: u64) {
        if !self.told.entry((node, source)).or_default().insert(seq) {
            self.fail(format!("{at}: {node} was told {source:?} {seq} twice"));
        }
        if let Some(next) = &mut self.next {
            let expected = next.entry((node, source)).or_insert(seq);
            if *expected != seq {
                let expected = *expected;
                self.fail(format!("{at}: {node}: {source:?} {seq}, expected {expected}"));
            } else {
                *expected += 1;
            }
        }
    }

    fn fail(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }
}

impl Observer<Slingshot> for Checker {
    fn on_send_group(&mut self, _: Instant, from: NodeId, group: GroupId, message: &Message) {
        if let Message::Data(data) = message {
            let source = (group, from, data.incarnation);
            self.sent.insert((source, data.seq), data.payload.clone());
        }
    }

    fn on_event(&mut self, at: Instant, node: NodeId, event: &Event, _: &mut Reply<Slingshot>) {
        match event {
            Event::Delivered { group, sender, incarnation, seq, payload, how, .. } => {
                let source = (*group, *sender, *incarnation);
                if self.sent.get(&(source, *seq)) != Some(payload) {
                    self.fail(format!("{at}: {node}: {source:?} {seq} was not sent so"));
                }
                match how {
                    How::Direct => self.direct += 1,
                    How::Recovered { .. } => self.recovered += 1,
                    How::Pulled { .. } => self.pulled += 1,
                }
                self.note(at, node, source, *seq);
            }
            Event::Lost { group, sender, incarnation, first, end } => {
                self.lost += end - first;
                for seq in *first..*end {
                    if *incarnation != 0 {
                        self.note(at, node, (*group, *sender, *incarnation), seq);
                    } else {
                        self.unheard.insert((node, *group, *sender, seq));
                    }
                }
            }
            _ => {}
        }
    }

    fn on_fault(&mut self, _: Instant, fault: &Fault) {
        if let Fault::Crash(crashed) = fault {
            self.told.retain(|(node, _), _| node != crashed);
            if let Some(next) = &mut self.next {
                next.retain(|(node, _), _| node != crashed);
            }
        }
    }
}

fn draw_config(rng: &mut Rng, nodes: u32, order: Order) -> Config {
    let (r, c) = (1 + rng.below(8) as usize, 1 + rng.below(4) as usize);
    let on = |rng: &mut Rng| rng.chance(0.5);
    let millis = |rng: &mut Rng, most| Duration::from_millis(1 + u64::from(rng.below(most)));
    let groups = (0..1 + rng.below(4)).map(|group| {
        let members = (0..nodes).map(NodeId).filter(|_| rng.chance(0.8)).collect();
        (GroupId(group), on(rng).then_some(members))
    });
    let groups: Vec<(GroupId, Option<Arc<[NodeId]>>)> = groups.collect();
    let rate = Rate::new(r, c).expect("within the ranges");
    let deadline = millis(rng, 100);
    Config::new(View::roster((0..nodes).map(NodeId)))
        .with_groups(groups)
        .with_rate(rate)
        .with_code(match rng.below(3) {
            0 => Code::Xor { stagger: 1 },
            1 => Code::Xor { stagger: 4 },
            _ => Code::Rlc { window: 8 + rng.below(24) as usize },
        })
        .with_order(order)
        .with_pull(on(rng).then(Pull::default))
        .with_flush_after(on(rng).then(|| millis(rng, 20)))
        .with_heartbeat_after(on(rng).then(|| millis(rng, 50)))
        .with_deadline(deadline)
        .with_lost_after(deadline + millis(rng, 400))
        .with_keep(millis(rng, 1000))
        .with_window_packets(32 + rng.below(200) as usize)
        .with_packets_max(64 + rng.below(2000) as usize)
        .with_missing_max(16 + rng.below(500) as usize)
        .with_regions_max(1 + rng.below(6) as usize)
        .with_parked_max(1 + rng.below(40) as usize)
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

fn run(seed: u64) -> Result<[u64; 4], String> {
    let mut rng = Rng::new(seed, 0x511);
    let nodes = 2 + rng.below(9);
    let order = if rng.chance(0.5) { Order::Fifo } else { Order::Unordered };
    let config = draw_config(&mut rng, nodes, order).build().map_err(|error| error.to_string())?;
    let groups = 4;
    let mut sim_config = SimConfig::new(nodes as usize, seed);
    sim_config.network = draw_network(&mut rng);
    sim_config.faults = FaultSupport::Any;
    sim_config.codec = if rng.chance(0.2) { Codec::CheckWire } else { Codec::Typed };
    let next = (order == Order::Fifo).then(BTreeMap::new);
    let mut checker = Checker { next, ..Checker::default() };
    let shared = config.clone();
    let mut sim = Sim::new(sim_config, Arc::new(config), move |_| Slingshot::new(&shared));
    let at = |ms: u32| Instant::ZERO + Duration::from_millis(ms.into());
    for number in 0..100 + rng.below(400) {
        let payload = match rng.below(3) {
            0 => Payload::Zeros(rng.below(400)),
            _ => Payload::from(vec![number as u8; rng.below(400) as usize]),
        };
        let group = GroupId(rng.below(groups));
        let command = Command::Multicast { group, payload, ticket: 0 };
        sim.command_at(at(rng.below(1000)), NodeId(rng.below(nodes)), command);
    }
    for _ in 0..rng.below(4) {
        let (node, when) = (NodeId(rng.below(nodes)), rng.below(1000));
        match rng.below(4) {
            0 => {
                sim.fault_at(at(when), Fault::Crash(node));
                sim.fault_at(at(when + rng.below(300)), Fault::Restart(node));
            }
            1 => sim.fault_at(at(when), Fault::Pause(node, Duration::from_millis(200))),
            2 => {
                sim.fault_at(at(when), Fault::Partition(vec![vec![node]]));
                sim.fault_at(at(when + 100), Fault::Heal);
            }
            _ => {
                sim.fault_at(at(when), Fault::Block(node, NodeId(rng.below(nodes))));
                sim.fault_at(at(when + 100), Fault::Heal);
            }
        }
    }
    sim.run_until(at(60_000), &mut checker);
    if let Some(broken) = checker.broken {
        return Err(broken);
    }
    if sim.events_pending() > 0 {
        return Err(format!("{} events pending: not at rest", sim.events_pending()));
    }
    for node in (0..nodes).map(NodeId) {
        let missing = sim.node(node).packets_missing();
        if missing > 0 {
            return Err(format!("{node} misses {missing} packets and says nothing"));
        }
    }
    // From the first packet that a node knew of, each was delivered or reported lost.
    for ((node, source), told) in &checker.told {
        let (group, sender, _) = *source;
        let all = told.first().copied().unwrap_or(0)..=told.last().copied().unwrap_or(0);
        let is_told = |seq: u64| {
            told.contains(&seq) || checker.unheard.contains(&(*node, group, sender, seq))
        };
        if !all.into_iter().all(is_told) {
            return Err(format!("{node}: {source:?} has holes: {told:?}"));
        }
    }
    Ok([checker.direct, checker.recovered, checker.pulled, checker.lost])
}

#[test]
fn over_seeds_what_is_told_was_sent_once_and_nothing_is_forgotten() {
    let (seeds, [direct, recovered, pulled, lost]) = run_all(|seed| {
        caught(|| run(seed)).map_err(|what| format!("{what}\n{}", replay("slingshot_seeds", seed)))
    });
    println!("{seeds} seeds: {direct} direct, {recovered} recovered, {pulled} pulled, {lost} lost");
    assert!(seeds < 50 || (recovered > 0 && pulled > 0 && lost > 0));
}
