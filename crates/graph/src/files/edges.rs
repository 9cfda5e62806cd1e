//! Edge lists: an edge a line.

use std::path::Path;

use rayon::prelude::*;

use super::error::FileError;
use super::ids::Loose;
use super::input::{BLOCK_BYTES, BlockError, Blocks, Plain, lines};
use super::{NamedGraph, Options};

/// The fields of a line after the two ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Ignored, if there are any.
    Ends,
    /// A weight.
    Weight,
    /// A label.
    Label,
    /// A weight and a label.
    WeightLabel,
}

/// Vertices that a comment may announce for each edge of the file, so that a file of a few bytes
/// does not allocate gigabytes.
const PROMISED_PER_EDGE_MAX: u64 = 64;

/// Vertices that it may announce in any case.
const PROMISED_MAX: u64 = 1 << 20;

/// The layout, found at the beginning of a file.
#[derive(Clone, Copy, Default)]
struct Head {
    columns: Option<Columns>,
    /// True once the first edge was seen.
    is_complete: bool,
    /// True if lines must have as many fields as the columns ask for, and not more.
    is_exact: bool,
    /// Vertices by a comment `# Nodes: 7`, which SNAP's files begin with.
    vertices: Option<u64>,
}

/// Edges of a block.
#[derive(Default)]
struct Piece {
    ends: Vec<(u64, u64)>,
    weights: Vec<f32>,
    labels: Vec<u8>,
    lines: u64,
}

/// The fault of a line: its number, from 0 in its block, and where it begins there.
struct Fault {
    line: u64,
    begin: usize,
    wanted: String,
}

pub fn read(path: &Path, plain: Plain, options: &Options) -> Result<NamedGraph, FileError> {
    let mut blocks = Blocks::new(plain);
    let mut head = Head { columns: options.columns, ..Head::default() };
    let mut loose = Loose::default();
    let mut line = 0;
    let mut batch = next_batch(&mut blocks);
    // The next blocks are read while these are parsed.
    loop {
        let (texts, error) = batch;
        if texts.is_empty() && error.is_none() {
            break;
        }
        for text in &texts {
            head.read(text);
        }
        let parse = || -> Vec<_> { texts.par_iter().map(|text| head.parse(text)).collect() };
        let following = || if error.is_some() { (vec![], None) } else { next_batch(&mut blocks) };
        let (pieces, next) = rayon::join(parse, following);
        for (piece, text) in pieces.into_iter().zip(&texts) {
            let piece = piece.map_err(|fault| {
                let found = text[fault.begin..].split(|&byte| byte == b'\n').next();
                FileError::line(path, line + fault.line + 1, found.unwrap_or(&[]), fault.wanted)
            })?;
            line += piece.lines;
            loose.append(piece.ends, &piece.weights, &piece.labels);
        }
        match error {
            Some(BlockError::Read(source, lines)) => {
                let line = line + lines;
                return Err(FileError::Damaged { path: path.to_owned(), line, source });
            }
            Some(BlockError::LongLine) => {
                let wanted = format!("a line of more than {BLOCK_BYTES} bytes is not an edge");
                return Err(FileError::line(path, line + 1, b"..", wanted));
            }
            None => batch = next,
        }
    }
    if loose.is_empty() && head.vertices.is_none() {
        return Err(FileError::Empty { path: path.to_owned() });
    }
    let promised_max = loose.edges() as u64 * PROMISED_PER_EDGE_MAX + PROMISED_MAX;
    let vertices = head.vertices.filter(|&vertices| vertices <= promised_max);
    loose.into_graph(path, vertices.and_then(|v| u32::try_from(v).ok()), options.edges)
}

/// A block for each thread, as far as there are any, and why there are not more.
fn next_batch(blocks: &mut Blocks) -> (Vec<Vec<u8>>, Option<BlockError>) {
    let mut texts = Vec::new();
    while texts.len() < rayon::current_num_threads() {
        match blocks.next() {
            Ok(text) if text.is_empty() => break,
            Ok(text) => texts.push(text),
            Err(BlockError::Read(error, lines)) => {
                return (texts, Some(BlockError::Read(error, lines)));
            }
            Err(error) => return (texts, Some(error)),
        }
    }
    (texts, None)
}

impl Head {
    /// Looks at the lines up to the first edge.
    fn read(&mut self, text: &[u8]) {
        if self.is_complete {
            return;
        }
        for line in text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii) {
            match line.first() {
                None => {}
                Some(b'#' | b'%') => {
                    let words = String::from_utf8_lossy(&line[..line.len().min(200)]);
                    let mut words = words.split_ascii_whitespace();
                    if words.any(|word| word.eq_ignore_ascii_case("nodes:")) {
                        let promised = words.next().and_then(|word| word.parse().ok());
                        self.vertices = self.vertices.or(promised);
                    }
                }
                Some(_) if is_heading(line) => {}
                Some(_) => {
                    let mut rest = line;
                    let fields = std::iter::from_fn(|| field(&mut rest)).count();
                    self.is_complete = true;
                    self.is_exact = self.columns.is_none();
                    self.columns = self.columns.or(Some(match fields {
                        0..=2 => Columns::Ends,
                        3 => Columns::Weight,
                        _ => Columns::WeightLabel,
                    }));
                    return;
                }
            }
        }
    }

    fn parse(&self, text: &[u8]) -> Result<Piece, Fault> {
        let mut piece = Piece::default();
        let mut begin = 0;
        while begin < text.len() {
            let end = memchr::memchr(b'\n', &text[begin..]).map_or(text.len(), |end| begin + end);
            let line = &text[begin..end];
            if let Err(wanted) = self.parse_line(line, &mut piece) {
                return Err(Fault { line: piece.lines, begin, wanted });
            }
            piece.lines += 1;
            begin = end + 1;
        }
        debug_assert_eq!(piece.lines, lines(text) + u64::from(text.last() != Some(&b'\n')));
        Ok(piece)
    }

    fn parse_line(&self, line: &[u8], piece: &mut Piece) -> Result<(), String> {
        let mut rest = line;
        let Some(first) = field(&mut rest) else { return Ok(()) };
        if matches!(first.first(), Some(b'#' | b'%')) || is_heading(line) {
            return Ok(());
        }
        let from = id(first)?;
        let to = id(field(&mut rest).ok_or("an edge has two ids")?)?;
        let columns = self.columns.unwrap_or(Columns::Ends);
        if matches!(columns, Columns::Weight | Columns::WeightLabel) {
            piece.weights.push(weight(field(&mut rest).ok_or("its weight is missing")?)?);
        }
        if matches!(columns, Columns::Label | Columns::WeightLabel) {
            piece.labels.push(label(field(&mut rest).ok_or("its label is missing")?)?);
        }
        if self.is_exact && field(&mut rest).is_some() {
            return Err("it has more fields than the first line".into());
        }
        piece.ends.push((from, to));
        Ok(())
    }
}

/// The next field of a line. Between two are blanks, or a comma or semicolon and blanks.
fn field<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let begin = rest.iter().position(|byte| !is_blank(byte))?;
    let line = &rest[begin..];
    let end = line.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b',' | b';'));
    let (field, mut behind) = line.split_at(end.unwrap_or(line.len()));
    if let Some(next) = behind.iter().position(|byte| !is_blank(byte))
        && matches!(behind[next], b',' | b';')
    {
        behind = &behind[next + 1..];
    }
    *rest = behind;
    Some(field)
}

/// True of the line that names the columns of a CSV file.
fn is_heading(line: &[u8]) -> bool {
    let mut rest = line;
    let mut names = std::iter::from_fn(|| field(&mut rest)).map(|name| {
        let name = name.trim_ascii().to_ascii_lowercase();
        name.strip_prefix(b"\"").and_then(|n| n.strip_suffix(b"\"")).unwrap_or(&name).to_vec()
    });
    let is_one_of = |name: Option<Vec<u8>>, names: &[&str]| {
        name.is_some_and(|name| names.iter().any(|other| other.as_bytes() == name))
    };
    // Ids begin with digits, so hardly any line is looked at closely.
    line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'"')
        && is_one_of(names.next(), &["source", "src", "from", "fromnodeid", "u"])
        && is_one_of(names.next(), &["target", "dst", "to", "tonodeid", "v"])
}

fn id(field: &[u8]) -> Result<u64, String> {
    number(field).ok_or_else(|| {
        format!("`{}` is not an id: expected a whole number from 0 to {}", shown(field), u64::MAX)
    })
}

fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() || !field.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |byte: u8| u64::from(byte - b'0');
    // Nineteen digits never overflow.
    if field.len() <= 19 {
        return Some(field.iter().fold(0, |number, &byte| number * 10 + digit(byte)));
    }
    field.iter().try_fold(0u64, |n, &byte| n.checked_mul(10)?.checked_add(digit(byte)))
}

pub fn weight(field: &[u8]) -> Result<f32, String> {
    let number = std::str::from_utf8(field).ok().and_then(|field| field.parse::<f32>().ok());
    let weight = number.filter(|weight| weight.is_finite() && *weight >= 0.0);
    weight.ok_or_else(|| no_weight(&shown(field)))
}

/// What is wrong with a weight, and what would be right.
pub fn no_weight(found: &str) -> String {
    format!("`{found}` is not a weight: expected a number from 0 to {:e}", f32::MAX)
}

fn label(field: &[u8]) -> Result<u8, String> {
    let number = number(field).and_then(|number| u8::try_from(number).ok());
    number.ok_or_else(|| format!("`{}` is not a label: expected 0 to 255", shown(field)))
}

/// A field as errors repeat it.
pub fn shown(field: &[u8]) -> String {
    String::from_utf8_lossy(field).chars().take(40).collect()
}
