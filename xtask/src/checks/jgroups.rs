//! Broadcast of small messages on the network lab, in pairs of runs beside JGroups.

use serde_json::Value;

use super::Outcome;
use super::beside::{self, median};
use super::bounds::{Bound, Figure};
use crate::peers::JGROUPS;

use Bound::{AtLeast, AtMost};

const PAIRS: &str = "3";

/// What messages of one size must reach.
struct Case {
    /// Bytes of a message.
    size: &'static str,
    /// Throughput over that of JGroups.
    goal: f64,
    floor: f64,
    /// Of the limit of the links; the floor is 0.05 less.
    limit_share: Option<f64>,
}

/// Both bundle small messages. At 8 KB, where Paceline has one message in a block, JGroups has
/// shorter heads and is ahead by 2 %.
const CASES: [Case; 3] = [
    Case { size: "200B", goal: 1.2, floor: 1.0, limit_share: Some(0.90) },
    Case { size: "1KB", goal: 1.01, floor: 1.0, limit_share: Some(0.96) },
    Case { size: "8KB", goal: 1.0, floor: 0.95, limit_share: None },
];

/// Four members on links of 100 Mbit, one sender.
pub fn pairs() -> Result<Outcome, String> {
    let arguments = |case: &Case| {
        vec![
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
            case.size,
        ]
    };
    beside::hold(&JGROUPS, &CASES, arguments, of_case)
}

/// Medians of Paceline over JGroups.
fn of_case(case: &Case, comparison: &Value) -> Vec<Figure> {
    let &Case { size, goal, floor, limit_share } = case;
    let figure = |what: &str, key: &str, goal, floor| Figure {
        name: format!("{size}: {what} over that of JGroups"),
        measured: median(comparison, key, "ratio"),
        goal,
        floor,
    };
    let mut figures = vec![
        figure("throughput", "mb_per_node_per_s", AtLeast(goal), AtLeast(floor)),
        figure("median latency", "p50_ms", AtMost(0.5), AtMost(1.0)),
        figure("p99 latency", "p99_ms", AtMost(0.5), AtMost(1.0)),
        figure("processor time", "cpu_s_per_gb", AtMost(0.5), AtMost(1.0)),
    ];
    figures.extend(limit_share.map(|least| Figure {
        name: format!("{size}: share of the limit of the links"),
        measured: median(comparison, "limit_share", "paceline"),
        goal: AtLeast(least),
        floor: AtLeast(least - 0.05),
    }));
    figures
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
        let share = |median: f64| {
            let paceline = serde_json::json!({ "median": median });
            serde_json::json!({ "figure": "limit_share", "paceline": paceline })
        };
        let comparison = |rate: f64, limit_share: f64| {
            let figures = [
                ratio("mb_per_node_per_s", rate),
                ratio("p50_ms", 0.1),
                ratio("p99_ms", 0.1),
                ratio("cpu_s_per_gb", 0.2),
                share(limit_share),
            ];
            serde_json::json!({ "figures": figures })
        };
        let passes = |value: &Value| of_case(&CASES[0], value).iter().all(Figure::passes);
        assert!(passes(&comparison(1.1, 0.9)), "above the floors");
        assert!(!passes(&comparison(0.99, 0.9)) && !passes(&comparison(1.1, 0.8)));
        assert!(!passes(&Value::Null), "a missing figure fails");
    }
}
