use std::path::PathBuf;
use std::sync::Arc;

use clap::ValueEnum;
use paceline_lab::figure::{Figure, number};
use paceline_lab::folder::Place;
use paceline_lab::run::{Metric, Run, RunResult, WorldKind};
use paceline_lab::scenario::Scenario;
use paceline_lab::table::table;
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::simulate_watched;
use serde::Serialize;

use super::{Outcome, runs, seed, this_program};
use crate::error::CliError;
use crate::ui::Ui;

/// Run a scenario, in the simulator or on real sockets
///
/// Writes a folder with the resolved scenario, the numbers, the series and a report.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A built-in scenario, such as chain/ten (see `paceline list`), or a file that ends in .toml
    scenario: String,

    /// Where it runs
    #[arg(long, value_name = "WORLD", default_value = "sim")]
    on: World,

    /// On sockets: a process of its own for each node, instead of one for all
    #[arg(long)]
    processes: bool,

    /// Change a setting of the scenario; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// The root of all randomness, 0 to 2^63 - 1 [default: the scenario's]
    #[arg(long, value_name = "N", value_parser = seed())]
    seed: Option<u64>,

    /// The folder to write, which must not exist or be empty
    /// [default: runs/SCENARIO-SEED-N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Pass every message through its encoding; the digest must not change
    #[arg(long)]
    check_wire: bool,

    /// In the simulator: write every call and message, as CSV, to this file
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  paceline run chain/ten
  paceline run chain/throughput --set nodes=16 --set topology=pipeline --seed 7
  paceline run mine.toml --set rate=100Mbit --set loss=1% --json

A key needs its table (protocol.window_bytes=2MiB) only where several tables have it. Values have
units: 10Mbit, 5ms, 8KiB, 1%, 200/s.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum World {
    /// The simulator: exact, repeatable
    Sim,
    /// Real UDP and TCP sockets on loopback
    Sockets,
}

/// What `run --json` prints, whatever the world.
#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    seed: u64,
    world: WorldKind,
    digest: Option<&'a str>,
    deliveries: Option<&'a str>,
    events: u64,
    wall_s: f64,
    metrics: &'a [Metric],
    figures: &'a [Figure],
    #[serde(skip_serializing_if = "<[u64]>::is_empty")]
    starved: &'a [u64],
    folder: String,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let mut file = CATALOG.load(&args.scenario)?.with_sets(&args.sets)?;
    if args.check_wire {
        file.set("protocol.check_wire=true")?;
    }
    let scenario = Arc::new(file.resolve()?);
    let seed = args.seed.unwrap_or(scenario.seed);
    if args.processes && args.on == World::Sim {
        return Err(CliError::Input("--processes needs --on sockets".into()));
    }
    if args.trace.is_some() && args.on == World::Sockets {
        return Err(CliError::Input("--trace needs --on sim".into()));
    }
    let (world, result) = match args.on {
        World::Sim => (
            WorldKind::Sim,
            simulate_watched(&scenario, seed, args.trace.as_deref(), &ui.progress())?,
        ),
        World::Sockets => {
            (WorldKind::Sockets, run_on_sockets(scenario.clone(), seed, args.processes, ui)?)
        }
    };
    let run = Run::new(&scenario, seed, world, result);
    let folder = run.write(&args.out.map_or(Place::Under(runs()), Place::At), &CATALOG)?;
    let (manifest, result) = (&run.manifest, &run.result);
    ui.document(&Document {
        scenario: &manifest.scenario,
        seed,
        world,
        digest: manifest.digest.as_deref(),
        deliveries: manifest.deliveries.as_deref(),
        events: manifest.events,
        wall_s: manifest.wall_s,
        metrics: &result.summary,
        figures: &result.figures,
        starved: &result.starved,
        folder: folder.display().to_string(),
    })?;
    ui.print(&describe(&run))?;
    if !result.figures.is_empty() {
        ui.print("\n")?;
        ui.figures(&result.figures)?;
    }
    ui.print(&format!("\nreport: {}\n", folder.join("report.html").display()))?;
    ui.warn_if_stopped();
    Ok(Outcome::of(!ui.is_stopped() && is_good(result)))
}

/// The sockets' half: one call into the lab, with the same result as the simulator gives.
fn run_on_sockets(
    scenario: Arc<Scenario>,
    seed: u64,
    processes: bool,
    ui: &Ui,
) -> Result<RunResult, CliError> {
    let program = if processes { Some(this_program()?) } else { None };
    Ok(paceline_lab_services::run_on_sockets(scenario, seed, program.as_deref(), &ui.progress())?)
}

/// True if every figure is within its band, and every message was delivered intact.
fn is_good(result: &RunResult) -> bool {
    let is_fault = |metric: &Metric| {
        matches!(&*metric.metric, "messages_missing" | "messages_damaged") && metric.value > 0.0
    };
    result.figures.iter().all(|figure| figure.pass) && !result.summary.iter().any(is_fault)
}

fn describe(run: &Run) -> String {
    let (manifest, result) = (&run.manifest, &run.result);
    let world = match manifest.world {
        WorldKind::Sim => format!(
            "in the simulator, {} events, {} a second,",
            manifest.events,
            number((manifest.events as f64 / manifest.wall_s.max(1e-9)).round())
        ),
        WorldKind::Sockets => "on sockets".to_owned(),
    };
    let mut text = format!(
        "{}, seed {}: {world} in {} s",
        manifest.scenario,
        manifest.seed,
        number(manifest.wall_s)
    );
    if let Some(digest) = &manifest.digest {
        text.push_str(&format!(", digest {digest}"));
    }
    text.push_str("\n\n");
    let rows: Vec<[String; 3]> = result
        .summary
        .iter()
        .map(|metric| match metric.value.is_finite() {
            true => [metric.metric.to_string(), number(metric.value), metric.unit.to_string()],
            false => [metric.metric.to_string(), "not measured".to_owned(), String::new()],
        })
        .collect();
    text.push_str(&table(["metric", "value", "unit"], &rows));
    if !result.starved.is_empty() {
        let starved: Vec<String> = result.starved.iter().map(|node| format!("n{node}")).collect();
        text.push_str(&format!("\nstarved senders: {}\n", starved.join(", ")));
    }
    text
}
