//! Multicast in time: what real members lose comes back, and how fast sums of packets are made.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::setup;
use crate::shell::{Build, paceline};

use Bound::{AlwaysAtMost, AtLeast, AtMost};

const AT_MOST: Duration = Duration::from_secs(900);
/// Attempts: other work on the machine adds to the times.
const ATTEMPTS: usize = 5;

/// Bounds of a setting: the least recovered, and the times if they count.
struct Floor {
    setting: &'static str,
    recovered: f64,
    has_times: bool,
}

const FLOORS: [Floor; 4] = [
    Floor { setting: "xor,8,3", recovered: 0.93, has_times: true },
    Floor { setting: "xor,8,5", recovered: 0.98, has_times: true },
    Floor { setting: "rlc32,8,3", recovered: 0.99, has_times: false },
    // With questions everything comes back or is reported: see `untold`.
    Floor { setting: "xor,8,3,ask", recovered: 0.0, has_times: false },
];

fn figures(floor: &Floor, row: &Value) -> Vec<Figure> {
    let figure = |key: &str, floor_bound: Bound| Figure {
        name: format!("{}: {key}", floor.setting),
        measured: row[key].as_f64(),
        goal: Bound::None,
        floor: floor_bound,
    };
    let mut figures = vec![
        figure("recovered", AtLeast(floor.recovered)),
        figure("untold", AlwaysAtMost(0.0)),
        figure("corrupt", AlwaysAtMost(0.0)),
        figure("load", Bound::None),
    ];
    if floor.has_times {
        figures.push(figure("p50_ms", AtMost(2.0)));
        figures.push(figure("mean_ms", AtMost(3.0)));
        figures.push(figure("p99_ms", AtMost(15.0)));
    }
    figures
}

fn run(place: &[&str]) -> Result<Outcome, String> {
    let mut passed = true;
    for floor in &FLOORS {
        let bench = ["bench", "multicast", "--seconds", "60s", "--setting", floor.setting];
        let arguments = [&bench[..], place].concat();
        let figures = bounds::best_of(ATTEMPTS, || {
            let ran = paceline(Build::Release, &arguments, &[], AT_MOST)?;
            Ok(figures(floor, &ran.json["results"][0]))
        })?;
        bounds::print(&figures);
        passed &= figures.iter().all(Figure::passes);
    }
    Ok(Outcome::of(passed))
}

/// Sixteen processes on loopback that drop what has reached them.
pub fn loopback() -> Result<Outcome, String> {
    run(&[])
}

/// Sixteen namespaces, IP multicast, packet filters that drop.
pub fn netns() -> Result<Outcome, String> {
    if let Err(reason) = setup::lab_possible() {
        return Ok(Outcome::LeftOut(reason));
    }
    run(&["--lab", "netns"])
}

/// Sums of packets of a kilobyte.
pub fn coding() -> Result<Outcome, String> {
    let figures = bounds::best_of(ATTEMPTS, || {
        let ran = paceline(Build::Release, &["bench", "coding"], &[], AT_MOST)?;
        let rows = ran.json["results"].as_array().ok_or("`results` is not an array")?;
        // The fastest instructions that the machine has.
        let fastest = |what: &str| {
            let rows = rows.iter().filter(|row| row["what"] == what);
            let kilobytes = rows.filter(|row| row["packet_bytes"].as_u64() == Some(1024));
            let rates = kilobytes.filter_map(|row| row["gb_per_s"].as_f64());
            rates.max_by(f64::total_cmp)
        };
        let figure = |name: &str, what, floor| Figure {
            name: name.into(),
            measured: fastest(what),
            goal: Bound::None,
            floor: AtLeast(floor),
        };
        Ok(vec![
            figure("multiply-add over GF(256), GB/s", "multiply-add", 4.0),
            figure("exclusive or, GB/s", "xor", 15.0),
        ])
    })?;
    bounds::print(&figures);
    Ok(Outcome::of(figures.iter().all(Figure::passes)))
}
