//! Sweeps: one scenario over a grid of settings and seeds.
//!
//! ```toml
//! [sweep]
//! seeds = 10
//! "topology.nodes" = [2, 4, 8]
//! "protocol.topology" = ["chain", "unicast"]
//! ```
//!
//! Each cell of the grid is a run of its own. Each finished run is appended to the sweep's folder
//! at once, so a stopped sweep can resume. Results depend neither on the number of threads nor on
//! the order in which cells finish.

mod cells;
mod plan;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

pub use cells::{FinishedCell, merge, sweep_csv};
pub use plan::{Axis, CELLS_MAX, Cell, Plan};

use crate::LabError;
use crate::progress::Progress;
use crate::run::RunResult;
use crate::scenario::{Diagnostic, Scenario};
use cells::Store;

/// How a sweep is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Threads; one for each core if none.
    pub threads: Option<usize>,
    /// The part of the grid to run; all of it if none.
    pub shard: Option<Shard>,
}

/// A part of a sweep: every `count`-th cell. Counted from 1, as `--shard 2/8` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: usize,
    count: usize,
}

impl Shard {
    fn contains(self, cell: usize) -> bool {
        cell % self.count == self.index - 1
    }
}

impl FromStr for Shard {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Shard, LabError> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Shard { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        parts.filter(|shard| (1..=shard.count).contains(&shard.index)).ok_or_else(|| {
            Diagnostic::new(format!("`{text}` is not a shard"))
                .with_note("accepted: i/n with i from 1 to n, such as 2/8")
                .into()
        })
    }
}

/// What became of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The cells that are finished, in the order of the grid; other shards' too, if they share the
    /// folder.
    pub finished: Vec<FinishedCell>,
    /// Cells that failed, and why, in the order of the grid. They are tried again next time.
    pub failed: Vec<(String, String)>,
    /// How many of the finished cells this call found finished already.
    pub resumed: usize,
    /// The merged table.
    pub csv: PathBuf,
}

/// Runs what is not finished yet, and writes `sweep.csv` over all that is.
///
/// `run` is called with the cell's scenario and seed, on several threads at once. A failing cell
/// does not stop the others. If the user stops it, what is finished is kept and written, and the
/// error says how far it came. A setting that the scenario does not take is one error: cells that
/// have not begun do not begin, and a folder that this call made goes if no cell finished in it.
pub fn run(
    plan: &Plan,
    folder: &Path,
    options: Options,
    progress: &dyn Progress,
    run: impl Fn(&Scenario, u64) -> Result<RunResult, LabError> + Sync,
) -> Result<Outcome, LabError> {
    let is_new = !folder.exists();
    let store = Store::open(folder, plan, options.shard)?;
    let mine = |cell: &&Cell| options.shard.is_none_or(|shard| shard.contains(cell.index));
    let cells: Vec<&Cell> = plan.cells().iter().filter(mine).collect();
    let (known, pending): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().partition(|cell| store.has(&cell.key));

    let mut pool = rayon::ThreadPoolBuilder::new();
    if let Some(threads) = options.threads {
        pool = pool.num_threads(threads.max(1));
    }
    let pool = pool.build().map_err(|error| LabError::Run(format!("no threads: {error}")))?;
    progress.start(cells.len() as u64, "cells");
    progress.inc(known.len() as u64);
    let is_refused = AtomicBool::new(false);
    let one = |cell: &&Cell| -> Option<Result<(), (usize, LabError)>> {
        if progress.stopped() || is_refused.load(Ordering::Relaxed) {
            return None;
        }
        let outcome = run(&cell.scenario, cell.seed)
            .and_then(|result| store.append(FinishedCell::new(cell, result)));
        progress.inc(1);
        let is_wrong = outcome.as_ref().is_err_and(|error| error.exit_status() == 2);
        is_refused.fetch_or(is_wrong, Ordering::Relaxed);
        Some(outcome.map_err(|error| (cell.index, error)))
    };
    let outcomes: Vec<_> = pool.install(|| pending.par_iter().map(one).collect());
    progress.finish();

    let done = outcomes.iter().flatten().count();
    let errors = outcomes.into_iter().flatten().filter_map(Result::err);
    let mut failed = Vec::new();
    for (index, error) in errors {
        // A full disk and a wrong setting are not the cell's fault, and would repeat for each.
        if matches!(error, LabError::Write { .. }) {
            return Err(error);
        }
        if error.exit_status() == 2 {
            if is_new && store.is_empty() {
                // Its settings are not to keep the right ones from this folder.
                let _ = std::fs::remove_dir_all(folder);
            }
            return Err(error);
        }
        failed.push((plan.cells()[index].key.clone(), error.to_string()));
    }
    let finished = store.into_finished(plan);
    let csv = folder.join("sweep.csv");
    std::fs::write(&csv, sweep_csv(plan, &finished)).map_err(LabError::write(&csv))?;
    if done < pending.len() {
        let (finished, total) = (known.len() + done - failed.len(), cells.len());
        return Err(LabError::Stopped { finished, total });
    }
    Ok(Outcome { finished, failed, resumed: known.len(), csv })
}

/// Collects the finished cells of several folders of one sweep into another folder of it.
pub fn merge_into(plan: &Plan, folders: &[PathBuf], folder: &Path) -> Result<Outcome, LabError> {
    let merged = merge(plan, folders)?;
    let store = Store::open(folder, plan, None)?;
    let mut resumed = 0;
    for cell in merged {
        if store.has(&cell.key) {
            resumed += 1;
        } else {
            store.append(cell)?;
        }
    }
    let finished = store.into_finished(plan);
    let csv = folder.join("sweep.csv");
    std::fs::write(&csv, sweep_csv(plan, &finished)).map_err(LabError::write(&csv))?;
    Ok(Outcome { finished, failed: Vec::new(), resumed, csv })
}
