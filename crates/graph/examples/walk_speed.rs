//! How fast walks are on this machine, beside a plain loop and what its memory can do at all.
//!
//! `cargo run --release -p paceline-graph --example walk_speed -- [SCALE] [REPEATS]`

use std::hint::black_box;
use std::time::Instant;

use paceline_graph::csr::Options;
use paceline_graph::generate::Rmat;
use paceline_graph::memory;
use paceline_graph::walk::{Job, random_reads};
use paceline_proto::walk::{Chance, Graph, Kind, Length, Node2Vec, Step, Walker};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().ok());
    let scale = arguments.next().flatten().unwrap_or(20);
    let repeats = arguments.next().flatten().unwrap_or(5);
    let options = Options { undirected: true, ..Options::default() };
    let rmat = Rmat { edge_factor: 8, options, ..Rmat::new(scale) };
    let begun = Instant::now();
    let graph = rmat.generate(1).expect("the scale is possible");
    println!(
        "RMAT {scale}, edges both ways: {} vertices, {} edges, {:.1} MB, in {:.2} s",
        graph.vertices(),
        graph.edges(),
        graph.memory_bytes() as f64 / 1e6,
        begun.elapsed().as_secs_f64()
    );
    if let Ok(load) = std::fs::read_to_string("/proc/loadavg") {
        println!("load before the runs: {}", load.trim());
    }
    println!("{:<36} {:>10} {:>10} {:>16}", "million a second", "best", "worst", "a core-second");
    let rate = |name: &str, repeats: u32, run: &dyn Fn() -> u64| {
        let (mut rates, mut by_core) = (Vec::new(), 0.0f64);
        for _ in 0..repeats {
            let (begun, spent) = (Instant::now(), processor_seconds());
            let count = run() as f64 / 1e6;
            rates.push(count / begun.elapsed().as_secs_f64());
            by_core = by_core.max(count / (processor_seconds() - spent));
        }
        rates.sort_by(f64::total_cmp);
        let (worst, best) = (rates[0], rates[rates.len() - 1]);
        println!("{name:<36} {best:>10.1} {worst:>10.1} {by_core:>16.1}");
    };
    let uniform = Kind::Uniform;
    let deep = Job::new(&graph, &uniform, Length::Steps(80), 1).expect("a kind that fits");
    // The paths come first, so that the peak is theirs.
    rate("deepwalk 80, kept", repeats, &|| deep.keep().expect("it fits").1.steps);
    if let Some(peak) = memory::peak_bytes() {
        println!("{:<36} {:>10.1} MB", "peak memory up to here", peak as f64 / 1e6);
    }
    let nothing = |_: &_| Ok::<(), std::convert::Infallible>(());
    rate("deepwalk 80, in blocks", repeats, &|| deep.paths(nothing).map_or(0, |s| s.steps));
    let one = deep.with_threads(1);
    rate("deepwalk 80, in blocks, one thread", repeats, &|| {
        one.paths(nothing).map_or(0, |s| s.steps)
    });
    rate("deepwalk 80, visits", repeats, &|| deep.visits().1.steps);
    rate("one walker at a time, one thread", 1, &|| plain(&graph));
    rate("random reads, 64 at once", repeats, &|| reads(graph.targets()));
    let chance = Chance::new(0.2).expect("a probability");
    let kinds = [
        ("node2vec 0.5 2", Kind::Node2Vec(Node2Vec::new(0.5, 2.0).expect("in range"))),
        ("node2vec 0.25 4", Kind::Node2Vec(Node2Vec::new(0.25, 4.0).expect("in range"))),
        ("restart 0.2", Kind::Restart(chance)),
    ];
    for (name, kind) in &kinds {
        let job = Job::new(&graph, kind, Length::Steps(20), 1).expect("a kind that fits");
        rate(name, repeats.min(3), &|| job.paths(nothing).map_or(0, |s| s.steps));
    }
    let length = Length::Geometric { end: chance, steps_max: 1000 };
    let ppr = Job::new(&graph, &uniform, length, 1).expect("fits").with_walks_per_source(10);
    rate("ppr 0.2, ends", repeats.min(3), &|| ppr.ends().1.steps);
    let weights: Vec<f32> = (0..graph.edges()).map(|edge| (edge % 7) as f32 + 0.5).collect();
    let weighted = graph.clone().with_weights(&weights).expect("weights are right");
    let job = Job::new(&weighted, &Kind::Weighted, Length::Steps(80), 1).expect("fits");
    rate("weighted 80", repeats.min(3), &|| job.paths(nothing).map_or(0, |s| s.steps));
}

/// Every 16th walk, one step after the other.
fn plain(graph: &Graph) -> u64 {
    let mut steps = 0;
    for source in (0..graph.vertices()).step_by(16) {
        let mut walker = Walker::new(1, source.into(), source, Length::Steps(80));
        while let Step::To(_) = Kind::Uniform.step(&mut walker, graph) {}
        steps += u64::from(walker.steps);
    }
    black_box(steps)
}

/// Reads at random places, by as many threads as there are processors.
fn reads(array: &[u32]) -> u64 {
    const READS: u64 = 1 << 25;
    memory::consolidate(array);
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || black_box(random_reads(array, READS, thread << 32)));
        }
    });
    threads * READS
}

/// Seconds that processors have spent on this process; 0 where the system does not tell.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    // User and system time, in ticks of 10 ms.
    fields.skip(11).take(2).filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / 100.0
}
