//! Arrays as NumPy writes them.
//!
//! Source: NumPy Enhancement Proposal 1, *A Simple File Format for NumPy Arrays*, versions 1 to 3.

use std::io::{self, Read, Write};

/// The header of an array, and a reader of its entries.
pub struct Array<R> {
    /// The type of entries: `<i4` and the like.
    descr: String,
    /// Entries along each axis.
    pub shape: Vec<u64>,
    entries: R,
}

/// Bytes of a header. NumPy's own limit is 10,000.
const HEADER_BYTES_MAX: usize = 65_536;

/// Entries converted at once.
const ENTRIES: usize = 8192;

/// A number as an array has it.
#[derive(Clone, Copy)]
enum Number {
    Whole(i128),
    Real(f64),
}

/// An array of numbers of one type, and how many bytes each has.
struct Type {
    kind: u8,
    size: usize,
    is_big_endian: bool,
}

fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

impl<R: Read> Array<R> {
    /// Reads the header.
    pub fn new(mut entries: R) -> io::Result<Array<R>> {
        let mut head = [0; 8];
        entries.read_exact(&mut head)?;
        if head[..6] != *b"\x93NUMPY" {
            return Err(wrong("the file does not begin with the magic bytes of a NumPy array"));
        }
        let length = match head[6] {
            1 => {
                let mut length = [0; 2];
                entries.read_exact(&mut length)?;
                u16::from_le_bytes(length).into()
            }
            2 | 3 => {
                let mut length = [0; 4];
                entries.read_exact(&mut length)?;
                u32::from_le_bytes(length) as usize
            }
            version => {
                return Err(wrong(format!("format version {version}: this build reads 1 to 3")));
            }
        };
        if length > HEADER_BYTES_MAX {
            return Err(wrong(format!("the header has {length} bytes")));
        }
        let mut header = vec![0; length];
        entries.read_exact(&mut header)?;
        let header = String::from_utf8_lossy(&header).into_owned();
        let (descr, shape) = parse_header(&header)
            .ok_or_else(|| wrong(format!("its header is `{}`", header.trim())))?;
        Ok(Array { descr, shape, entries })
    }

    /// How many entries there are.
    pub fn count(&self) -> io::Result<u64> {
        let count = self.shape.iter().try_fold(1u64, |count, &axis| count.checked_mul(axis));
        count.ok_or_else(|| wrong(format!("its shape is {:?}", self.shape)))
    }

    /// All entries as text: of type `S` or `U`, without what fills them up.
    pub fn text(mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.entries.by_ref().take(1024).read_to_end(&mut bytes)?;
        // Both are ASCII for all that is asked here, `U` in four bytes each.
        let is_text = self.descr.contains(['S', 'U']);
        let letters = bytes.iter().filter(|&&byte| byte != 0).map(|&byte| char::from(byte));
        is_text.then(|| letters.collect()).ok_or_else(|| wrong("it is not text"))
    }

    /// All entries as whole numbers.
    pub fn wholes<T: TryFrom<i128>>(self) -> io::Result<Vec<T>> {
        self.convert(|number| match number {
            Number::Whole(whole) => T::try_from(whole).map_err(|_| {
                wrong(format!(
                    "the entries are \
                {whole}"
                ))
            }),
            Number::Real(real) => Err(wrong(format!(
                "the entries are {real}, expected whole \
                numbers"
            ))),
        })
    }

    /// All entries as weights.
    pub fn reals(self) -> io::Result<Vec<f32>> {
        self.convert(|number| match number {
            Number::Whole(whole) => Ok(whole as f32),
            Number::Real(real) => Ok(real as f32),
        })
    }

    fn convert<T>(mut self, entry: impl Fn(Number) -> io::Result<T>) -> io::Result<Vec<T>> {
        let entry_type = Type::parse(&self.descr).ok_or_else(|| {
            wrong(format!(
                "the entries have the type `{}`, expected whole or real numbers",
                self.descr
            ))
        })?;
        let count = self.count()?;
        // Memory grows with the entries read: the header may be wrong.
        let mut entries = Vec::with_capacity(count.min(1 << 20) as usize);
        let mut bytes = vec![0; ENTRIES * entry_type.size];
        let mut left = count;
        while left > 0 {
            let some = left.min(ENTRIES as u64) as usize;
            let bytes = &mut bytes[..some * entry_type.size];
            self.entries.read_exact(bytes)?;
            for bytes in bytes.chunks_exact(entry_type.size) {
                entries.push(entry(entry_type.number(bytes))?);
            }
            left -= some as u64;
        }
        // Reading up to the end makes the archive compare its checksum.
        match self.entries.read(&mut [0])? {
            0 => Ok(entries),
            _ => Err(wrong(format!("more entries than the {count} that the header declares"))),
        }
    }
}

impl Type {
    fn parse(descr: &str) -> Option<Type> {
        let [order, kind, size @ ..] = descr.as_bytes() else { return None };
        let size = match size {
            b"1" => 1,
            b"2" => 2,
            b"4" => 4,
            b"8" => 8,
            _ => return None,
        };
        let is_number = match kind {
            b'i' | b'u' => true,
            b'b' => size == 1,
            b'f' => size >= 4,
            _ => false,
        };
        let has_order = matches!(order, b'<' | b'>') || (*order == b'|' && size == 1);
        let is_big_endian = *order == b'>';
        (is_number && has_order).then_some(Type { kind: *kind, size, is_big_endian })
    }

    fn number(&self, bytes: &[u8]) -> Number {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        if self.is_big_endian {
            wide[..bytes.len()].reverse();
        }
        let bits = u64::from_le_bytes(wide);
        match (self.kind, self.size) {
            (b'i', size) => {
                let unused = 64 - 8 * size as u32;
                Number::Whole((((bits << unused) as i64) >> unused).into())
            }
            (b'f', 4) => Number::Real(f32::from_bits(bits as u32).into()),
            (b'f', _) => Number::Real(f64::from_bits(bits)),
            _ => Number::Whole(bits.into()),
        }
    }
}

/// The type and shape in a header such as
/// `{'descr': '<i4', 'fortran_order': False, 'shape': (5,)}`.
fn parse_header(header: &str) -> Option<(String, Vec<u64>)> {
    let behind = |key: &str| {
        let begin = header.find(key)? + key.len();
        Some(header[begin..].trim_start().strip_prefix(':')?.trim_start())
    };
    let descr = behind("'descr'")?.strip_prefix('\'')?;
    let descr = &descr[..descr.find('\'')?];
    let shape = behind("'shape'")?.strip_prefix('(')?;
    let shape = shape[..shape.find(')')?].split(',').map(str::trim);
    let shape: Result<Vec<u64>, _> =
        shape.filter(|axis| !axis.is_empty()).map(str::parse).collect();
    let shape = shape.ok()?;
    // The order of axes makes a difference only if there are two.
    let is_fortran = behind("'fortran_order'")?.starts_with("True");
    (!is_fortran || shape.len() < 2).then(|| (descr.to_owned(), shape))
}

/// Writes the header of an array with this many entries along each axis.
pub fn write_header(out: &mut impl Write, descr: &str, shape: &[u64]) -> io::Result<()> {
    // A tuple of one has a comma, as in Python.
    let axes: String = shape.iter().map(|axis| format!("{axis},")).collect();
    let shape = if shape.len() > 1 { axes.trim_end_matches(',') } else { &axes };
    let shape = format!("({})", shape.replace(',', ", ").trim_end());
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Entries begin at a multiple of 64 bytes.
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(descr: &str, shape: &str, entries: &[u8]) -> io::Result<Array<Vec<u8>>> {
        let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(entries);
        let Array { descr, shape, mut entries } = Array::new(&bytes[..])?;
        let mut rest = Vec::new();
        entries.read_to_end(&mut rest)?;
        Ok(Array { descr, shape, entries: rest })
    }

    fn open(array: &Array<Vec<u8>>) -> Array<&[u8]> {
        let (descr, shape) = (array.descr.clone(), array.shape.clone());
        Array { descr, shape, entries: &array.entries[..] }
    }

    #[test]
    fn numbers_of_every_width_and_order_are_read() {
        let wholes = |descr: &str, entries: &[u8]| {
            let count = entries.len() / descr[2..].parse::<usize>().unwrap();
            open(&array(descr, &format!("({count},)"), entries).unwrap()).wholes::<i64>().unwrap()
        };
        assert_eq!(wholes("|i1", &[0xff, 5]), [-1, 5]);
        assert_eq!(wholes("|b1", &[1, 0]), [1, 0]);
        assert_eq!(wholes("<i4", &[0xfe, 0xff, 0xff, 0xff]), [-2]);
        assert_eq!(wholes(">u2", &[1, 2]), [258]);
        assert_eq!(wholes(">i8", &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfd]), [-3]);
        let real = array("<f8", "(1,)", &2.5f64.to_le_bytes()).unwrap();
        assert_eq!(open(&real).reals().unwrap(), [2.5]);
        assert!(open(&real).wholes::<u32>().is_err());
        let negative = array("<i4", "(1,)", &(-1i32).to_le_bytes()).unwrap();
        assert_eq!(open(&negative).wholes::<u32>().unwrap_err().to_string(), "the entries are -1");
    }

    #[test]
    fn arrays_that_are_too_short_or_long_or_of_something_else_are_refused() {
        let refused = |descr: &str, shape: &str| {
            let array = array(descr, shape, &[0; 8])?;
            open(&array).wholes::<u64>().map(|_| ())
        };
        assert!(refused("<i8", "(1,)").is_ok());
        let kind = |result: io::Result<()>| result.unwrap_err().kind();
        assert_eq!(kind(refused("<i8", "(2,)")), io::ErrorKind::UnexpectedEof);
        assert_eq!(kind(refused("<i4", "(1,)")), io::ErrorKind::InvalidData);
        assert_eq!(kind(refused("<i4", "(99999999999, 99999999999)")), io::ErrorKind::InvalidData);
        assert_eq!(kind(refused("<c16", "(1,)")), io::ErrorKind::InvalidData);
        assert_eq!(kind(refused("<i8", "(1")), io::ErrorKind::InvalidData);
        assert!(Array::new(&b"\x93NUMPY\x04\x00"[..]).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = Vec::new();
        write_header(&mut bytes, "<u4", &[3]).unwrap();
        assert_eq!(bytes.len() % 64, 0);
        bytes.extend([1u32, 2, 3].iter().flat_map(|number| number.to_le_bytes()));
        assert_eq!(Array::new(&bytes[..]).unwrap().wholes::<u32>().unwrap(), [1, 2, 3]);
        bytes.clear();
        write_header(&mut bytes, "|S3", &[]).unwrap();
        bytes.extend(b"csr");
        let array = Array::new(&bytes[..]).unwrap();
        assert_eq!((array.count().unwrap(), array.text().unwrap()), (1, "csr".to_owned()));
        bytes.clear();
        write_header(&mut bytes, "<i8", &[7, 81]).unwrap();
        assert_eq!(bytes.len() % 64, 0);
        assert!(String::from_utf8_lossy(&bytes).contains("'shape': (7, 81), "));
        assert_eq!(Array::new(&bytes[..]).unwrap().shape, [7, 81]);
    }
}
