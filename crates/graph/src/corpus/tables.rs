//! Counts of walks, as CSV.

use std::io::Write;
use std::path::Path;

use paceline_proto::walk::Vertex;

use crate::files::{FileError, Ids, NewFile, append_number};
use crate::walk::{Paths, rank};

/// A file of the vertices where most walks of each source end, written as walks come.
///
/// CSV of `source,rank,vertex,walks,share`: the rank from 1, the share of the source's walks. Of
/// vertices with as many walks the lower comes first. With walks of geometric length the share
/// estimates personalised PageRank. Takes 4 bytes for each walk of one source.
pub struct Tops<'a> {
    ids: &'a Ids,
    file: NewFile,
    text: Vec<u8>,
    count: usize,
    walks_per_source: u32,
    /// The source whose walks come at present: which one, from 0, and its vertex.
    source: (u64, Vertex),
    ends: Vec<Vertex>,
}

impl<'a> Tops<'a> {
    /// Begins a file of `count` vertices at most for each source, over vertices of these ids.
    pub fn create(
        path: &Path,
        walks_per_source: u32,
        count: usize,
        ids: &'a Ids,
    ) -> Result<Tops<'a>, FileError> {
        let file = NewFile::create(path)?;
        let text = b"source,rank,vertex,walks,share\n".to_vec();
        let (walks_per_source, source) = (walks_per_source.max(1), (0, 0));
        Ok(Tops { ids, file, text, count, walks_per_source, source, ends: Vec::new() })
    }

    /// Takes the next walks, in the order of their numbers. A path without any vertex is of no
    /// walk.
    pub fn append(&mut self, paths: &Paths) -> Result<(), FileError> {
        for (walk, path) in paths.iter() {
            let (Some(&source), Some(&end)) = (path.first(), path.last()) else { continue };
            let place = walk / u64::from(self.walks_per_source);
            if place != self.source.0 {
                self.rank()?;
            }
            self.source = (place, source);
            self.ends.push(end);
        }
        Ok(())
    }

    /// Gives the file its name.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.rank()?;
        put(&mut self.file, &self.text)?;
        self.file.finish()
    }

    /// Writes down the source whose walks have come.
    fn rank(&mut self) -> Result<(), FileError> {
        let source = self.ids.id(self.source.1);
        for (place, ranked) in (1..).zip(rank(&mut self.ends, self.count)) {
            for number in [source, place, self.ids.id(ranked.vertex), ranked.walks.into()] {
                append_number(&mut self.text, number);
                self.text.push(b',');
            }
            let share = f64::from(ranked.walks) / f64::from(self.walks_per_source);
            self.text.extend_from_slice(format!("{share}\n").as_bytes());
        }
        self.ends.clear();
        put_full(&mut self.file, &mut self.text)
    }
}

/// A file of how often walks were at each vertex, their sources included: CSV of `vertex,visits`.
/// Takes 8 bytes a vertex.
pub struct Visits<'a> {
    ids: &'a Ids,
    file: NewFile,
    visits: Vec<u64>,
}

impl<'a> Visits<'a> {
    /// Begins a file, over vertices of these ids.
    pub fn create(path: &Path, ids: &'a Ids) -> Result<Visits<'a>, FileError> {
        Ok(Visits { ids, file: NewFile::create(path)?, visits: vec![0; ids.len()] })
    }

    /// Counts more walks.
    ///
    /// # Panics
    ///
    /// If one was at a vertex without an id.
    pub fn append(&mut self, paths: &Paths) {
        for &vertex in paths.iter().flat_map(|(_, path)| path) {
            self.visits[vertex as usize] += 1;
        }
    }

    /// Writes what was counted, and gives the file its name.
    pub fn finish(mut self) -> Result<(), FileError> {
        let mut text = b"vertex,visits\n".to_vec();
        for (vertex, &visits) in (0..).zip(&self.visits) {
            append_number(&mut text, self.ids.id(vertex));
            text.push(b',');
            append_number(&mut text, visits);
            text.push(b'\n');
            put_full(&mut self.file, &mut text)?;
        }
        put(&mut self.file, &text)?;
        self.file.finish()
    }
}

/// Writes text once there is enough of it.
fn put_full(file: &mut NewFile, text: &mut Vec<u8>) -> Result<(), FileError> {
    if text.len() > 1 << 16 {
        put(file, text)?;
        text.clear();
    }
    Ok(())
}

fn put(file: &mut NewFile, text: &[u8]) -> Result<(), FileError> {
    file.write_all(text).map_err(|source| FileError::system(file.path(), source))
}
