//! Servers and clients of walks, up to half of which turn rogue for a while. They serve walks, but
//! also lie to others, drop, repeat, delay, replace and damage what they send, and ignore messages,
//! as in `group_rogue_seeds`. Then they are honest again, or crash and restart with their vertices.
//!
//! Meanwhile no node panics, and the state of the others stays within its bounds. A rogue server
//! decides where the walks go that it serves, so paths are not checked then. Ten seconds after the
//! end each other node asks for walks: all are done, and go where they go without a rogue node.
//! Nothing is left of walkers that rogue nodes made, but for those that a flipped bit made longer:
//! a server takes walkers of up to 2^20 steps, and serves them.
//!
//! Servers have their parts from the start: where clients give them, any client may replace them.

use crate::walk_swarm;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_check::checkers::walk::Node;
use paceline_check::{Conduct, LieTally, Misdeed, Rogues, seeds};
use paceline_proto::core::{Instant, LinkFaults, NodeId, Rng};
use paceline_proto::walk::{
    Command, Config, Event, Head, Job, JobId, Kind, Length, Message, Part, QueueConfig, Server,
    Sources, Trail, Traveller, Vertex,
};
use paceline_sim::{Fault, FaultSupport, Observer, Overhead, Reply, Sim, SimConfig};
use walk_swarm::draw::regenerates;
use walk_swarm::{Scenario, at, millis};

/// The others request walks this long after the rogue nodes stop,
const AGREE: Duration = Duration::from_secs(10);
/// and have them within this.
const WALKED: Duration = Duration::from_secs(5);
/// After that, walkers that rogue nodes made have ended within this: as many as a queue takes, of
/// 300 steps, each of which takes a server up to 400 us. Or within `DRAWS` times that: the mean
/// number of draws that node2vec with p = q = 20 needs for a step where a vertex has no triangles.
const SERVED: Duration = Duration::from_secs(25);
const DRAWS: u32 = 20;
/// Vertices from which they begin at most, walks from each, and their steps.
const SOURCES_MAX: u32 = 8;
const WALKS: u32 = 2;
const STEPS: u32 = 10;
/// Steps of a walker that has not been damaged.
const WALKER_STEPS_MAX: u32 = 1_000;
/// Jobs that are asked for after that have numbers from here on.
const LATE: u64 = 1 << 32;
/// Walkers that wait at a server at most.
const QUEUE_MAX: usize = 200;
/// Bytes that a walker takes up where it waits, and a home; rounded up.
const WALKER_BYTES: usize = 512;
/// Homes that a server tells apart.
const HOMES_MAX: usize = 1024;
/// Events of a run at most.
const EVENTS_MAX: u64 = 3_000_000;

/// A run, wholly drawn from its seed.
struct World {
    scenario: Scenario,
    rogues: Rogues,
    honest: Vec<NodeId>,
    until: Instant,
}

fn late_job(node: NodeId, vertices: u32) -> Job {
    Job {
        id: JobId(LATE + node.0),
        seed: LATE ^ node.0,
        kind: Kind::Uniform,
        length: Length::Steps(STEPS),
        sources: Sources::Range(0..vertices.min(SOURCES_MAX)),
        walks: WALKS,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    }
}

impl World {
    /// None if there is only one node.
    fn draw(seed: u64) -> Option<World> {
        let mut rng = Rng::new(seed, 0x409e);
        let mut scenario = Scenario::draw(seed);
        scenario.suite = "walk_rogue_seeds";
        scenario.faults.clear();
        scenario.link.delay = scenario.link.delay.max(millis(1));
        for config in &mut scenario.configs {
            // What is lost is done once more, and not replaced by another walk.
            if regenerates(config) {
                *config = Config::default();
            }
            // Otherwise a server serves any number of walkers at a time, and a rogue server that
            // sends each walker twice multiplies them without bound.
            config.service = config.service.max(Duration::from_micros(40));
            config.attempts_max = 255;
            config.queue = QueueConfig { limit: QUEUE_MAX, ..QueueConfig::default() };
            config.jobs_max = config.jobs_max.max(20);
            config.walk_time_max = config.walk_time_max.min(Duration::from_secs(2));
        }
        let nodes = scenario.nodes();
        if nodes < 2 {
            return None;
        }
        let from = rng.below(100);
        let until = from + 200 + rng.below(2_000);
        let mut honest: Vec<NodeId> = (0..nodes).map(NodeId::from).collect();
        let count = 1 + rng.below((nodes / 2).max(1));
        let rogues: Vec<NodeId> =
            (0..count).map(|_| honest.remove(rng.below(honest.len() as u32) as usize)).collect();
        for &node in &rogues {
            if rng.chance(0.5) {
                scenario.faults.push((at(until), Fault::Crash(node)));
                let again = until + 1 + rng.below(2_000);
                scenario.faults.push((at(again), Fault::Restart(node)));
            }
        }
        let conduct = Conduct::draw(&mut rng, at(from), at(until));
        let known = scenario.known();
        let rogues = Rogues::new(rogues, known, conduct);
        Some(World { scenario, rogues, honest, until: at(until) })
    }

    /// The scenario with nodes made by `make`, and the late jobs. `is_alone`: without the jobs
    /// before, and without faults.
    fn run<P: Node>(
        &self,
        is_alone: bool,
        mut make: impl FnMut(NodeId, Config, Part) -> P,
    ) -> Result<Walked, String> {
        let scenario = &self.scenario;
        let (graph, owners, _) = scenario.world();
        let mut config = SimConfig::new(scenario.nodes() as usize, scenario.seed);
        config.network.overhead = Overhead::None;
        config.network.link = if is_alone { LinkFaults::default() } else { scenario.link };
        config.codec = scenario.codec;
        config.faults = FaultSupport::Any;
        config.datagram_bytes_max = scenario.datagram_bytes_max;
        let mut sim = Sim::new(config, Arc::new(()), |node| {
            let part = Part::new(node, graph.clone(), owners.clone());
            make(node, scenario.configs[node.index()], part)
        });
        let link = LinkFaults { delay: millis(1), ..LinkFaults::default() };
        sim.fault_at(self.until, Fault::Link { from: None, to: None, link });
        if !is_alone {
            for (when, fault) in &scenario.faults {
                sim.fault_at(*when, fault.clone());
            }
            for (when, node, job) in &scenario.jobs {
                sim.command_at(*when, *node, Command::Run(Box::new(job.clone())));
            }
        }
        let begin = self.until + AGREE;
        for &node in &self.honest {
            let job = late_job(node, scenario.vertices);
            sim.command_at(begin, node, Command::Run(Box::new(job)));
        }
        let mut walked = Walked { honest: self.honest.clone(), ..Walked::default() };
        while sim.now() < begin + WALKED && sim.step(&mut walked) {
            if sim.events_handled() > EVENTS_MAX {
                return Err(format!("{EVENTS_MAX} events and no end at {}", sim.now()));
            }
        }
        if let Some(excess) = &walked.excess {
            return Err(excess.clone());
        }
        let open = self.honest.iter().find(|node| walked.ended.get(node) != Some(&true));
        if let Some(node) = open {
            let (done, ended) = (walked.paths.len(), walked.ended.get(node));
            return Err(format!("the job of {node}: ended {ended:?}, {done} walks of all jobs"));
        }
        let left_at = |sim: &Sim<'_, P>, node: NodeId| {
            let server = sim.node(node).server();
            let in_flight = server.in_flight();
            let is_short = |(_, it): &(&Head, &Traveller)| {
                it.walker.steps + it.walker.steps_left <= WALKER_STEPS_MAX
            };
            let left: Vec<_> = server.queued().filter(is_short).collect();
            let is_idle = left.is_empty() && in_flight == 0;
            (!is_idle).then(|| format!("{node}: {in_flight} are under way, {left:?} wait"))
        };
        let left = |sim: &Sim<'_, P>| self.honest.iter().find_map(|&node| left_at(sim, node));
        // All steps that walkers may still take, where the slowest server takes them all.
        for _ in 0..DRAWS {
            sim.run_until(sim.now() + SERVED, &mut walked);
            if left(&sim).is_none() {
                break;
            }
        }
        if let Some(left) = left(&sim) {
            return Err(left);
        }
        walked.events = sim.events_handled();
        Ok(walked)
    }
}

/// The events that the other nodes get, and their state.
#[derive(Default)]
struct Walked {
    honest: Vec<NodeId>,
    paths: BTreeMap<(JobId, u64), Vec<Vertex>>,
    /// Whether the late job of a node ended with all its walks.
    ended: BTreeMap<NodeId, bool>,
    /// Walks of earlier jobs.
    before: u64,
    bytes_max: usize,
    events: u64,
    excess: Option<String>,
}

impl<P: Node> Observer<P> for Walked {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<P>) {
        match event {
            Event::Walks(job, walks) => {
                reply.command(Duration::ZERO, node, Command::Consumed(*job, walks.len()));
                if job.0 < LATE {
                    self.before += walks.len() as u64;
                } else if self.honest.contains(&node) {
                    let paths = walks.iter().map(|walk| ((*job, walk.walk), walk.path.clone()));
                    self.paths.extend(paths);
                }
            }
            Event::Ended(job, report, _) if job.0 >= LATE => {
                let is_whole = report.finished == report.walks && report.failed == 0;
                self.ended.insert(node, is_whole);
            }
            _ => {}
        }
    }

    fn after_call(&mut self, at: Instant, node: NodeId, protocol: &P, _: &mut Reply<P>) {
        if !self.honest.contains(&node) {
            return;
        }
        let server = protocol.server();
        let (waiting, bytes) = (server.queue_len(), server.memory_bytes());
        self.bytes_max = self.bytes_max.max(bytes);
        let bound = (HOMES_MAX + 4 * QUEUE_MAX) * WALKER_BYTES;
        if (waiting > QUEUE_MAX || bytes > bound) && self.excess.is_none() {
            let excess = format!("{at}: {node} holds {waiting} walkers, {bytes} bytes");
            self.excess = Some(excess);
        }
    }
}

fn run(seed: u64, tally: &LieTally) -> Result<[u64; 4], String> {
    let Some(world) = World::draw(seed) else { return Ok([0; 4]) };
    let server = |_: NodeId, config, part| Server::new(config, part).expect("it is possible");
    let World { rogues, scenario, .. } = &world;
    tally.run_rogues((scenario.suite, seed), rogues, scenario, || {
        let alone = world.run(true, server)?;
        let beside =
            world.run(false, |node, config, part| rogues.wrap(node, server(node, config, part)))?;
        if beside.paths != alone.paths {
            return Err("walks went elsewhere".into());
        }
        Ok([beside.paths.len() as u64, beside.before, beside.bytes_max as u64, beside.events])
    })
}

#[test]
fn seeds_walk_on_after_nodes_were_rogue() {
    let tally = LieTally::default();
    let (count, [walks, before, bytes, events]) = seeds::run_all(|seed| run(seed, &tally));
    let (bytes, events) = (bytes / count, events / count);
    println!(
        "{count} seeds: {walks} late walks, {before} before, {bytes} bytes held by one, {events} \
         events a run"
    );
    // Few kinds of messages go to more than one node at once.
    let misdeeds = Misdeed::ALL;
    tally.assert_rogue::<Message>(count, 10, &misdeeds);
    assert!(count < 100 || walks > 50 * count && before > count, "the seeds tested nothing");
}
