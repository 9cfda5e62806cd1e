//! Named data between processes: several paths behind one link, shared with a second consumer, and
//! one path of 100 Mbit/s.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::setup;
use crate::shell::{Build, paceline};

use Bound::{AlwaysAtLeast, AtLeast, AtMost};

const AT_MOST: Duration = Duration::from_secs(300);
/// Attempts: processes that wait for others on the machine do not keep a pace.
const ATTEMPTS: usize = 5;

/// A run of the bench, and the phases that it is to have.
struct Run {
    name: &'static str,
    arguments: &'static [&'static str],
    phases: &'static [Phase],
}

/// A phase, and its requirements.
struct Phase {
    name: &'static str,
    /// Ethernet bytes at the shaped port of the consumers, Mbit/s.
    least_mbit: f64,
    is_shared: bool,
}

const SLINGSHOT: [Phase; 3] = [
    Phase { name: "alone", least_mbit: 13.5, is_shared: false },
    Phase { name: "shared", least_mbit: 13.5, is_shared: true },
    Phase { name: "after", least_mbit: 13.5, is_shared: false },
];

const RUNS: [Run; 3] = [
    Run {
        name: "15-12-9, second file left",
        arguments: &["--case", "slingshot", "--second", "left"],
        phases: &SLINGSHOT,
    },
    Run {
        name: "15-12-9, second file right",
        arguments: &["--case", "slingshot", "--second", "right"],
        phases: &SLINGSHOT,
    },
    Run {
        name: "one path of 100 Mbit",
        arguments: &["--case", "single"],
        phases: &[Phase { name: "alone", least_mbit: 90.0, is_shared: false }],
    },
];

fn figures(run: &Run, row: &Value) -> Vec<Figure> {
    let mut figures = Vec::new();
    let none = Vec::new();
    let measured = row["phases"].as_array().unwrap_or(&none);
    for phase in run.phases {
        let found = measured.iter().find(|found| found["phase"] == phase.name);
        let mut add = |what: &str, key: &str, floor| {
            figures.push(Figure {
                name: format!("{}: {}: {what}", run.name, phase.name),
                measured: found.and_then(|found| found[key].as_f64()),
                goal: Bound::None,
                floor,
            });
        };
        add("Mbit/s", "mbit", AtLeast(phase.least_mbit));
        if phase.is_shared {
            add("apart", "apart", AtMost(0.1));
        }
        add("dropped", "dropped", Bound::None);
    }
    let files = row["files"].as_array().unwrap_or(&none);
    for file in files {
        let consumer = file["consumer"].as_str().unwrap_or_default();
        figures.push(Figure {
            name: format!("{}: {consumer}'s file, Mbit/s", run.name),
            measured: file["goodput_mbit"].as_f64(),
            goal: Bound::None,
            floor: Bound::None,
        });
    }
    let whole = files.iter().filter(|file| file["is_verified"] == true).count();
    figures.push(Figure {
        name: format!("{}: files that came whole", run.name),
        measured: Some(whole as f64),
        goal: Bound::None,
        floor: AlwaysAtLeast(if run.phases.iter().any(|phase| phase.is_shared) {
            2.0
        } else {
            1.0
        }),
    });
    figures.push(Figure {
        name: format!("{}: load", run.name),
        measured: row["load"].as_f64(),
        goal: Bound::None,
        floor: Bound::None,
    });
    figures
}

/// Namespaces with shaped ports, each run until one attempt keeps all floors.
pub fn netns() -> Result<Outcome, String> {
    if let Err(reason) = setup::lab_possible() {
        return Ok(Outcome::LeftOut(reason));
    }
    let mut passed = true;
    for run in &RUNS {
        let arguments = [&["bench", "fetch", "--lab", "netns"][..], run.arguments].concat();
        let figures = bounds::best_of(ATTEMPTS, || {
            let ran = paceline(Build::Release, &arguments, &[], AT_MOST)?;
            Ok(figures(run, &ran.json["results"][0]))
        })?;
        bounds::print(&figures);
        passed &= figures.iter().all(Figure::passes);
    }
    Ok(Outcome::of(passed))
}
