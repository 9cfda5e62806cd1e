//! Paths in a NumPy array: a row for each walk.
//!
//! Source: NumPy Enhancement Proposal 1, *A Simple File Format for NumPy Arrays*, version 1.

use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::files::{FileError, Ids, keep, temporary, write_npy_header};
use crate::walk::Paths;

/// Padding of a row after the last vertex of its walk.
const NO_VERTEX: i64 = -1;

/// Bytes read and written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// A file that is being written. The array's header states the length of the longest walk, so rows
/// are kept in a second file, each with its length, until the last one has come.
pub struct Rows {
    path: PathBuf,
    spool: BufWriter<NamedTempFile>,
    walks: u64,
    width: u32,
}

impl Rows {
    /// Begins a file over vertices of these ids, which must fit 63 bits.
    pub fn create(path: &Path, ids: &Ids) -> Result<Rows, FileError> {
        let last = ids.len().checked_sub(1).map_or(0, |last| ids.id(last as u32));
        if i64::try_from(last).is_err() {
            let wrong = format!("vertex {last} does not fit the int64 of a NumPy array");
            return Err(FileError::content(path, wrong));
        }
        let spool = BufWriter::with_capacity(BUFFER_BYTES, temporary(path)?);
        Ok(Rows { path: path.to_owned(), spool, walks: 0, width: 0 })
    }

    /// Writes a block of paths. A path without any vertex becomes an empty row.
    pub fn append(&mut self, paths: &Paths, ids: &Ids) -> Result<(), FileError> {
        let Rows { path, spool, walks, width } = self;
        let mut row = |vertices: &[u32]| -> io::Result<()> {
            let length = vertices.len() as u32;
            (*walks, *width) = (*walks + 1, (*width).max(length));
            spool.write_all(&length.to_le_bytes())?;
            vertices.iter().try_for_each(|&vertex| spool.write_all(&ids.id(vertex).to_le_bytes()))
        };
        let written = paths.iter().try_for_each(|(_, vertices)| row(vertices));
        written.map_err(|source| FileError::system(path, source))
    }

    /// Writes the array, and gives the file its name.
    pub fn finish(self) -> Result<(), FileError> {
        let path = self.path.clone();
        let file = self.array().map_err(|source| FileError::system(&path, source))?;
        keep(&path, file?)
    }

    fn array(self) -> io::Result<Result<NamedTempFile, FileError>> {
        let Rows { path, spool, walks, width } = self;
        let mut spool = spool.into_inner().map_err(io::IntoInnerError::into_error)?;
        spool.rewind()?;
        let mut spool = BufReader::with_capacity(BUFFER_BYTES, spool);
        let file = match temporary(&path) {
            Ok(file) => file,
            Err(error) => return Ok(Err(error)),
        };
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        write_npy_header(&mut out, "<i8", &[walks, width.into()])?;
        let mut row = vec![0; 8 * width as usize];
        for _ in 0..walks {
            let mut length = [0; 4];
            spool.read_exact(&mut length)?;
            let (vertices, rest) = row.split_at_mut(8 * u32::from_le_bytes(length) as usize);
            spool.read_exact(vertices)?;
            rest.chunks_exact_mut(8).for_each(|id| id.copy_from_slice(&NO_VERTEX.to_le_bytes()));
            out.write_all(&row)?;
        }
        Ok(Ok(out.into_inner().map_err(io::IntoInnerError::into_error)?))
    }
}
