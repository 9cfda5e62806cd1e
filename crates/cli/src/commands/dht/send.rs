use std::ffi::OsString;
use std::path::PathBuf;

use bytes::Bytes;
use paceline::dht::Results;
use paceline_graph::Printable;
use serde::Serialize;

use super::{Bundling, ClientArgs, ask, keys_from};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::files::failed;
use crate::ui::Ui;

/// Deliver a message to the hosts that are responsible for keys
///
/// A bundle of keys forms one tree: each host forwards the message once for all keys with the same
/// next hop. `paceline node --service dht` prints its deliveries. Exit status 1 if the message did
/// not reach a key's host.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht send 'stock is closed' apples pears --peer 127.0.0.1:7001
  paceline dht send 'stock is closed' --keys-from keys.txt")]
pub struct Args {
    /// The message, up to 63,488 bytes
    message: OsString,

    /// The keys
    #[arg(required_unless_present = "keys_from", conflicts_with = "keys_from")]
    keys: Vec<OsString>,

    /// Read keys from this file, one a line
    #[arg(long, value_name = "FILE")]
    keys_from: Option<PathBuf>,

    #[command(flatten)]
    bundling: Bundling,

    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Serialize)]
struct Sent {
    delivered: u64,
    failed: u64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let message = Bytes::from(args.message.into_encoded_bytes());
    let Some(path) = &args.keys_from else {
        let keys: Vec<Bytes> =
            args.keys.into_iter().map(|key| key.into_encoded_bytes().into()).collect();
        return ask(async {
            let dht = args.client.visit(Some(args.bundling), None).await?;
            tell(dht.send_all(keys, message), ui).await
        });
    };
    let (keys, reader) = keys_from(path)?;
    let outcome = ask(async {
        let dht = args.client.visit(Some(args.bundling), None).await?;
        tell(dht.send_all_from(keys, message), ui).await
    })?;
    let read = reader.join().expect("the reader does not panic");
    read.map_err(|error| failed(path, &error))?;
    Ok(outcome)
}

async fn tell(mut results: Results<()>, ui: &Ui) -> Result<Outcome, CliError> {
    let mut sent = Sent { delivered: 0, failed: 0 };
    while let Some(result) = results.next().await {
        match result.outcome {
            Ok(()) => sent.delivered += 1,
            Err(error) => {
                sent.failed += 1;
                ui.note(&format!("{}: {error}", Printable::line(&result.key)));
            }
        }
    }
    ui.document(&sent)?;
    ui.print(&format!("delivered for {} keys, {} failed\n", sent.delivered, sent.failed))?;
    Ok(Outcome::of(sent.failed == 0))
}
