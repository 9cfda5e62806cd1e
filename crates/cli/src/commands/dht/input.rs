//! The file formats of keys and values: CSV, JSON Lines and Parquet. Each can hold arbitrary bytes.

use std::borrow::Cow;
use std::path::Path;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::content::{from_text_or_base64, text_or_base64};
use crate::error::CliError;

/// Longest entry, bytes: the longest key and the largest value, each byte escaped.
pub const ENTRY_BYTES_MAX: usize = 6 * (64 << 10);

/// What some programs begin a file of UTF-8 with. It is no part of the first entry.
pub const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// How entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// key,value: a field with a comma, quote or line break is in quotes, with each quote doubled
    /// (RFC 4180); the bytes of a field are not changed
    Csv,
    /// {"key":"..","value":".."} in a line; "key_base64" and "value_base64" hold any bytes
    Jsonl,
    /// columns `key` and `value`, of text or bytes (in builds with the feature `parquet`)
    Parquet,
}

/// How the entries of a text are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    Csv,
    Jsonl,
}

/// An entry in JSON: of each pair of keys it has one.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
}

/// An entry as a JSON document.
pub fn document<'a>(key: &'a [u8], value: &'a [u8]) -> impl Serialize + use<'a> {
    let ((key, key_base64), (value, value_base64)) = (text_or_base64(key), text_or_base64(value));
    let (key, value) = (key.map(Cow::from), value.map(Cow::from));
    Entry { key, key_base64, value, value_base64 }
}

impl Format {
    /// By the file's name; CSV if it says nothing.
    pub fn of(path: &Path) -> Format {
        let is_json = |end: &std::ffi::OsStr| end == "jsonl" || end == "ndjson" || end == "json";
        match path.extension() {
            Some(end) if is_json(end) => Format::Jsonl,
            Some(end) if end == "parquet" => Format::Parquet,
            _ => Format::Csv,
        }
    }
}

/// Key and value.
type KeyValue = (Vec<u8>, Vec<u8>);

impl Lines {
    /// Key and value of an entry; an error says what was expected.
    pub fn parse(self, entry: &[u8]) -> Result<KeyValue, String> {
        match self {
            Lines::Csv => parse_csv(entry),
            Lines::Jsonl => parse_json(entry).map_err(|wrong| {
                format!(
                    "{wrong}: expected {{\"key\":\"..\",\"value\":\"..\"}}, or key_base64 and \
                     value_base64 for bytes that are not UTF-8"
                )
            }),
        }
    }

    /// An entry as it is written, without the end of its line.
    pub fn write(self, key: &[u8], value: &[u8]) -> Result<Vec<u8>, CliError> {
        match self {
            Lines::Csv => Ok(csv(key, value)),
            Lines::Jsonl => serde_json::to_vec(&document(key, value))
                .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}"))),
        }
    }
}

/// An entry as CSV, without the end of its line.
pub fn csv(key: &[u8], value: &[u8]) -> Vec<u8> {
    [&field(key), &b","[..], &field(value)].concat()
}

fn parse_json(line: &[u8]) -> Result<KeyValue, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    let entry: Entry<'_> = serde_json::from_str(text).map_err(|error| {
        // The line is ours to name.
        error.to_string().split(" at line").next().unwrap_or_default().to_owned()
    })?;
    let Entry { key, key_base64, value, value_base64 } = entry;
    let key = from_text_or_base64("key", key.map(Cow::into_owned), key_base64)?;
    let value = from_text_or_base64("value", value.map(Cow::into_owned), value_base64)?;
    Ok((key, value))
}

fn parse_csv(entry: &[u8]) -> Result<KeyValue, String> {
    let (key, rest) = take_field(entry)?;
    let rest = rest.ok_or("one field: expected `key,value`")?;
    let (value, rest) = take_field(rest)?;
    match rest {
        None => Ok((key, value)),
        Some(_) => Err("more than two fields: expected `key,value`, with quotes around a field \
                        that has a comma"
            .to_owned()),
    }
}

/// A field, and what follows its comma.
fn take_field(bytes: &[u8]) -> Result<(Vec<u8>, Option<&[u8]>), String> {
    let Some(mut rest) = bytes.strip_prefix(b"\"") else {
        let (field, rest) = match split_once(bytes, b',') {
            Some((field, rest)) => (field, Some(rest)),
            None => (bytes, None),
        };
        if field.contains(&b'"') {
            return Err("a quote within a field: expected quotes around the whole field, and the \
                        quote doubled"
                .to_owned());
        }
        return Ok((field.to_vec(), rest));
    };
    let mut field = Vec::new();
    loop {
        let Some((before, after)) = split_once(rest, b'"') else {
            return Err("a quote is not closed: expected a quote at the end of the field".into());
        };
        field.extend_from_slice(before);
        match after.first() {
            Some(b'"') => field.push(b'"'),
            Some(b',') => return Ok((field, Some(&after[1..]))),
            None => return Ok((field, None)),
            Some(_) => return Err("text after a closing quote: expected a comma".to_owned()),
        }
        rest = &after[1..];
    }
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|&byte| byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// A field as CSV writes it.
pub fn field(bytes: &[u8]) -> Cow<'_, [u8]> {
    let is_special = |byte: &u8| b",\"\n\r".contains(byte);
    if !bytes.iter().any(is_special) && !bytes.starts_with(BYTE_ORDER_MARK) {
        return bytes.into();
    }
    let mut quoted = vec![b'"'];
    for &byte in bytes {
        quoted.extend_from_slice(if byte == b'"' { b"\"\"" } else { std::slice::from_ref(&byte) });
    }
    quoted.push(b'"');
    quoted.into()
}

/// Where in an entry of CSV the lines that were read so far end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quoting {
    /// At the beginning of a field.
    #[default]
    Begin,
    /// In a field without quotes.
    Plain,
    /// In a field in quotes: a line break is a part of it.
    Quoted,
    /// Behind a quote in such a field, which ends it unless another one follows.
    Quote,
}

impl Quoting {
    /// Reads a line. The entry goes on in the next one if this ends in [`Quoting::Quoted`].
    pub fn read(self, line: &[u8]) -> Quoting {
        line.iter().fold(self, |state, &byte| match (state, byte) {
            (Quoting::Quoted, b'"') => Quoting::Quote,
            (Quoting::Quoted, _) => Quoting::Quoted,
            (Quoting::Begin | Quoting::Quote, b'"') => Quoting::Quoted,
            (_, b',') => Quoting::Begin,
            _ => Quoting::Plain,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_any_bytes_come_back_as_they_were_written() {
        let all: Vec<u8> = (0..=255).collect();
        let marked = [BYTE_ORDER_MARK, b"k"].concat();
        let entries: [(&[u8], &[u8]); 8] = [
            (b"a", b"b"),
            (b"", b""),
            (b"a,b", b"say \"x\""),
            (b"\"", b","),
            ("k".as_bytes(), "\u{fc}".as_bytes()),
            (b"\xff\xfe", b"\r\n\r"),
            (&marked, b"\n"),
            (&all, &all),
        ];
        for (key, value) in entries {
            for lines in [Lines::Csv, Lines::Jsonl] {
                let entry = lines.write(key, value).unwrap();
                assert_eq!(lines.parse(&entry), Ok((key.to_vec(), value.to_vec())), "{entry:?}");
                let end = Quoting::default().read(&entry);
                assert!(lines == Lines::Jsonl || end != Quoting::Quoted, "{entry:?}");
            }
        }
        let line = b"{\"value\":\"b\\n\", \"key\":\"a\"}";
        assert_eq!(Lines::Jsonl.parse(line), Ok((b"a".to_vec(), b"b\n".to_vec())));
    }

    #[test]
    fn an_entry_of_csv_goes_on_while_a_quote_is_open() {
        let goes_on = |line: &[u8]| Quoting::default().read(line) == Quoting::Quoted;
        for line in [&b"\"a\n"[..], b"a,\"b\n", b"\"a\"\"\n", b"a,\"\n"] {
            assert!(goes_on(line), "{line:?}");
        }
        // A quote within a field opens nothing: that line is at fault, and no other.
        for line in [&b"a,b\n"[..], b"\"a\",b\n", b"a\"b,c\n", b"\"a\"b\n", b"a,\"\"\n"] {
            assert!(!goes_on(line), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_entry_is_refused_with_what_was_expected() {
        for line in ["alone", "a,b,c", "\"a,b", "\"a\"b,c", "a\"b,c"] {
            let error = Lines::Csv.parse(line.as_bytes()).unwrap_err();
            assert!(error.contains("expected"), "{line}: {error}");
        }
        let two = "{\"key\":\"a\",\"key_base64\":\"YQ==\",\"value\":\"b\"}";
        let unpadded = "{\"key_base64\":\"YQ\",\"value\":\"b\"}";
        for line in
            ["", "{\"key\":\"a\"}", "{\"key\":1,\"value\":\"b\"}", "[]", "a,b", two, unpadded]
        {
            let error = Lines::Jsonl.parse(line.as_bytes()).unwrap_err();
            assert!(error.contains("expected {\"key\"") && !error.contains("line 1"), "{error}");
        }
    }
}
