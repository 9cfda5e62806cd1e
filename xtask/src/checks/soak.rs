//! Long runs: sockets too small for comfort, and a node with nothing to do.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::setup;
use crate::shell::{Build, free_ports, paceline};

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

/// Members of a group at rest.
const AT_REST: usize = 5;
/// What UDP and IP put around a datagram, bytes.
const AROUND_BYTES: f64 = 28.0;

/// An idle group: without messages, only its failure detector runs.
pub fn idle() -> Result<Outcome, String> {
    if !cfg!(target_os = "linux") {
        return Ok(Outcome::LeftOut("CPU time is read from /proc".into()));
    }
    let run = |rest: Duration| {
        let mut nodes = Vec::new();
        let measured = at_rest(&mut nodes, rest);
        for node in &mut nodes {
            // It may have ended by itself, which `at_rest` reports.
            let _ = node.kill();
            let _ = node.wait();
        }
        measured
    };
    // What forming the group takes is not rest.
    let (_, forming) = run(Duration::ZERO)?;
    let (share, bytes) = run(REST)?;
    let rate = (bytes - forming) / REST.as_secs_f64();
    let figure = |name: &str, measured: f64, most: f64| Figure {
        name: name.into(),
        measured: Some(measured),
        goal: Bound::AtMost(most),
        floor: Bound::AtMost(most),
    };
    let figures = [
        figure("group of 5 at rest: % of a core a member, the most", 100.0 * share, 1.0),
        figure("group of 5 at rest: B/s a member, both ways, headers included", rate, 2000.0),
    ];
    bounds::print(&figures);
    Ok(Outcome::of(figures.iter().all(Figure::passes)))
}

/// Forms a group, lets it rest and ends it. The most processor time of a member while it rested,
/// as a share of a core, and the bytes of it all, a member.
fn at_rest(nodes: &mut Vec<Child>, rest: Duration) -> Result<(f64, f64), String> {
    let port = free_ports(1)?;
    let first = format!("127.0.0.1:{port}");
    for node in 0..AT_REST {
        let how: &[&str] = if node == 0 { &["--bootstrap", "--bind"] } else { &["--peer"] };
        let spawned = Command::new(Build::Release.binary()?)
            .args(["node", "--json"])
            .args(how)
            .arg(&first)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        nodes.push(spawned.map_err(|error| format!("cannot run `paceline node`: {error}"))?);
        if node == 0 {
            sleep(Duration::from_millis(200));
        }
    }
    sleep(SETTLE);
    let seconds = |nodes: &[Child]| -> Result<Vec<f64>, String> {
        nodes.iter().map(|node| cpu_seconds(node.id())).collect()
    };
    let before = seconds(nodes)?;
    sleep(rest);
    let after = seconds(nodes)?;
    let share = before.iter().zip(after).map(|(before, after)| after - before);
    let share = share.fold(0.0, f64::max) / rest.as_secs_f64();
    let mut bytes = 0.0;
    for node in nodes.drain(..) {
        // It may have ended by itself, which shows in its status.
        let _ = kill_process(Pid::from_child(&node), Signal::TERM);
        let ended = node.wait_with_output().map_err(|error| error.to_string())?;
        if !ended.status.success() {
            return Err(format!("`paceline node` ended with {}", ended.status));
        }
        let counts: serde_json::Value =
            serde_json::from_slice(&ended.stdout).map_err(|error| error.to_string())?;
        let count = |name: &str| counts[name].as_f64().unwrap_or(f64::INFINITY);
        bytes += count("datagram_bytes_in") + count("datagram_bytes_out");
        bytes += AROUND_BYTES * (count("datagrams_in") + count("datagrams_out"));
        bytes += count("stream_bytes_in") + count("stream_bytes_out");
    }
    Ok((share, bytes / AT_REST as f64))
}

/// User and system time of a process, from fields 14 and 15 of its `stat`.
fn cpu_seconds(pid: u32) -> Result<f64, String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .map_err(|error| format!("cannot read the CPU time of `paceline node`: {error}"))?;
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: f64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|t| t.parse::<f64>().ok()).sum();
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
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
