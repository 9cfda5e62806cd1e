//! What a node has counted, as it is printed at its end.

use paceline::Stats;
use paceline_lab::table::table;

use crate::error::CliError;
use crate::ui::Ui;

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
