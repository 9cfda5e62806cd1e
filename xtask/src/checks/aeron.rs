//! Multicast on the network lab, in pairs of runs beside Aeron.

use serde_json::Value;

use super::Outcome;
use super::beside::{self, median};
use super::bounds::{Bound, Figure};
use crate::peers::AERON;

use Bound::{AtLeast, AtMost};

const PAIRS: &str = "3";

/// Who sends. Measured beside builds (load 7 to 11), medians of three pairs, with four senders and
/// with one: within 10 ms 99.97 and 99.98 %; over Aeron's, the median 0.30 and 0.55, the 99th
/// percentile 0.34 and 0.42, the 99.9th 0.48 and 0.42, processor time 0.50 and 0.49.
struct Case {
    /// How many of the four members send.
    senders: &'static str,
}

const CASES: [Case; 2] = [Case { senders: "4" }, Case { senders: "1" }];

/// Four members, each of which loses 1 % of the datagrams that arrive.
pub fn pairs() -> Result<Outcome, String> {
    let arguments = |case: &Case| {
        vec![
            "bench",
            "multicast",
            "--peer",
            "aeron",
            "--pairs",
            PAIRS,
            "--lab",
            "netns",
            "--members",
            "4",
            "--senders",
            case.senders,
        ]
    };
    beside::hold(&AERON, &CASES, arguments, of_case)
}

/// Medians of both.
fn of_case(case: &Case, comparison: &Value) -> Vec<Figure> {
    let figure = |what: &str, (key, whose): (&str, &str), goal, floor| Figure {
        name: format!("{} senders: {what}", case.senders),
        measured: median(comparison, key, whose),
        goal,
        floor,
    };
    vec![
        figure("missing", ("missing", "paceline"), AtMost(0.0), AtMost(0.0)),
        figure(
            "within 10 ms",
            ("delivered_within_10ms", "paceline"),
            AtLeast(0.999),
            AtLeast(0.98),
        ),
        figure("median over Aeron's", ("all_p50_ms", "ratio"), AtMost(0.6), AtMost(1.0)),
        figure("p99 over Aeron's", ("all_p99_ms", "ratio"), AtMost(0.5), AtMost(1.0)),
        figure("p99.9 over Aeron's", ("all_p999_ms", "ratio"), AtMost(0.5), AtMost(1.0)),
        figure("processor time over Aeron's", ("sending_cores", "ratio"), AtMost(0.6), AtMost(1.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_held_to_the_bounds() {
        let comparison = |ratio: f64, missing: f64, in_time: f64| {
            let ratio = serde_json::json!({ "median": ratio });
            let mut figures: Vec<Value> =
                ["all_p50_ms", "all_p99_ms", "all_p999_ms", "sending_cores"]
                    .iter()
                    .map(|figure| serde_json::json!({ "figure": figure, "ratio": ratio }))
                    .collect();
            for (figure, median) in [("missing", missing), ("delivered_within_10ms", in_time)] {
                let paceline = serde_json::json!({ "median": median });
                figures.push(serde_json::json!({ "figure": figure, "paceline": paceline }));
            }
            serde_json::json!({ "figures": figures })
        };
        let passes = |value: &Value| of_case(&CASES[0], value).iter().all(Figure::passes);
        assert!(passes(&comparison(0.9, 0.0, 0.99)), "above the floors");
        assert!(!passes(&comparison(1.1, 0.0, 0.99)) && !passes(&comparison(0.9, 1.0, 0.99)));
        assert!(!passes(&comparison(0.9, 0.0, 0.9)));
        assert!(!passes(&Value::Null), "a missing figure fails");
    }
}
