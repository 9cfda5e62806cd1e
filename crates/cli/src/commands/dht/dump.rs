use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use paceline::dht::read_file;
use serde::Serialize;

use super::input::{Format, Lines, csv, document};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::files::write_out;
use crate::ui::Ui;

/// Print the records in files of durable hosts, as CSV: key, value
///
/// For hosts that have stopped; `dht scan` prints those of a running table. For a key in several
/// files the newest value is printed.
///
/// The format is lossless: `dht load` writes the same bytes. CSV has the plain bytes, with fields
/// in quotes where needed; with --json the output is a JSON document a line, with base64 under
/// `key_base64` and `value_base64` for bytes that are not UTF-8. Only on a terminal, control
/// characters are shown as \\x1b.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht dump 7001.redb --json
  paceline dht dump 7001.redb 7002.redb -o table.csv
  paceline dht load table.csv --peer 127.0.0.1:7001")]
pub struct Args {
    /// Files of hosts, as in --durable
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Write to this file instead: as JSON Lines if its name ends in .jsonl, .ndjson or .json
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Written<'a> {
    file: &'a Path,
    entries: usize,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let mut newest: BTreeMap<[u8; 20], Newest> = BTreeMap::new();
    for file in &args.files {
        let told = |age: Age, place: &paceline::proto::overlay::Key, entry| {
            let known = newest.entry(place.to_bytes()).or_default();
            if known.0 < age {
                *known = (age, entry);
            }
        };
        read_file(file, told).map_err(|error| CliError::Input(error.to_string()))?;
    }
    let entries = newest.into_values().filter_map(|(_, entry)| entry);
    let Some(path) = &args.out else {
        for (key, value) in entries {
            print(&key, &value, ui)?;
        }
        return Ok(Outcome::Done);
    };
    let lines = match Format::of(path) {
        Format::Csv => Lines::Csv,
        Format::Jsonl => Lines::Jsonl,
        Format::Parquet => {
            let wrong = "cannot write a dump as Parquet: name a file that ends in .csv or .jsonl";
            return Err(CliError::Input(format!("{}: {wrong}", path.display())));
        }
    };
    let (mut text, mut count) = (Vec::new(), 0);
    for (key, value) in entries {
        text.extend(lines.write(&key, &value)?);
        text.push(b'\n');
        count += 1;
    }
    write_out(path, &text)?;
    ui.document(&Written { file: path, entries: count })?;
    ui.print(&format!("{count} entries in {}\n", path.display()))?;
    Ok(Outcome::Done)
}

type Age = (u64, u64);
type Newest = (Age, Option<(Bytes, Bytes)>);

/// Prints a key and its value: a line of CSV, or a JSON document.
pub fn print(key: &[u8], value: &[u8], ui: &Ui) -> Result<(), CliError> {
    ui.line_of_bytes(&document(key, value), || csv(key, value))
}
