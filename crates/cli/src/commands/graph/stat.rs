use std::path::PathBuf;

use paceline_graph::statistics::Statistics;
use paceline_lab::figure::number;
use paceline_lab::table::table;
use serde::Serialize;

use super::files::Input;
use super::parts::{By, Divided, divide, rows_of};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Print statistics of a graph
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline graph stat web.npz
  paceline graph stat web.tsv.gz --undirected --json
  paceline graph stat web.npz --parts 3 --by edges      also what crosses between three servers")]
pub struct Args {
    /// The graph
    graph: PathBuf,

    #[command(flatten)]
    reading: Input,

    /// Also how it is divided by a file that METIS or `graph partition` wrote
    #[arg(long, value_name = "FILE", conflicts_with = "parts")]
    partition: Option<PathBuf>,

    /// Also print its partition into this many parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    parts: Option<u16>,

    /// The method of that partition
    #[arg(long, value_name = "WAY", default_value = "hash", requires = "parts")]
    by: By,
}

#[derive(Serialize)]
struct Document {
    graph: PathBuf,
    vertices: u64,
    edges: u64,
    is_weighted: bool,
    is_labelled: bool,
    id_min: Option<u64>,
    id_max: Option<u64>,
    degree_min: u64,
    degree_median: u64,
    degree_mean: f64,
    degree_p99: u64,
    degree_max: u64,
    dead_ends: u64,
    isolated: u64,
    self_loops: u64,
    duplicates: u64,
    components: u64,
    component_vertices_max: u64,
    memory_bytes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    partition: Option<Divided>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let named = args.reading.read(&args.graph)?;
    let (graph, ids) = (&named.graph, &named.ids);
    let partition = match (&args.partition, args.parts) {
        (None, None) => None,
        (file, parts) => Some(divide(graph, file.as_deref(), parts.unwrap_or(1), args.by)?),
    };
    let counted = Statistics::of(graph);
    let degrees = counted.degrees;
    let document = Document {
        graph: args.graph,
        vertices: counted.vertices,
        edges: counted.edges,
        is_weighted: graph.is_weighted(),
        is_labelled: graph.is_labelled(),
        id_min: (graph.vertices() > 0).then(|| ids.id(0)),
        id_max: graph.vertices().checked_sub(1).map(|last| ids.id(last)),
        degree_min: degrees.min,
        degree_median: degrees.median,
        degree_mean: degrees.mean,
        degree_p99: degrees.p99,
        degree_max: degrees.max,
        dead_ends: counted.dead_ends,
        isolated: counted.isolated,
        self_loops: counted.self_loops,
        duplicates: counted.duplicates,
        components: counted.components,
        component_vertices_max: counted.component_vertices_max,
        memory_bytes: graph.memory_bytes(),
        partition: partition.map(|partition| Divided::of(&partition, graph)),
    };
    ui.document(&document)?;
    ui.print(&format!("{}\n{}", document.graph.display(), table(["", "", ""], &rows(&document))))?;
    if let Some(divided) = &document.partition {
        ui.print("\n")?;
        ui.print(&table(["partition", "", ""], &rows_of(divided)))?;
    }
    Ok(Outcome::Done)
}

fn rows(document: &Document) -> Vec<[String; 3]> {
    let row = |name: &str, value: String, note: &str| [name.to_owned(), value, note.to_owned()];
    let whole = |name: &str, value: u64, note: &str| row(name, value.to_string(), note);
    let edges = match (document.is_weighted, document.is_labelled) {
        (false, false) => "without weights and labels",
        (true, false) => "with weights",
        (false, true) => "with labels",
        (true, true) => "with weights and labels",
    };
    let id = |id: Option<u64>| id.map_or("none".to_owned(), |id| id.to_string());
    let memory = number(document.memory_bytes as f64 / 1e6);
    vec![
        whole("vertices", document.vertices, ""),
        row("ids", id(document.id_min), &format!("to {}", id(document.id_max))),
        whole("edges", document.edges, edges),
        row("edges of a vertex", number(document.degree_mean), "on average"),
        whole("", document.degree_median, "median"),
        whole("", document.degree_p99, "99th percentile"),
        whole("", document.degree_max, "most"),
        whole("dead ends", document.dead_ends, "vertices without outgoing edges"),
        whole("isolated", document.isolated, "of these, without incoming edges"),
        whole("self-loops", document.self_loops, "self-loops"),
        whole("duplicates", document.duplicates, "duplicate edges"),
        whole("components", document.components, "ignoring the direction of edges"),
        whole("largest component", document.component_vertices_max, "vertices"),
        row("memory", memory, "MB, in rows as walks read them"),
    ]
}
