//! Time-critical multicast in which some members turn rogue for a while, as in `group_rogue_seeds`.
//! The roster is fixed.
//!
//! Meanwhile no member panics, and the state of members stays within its bounds. Ten seconds after
//! the end each other member delivers every packet that the others send.

use crate::slingshot_swarm;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use paceline_check::checkers::slingshot::Member;
use paceline_check::lies::Known;
use paceline_check::{Conduct, LieTally, Misdeed, Rogues, seeds};
use paceline_proto::core::{GroupId, Instant, LinkFaults, Loss, NodeId, Payload, Rng};
use paceline_proto::slingshot::{Command, Event, Message, Slingshot};
use paceline_sim::{Fault, FaultSupport, NetworkConfig, Observer, Reply, Sim, SimConfig};
use slingshot_swarm::{GROUPS, Scenario, at};

/// The others send so long after the rogue members stop,
const AGREE: Duration = Duration::from_secs(10);
/// and then deliver within this.
const DELIVER: Duration = Duration::from_secs(5);
/// Packets of a member to each of its groups before and while others are rogue, and after it.
const EARLY: u32 = 40;
const LATE: u32 = 5;
/// The rate at which senders that follow their receivers send at least, bytes a second.
const RATE_MIN: u32 = 20_000;

/// A run, wholly drawn from its seed.
struct World {
    scenario: Scenario,
    network: NetworkConfig,
    rogues: Rogues,
    honest: Vec<NodeId>,
    from: u32,
    until: u32,
}

impl World {
    fn draw(seed: u64) -> World {
        let mut rng = Rng::new(seed, 0x409e);
        let mut scenario = (0..)
            .map(|more| Scenario::draw(seed + (more << 32)))
            .find(|scenario| scenario.nodes() > 2)
            .expect("most have more nodes");
        scenario.suite = "slingshot_rogue_seeds";
        // Applications consume at once, and packets to several groups come at the same instant.
        let config = scenario.config.clone().with_unread_max(None);
        // A rogue member may hold a sender that follows it at this rate: what waits leaves in time.
        // If no member were followed, its rate would stay the first one: a packet in 100 ms.
        let config = config.with_rate_min(Some(RATE_MIN)).with_followed(true);
        scenario.config = config.build().expect("as drawn");
        let mut honest: Vec<NodeId> = (0..scenario.nodes()).map(NodeId::from).collect();
        let count = 1 + rng.below(scenario.nodes() / 3);
        let rogues: Vec<NodeId> =
            (0..count).map(|_| honest.remove(rng.below(honest.len() as u32) as usize)).collect();
        let from = 100 + rng.below(500);
        let until = from + 500 + rng.below(2000);
        let conduct = Conduct::draw(&mut rng, at(from), at(until));
        let view = scenario.config.roster().id().0;
        let known = Known { view, groups: GROUPS, ..Known::default() };
        let link = LinkFaults { delay: Duration::from_micros(500), ..LinkFaults::default() };
        let multicast = scenario.network.multicast;
        let network = NetworkConfig { link, multicast, ..NetworkConfig::default() };
        let rogues = Rogues::new(rogues, known, conduct);
        World { scenario, network, rogues, honest, from, until }
    }

    /// The groups that a node is in.
    fn groups_of(&self, node: NodeId) -> impl Iterator<Item = GroupId> {
        let groups = self.scenario.config.groups().iter();
        let is_in = move |listed: &Option<Arc<[NodeId]>>| {
            listed.as_ref().is_none_or(|listed| listed.contains(&node))
        };
        groups.filter(move |(_, listed)| is_in(listed)).map(|&(group, _)| group)
    }

    fn run(&self) -> Result<[u64; 3], String> {
        let scenario = &self.scenario;
        let mut config = SimConfig::new(scenario.nodes() as usize, scenario.seed);
        config.network = self.network.clone();
        config.codec = scenario.codec;
        config.faults = FaultSupport::Any;
        let make = |node| self.rogues.wrap(node, Slingshot::new(&scenario.config));
        let mut sim = Sim::new(config, Arc::new(scenario.config.clone()), make);
        let mut rng = Rng::new(scenario.seed, 0x3055);
        for node in (0..scenario.nodes()).map(NodeId::from) {
            for group in self.groups_of(node) {
                for _ in 0..EARLY {
                    let payload = Payload::Zeros(rng.below(400));
                    let command = Command::Multicast { group, payload, ticket: 0 };
                    sim.command_at(at(rng.below(self.until)), node, command);
                }
            }
        }
        if rng.chance(0.5) {
            let loss = Loss::Independent(rng.unit() * 0.1);
            let jitter = Duration::from_micros(rng.below(5_000).into());
            let link = LinkFaults { loss, jitter, ..self.network.link };
            sim.fault_at(at(self.from), Fault::Link { from: None, to: None, link });
            let link = self.network.link;
            sim.fault_at(at(self.until), Fault::Link { from: None, to: None, link });
        }
        for node in (0..scenario.nodes()).map(NodeId::from).filter(|&node| self.rogues.has(node)) {
            if rng.chance(0.5) {
                sim.fault_at(at(self.until), Fault::Crash(node));
            }
        }
        let mut recorded = Recorder { honest: self.honest.clone(), ..Recorder::default() };
        let config = &scenario.config;
        let (packets, bytes) = config.held_max();
        recorded.allowed = [packets, bytes, config.missing_max(), config.flows_max()];
        let begin = at(self.until) + AGREE;
        sim.run_until(begin, &mut recorded);
        for (number, &node) in self.honest.iter().enumerate() {
            for group in self.groups_of(node) {
                for late in 0..LATE {
                    let when = begin + Duration::from_millis(7 * number as u64 + 40 * late as u64);
                    let payload = late_payload(node, group, late);
                    sim.command_at(when, node, Command::Multicast { group, payload, ticket: 1 });
                }
            }
        }
        sim.run_until(begin + DELIVER, &mut recorded);
        for &sender in &self.honest {
            for group in self.groups_of(sender) {
                for &node in self.honest.iter().filter(|&&node| node != sender) {
                    for late in 0..LATE {
                        let bytes = late_payload(sender, group, late).to_bytes().to_vec();
                        if !self.groups_of(node).any(|it| it == group)
                            || recorded.late.contains(&(node, sender, bytes))
                        {
                            continue;
                        }
                        let what = format!("packet {late} of {sender} to {group}");
                        return Err(format!("{node} has not delivered {what}"));
                    }
                }
            }
        }
        match recorded.excess {
            Some(excess) => Err(excess),
            None => Ok([recorded.delivered, recorded.lost, recorded.bytes_max as u64]),
        }
    }
}

fn late_payload(node: NodeId, group: GroupId, number: u32) -> Payload {
    let words = [u32::MAX, node.index() as u32, group.0, number];
    Payload::from(words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>())
}

/// The reports of the other members, and their state.
#[derive(Default)]
struct Recorder {
    honest: Vec<NodeId>,
    // By node, the senders whose late packets it delivered.
    late: BTreeSet<(NodeId, NodeId, Vec<u8>)>,
    delivered: u64,
    lost: u64,
    // Packets and bytes held, packets missing, and senders.
    allowed: [usize; 4],
    bytes_max: usize,
    excess: Option<String>,
}

impl<P: Member> Observer<P> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        if !matches!(event, Event::Sent { .. } | Event::Rejected { .. }) {
            let events = match event {
                Event::Delivered { packets, .. } => *packets as usize,
                _ => 1,
            };
            reply.command(Duration::ZERO, node, Command::Consumed { events });
        }
        if !self.honest.contains(&node) {
            return;
        }
        match event {
            Event::Delivered { sender, payload, .. } => {
                self.delivered += 1;
                if payload.len() == 16 {
                    self.late.insert((node, *sender, payload.to_bytes().to_vec()));
                }
            }
            Event::Lost { .. } => self.lost += 1,
            _ => {}
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        if self.honest.contains(&node) {
            let member = protocol.slingshot();
            let (packets, bytes) = member.packets_held();
            let [packets_max, bytes_max, missing_max, flows_max] = self.allowed;
            let (missing, flows) = (member.packets_missing(), member.flows());
            self.bytes_max = self.bytes_max.max(bytes);
            if packets > packets_max
                || bytes > bytes_max
                || missing > missing_max
                || flows > flows_max
            {
                let what = format!(
                    "{at}: {node}: {packets} packets of {bytes} bytes held, {missing} missing, \
                     {flows} senders"
                );
                self.excess.get_or_insert(what);
            }
        }
    }
}

/// Runs a seed, and counts what its rogue members did.
fn run(seed: u64, tally: &LieTally) -> Result<[u64; 3], String> {
    let world = World::draw(seed);
    let World { rogues, scenario, .. } = &world;
    tally.run_rogues((scenario.suite, seed), rogues, scenario, || world.run())
}

/// Members took a packet that a rogue one made up, far ahead, for its sender's.
#[test]
fn seeds_that_failed_once_deliver() {
    let tally = LieTally::default();
    seeds::run_found(&[6_648, 10_594, 12_221, 19_179], |seed| run(seed, &tally));
}

#[test]
fn seeds_deliver_what_others_send_after_members_were_rogue() {
    let tally = LieTally::default();
    let (count, [delivered, lost, held]) = seeds::run_all(|seed| run(seed, &tally));
    let held = held / count;
    println!(
        "{count} seeds: {delivered} deliveries, {lost} reports of loss, {held} bytes held by one"
    );
    tally.assert_rogue::<Message>(count, 10, &Misdeed::ALL);
    assert!(count < 100 || delivered > 100 * count, "the seeds tested nothing");
}
