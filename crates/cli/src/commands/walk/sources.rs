//! The source vertices of walks, as arguments.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use paceline_graph::Vertex;
use paceline_graph::files::Ids;

use crate::error::CliError;

/// The vertices where walks start.
#[derive(Debug, clap::Args)]
pub struct SourcesArgs {
    /// The file of source vertices, an id a line; or `all`
    #[arg(long, value_name = "FILE", default_value = "all", conflicts_with = "source")]
    sources: PathBuf,

    /// A source vertex, by its id; may be repeated
    #[arg(long, value_name = "ID")]
    source: Vec<u64>,
}

/// Bytes of a line, at most.
const LINE_BYTES_MAX: u64 = 4096;

impl SourcesArgs {
    /// The vertices in the order in which they are given; none stands for all.
    pub fn vertices(&self, ids: &Ids) -> Result<Option<Vec<Vertex>>, CliError> {
        if !self.source.is_empty() {
            let vertex = |&id: &u64| {
                let wrong = || {
                    CliError::Input(format!("--source {id}: the graph has no vertex of this id"))
                };
                ids.vertex(id).ok_or_else(wrong)
            };
            return self.source.iter().map(vertex).collect::<Result<_, _>>().map(Some);
        }
        if self.sources == Path::new("all") {
            return Ok(None);
        }
        read(&self.sources, ids).map(Some)
    }
}

fn read(path: &Path, ids: &Ids) -> Result<Vec<Vertex>, CliError> {
    let named = |what: String| CliError::Input(format!("{}: {what}", path.display()));
    let mut file = BufReader::new(File::open(path).map_err(|error| named(error.to_string()))?);
    let mut vertices = Vec::new();
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let read = (&mut file).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(|error| named(error.to_string()))? == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if text.is_empty() || text.starts_with(['#', '%']) {
            continue;
        }
        let shown: String = text.chars().take(40).collect();
        let wrong = |what: &str| named(format!("line {number}: `{shown}` {what}"));
        let id = text.parse().map_err(|_| wrong("is not an id: expected a whole number from 0"))?;
        vertices.push(ids.vertex(id).ok_or_else(|| wrong("is not a vertex of the graph"))?);
    }
    if vertices.is_empty() {
        return Err(named("the file has no source: expected an id a line".to_owned()));
    }
    Ok(vertices)
}
