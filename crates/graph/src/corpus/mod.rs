//! Files of walks: paths, their ends, and visits of vertices.
//!
//! Paths are written in the order of the walks, as [`Job::paths`](crate::walk::Job::paths) or
//! another source yields them, so a file of any length takes the memory of a few blocks. Files name
//! vertices by their ids. A file has its name once it is whole.

mod array;
#[cfg(feature = "parquet")]
mod columns;
mod partial;
mod tables;

pub use partial::{Earlier, Origin};
pub use tables::{Tops, Visits};

use std::io::Write;
use std::path::{Path, PathBuf};

use paceline_proto::walk::Vertex;
use rayon::prelude::*;

use crate::files::{FileError, Ids, NewFile, append_number};
use crate::walk::Paths;
use partial::PartialFile;

/// The format of a file of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A walk on each line, its vertices between blanks: a corpus for word2vec and similar
    /// programs. Walks are numbered by line, from 0.
    Text,
    /// A vertex on each line, under the heading `walk,step,vertex`: pandas reads it directly and
    /// groups it by walk.
    Csv,
    /// A NumPy array of `int64`, a walk in each row, as wide as the longest walk; -1 fills the rows
    /// of shorter ones. Needs twice its size on the disk while it is written.
    Npy,
    /// A walk a row: `walk`, `source` and `path`, a list. Only with the feature `parquet`.
    Parquet,
}

impl Format {
    /// Chosen by a file's name: `.csv`, `.npy`, `.parquet`; else text. Ignores `.gz` after the
    /// ending of text.
    pub fn of(path: &Path) -> Format {
        Format::named(path).unwrap_or(Format::Text)
    }

    /// Like [`Format::of`], but `None` if the name has neither of these endings nor `.txt`.
    pub fn named(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_string_lossy().to_ascii_lowercase();
        let (_, end) = name.strip_suffix(".gz").unwrap_or(&name).rsplit_once('.')?;
        match end {
            "txt" => Some(Format::Text),
            "csv" => Some(Format::Csv),
            "npy" if !name.ends_with(".gz") => Some(Format::Npy),
            "parquet" if !name.ends_with(".gz") => Some(Format::Parquet),
            _ => None,
        }
    }

    /// True if a file can be written in several runs.
    fn is_text(self) -> bool {
        matches!(self, Format::Text | Format::Csv)
    }

    /// True if an unfinished file of this name can be [continued](Corpus::resumable): text that is
    /// not compressed.
    pub fn is_resumable(path: &Path) -> bool {
        let is_compressed = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz"));
        !is_compressed && Format::of(path).is_text()
    }
}

/// A file of paths that is being written.
pub struct Corpus<'a> {
    ids: &'a Ids,
    out: Out,
    /// Walks in the file.
    walks: u64,
}

enum Out {
    Text(Format, Lines),
    Npy(array::Rows),
    #[cfg(feature = "parquet")]
    Parquet(Box<columns::Columns>),
}

/// The destination of text.
enum Lines {
    New(NewFile),
    Partial(PartialFile),
}

/// Number of paths that a thread formats at once.
const PATHS: usize = 512;

const HEADING: &[u8] = b"walk,step,vertex\n";

impl<'a> Corpus<'a> {
    /// Begins a file, over vertices of these ids. Text and CSV are compressed by gzip if the name
    /// ends in `.gz`.
    pub fn create(path: &Path, format: Format, ids: &'a Ids) -> Result<Corpus<'a>, FileError> {
        let out = match format {
            Format::Text | Format::Csv => {
                let mut lines = Lines::New(NewFile::create(path)?);
                if format == Format::Csv {
                    lines.put(HEADING)?;
                }
                Out::Text(format, lines)
            }
            Format::Npy => Out::Npy(array::Rows::create(path, ids)?),
            #[cfg(feature = "parquet")]
            Format::Parquet => Out::Parquet(Box::new(columns::Columns::create(path, ids)?)),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(FileError::without_parquet(path)),
        };
        Ok(Corpus { ids, out, walks: 0 })
    }

    /// Begins a file that a later run can resume, or resumes one. Text and CSV only, and not
    /// compressed: the result equals the file of a single run, byte by byte.
    ///
    /// The unfinished file has the name of the file and `.partial` after it. A journal, with
    /// `.json` after that, records how much of it is valid and its `origin`; it is written every
    /// two seconds, once the data that it covers is on the disk. So a run that is killed loses two
    /// seconds.
    pub fn resumable(
        path: &Path,
        format: Format,
        ids: &'a Ids,
        origin: &Origin,
        earlier: Earlier,
    ) -> Result<Corpus<'a>, FileError> {
        if !format.is_text() || path.extension().is_some_and(|end| end.eq_ignore_ascii_case("gz")) {
            let wrong = "only uncompressed text and CSV can be resumed";
            return Err(FileError::content(path, wrong));
        }
        let mut file = PartialFile::open(path, origin, earlier)?;
        let walks = file.walks();
        if format == Format::Csv && file.is_empty() {
            file.write_all(HEADING).map_err(|source| FileError::system(path, source))?;
        }
        Ok(Corpus { ids, out: Out::Text(format, Lines::Partial(file)), walks })
    }

    /// Walks that the file has: the number of the next one. It is 0 unless the file was begun by
    /// another run.
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// Writes a block of paths. Skips those that the file has already.
    ///
    /// # Panics
    ///
    /// If walks are missing between those of the file and these.
    pub fn append(&mut self, paths: &Paths) -> Result<(), FileError> {
        assert!(paths.first() <= self.walks, "the walks from number {} on are missing", self.walks);
        let ids = self.ids;
        let begin = (self.walks - paths.first()).min(paths.len() as u64) as usize;
        self.walks = self.walks.max(paths.first() + paths.len() as u64);
        match &mut self.out {
            Out::Text(Format::Csv, lines) => lines.put_all(paths, begin, |text, walk, path| {
                for (step, &vertex) in (0..).zip(path) {
                    append_number(text, walk);
                    text.push(b',');
                    append_number(text, step);
                    text.push(b',');
                    append_number(text, ids.id(vertex));
                    text.push(b'\n');
                }
            }),
            Out::Text(_, lines) => lines.put_all(paths, begin, |text, _, path| {
                for (step, &vertex) in path.iter().enumerate() {
                    if step > 0 {
                        text.push(b' ');
                    }
                    append_number(text, ids.id(vertex));
                }
                text.push(b'\n');
            }),
            Out::Npy(rows) => rows.append(paths, ids),
            #[cfg(feature = "parquet")]
            Out::Parquet(columns) => columns.append(paths, ids),
        }?;
        match &mut self.out {
            Out::Text(_, Lines::Partial(file)) => file.set_walks(self.walks),
            _ => Ok(()),
        }
    }

    /// Leaves the file for a later run, if it is resumable, and returns the name of the unfinished
    /// file. Removes a file that is not resumable.
    pub fn suspend(self) -> Result<Option<PathBuf>, FileError> {
        match self.out {
            Out::Text(_, Lines::Partial(file)) => file.suspend().map(Some),
            _ => Ok(None),
        }
    }

    /// Completes the file under its name.
    pub fn finish(self) -> Result<(), FileError> {
        match self.out {
            Out::Text(_, Lines::New(file)) => file.finish(),
            Out::Text(_, Lines::Partial(file)) => file.finish(),
            Out::Npy(rows) => rows.finish(),
            #[cfg(feature = "parquet")]
            Out::Parquet(columns) => columns.finish(),
        }
    }
}

impl Lines {
    fn put(&mut self, text: &[u8]) -> Result<(), FileError> {
        let written = match self {
            Lines::New(file) => file.write_all(text),
            Lines::Partial(file) => file.write_all(text),
        };
        let path = match self {
            Lines::New(file) => file.path(),
            Lines::Partial(file) => file.path(),
        };
        written.map_err(|source| FileError::system(path, source))
    }

    /// Writes paths, from `begin` on, as text that several threads make.
    fn put_all(
        &mut self,
        paths: &Paths,
        begin: usize,
        line: impl Fn(&mut Vec<u8>, u64, &[Vertex]) + Sync,
    ) -> Result<(), FileError> {
        let portions: Vec<usize> = (begin..paths.len()).step_by(PATHS).collect();
        let text = |&begin: &usize| {
            let mut text = Vec::new();
            for path in begin..(begin + PATHS).min(paths.len()) {
                line(&mut text, paths.first() + path as u64, paths.path(path));
            }
            text
        };
        let texts: Vec<Vec<u8>> = portions.par_iter().map(text).collect();
        texts.iter().try_for_each(|text| self.put(text))
    }
}

#[cfg(test)]
mod tests;
