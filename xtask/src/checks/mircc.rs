//! Named data: the cost of simulating it, compared with ns-3, and of forwarding it.

use std::time::Duration;

use serde_json::Value;

use super::Outcome;
use super::bounds::{self, Bound, Figure};
use crate::peers::NS3;
use crate::shell::{Build, paceline};

use Bound::AtLeast;

const AT_MOST: Duration = Duration::from_secs(600);
/// Attempts: others on the machine take caches and cores.
const ATTEMPTS: usize = 3;

/// The bench, with ns-3 where it can be installed.
pub fn speed() -> Result<Outcome, String> {
    let ns3 = NS3.installed();
    let environment: Vec<(&str, String)> = match &ns3 {
        Ok(interpreter) => vec![(NS3.variable, interpreter.display().to_string())],
        Err(error) => {
            println!("{error}");
            Vec::new()
        }
    };
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let figures = bounds::best_of(ATTEMPTS, || {
        let ran = paceline(Build::Release, &["bench", "mircc"], &environment, AT_MOST)?;
        let rows = ran.json["results"].as_array().ok_or("`results` is not an array")?;
        Ok(figures(rows, ns3.is_ok()))
    })?;
    bounds::print(&figures);
    Ok(match (figures.iter().all(Figure::passes), ns3) {
        (true, Err(_)) => Outcome::LeftOut("nothing was compared with ns-3".into()),
        (passed, _) => Outcome::of(passed),
    })
}

fn figures(rows: &[Value], has_ns3: bool) -> Vec<Figure> {
    let of = |what: &str, key: &str, value: &str, field: &str| {
        let row = rows.iter().find(|row| row["what"] == what && row[key] == value);
        row.and_then(|row| row[field].as_f64())
    };
    let figure =
        |name: &str, measured, goal, floor| Figure { name: name.into(), measured, goal, floor };
    let exchanges = |faces| of("forwarder", "faces", faces, "exchanges_per_core_second");
    let mut figures = vec![
        figure(
            "eight flows simulated for 20 s, processor seconds",
            of("simulation", "flows", "mircc", "cpu_seconds"),
            Bound::None,
            Bound::None,
        ),
        figure(
            "exchanges a core-second, plain faces",
            exchanges("plain"),
            AtLeast(300_000.0),
            AtLeast(150_000.0),
        ),
        figure(
            "exchanges a core-second, stamped",
            exchanges("stamped"),
            AtLeast(300_000.0),
            AtLeast(150_000.0),
        ),
    ];
    if has_ns3 {
        let times = |flows| of("simulation", "flows", flows, "times");
        figures.extend([
            figure("ns-3 takes as often so long, TCP", times("tcp"), Bound::None, AtLeast(20.0)),
            figure(
                "time of ns-3 over that of Paceline, requests without congestion control",
                times("requests"),
                AtLeast(20.0),
                AtLeast(7.0),
            ),
        ]);
    }
    figures
}
