use std::path::{Path, PathBuf};

use paceline_graph::Graph;
use paceline_graph::partition::Partition;
use paceline_lab::figure::number;
use paceline_lab::table::table;
use serde::Serialize;

use super::files::{Input, failed, writable};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Divide a graph among servers, or judge how another program did
///
/// Prints how many edges lead from one part to another, each a message for a walk that takes it,
/// and how even parts are. A file of parts has a line for each vertex, in the order of ids.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline graph partition web.npz --parts 3 --by edges --out web.part
  paceline graph partition web.metis --read web.metis.part.8      as gpmetis wrote it")]
pub struct Args {
    /// The graph
    graph: PathBuf,

    #[command(flatten)]
    reading: Input,

    /// How many parts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    #[arg(required_unless_present = "read")]
    parts: Option<u16>,

    /// How they are made
    #[arg(long, value_name = "WAY", default_value = "hash")]
    by: By,

    /// Judge the parts of this file instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["parts", "by"])]
    read: Option<PathBuf>,

    /// Write the parts to this file, as METIS writes them
    #[arg(long, value_name = "FILE", conflicts_with = "read")]
    out: Option<PathBuf>,
}

/// How a graph is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// By a hash of the vertex: as even as chance, and blind to edges
    Hash,
    /// Neighbouring ids together, as many vertices in each part
    Range,
    /// Neighbouring ids together, as many edges in each part
    Edges,
}

/// What a partition means for walks.
#[derive(Debug, Serialize)]
pub struct Divided {
    parts: u16,
    edges_cut: u64,
    cut: f64,
    vertices_balance: f64,
    edges_balance: f64,
    vertices: Vec<u64>,
    edges: Vec<u64>,
}

impl Divided {
    pub fn of(partition: &Partition, graph: &Graph) -> Divided {
        let quality = partition.quality(graph);
        Divided {
            parts: partition.parts(),
            edges_cut: quality.edges_cut,
            cut: quality.cut,
            vertices_balance: quality.vertices_balance,
            edges_balance: quality.edges_balance,
            vertices: quality.vertices,
            edges: quality.edges,
        }
    }
}

/// Parts of which each is printed for itself.
const SHOWN_MAX: usize = 32;

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if let Some(out) = &args.out {
        writable(out)?;
    }
    let named = args.reading.read(&args.graph)?;
    let graph = &named.graph;
    let partition = divide(graph, args.read.as_deref(), args.parts.unwrap_or(1), args.by)?;
    if let Some(out) = &args.out {
        partition.write(out).map_err(|error| failed(&error))?;
    }
    let divided = Divided::of(&partition, graph);
    ui.document(&divided)?;
    ui.print(&table(["partition", "", ""], &rows_of(&divided)))?;
    if divided.vertices.len() <= SHOWN_MAX {
        let parts = divided.vertices.iter().zip(&divided.edges).enumerate();
        let rows: Vec<[String; 3]> = parts
            .map(|(part, (vertices, edges))| [part as u64, *vertices, *edges])
            .map(|row| row.map(|number| number.to_string()))
            .collect();
        ui.print(&format!("\n{}", table(["part", "vertices", "edges"], &rows)))?;
    }
    Ok(Outcome::Done)
}

/// The parts of a file, or those made this way.
pub fn divide(
    graph: &Graph,
    file: Option<&Path>,
    parts: u16,
    by: By,
) -> Result<Partition, CliError> {
    let vertices = graph.vertices();
    let partition = match (file, by) {
        (Some(file), _) => Partition::read(file, vertices),
        (None, By::Hash) => Partition::hash(vertices, parts),
        (None, By::Range) => Partition::range(vertices, parts),
        (None, By::Edges) => Partition::range_by_edges(graph, parts),
    };
    partition.map_err(|error| CliError::Input(error.to_string()))
}

/// It as rows of a table.
pub fn rows_of(divided: &Divided) -> Vec<[String; 3]> {
    let cut = format!("{} % of all", number(divided.cut * 100.0));
    let rows = [
        ["parts", &divided.parts.to_string(), ""],
        ["edges that cross", &divided.edges_cut.to_string(), &cut],
        ["largest part, vertices", &number(divided.vertices_balance), "times the mean"],
        ["largest part, edges", &number(divided.edges_balance), "times the mean"],
    ];
    rows.iter().map(|row| row.map(str::to_owned)).collect()
}
