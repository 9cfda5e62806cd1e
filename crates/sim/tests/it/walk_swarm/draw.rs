//! Draws scenarios from seeds.

use std::sync::Arc;
use std::time::Duration;

use paceline_check::Gate;
use paceline_check::clock::Clocks;
use paceline_proto::core::{Instant, LinkFaults, Loss, NodeId, Rng};
use paceline_proto::walk::{
    BundleConfig, Chance, Config, Control, Discipline, Generation, Job, JobId, Kind, Length,
    Node2Vec, PacedConfig, QueueConfig, Recovery, Sources, Trail, WindowConfig,
};
use paceline_sim::{Codec, Fault};

use super::{FAULTS_MS, Scenario, at, millis};

/// Walkers in a queue at most where sources are paced.
const PACED_QUEUE_MAX: usize = 1_000;
/// Labels of edges are these.
const LABELS: u32 = 3;

impl Scenario {
    /// Draws a run. Every option is off in some seeds.
    pub fn draw(seed: u64) -> Scenario {
        let mut rng = Rng::new(seed, 0x3a1c);
        let vertices = 3 + rng.below(38);
        let edges = draw_edges(&mut rng, vertices);
        let weights = rng.chance(0.5).then(|| draw_weights(&mut rng, edges.len()));
        let labels = rng.chance(0.5);
        let labels = labels.then(|| edges.iter().map(|_| rng.below(LABELS) as u8).collect());
        let (servers, clients) = (1 + rng.below(8), rng.below(3));
        let owners = (0..vertices).map(|_| rng.below(servers) as u16).collect();
        let config = draw_config(&mut rng);
        let link = draw_link(&mut rng);
        let configs = (0..servers + clients).map(|_| {
            let is_slow = !config.service.is_zero() && rng.chance(0.2);
            let service = if is_slow { config.service * 2 } else { config.service };
            Config { service, ..config }
        });
        let configs = configs.collect();
        let doubles = link.duplicate > 0.0;
        let asked = (vertices, servers + clients, labels.is_some(), doubles);
        let jobs = draw_jobs(&mut rng, &config, asked);
        let mut cancels = Vec::new();
        for (began, node, job) in &jobs {
            if rng.chance(0.1) {
                let after = Duration::from_micros(rng.below(100_000).into());
                cancels.push((*began + after, *node, job.id));
            }
        }
        Scenario {
            seed,
            vertices,
            edges,
            weights,
            labels,
            servers,
            clients,
            owners,
            configs,
            datagram_bytes_max: [150, 400, 1_200][rng.below(3) as usize],
            link,
            codec: if rng.chance(0.2) { Codec::CheckWire } else { Codec::Typed },
            faults: draw_faults(&mut rng, servers + clients, &jobs),
            jobs,
            cancels,
            consumes_within_micros: [0, 200, 20_000][rng.below(3) as usize],
            strangers: 0,
            gate: Gate::default(),
            clocks: Clocks::default(),
            suite: "walk_seeds",
        }
    }
}

/// In the order of the rows, with loops, duplicates, dead ends and vertices on their own.
fn draw_edges(rng: &mut Rng, vertices: u32) -> Vec<(u32, u32)> {
    let count = vertices * (1 + rng.below(5));
    let both_ways = rng.chance(0.6);
    let mut edges = Vec::new();
    for _ in 0..count {
        let (from, to) = (rng.below(vertices), rng.below(vertices));
        edges.push((from, to));
        if both_ways {
            edges.push((to, from));
        }
        if rng.chance(0.05) {
            edges.push((from, to));
        }
    }
    edges.sort_unstable();
    edges
}

fn draw_weights(rng: &mut Rng, count: usize) -> Vec<f32> {
    let weight = |rng: &mut Rng| if rng.chance(0.1) { 0.0 } else { 0.1 + 5.0 * rng.unit() as f32 };
    (0..count).map(|_| weight(rng)).collect()
}

fn draw_config(rng: &mut Rng) -> Config {
    let mut config = match rng.below(3) {
        0 => Config::paper(),
        1 => Config::exact(),
        _ => Config::default(),
    };
    if rng.chance(0.2) {
        return config;
    }
    config.queue = draw_queue(rng, config.queue);
    config.bundle = BundleConfig {
        walkers_max: if rng.chance(0.2) { 1 } else { 1 + rng.below(64) as usize },
        deadline: Duration::from_micros([0, 50, 200, 3_000][rng.below(4) as usize]),
    };
    config.service = Duration::from_micros([0, 4, 40, 200][rng.below(4) as usize]);
    config.turn_hops = [1, 10, 256][rng.below(3) as usize];
    if rng.chance(0.4) {
        config.generation = draw_generation(rng);
    }
    if let Generation::Paced(_) = config.generation {
        // Sources that slow down for lost walkers only, or never, fill the queues, and a hop takes
        // as long as a queue is.
        config.queue.limit = config.queue.limit.min(PACED_QUEUE_MAX);
    }
    config.attempts_max = [1, 3, 16, 255][rng.below(4) as usize];
    config.timeout_min = millis([0, 1, 20][rng.below(3) as usize]);
    config.walk_time_max = millis(200 + rng.below(5_000));
    if rng.chance(0.3) {
        config.results_max = 1 + rng.below(50) as usize;
    }
    if rng.chance(0.3) {
        config.jobs_max = 1 + rng.below(3) as usize;
    }
    config
}

fn draw_queue(rng: &mut Rng, queue: QueueConfig) -> QueueConfig {
    let discipline = match rng.below(3) {
        0 => Discipline::TailDrop,
        1 => Discipline::RedDrop,
        _ => Discipline::RedMark,
    };
    if rng.chance(0.3) {
        return QueueConfig { discipline, ..queue };
    }
    let min_th = rng.below(10) as usize;
    QueueConfig {
        discipline,
        min_th,
        max_th: min_th + 1 + rng.below(30) as usize,
        max_p: rng.unit(),
        weight: if rng.chance(0.5) { 1.0 } else { 0.01 + 0.9 * rng.unit() },
        is_gentle: rng.chance(0.3),
        limit: 2 + rng.below(100) as usize,
    }
}

fn draw_generation(rng: &mut Rng) -> Generation {
    if rng.chance(0.4) {
        let first = 1 + rng.below(100) as usize;
        return Generation::Window(WindowConfig {
            first,
            most: first + rng.below(200) as usize,
            batch: 1 + rng.below(40) as usize,
            growth_per_ms: rng.below(64) as usize,
        });
    }
    Generation::Paced(PacedConfig {
        control: [Control::Loss, Control::Never, Control::Always][rng.below(3) as usize],
        recovery: if rng.chance(0.4) { Recovery::Regenerate } else { Recovery::Reexecute },
        interval: Duration::from_micros(20 + u64::from(rng.below(300))),
        gap: Duration::from_micros(rng.below(500).into()),
        clean: rng.below(8),
        window: 1 + rng.below(60) as usize,
        is_direct: rng.chance(0.7),
        ..PacedConfig::default()
    })
}

/// Whether lost walks are replaced by others.
pub fn regenerates(config: &Config) -> bool {
    let Generation::Paced(paced) = config.generation else { return false };
    paced.recovery == Recovery::Regenerate
}

fn draw_jobs(
    rng: &mut Rng,
    config: &Config,
    (vertices, nodes, is_labelled, doubles): (u32, u32, bool, bool),
) -> Vec<(Instant, NodeId, Job)> {
    let mut draw = |number| {
        let when = Instant::ZERO + Duration::from_micros(rng.below(FAULTS_MS * 900).into());
        let node = NodeId::from(rng.below(nodes));
        let job = Job {
            // Names are taken twice now and then.
            id: JobId(if rng.chance(0.1) { 0 } else { number }),
            seed: rng.next_u64(),
            kind: draw_kind(rng, is_labelled, doubles),
            length: draw_length(rng, regenerates(config)),
            sources: draw_sources(rng, vertices),
            walks: if rng.chance(0.03) { 0 } else { 1 + rng.below(15) },
            trail: if rng.chance(0.7) { Trail::Vertices } else { Trail::None },
            first: 0,
            in_flight_max: match rng.below(3) {
                0 => 1 + rng.below(40) as usize,
                _ => usize::MAX,
            },
        };
        (when, node, job)
    };
    let count = 1 + draw(0).2.seed % 5;
    (0..count).map(draw).collect()
}

fn draw_kind(rng: &mut Rng, is_labelled: bool, doubles: bool) -> Kind {
    match rng.below(6) {
        0 => Kind::Weighted,
        1 => {
            // Where most candidates are rejected, walkers go to and fro a hundred times a step, and
            // a network that doubles one in ten would make thousands of each.
            let values: &[f64] =
                if doubles { &[0.5, 1.0, 2.0] } else { &[0.05, 0.25, 1.0, 4.0, 20.0] };
            let parameter = |rng: &mut Rng| values[rng.below(values.len() as u32) as usize];
            let (p, q) = (parameter(rng), parameter(rng));
            Kind::Node2Vec(Node2Vec::new(p, q).expect("both are in range"))
        }
        2 if is_labelled || rng.chance(0.1) => {
            let labels: Vec<u8> = (0..1 + rng.below(3)).map(|_| rng.below(LABELS) as u8).collect();
            Kind::Metapath(Arc::from(labels))
        }
        3 => Kind::Restart(Chance::new(rng.unit()).expect("it is a probability")),
        _ => Kind::Uniform,
    }
}

fn draw_length(rng: &mut Rng, regenerates: bool) -> Length {
    // Where what is lost is replaced by others, walks that are all long may never end.
    if rng.chance(0.5) && !regenerates {
        return Length::Steps(rng.below(30));
    }
    let end = Chance::new(0.2 + 0.3 * rng.unit()).expect("it is a probability");
    Length::Geometric { end, steps_max: [5, 1_000][rng.below(2) as usize] }
}

fn draw_sources(rng: &mut Rng, vertices: u32) -> Sources {
    if rng.chance(0.5) {
        let first = rng.below(vertices);
        let count = rng.below((vertices - first).min(12) + 1);
        // One that is not a vertex, now and then.
        let over = if rng.chance(0.03) { vertices } else { 0 };
        return Sources::Range(first..first + count + over);
    }
    let list: Vec<u32> = (0..1 + rng.below(10)).map(|_| rng.below(vertices)).collect();
    Sources::List(Arc::from(list))
}

fn draw_link(rng: &mut Rng) -> LinkFaults {
    let on = |rng: &mut Rng| rng.chance(0.5);
    let micros = |rng: &mut Rng, most| Duration::from_micros(u64::from(rng.below(most)));
    LinkFaults {
        delay: match rng.below(3) {
            0 => Duration::ZERO,
            1 => micros(rng, 500),
            _ => micros(rng, 100_000),
        },
        jitter: if on(rng) { micros(rng, 5_000) } else { Duration::ZERO },
        loss: match rng.below(3) {
            0 => Loss::Independent(0.3 * rng.unit()),
            1 => Loss::GilbertElliott { good_to_bad: 0.01, bad_to_good: 0.2, bad_loss: 1.0 },
            _ => Loss::None,
        },
        duplicate: if rng.chance(0.3) { 0.05 * rng.unit() } else { 0.0 },
        reorder: if on(rng) { 0.2 * rng.unit() } else { 0.0 },
        reorder_delay: micros(rng, 30_000),
        ..LinkFaults::default()
    }
}

/// Most of them while a job runs.
fn draw_faults(
    rng: &mut Rng,
    nodes: u32,
    jobs: &[(Instant, NodeId, Job)],
) -> Vec<(Instant, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..rng.below(5) {
        let node = NodeId::from(rng.below(nodes));
        let job = rng.below(jobs.len() as u32) as usize;
        let when = match rng.chance(0.7) {
            true => jobs[job].0 + Duration::from_micros(rng.below(20_000).into()),
            false => at(rng.below(FAULTS_MS)),
        };
        let until = when + (at(FAULTS_MS).since(when)).mul_f64(rng.unit());
        match rng.below(5) {
            0 | 1 => {
                faults.push((when, Fault::Crash(node)));
                faults.push((until, Fault::Restart(node)));
            }
            2 => faults.push((when, Fault::Pause(node, millis(1 + rng.below(100))))),
            3 => faults.push((when, Fault::Block(node, NodeId::from(rng.below(nodes))))),
            _ => {
                let side = (0..nodes).map(NodeId::from).filter(|_| rng.chance(0.5)).collect();
                faults.push((when, Fault::Partition(vec![side])));
                faults.push((until, Fault::Heal));
            }
        }
    }
    faults
}
