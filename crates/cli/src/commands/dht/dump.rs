use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use paceline::dht::read_file;
use serde::Serialize;

use super::input::field;
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Print what the files of durable hosts hold, as CSV: key, value
///
/// For hosts that have stopped. Of a key that stands in several files the newest value is printed.
/// A table that runs cannot be listed, only asked for keys.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht dump 7001.redb --json")]
pub struct Args {
    /// Files of hosts: what --durable named
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
struct Line<'a> {
    key: &'a str,
    value: &'a str,
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
    for (key, value) in newest.into_values().filter_map(|(_, entry)| entry) {
        print(&key, &value, ui)?;
    }
    Ok(Outcome::Done)
}

type Age = (u64, u32);
type Newest = (Age, Option<(Bytes, Bytes)>);

/// Prints a key and its value: a line of CSV, or a JSON document.
pub fn print(key: &[u8], value: &[u8], ui: &Ui) -> Result<(), CliError> {
    let (key, value) = (String::from_utf8_lossy(key), String::from_utf8_lossy(value));
    ui.line(&Line { key: &key, value: &value }, || format!("{},{}", field(&key), field(&value)))
}
