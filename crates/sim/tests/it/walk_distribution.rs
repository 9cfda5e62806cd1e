//! W7: the distributions of walks' ends and lengths, compared with the exact ones, for each kind,
//! with and without losses; and the effect of the paper's replacement of lost walks.

use crate::walk_exact;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use paceline_graph::chi_square::p_value;
use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Rng};
use paceline_proto::walk::{
    Chance, Command, Config, Discipline, Event, Generation, Graph, Job, JobId, JobReport, Kind,
    Length, Node2Vec, Owners, PacedConfig, Part, QueueConfig, Server, Sources, Trail,
};
use paceline_sim::{Observer, Reply, Sim, SimConfig};
use walk_exact::{Exact, Rows};

/// The chance that a test fails by chance, over all comparisons together.
const P_MIN: f64 = 1e-3;

/// The reported walks, over all homes.
#[derive(Default)]
struct Seen {
    ends: BTreeMap<u32, u64>,
    steps: BTreeMap<u32, u64>,
    repeated: u64,
    reports: BTreeMap<NodeId, JobReport>,
}

impl Observer<Server> for Seen {
    fn on_event(&mut self, _: Instant, node: NodeId, event: &Event, reply: &mut Reply<Server>) {
        match event {
            Event::Walks(job, walks) => {
                for walk in walks {
                    *self.ends.entry(walk.end).or_default() += 1;
                    *self.steps.entry(walk.steps).or_default() += 1;
                    self.repeated += u64::from(walk.attempts > 1);
                }
                reply.command(Duration::ZERO, node, Command::Consumed(*job, walks.len()));
            }
            Event::Ended(_, report, _) => _ = self.reports.insert(node, **report),
            other => panic!("{other:?}"),
        }
    }
}

/// Walks from all vertices of a graph, whose servers have equal parts of it.
struct Run {
    seed: u64,
    graph: Arc<Graph>,
    servers: u32,
    config: Config,
    link: LinkFaults,
    kind: Kind,
    length: Length,
    walks: u32,
}

impl Run {
    /// Runs until all homes have ended. Returns the reported walks, and the number of walkers that
    /// queues dropped.
    fn run(&self) -> (Seen, u64) {
        let vertices = self.graph.vertices();
        let part = vertices / self.servers;
        let owners = (0..vertices).map(|vertex| (vertex / part) as u16).collect();
        let owners = Owners::new((0..self.servers).map(NodeId::from).collect(), owners);
        let owners = Arc::new(owners.expect("equal parts"));
        let mut config = SimConfig::new(self.servers as usize, self.seed);
        config.network.link = self.link;
        let mut sim = Sim::new(config, Arc::new(()), |node| {
            let mut config = self.config;
            if node == NodeId::from(self.servers - 1) {
                config.service = config.service * 9 / 8;
            }
            Server::new(config, Part::new(node, self.graph.clone(), owners.clone()))
                .expect("within the ranges")
        });
        for node in 0..self.servers {
            let job = Job {
                id: JobId(1),
                seed: self.seed * 100 + u64::from(node),
                kind: self.kind.clone(),
                length: self.length,
                sources: Sources::Range(node * part..(node + 1) * part),
                walks: self.walks,
                trail: Trail::None,
                first: 0,
                in_flight_max: usize::MAX,
            };
            sim.command_at(Instant::ZERO, NodeId::from(node), Command::Run(Box::new(job)));
        }
        let mut seen = Seen::default();
        let until = Instant::ZERO + Duration::from_secs(10_000);
        while seen.reports.len() < self.servers as usize && sim.now() < until {
            assert!(sim.step(&mut seen), "jobs stand still");
        }
        assert_eq!(seen.reports.len(), self.servers as usize, "jobs take too long");
        let counters = sim.counters();
        let dropped =
            counters.count("walker_dropped_early") + counters.count("walker_dropped_full");
        (seen, dropped)
    }
}

/// Twelve vertices with weights and labels: a part in which all know each other, one in which few
/// do, a loop, an edge that counts twice, a dead end and a vertex on its own.
fn small() -> Rows {
    let mut rng = Rng::new(7, 1);
    let mut edges = Vec::new();
    for a in 0..10 {
        for b in a + 1..10 {
            if a < 4 && b < 4 || rng.chance(0.3) {
                edges.extend([(a, b), (b, a)]);
            }
        }
    }
    edges.extend([(2, 2), (0, 1), (5, 10)]);
    edges.sort_unstable();
    let weights = edges.iter().map(|_| 0.25 + rng.below(8) as f32).collect();
    let labels = edges.iter().map(|_| rng.below(2) as u8).collect();
    Rows { vertices: 12, edges, weights, labels }
}

#[derive(Clone, Copy, Debug)]
enum Trouble {
    None,
    /// The network loses a message in fifty.
    Loss,
    /// Queues drop walkers early.
    Drops,
}

fn config(trouble: Trouble) -> Config {
    match trouble {
        // A walk of thirty messages is lost every other time: it is begun often.
        Trouble::None | Trouble::Loss => Config::default(),
        // More than the servers can do, so that queues are long.
        Trouble::Drops => Config {
            queue: QueueConfig { discipline: Discipline::RedDrop, ..QueueConfig::paper() },
            generation: Generation::Paced(PacedConfig::exact()),
            ..Config::exact()
        },
    }
}

/// The chances that ends and lengths would be further from what is exact, if that is what they are.
fn p_values(run: &Run, rows: &Rows, seen: &Seen) -> [f64; 2] {
    p_values_of(&Exact::of(rows, &run.kind, run.length), f64::from(run.walks), seen)
}

fn p_values_of(exact: &Exact, walks: f64, seen: &Seen) -> [f64; 2] {
    let count = |of: &BTreeMap<u32, u64>, key: usize| of.get(&(key as u32)).copied().unwrap_or(0);
    let compare = |of: &BTreeMap<u32, u64>, exact: &[f64]| {
        let bins = exact.iter().enumerate().map(|(key, share)| (count(of, key), share * walks));
        p_value(bins)
    };
    [compare(&seen.ends, &exact.ends), compare(&seen.steps, &exact.steps)]
}

#[test]
fn walks_end_where_and_when_they_should_whatever_is_lost() {
    let rows = small();
    let graph = Arc::new(rows.graph());
    let geometric = Length::Geometric { end: Chance::new(0.2).expect("a chance"), steps_max: 50 };
    let node2vec = |p, q| Kind::Node2Vec(Node2Vec::new(p, q).expect("in range"));
    let walks = [
        (Kind::Uniform, geometric),
        (Kind::Weighted, Length::Steps(7)),
        (node2vec(0.25, 4.0), Length::Steps(6)),
        (node2vec(4.0, 0.5), geometric),
        (Kind::Metapath(Arc::from([0, 1, 1])), Length::Steps(6)),
        (Kind::Restart(Chance::new(0.3).expect("a chance")), geometric),
    ];
    let troubles = [Trouble::None, Trouble::Loss, Trouble::Drops];
    let comparisons = 2 * 2 * walks.len() * troubles.len();
    for seed in 1..=2 {
        for trouble in troubles {
            for (kind, length) in &walks {
                let loss = match trouble {
                    Trouble::Loss => Loss::Independent(0.02),
                    _ => Loss::None,
                };
                let delay = Duration::from_micros(20);
                let run = Run {
                    seed,
                    graph: graph.clone(),
                    servers: 3,
                    config: config(trouble),
                    link: LinkFaults { delay, loss, ..LinkFaults::default() },
                    kind: kind.clone(),
                    length: *length,
                    walks: 1_500,
                };
                let (seen, dropped) = run.run();
                assert_eq!(seen.ends.values().sum::<u64>(), 12 * 1_500, "all are done");
                let is_troubled = match trouble {
                    Trouble::None => seen.repeated == 0 && dropped == 0,
                    Trouble::Loss => seen.repeated > 100,
                    Trouble::Drops => dropped > 100,
                };
                assert!(is_troubled, "{trouble:?}: {} repeated, {dropped} dropped", seen.repeated);
                let [ends, steps] = p_values(&run, &rows, &seen);
                assert!(
                    ends.min(steps) > P_MIN / comparisons as f64,
                    "W7: {kind:?} with {trouble:?}, seed {seed}: the chance of such ends is \
                     {ends:.2e}, of such lengths {steps:.2e}"
                );
            }
        }
    }
}

/// Else the test above could not fail.
#[test]
fn walks_of_one_kind_are_not_taken_for_those_of_another() {
    let rows = small();
    let length = Length::Geometric { end: Chance::new(0.2).expect("a chance"), steps_max: 50 };
    let node2vec = |p, q| Kind::Node2Vec(Node2Vec::new(p, q).expect("in range"));
    let kinds = [
        Kind::Uniform,
        Kind::Weighted,
        node2vec(0.25, 4.0),
        Kind::Metapath(Arc::from([0, 1])),
        Kind::Restart(Chance::new(0.3).expect("a chance")),
    ];
    for (place, kind) in kinds.iter().enumerate() {
        let run = Run {
            seed: 1,
            graph: Arc::new(rows.graph()),
            servers: 3,
            config: Config::default(),
            link: LinkFaults::default(),
            kind: kind.clone(),
            length,
            walks: 1_500,
        };
        let (seen, _) = run.run();
        for (other, of) in kinds.iter().enumerate() {
            let [ends, _] = p_values_of(&Exact::of(&rows, of, length), 1_500.0, &seen);
            assert_eq!(ends > 1e-6, other == place, "{kind:?} beside {of:?}: {ends:.2e}");
        }
    }
}

/// The paper's experiment 1: three servers of 100 vertices, of which the third is visited most.
fn experiment() -> Rows {
    let mut rng = Rng::new(1, 99);
    let mut edges = Vec::new();
    for a in 0..300u32 {
        for b in a + 1..300 {
            let chance = match (a / 100, b / 100) {
                (2, 2) => 0.2,
                (2, _) | (_, 2) => 0.05,
                _ => 0.01,
            };
            if rng.chance(chance) {
                edges.extend([(a, b), (b, a)]);
            }
        }
    }
    edges.sort_unstable();
    let (weights, labels) = (vec![1.0; edges.len()], vec![0; edges.len()]);
    Rows { vertices: 300, edges, weights, labels }
}

/// How many standard errors the mean length is off, the chance of such lengths, and how many
/// walkers were dropped.
fn bias(config: Config) -> (f64, f64, u64) {
    let rows = experiment();
    let length = Length::Geometric { end: Chance::new(0.2).expect("a chance"), steps_max: 1_000 };
    let run = Run {
        seed: 3,
        graph: Arc::new(rows.graph()),
        servers: 3,
        config,
        link: LinkFaults { delay: Duration::from_micros(20), ..LinkFaults::default() },
        kind: Kind::Uniform,
        length,
        walks: 300,
    };
    let (seen, dropped) = run.run();
    let exact = Exact::of(&rows, &run.kind, length);
    let count: u64 = seen.steps.values().sum();
    let sum: u64 = seen.steps.iter().map(|(&steps, &count)| u64::from(steps) * count).sum();
    let (mean, deviation) = exact.steps_mean();
    let seen_mean = sum as f64 / count as f64;
    let off = (seen_mean - mean) / (deviation / (count as f64).sqrt());
    println!("{seen_mean:.4} steps where {mean:.4} are exact: {off:.1} standard errors");
    (off, p_values(&run, &rows, &seen)[1], dropped)
}

#[test]
fn replacing_lost_walks_favours_short_ones_and_doing_them_again_does_not() {
    let (off, _, dropped) = bias(Config::paper());
    assert!(off < -5.0 && dropped > 0, "the survivors are short: {off} standard errors");
    // Marks instead, and as many drops as the paper's, of walks that are done again.
    let drops = Config { queue: QueueConfig::paper(), ..Config::exact() };
    for (config, has_drops) in [(Config::exact(), false), (drops, true)] {
        let (off, chance, dropped) = bias(config);
        assert_eq!(dropped > 0, has_drops);
        let is_exact = off.abs() < 4.0 && chance > P_MIN;
        assert!(is_exact, "W7: {off} standard errors, the chance of such lengths {chance:.2e}");
    }
}
