//! Long runs: sockets too small for comfort, and a node with nothing to do.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::setup;
use crate::shell::{Build, paceline};

const SOAK_AT_MOST: Duration = Duration::from_secs(180);
const SETTLE: Duration = Duration::from_secs(2);
const REST: Duration = Duration::from_secs(30);

/// Every member sends for 60 s over sockets of 32 KiB, in the simulator and on the lab. A cyclic
/// wait of full buffers shows as a second without a delivery.
pub fn small_sockets() -> Result<Outcome, String> {
    let simulated =
        paceline(Build::Release, &["run", "chain/soak-32k", "--on", "sim"], &[], SOAK_AT_MOST)?;
    println!("simulator: {}", if simulated.succeeded { "passed" } else { "FAILED" });
    if let Err(reason) = setup::lab_possible() {
        println!("on the lab, left out: {reason}");
        return Ok(match simulated.succeeded {
            true => Outcome::LeftOut(reason),
            false => Outcome::Failed,
        });
    }
    #[rustfmt::skip]
    let arguments = [
        "bench", "broadcast", "--lab", "netns", "--nodes", "4", "--rate", "100Mbit",
        "--senders", "all", "--topology", "chain", "--seconds", "60",
        "--socket-buffer", "32KiB",
    ];
    let ran = paceline(Build::Release, &arguments, &[], SOAK_AT_MOST)?;
    let row = &ran.json["results"][0];
    let figures = [
        Figure {
            name: "seconds in which some member delivered nothing".into(),
            measured: row["seconds_without_progress"].as_f64(),
            goal: Bound::AtMost(0.0),
            floor: Bound::AtMost(0.0),
        },
        Figure {
            name: "MB/node/s".into(),
            measured: row["mb_per_node_per_s"].as_f64(),
            goal: Bound::None,
            floor: Bound::None,
        },
    ];
    bounds::print(&figures);
    let passed = ran.succeeded && figures.iter().all(Figure::passes);
    Ok(Outcome::of(passed && simulated.succeeded))
}

/// A node that nobody talks to.
pub fn idle() -> Result<Outcome, String> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::LeftOut("CPU time is read from /proc".into()));
    }
    let mut node = Command::new(Build::Release.binary()?)
        .args(["node", "--bind", "127.0.0.1:0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot run `paceline node`: {error}"))?;
    let share = share_at_rest(&mut node);
    // It may have ended by itself, which `share_at_rest` reports.
    let _ = node.kill();
    let _ = node.wait();
    let figure = Figure {
        name: "% of a core at rest".into(),
        measured: Some(100.0 * share?),
        goal: Bound::AtMost(1.0),
        floor: Bound::AtMost(1.0),
    };
    let passed = figure.passes();
    bounds::print(&[figure]);
    Ok(Outcome::of(passed))
}

fn share_at_rest(node: &mut Child) -> Result<f64, String> {
    sleep(SETTLE);
    let before = cpu_seconds(node.id())?;
    sleep(REST);
    let after = cpu_seconds(node.id())?;
    match node.try_wait() {
        Ok(None) => Ok((after - before) / REST.as_secs_f64()),
        Ok(Some(status)) => Err(format!("`paceline node` ended by itself: {status}")),
        Err(error) => Err(format!("cannot ask for `paceline node`: {error}")),
    }
}

/// User and system time of a process, from fields 14 and 15 of its `stat`.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(|error| format!("cannot read the CPU time of `paceline node`: {error}"))?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    // SAFETY: sysconf has no precondition.
    Ok(ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_used_some_cpu_time_and_no_process_is_an_error() {
        if cfg!(target_os = "linux") {
            assert!(cpu_seconds(std::process::id()).unwrap() >= 0.0);
            assert!(cpu_seconds(4_999_999).is_err());
        }
    }
}
