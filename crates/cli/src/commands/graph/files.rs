//! The formats of graph files, as arguments.

use std::path::{Path, PathBuf};

use paceline_graph::csr;
use paceline_graph::files::{self, Columns, FileError, Format, NamedGraph, Options};

use crate::error::CliError;
use crate::ui::Ui;

/// How a graph is read.
#[derive(Clone, Debug, clap::Args)]
pub struct Input {
    /// How the file is written [default: by its name]
    #[arg(long = "from", value_name = "FORMAT")]
    format: Option<FormatName>,

    /// The columns after the two ids in a line of an edge list [default: by the first line: a
    /// weight, then a label]
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<ColumnsName>,

    #[command(flatten)]
    edges: Edges,
}

/// What becomes of edges.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Edges {
    /// Every edge both ways
    #[arg(long)]
    undirected: bool,

    /// Of edges between the same vertices, with the same label, one stays, with all their weight
    #[arg(long)]
    dedupe: bool,

    /// No self-loops
    #[arg(long)]
    drop_self_loops: bool,
}

/// How a graph is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FormatName {
    /// An edge a line
    Edges,
    /// A vertex a line, its neighbours from 1
    Metis,
    /// SciPy's compressed sparse rows
    Npz,
    /// Columns `source`, `target` and perhaps `weight`
    #[cfg(feature = "parquet")]
    Parquet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ColumnsName {
    /// Nothing of interest
    Ends,
    /// A weight
    Weight,
    /// A label
    Label,
    /// A weight and a label
    WeightLabel,
}

impl From<Edges> for csr::Options {
    fn from(edges: Edges) -> csr::Options {
        let Edges { undirected, dedupe, drop_self_loops } = edges;
        csr::Options { undirected, dedupe, drop_self_loops }
    }
}

impl From<FormatName> for Format {
    fn from(name: FormatName) -> Format {
        match name {
            FormatName::Edges => Format::Edges,
            FormatName::Metis => Format::Metis,
            FormatName::Npz => Format::Npz,
            #[cfg(feature = "parquet")]
            FormatName::Parquet => Format::Parquet,
        }
    }
}

impl Input {
    /// Reads the graph. What is wrong with the file is the user's fault.
    pub fn read(&self, path: &Path) -> Result<NamedGraph, CliError> {
        let columns = self.columns.map(|columns| match columns {
            ColumnsName::Ends => Columns::Ends,
            ColumnsName::Weight => Columns::Weight,
            ColumnsName::Label => Columns::Label,
            ColumnsName::WeightLabel => Columns::WeightLabel,
        });
        let format = self.format.map(Format::from);
        let is_of_edges = format.unwrap_or_else(|| Format::of(path)) == Format::Edges;
        if columns.is_some() && !is_of_edges {
            let wrong = format!(
                "--columns applies only to edge lists, and {} is not an edge list",
                path.display()
            );
            return Err(CliError::Input(wrong));
        }
        let options = Options { format, columns, edges: self.edges.into() };
        files::read(path, &options).map_err(|error| input(&error))
    }
}

/// Which format a file is to have: the one asked for, or the one that its name says.
pub fn format_to(path: &Path, asked: Option<FormatName>) -> Result<Format, CliError> {
    asked.map(Format::from).or_else(|| Format::named(path)).ok_or_else(|| {
        CliError::Input(format!(
            "{}: the name has no known ending: expected .tsv, .txt, .csv, .npz, .metis{} .graph, \
             or .gz after the ending of a text format; or pass --to",
            path.display(),
            if cfg!(feature = "parquet") { ", .parquet or" } else { " or" },
        ))
    })
}

/// Writes a graph, and warns of what the format has no room for.
pub fn write(path: &Path, format: Format, named: &NamedGraph, ui: &Ui) -> Result<(), CliError> {
    files::write_as(path, format, named).map_err(|error| failed(&error))?;
    for lost in lost(format, named) {
        ui.warn(&format!("{}: {lost}", path.display()));
    }
    Ok(())
}

fn lost(format: Format, named: &NamedGraph) -> Vec<&'static str> {
    let mut lost = Vec::new();
    let is_edges = format == Format::Edges;
    let has_labels = named.graph.is_labelled();
    if has_labels && matches!(format, Format::Metis | Format::Parquet) {
        lost.push("the file has no labels of edges: the format does not support them");
    }
    if is_edges && has_labels && named.weights.is_none() {
        lost.push("every edge in the file has the weight 1, because labels follow weights");
    }
    if format == Format::Metis && !named.ids.is_identity() {
        lost.push("the file has no ids: METIS numbers vertices from 1, in the order of their ids");
    }
    if (is_edges && !named.ids.is_identity() || format == Format::Parquet) && has_isolated(named) {
        lost.push("the file does not have the vertices without edges");
    }
    lost
}

fn has_isolated(named: &NamedGraph) -> bool {
    let graph = &named.graph;
    let mut has_edge: Vec<bool> =
        graph.offsets().windows(2).map(|pair| pair[0] < pair[1]).collect();
    graph.targets().iter().for_each(|&to| has_edge[to as usize] = true);
    has_edge.contains(&false)
}

/// Checks that a file can be begun there, before anything that takes time.
pub fn writable(path: &Path) -> Result<(), CliError> {
    let wrong = |what: String| Err(CliError::Input(format!("{}: {what}", path.display())));
    if path.file_name().is_none() || path.is_dir() {
        return wrong("it is a folder, expected a file".to_owned());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.map_or_else(|| PathBuf::from("."), Path::to_owned);
    if !folder.is_dir() {
        return wrong(format!("there is no folder {}: create it first", folder.display()));
    }
    Ok(())
}

/// What is wrong with a file that is read.
fn input(error: &FileError) -> CliError {
    CliError::Input(error.to_string())
}

/// Maps an error of a written file to a failure of the system or to wrong input.
pub fn failed(error: &FileError) -> CliError {
    match error {
        FileError::System { .. } => CliError::Failed(error.to_string()),
        _ => CliError::Input(error.to_string()),
    }
}
