use paceline_lab_bench::broadcast::{BroadcastComparison, Peer};

use crate::commands::bench::comparison::{self, Shown};

/// A table of both.
pub(super) fn describe(comparison: &BroadcastComparison) -> String {
    let Peer::JGroups = comparison.peer;
    let first = comparison.pairs.first();
    let setting = first.map_or(String::new(), |pair| super::setting(&pair.paceline));
    comparison::describe(&setting, "JGroups", comparison, shown)
}

fn shown(figure: &'static str) -> Shown {
    match figure {
        "mb_per_node_per_s" => ("received, own included", "MB/node/s", 1.0),
        "limit_share" => ("of the limit of the links", "%", 100.0),
        "p50_ms" => ("latency, median", "ms", 1.0),
        "p99_ms" => ("latency, 99th percentile", "ms", 1.0),
        "cpu_s_per_gb" => ("processor time", "s/GB received", 1.0),
        other => (other, "", 1.0),
    }
}
