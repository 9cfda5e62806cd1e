//! Random walkers: between processes, on one machine, and the published experiment on sockets.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::shell::{Build, paceline};

use Bound::AtLeast;

const AT_MOST: Duration = Duration::from_secs(1800);
/// Attempts: others on the machine take caches and cores.
const ATTEMPTS: usize = 3;

/// All of it.
pub fn speed() -> Result<Outcome, String> {
    let figures = bounds::best_of(ATTEMPTS, || {
        let arguments = ["bench", "walk", "--local"];
        let ran = paceline(Build::Release, &arguments, &[], AT_MOST)?;
        Ok(local(&ran.json["results"][0]))
    })?;
    bounds::print(&figures);
    let mut passed = figures.iter().all(Figure::passes);
    // The experiment with hops that take longer than timers need, and at its own times with as many
    // walks as show what direct notification spares.
    let experiment = ["--experiment", "1", "--on", "sockets"];
    let own_times = [&experiment[..], &["--hop", "4us", "--walks", "300"]].concat();
    for mode in [&["--crossings"][..], &experiment, &own_times] {
        let arguments = [&["bench", "walk"], mode].concat();
        let ran = paceline(Build::Release, &arguments, &[], AT_MOST)?;
        let missed = ran.json["results"][0]["missed"].as_array().cloned().unwrap_or_default();
        for line in missed.iter().filter_map(Value::as_str) {
            println!("{}: {line}", arguments.join(" "));
        }
        passed &= ran.succeeded;
    }
    Ok(Outcome::of(passed))
}

fn local(measured: &Value) -> Vec<Figure> {
    let rows = measured["rows"].as_array();
    let of = |name: &str| {
        let row = rows.and_then(|rows| rows.iter().find(|row| row["name"] == name));
        row.and_then(|row| row["best"].as_f64()).map(|best| best / 1e6)
    };
    let figure =
        |name: &str, measured, goal, floor| Figure { name: name.into(), measured, goal, floor };
    vec![
        figure(
            "DeepWalk 80 at scale 20, paths kept, million steps/s",
            of("deepwalk 80, paths kept"),
            AtLeast(150.0),
            AtLeast(100.0),
        ),
        figure(
            "node2vec, million steps/s",
            of("node2vec 0.5 2, in blocks"),
            Bound::None,
            AtLeast(4.0),
        ),
        figure(
            "memory beside graph and paths, MiB",
            measured["other_bytes"].as_f64().map(|bytes| bytes / f64::from(1 << 20)),
            Bound::None,
            Bound::AtMost(100.0),
        ),
        figure("random reads, million/s", of("random reads, 64 at once"), Bound::None, Bound::None),
    ]
}
