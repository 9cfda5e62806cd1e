//! Graphs in files: edge lists, METIS, `.npz`, Parquet.
//!
//! Vertices of a file have ids of up to 64 bits. Those of a graph are numbers from 0 without gaps,
//! in the ascending order of the ids; [`Ids`] maps them back.

mod digest;
mod edges;
mod error;
mod ids;
mod input;
mod metis;
mod npy;
mod npz;
mod output;
#[cfg(feature = "parquet")]
pub(crate) mod parquet;

pub use edges::Columns;
pub use error::FileError;
pub(crate) use error::excerpt;
pub use ids::Ids;
pub(crate) use npy::write_header as write_npy_header;
pub(crate) use output::append_number;
pub use output::{NewFile, open_unlinked};
pub(crate) use output::{keep, temporary};

use std::fs::File;
use std::io::{BufReader, BufWriter, Cursor, Read, Seek};
use std::path::Path;

use paceline_proto::walk::Graph;

use crate::csr;

/// A graph whose vertices have the ids of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedGraph {
    /// The graph.
    pub graph: Graph,
    /// The external ids of its vertices.
    pub ids: Ids,
    /// Weights as they were given, row by row, if edges have any. The graph itself keeps them in
    /// another form, from which they cannot be restored.
    pub weights: Option<Vec<f32>>,
}

impl From<Graph> for NamedGraph {
    /// Vertices are called what they are, and no edge has a weight of its own.
    fn from(graph: Graph) -> NamedGraph {
        let ids = Ids::identity(graph.vertices());
        NamedGraph { graph, ids, weights: None }
    }
}

/// The format of a graph's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An edge a line: two ids, then perhaps a weight and a label, between blanks, tabs or commas.
    /// `#` and `%` begin comments. As SNAP has them, and TSV and CSV files.
    Edges,
    /// A vertex a line: its neighbours, from 1. As METIS, KaHIP and Chaco have them.
    Metis,
    /// Compressed sparse rows as `scipy.sparse.save_npz` writes them.
    Npz,
    /// Columns `source`, `target` and perhaps `weight`. Only with the feature `parquet`.
    Parquet,
}

impl Format {
    /// By a file's name: `.npz`, `.parquet`, `.metis` and `.graph`; else edges. `.gz` and `.zst` at
    /// its end do not count.
    pub fn of(path: &Path) -> Format {
        Format::named(path).unwrap_or(Format::Edges)
    }

    /// The same, but none if the name's end says nothing: edges are in `.txt`, `.tsv`, `.csv`,
    /// `.edges`, `.edgelist` and `.el`.
    pub fn named(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let name = name.strip_suffix(".gz").or(name.strip_suffix(".zst")).unwrap_or(&name);
        match name.rsplit_once('.')?.1 {
            "npz" => Some(Format::Npz),
            "parquet" => Some(Format::Parquet),
            "metis" | "graph" => Some(Format::Metis),
            "txt" | "tsv" | "csv" | "edges" | "edgelist" | "el" => Some(Format::Edges),
            _ => None,
        }
    }
}

/// How a file is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Its format. Default: by its name.
    pub format: Option<Format>,
    /// The columns of an edge list. Default: by the number of fields in its first line: ends, then
    /// a weight, then a label.
    pub columns: Option<Columns>,
    /// How its edges are changed. Default: not at all.
    pub edges: csr::Options,
}

impl Options {
    fn format_of(&self, path: &Path) -> Format {
        self.format.unwrap_or_else(|| Format::of(path))
    }
}

/// Reads a graph. Edge lists and METIS files may be compressed by gzip or zstd, which is detected
/// from their content.
///
/// While loading, an edge takes 16 to 24 bytes, 8 less if all ids are below 2^32, and 5 more if it
/// has a weight and a label.
pub fn read(path: &Path, options: &Options) -> Result<NamedGraph, FileError> {
    let file = File::open(path).map_err(|source| FileError::system(path, source))?;
    match options.format_of(path) {
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::read(path, file, options.edges),
        _ => read_from(path, file, options),
    }
}

/// Like [`read`], from bytes in memory. `path` names them in errors, and gives the format.
pub fn read_bytes(path: &Path, bytes: Vec<u8>, options: &Options) -> Result<NamedGraph, FileError> {
    match options.format_of(path) {
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::read(path, bytes::Bytes::from(bytes), options.edges),
        _ => read_from(path, Cursor::new(bytes), options),
    }
}

fn read_from(
    path: &Path,
    file: impl Read + Seek + Send + 'static,
    options: &Options,
) -> Result<NamedGraph, FileError> {
    match options.format_of(path) {
        Format::Edges => edges::read(path, input::decompressed(path, file)?, options),
        Format::Metis => metis::read(path, input::decompressed(path, file)?, options.edges),
        Format::Npz => npz::read(path, BufReader::new(file), options.edges),
        Format::Parquet => Err(FileError::without_parquet(path)),
    }
}

/// Writes a graph in the format of the file's name ([`Format::of`]).
///
/// [`write_as`] lists what a format cannot store.
pub fn write(path: &Path, named: &NamedGraph) -> Result<(), FileError> {
    write_as(path, Format::of(path), named)
}

/// Writes a graph in a format.
///
/// Refuses what a format cannot store, with these exceptions: edge lists lose isolated vertices if
/// ids have gaps, and give edges with a label and no weight the weight 1; METIS and Parquet lose
/// labels; METIS numbers vertices from 1.
pub fn write_as(path: &Path, format: Format, named: &NamedGraph) -> Result<(), FileError> {
    let at = |source| FileError::system(path, source);
    match format {
        Format::Edges => {
            let mut file = NewFile::create(path)?;
            output::write_edges(named, &mut file).map_err(at)?;
            file.finish()
        }
        Format::Metis => {
            let mut file = NewFile::create(path)?;
            metis::write(path, named, &mut file)?;
            file.finish()
        }
        Format::Npz => {
            let out = BufWriter::with_capacity(output::WRITE_BYTES, temporary(path)?);
            let mut out = npz::write(named, out).map_err(at)?;
            out.rewind().map_err(at)?;
            keep(path, out.into_inner().map_err(|error| at(error.into_error()))?)
        }
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::write(path, named),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(FileError::without_parquet(path)),
    }
}

#[cfg(test)]
mod tests;
