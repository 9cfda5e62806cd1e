use std::path::PathBuf;

use super::dump::print;
use super::{Bundling, Guest, explained, failed, keys_from, refused};
use crate::commands::Outcome;
use crate::commands::member::runtime;
use crate::error::CliError;
use crate::ui::Ui;

/// Print the value under a key, or those under many
///
/// Exit status 1 if there is none, and 3 if that is not sure: hosts that failed may hold it, or did
/// not answer. With --keys-from the keys travel together, and what is found is
/// printed as it comes: `key,value`, as CSV, or with --json as a JSON document a line.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht get apples --seed 127.0.0.1:7001
  paceline dht get --keys-from keys.txt --seed 127.0.0.1:7001")]
pub struct Args {
    /// The key
    #[arg(required_unless_present = "keys_from", conflicts_with = "keys_from")]
    key: Option<String>,

    /// Read keys from this file, one a line
    #[arg(long, value_name = "FILE")]
    keys_from: Option<PathBuf>,

    #[command(flatten)]
    bundling: Bundling,

    #[command(flatten)]
    guest: Guest,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let Some(path) = &args.keys_from else {
        let key = args.key.as_deref().unwrap_or_default();
        return runtime()?.block_on(async {
            let dht = args.guest.visit(None, None).await?;
            match explained(&dht, ui, dht.get(key)).await.map_err(unsure)? {
                Some(value) if ui.is_json() => print(key.as_bytes(), &value, ui)?,
                Some(value) => ui.output(&format!("{}\n", String::from_utf8_lossy(&value)))?,
                None => return Err(CliError::Failed(format!("nothing under `{key}`"))),
            }
            Ok(Outcome::Done)
        });
    };
    let (asked, reader) = keys_from(path)?;
    let (mut found, mut absent, mut unknown) = (0u64, 0u64, 0u64);
    runtime()?.block_on(async {
        let dht = args.guest.visit(Some(args.bundling), None).await?;
        let mut results = dht.get_all_from(asked);
        while let Some(result) = results.next().await {
            let key = String::from_utf8_lossy(&result.key);
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
            if ui.is_stopped() {
                return Err(CliError::Failed("stopped".to_owned()));
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
fn unsure(error: paceline::KeyError) -> CliError {
    match refused(error) {
        CliError::Failed(reason) => CliError::Unsure(reason),
        error => error,
    }
}
