use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::walk::{WalkPlan, run as measure};

use super::{Args, World, judged};
use crate::commands::{Outcome, this_program};
use crate::error::CliError;
use crate::ui::Ui;

/// Runs the published experiment.
pub(super) fn run(args: &Args, ui: &Ui) -> Result<Outcome, CliError> {
    let walks = args.walks.unwrap_or(20);
    let plan = WalkPlan { walks, hop: args.hop, block: args.block, seed: args.seed };
    let program = match args.on {
        World::Sockets => Some(this_program()?),
        World::Sim => None,
    };
    let rows = measure(&plan, program.as_deref(), &ui.progress())?;
    let bench = Bench::new(vec![rows]);
    ui.document(&bench)?;
    let rows = &bench.results[0];
    let header = ["method", "time", "additional", "queue", "dropped", "mean hops", "cpu", "load"];
    let cells: Vec<[String; 8]> = rows
        .methods
        .iter()
        .map(|row| {
            [
                row.method.to_owned(),
                number(row.time_s),
                number(row.additional),
                number(row.queue_mean),
                number(row.dropped),
                number(row.mean_hops),
                row.cpu_s.map_or("-".to_owned(), number),
                number(row.load),
            ]
        })
        .collect();
    ui.print(&table(header, &cells))?;
    let header = ["published order", "", "", "holds", "judged"];
    let cells: Vec<[String; 5]> = rows
        .orders
        .iter()
        .map(|order| {
            [
                format!("{} of {} below {}", order.of, order.less, order.more),
                number(order.less_value),
                number(order.more_value),
                if order.holds { "yes" } else { "no" }.to_owned(),
                if order.is_judged { "yes".to_owned() } else { format!("no: {}", order.why) },
            ]
        })
        .collect();
    ui.print("\n")?;
    ui.print(&table(header, &cells))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(judged(&rows.missed, ui))
}
