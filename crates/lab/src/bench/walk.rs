//! The paper's experiment 1 on this machine: with hops that take long enough for its timers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::LabError;
use crate::machine::load_average;
use crate::progress::{Progress, Quiet};
use crate::run::RunResult;
use crate::scenario::ScenarioFile;
use crate::walk::Method;

/// What to run.
#[derive(Clone, Debug)]
pub struct WalkPlan {
    /// Walks from each vertex.
    pub walks: u32,
    /// What a hop takes at the first two servers; all other times are as in the paper's experiment,
    /// times this over 4 us.
    pub hop: Duration,
    /// Vertices of each of the three servers.
    pub block: u32,
    /// The seed of graph and walks.
    pub seed: u64,
}

/// What a method gave.
#[derive(Clone, Debug, Serialize)]
pub struct MethodRow {
    /// `rq-rg`, `rq-sleep0` and so on.
    pub method: &'static str,
    /// Until the last server's walks were done.
    pub time_s: f64,
    /// Walkers beyond one for each walk.
    pub additional: f64,
    /// Mean length of the last server's queue, walkers.
    pub queue_mean: f64,
    /// Walkers that queues dropped.
    pub dropped: f64,
    /// Mean hops of the walks that finished.
    pub mean_hops: f64,
    /// Processor time of all processes; none in the simulator.
    pub cpu_s: Option<f64>,
    /// Load average of the last minute when it ended.
    pub load: f64,
}

/// What was measured, and what was not as it is to be.
#[derive(Clone, Debug, Serialize)]
pub struct WalkRows {
    /// A row a method.
    pub methods: Vec<MethodRow>,
    /// The orders that do not hold, a line each.
    pub missed: Vec<String>,
}

/// Runs each method: on sockets, with a process for each server if there is a `program` to start;
/// else in the simulator.
pub fn run(
    plan: &WalkPlan,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<WalkRows, LabError> {
    let methods: Vec<Method> =
        Method::ALL.iter().map(|&(_, method)| method).filter(|m| m.is_of_paper()).collect();
    progress.start(methods.len() as u64, "experiment 1");
    let mut rows = Vec::new();
    for method in methods {
        if progress.stopped() {
            return Err(LabError::StoppedEarly);
        }
        rows.push(run_method(plan, method, program)?);
        progress.inc(1);
    }
    progress.finish();
    let missed = missed(&rows, plan.walks);
    Ok(WalkRows { methods: rows, missed })
}

fn run_method(
    plan: &WalkPlan,
    method: Method,
    program: Option<&Path>,
) -> Result<MethodRow, LabError> {
    let time = |key: &str, of_paper_micros: u32| {
        format!("{key}={}ns", (plan.hop * of_paper_micros / 4).as_nanos())
    };
    let sets = [
        format!("method={}", method.name()),
        format!("walks={}", plan.walks),
        format!("block={}", plan.block),
        time("service", 4),
        time("interval", 20),
        time("gap", 49),
        time("start_gap", 10),
    ];
    let scenario = Arc::new(ScenarioFile::load("walk/e1")?.with_sets(&sets)?.resolve()?);
    let run = match program {
        Some(_) => crate::run_on_sockets(scenario, plan.seed, program, &Quiet)?,
        None => crate::simulate(&scenario, plan.seed)?,
    };
    let value = |name: &str| value(&run, name);
    Ok(MethodRow {
        method: method.name(),
        time_s: value("time").unwrap_or(f64::NAN),
        additional: value("additional").unwrap_or(f64::NAN),
        queue_mean: value("queue_mean_2").unwrap_or(f64::NAN),
        dropped: (0..3).filter_map(|node| value(&format!("dropped_{node}"))).sum(),
        mean_hops: value("mean_hops").unwrap_or(f64::NAN),
        cpu_s: value("processor_time"),
        load: load_average().map_or(f64::NAN, |load| load[0]),
    })
}

fn value(run: &RunResult, name: &str) -> Option<f64> {
    run.summary.iter().find(|metric| metric.metric == name).map(|metric| metric.value)
}

/// Walks a vertex from which on it shows in the simulator that direct notification spares walks: in
/// shorter runs sources without it have not yet fallen behind their queues.
const DIRECT_WALKS_MIN: u32 = 300;

/// The paper's orders that rows of so many walks a vertex do not keep, and what is promised of
/// exact walks.
fn missed(rows: &[MethodRow], walks: u32) -> Vec<String> {
    let of = |method: Method| rows.iter().find(|row| row.method == method.name());
    let Some(base) = of(Method::RqRg) else { return Vec::new() };
    let mut missed = Vec::new();
    let mut less = |what: &str, other: Method, of_row: fn(&MethodRow) -> f64| {
        let Some(other) = of(other) else { return };
        let (one, more) = (of_row(base), of_row(other));
        // Not a number is not less.
        if one.partial_cmp(&more) != Some(std::cmp::Ordering::Less) {
            missed.push(format!("{what} of rq-rg is {one}, of {} {more}", other.method));
        }
    };
    less("additional", Method::RqSleep0, |row| row.additional);
    less("additional", Method::TailRg, |row| row.additional);
    if walks >= DIRECT_WALKS_MIN {
        less("additional", Method::RqRgNoDirect, |row| row.additional);
    }
    less("time_s", Method::RqSleep1, |row| row.time_s);
    less("queue_mean", Method::TailRg, |row| row.queue_mean);
    if let Some(exact) = of(Method::MarkExact)
        && exact.dropped != 0.0
    {
        missed.push(format!("mark-exact dropped {} walkers", exact.dropped));
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> WalkPlan {
        WalkPlan { walks: 30, hop: Duration::from_micros(400), block: 100, seed: 1 }
    }

    #[test]
    fn the_papers_orders_hold_at_any_speed_of_hops() {
        let slow = run(&plan(), None, &Quiet).unwrap();
        assert_eq!(slow.missed, Vec::<String>::new());
        assert_eq!(slow.methods.len(), 6);
        let times = |rows: &WalkRows| rows.methods.iter().map(|row| row.time_s).sum::<f64>();
        let fast = run(&WalkPlan { hop: Duration::from_micros(40), ..plan() }, None, &Quiet);
        let ratio = times(&slow) / times(&fast.unwrap());
        assert!((8.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn an_order_that_does_not_hold_is_told() {
        let mut rows = run(&plan(), None, &Quiet).unwrap().methods;
        rows[0].queue_mean = f64::NAN;
        rows[1].additional = 0.0;
        rows[4].additional = 0.0;
        let told = missed(&rows, 30);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("additional of rq-rg"), "{told:?}");
        assert_eq!(missed(&rows, 300).len(), 3);
    }
}
