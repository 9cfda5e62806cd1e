//! The time to count the messages of collective forwarding, by all five algorithms.
//!
//! The published experiment as the protocol runs it, in the simulator: `overlay/packets` with
//! filled tables. 50,000 keys are put and got, one by one and in bundles, in both styles.

use std::time::Instant as WallClock;

use paceline_lab::experiment::Experiment;
use paceline_lab::machine::{process_cpu, resident_bytes_max};
use paceline_lab::parallel::costliest_first;
use paceline_lab::run::RunResult;
use paceline_lab::world::Trial;
use paceline_lab::{LabError, Progress};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::overlay::Requests;
use paceline_proto::overlay::Algorithm;
use serde::Serialize;

/// One row: an algorithm, or all of them.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The algorithm, or `all`.
    pub algorithm: &'static str,
    /// Keys that were asked for: put and got, in each way.
    pub asked: u64,
    /// Keys that were put, or found as they were put.
    pub done: u64,
    /// Events handled.
    pub events: u64,
    /// Seconds from the beginning of the run to its end; of all, which run at a time.
    pub seconds: f64,
    /// Messages in random bundles over those one by one, recursive. Null for all.
    pub random: Option<f64>,
    /// Messages in clustered bundles over those one by one, recursive. Null for all.
    pub clustered: Option<f64>,
    /// The run's digest. Null for all.
    pub digest: Option<String>,
    /// Processor time of the process so far, seconds, for all. Null for one.
    pub cpu_seconds: Option<f64>,
    /// The most memory that the process ever held, bytes, for all. Null for one, and where the
    /// system does not say.
    pub resident_bytes_max: Option<u64>,
}

/// Runs the experiment with `keys` keys.
pub fn run(keys: usize, progress: &dyn Progress) -> Result<Vec<Row>, LabError> {
    let started = WallClock::now();
    let total = Algorithm::ALL.len();
    progress.start(total as u64, "overlay");
    let measured = costliest_first(&Algorithm::ALL, hops, |&algorithm| {
        if progress.stopped() {
            return Ok(None);
        }
        let row = measure(algorithm, keys)?;
        progress.inc(1);
        Ok(Some(row))
    });
    let measured = measured.into_iter().collect::<Result<Vec<_>, LabError>>()?;
    let mut rows: Vec<Row> = measured.into_iter().flatten().collect();
    if rows.len() < total {
        return Err(LabError::Stopped { finished: rows.len(), total });
    }
    progress.finish();
    rows.push(Row {
        algorithm: "all",
        asked: rows.iter().map(|row| row.asked).sum(),
        done: rows.iter().map(|row| row.done).sum(),
        events: rows.iter().map(|row| row.events).sum(),
        seconds: started.elapsed().as_secs_f64(),
        random: None,
        clustered: None,
        digest: None,
        cpu_seconds: Some(process_cpu().as_secs_f64()),
        resident_bytes_max: resident_bytes_max(),
    });
    Ok(rows)
}

// About how many hops a key makes, to which the run's length is in proportion.
fn hops(algorithm: &Algorithm) -> u64 {
    match algorithm {
        Algorithm::Koorde => 13,
        Algorithm::Chord => 5,
        Algorithm::Pastry | Algorithm::Tapestry => 3,
        Algorithm::Kademlia => 2,
    }
}

fn measure(algorithm: Algorithm, keys: usize) -> Result<Row, LabError> {
    let sets = [format!("algorithm={algorithm}"), format!("keys={keys}"), "tables=ideal".into()];
    let scenario = CATALOG.load("overlay/packets")?.with_sets(sets)?.resolve()?;
    let result = Requests::run(&Trial::simulated(&scenario, scenario.seed))?;
    let ratio = |grouping: &str| {
        let id = format!("overlay/packets/{algorithm}/recursive/{grouping}");
        result.figures.iter().find(|figure| figure.id == id).map(|figure| figure.measured)
    };
    Ok(Row {
        algorithm: algorithm.name(),
        asked: metric(&result, "keys_asked"),
        done: metric(&result, "keys_done"),
        events: result.events,
        seconds: result.wall_s,
        random: ratio("random"),
        clustered: ratio("clustered"),
        digest: result.digest.clone(),
        cpu_seconds: None,
        resident_bytes_max: None,
    })
}

fn metric(result: &RunResult, name: &str) -> u64 {
    result
        .summary
        .iter()
        .find(|metric| metric.metric == name)
        .map_or(0, |metric| metric.value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_lab::Quiet;

    #[test]
    fn every_algorithm_puts_and_gets_all_keys_in_each_way() {
        let rows = run(500, &Quiet).expect("no one stops it");
        let names: Vec<&str> = rows.iter().map(|row| row.algorithm).collect();
        assert_eq!(names, ["chord", "koorde", "pastry", "tapestry", "kademlia", "all"]);
        for row in &rows[..5] {
            // Put and got, three groupings, both styles.
            assert_eq!((row.asked, row.done), (6_000, 6_000), "{}", row.algorithm);
            assert!(row.clustered < row.random, "{}", row.algorithm);
        }
        assert_eq!((rows[5].asked, rows[5].done), (30_000, 30_000));
    }
}
