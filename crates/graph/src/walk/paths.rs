//! Paths of walks in memory.

use paceline_proto::walk::{NOWHERE, Vertex};

/// The paths of walks of neighbouring numbers, in one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Paths {
    pub(super) first: u64,
    pub(super) rows: Rows,
    pub(super) vertices: Vec<Vertex>,
}

/// Where each path begins in the array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Each path begins this many entries after the one before.
    Stride(usize),
    /// At these places; one more says where the last ends.
    At(Vec<u64>),
}

impl Rows {
    /// The number of entries of the first `paths` paths.
    pub(super) fn entries(&self, paths: u64) -> u128 {
        match self {
            Rows::Stride(stride) => u128::from(paths) * *stride as u128,
            Rows::At(places) => u128::from(places[paths as usize]),
        }
    }

    /// Where a path's entries are.
    pub(super) fn of(&self, path: usize) -> std::ops::Range<usize> {
        match self {
            Rows::Stride(stride) => path * stride..(path + 1) * stride,
            Rows::At(places) => places[path] as usize..places[path + 1] as usize,
        }
    }
}

impl Paths {
    /// No paths yet; the first will be that of walk `first`. For walks that come one by one.
    pub fn empty(first: u64) -> Paths {
        Paths { first, rows: Rows::At(vec![0]), vertices: Vec::new() }
    }

    /// Adds the path of the next walk.
    ///
    /// # Panics
    ///
    /// If these are not paths that began with [`Paths::empty`].
    pub fn push(&mut self, path: &[Vertex]) {
        let Rows::At(places) = &mut self.rows else {
            panic!("paths of one length have no room for another");
        };
        self.vertices.extend_from_slice(path);
        places.push(self.vertices.len() as u64);
    }

    /// Takes all paths away; the next will be that of walk `first`. Memory is kept.
    pub fn clear(&mut self, first: u64) {
        self.first = first;
        self.vertices.clear();
        match &mut self.rows {
            Rows::At(places) => places.truncate(1),
            rows => *rows = Rows::At(vec![0]),
        }
    }

    /// The number of the first walk.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.rows {
            Rows::Stride(stride) => self.vertices.len() / stride,
            Rows::At(places) => places.len() - 1,
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The vertices of a walk in their order, its source first. `path` counts from 0 here.
    ///
    /// # Panics
    ///
    /// If there is no such path.
    pub fn path(&self, path: usize) -> &[Vertex] {
        let row = &self.vertices[self.rows.of(path)];
        match row.last() {
            // The walk ended early: the rest of its row is `NOWHERE`.
            Some(&NOWHERE) => &row[..row.partition_point(|&vertex| vertex != NOWHERE)],
            _ => row,
        }
    }

    /// Each walk's number and path.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[Vertex])> {
        (0..self.len()).map(|path| (self.first + path as u64, self.path(path)))
    }

    /// The whole array: paths one after the other, each filled up with
    /// [`NOWHERE`](paceline_proto::walk::NOWHERE) behind a dead end, unless that is its source.
    pub fn vertices(&self) -> &[Vertex] {
        &self.vertices
    }

    /// Where each path begins in [`Paths::vertices`].
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Bytes that the paths take.
    pub fn memory_bytes(&self) -> usize {
        let places = match &self.rows {
            Rows::Stride(_) => 0,
            Rows::At(places) => size_of_val(&**places),
        };
        places + size_of_val(&*self.vertices)
    }
}
