//! The paper's experiment 1 on this machine: with hops that take long enough for its timers.

use std::path::Path;
use std::time::Duration;

use paceline_lab::experiment::Experiment;
use paceline_lab::machine::load_average;
use paceline_lab::run::RunResult;
use paceline_lab::world::{Trial, World};
use paceline_lab::{LabError, Progress};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::walk::{Method, Walking};
use serde::Serialize;

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

/// An order of two methods: `less` should have less of something than `more`.
#[derive(Clone, Debug, Serialize)]
pub struct OrderRow {
    /// Of what: `time_s`, `additional`, `queue_mean` or `dropped`.
    pub of: &'static str,
    /// The method that should have less.
    pub less: &'static str,
    /// What it has.
    pub less_value: f64,
    /// The method that should have more.
    pub more: &'static str,
    /// What it has.
    pub more_value: f64,
    /// Whether it does.
    pub holds: bool,
    /// Whether a run fails in which it does not.
    pub is_judged: bool,
    /// Why it is not judged; empty if it is.
    pub why: &'static str,
}

/// What was measured, and which orders hold.
#[derive(Clone, Debug, Serialize)]
pub struct WalkRows {
    /// A row a method.
    pub methods: Vec<MethodRow>,
    /// All published orders that these methods have, judged or not, and the promise of exact walks.
    pub orders: Vec<OrderRow>,
    /// The judged ones that do not hold, a line each.
    pub missed: Vec<String>,
}

/// Runs each method: on sockets, with a process for each server if there is a `program` to start;
/// else in the simulator.
pub fn run(
    plan: &WalkPlan,
    program: Option<&Path>,
    progress: &dyn Progress,
) -> Result<WalkRows, LabError> {
    let methods: Vec<Method> = Method::ALL
        .iter()
        .map(|&(_, method)| method)
        .filter(|method| method.is_of_experiments())
        .collect();
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
    let orders = orders(&rows, plan.walks);
    let missed = missed(&orders);
    Ok(WalkRows { methods: rows, orders, missed })
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
    let scenario = CATALOG.load("walk/e1")?.with_sets(&sets)?.resolve()?;
    let simulated = Trial::simulated(&scenario, plan.seed);
    let run = Walking::run(&match program {
        Some(_) => Trial { world: World::Loopback { program }, ..simulated },
        None => simulated,
    })?;
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

const FEW_WALKS: &str = "below 300 walks a vertex sources without notification have not yet \
    fallen behind their queues";
const LENGTH: &str =
    "as published in most runs of 1,000 walks a vertex, reversed in those of 10,000";
const CLOSE: &str =
    "differences of a few parts in a hundred are within what a loaded machine changes";

type Value = fn(&MethodRow) -> f64;

/// The published orders of methods in which RQ + RG takes part, as rows of this many walks a vertex
/// have them, and what is promised of exact walks.
fn orders(rows: &[MethodRow], walks: u32) -> Vec<OrderRow> {
    use Method::{MarkExact, RqRg, RqRgNoDirect, RqSleep0, RqSleep1, TailRg};
    const TIME: (&str, Value) = ("time_s", |row| row.time_s);
    const ADDITIONAL: (&str, Value) = ("additional", |row| row.additional);
    const QUEUE: (&str, Value) = ("queue_mean", |row| row.queue_mean);
    let direct = if walks >= DIRECT_WALKS_MIN { "" } else { FEW_WALKS };
    let published = [
        (ADDITIONAL, RqRg, RqSleep0, ""),
        (ADDITIONAL, RqRg, TailRg, ""),
        (ADDITIONAL, RqRg, RqRgNoDirect, direct),
        (ADDITIONAL, RqSleep1, RqRg, ""),
        (TIME, RqRg, RqSleep1, ""),
        (TIME, RqSleep0, RqRg, CLOSE),
        (TIME, RqRg, TailRg, CLOSE),
        (TIME, RqRg, RqRgNoDirect, LENGTH),
        (QUEUE, RqRg, TailRg, ""),
    ];
    let row = |method: Method| rows.iter().find(|row| row.method == method.name());
    let order = |((of, value), less, more, why): ((&'static str, Value), _, _, &'static str)| {
        let (less, more) = (row(less)?, row(more)?);
        let (less_value, more_value) = (value(less), value(more));
        Some(OrderRow {
            of,
            less: less.method,
            less_value,
            more: more.method,
            more_value,
            // Not a number is not less.
            holds: less_value < more_value,
            is_judged: why.is_empty(),
            why,
        })
    };
    let mut orders: Vec<OrderRow> = published.into_iter().filter_map(order).collect();
    if let (Some(exact), Some(base)) = (row(MarkExact), row(RqRg)) {
        orders.push(OrderRow {
            of: "dropped",
            less: exact.method,
            less_value: exact.dropped,
            more: base.method,
            more_value: base.dropped,
            holds: exact.dropped == 0.0,
            is_judged: true,
            why: "",
        });
    }
    orders
}

/// The judged orders that do not hold.
fn missed(orders: &[OrderRow]) -> Vec<String> {
    let missed = orders.iter().filter(|order| order.is_judged && !order.holds);
    let line = |order: &OrderRow| {
        let OrderRow { of, less, less_value, more, more_value, .. } = order;
        match *of {
            "dropped" => format!("{less} dropped {less_value} walkers; expected none"),
            _ => format!("{of} of {less} is {less_value}, of {more} {more_value}"),
        }
    };
    missed.map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::Quiet;

    fn plan() -> WalkPlan {
        WalkPlan { walks: 30, hop: Duration::from_micros(400), block: 100, seed: 1 }
    }

    #[test]
    fn the_papers_orders_hold_at_any_speed_of_hops() {
        let slow = run(&plan(), None, &Quiet).unwrap();
        assert_eq!(slow.missed, Vec::<String>::new());
        assert_eq!(slow.methods.len(), 7);
        let times = |rows: &WalkRows| rows.methods.iter().map(|row| row.time_s).sum::<f64>();
        let fast = run(&WalkPlan { hop: Duration::from_micros(40), ..plan() }, None, &Quiet);
        let ratio = times(&slow) / times(&fast.unwrap());
        assert!((8.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn an_order_that_does_not_hold_is_told_and_one_that_is_not_judged_says_why() {
        let mut rows = run(&plan(), None, &Quiet).unwrap().methods;
        rows[0].queue_mean = f64::NAN;
        rows[1].additional = 0.0;
        rows[4].additional = 0.0;
        let few = orders(&rows, 30);
        let told = missed(&few);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].starts_with("additional of rq-rg"), "{told:?}");
        assert_eq!(missed(&orders(&rows, 300)).len(), 3);
        assert!(few.iter().all(|order| order.is_judged == order.why.is_empty()));
        let direct = |of: &str| {
            let is_it = |order: &&OrderRow| order.of == of && order.more == "rq-rg-nodirect";
            few.iter().find(is_it).expect("with and without notification is shown").is_judged
        };
        assert!(!direct("additional") && !direct("time_s"));
        rows[5].dropped = 1.0;
        assert!(missed(&orders(&rows, 30)).iter().any(|line| line.contains("expected none")));
    }
}
