//! How keys and values stand in a file: as CSV or JSON Lines, one entry a line, or as Parquet.

use std::borrow::Cow;
use std::path::Path;

use clap::ValueEnum;
use serde::Deserialize;

/// Longest line, bytes: the longest key and the largest value, each byte escaped.
pub const LINE_BYTES_MAX: usize = 6 * (64 << 10);

/// How entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// key,value: a field with a comma or a quote in it stands in quotes, a quote in it twice
    Csv,
    /// {"key":"..","value":".."}
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

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: String,
    value: String,
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

impl Lines {
    /// Key and value of a line; what was expected if it has none.
    pub fn parse(self, line: &str) -> Result<(String, String), String> {
        match self {
            Lines::Csv => parse_csv(line),
            Lines::Jsonl => match serde_json::from_str(line) {
                Ok(Entry { key, value }) => Ok((key, value)),
                Err(error) => {
                    // The line is ours to name.
                    let error = error.to_string();
                    let error = error.split(" at line").next().unwrap_or_default();
                    Err(format!("{error}: expected {{\"key\":\"..\",\"value\":\"..\"}}"))
                }
            },
        }
    }
}

fn parse_csv(line: &str) -> Result<(String, String), String> {
    let (key, rest) = take_field(line)?;
    let rest = rest.ok_or("one field: expected `key,value`")?;
    let (value, rest) = take_field(rest)?;
    match rest {
        None => Ok((key.into_owned(), value.into_owned())),
        Some(_) => Err("more than two fields: expected `key,value`, a field with a comma in it \
                        in quotes"
            .to_owned()),
    }
}

/// A field, and what follows its comma.
fn take_field(text: &str) -> Result<(Cow<'_, str>, Option<&str>), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let (field, rest) = match text.split_once(',') {
            Some((field, rest)) => (field, Some(rest)),
            None => (text, None),
        };
        if field.contains('"') {
            return Err("a quote within a field: expected the whole field in quotes, and the \
                        quote in it twice"
                .to_owned());
        }
        return Ok((field.into(), rest));
    };
    let mut field = String::new();
    let mut rest = quoted;
    loop {
        let Some((before, after)) = rest.split_once('"') else {
            return Err("a quote is not closed: expected it on the same line".to_owned());
        };
        field.push_str(before);
        if let Some(after) = after.strip_prefix('"') {
            field.push('"');
            rest = after;
        } else if let Some(after) = after.strip_prefix(',') {
            return Ok((field.into(), Some(after)));
        } else if after.is_empty() {
            return Ok((field.into(), None));
        } else {
            return Err("text after a closing quote: expected a comma".to_owned());
        }
    }
}

/// A field as CSV writes it.
pub fn field(text: &str) -> Cow<'_, str> {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\"")).into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were_written() {
        for (key, value) in [("a", "b"), ("", ""), ("a,b", "say \"x\""), ("\"", ","), ("k", "ü")] {
            let line = format!("{},{}", field(key), field(value));
            assert_eq!(Lines::Csv.parse(&line), Ok((key.to_owned(), value.to_owned())), "{line}");
        }
        let line = "{\"value\":\"b\\n\", \"key\":\"a\"}";
        assert_eq!(Lines::Jsonl.parse(line), Ok(("a".to_owned(), "b\n".to_owned())));
    }

    #[test]
    fn what_is_no_entry_is_refused_with_what_was_expected() {
        for line in ["alone", "a,b,c", "\"a,b", "\"a\"b,c", "a\"b,c"] {
            let error = Lines::Csv.parse(line).unwrap_err();
            assert!(error.contains("expected"), "{line}: {error}");
        }
        for line in ["", "{\"key\":\"a\"}", "{\"key\":1,\"value\":\"b\"}", "[]", "a,b"] {
            let error = Lines::Jsonl.parse(line).unwrap_err();
            assert!(error.contains("expected {\"key\"") && !error.contains("line 1"), "{error}");
        }
    }
}
