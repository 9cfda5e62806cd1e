//! A host of a table, as a process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use paceline::dht::{Delivery, DhtStat};
use paceline::{Algorithm, Dht, JoinError};
use serde::{Deserialize, Serialize};

use crate::commands::Outcome;
use crate::commands::member::{
    AnsweringHost, HostArgs, explain_host, runtime, stop_asked, unless_stopped,
};
use crate::content::text_or_base64;
use crate::error::CliError;
use crate::files::{Persist, replace};
use crate::parse;
use crate::ui::Ui;

/// What to do about a host that knows of no other.
const NO_HOST: &str = "no host to ask: pass --peer HOST:PORT to join a table, or --bootstrap to \
                       create a new one";
/// How often a host writes what it holds.
const STAT_EVERY: Duration = Duration::from_millis(500);

/// What the hosts of a table must agree on.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct TableArgs {
    /// With --service dht: chord, koorde, pastry, tapestry or kademlia; all hosts need the same
    #[arg(long, value_name = "NAME", default_value_t)]
    pub algorithm: Algorithm,

    /// With --service dht: hosts that hold each value, 1 to 16; all hosts need the same
    #[arg(long, value_name = "K", default_value = "3")]
    pub copies: u8,

    /// With --service dht: the most that a host stores of keys and values, whole MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse::mebibytes)]
    pub quota: usize,
}

/// What a host keeps and says.
#[derive(Debug, clap::Args)]
pub struct HostOptions {
    /// With --service dht: store the records of this host in this file, and restore those of an
    /// earlier run; a write is acknowledged once it is on disk. All hosts need the same setting
    #[arg(long, value_name = "FILE")]
    pub durable: Option<PathBuf>,

    /// As --durable, but writes are acknowledged before they are on disk: faster, and lost if all
    /// their holders stop at once
    #[arg(long, value_name = "FILE", conflicts_with = "durable")]
    pub durable_async: Option<PathBuf>,

    /// With --service dht: write the state of this host to this file, as JSON, twice a second
    #[arg(long, value_name = "FILE")]
    pub stat: Option<PathBuf>,
}

impl TableArgs {
    /// The same for another host.
    pub fn arguments(&self) -> Vec<String> {
        let words = format!(
            "--algorithm {} --copies {} --quota {}",
            self.algorithm, self.copies, self.quota
        );
        words.split(' ').map(str::to_owned).collect()
    }
}

/// What a host says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    pub address: String,
    pub contacts: usize,
    pub is_settled: bool,
    #[serde(default)]
    pub missing: usize,
    pub values: usize,
    pub bytes: usize,
}

/// Is a host until Ctrl-C.
pub fn host(
    member: &HostArgs,
    table: &TableArgs,
    args: &HostOptions,
    ui: &Ui,
) -> Result<Outcome, CliError> {
    if member.expect.is_some() {
        let wrong = "--service dht: a table is created by one host: start it with --bootstrap, not \
                     --expect";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let (runtime, peers) = (runtime()?, member.peers()?);
    let starting = member.builder()?.peers(peers).start();
    let host = runtime.block_on(starting).map_err(explain_host)?;
    let mut builder = host
        .dht(member.group())
        .algorithm(table.algorithm)
        .copies(table.copies)
        .quota(table.quota << 20, 16 << 20)
        .within(member.join_within());
    if let Some(file) = &args.durable {
        builder = builder.durable(file);
    }
    if let Some(file) = &args.durable_async {
        builder = builder.durable_async(file);
    }
    runtime.block_on(async {
        let joining = async {
            match member.bootstrap {
                true => builder.bootstrap().await,
                false => builder.join().await,
            }
        };
        let dht = unless_stopped(joining).await?.map_err(explain)?;
        if let Some(damaged) = dht.damaged_file() {
            ui.note(&format!("warning: {damaged}"));
        }
        let host = AnsweringHost::new(host)?;
        ui.note(&format!("{} listens on {}", dht.id(), dht.local_addr()));
        let (mut last, mut due) = (None, Instant::now());
        tokio::pin! { let stop = stop_asked(); }
        tokio::pin! { let ended = dht.ended(); }
        let mut deliveries = dht.deliveries();
        let failed = loop {
            tokio::select! {
                () = &mut stop => break None,
                failed = &mut ended => break failed,
                Some(delivery) = deliveries.recv() => print(&delivery, ui)?,
                () = tokio::time::sleep_until(due.into()), if args.stat.is_some() => {
                    due = Instant::now() + STAT_EVERY;
                    if let Some(path) = &args.stat {
                        tell(&dht, path, &mut last).await?;
                    }
                }
            }
        };
        if let Some(error) = failed {
            return Err(CliError::Failed(error.to_string()));
        }
        let stat = stat_of(&dht).await;
        if stat.as_ref().is_some_and(|stat| stat.values > 0) {
            ui.note("handing over its values to other hosts; a second Ctrl-C stops it at once");
        }
        dht.leave().await.map_err(|error| CliError::Failed(error.to_string()))?;
        host.stop().await;
        if let Some(stat) = stat {
            ui.document(&stat)?;
            ui.note(&format!("left with {} values handed over", stat.values));
        }
        Ok(Outcome::Done)
    })
}

/// A payload that was sent to keys of this host.
#[derive(Serialize)]
struct Delivered<'a> {
    origin: u64,
    keys: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_base64: Option<String>,
}

fn print(delivery: &Delivery, ui: &Ui) -> Result<(), CliError> {
    let bytes = &delivery.payload[..];
    let (message, message_base64) = text_or_base64(bytes);
    let (origin, keys) = (delivery.origin, delivery.keys.len());
    let document = Delivered { origin: origin.0, keys, message, message_base64 };
    ui.line_of_bytes(&document, || {
        [format!("delivered by {origin} for {keys} keys: ").as_bytes(), bytes].concat()
    })
}

async fn stat_of(dht: &Dht) -> Option<Stat> {
    let stat = dht.stat().await.ok()?;
    let address = dht.local_addr().to_string();
    let DhtStat { contacts, is_settled, missing, values, bytes, .. } = stat;
    Some(Stat { address, contacts, is_settled, missing, values, bytes })
}

async fn tell(dht: &Dht, path: &Path, last: &mut Option<Stat>) -> Result<(), CliError> {
    let stat = stat_of(dht).await;
    if stat == *last {
        return Ok(());
    }
    let text = serde_json::to_string(&stat)
        .map_err(|error| CliError::Failed(format!("cannot write JSON: {error}")))?;
    *last = stat;
    replace(path, text.as_bytes(), Persist::Later)
}

/// Why a host did not enter a table.
pub fn explain(error: JoinError) -> CliError {
    match error {
        JoinError::Closed => CliError::Failed(error.to_string()),
        JoinError::NoPeer => CliError::Input(NO_HOST.to_owned()),
        error => CliError::Input(error.to_string()),
    }
}
