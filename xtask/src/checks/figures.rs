//! The papers' figures and the tour.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use crate::shell::{Build, paceline};
use crate::table;

const REPRODUCE_AT_MOST: Duration = Duration::from_secs(3600);
const TOUR_AT_MOST: Duration = Duration::from_secs(60);

/// Every figure, at full size.
pub fn reproduce() -> Result<Outcome, String> {
    let ran = paceline(Build::Release, &["reproduce"], &[], REPRODUCE_AT_MOST)?;
    let results = ran.json["results"].as_array().ok_or("`results` is not an array")?;
    let text = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let row = |result: &Value| {
        let verdict = if result["pass"] == true { "passed" } else { "FAILED" };
        let mut row: Vec<String> = ["id", "paper", "measured", "low", "high", "unit"]
            .iter()
            .map(|key| text(&result[*key]))
            .collect();
        row.push(verdict.into());
        row
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    table::print(&["id", "paper", "measured", "low", "high", "unit", "verdict"], &rows);
    let passed = results.iter().all(|result| result["pass"] == true);
    Ok(Outcome::of(ran.succeeded && passed && !results.is_empty()))
}

/// The tour, on a binary already built.
pub fn tour() -> Result<Outcome, String> {
    // Some grace past the bound, so that a slow tour is reported with its time.
    let ran = paceline(Build::Release, &["tour"], &[], 3 * TOUR_AT_MOST)?;
    println!("the tour took {:.1} s", ran.elapsed.as_secs_f64());
    Ok(Outcome::of(ran.succeeded && ran.elapsed < TOUR_AT_MOST))
}
