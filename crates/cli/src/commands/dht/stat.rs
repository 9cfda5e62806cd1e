use std::fs;

use paceline_lab::table::table;

use crate::commands::Outcome;
use crate::commands::cluster::Which;
use crate::commands::node::dht::Stat;
use crate::error::CliError;
use crate::ui::Ui;

/// Show the state of the hosts that `up` started
///
/// Each host writes its state twice a second to a file beside its log. A host accepts no writes
/// until its neighbours have been the same for some seconds (settled).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht stat
  paceline dht stat --json")]
pub struct Args {
    #[command(flatten)]
    which: Which,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let stats = stats(&args.which, ui)?;
    if stats.is_empty() {
        let cluster = &args.which.cluster;
        return Err(CliError::Input(format!(
            "no host of `{cluster}` is running here: `paceline up --service dht` starts hosts"
        )));
    }
    ui.document(&stats)?;
    let row = |stat: &Stat| {
        let Stat { address, contacts, is_settled, missing, values, bytes } = stat;
        let settled = if *is_settled { "yes" } else { "no" };
        let [contacts, missing, values, bytes] =
            [contacts, missing, values, bytes].map(usize::to_string);
        [address.clone(), contacts, settled.to_owned(), missing, values, bytes]
    };
    let mut rows: Vec<[String; 6]> = stats.iter().map(row).collect();
    let sum = |of: fn(&Stat) -> usize| stats.iter().map(of).sum::<usize>().to_string();
    let all = format!("{} hosts", stats.len());
    let none = String::new;
    rows.push([all, none(), none(), none(), sum(|stat| stat.values), sum(|stat| stat.bytes)]);
    ui.print(&table(["host", "contacts", "settled", "missing", "values", "bytes"], &rows))?;
    Ok(Outcome::Done)
}

/// What the hosts of a cluster said last, those that run.
pub fn stats(which: &Which, ui: &Ui) -> Result<Vec<Stat>, CliError> {
    let mut stats = Vec::new();
    for process in which.processes(ui)? {
        let Some(path) = &process.stat else { continue };
        // It may not have said anything yet.
        let text = fs::read_to_string(path).unwrap_or_default();
        let address = process.address.to_string();
        stats.push(serde_json::from_str(&text).unwrap_or(Stat { address, ..Stat::default() }));
    }
    Ok(stats)
}
