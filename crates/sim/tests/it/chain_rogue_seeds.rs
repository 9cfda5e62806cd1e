//! Rings in which a minority of members turns rogue for a while. They take part, but also lie to
//! others, drop, repeat, delay, replace and damage what they send, equivocate, and ignore messages,
//! as in `group_rogue_seeds`. Then they are honest again, or crash.
//!
//! Members forward what others sent, and a block itself says how it spreads, so deliveries are not
//! checked. A view that had a rogue member need not make progress again: the block numbers that it
//! corrupted stay until the next view. The promise in such a view is that no member panics, that
//! the state of the others stays within its bounds, and that they come to rest or retry at a
//! bounded rate. Ten seconds after the end the next view begins, in which only the others are: they
//! deliver what each of them broadcasts, hold nothing in the end, and are at rest.

use crate::chain_swarm;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chain_swarm::Scenario;
use paceline_check::checkers::chain::Member;
use paceline_check::lies::Known;
use paceline_check::{Conduct, LieTally, Misdeed, Rogues, seeds};
use paceline_proto::chain::{Chain, Command, Config, Event, Message};
use paceline_proto::core::{self, Instant, LinkFaults, NodeId, Payload, Rng, View, ViewId};
use paceline_sim::{Fault, FaultSupport, Observer, Reply, Shape, Sim, SimConfig};

/// The others broadcast in the old view so long after the rogue members stop,
const LATE: Duration = Duration::from_secs(5);
/// and in the next one so long after that.
const NEXT: Duration = Duration::from_secs(5);
/// What is broadcast then is delivered within this.
const DELIVER: Duration = Duration::from_secs(5);
/// Events that a member causes in a second at most while nothing is sent, without those of a hop
/// that a rogue member broke: the member before it asks about it each `resync_after`.
const EVENTS_A_SECOND: u64 = 400;
/// Numbers of messages in the old view after the end, and in the next one.
const OLD: u64 = 1 << 32;
const NEW: u64 = 1 << 33;

/// A run, wholly drawn from its seed.
struct World {
    scenario: Scenario,
    rogues: Rogues,
    honest: Vec<NodeId>,
    until: Instant,
    commands: Vec<(Instant, NodeId, Command)>,
}

fn message(node: NodeId, number: u64, bytes: usize) -> Command {
    let mut content = (node.index() as u32).to_be_bytes().to_vec();
    content.extend_from_slice(&number.to_be_bytes());
    content.resize(bytes.max(12), node.0 as u8);
    Command::broadcast(Payload::from(content))
}

impl World {
    /// `None` unless the ring has 3 to 12 members and messages may have 12 bytes: a rogue minority
    /// needs three members, and a run with more than twelve takes too long.
    fn draw(seed: u64) -> Option<World> {
        let mut rng = Rng::new(seed, 0x409e);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "chain_rogue_seeds";
        scenario.network.shape = Shape::Mesh;
        let members = scenario.ring.len() as u32;
        if !(3..=12).contains(&members) || scenario.config.message_bytes_max() < 12 {
            return None;
        }
        let from = rng.below(200);
        let until = from + 200 + rng.below(2_000);
        let time = |ms: u32| Instant::ZERO + Duration::from_millis(ms.into());
        let mut honest: Vec<NodeId> = scenario.ring.iter().copied().map(NodeId::from).collect();
        let count = 1 + rng.below((members - 1) / 2);
        let rogues: Vec<NodeId> =
            (0..count).map(|_| honest.remove(rng.below(honest.len() as u32) as usize)).collect();
        scenario.faults.clear();
        for &node in &rogues {
            if rng.chance(0.5) {
                scenario.faults.push((time(until), Fault::Crash(node)));
            }
        }
        let mut commands = Vec::new();
        for &node in &scenario.ring {
            for number in 0..5 + u64::from(rng.below(20)) {
                let most = scenario.config.message_bytes_max().min(20_000) as u32;
                let when = time(rng.below(until));
                let bytes = rng.below(most + 1) as usize;
                commands.push((
                    when,
                    NodeId::from(node),
                    message(NodeId::from(node), number, bytes),
                ));
            }
        }
        let conduct = Conduct::draw(&mut rng, time(from), time(until));
        let rogues = Rogues::new(rogues, Known { view: 1, ..Known::default() }, conduct);
        Some(World { scenario, rogues, honest, until: time(until), commands })
    }

    fn run(&self) -> Result<[u64; 5], String> {
        let scenario = &self.scenario;
        let mut config = SimConfig::new(scenario.ring.len(), scenario.seed);
        config.network = scenario.network.clone();
        config.codec = scenario.codec;
        config.faults = FaultSupport::Any;
        let (chain, rogues) = (scenario.config.clone(), self.rogues.clone());
        let make = move |node| rogues.wrap(node, Chain::new(&chain));
        let mut sim = Sim::new(config, Arc::new(scenario.config.clone()), make);
        // As a group does, with the incarnations of its members.
        let view = |sim: &Sim<'_, _>, id, nodes: &[NodeId]| {
            let member = |&node| core::Member { node, incarnation: sim.incarnation(node) };
            Arc::new(View::new(ViewId(id), nodes.iter().map(member)))
        };
        let ring: Vec<NodeId> = scenario.ring.iter().copied().map(NodeId::from).collect();
        let first = view(&sim, 1, &ring);
        for &node in &ring {
            sim.view_at(Instant::ZERO, node, first.clone());
        }
        for (when, fault) in &scenario.faults {
            sim.fault_at(*when, fault.clone());
        }
        for (when, node, command) in &self.commands {
            sim.command_at(*when, *node, command.clone());
        }
        let link = LinkFaults { delay: Duration::from_micros(200), ..LinkFaults::default() };
        sim.fault_at(self.until, Fault::Link { from: None, to: None, link });
        let mut recorded = Recorder::new(&scenario.config, self.honest.clone());
        sim.run_until(self.until + LATE - Duration::from_secs(1), &mut recorded);
        let events = sim.events_handled();
        sim.run_until(self.until + LATE, &mut recorded);
        let events = sim.events_handled() - events;
        // The timer, and the message that it sends.
        let asks =
            2 * Duration::from_secs(1).div_duration_f64(scenario.config.resync_after()) as u64;
        let most = EVENTS_A_SECOND * scenario.ring.len() as u64 + asks * self.honest.len() as u64;
        if events > most {
            return Err(format!("{events} events in a second, {most} allowed"));
        }
        let bytes = scenario.config.message_bytes_max().min(100);
        for &node in &self.honest {
            sim.command_at(sim.now(), node, message(node, OLD, bytes));
        }
        sim.run_until(self.until + LATE + NEXT, &mut recorded);
        let all = self.honest.iter().copied().collect();
        let goes_on = self.honest.iter().all(|&node| recorded.of(node, OLD) == all);
        let next = view(&sim, 2, &self.honest);
        for &node in &self.honest {
            sim.view_at(sim.now(), node, next.clone());
        }
        let begin = sim.now() + Duration::from_millis(100);
        for &node in &self.honest {
            for number in 0..3 {
                sim.command_at(begin, node, message(node, NEW + number, bytes));
            }
        }
        sim.run_until(begin + DELIVER, &mut recorded);
        for &node in &self.honest {
            for number in NEW..NEW + 3 {
                let of = recorded.of(node, number);
                if of != all {
                    let states: Vec<String> = self
                        .honest
                        .iter()
                        .map(|&node| {
                            let chain = sim.node(node).chain();
                            let (view, waiting) = (chain.view().id(), chain.messages_waiting());
                            let (sent, stable) = (chain.blocks_sent(), chain.blocks_stable());
                            let behind = chain.held_back_by().map(|(at, by)| (at, by.collect()));
                            let behind: Option<(u64, Vec<NodeId>)> = behind;
                            format!(
                                "{node}: {view}, {waiting} wait, {sent} blocks sent, {stable} \
                                 stable, held back by {behind:?}"
                            )
                        })
                        .collect();
                    let what =
                        format!("{node} delivered message {number} of {of:?}, not of {all:?}");
                    return Err(format!("{what}\n{}", states.join("\n")));
                }
            }
            let chain = sim.node(node).chain();
            if chain.bytes_held() > 0 || !chain.is_at_rest() {
                return Err(format!("{node} holds {} bytes in the end", chain.bytes_held()));
            }
        }
        match recorded.excess {
            Some(excess) => Err(excess),
            None => {
                Ok([1, recorded.delivered, recorded.held_max as u64, u64::from(goes_on), events])
            }
        }
    }
}

/// What the other members deliver, and what they hold.
struct Recorder {
    honest: Vec<NodeId>,
    /// Bytes that a member may hold.
    bound: usize,
    // By node and number of a late message, who sent it.
    late: BTreeMap<(NodeId, u64), BTreeSet<NodeId>>,
    delivered: u64,
    held_max: usize,
    excess: Option<String>,
}

impl Recorder {
    fn new(config: &Config, honest: Vec<NodeId>) -> Recorder {
        let each = config.window_bytes() + config.block_bytes_max();
        let bound = config.roster().len() * each;
        let late = BTreeMap::new();
        Recorder { honest, bound, late, delivered: 0, held_max: 0, excess: None }
    }

    /// The origin from which a node delivered its message of this number.
    fn of(&self, node: NodeId, number: u64) -> BTreeSet<NodeId> {
        self.late.get(&(node, number)).cloned().unwrap_or_default()
    }
}

impl<P: Member> Observer<P> for Recorder {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        let Event::Delivered { origin, end, payload, .. } = event else { return };
        let command = Command::Consumed { origin: *origin, end: *end };
        reply.command(Duration::from_millis(1), node, command);
        if !self.honest.contains(&node) {
            return;
        }
        self.delivered += 1;
        let bytes = payload.to_bytes();
        if bytes.starts_with(&(origin.index() as u32).to_be_bytes())
            && let Some(number) = bytes[4..].first_chunk()
            && u64::from_be_bytes(*number) >= OLD
            && self.honest.contains(origin)
        {
            let number = u64::from_be_bytes(*number);
            self.late.entry((node, number)).or_default().insert(*origin);
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        if self.honest.contains(&node) {
            let held = protocol.chain().bytes_held();
            self.held_max = self.held_max.max(held);
            if held > self.bound && self.excess.is_none() {
                let bound = self.bound;
                self.excess = Some(format!("{at}: {node} holds {held} bytes, {bound} allowed"));
            }
        }
    }
}

#[test]
fn seeds_go_on_in_the_next_view_after_members_were_rogue() {
    let tally = LieTally::default();
    let run = |seed| {
        let Some(world) = World::draw(seed) else { return Ok([0; 5]) };
        let World { rogues, scenario, .. } = &world;
        tally.run_rogues((scenario.suite, seed), rogues, scenario, || world.run())
    };
    let (count, [runs, delivered, held, goes_on, events]) = seeds::run_all(run);
    let (held, events) = (held / runs.max(1), events / runs.max(1));
    println!(
        "{count} seeds, {runs} of them run: {delivered} deliveries, {held} bytes held by one, \
         {events} events in a quiet second; {goes_on} went on in the view"
    );
    // Members multicast nothing, and send all others the same only in some topologies.
    tally.assert_rogue::<Message>(count, 10, &Misdeed::ALL);
    assert!(count < 100 || delivered > 50 * count, "the seeds tested nothing");
}
