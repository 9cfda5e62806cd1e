use std::fmt;
use std::str::FromStr;

use super::name::{Name, NameError};
use super::tlv::{self, kind};

/// Words that stand for a type whose values are numbers.
const NUMBERS: [(&str, u32); 5] = [
    ("seg", kind::SEGMENT),
    ("off", kind::BYTE_OFFSET),
    ("v", kind::VERSION),
    ("t", kind::TIMESTAMP),
    ("seq", kind::SEQUENCE_NUMBER),
];

/// Words that stand for a type whose values are digests.
const DIGESTS: [(&str, u32); 2] =
    [("sha256digest", kind::IMPLICIT_DIGEST), ("params-sha256", kind::PARAMETERS_DIGEST)];

impl Name {
    /// Reads the form `/a/b%20c/32=metadata/v=1/seg=7`, with `ndn:` before it or not.
    ///
    /// Source: NDN packet format 0.3, "NDN URI scheme", and the naming conventions (NDN-0022,
    /// revision 3) for `seg`, `off`, `v`, `t` and `seq`. Some implementations, python-ndn among
    /// them, do not know that `...` is an empty component.
    pub fn from_uri(uri: &str) -> Result<Name, NameError> {
        let path = uri.strip_prefix("ndn:").unwrap_or(uri);
        let path = path.strip_prefix('/').ok_or(NameError::Relative)?;
        if path.is_empty() {
            return Ok(Name::root());
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        path.split('/').try_fold(Name::root(), |name, text| {
            let (kind, value) = parse_component(text)?;
            name.component(kind, &value)
        })
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(uri: &str) -> Result<Name, NameError> {
        Name::from_uri(uri)
    }
}

/// The form that [`Name::from_uri`] reads as the same name.
impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return f.write_str("/");
        }
        for component in self.components() {
            f.write_str("/")?;
            let kind = u32::from(component.kind());
            if let Some((word, _)) = DIGESTS.iter().find(|(_, of)| *of == kind) {
                write!(f, "{word}=")?;
                component.value().iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
                continue;
            }
            let word = NUMBERS.iter().find(|(_, of)| *of == kind);
            if let (Some((word, _)), Some(number)) = (word, component.number()) {
                write!(f, "{word}={number}")?;
                continue;
            }
            if kind != kind::GENERIC {
                write!(f, "{kind}=")?;
            }
            write_escaped(f, component.value())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn parse_component(text: &str) -> Result<(u16, Vec<u8>), NameError> {
    let Some((word, value)) = text.split_once('=') else {
        return Ok((kind::GENERIC as u16, unescape(text)?));
    };
    if let Some((_, kind)) = NUMBERS.iter().find(|(of, _)| *of == word) {
        // `parse` would take a sign.
        if !value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(NameError::Number);
        }
        let number = value.parse().map_err(|_| NameError::Number)?;
        let mut bytes = Vec::with_capacity(8);
        tlv::put_integer(&mut bytes, number);
        return Ok((*kind as u16, bytes));
    }
    if let Some((_, kind)) = DIGESTS.iter().find(|(of, _)| *of == word) {
        if value.len() != 64 {
            return Err(NameError::Digest);
        }
        let bytes = value.as_bytes().chunks_exact(2).map(|pair| hex(pair).ok_or(NameError::Digest));
        return Ok((*kind as u16, bytes.collect::<Result<_, _>>()?));
    }
    if !word.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(NameError::Kind);
    }
    let kind: u16 = word.parse().map_err(|_| NameError::Kind)?;
    if kind == 0 {
        return Err(NameError::Kind);
    }
    Ok((kind, unescape(value)?))
}

/// Three dots stand before a value of nothing but dots, so that it is no step in a path.
fn unescape(text: &str) -> Result<Vec<u8>, NameError> {
    if text.bytes().all(|byte| byte == b'.') {
        let dots = text.len().checked_sub(3).ok_or(NameError::Empty)?;
        return Ok(vec![b'.'; dots]);
    }
    let mut value = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            value.push(*first);
            continue;
        }
        let pair = tail.get(..2).ok_or(NameError::Percent)?;
        value.push(hex(pair).ok_or(NameError::Percent)?);
        rest = &tail[2..];
    }
    Ok(value)
}

fn write_escaped(f: &mut fmt::Formatter<'_>, value: &[u8]) -> fmt::Result {
    if value.iter().all(|&byte| byte == b'.') {
        f.write_str("...")?;
    }
    for &byte in value {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                write!(f, "{}", char::from(byte))?;
            }
            _ => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

/// The byte that two hexadecimal digits are.
fn hex(pair: &[u8]) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8)
}
