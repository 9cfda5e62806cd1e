//! The overlay: how long the published experiment takes, a million nodes, the table on sockets, and
//! its files on disks that fail.

use std::time::Duration;

use serde_json::Value;

use super::bounds::{self, Bound, Figure};
use super::{Outcome, release_tests};
use crate::shell::{Build, cargo, paceline};
use crate::tally::run_tests;

use Bound::{AtLeast, AtMost};

const AT_MOST: Duration = Duration::from_secs(600);

fn shown(figures: &[Figure], others: bool) -> Outcome {
    bounds::print(figures);
    Outcome::of(others && figures.iter().all(Figure::passes))
}

fn figure(name: &str, measured: Option<f64>, floor: Bound) -> Figure {
    Figure { name: name.into(), measured, goal: Bound::None, floor }
}

/// The experiment in which messages are counted, and gets among a million nodes.
pub fn speed() -> Result<Outcome, String> {
    let ran = paceline(Build::Release, &["bench", "overlay", "--packets"], &[], AT_MOST)?;
    let rows = ran.json["results"].as_array().ok_or("`results` is not an array")?;
    let all = rows.last().ok_or("no results")?;
    let megabytes = all["resident_bytes_max"].as_f64().map(|bytes| bytes / 1e6);
    let mut figures = vec![
        figure("packets, five algorithms, s", all["seconds"].as_f64(), AtMost(20.0)),
        figure("packets, memory, MB", megabytes, AtMost(200.0)),
    ];
    let is_whole = rows.iter().all(|row| row["asked"] == row["done"]) && ran.succeeded;
    let ran = paceline(Build::Release, &["bench", "overlay"], &[], AT_MOST)?;
    figures.push(figure(
        "1,000 to 1,000,000 nodes, s",
        Some(ran.elapsed.as_secs_f64()),
        AtMost(60.0),
    ));
    Ok(shown(&figures, is_whole && ran.succeeded))
}

/// The table of processes on loopback.
pub fn table() -> Result<Outcome, String> {
    let ran = paceline(Build::Release, &["bench", "dht"], &[], AT_MOST)?;
    let phases = ran.json["phases"].as_array().ok_or("`phases` is not an array")?;
    let count = |phase: &Value, key: &str| phase[key].as_f64();
    let lost = phases.iter().map(|phase| Some(count(phase, "failed")? + count(phase, "wrong")?));
    let figures = [
        figure("bundled over unbundled", ran.json["ratio"].as_f64(), AtLeast(5.0)),
        figure("keys lost or wrong", lost.sum(), AtMost(0.0)),
        figure("copies restored after, s", ran.json["restored_s"].as_f64(), AtMost(60.0)),
    ];
    Ok(shown(&figures, ran.succeeded))
}

/// Durable hosts: seeds on a disk that fails below the database, `PACELINE_TEST_SEEDS` or 20,000;
/// and three processes that are killed together, `PACELINE_TEST_ROUNDS` times or 20.
pub fn disks() -> Result<Outcome, String> {
    let seeds = ["paceline", "--lib", "dht::failing_disks"];
    let seeds = release_tests(&seeds, &[], Some(("PACELINE_TEST_SEEDS", "20000")));
    let kills = ["paceline-cli", "--test=it", "killed_together"];
    let kills = release_tests(&kills, &[], Some(("PACELINE_TEST_ROUNDS", "20")));
    Ok(Outcome::of([seeds, kills].iter().all(|one| matches!(one, Outcome::Passed))))
}

/// The builds that read and write Parquet do: a table is loaded, graphs and walks come back.
pub fn parquet() -> Result<Outcome, String> {
    let mut arguments = vec!["test", "--release", "--package", "paceline-cli"];
    arguments.extend(["--features", "paceline-cli/parquet"]);
    arguments.extend(["--test=it", "parquet"]);
    let tally = run_tests(cargo(&arguments));
    Ok(Outcome::of(tally.passed == 3 && tally.failed == 0))
}
