use std::ffi::OsString;
use std::path::{Path, PathBuf};

use paceline::dht::{Version, Versioned};
use paceline_graph::Printable;
use serde::Serialize;

use super::dump::print;
use super::{Bundling, ClientArgs, ask, bytes, explained, keys_from, refused};
use crate::commands::Outcome;
use crate::content::text_or_base64;
use crate::error::CliError;
use crate::files::{failed, write_out};
use crate::ui::Ui;

/// Print the value of a key, or of many keys
///
/// Exit status 1 if the key is absent, and 3 if that is not sure: hosts that failed or did not
/// reply may hold it. A value is printed byte for byte; on a terminal a line feed follows it, and
/// control characters are shown as \\x1b. With --json the output is a document with `key` and
/// `value`, or in base64 `key_base64` and `value_base64` where the bytes are not UTF-8.
///
/// With --keys-from the keys travel in bundles, and each value is printed on arrival: `key,value`,
/// as CSV, or with --json as a JSON document a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht get apples --peer 127.0.0.1:7001
  paceline dht get logo --peer 127.0.0.1:7001 -o logo.png
  paceline dht get --keys-from keys.txt --peer 127.0.0.1:7001")]
pub struct Args {
    /// The key
    #[arg(required_unless_present = "keys_from", conflicts_with = "keys_from")]
    key: Option<OsString>,

    /// Read keys from this file, one a line
    #[arg(long, value_name = "FILE")]
    keys_from: Option<PathBuf>,

    /// Write the value to this file, byte for byte; - is standard output, also if it is a terminal
    #[arg(short, long, value_name = "FILE", conflicts_with = "keys_from")]
    out: Option<PathBuf>,

    /// Print the version of the value before it, in a line of its own; with --json as `version`. It
    /// is what `put --if-version` takes
    #[arg(long, conflicts_with_all = ["keys_from", "out"])]
    with_version: bool,

    #[command(flatten)]
    bundling: Bundling,

    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    bytes: usize,
    file: &'a Path,
}

impl Args {
    /// Prints or writes the value under the one key.
    fn print(&self, key: &[u8], value: &[u8], ui: &Ui) -> Result<(), CliError> {
        match self.out.as_deref() {
            Some(path) if is_standard_output(path) => ui.raw(value),
            Some(file) => {
                write_out(file, value)?;
                let (key, key_base64) = text_or_base64(key);
                ui.document(&Written { key, key_base64, bytes: value.len(), file })
            }
            None if ui.is_json() => print(key, value, ui),
            None => ui.content(value),
        }
    }
}

#[derive(Serialize)]
struct Found<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value_base64: Option<String>,
    version: String,
}

fn print_versioned(key: &[u8], version: Version, value: &[u8], ui: &Ui) -> Result<(), CliError> {
    let version = version.to_string();
    if ui.is_json() {
        let ((key, key_base64), (value, value_base64)) =
            (text_or_base64(key), text_or_base64(value));
        return ui.document(&Found { key, key_base64, value, value_base64, version });
    }
    ui.print(&format!("{version}\n"))?;
    ui.content(value)
}

fn is_standard_output(path: &Path) -> bool {
    path == Path::new("-")
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if ui.is_json() && args.out.as_deref().is_some_and(is_standard_output) {
        let wrong = "-o - and --json both take standard output: leave out one, or name a file";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let Some(path) = &args.keys_from else {
        let key = bytes(args.key.as_deref().unwrap_or_default());
        return ask(async {
            let dht = args.client.visit(None, None).await?;
            match explained(&dht, ui, dht.get_versioned(key)).await.map_err(unsure)? {
                Some(Versioned { version, value }) if args.with_version => {
                    print_versioned(key, version, &value, ui)?;
                }
                Some(Versioned { value, .. }) => args.print(key, &value, ui)?,
                None => {
                    let key = Printable::line(key);
                    return Err(CliError::Failed(format!("there is no value for `{key}`")));
                }
            }
            Ok(Outcome::Done)
        });
    };
    let (asked, reader) = keys_from(path)?;
    let (mut found, mut absent, mut unknown) = (0u64, 0u64, 0u64);
    ask(async {
        let dht = args.client.visit(Some(args.bundling), None).await?;
        let mut results = dht.get_all_from(asked);
        while let Some(result) = results.next().await {
            let key = Printable::line(&result.key);
            match result.outcome {
                Ok(Some(value)) => {
                    found += 1;
                    print(&result.key, &value, ui)?;
                }
                Ok(None) => {
                    absent += 1;
                    ui.note(&format!("{key}: nothing"));
                }
                Err(error) => {
                    unknown += 1;
                    ui.note(&format!("{key}: {error}"));
                }
            }
        }
        Ok(())
    })?;
    let read = reader.join().expect("the reader does not panic");
    read.map_err(|error| failed(path, &error))?;
    ui.note(&format!("{found} found, {absent} absent, {unknown} not sure"));
    Ok(if unknown > 0 { Outcome::Unsure } else { Outcome::of(absent == 0) })
}

/// A key that could not be read may be there.
pub(super) fn unsure(error: paceline::KeyError) -> CliError {
    match refused(error) {
        CliError::Failed(reason) => CliError::Unsure(reason),
        error => error,
    }
}
