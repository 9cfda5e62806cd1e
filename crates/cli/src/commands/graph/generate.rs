use std::path::PathBuf;

use paceline_graph::Graph;
use paceline_graph::files::NamedGraph;
use paceline_graph::generate::{Blocks, GenerateError, Rmat};
use paceline_lab::scenario::units::parse_probability;
use serde::Serialize;

use super::files::{Edges, FormatName, format_to, writable, write};
use crate::commands::{Outcome, seed};
use crate::error::CliError;
use crate::ui::Ui;

/// Draw a graph at random: the same seed gives the same graph on every machine
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline graph gen sbm --sizes 100,100,100 --a 0.01 --b 0.05 --c 0.2 --out e1.tsv
  paceline graph gen sbm --sizes 500,500 --matrix '0.1,0.001;0.001,0.1' --out two.npz
  paceline graph gen rmat --scale 20 --edges-per-vertex 8 --undirected --out rmat.npz")]
pub struct Args {
    #[command(subcommand)]
    model: Model,
}

#[derive(Debug, clap::Subcommand)]
enum Model {
    Sbm(Sbm),
    Rmat(RmatArgs),
}

/// The stochastic block model: the probability of an edge depends on the blocks of its vertices
///
/// Undirected, without self-loops and duplicates. The vertices of the first block come first. With
/// --a, --b and --c the last block is the dense one, as in the published experiments with walks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline graph gen sbm --sizes 100,100,100 --a 0.01 --b 0.05 --c 0.2 --out e1.tsv
  paceline graph gen sbm --sizes 500,500 --matrix '0.1,0.001;0.001,0.1' --out two.npz")]
struct Sbm {
    /// Vertices of each block
    #[arg(long, value_name = "N,N,..", value_delimiter = ',', required = true)]
    sizes: Vec<u32>,

    /// Probability of an edge within and between all blocks but the last
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = parse_probability)]
    a: f64,

    /// Probability of an edge between the last block and another
    #[arg(long, value_name = "P", default_value = "0.05", value_parser = parse_probability)]
    b: f64,

    /// Probability of an edge within the last block
    #[arg(long, value_name = "P", default_value = "0.2", value_parser = parse_probability)]
    c: f64,

    /// All of them instead: a row for each block, as '0.1,0.01;0.01,0.3'; it must be symmetric
    #[arg(long, value_name = "P,..;..", conflicts_with_all = ["a", "b", "c"])]
    matrix: Option<String>,

    #[command(flatten)]
    output: Output,
}

/// RMAT: a skewed degree distribution, as in graphs of the web
///
/// The vertices are 2^SCALE; edges are directed unless --undirected is given.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline graph gen rmat --scale 20 --edges-per-vertex 8 --undirected --out rmat.npz
  paceline graph gen rmat --scale 14 --seed 7 --dedupe --drop-self-loops --out small.tsv.gz")]
struct RmatArgs {
    /// Vertices, as a power of two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=31))]
    scale: u32,

    /// Edges drawn for each vertex, 1 to 65536
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    edges_per_vertex: u32,

    /// Probabilities of the quadrants of the matrix of edges; their sum must be 1
    #[arg(long, value_name = "A,B,C,D", default_value = "0.57,0.19,0.19,0.05")]
    quadrants: String,

    /// Leave ids as they are drawn: low ones have most edges
    #[arg(long)]
    in_order: bool,

    #[command(flatten)]
    edges: Edges,

    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
struct Output {
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// The format to write [default: by the name of the file]
    #[arg(long, value_name = "FORMAT")]
    to: Option<FormatName>,

    /// The root of all randomness, 0 to 2^63 - 1
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed())]
    seed: u64,
}

#[derive(Serialize)]
struct Document {
    output: PathBuf,
    seed: u64,
    vertices: u32,
    edges: u64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.model {
        Model::Sbm(sbm) => {
            let matrix = sbm.probabilities()?;
            let blocks = Blocks::new(sbm.sizes, matrix).map_err(|error| wrong(&error))?;
            sbm.output.write(|seed| Ok(blocks.generate(seed)), ui)
        }
        Model::Rmat(args) => {
            let quadrants = numbers(&args.quadrants)?;
            let quadrants = <[f64; 4]>::try_from(quadrants).map_err(|quadrants| {
                let found = quadrants.len();
                CliError::Input(format!("--quadrants: {found} probabilities, expected 4"))
            })?;
            let rmat = Rmat {
                edge_factor: args.edges_per_vertex,
                quadrants,
                shuffle: !args.in_order,
                options: args.edges.into(),
                ..Rmat::new(args.scale)
            };
            args.output.write(|seed| rmat.generate(seed), ui)
        }
    }
}

impl Sbm {
    fn probabilities(&self) -> Result<Vec<Vec<f64>>, CliError> {
        if let Some(text) = &self.matrix {
            return text.split(';').map(numbers).collect();
        }
        let last = self.sizes.len().saturating_sub(1);
        let chance = |one: usize, other: usize| match (one == last, other == last) {
            (true, true) => self.c,
            (false, false) => self.a,
            _ => self.b,
        };
        Ok((0..=last).map(|one| (0..=last).map(|other| chance(one, other)).collect()).collect())
    }
}

impl Output {
    fn write(
        self,
        draw: impl FnOnce(u64) -> Result<Graph, GenerateError>,
        ui: &Ui,
    ) -> Result<Outcome, CliError> {
        let format = format_to(&self.out, self.to)?;
        writable(&self.out)?;
        let named = NamedGraph::from(draw(self.seed).map_err(|error| wrong(&error))?);
        write(&self.out, format, &named, ui)?;
        let (vertices, edges) = (named.graph.vertices(), named.graph.edges());
        let document = Document { output: self.out, seed: self.seed, vertices, edges };
        ui.document(&document)?;
        ui.print(&format!("{}: {vertices} vertices, {edges} edges\n", document.output.display()))?;
        Ok(Outcome::Done)
    }
}

fn wrong(error: &GenerateError) -> CliError {
    CliError::Input(error.to_string())
}

fn numbers(text: &str) -> Result<Vec<f64>, CliError> {
    let number = |word: &str| {
        let wrong = || CliError::Input(format!("`{word}` is not a number: expected 0 to 1"));
        word.trim().parse::<f64>().map_err(|_| wrong())
    };
    text.split(',').map(number).collect()
}
