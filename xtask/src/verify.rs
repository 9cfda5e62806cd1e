//! `cargo xtask verify`: the checks that take too long, or need too much of the machine, for every
//! change. Each runs the release binary and holds what it prints as JSON against bounds.

use std::time::Instant;

use crate::Ended;
use crate::checks::{Check, Outcome};
use crate::chosen::Choice;
use crate::shell::Build;
use crate::table;

/// Runs the named checks, or all. Where none failed and some were left out, the result is not
/// certain: [`Ended::Uncertain`].
pub fn run(choice: &Choice<Check>) -> Ended {
    let Some(chosen) = choice.parts() else { return Ended::Passed };
    if let Err(error) = Build::Release.build() {
        println!("{error}");
        return Ended::Failed;
    }
    let (mut passed, mut failed, mut left_out) = (0, 0, Vec::new());
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
                println!("left out: {reason}");
                left_out.push(check.name);
                "left out"
            }
        };
        let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
        println!("== {}: {verdict} in {seconds} s", check.name);
        rows.push(vec![check.name.to_string(), seconds, verdict.to_string()]);
    }
    println!();
    table::print(&["check", "seconds", "verdict"], &rows);
    println!("{passed} passed, {failed} failed, {} left out", left_out.len());
    if !left_out.is_empty() {
        println!("left out, so not certain: {}", left_out.join(", "));
    }
    ended(failed, left_out.len())
}

fn ended(failed: usize, left_out: usize) -> Ended {
    match (failed, left_out) {
        (0, 0) => Ended::Passed,
        (0, _) => Ended::Uncertain,
        _ => Ended::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_was_left_out_is_no_success_and_a_failure_outweighs_it() {
        assert_eq!(ended(0, 0).status(), 0);
        assert_eq!(ended(0, 1).status(), 3);
        assert_eq!(ended(1, 0).status(), 1);
        assert_eq!(ended(1, 2).status(), 1);
    }
}
