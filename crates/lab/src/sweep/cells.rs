use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::Shard;
use super::plan::{Cell, PLAN_FILE, Plan};
use crate::LabError;
use crate::figure::Figure;
use crate::run::{Metric, RunResult, csv_table};
use crate::scenario::Catalog;

/// The version of a sweep folder's format.
const FORMAT: u32 = 1;

/// A finished cell: one line of `cells.jsonl`. Its series is not kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinishedCell {
    /// The cell's name.
    pub key: String,
    /// The value of each axis, in the plan's order.
    pub values: Vec<String>,
    /// The seed.
    pub seed: u64,
    /// Events that the run took.
    pub events: u64,
    /// Digest of all that happened.
    pub digest: Option<String>,
    /// Seconds that it took on the wall. Not in `sweep.csv`, which repeats exactly.
    pub wall_s: f64,
    /// Numbers that sum up the run.
    pub metrics: Vec<Metric>,
    /// Numbers with a band.
    pub figures: Vec<Figure>,
}

impl FinishedCell {
    pub(super) fn new(cell: &Cell, result: RunResult) -> FinishedCell {
        FinishedCell {
            key: cell.key.clone(),
            values: cell.values.clone(),
            seed: cell.seed,
            events: result.events,
            digest: result.digest,
            wall_s: result.wall_s,
            metrics: result.summary,
            figures: result.figures,
        }
    }
}

/// What a sweep folder says about itself: `sweep.json`.
#[derive(PartialEq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    paceline: String,
    scenario: String,
    base: String,
}

/// The finished cells of a sweep folder, and the file that new ones are appended to.
pub(super) struct Store {
    finished: Mutex<(BTreeMap<String, FinishedCell>, File)>,
    path: PathBuf,
}

impl Store {
    pub(super) fn open(
        folder: &Path,
        plan: &Plan,
        shard: Option<Shard>,
    ) -> Result<Store, LabError> {
        fs::create_dir_all(folder).map_err(LabError::write(folder))?;
        claim(folder, plan)?;
        let path = folder.join(PLAN_FILE);
        fs::write(&path, plan.to_toml()).map_err(LabError::write(&path))?;
        // A shard has a file of its own, so that shards on a shared disk do not write into each
        // other.
        let name = match shard {
            Some(shard) => format!("cells-{}-of-{}.jsonl", shard.index, shard.count),
            None => "cells.jsonl".to_owned(),
        };
        let path = folder.join(name);
        let mut finished = BTreeMap::new();
        for file in cell_files(folder)? {
            let whole = read_cells(&file, &mut finished)?;
            if file == path {
                // What a kill tore off in the middle of a line goes, or the next line would join
                // it.
                let file = OpenOptions::new().write(true).open(&path);
                file.and_then(|file| file.set_len(whole)).map_err(LabError::write(&path))?;
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(LabError::write(&path))?;
        Ok(Store { finished: Mutex::new((finished, file)), path })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.finished.lock().expect("no thread panics with the cells held").0.contains_key(key)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.finished.lock().expect("no thread panics with the cells held").0.is_empty()
    }

    pub(super) fn append(&self, cell: FinishedCell) -> Result<(), LabError> {
        let mut line = serde_json::to_string(&cell).expect("a cell has text keys only");
        line.push('\n');
        let mut held = self.finished.lock().expect("no thread panics with the cells held");
        held.1.write_all(line.as_bytes()).map_err(LabError::write(&self.path))?;
        held.0.insert(cell.key.clone(), cell);
        Ok(())
    }

    pub(super) fn into_finished(self, plan: &Plan) -> Vec<FinishedCell> {
        let (finished, _) = self.finished.into_inner().expect("all threads are done");
        in_order(plan, finished)
    }
}

/// Collects the finished cells of several folders of one sweep, in the order of the grid.
pub fn merge(plan: &Plan, folders: &[PathBuf]) -> Result<Vec<FinishedCell>, LabError> {
    let mut finished = BTreeMap::new();
    for folder in folders {
        check(folder, plan)?;
        for file in cell_files(folder)? {
            read_cells(&file, &mut finished)?;
        }
    }
    Ok(in_order(plan, finished))
}

/// The merged table: axes, seed, metric, value, unit; one row a metric, in the order of the grid.
/// The same for any number of threads or shards.
pub fn sweep_csv(plan: &Plan, finished: &[FinishedCell]) -> String {
    let axes = plan.axes().iter().map(|axis| axis.key.as_str());
    csv_table(1024, axes.chain(["seed", "metric", "value", "unit"]), |rows| {
        for cell in finished {
            let seed = cell.seed.to_string();
            let metrics = cell.metrics.iter().map(|m| (&*m.metric, m.value, &*m.unit));
            let figures = cell.figures.iter().map(|f| (&*f.id, f.measured, &*f.unit));
            for (metric, value, unit) in metrics.chain(figures) {
                let values = cell.values.iter().map(String::as_str);
                let value = value.to_string();
                rows.write_record(values.chain([seed.as_str(), metric, value.as_str(), unit]))?;
            }
        }
        Ok(())
    })
}

fn in_order(plan: &Plan, mut finished: BTreeMap<String, FinishedCell>) -> Vec<FinishedCell> {
    plan.cells().iter().filter_map(|cell| finished.remove(&cell.key)).collect()
}

fn manifest(plan: &Plan) -> Manifest {
    Manifest {
        format: FORMAT,
        paceline: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: plan.name().to_owned(),
        base: plan.base().to_owned(),
    }
}

/// Makes the folder this sweep's, or checks that it is.
fn claim(folder: &Path, plan: &Plan) -> Result<(), LabError> {
    let path = folder.join("sweep.json");
    if path.exists() {
        return check(folder, plan);
    }
    let mut inside = fs::read_dir(folder).map_err(LabError::read(folder))?;
    if inside.next().is_some() {
        return Err(LabError::folder(folder, "not empty, and not the folder of a sweep"));
    }
    let mut text = serde_json::to_string_pretty(&manifest(plan)).expect("text keys only");
    text.push('\n');
    fs::write(&path, text).map_err(LabError::write(&path))
}

fn read_manifest(folder: &Path) -> Result<Manifest, LabError> {
    let path = folder.join("sweep.json");
    let text = fs::read_to_string(&path).map_err(LabError::read(&path))?;
    serde_json::from_str(&text)
        .map_err(|error| LabError::folder(&path, format!("not the manifest of a sweep: {error}")))
}

impl Plan {
    /// The plan of the sweep that a folder holds, of services of this catalog.
    pub fn of_folder(folder: &Path, catalog: &'static Catalog) -> Result<Plan, LabError> {
        let path = folder.join(PLAN_FILE);
        let text = std::fs::read_to_string(&path).map_err(LabError::read(&path))?;
        // A scenario without a name goes by its file's, which is another one here.
        let name = read_manifest(folder)?.scenario;
        Plan::new(&catalog.parse(&format!("{name}.toml"), &text)?)
    }
}

fn check(folder: &Path, plan: &Plan) -> Result<(), LabError> {
    let found = read_manifest(folder)?;
    let ours = manifest(plan);
    let differs = if found.format != ours.format {
        format!("has format {}; this build has {}", found.format, ours.format)
    } else if found.paceline != ours.paceline {
        format!("was made by Paceline {}; this is {}", found.paceline, ours.paceline)
    } else if found.scenario != ours.scenario {
        format!("holds a sweep of `{}`, not of `{}`", found.scenario, ours.scenario)
    } else if found.base != ours.base {
        "holds a sweep of this scenario with other settings outside [sweep]".to_owned()
    } else {
        return Ok(());
    };
    Err(LabError::folder(folder, format!("{differs}; choose another folder")))
}

fn cell_files(folder: &Path) -> Result<Vec<PathBuf>, LabError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(LabError::read(folder))? {
        let path = entry.map_err(LabError::read(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("cells") && name.ends_with(".jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Reads finished cells and returns how many bytes whole lines take. A line without its end is
/// what a kill left, and is skipped.
fn read_cells(path: &Path, out: &mut BTreeMap<String, FinishedCell>) -> Result<u64, LabError> {
    let bytes = fs::read(path).map_err(LabError::read(path))?;
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    for (index, line) in bytes[..whole].split_inclusive(|&byte| byte == b'\n').enumerate() {
        let cell: FinishedCell = serde_json::from_slice(line).map_err(|error| {
            LabError::folder(path, format!("line {} is not a finished cell: {error}", index + 1))
        })?;
        out.insert(cell.key.clone(), cell);
    }
    Ok(whole as u64)
}
