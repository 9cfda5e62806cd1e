//! The list of all counters, and the counters that a node prints at its end.

use paceline::Stats;
use paceline_lab::scenario::Diagnostic;
use paceline_lab::table::{table, table_within};
use paceline_lab_services::counters::SETS;
use serde::Serialize;

use super::{COLUMNS_UNKNOWN, Outcome};
use crate::error::CliError;
use crate::ui::Ui;

/// List what protocols, drivers of sockets and the simulator count
///
/// Reports name these counters, and `--json` has them as keys. Counters that only a fault of
/// another node raises are marked.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline counters
  paceline counters chain
  paceline counters net --json")]
pub struct Args {
    /// Of which protocol or driver: chain, group, detector, overlay, slingshot, srm, nak, ack,
    /// mircc, walk, graphshare, host, status, sim, net or lab
    #[arg(value_name = "NAME")]
    of: Option<String>,
}

#[derive(Serialize)]
struct Entry {
    of: &'static str,
    name: &'static str,
    unit: &'static str,
    help: &'static str,
    shows_fault: bool,
}

/// Lists them.
pub fn run(Args { of }: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let known: Vec<&str> = SETS.iter().map(|set| set.name).collect();
    if let Some(name) = of.as_deref().filter(|name| !known.contains(name)) {
        let unknown = Diagnostic::new(format!("there are no counters `{name}`"))
            .with_suggestion(name, known.iter().copied())
            .with_note(format!("known: {}", known.join(", ")));
        return Err(CliError::Input(unknown.to_string()));
    }
    let sets = SETS.iter().filter(|set| of.as_deref().is_none_or(|name| name == set.name));
    let entries = sets.flat_map(|set| {
        set.counters.iter().map(|counter| Entry {
            of: set.name,
            name: counter.name,
            unit: counter.unit,
            help: counter.help,
            shows_fault: counter.shows_fault,
        })
    });
    let entries: Vec<Entry> = entries.collect();
    ui.document(&entries)?;
    let row = |entry: &Entry| {
        let fault = if entry.shows_fault { " Shows a fault." } else { "" };
        [entry.name.to_owned(), entry.unit.to_owned(), format!("{}{fault}", entry.help)]
    };
    let rows: Vec<[String; 3]> = entries.iter().map(row).collect();
    let columns = ui.columns().unwrap_or(COLUMNS_UNKNOWN);
    ui.print(&table_within(["counter", "counts", "which"], &rows, columns))?;
    Ok(Outcome::Done)
}

/// Prints what a node has counted, after these counts.
pub fn report(ui: &Ui, stats: &Stats, first: &[(&'static str, u64)]) -> Result<(), CliError> {
    let traffic = stats.traffic;
    let mut counts = first.to_vec();
    counts.extend([
        ("stream_bytes_in", traffic.stream_bytes_in),
        ("stream_bytes_out", traffic.stream_bytes_out),
        ("datagrams_in", traffic.datagrams_in),
        ("datagrams_out", traffic.datagrams_out),
        ("datagram_bytes_in", traffic.datagram_bytes_in),
        ("datagram_bytes_out", traffic.datagram_bytes_out),
        ("held_bytes", stats.held.of_peers() as u64),
        ("held_events_bytes", stats.held.events_bytes as u64),
    ]);
    counts.extend(stats.counters.sorted());
    let document: serde_json::Map<String, serde_json::Value> =
        counts.iter().map(|&(name, n)| (name.to_owned(), n.into())).collect();
    ui.document(&document)?;
    let rows: Vec<[String; 2]> =
        counts.iter().map(|(name, n)| [name.to_string(), n.to_string()]).collect();
    ui.print(&table(["counter", "count"], &rows))
}
