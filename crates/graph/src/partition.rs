//! Partitions: the owner of each vertex.

use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

use paceline_proto::core::mix;
use paceline_proto::walk::{Graph, Vertex};
use thiserror::Error;

use crate::files::{FileError, NewFile, append_number, excerpt};

/// A part for each vertex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    owners: Vec<u16>,
    parts: u16,
}

/// The quality of a partition for walks: each step along a cut edge is a message.
#[derive(Clone, Debug, PartialEq)]
pub struct Quality {
    /// Edges between different parts.
    pub edges_cut: u64,
    /// The same as a share of all edges, 0 to 1. 0 if there are none.
    pub cut: f64,
    /// Vertices of each part.
    pub vertices: Vec<u64>,
    /// Outgoing edges of each part's vertices.
    pub edges: Vec<u64>,
    /// Vertices of the largest part over their mean. 1 is even.
    pub vertices_balance: f64,
    /// Edges of the part that has most over their mean.
    pub edges_balance: f64,
}

/// Why a partition cannot be made. The caller, or the writer of the file, is at fault.
#[derive(Debug, Error)]
pub enum PartitionError {
    /// There are no parts.
    #[error("0 parts, expected 1 to 65535")]
    NoParts,
    /// A vertex is in a part that does not exist.
    #[error("vertex {vertex} is in part {part}, but there are only {parts} parts")]
    NoSuchPart {
        /// The vertex.
        vertex: usize,
        /// Its part.
        part: u16,
        /// How many there are.
        parts: u16,
    },
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// A line of the file is not the number of a part.
    #[error("{}: line {line}: `{found}` is not a part: expected 0 to 65534", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// Its text, or the beginning.
        found: String,
    },
    /// The number of lines is not that of the vertices.
    #[error(
        "{}: {lines} lines for {vertices} vertices, expected a line for each vertex",
        path.display()
    )]
    Count {
        /// The file.
        path: PathBuf,
        /// Lines.
        lines: u64,
        /// Vertices.
        vertices: u32,
    },
}

impl Partition {
    /// Each vertex in the part given for it.
    pub fn new(owners: Vec<u16>, parts: u16) -> Result<Partition, PartitionError> {
        let parts = Partition::some(parts)?;
        match owners.iter().position(|&part| part >= parts) {
            Some(vertex) => Err(PartitionError::NoSuchPart { vertex, part: owners[vertex], parts }),
            None => Ok(Partition { owners, parts }),
        }
    }

    /// Assigns each vertex by its hash: balanced, regardless of edges.
    pub fn hash(vertices: u32, parts: u16) -> Result<Partition, PartitionError> {
        let parts = Partition::some(parts)?;
        let place = |vertex| (u128::from(mix(vertex)) * u128::from(parts)) >> 64;
        let owners = (0..u64::from(vertices)).map(|vertex| place(vertex) as u16).collect();
        Ok(Partition { owners, parts })
    }

    /// Neighbouring numbers together, in parts of equally many vertices.
    pub fn range(vertices: u32, parts: u16) -> Result<Partition, PartitionError> {
        let parts = Partition::some(parts)?;
        let part = |vertex| vertex * u64::from(parts) / u64::from(vertices);
        Ok(Partition { owners: (0..vertices.into()).map(|v| part(v) as u16).collect(), parts })
    }

    /// Neighbouring numbers together, in parts of about equally many edges.
    pub fn range_by_edges(graph: &Graph, parts: u16) -> Result<Partition, PartitionError> {
        let parts = Partition::some(parts)?;
        if graph.edges() == 0 {
            return Partition::range(graph.vertices(), parts);
        }
        // A vertex belongs to the part in which the middle of its row lies.
        let part = |pair: &[u64]| {
            let middle = u128::from(pair[0]) + u128::from(pair[1]);
            let part = middle * u128::from(parts) / (2 * u128::from(graph.edges()));
            part.min(u128::from(parts - 1)) as u16
        };
        Ok(Partition { owners: graph.offsets().windows(2).map(part).collect(), parts })
    }

    /// Neighbouring numbers together, in parts of these sizes.
    pub fn blocks(sizes: &[u32]) -> Result<Partition, PartitionError> {
        let parts = Partition::some(u16::try_from(sizes.len()).unwrap_or(0))?;
        let owners = (0..parts).zip(sizes);
        let owners = owners.flat_map(|(part, &size)| std::iter::repeat_n(part, size as usize));
        Ok(Partition { owners: owners.collect(), parts })
    }

    /// Reads a file as METIS writes it: a part's number for each vertex, one a line. The greatest
    /// number gives the number of parts.
    pub fn read(path: &Path, vertices: u32) -> Result<Partition, PartitionError> {
        let at = |source| PartitionError::Read { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(at)?;
        Partition::parse(path, std::io::BufReader::new(file), vertices)
    }

    fn parse(
        path: &Path,
        mut text: impl BufRead,
        vertices: u32,
    ) -> Result<Partition, PartitionError> {
        /// Bytes of a line: a number, and room for blanks.
        const LINE_BYTES_MAX: u64 = 64;
        let mut owners = Vec::new();
        let mut lines = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = std::io::Read::take(&mut text, LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let read =
                read.map_err(|source| PartitionError::Read { path: path.to_owned(), source })?;
            if read == 0 {
                break;
            }
            lines += 1;
            let part = match String::from_utf8_lossy(&line).trim().parse::<u16>() {
                Ok(part) if part < u16::MAX => part,
                _ => {
                    let (path, found) = (path.to_owned(), excerpt(&line));
                    return Err(PartitionError::Line { path, line: lines, found });
                }
            };
            if owners.len() < vertices as usize {
                owners.push(part);
            }
        }
        if lines != u64::from(vertices) {
            return Err(PartitionError::Count { path: path.to_owned(), lines, vertices });
        }
        let parts = owners.iter().max().map_or(1, |part| part + 1);
        Ok(Partition { owners, parts })
    }

    /// Writes a file as METIS does: the part of each vertex on a line, in the order of the
    /// vertices.
    pub fn write(&self, path: &Path) -> Result<(), FileError> {
        let mut file = NewFile::create(path)?;
        for owners in self.owners.chunks(1 << 14) {
            let mut text = Vec::new();
            for &part in owners {
                append_number(&mut text, part.into());
                text.push(b'\n');
            }
            file.write_all(&text).map_err(|source| FileError::system(path, source))?;
        }
        file.finish()
    }

    fn some(parts: u16) -> Result<u16, PartitionError> {
        if parts == 0 { Err(PartitionError::NoParts) } else { Ok(parts) }
    }

    /// The part of a vertex.
    ///
    /// # Panics
    ///
    /// If there is no such vertex.
    pub fn owner(&self, vertex: Vertex) -> u16 {
        self.owners[vertex as usize]
    }

    /// The part of each vertex.
    pub fn owners(&self) -> &[u16] {
        &self.owners
    }

    /// How many parts there are. Some may have no vertices.
    pub fn parts(&self) -> u16 {
        self.parts
    }

    /// The quality for walks over this graph.
    ///
    /// # Panics
    ///
    /// If the partition has another number of vertices than the graph.
    pub fn quality(&self, graph: &Graph) -> Quality {
        assert_eq!(self.owners.len(), graph.vertices() as usize);
        let mut vertices = vec![0; self.parts as usize];
        let mut edges = vec![0; self.parts as usize];
        let mut edges_cut = 0;
        for (from, &part) in (0..).zip(&self.owners) {
            let row = graph.row_of(from);
            vertices[part as usize] += 1;
            edges[part as usize] += row.targets.len() as u64;
            edges_cut += row.targets.iter().filter(|&&to| self.owner(to) != part).count() as u64;
        }
        let cut = edges_cut as f64 / graph.edges().max(1) as f64;
        let (vertices_balance, edges_balance) = (balance(&vertices), balance(&edges));
        Quality { edges_cut, cut, vertices, edges, vertices_balance, edges_balance }
    }
}

/// The largest over the mean; 1 if there is nothing.
fn balance(parts: &[u64]) -> f64 {
    let (sum, max) = (parts.iter().sum::<u64>(), parts.iter().max().copied().unwrap_or(0));
    if sum == 0 { 1.0 } else { max as f64 * parts.len() as f64 / sum as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Rmat;

    #[test]
    fn a_cut_and_balances_are_those_counted_by_hand() {
        let graph = Graph::from_edges(4, [(0, 1), (1, 0), (0, 2), (0, 3), (3, 3)]).unwrap();
        let quality = Partition::new(vec![0, 0, 1, 0], 2).unwrap().quality(&graph);
        assert_eq!((quality.edges_cut, quality.cut), (1, 0.2));
        assert_eq!((&*quality.vertices, &*quality.edges), (&[3, 1][..], &[5, 0][..]));
        assert_eq!((quality.vertices_balance, quality.edges_balance), (1.5, 2.0));
    }

    #[test]
    fn parts_are_even_in_what_they_are_to_be_even_in() {
        let graph = Rmat { shuffle: false, ..Rmat::new(12) }.generate(1).unwrap();
        let hash = Partition::hash(4096, 7).unwrap().quality(&graph);
        assert!(hash.vertices_balance < 1.1, "{hash:?}");
        assert!((hash.cut - 6.0 / 7.0).abs() < 0.05, "{hash:?}");
        let range = Partition::range(4096, 7).unwrap();
        assert!(range.owners().is_sorted() && range.quality(&graph).vertices_balance < 1.01);
        let by_edges = Partition::range_by_edges(&graph, 7).unwrap();
        assert!(by_edges.owners().is_sorted());
        assert!(by_edges.quality(&graph).edges_balance < 1.05);
        assert!(range.quality(&graph).edges_balance > 2.0);
        let blocks = Partition::blocks(&[2, 0, 1]).unwrap();
        assert_eq!((blocks.owners(), blocks.parts()), (&[0, 0, 2][..], 3));
    }

    #[test]
    fn fewer_vertices_than_parts_leave_parts_empty() {
        let graph = Graph::from_edges(2, [(0, 1)]).unwrap();
        for partition in [Partition::range(2, 5), Partition::range_by_edges(&graph, 5)] {
            assert_eq!(partition.unwrap().quality(&graph).vertices.iter().sum::<u64>(), 2);
        }
        assert_eq!(Partition::range(0, 5).unwrap().owners(), [0u16; 0]);
        assert_eq!(balance(&[]), 1.0);
    }

    #[test]
    fn a_written_partition_is_read_back_equal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.part");
        let partition = Partition::hash(40_000, 1000).unwrap();
        partition.write(&path).unwrap();
        assert!(Partition::read(&path, 40_000).unwrap() == partition);
        let nowhere = partition.write(Path::new("/nonexistent/x.part")).unwrap_err();
        assert!(nowhere.to_string().starts_with("/nonexistent/x.part: "));
    }

    #[test]
    fn a_file_of_parts_is_read_and_its_mistakes_are_named() {
        let parse = |text: &str, vertices| {
            Partition::parse(Path::new("x.part.3"), text.as_bytes(), vertices)
                .map_err(|error| error.to_string())
        };
        let partition = parse("2\n0\r\n 1 \n2", 4).unwrap();
        assert_eq!((partition.owners(), partition.parts()), (&[2, 0, 1, 2][..], 3));
        let wrong = "x.part.3: line 2: `-1` is not a part: expected 0 to 65534";
        assert_eq!(parse("0\n-1\n", 2).unwrap_err(), wrong);
        assert!(parse("0\n65535\n", 2).unwrap_err().contains("line 2: `65535`"));
        assert!(parse("0\n1\n", 3).unwrap_err().contains("2 lines for 3 vertices"));
        assert!(parse("0\n1\n1\n1\n", 3).unwrap_err().contains("4 lines for 3 vertices"));
        assert!(parse(&"7".repeat(100), 1).unwrap_err().contains("line 1"));
        let missing = Partition::read(Path::new("/nonexistent/parts"), 1).unwrap_err();
        assert!(missing.to_string().starts_with("/nonexistent/parts: "));
        assert!(Partition::new(vec![0, 3], 3).is_err() && Partition::hash(1, 0).is_err());
    }
}
