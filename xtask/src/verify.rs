//! `cargo xtask verify`: the checks that take too long, or need too much of the machine, for every
//! change. Each runs the release binary and holds what it prints as JSON against bounds.

use std::time::Instant;

use crate::checks::{CHECKS, Outcome};
use crate::chosen::chosen;
use crate::shell::Build;
use crate::table;

/// Runs the named checks, or all.
pub fn run(names: &[String]) -> Result<bool, String> {
    let Some(chosen) = chosen("check", CHECKS, names)? else { return Ok(true) };
    if let Err(error) = Build::Release.build() {
        println!("{error}");
        return Ok(false);
    }
    let (mut passed, mut failed, mut left_out) = (0, 0, 0);
    let mut rows = Vec::new();
    for check in chosen {
        println!("\n== {}: {}", check.name, check.what);
        let started = Instant::now();
        let outcome = (check.run)().unwrap_or_else(|error| {
            println!("{error}");
            Outcome::Failed
        });
        let verdict = match outcome {
            Outcome::Passed => {
                passed += 1;
                "passed"
            }
            Outcome::Failed => {
                failed += 1;
                "FAILED"
            }
            Outcome::LeftOut(reason) => {
                left_out += 1;
                println!("left out: {reason}");
                "left out"
            }
        };
        let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
        println!("== {}: {verdict} in {seconds} s", check.name);
        rows.push(vec![check.name.to_string(), seconds, verdict.to_string()]);
    }
    println!();
    table::print(&["check", "seconds", "verdict"], &rows);
    println!("{passed} passed, {failed} failed, {left_out} left out");
    Ok(failed == 0)
}
