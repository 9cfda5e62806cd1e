//! How many walkers go from process to process, and whether that hangs on delays and losses.

use std::path::Path;
use std::time::Duration;

use paceline_lab::experiment::Experiment;
use paceline_lab::machine::load_average;
use paceline_lab::world::{Launch, Sockets, Trial, World, node_command};
use paceline_lab::{LabError, Progress};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::walk::{Home, Measured, Walking};
use paceline_proto::walk::Waits;
use serde::Serialize;

/// Required crossings a core-second with bundles.
pub const CROSSINGS_PER_CORE_SECOND: f64 = 3e6;
/// Required ratio to one walker a datagram with a system call for each.
pub const RATIO_TO_SINGLE: f64 = 20.0;
/// The share of the throughput without delay and loss that each other run must keep.
pub const THROUGHPUT_KEPT: f64 = 0.8;

/// What to run.
#[derive(Clone, Debug)]
pub struct CrossingsPlan {
    /// Walks from each of the 65,536 vertices of the run with bundles, 80 steps each; one of 16
    /// steps with single walkers.
    pub walks: u32,
    /// Walks from each of the 30,000 vertices of the runs with delays and losses, 4 steps on
    /// average.
    pub short_walks: u32,
    /// Times that each run is done. The best counts; of the shares of throughput that are kept, the
    /// median.
    pub repeats: u32,
    /// The seed of graphs and walks.
    pub seed: u64,
}

/// A run.
#[derive(Clone, Debug, Serialize)]
pub struct CrossingsRow {
    /// What it is a run of.
    pub name: &'static str,
    /// Emulated round trip, milliseconds.
    pub round_trip_ms: f64,
    /// Emulated share of lost datagrams.
    pub loss: f64,
    /// Walkers that went from one process to another: of the long walks those that came home, of
    /// the short ones all.
    pub crossings: u64,
    /// Walks that went home from another process, beside those.
    pub returned: u64,
    /// From its beginning to its end.
    pub time_s: f64,
    /// Processor time of all processes in that time.
    pub cpu_s: f64,
    /// Crossings for each second of processor time.
    pub crossings_per_core_second: f64,
    /// Walks a second while the middle half of all walks were done.
    pub walks_per_second: f64,
    /// The share of the walks a second without delay and loss, which are measured right before and
    /// right after; of runs with either.
    pub kept: Option<f64>,
    /// The 99th percentile of the time that walkers waited to be bundled; `None` if none waited.
    pub wait_p99_us: Option<f64>,
    /// Walkers beyond one for each walk.
    pub additional: u64,
    /// Load average of the last minute when it ended.
    pub load: f64,
}

/// The measurements, and the requirements that they missed.
#[derive(Clone, Debug, Serialize)]
pub struct Crossings {
    /// A row a run.
    pub rows: Vec<CrossingsRow>,
    /// The goals that were missed, a line each.
    pub missed: Vec<String>,
}

/// A kind of run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Variant {
    name: &'static str,
    shape: Shape,
    /// Emulated on the way there and on the way back each.
    delay: Duration,
    loss: f64,
    walkers_max: usize,
    datagrams_together_max: usize,
}

/// What is walked over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Two servers and no edge within one: each step crosses. Walks of a fixed length.
    Long,
    /// Three servers, whose edges lead anywhere. Walks that end with chance 0.2 at each step.
    Short,
}

const BUNDLES: Variant = Variant {
    name: "bundles",
    shape: Shape::Long,
    delay: Duration::ZERO,
    loss: 0.0,
    walkers_max: 1024,
    datagrams_together_max: 64,
};
const SINGLE: &str = "a walker a datagram";
const SINGLE_CALLS: &str = "and a call for each";
const SHORT: &str = "short walks";

const CLEAR: Variant = Variant { name: SHORT, shape: Shape::Short, ..BUNDLES };

impl Variant {
    fn rate(&self, row: &CrossingsRow) -> f64 {
        match self.shape {
            Shape::Long => row.crossings_per_core_second,
            Shape::Short => row.walks_per_second,
        }
    }

    fn is_troubled(&self) -> bool {
        !self.delay.is_zero() || self.loss > 0.0
    }
}

fn variants() -> Vec<Variant> {
    let troubled = |round_trip_ms: u64, loss| Variant {
        delay: Duration::from_millis(round_trip_ms) / 2,
        loss,
        ..CLEAR
    };
    vec![
        BUNDLES,
        Variant { name: SINGLE, walkers_max: 1, ..BUNDLES },
        Variant { name: SINGLE_CALLS, walkers_max: 1, datagrams_together_max: 1, ..BUNDLES },
        CLEAR,
        troubled(10, 0.0),
        troubled(50, 0.0),
        troubled(100, 0.0),
        troubled(0, 0.001),
        troubled(0, 0.01),
        troubled(100, 0.01),
    ]
}

/// What came of the runs of a variant.
#[derive(Clone, Debug, Default)]
struct Runs {
    best: Option<CrossingsRow>,
    kept: Vec<f64>,
}

impl Runs {
    fn add(&mut self, variant: &Variant, row: CrossingsRow) {
        if self.best.as_ref().is_none_or(|best| variant.rate(&row) > variant.rate(best)) {
            self.best = Some(row);
        }
    }

    fn into_row(mut self) -> Option<CrossingsRow> {
        self.kept.sort_by(f64::total_cmp);
        let kept = self.kept.get(self.kept.len() / 2).copied();
        self.best.map(|best| CrossingsRow { kept, ..best })
    }
}

/// Runs all of it, `program` in each process.
pub fn run(
    plan: &CrossingsPlan,
    program: &Path,
    progress: &dyn Progress,
) -> Result<Crossings, LabError> {
    let variants = variants();
    let clear = variants.iter().position(|variant| *variant == CLEAR).expect("it is one of them");
    let troubled = variants.iter().filter(|variant| variant.is_troubled()).count();
    let repeats = plan.repeats.max(1);
    let runs = (variants.len() + troubled) as u64;
    progress.start(runs * u64::from(repeats), "crossings");
    let mut all = vec![Runs::default(); variants.len()];
    let measure = |all: &mut [Runs], place: usize| {
        if progress.stopped() {
            return Err(LabError::StoppedEarly);
        }
        let row = run_variant(plan, &variants[place], program)?;
        let rate = variants[place].rate(&row);
        all[place].add(&variants[place], row);
        progress.inc(1);
        Ok(rate)
    };
    // Each repeat goes through all of them, so that what else the machine does meets them alike.
    for _ in 0..repeats {
        let mut before = f64::NAN;
        for (place, variant) in variants.iter().enumerate() {
            let rate = measure(&mut all, place)?;
            if *variant == CLEAR {
                before = rate;
            } else if variant.is_troubled() {
                let after = measure(&mut all, clear)?;
                all[place].kept.push(rate / (before.midpoint(after)));
                before = after;
            }
        }
    }
    progress.finish();
    let rows: Vec<CrossingsRow> = all.into_iter().filter_map(Runs::into_row).collect();
    let missed = missed(&rows);
    Ok(Crossings { rows, missed })
}

fn run_variant(
    plan: &CrossingsPlan,
    variant: &Variant,
    program: &Path,
) -> Result<CrossingsRow, LabError> {
    let mut sets = vec![
        format!("walkers_max={}", variant.walkers_max),
        format!("topology.delay={}us", variant.delay.as_micros()),
        format!("topology.loss={}", variant.loss),
    ];
    match variant.shape {
        Shape::Long => {
            let mut shape = ["walks=1".to_owned(), "length=16".to_owned(), "most=2048".to_owned()];
            if variant.walkers_max > 1 {
                shape[0] = format!("walks={}", plan.walks);
                shape[1] = "length=80".to_owned();
                shape[2] = "first=256".to_owned();
            }
            // A system call for each walker takes long: fewer and shorter walks say as much, and
            // so few under way that the kernel has room for a datagram of each.
            sets.extend(shape);
            sets.extend(["topology.nodes=2", "block=32768"].map(str::to_owned));
            sets.extend(["A=0", "B=0.0005", "C=0"].map(str::to_owned));
        }
        Shape::Short => sets.push(format!("walks={}", plan.short_walks)),
    }
    let scenario = CATALOG.load("walk/crossings")?.with_sets(&sets)?.resolve()?;
    let command = |_| node_command(program);
    let datagrams_together_max = Some(variant.datagrams_together_max);
    let sockets = |_| Sockets { datagrams_together_max, ..Sockets::default() };
    let launch = Launch { command: &command, sockets: &sockets };
    let simulated = Trial::simulated(&scenario, plan.seed);
    let trial = Trial { world: World::Processes(&launch), ..simulated };
    let Measured { settings, ledger, outcome, .. } = Walking::measure(&trial)?;
    let sum = |of: fn(&Home) -> u64| ledger.homes().iter().map(of).sum::<u64>();
    let mut waits = Waits::default();
    ledger.homes().iter().for_each(|home| waits.add(&home.waits));
    let cpu_s = outcome.cpu.map_or(f64::NAN, |cpu| cpu.as_secs_f64());
    let crossings = match variant.shape {
        // A home counts what has departed until its own walks are done. Here each step crosses.
        Shape::Long => sum(|home| home.hops),
        Shape::Short => sum(|home| home.departed),
    };
    let wait = waits.quantile(0.99, settings.config.bundle.deadline);
    let is_counted = waits.counts().iter().any(|&count| count > 0);
    Ok(CrossingsRow {
        name: variant.name,
        round_trip_ms: variant.delay.as_secs_f64() * 2e3,
        loss: variant.loss,
        crossings,
        returned: sum(|home| home.returned),
        time_s: ledger.homes().iter().filter_map(Home::ended_s).fold(0.0, f64::max),
        cpu_s,
        crossings_per_core_second: crossings as f64 / cpu_s,
        walks_per_second: ledger.walks_per_second(),
        kept: None,
        wait_p99_us: is_counted
            .then(|| wait.map_or(f64::INFINITY, |wait| wait.as_secs_f64() * 1e6)),
        additional: sum(Home::additional),
        load: load_average().map_or(f64::NAN, |load| load[0]),
    })
}

/// The time that walkers may wait for company, microseconds.
fn deadline_us() -> f64 {
    paceline_proto::walk::BundleConfig::default().deadline.as_secs_f64() * 1e6
}

/// What rows do not reach.
fn missed(rows: &[CrossingsRow]) -> Vec<String> {
    let mut missed = Vec::new();
    let of = |name: &str| rows.iter().find(|row| row.name == name);
    let rate = |row: &CrossingsRow| row.crossings_per_core_second;
    // Not a number reaches nothing.
    let reaches = |value: f64, goal: f64| value >= goal;
    if let Some(bundles) = of(BUNDLES.name) {
        if !reaches(rate(bundles), CROSSINGS_PER_CORE_SECOND) {
            missed.push(format!(
                "{:.2} million crossings a core-second with bundles, not {:.0}",
                rate(bundles) / 1e6,
                CROSSINGS_PER_CORE_SECOND / 1e6
            ));
        }
        if let Some(single) = of(SINGLE_CALLS)
            && !reaches(rate(bundles) / rate(single), RATIO_TO_SINGLE)
        {
            missed.push(format!(
                "{:.1} times as many crossings with bundles as with a datagram and a call for \
                 each walker, not {RATIO_TO_SINGLE:.0}",
                rate(bundles) / rate(single)
            ));
        }
    }
    // With more processes than cores it also counts how long one of them waits for its turn.
    if let Some(wait) = of(BUNDLES.name).and_then(|row| row.wait_p99_us)
        && !reaches(deadline_us(), wait)
    {
        missed.push(format!(
            "the 99th percentile of the time that a walker waits for its bundle is {wait:.0} us, \
            more than {:.0}",
            deadline_us()
        ));
    }
    for row in rows {
        let Some(kept) = row.kept else { continue };
        if !reaches(kept, THROUGHPUT_KEPT) {
            missed.push(format!(
                "{:.0} % of the throughput with a round trip of {} ms and loss {}, not {:.0}",
                kept * 100.0,
                row.round_trip_ms,
                row.loss,
                THROUGHPUT_KEPT * 100.0
            ));
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(variant: &Variant) -> CrossingsRow {
        let rate = match (variant.walkers_max, variant.datagrams_together_max) {
            (1, 1) => 0.15e6,
            (1, _) => 1e6,
            _ => 4e6,
        };
        CrossingsRow {
            name: variant.name,
            round_trip_ms: variant.delay.as_secs_f64() * 2e3,
            loss: variant.loss,
            crossings: 1,
            returned: 1,
            time_s: 1.0,
            cpu_s: 1.0,
            crossings_per_core_second: rate,
            walks_per_second: 1e6,
            kept: variant.is_troubled().then_some(0.9),
            wait_p99_us: (variant.walkers_max > 1).then_some(50.0),
            additional: 0,
            load: 0.0,
        }
    }

    #[test]
    fn each_goal_that_is_missed_is_told() {
        let rows: Vec<CrossingsRow> = variants().iter().map(row).collect();
        assert_eq!(missed(&rows), Vec::<String>::new());
        let told = |change: &dyn Fn(&mut [CrossingsRow])| {
            let mut rows = rows.clone();
            change(&mut rows);
            missed(&rows)
        };
        let slow = told(&|rows| rows[0].crossings_per_core_second = 2.5e6);
        assert_eq!(slow.len(), 2, "{slow:?}");
        assert!(slow[0].starts_with("2.50 million crossings"), "{slow:?}");
        assert!(slow[1].starts_with("16.7 times as many"), "{slow:?}");
        let late = told(&|rows| rows[0].wait_p99_us = Some(f64::INFINITY));
        assert!(late.len() == 1 && late[0].ends_with("more than 200"), "{late:?}");
        let steep = told(&|rows| rows[6].kept = Some(0.79));
        assert!(steep.len() == 1 && steep[0].starts_with("79 % of the throughput"), "{steep:?}");
        let unknown = told(&|rows| rows[9].kept = Some(f64::NAN));
        assert_eq!(unknown.len(), 1, "{unknown:?}");
    }

    #[test]
    fn the_best_run_counts_and_of_what_is_kept_the_median() {
        let mut runs = Runs::default();
        for (rate, kept) in [(0.8e6, 0.7), (0.9e6, 0.85), (0.7e6, 1.3)] {
            runs.add(&CLEAR, CrossingsRow { walks_per_second: rate, ..row(&CLEAR) });
            runs.kept.push(kept);
        }
        let row = runs.into_row().unwrap();
        assert_eq!((row.walks_per_second, row.kept), (0.9e6, Some(0.85)));
        assert_eq!(Runs::default().into_row().map(|row| row.kept), None);
    }
}
