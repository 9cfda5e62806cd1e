use std::path::{Path, PathBuf};

use paceline_lab::LabError;
use paceline_lab::figure::{Figure, number};
use paceline_lab::report::Report;
use paceline_lab::sweep::{self, FinishedCell, Options, Plan, Shard};
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::simulate;
use serde::Serialize;

use super::{Outcome, runs};
use crate::error::CliError;
use crate::ui::Ui;

/// Run a scenario over the grid of its [sweep] table, in the simulator
///
/// Finished cells are written at once: the same command continues a stopped sweep.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// A built-in scenario (see `paceline list`) or a file that ends in .toml
    scenario: String,

    /// Change a setting of the scenario, or of the grid: sweep.seeds=10
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// Threads, 1 to 1024 [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Run the I-th of N parts of the grid only; parts merge
    #[arg(long, value_name = "I/N", conflicts_with = "merge")]
    shard: Option<Shard>,

    /// The sweep's folder, new or of the same sweep [default: runs/SCENARIO-sweep]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Run nothing: collect the finished cells of these folders
    #[arg(long, value_name = "DIR", num_args = 1..)]
    merge: Vec<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  paceline sweep chain/throughput --set duration=500ms
  paceline sweep mine.toml --set 'sweep.topology.nodes=[2, 4, 8]' --set sweep.seeds=5
  paceline sweep mine.toml --shard 2/8 --out part-2
  paceline sweep mine.toml --merge part-1 part-2 --out all";

/// Figures out of band that are named one by one.
const NAMED_MAX: usize = 10;

#[derive(Serialize)]
struct Failed {
    cell: String,
    error: String,
}

/// What `sweep --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    scenario: &'a str,
    axes: Vec<&'a str>,
    cells: usize,
    resumed: usize,
    failed: Vec<Failed>,
    results: &'a [FinishedCell],
    folder: String,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let file = CATALOG.load(&args.scenario)?.with_sets(&args.sets)?;
    let plan = Plan::new(&file)?;
    let folder = args.out.unwrap_or_else(|| {
        let name = plan.name().replace(['/', '\\'], "-");
        runs().join(format!("{name}-sweep"))
    });
    ui.say_when_stopped("finishing the running cells; Ctrl-C again drops them");
    let outcome = if args.merge.is_empty() {
        let options = Options { threads: args.threads.map(usize::from), shard: args.shard };
        sweep::run(&plan, &folder, options, &ui.progress(), simulate)
    } else {
        sweep::merge_into(&plan, &args.merge, &folder)
    };
    let outcome = match outcome {
        Err(stopped @ LabError::Stopped { .. }) => {
            let kept = sweep::merge(&plan, std::slice::from_ref(&folder))?;
            write_report(&plan, &kept, &folder)?;
            ui.note(&format!("kept in {}; the same command resumes", folder.display()));
            return Err(stopped.into());
        }
        other => other?,
    };
    let report = write_report(&plan, &outcome.finished, &folder)?;
    let failed = outcome.failed.iter();
    ui.document(&Document {
        scenario: plan.name(),
        axes: plan.axes().iter().map(|axis| axis.key.as_str()).collect(),
        cells: plan.cells().len(),
        resumed: outcome.resumed,
        failed: failed
            .map(|(cell, error)| Failed { cell: cell.clone(), error: error.clone() })
            .collect(),
        results: &outcome.finished,
        folder: folder.display().to_string(),
    })?;
    let figures = || outcome.finished.iter().flat_map(|cell| &cell.figures);
    let out_of_band: Vec<&Figure> = figures().filter(|figure| !figure.pass).collect();
    ui.print(&format!(
        "{}: {} of {} cells finished, {} of them before; {} of {} figures out of band\n",
        plan.name(),
        outcome.finished.len(),
        plan.cells().len(),
        outcome.resumed,
        out_of_band.len(),
        figures().count(),
    ))?;
    for figure in out_of_band.iter().take(NAMED_MAX) {
        let measured = format!("{} {}", number(figure.measured), figure.unit);
        ui.print(&format!(
            "  {}, seed {}: {measured}, band {}\n",
            figure.id,
            figure.seed,
            figure.band()
        ))?;
    }
    if out_of_band.len() > NAMED_MAX {
        ui.print(&format!("  and {} more\n", out_of_band.len() - NAMED_MAX))?;
    }
    for (cell, error) in &outcome.failed {
        ui.warn(&format!("{cell} failed: {error}"));
    }
    ui.print(&format!("table: {}\nreport: {}\n", outcome.csv.display(), report.display()))?;
    Ok(Outcome::of(outcome.failed.is_empty() && out_of_band.is_empty()))
}

fn write_report(plan: &Plan, cells: &[FinishedCell], folder: &Path) -> Result<PathBuf, LabError> {
    let path = folder.join("report.html");
    let html = Report::of_sweep(plan, cells).to_html();
    std::fs::write(&path, html).map_err(|source| LabError::Write { path: path.clone(), source })?;
    Ok(path)
}
