use std::path::PathBuf;

use serde::Serialize;

use super::files::{FormatName, Input, format_to, writable, write};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Read a graph and write it in another format
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The graph
    input: PathBuf,

    /// The file to write: text ending in .gz is compressed
    output: PathBuf,

    /// The format to write [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    to: Option<FormatName>,

    #[command(flatten)]
    reading: Input,
}

const AFTER_HELP: &str = "\
Examples:
  paceline graph convert soc-LiveJournal1.txt.gz lj.npz
  paceline graph convert roads.csv roads.metis --undirected --dedupe --drop-self-loops
  paceline graph convert triples.dat triples.npz --columns label

Reading .npz is many times faster than reading text. Data that a format cannot represent is refused,
or named in a warning if the remaining data is useful.";

#[derive(Serialize)]
struct Document {
    input: PathBuf,
    output: PathBuf,
    vertices: u32,
    edges: u64,
    is_weighted: bool,
    is_labelled: bool,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let format = format_to(&args.output, args.to)?;
    writable(&args.output)?;
    let named = args.reading.read(&args.input)?;
    write(&args.output, format, &named, ui)?;
    let graph = &named.graph;
    let document = Document {
        input: args.input,
        output: args.output,
        vertices: graph.vertices(),
        edges: graph.edges(),
        is_weighted: graph.is_weighted(),
        is_labelled: graph.is_labelled(),
    };
    ui.document(&document)?;
    let (vertices, edges) = (document.vertices, document.edges);
    ui.print(&format!("{}: {vertices} vertices, {edges} edges\n", document.output.display()))?;
    Ok(Outcome::Done)
}
