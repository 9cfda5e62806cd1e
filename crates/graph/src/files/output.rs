//! Files that are replaced atomically.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use tempfile::NamedTempFile;

use super::NamedGraph;
use super::error::FileError;

/// A file that is being written, under another name in the same folder. [`NewFile::finish`] renames
/// it, replacing an earlier file; otherwise it is removed.
///
/// Text is compressed by gzip if the name ends in `.gz`.
pub struct NewFile {
    path: PathBuf,
    out: Out,
}

enum Out {
    Plain(BufWriter<NamedTempFile>),
    Gzip(Box<GzEncoder<BufWriter<NamedTempFile>>>),
}

/// Bytes written to the system at once.
pub const WRITE_BYTES: usize = 1 << 20;

impl NewFile {
    /// Begins a file that will have this name.
    pub fn create(path: &Path) -> Result<NewFile, FileError> {
        let ends_in = |end| path.extension().is_some_and(|found| found.eq_ignore_ascii_case(end));
        if ends_in("zst") {
            let wrong = "zstd can be read, not written: use a name that ends in `.gz`, or no \
                compression";
            return Err(FileError::content(path, wrong));
        }
        let out = BufWriter::with_capacity(WRITE_BYTES, temporary(path)?);
        let out = match ends_in("gz") {
            true => Out::Gzip(Box::new(GzEncoder::new(out, Compression::fast()))),
            false => Out::Plain(out),
        };
        Ok(NewFile { path: path.to_owned(), out })
    }

    /// The name that it will have.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<(), FileError> {
        let at = |source| FileError::system(&self.path, source);
        let out = match self.out {
            Out::Plain(out) => out,
            Out::Gzip(out) => out.finish().map_err(at)?,
        };
        keep(&self.path, out.into_inner().map_err(|error| at(error.into_error()))?)
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.out {
            Out::Plain(out) => out.write(bytes),
            Out::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.out {
            Out::Plain(out) => out.flush(),
            Out::Gzip(out) => out.flush(),
        }
    }
}

/// Opens a file to write, as the options say, but never through a symbolic link: in a folder where
/// others may create files, a link could redirect the output into a file of their choice.
///
/// # Errors
/// As [`OpenOptions::open`], and if the path is a symbolic link.
pub fn open_unlinked(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let is_link = || path.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let refused = || {
        let wrong = "refusing to write through a symbolic link: remove it, or name another file";
        io::Error::new(io::ErrorKind::InvalidInput, wrong)
    };
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(options, libc::O_NOFOLLOW);
    #[cfg(not(unix))]
    if is_link() {
        return Err(refused());
    }
    options.open(path).map_err(|error| if is_link() { refused() } else { error })
}

/// A temporary file beside the final one, with the permissions of a new file.
pub fn temporary(path: &Path) -> Result<NamedTempFile, FileError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&prefix).suffix(".part");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")));
    file.map_err(|source| FileError::system(path, source))
}

/// Gives a temporary file its name.
pub fn keep(path: &Path, file: NamedTempFile) -> Result<(), FileError> {
    file.persist(path).map(|_| ()).map_err(|error| FileError::system(path, error.error))
}

/// Writes an edge list.
pub fn write_edges(named: &NamedGraph, out: &mut impl Write) -> io::Result<()> {
    let graph = &named.graph;
    let (weights, labels) = (named.weights.as_deref(), graph.labels());
    writeln!(out, "# Nodes: {} Edges: {}", graph.vertices(), graph.edges())?;
    let mut text = Vec::new();
    let mut edge = 0;
    for from in 0..graph.vertices() {
        for &to in graph.row_of(from).targets {
            append_number(&mut text, named.ids.id(from));
            text.push(b'\t');
            append_number(&mut text, named.ids.id(to));
            match weights {
                Some(weights) => write!(text, "\t{}", weights[edge])?,
                // A third column is a weight.
                None if labels.is_some() => text.extend_from_slice(b"\t1"),
                None => {}
            }
            if let Some(labels) = labels {
                write!(text, "\t{}", labels[edge])?;
            }
            text.push(b'\n');
            edge += 1;
        }
        if text.len() > 1 << 16 {
            out.write_all(&text)?;
            text.clear();
        }
    }
    out.write_all(&text)
}

/// Appends a number in decimal digits. Several times as fast as formatting it.
pub fn append_number(text: &mut Vec<u8>, mut number: u64) {
    // 2^64 has twenty digits.
    let mut digits = [0; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[first..]);
}

/// A whole number of nothing but digits.
pub fn whole(word: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(word).ok().filter(|word| !word.starts_with('+'))?;
    digits.parse().ok()
}
