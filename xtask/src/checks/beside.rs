//! Benches in pairs of runs beside another implementation.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Figure};
use crate::peers::Peer;
use crate::setup;
use crate::shell::{Build, paceline};

/// A comparison may take this long.
const AT_MOST: Duration = Duration::from_secs(300);

/// Runs a bench on the network lab with each of these arguments beside the peer, and holds the
/// figures that `read` takes from each comparison.
pub fn hold<Case>(
    peer: &Peer,
    cases: &[Case],
    arguments: impl Fn(&Case) -> Vec<&'static str>,
    read: impl Fn(&Case, &Value) -> Vec<Figure>,
) -> Result<Outcome, String> {
    if let Err(reason) = setup::lab_possible() {
        return Ok(Outcome::LeftOut(reason));
    }
    let driver = match peer.installed() {
        Ok(driver) => driver.display().to_string(),
        Err(error) => return Ok(Outcome::LeftOut(error)),
    };
    let mut figures = Vec::new();
    for case in cases {
        let arguments = arguments(case);
        let ran = paceline(Build::Release, &arguments, &[(peer.variable, &driver)], AT_MOST)?;
        if !ran.succeeded {
            return Err(format!("the run failed: {}", ran.json));
        }
        figures.extend(read(case, &ran.json["results"][0]));
    }
    bounds::print(&figures);
    Ok(Outcome::of(figures.iter().all(Figure::passes)))
}

/// The median of a figure, of `paceline`, of the `peer` or of their `ratio`.
pub fn median(comparison: &Value, key: &str, whose: &str) -> Option<f64> {
    let compared = comparison["figures"].as_array()?.iter().find(|row| row["figure"] == key)?;
    compared[whose]["median"].as_f64()
}
