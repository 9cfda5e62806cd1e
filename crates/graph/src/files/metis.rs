//! The graph format of METIS.
//!
//! Source: Karypis, *METIS 5.1.0 Manual*, section 4.1.1.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

use paceline_proto::walk::{Graph, Vertex};

use super::NamedGraph;
use super::edges::{shown, weight};
use super::error::FileError;
use super::ids::Ids;
use super::input::Plain;
use super::output::{append_number, whole};
use crate::csr::{self, Rows};

/// Bytes of a line: the row of a vertex of thirty million edges.
const LINE_BYTES_MAX: u64 = 256 << 20;

const HEADING: &str = "expected a METIS header: the numbers of vertices and edges, and optionally \
                       a format of three binary digits and a number of vertex weights";

/// What the first line says.
struct Heading {
    vertices: u64,
    edges: u64,
    /// Numbers of a line before the first neighbour: a size and weights of the vertex.
    skipped: usize,
    is_weighted: bool,
}

impl Heading {
    fn parse(line: &[u8]) -> Option<Heading> {
        let numbers: Vec<&[u8]> = words(line).collect();
        let (vertices, edges) = (whole(numbers.first()?)?, whole(numbers.get(1)?)?);
        let format = numbers.get(2).copied().unwrap_or(b"0");
        if numbers.len() > 4 || format.len() > 3 || !format.iter().all(|d| matches!(d, b'0' | b'1'))
        {
            return None;
        }
        // Digits from the right: weights of edges, weights of vertices, sizes of vertices.
        let has = |place: usize| format.iter().rev().nth(place) == Some(&b'1');
        let weights = match numbers.get(3) {
            Some(number) => usize::try_from(whole(number)?).ok().filter(|&count| count <= 1000)?,
            None => 1,
        };
        let skipped = usize::from(has(2)) + if has(1) { weights } else { 0 };
        Some(Heading { vertices, edges, skipped, is_weighted: has(0) })
    }
}

pub fn read(path: &Path, plain: Plain, options: csr::Options) -> Result<NamedGraph, FileError> {
    let mut text = Lines { path, text: BufReader::new(plain), line: 0, bytes: Vec::new() };
    let heading = loop {
        match text.next()? {
            false => return Err(FileError::Empty { path: path.to_owned() }),
            true if words(&text.bytes).next().is_none() => {}
            true => break Heading::parse(&text.bytes).ok_or_else(|| text.fault(HEADING))?,
        }
    };
    let Heading { vertices, edges, skipped, is_weighted } = heading;
    if vertices > Graph::VERTICES_MAX {
        let most = Graph::VERTICES_MAX;
        return Err(text.fault(format!("{vertices} vertices, more than the maximum of {most}")));
    }
    let mut rows = Rows { offsets: vec![0], ..Rows::default() };
    let mut weights = is_weighted.then(Vec::new);
    for vertex in 0..vertices {
        if !text.next()? {
            let wrong = format!("{vertex} rows, where the header declares {vertices} vertices");
            return Err(FileError::content(path, wrong));
        }
        let mut numbers = words(&text.bytes);
        if numbers.by_ref().take(skipped).count() < skipped {
            return Err(text.fault(format!("expected {skipped} vertex numbers before the edges")));
        }
        while let Some(word) = numbers.next() {
            match whole(word) {
                Some(to @ 1..) if to <= vertices => rows.targets.push((to - 1) as Vertex),
                _ => {
                    let found = shown(word);
                    return Err(
                        text.fault(format!("`{found}` is not a vertex: expected 1 to {vertices}"))
                    );
                }
            }
            if let Some(weights) = &mut weights {
                let word = numbers.next().ok_or("the last edge's weight is missing".to_owned());
                weights.push(word.and_then(weight).map_err(|wanted| text.fault(wanted))?);
            }
        }
        rows.offsets.push(rows.targets.len() as u64);
    }
    while text.next()? {
        if words(&text.bytes).next().is_some() {
            return Err(text.fault(format!("a row after those of all {vertices} vertices")));
        }
    }
    let found = rows.targets.len() as u64;
    if Some(found) != edges.checked_mul(2) {
        let wrong = format!(
            "the header declares {edges} edges, each listed at both ends, and the \
            rows have {found} ends"
        );
        return Err(FileError::content(path, wrong));
    }
    rows.weights = weights;
    rows.sort();
    finish(path, rows, Ids::identity(vertices as u32), options)
}

/// The graph of rows that are in order, once the options are heeded.
pub fn finish(
    path: &Path,
    rows: Rows,
    ids: Ids,
    options: csr::Options,
) -> Result<NamedGraph, FileError> {
    let rows = if options == csr::Options::default() { rows } else { rows.rebuilt(options) };
    let (graph, weights) = rows.into_graph().map_err(|source| FileError::graph(path, source))?;
    Ok(NamedGraph { graph, ids, weights })
}

struct Lines<'a> {
    path: &'a Path,
    text: BufReader<Plain>,
    line: u64,
    bytes: Vec<u8>,
}

impl Lines<'_> {
    /// Reads the next line that is no comment; false at the end.
    fn next(&mut self) -> Result<bool, FileError> {
        loop {
            self.bytes.clear();
            let mut text = (&mut self.text).take(LINE_BYTES_MAX);
            let read = text.read_until(b'\n', &mut self.bytes).map_err(|source| {
                FileError::Damaged { path: self.path.to_owned(), line: self.line, source }
            })?;
            self.line += 1;
            if read as u64 == LINE_BYTES_MAX {
                return Err(self.fault("a line of 256 MiB or more"));
            }
            if self.bytes.first() != Some(&b'%') {
                return Ok(read > 0);
            }
        }
    }

    fn fault(&self, wanted: impl Into<String>) -> FileError {
        FileError::line(self.path, self.line, &self.bytes, wanted)
    }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

pub fn write(path: &Path, named: &NamedGraph, out: &mut impl Write) -> Result<(), FileError> {
    let graph = &named.graph;
    let refused = |wrong: String| Err(FileError::content(path, wrong));
    let offsets = graph.offsets();
    let weights = named.weights.as_deref();
    for vertex in 0..graph.vertices() {
        let row = graph.row_of(vertex).targets;
        let begin = offsets[vertex as usize] as usize;
        for (edge, &to) in (begin..).zip(row) {
            if to == vertex {
                return refused(format!("METIS excludes self-loops, and vertex {vertex} has one"));
            }
            // The edge back, at its place among the other one's.
            let back = graph.row_of(to).targets.partition_point(|&other| other < vertex);
            let back = offsets[to as usize] as usize + back;
            let is_last = back as u64 >= offsets[to as usize + 1];
            if is_last || graph.targets()[back] != vertex {
                let wrong = format!(
                    "METIS files are undirected graphs, and the edge from {vertex} to {to} \
                        has no reverse edge"
                );
                return refused(wrong);
            }
            if row.get(edge - begin + 1) == Some(&to) {
                return refused(format!(
                    "METIS excludes duplicate edges, and the edge from {vertex} \
                    to {to} is one"
                ));
            }
            let Some(weights) = weights else { continue };
            if weights[edge] != weights[back] || weights[edge].fract() != 0.0 {
                let (there, back) = (weights[edge], weights[back]);
                return refused(format!(
                    "METIS weights are whole numbers, equal in both directions; the edge from \
                     {vertex} to {to} has {there} and {back}"
                ));
            }
        }
    }
    let mut text = format!("{} {}", graph.vertices(), graph.edges() / 2).into_bytes();
    text.extend_from_slice(if weights.is_some() { b" 001\n" } else { b"\n" });
    let mut edge = 0;
    for vertex in 0..graph.vertices() {
        for (place, &to) in graph.row_of(vertex).targets.iter().enumerate() {
            if place > 0 {
                text.push(b' ');
            }
            append_number(&mut text, u64::from(to) + 1);
            if let Some(weights) = weights {
                text.push(b' ');
                append_number(&mut text, weights[edge] as u64);
            }
            edge += 1;
        }
        text.push(b'\n');
        if text.len() > 1 << 16 || vertex + 1 == graph.vertices() {
            out.write_all(&text).map_err(|source| FileError::system(path, source))?;
            text.clear();
        }
    }
    out.write_all(&text).map_err(|source| FileError::system(path, source))
}
