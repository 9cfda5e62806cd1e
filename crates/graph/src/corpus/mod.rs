//! Walks in files: paths, where they end, where they pass.
//!
//! Paths are written as they come from [`Job::paths`](crate::walk::Job::paths), so a file of any
//! length takes no more memory than a few blocks. Vertices are called by their ids. A file has its
//! name once it is whole.

#[cfg(feature = "parquet")]
mod columns;

use std::io::Write;
use std::path::Path;

use paceline_proto::walk::Vertex;
use rayon::prelude::*;

use crate::files::{FileError, Ids, NewFile, append_number};
use crate::walk::{Ends, Job, Paths};

/// How paths are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A walk a line, its vertices between blanks: a corpus as word2vec and its kin read it. The
    /// numbers of walks are those of the lines, from 0.
    Text,
    /// A vertex a line, under the heading `walk,step,vertex`: what pandas reads without further
    /// ado and groups by walk.
    Csv,
    /// A walk a row: `walk`, `source` and `path`, a list. Only with the feature `parquet`.
    Parquet,
}

impl Format {
    /// By a file's name: `.csv`, `.parquet`; else text. `.gz` at its end does not count.
    pub fn of(path: &Path) -> Format {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        match name.strip_suffix(".gz").unwrap_or(&name).rsplit('.').next() {
            Some("csv") => Format::Csv,
            Some("parquet") => Format::Parquet,
            _ => Format::Text,
        }
    }
}

/// A file of paths that is being written.
pub struct Corpus<'a> {
    ids: &'a Ids,
    out: Out,
}

enum Out {
    Text(NewFile),
    Csv(NewFile),
    #[cfg(feature = "parquet")]
    Parquet(Box<columns::Columns>),
}

/// Paths that a thread puts into text at once.
const PATHS: usize = 512;

impl<'a> Corpus<'a> {
    /// Begins a file, over vertices of these ids. Text and CSV are compressed by gzip if the name
    /// ends in `.gz`.
    pub fn create(path: &Path, format: Format, ids: &'a Ids) -> Result<Corpus<'a>, FileError> {
        let out = match format {
            Format::Text => Out::Text(NewFile::create(path)?),
            Format::Csv => {
                let mut file = NewFile::create(path)?;
                put(&mut file, b"walk,step,vertex\n")?;
                Out::Csv(file)
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => Out::Parquet(Box::new(columns::Columns::create(path, ids)?)),
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => return Err(FileError::without_parquet(path)),
        };
        Ok(Corpus { ids, out })
    }

    /// Writes a block of paths.
    pub fn append(&mut self, paths: &Paths) -> Result<(), FileError> {
        let ids = self.ids;
        match &mut self.out {
            Out::Text(file) => put_all(file, paths, |text, _, path| {
                for &vertex in path {
                    append_number(text, ids.id(vertex));
                    text.push(b' ');
                }
                text.pop();
                text.push(b'\n');
            }),
            Out::Csv(file) => put_all(file, paths, |text, walk, path| {
                for (step, &vertex) in (0..).zip(path) {
                    append_number(text, walk);
                    text.push(b',');
                    append_number(text, step);
                    text.push(b',');
                    append_number(text, ids.id(vertex));
                    text.push(b'\n');
                }
            }),
            #[cfg(feature = "parquet")]
            Out::Parquet(columns) => columns.append(paths, ids),
        }
    }

    /// Gives the file its name.
    pub fn finish(self) -> Result<(), FileError> {
        match self.out {
            Out::Text(file) | Out::Csv(file) => file.finish(),
            #[cfg(feature = "parquet")]
            Out::Parquet(columns) => columns.finish(),
        }
    }
}

/// Writes paths as text that several threads make.
fn put_all(
    file: &mut NewFile,
    paths: &Paths,
    line: impl Fn(&mut Vec<u8>, u64, &[Vertex]) + Sync,
) -> Result<(), FileError> {
    let portions: Vec<usize> = (0..paths.len()).step_by(PATHS).collect();
    let text = |&begin: &usize| {
        let mut text = Vec::new();
        for path in begin..(begin + PATHS).min(paths.len()) {
            line(&mut text, paths.first() + path as u64, paths.path(path));
        }
        text
    };
    let texts: Vec<Vec<u8>> = portions.par_iter().map(text).collect();
    texts.iter().try_for_each(|text| put(file, text))
}

fn put(file: &mut NewFile, text: &[u8]) -> Result<(), FileError> {
    file.write_all(text).map_err(|source| FileError::system(file.path(), source))
}

/// Writes for each source the `count` vertices where most of its walks ended, as CSV of
/// `source,rank,vertex,walks,share`: the rank from 1, the share of the source's walks. With walks
/// of geometric length the share estimates personalised PageRank.
pub fn write_top(
    path: &Path,
    job: &Job<'_>,
    ends: &Ends,
    count: usize,
    ids: &Ids,
) -> Result<(), FileError> {
    let mut file = NewFile::create(path)?;
    let mut text = b"source,rank,vertex,walks,share\n".to_vec();
    for (place, ranked) in (0..).zip(ends.top(count)) {
        let source = ids.id(job.source(place * u64::from(job.walks_per_source())));
        for (rank, ranked) in (1..).zip(ranked) {
            for number in [source, rank, ids.id(ranked.vertex), ranked.walks.into()] {
                append_number(&mut text, number);
                text.push(b',');
            }
            let share = f64::from(ranked.walks) / f64::from(job.walks_per_source());
            text.extend_from_slice(format!("{share}\n").as_bytes());
        }
        if text.len() > 1 << 16 {
            put(&mut file, &text)?;
            text.clear();
        }
    }
    put(&mut file, &text)?;
    file.finish()
}

/// Writes how often walks were at each vertex, as CSV of `vertex,visits`.
///
/// # Panics
///
/// If there are more counts than vertices.
pub fn write_visits(path: &Path, visits: &[u64], ids: &Ids) -> Result<(), FileError> {
    let mut file = NewFile::create(path)?;
    let mut text = b"vertex,visits\n".to_vec();
    for (vertex, &visits) in (0..).zip(visits) {
        append_number(&mut text, ids.id(vertex));
        text.push(b',');
        append_number(&mut text, visits);
        text.push(b'\n');
        if text.len() > 1 << 16 {
            put(&mut file, &text)?;
            text.clear();
        }
    }
    put(&mut file, &text)?;
    file.finish()
}

#[cfg(test)]
mod tests;
