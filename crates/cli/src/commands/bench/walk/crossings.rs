use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::crossings::{CrossingsPlan, run as measure};

use super::{Args, judged};
use crate::commands::{Outcome, this_program};
use crate::error::CliError;
use crate::ui::Ui;

/// Measures walkers between processes.
pub(super) fn run(args: &Args, ui: &Ui) -> Result<Outcome, CliError> {
    let plan = CrossingsPlan {
        walks: args.walks.unwrap_or(16),
        short_walks: args.short_walks,
        repeats: args.repeats.unwrap_or(3),
        seed: args.seed,
    };
    let rows = measure(&plan, &this_program()?, &ui.progress())?;
    let bench = Bench::new(vec![rows]);
    ui.document(&bench)?;
    let rows = &bench.results[0];
    let header = [
        "walkers",
        "round trip, ms",
        "loss",
        "M crossings/core-s",
        "M walks/s",
        "kept",
        "wait p99, us",
        "crossings",
        "home",
        "additional",
        "time, s",
        "cpu, s",
        "load",
    ];
    let cells: Vec<[String; 13]> = rows
        .rows
        .iter()
        .map(|row| {
            [
                row.name.to_owned(),
                number(row.round_trip_ms),
                number(row.loss),
                number(row.crossings_per_core_second / 1e6),
                number(row.walks_per_second / 1e6),
                row.kept.map_or("-".to_owned(), number),
                row.wait_p99_us.map_or("-".to_owned(), number),
                row.crossings.to_string(),
                row.returned.to_string(),
                row.additional.to_string(),
                number(row.time_s),
                number(row.cpu_s),
                number(row.load),
            ]
        })
        .collect();
    ui.print(&table(header, &cells))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(judged(&rows.missed, ui))
}
