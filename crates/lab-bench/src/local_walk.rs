//! The speed of walks on this machine, compared with a plain loop and with random memory reads.

use std::convert::Infallible;
use std::hint::black_box;
use std::time::Instant;

use paceline_graph::csr::Options;
use paceline_graph::generate::Rmat;
use paceline_graph::memory;
use paceline_graph::walk::{Job, Paths, random_reads};
use paceline_lab::machine::{available_bytes, forget_peak, process_cpu};
use paceline_lab::{LabError, Progress};
use paceline_proto::walk::{Graph, Kind, Length, Node2Vec, Step, Walker};
use serde::Serialize;

/// Required steps a second with all paths kept, on two cores.
pub const STEPS_FLOOR: f64 = 100e6;
/// The target for the same figure.
pub const STEPS_GOAL: f64 = 150e6;
/// Steps a second of node2vec with p 0.5 and q 2.
pub const NODE2VEC_GOAL: f64 = 4e6;
/// Memory beside the graph and the paths, bytes.
pub const OTHER_BYTES_MAX: u64 = 100 << 20;

/// Steps of a DeepWalk walk. Source: Perozzi, Al-Rfou, Skiena, *DeepWalk*, KDD 2014, t.
const STEPS: u32 = 80;
/// Steps of a node2vec walk.
const NODE2VEC_STEPS: u32 = 20;
/// The plain loop does every 16th walk: it is slow.
const PLAIN_STRIDE: usize = 16;
/// Reads of each thread at random places.
const READS: u64 = 1 << 25;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct LocalPlan {
    /// The graph has 2^scale vertices, and 16 times as many edges.
    pub scale: u32,
    /// Times that each kind is run.
    pub repeats: u32,
    /// The seed of graph and walks.
    pub seed: u64,
}

/// A kind of walk.
#[derive(Clone, Debug, Serialize)]
pub struct LocalRow {
    /// Its name.
    pub name: &'static str,
    /// Threads that it had.
    pub threads: usize,
    /// Steps, or reads, a second, the best time.
    pub best: f64,
    /// The worst.
    pub worst: f64,
    /// Steps, or reads, for each second of processor time, the best.
    pub per_core_second: f64,
}

/// The measurements, and the requirements that they missed.
#[derive(Clone, Debug, Serialize)]
pub struct Local {
    /// Vertices of the graph.
    pub vertices: u32,
    /// Its edges, each way counted.
    pub edges: u64,
    /// Its bytes.
    pub graph_bytes: u64,
    /// Bytes of the paths that were kept; none if they did not fit.
    pub path_bytes: Option<u64>,
    /// Peak memory of the process beside both; `None` where the system does not report it.
    pub other_bytes: Option<u64>,
    /// A row a kind.
    pub rows: Vec<LocalRow>,
    /// Steps with paths kept (or in blocks) over random reads, each a second. A step reads twice.
    pub share_of_reads: f64,
    /// The same over the steps of the plain loop, by core.
    pub times_plain: f64,
    /// What is above the floor and below the goal, a line each.
    pub short: Vec<String>,
    /// The goals that were missed, a line each.
    pub missed: Vec<String>,
}

/// Runs all of it.
pub fn run(plan: &LocalPlan, progress: &dyn Progress) -> Result<Local, LabError> {
    let options = Options { undirected: true, ..Options::default() };
    let rmat = Rmat { edge_factor: 8, options, ..Rmat::new(plan.scale) };
    progress.start(6, "walks on this machine");
    let generated = rmat.generate(plan.seed);
    let graph = generated.map_err(|error| LabError::Run(error.to_string()))?;
    progress.inc(1);
    let kind = Kind::Uniform;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let deep = job(&graph, &kind, STEPS, plan.seed)?.with_threads(threads);
    let graph_bytes = graph.memory_bytes() as u64;
    let wanted = u64::from(graph.vertices()) * u64::from(STEPS + 1) * 4;
    // All paths, as long as something is left for the rest of the machine.
    let fits = available_bytes().is_none_or(|available| wanted < available / 4 * 3);
    let counts_memory = fits && forget_peak();
    let mut measured = Measured { rows: Vec::new(), repeats: plan.repeats.max(1), progress };
    let mut path_bytes = None;
    if fits {
        measured.measure(KEPT, threads, &mut || {
            let (paths, summary) = deep.keep().expect("an array of vertices holds it");
            path_bytes = Some(paths.memory_bytes() as u64);
            summary.steps
        })?;
    }
    let peak = memory::peak_bytes().filter(|_| counts_memory);
    let other_bytes = peak.map(|peak| {
        peak.saturating_sub(graph_bytes).saturating_sub(path_bytes.unwrap_or_default())
    });
    measured.measure(BLOCKS, threads, &mut || in_blocks(&deep))?;
    let bias = Kind::Node2Vec(Node2Vec::new(0.5, 2.0).expect("in range"));
    let biased = job(&graph, &bias, NODE2VEC_STEPS, plan.seed)?.with_threads(threads);
    measured.measure(NODE2VEC, threads, &mut || in_blocks(&biased))?;
    measured.measure(PLAIN, 1, &mut || plain(&graph, plan.seed))?;
    measured.measure(READING, threads, &mut || reads(graph.targets(), threads))?;
    progress.finish();
    let mut local = Local {
        vertices: graph.vertices(),
        edges: graph.edges(),
        graph_bytes,
        path_bytes,
        other_bytes,
        rows: measured.rows,
        share_of_reads: f64::NAN,
        times_plain: f64::NAN,
        short: Vec::new(),
        missed: Vec::new(),
    };
    local.judge();
    Ok(local)
}

const KEPT: &str = "deepwalk 80, paths kept";
const BLOCKS: &str = "deepwalk 80, paths in blocks";
const NODE2VEC: &str = "node2vec 0.5 2, in blocks";
const PLAIN: &str = "one walker at a time";
const READING: &str = "random reads, 64 at once";

impl Local {
    /// Says what is missed, and how steps compare with what bounds them.
    fn judge(&mut self) {
        let of = |name: &str| self.rows.iter().find(|row| row.name == name).cloned();
        let (mut short, mut missed) = (Vec::new(), Vec::new());
        if let Some(deep) = of(KEPT).or_else(|| of(BLOCKS)) {
            let said = format!("{:.1} million steps a second of {}", deep.best / 1e6, deep.name);
            if deep.best.is_nan() || deep.best < STEPS_FLOOR {
                missed.push(format!("{said}, not {:.0}", STEPS_FLOOR / 1e6));
            } else if deep.best < STEPS_GOAL {
                short.push(format!("{said}, below the target of {:.0}", STEPS_GOAL / 1e6));
            }
            self.share_of_reads = of(READING).map_or(f64::NAN, |reads| deep.best / reads.best);
            let plain = of(PLAIN).map_or(f64::NAN, |plain| plain.per_core_second);
            self.times_plain = deep.per_core_second / plain;
        }
        if let Some(biased) = of(NODE2VEC)
            && (biased.best.is_nan() || biased.best < NODE2VEC_GOAL)
        {
            let (rate, goal) = (biased.best / 1e6, NODE2VEC_GOAL / 1e6);
            missed.push(format!("{rate:.1} million steps a second of node2vec, not {goal:.0}"));
        }
        if let Some(other) = self.other_bytes.filter(|&other| other > OTHER_BYTES_MAX) {
            let (other, most) = (other >> 20, OTHER_BYTES_MAX >> 20);
            missed.push(format!("{other} MiB beside graph and paths, more than {most}"));
        }
        (self.short, self.missed) = (short, missed);
    }
}

struct Measured<'a> {
    rows: Vec<LocalRow>,
    repeats: u32,
    progress: &'a dyn Progress,
}

impl Measured<'_> {
    /// Runs something that says how many steps it took.
    fn measure(
        &mut self,
        name: &'static str,
        threads: usize,
        run: &mut dyn FnMut() -> u64,
    ) -> Result<(), LabError> {
        let mut row = LocalRow { name, threads, best: 0.0, worst: f64::MAX, per_core_second: 0.0 };
        for _ in 0..self.repeats {
            if self.progress.stopped() {
                return Err(LabError::StoppedEarly);
            }
            let (begun, spent) = (Instant::now(), process_cpu());
            let count = run() as f64;
            let rate = count / begun.elapsed().as_secs_f64();
            let by_core = count / process_cpu().saturating_sub(spent).as_secs_f64();
            row.best = row.best.max(rate);
            row.worst = row.worst.min(rate);
            row.per_core_second = row.per_core_second.max(by_core);
        }
        self.rows.push(row);
        self.progress.inc(1);
        Ok(())
    }
}

fn job<'a>(graph: &'a Graph, kind: &'a Kind, steps: u32, seed: u64) -> Result<Job<'a>, LabError> {
    let job = Job::new(graph, kind, Length::Steps(steps), seed);
    job.map_err(|error| LabError::Run(error.to_string()))
}

fn in_blocks(job: &Job<'_>) -> u64 {
    let Ok(summary) = job.paths(|paths: &Paths| {
        black_box(paths.len());
        Ok::<(), Infallible>(())
    });
    summary.steps
}

/// Some of the walks, one step after the other.
fn plain(graph: &Graph, seed: u64) -> u64 {
    let mut steps = 0;
    for source in (0..graph.vertices()).step_by(PLAIN_STRIDE) {
        let mut walker = Walker::new(seed, source.into(), source, Length::Steps(STEPS));
        while let Step::To(_) = Kind::Uniform.step(&mut walker, graph) {}
        steps += u64::from(walker.steps);
    }
    black_box(steps)
}

/// Reads at random places, by `threads` threads.
fn reads(array: &[u32], threads: usize) -> u64 {
    memory::consolidate(array);
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            scope.spawn(move || black_box(random_reads(array, READS, thread << 32)));
        }
    });
    threads as u64 * READS
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::Quiet;

    #[test]
    fn a_small_graph_gives_a_row_of_each_kind_and_its_memory() {
        let local = run(&LocalPlan { scale: 8, repeats: 1, seed: 1 }, &Quiet).unwrap();
        let names: Vec<&str> = local.rows.iter().map(|row| row.name).collect();
        assert_eq!(names, [KEPT, BLOCKS, NODE2VEC, PLAIN, READING]);
        assert_eq!(local.vertices, 256);
        // Most sources lead on; the others take an entry and a place.
        assert!((128 * 81 * 4..256 * 81 * 4).contains(&local.path_bytes.unwrap()), "{local:?}");
        assert!(local.rows.iter().all(|row| row.best >= row.worst && row.worst > 0.0));
    }

    #[test]
    fn what_is_slow_or_large_is_told() {
        let row =
            |name, best| LocalRow { name, threads: 2, best, worst: 1.0, per_core_second: best };
        let mut local = Local {
            vertices: 1,
            edges: 1,
            graph_bytes: 1,
            path_bytes: Some(1),
            other_bytes: Some(99 << 20),
            rows: vec![row(KEPT, 160e6), row(NODE2VEC, 5e6), row(PLAIN, 1e6), row(READING, 320e6)],
            share_of_reads: 0.0,
            times_plain: 0.0,
            short: Vec::new(),
            missed: Vec::new(),
        };
        local.judge();
        assert_eq!((local.share_of_reads, local.times_plain), (0.5, 160.0));
        assert!(local.missed.is_empty() && local.short.is_empty(), "{local:?}");
        local.rows[0].best = 149e6;
        local.judge();
        assert!(local.missed.is_empty() && local.short.len() == 1, "{local:?}");
        local.rows[0].best = f64::NAN;
        local.rows[1].best = 3.9e6;
        local.other_bytes = Some(101 << 20);
        local.judge();
        assert!(local.missed.len() == 3 && local.short.is_empty(), "{local:?}");
    }
}
