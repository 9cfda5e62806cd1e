//! Broadcast of small messages on the network lab, in pairs of runs beside JGroups.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::peers::JGROUPS;
use crate::setup;
use crate::shell::{Build, paceline};

use Bound::{AtLeast, AtMost};

const AT_MOST: Duration = Duration::from_secs(300);
const PAIRS: &str = "3";

/// Bytes of a message. JGroups bundles small ones.
const SIZES: [&str; 3] = ["200B", "1KB", "8KB"];

/// Four members on links of 100 Mbit, one sender.
pub fn pairs() -> Result<Outcome, String> {
    if let Err(reason) = setup::lab_possible() {
        return Ok(Outcome::LeftOut(reason));
    }
    let driver = match JGROUPS.installed() {
        Ok(driver) => driver.display().to_string(),
        Err(error) => return Ok(Outcome::LeftOut(error)),
    };
    let mut figures = Vec::new();
    for size in SIZES {
        let arguments = [
            "bench",
            "broadcast",
            "--peer",
            "jgroups",
            "--pairs",
            PAIRS,
            "--lab",
            "netns",
            "--nodes",
            "4",
            "--rate",
            "100Mbit",
            "--senders",
            "one",
            "--size",
            size,
        ];
        let ran = paceline(Build::Release, &arguments, &[(JGROUPS.variable, &driver)], AT_MOST)?;
        if !ran.succeeded {
            return Err(format!("the run failed: {}", ran.json));
        }
        figures.extend(of_size(size, &ran.json["results"][0]));
    }
    bounds::print(&figures);
    Ok(Outcome::of(figures.iter().all(Figure::passes)))
}

/// Medians of Paceline over JGroups.
fn of_size(size: &str, comparison: &Value) -> Vec<Figure> {
    let median = |key: &str| {
        let compared = comparison["figures"].as_array()?.iter().find(|row| row["figure"] == key)?;
        compared["ratio"]["median"].as_f64()
    };
    let figure = |what: &str, key: &str, goal, floor| Figure {
        name: format!("{size}: {what} over that of JGroups"),
        measured: median(key),
        goal,
        floor,
    };
    vec![
        figure("throughput", "mb_per_node_per_s", AtLeast(1.0), AtLeast(0.5)),
        figure("median latency", "p50_ms", AtMost(0.5), AtMost(1.0)),
        figure("p99 latency", "p99_ms", AtMost(0.5), AtMost(1.0)),
        figure("processor time", "cpu_s_per_gb", AtMost(0.5), AtMost(1.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_the_ratios_are_held_to_the_bounds() {
        let ratio = |figure: &str, median: f64| {
            let ratio = serde_json::json!({ "median": median });
            serde_json::json!({ "figure": figure, "ratio": ratio })
        };
        let comparison = |rate: f64| {
            let figures = [
                ratio("mb_per_node_per_s", rate),
                ratio("p50_ms", 0.1),
                ratio("p99_ms", 0.1),
                ratio("cpu_s_per_gb", 0.2),
            ];
            serde_json::json!({ "figures": figures })
        };
        let passes = |value: &Value| of_size("200B", value).iter().all(Figure::passes);
        assert!(passes(&comparison(0.9)) && !passes(&comparison(0.4)));
        assert!(!passes(&Value::Null), "a missing figure fails");
    }
}
