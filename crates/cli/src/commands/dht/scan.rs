use paceline::KeyError;
use paceline::dht::Key;

use super::dump::print;
use super::read::unsure;
use super::{ClientArgs, ask, explained};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Print all records of a running table, as CSV: key, value
///
/// In the order of the hashes of the keys, each key once. A value that was stored before the scan
/// began and is not written meanwhile is printed, also if hosts join, leave or fail; one that is
/// written meanwhile may be missing, or be printed as it was. Exit status 3 if a page could not be
/// had: the message says where to go on with --from.
///
/// The format is that of `dht dump`, which `dht load` reads: CSV has the plain bytes; with --json
/// each line is a JSON document, with base64 under `key_base64` and `value_base64` for bytes that
/// are not UTF-8.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht scan --peer 127.0.0.1:7001
  paceline dht scan --json --peer 127.0.0.1:7001 > table.jsonl
  paceline dht scan --from 8000000000000000000000000000000000000000 --peer 127.0.0.1:7001")]
pub struct Args {
    /// Begin with the first key that has this hash or a greater one: 40 hexadecimal digits, as in
    /// the message of a scan that ended early
    #[arg(long, value_name = "HASH", default_value_t = Key::ZERO, hide_default_value = true)]
    from: Key,

    #[command(flatten)]
    client: ClientArgs,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    ask(async {
        let dht = args.client.visit(None, None).await?;
        let mut scan = dht.scan_range(args.from..=Key::MAX);
        let mut count = 0u64;
        while let Some(entry) = explained(&dht, ui, scan.next()).await {
            let entry = entry.map_err(|error| ended_early(error, count, scan.position()))?;
            print(&entry.key, &entry.value, ui)?;
            count += 1;
        }
        ui.note(&format!("{count} entries"));
        Ok(Outcome::Done)
    })
}

fn ended_early(error: KeyError, count: u64, position: Option<Key>) -> CliError {
    let from = position.map_or_else(String::new, |key| format!("; go on with --from {key}"));
    match unsure(error) {
        CliError::Unsure(reason) => {
            CliError::Unsure(format!("stopped after {count} entries: {reason}{from}"))
        }
        error => error,
    }
}
