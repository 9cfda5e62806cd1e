//! Compressed sparse rows in an `.npz`, as `scipy.sparse.save_npz` writes them: the binary form.
//!
//! Arrays `indptr`, `indices`, `data`, `shape` and `format`. Of ours come `ids` (if vertices are
//! called other than they are numbered) and `labels`, which `scipy.sparse.load_npz` passes over.
//! A matrix whose entries are all 1 is a graph without weights.

use std::io::{self, Read, Seek, Write};
use std::path::Path;

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::NamedGraph;
use super::error::FileError;
use super::ids::Ids;
use super::metis::finish;
use super::npy::{Array, write_header};
use crate::csr::{self, Rows};

pub fn read(
    path: &Path,
    file: impl Read + Seek,
    options: csr::Options,
) -> Result<NamedGraph, FileError> {
    let mut archive = ZipArchive::new(file)
        .map_err(|error| FileError::content(path, format!("not an archive of arrays: {error}")))?;
    let refused = |wrong: String| Err(FileError::content(path, wrong));
    let format = with(path, &mut archive, "format", |array| array.text())?;
    if let Some(format) = format.filter(|format| format != "csr") {
        return refused(format!("a matrix in the format `{format}`, expected `csr`"));
    }
    let missing =
        |name: &str| FileError::content(path, format!("the archive has no array `{name}`"));
    let shape: Option<Vec<u64>> = with(path, &mut archive, "shape", |array| array.wholes())?;
    let shape = shape.ok_or_else(|| missing("shape"))?;
    let vertices = match shape[..] {
        [rows, columns] if rows == columns => rows,
        _ => return refused(format!("a matrix of shape {shape:?}, expected a square matrix")),
    };
    let offsets: Option<Vec<u64>> = with(path, &mut archive, "indptr", |array| array.wholes())?;
    let offsets = offsets.ok_or_else(|| missing("indptr"))?;
    if Some(offsets.len() as u64) != vertices.checked_add(1) {
        let found = offsets.len();
        return refused(format!(
            "`indptr` has {found} entries for {vertices} rows, expected one more than rows"
        ));
    }
    let targets: Option<Vec<u32>> = with(path, &mut archive, "indices", |array| array.wholes())?;
    let targets = targets.ok_or_else(|| missing("indices"))?;
    let edges = targets.len();
    // Sorting goes by the offsets, so they are looked at before.
    let are_offsets = offsets[0] == 0
        && offsets.windows(2).all(|pair| pair[0] <= pair[1])
        && offsets.last() == Some(&(edges as u64));
    if !are_offsets {
        return refused(format!(
            "`indptr` does not ascend from 0 to {edges}, the length of \
            `indices`"
        ));
    }
    let weights =
        with(path, &mut archive, "data", |array| array.reals())?.ok_or_else(|| missing("data"))?;
    let labels: Option<Vec<u8>> = with(path, &mut archive, "labels", |array| array.wholes())?;
    let label_count = labels.as_ref().map_or(edges, Vec::len);
    for (name, count) in [("data", weights.len()), ("labels", label_count)] {
        if count != edges {
            return refused(format!(
                "`{name}` has {count} entries, expected {edges} as in `indices`"
            ));
        }
    }
    let ids = with(path, &mut archive, "ids", |array| array.wholes())?;
    let ids = match ids.map(Ids::sorted) {
        None => u32::try_from(vertices).ok().map(Ids::identity),
        Some(ids) => ids.filter(|ids| ids.len() as u64 == vertices),
    };
    let Some(ids) = ids else {
        return refused(format!("`ids` are not {vertices} ascending numbers, fewer than 2^32"));
    };
    let weights = weights.iter().any(|&weight| weight != 1.0).then_some(weights);
    let mut rows = Rows { offsets, targets, weights, labels };
    rows.sort();
    finish(path, rows, ids, options)
}

/// Reads one array, if it is there.
fn with<T, R: Read + Seek>(
    path: &Path,
    archive: &mut ZipArchive<R>,
    name: &str,
    read: impl FnOnce(Array<&mut dyn Read>) -> io::Result<T>,
) -> Result<Option<T>, FileError> {
    let wrong = |error: String| FileError::content(path, format!("array `{name}`: {error}"));
    let mut file = match archive.by_name(&format!("{name}.npy")) {
        Ok(file) => file,
        Err(ZipError::FileNotFound) => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let file: &mut dyn Read = &mut file;
    let array = Array::new(file).and_then(read).map_err(|error| wrong(error.to_string()))?;
    Ok(Some(array))
}

pub fn write<W: Write + Seek>(named: &NamedGraph, out: W) -> io::Result<W> {
    let graph = &named.graph;
    let mut archive = Archive { zip: ZipWriter::new(out) };
    let vertices = graph.vertices().into();
    // As SciPy chooses: 32 bits if all fit, the same for both.
    let is_narrow = graph.edges().max(vertices) <= i32::MAX as u64;
    let edges = graph.targets().len();
    archive.begin("indices", if is_narrow { "<i4" } else { "<i8" }, Some(edges))?;
    archive.wholes(graph.targets().iter().map(|&to| to.into()), is_narrow)?;
    let count = graph.offsets().len();
    archive.begin("indptr", if is_narrow { "<i4" } else { "<i8" }, Some(count))?;
    archive.wholes(graph.offsets().iter().copied(), is_narrow)?;
    archive.begin("format", "|S3", None)?;
    archive.zip.write_all(b"csr")?;
    archive.begin("shape", "<i8", Some(2))?;
    archive.wholes([vertices, vertices].into_iter(), false)?;
    match &named.weights {
        Some(weights) => {
            archive.begin("data", "<f4", Some(edges))?;
            archive.entries(weights.iter().map(|weight| weight.to_le_bytes()))?;
        }
        None => {
            archive.begin("data", "|i1", Some(edges))?;
            archive.entries(std::iter::repeat_n([1], edges))?;
        }
    }
    if let Some(labels) = graph.labels() {
        archive.begin("labels", "|u1", Some(edges))?;
        archive.zip.write_all(labels)?;
    }
    if !named.ids.is_identity() {
        archive.begin("ids", "<u8", Some(named.ids.len()))?;
        let ids = (0..graph.vertices()).map(|vertex| named.ids.id(vertex).to_le_bytes());
        archive.entries(ids)?;
    }
    Ok(archive.zip.finish()?)
}

struct Archive<W: Write + Seek> {
    zip: ZipWriter<W>,
}

impl<W: Write + Seek> Archive<W> {
    fn begin(&mut self, name: &str, descr: &str, count: Option<usize>) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            // Higher levels take long, and make ids hardly smaller.
            .compression_level(Some(1))
            .large_file(true);
        self.zip.start_file(format!("{name}.npy"), options)?;
        let shape: Vec<u64> = count.into_iter().map(|count| count as u64).collect();
        write_header(&mut self.zip, descr, &shape)
    }

    fn wholes(&mut self, numbers: impl Iterator<Item = u64>, is_narrow: bool) -> io::Result<()> {
        match is_narrow {
            true => self.entries(numbers.map(|number| (number as u32).to_le_bytes())),
            false => self.entries(numbers.map(u64::to_le_bytes)),
        }
    }

    fn entries<const N: usize>(
        &mut self,
        entries: impl Iterator<Item = [u8; N]>,
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(1 << 16);
        for entry in entries {
            bytes.extend_from_slice(&entry);
            if bytes.len() >= (1 << 16) - 8 {
                self.zip.write_all(&bytes)?;
                bytes.clear();
            }
        }
        self.zip.write_all(&bytes)
    }
}
