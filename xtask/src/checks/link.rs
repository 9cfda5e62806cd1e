//! The link of a host, shared by its services.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::shell::{Build, paceline};

use Bound::{AtLeast, AtMost};

const AT_MOST: Duration = Duration::from_secs(120);
/// Attempts: other work on the machine delays what a service has to send.
const ATTEMPTS: usize = 3;
const WEIGHTS: [&str; 5] = ["1,1,1,1", "1,2,3,4", "4,3,2,1", "1,1,1,3", "10,1,1,1"];

/// Four services that have more to send than the link takes, and a group beside a table that
/// floods.
pub fn run() -> Result<Outcome, String> {
    let mut passed = true;
    for weights in WEIGHTS {
        let figures = bounds::best_of(ATTEMPTS, || {
            let arguments = ["bench", "link", "--rate", "100Mbit", "--weights", weights];
            let ran = paceline(Build::Release, &arguments, &[], AT_MOST)?;
            Ok(figures(weights, &ran.json))
        })?;
        bounds::print(&figures);
        passed &= figures.iter().all(Figure::passes);
    }
    Ok(Outcome::of(passed))
}

fn figures(weights: &str, document: &Value) -> Vec<Figure> {
    let figure = |what: &str, measured: &Value, floor| Figure {
        name: format!("{weights}: {what}"),
        measured: measured.as_f64(),
        goal: Bound::None,
        floor,
    };
    let mut figures = Vec::new();
    for (at, service) in ["group", "multicast", "table", "walks"].into_iter().enumerate() {
        let measured = &document["shares"][at]["of_weight"];
        figures.push(figure(
            &format!("{service}, of its weight, at least"),
            measured,
            AtLeast(0.9),
        ));
        figures.push(figure(&format!("{service}, of its weight, at most"), measured, AtMost(1.1)));
    }
    figures.push(figure("all four, of the link", &document["of_link"], AtLeast(0.95)));
    figures.push(figure(
        "p99 of the group beside a flooding table, of that beside a modest one",
        &document["p99_ratio"],
        AtMost(2.0),
    ));
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_with_too_much_or_too_little_fails() {
        let document = |of_weight: [f64; 4], p99_ratio: f64| {
            let shares = of_weight.map(|of_weight| json!({ "of_weight": of_weight }));
            json!({ "shares": shares, "of_link": 0.99, "p99_ratio": p99_ratio })
        };
        let passes = |value: &Value| figures("1,1,1,1", value).iter().all(Figure::passes);
        assert!(passes(&document([1.0, 0.95, 1.05, 1.0], 1.9)));
        assert!(!passes(&document([1.0, 0.8, 1.0, 1.0], 1.0)));
        assert!(!passes(&document([1.0, 1.0, 1.0, 1.2], 1.0)));
        assert!(!passes(&document([1.0; 4], 2.1)));
        assert!(!passes(&Value::Null), "a missing figure fails");
    }
}
