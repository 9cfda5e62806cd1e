use std::path::{Path, PathBuf};
use std::time::SystemTime;

use paceline_lab::LabError;
use paceline_lab::report::Report;
use paceline_lab::run::Run;
use paceline_lab::sweep::{self, Plan};
use paceline_lab_services::catalog::CATALOG;
use serde::Serialize;

use super::{Outcome, runs};
use crate::error::CliError;
use crate::ui::Ui;

/// Write the report of a run or sweep again, and print its path
///
/// The report of a folder that `reproduce` or `tour` made is not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The folder of a run, sweep, reproduction or tour [default: the newest run or sweep in runs/]
    folder: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  paceline report
  paceline report runs/chain-ten-1-1";

/// What `report --json` prints.
#[derive(Serialize)]
struct Document {
    folder: String,
    report: String,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let folder = match args.folder {
        Some(folder) => folder,
        None => newest(&runs())?,
    };
    let report = if folder.join("sweep.toml").is_file() {
        let plan = Plan::of_folder(&folder, &CATALOG)?;
        let cells = sweep::merge(&plan, std::slice::from_ref(&folder))?;
        let path = folder.join("report.html");
        std::fs::write(&path, Report::of_sweep(&plan, &cells).to_html())
            .map_err(|source| LabError::Write { path: path.clone(), source })?;
        path
    } else if folder.join("results.json").is_file() && folder.join("report.html").is_file() {
        // Its curves are of runs that are not kept: the report is as `reproduce` or `tour` left it.
        folder.join("report.html")
    } else {
        Run::read(&folder)?.write_report(&folder, &CATALOG)?
    };
    ui.document(&Document {
        folder: folder.display().to_string(),
        report: report.display().to_string(),
    })?;
    ui.print(&format!("report: {}\n", report.display()))?;
    Ok(Outcome::Done)
}

/// The folder of the run or sweep that was written last.
fn newest(runs: &Path) -> Result<PathBuf, CliError> {
    let written = |folder: &Path| -> Option<SystemTime> {
        let of = |name: &str| std::fs::metadata(folder.join(name)).and_then(|file| file.modified());
        of("manifest.json").or_else(|_| of("sweep.csv")).ok()
    };
    let folders = std::fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = folders.filter_map(|folder| Some((written(&folder)?, folder))).max();
    newest.map(|(_, folder)| folder).ok_or_else(|| {
        let runs = runs.display();
        CliError::Input(format!(
            "there is no run in {runs}/\n  = `paceline run chain/ten` makes one, or name a folder"
        ))
    })
}
