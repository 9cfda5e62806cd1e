use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::local_walk::{LocalPlan, run as measure};

use super::Args;
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Measures walks on this machine.
pub(super) fn run(args: &Args, ui: &Ui) -> Result<Outcome, CliError> {
    let repeats = args.repeats.unwrap_or(5);
    let plan = LocalPlan { scale: args.scale, repeats, seed: args.seed };
    let local = measure(&plan, &ui.progress())?;
    let bench = Bench::new(vec![local]);
    ui.document(&bench)?;
    let local = &bench.results[0];
    let header = ["million a second", "threads", "best", "worst", "a core-second"];
    let cells: Vec<[String; 5]> = local
        .rows
        .iter()
        .map(|row| {
            [
                row.name.to_owned(),
                row.threads.to_string(),
                number(row.best / 1e6),
                number(row.worst / 1e6),
                number(row.per_core_second / 1e6),
            ]
        })
        .collect();
    ui.print(&table(header, &cells))?;
    let megabytes = |bytes: Option<u64>| match bytes {
        Some(bytes) => format!("{:.1} MB", bytes as f64 / 1e6),
        None => "-".to_owned(),
    };
    ui.print(&format!(
        "\n{} vertices, {} edges\nmemory: graph {}, paths {}, other {}\n\
         steps over random reads {:.2}, over the plain loop by core {:.1}\n\n{}\n",
        local.vertices,
        local.edges,
        megabytes(Some(local.graph_bytes)),
        megabytes(local.path_bytes),
        megabytes(local.other_bytes),
        local.share_of_reads,
        local.times_plain,
        bench.machine.describe()
    ))?;
    // How fast a machine is, is no failure of its user: `cargo xtask verify walk` judges.
    for short in local.short.iter().chain(&local.missed) {
        ui.note(short);
    }
    Ok(Outcome::Done)
}
