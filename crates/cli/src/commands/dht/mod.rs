//! `paceline dht`: reads and writes a distributed hash table.

mod dump;
mod input;
mod load;
#[cfg(feature = "parquet")]
mod parquet;
mod read;
mod scan;
mod send;
pub mod stat;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use clap::ValueEnum;
use paceline::dht::{Expect, PutIfOutcome, Style, Version};
use paceline::{Algorithm, Dht, DhtBuilder, Host};
use serde::Serialize;
use tokio::sync::mpsc;

use super::Outcome;
use super::member::{FormerSeed, peer, peers_or_environment, runtime, unless_stopped};
use super::node::dht::explain;
use super::sealing::SealArgs;
use crate::content::text_or_base64;
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;
use input::BYTE_ORDER_MARK;

/// Read and write a distributed hash table
///
/// The command asks as a client: it stores nothing, and no host depends on it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  paceline up -n 16 --service dht
  export PACELINE_PEERS=127.0.0.1:7001
  paceline dht put apples 17
  paceline dht get apples
  paceline dht load stock.csv --outcomes stock.outcomes.csv
  paceline dht get --keys-from keys.txt
  paceline dht scan --json
  paceline dht send 'stock is closed' --keys-from keys.txt
  paceline dht stat";

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Write a value
    ///
    /// With --if-absent or --if-version only if the key has no value, or one of this version: exit
    /// status 1 if it has another one, which is named, and 3 if it is not sure whether the value
    /// was stored. Of several writes with the same condition at most one is stored, unless the
    /// network splits the hosts that hold the key.
    #[command(after_help = "\
Examples:
  paceline dht put apples 17 --peer 127.0.0.1:7001
  paceline dht put session-9 open --lifetime 10min --peer 127.0.0.1:7001
  paceline dht put leader node-3 --if-absent --lifetime 30s --peer 127.0.0.1:7001
  paceline dht get apples --with-version --peer 127.0.0.1:7001
  paceline dht put apples 18 --if-version v1.7001 --peer 127.0.0.1:7001")]
    Put {
        /// The key, 1 to 512 bytes
        key: OsString,
        /// The value, up to 63,488 bytes
        value: OsString,
        #[command(flatten)]
        condition: Condition,
        #[command(flatten)]
        lifetime: Lifetime,
        #[command(flatten)]
        writing: Writing,
        #[command(flatten)]
        client: ClientArgs,
    },
    Get(read::Args),
    /// Remove the value under a key
    #[command(after_help = "\
Examples:
  paceline dht remove apples --peer 127.0.0.1:7001")]
    Remove {
        /// The key
        key: OsString,
        #[command(flatten)]
        writing: Writing,
        #[command(flatten)]
        client: ClientArgs,
    },
    Load(load::Args),
    Send(send::Args),
    Scan(scan::Args),
    Dump(dump::Args),
    Stat(stat::Args),
}

/// The table, and how to reach it.
#[derive(Debug, clap::Args)]
pub struct ClientArgs {
    /// Where to find hosts, may be repeated: HOST:PORT, dns:NAME:PORT, dns:_SERVICE._PROTOCOL.NAME,
    /// file:PATH or env:VARIABLE [env: PACELINE_PEERS]
    #[arg(long = "peer", value_name = "PEER", value_delimiter = ',', value_parser = peer)]
    peers: Vec<String>,

    #[command(flatten)]
    former: FormerSeed,

    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = "paceline", env = "PACELINE_CLUSTER")]
    cluster: String,

    /// The table's name
    #[arg(long, value_name = "NAME", default_value = "main", env = "PACELINE_GROUP")]
    group: String,

    /// The table's algorithm: chord, koorde, pastry, tapestry or kademlia
    #[arg(long, value_name = "NAME", default_value_t)]
    algorithm: Algorithm,

    /// The address to listen on for answers
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", env = "PACELINE_BIND")]
    #[arg(value_parser = parse::address)]
    bind: SocketAddr,

    /// With --algorithm kademlia: hosts to ask concurrently for one key, 1 to 8
    #[arg(long, value_name = "N", default_value = "1",
          value_parser = clap::value_parser!(u8).range(1..=8))]
    parallel: u8,

    /// How long the first reply may take
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::seconds)]
    join_within: Duration,

    #[command(flatten)]
    sealing: SealArgs,
}

/// The condition of a write.
#[derive(Clone, Copy, Debug, clap::Args)]
struct Condition {
    /// Write only if the key has no value
    #[arg(long, conflicts_with = "if_version")]
    if_absent: bool,

    /// Write only if the key has a value of this version, as `get --with-version` prints it
    #[arg(long, value_name = "VERSION")]
    if_version: Option<Version>,
}

impl Condition {
    fn expect(self) -> Option<Expect> {
        let absent = self.if_absent.then_some(Expect::Absent);
        self.if_version.map(Expect::Version).or(absent)
    }
}

/// How long values are kept.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Lifetime {
    /// How long the value is kept, 1 ms to 30 days, such as 10min; a bare number counts seconds
    /// [default: 30 days]
    #[arg(long, value_name = "TIME", value_parser = parse::seconds)]
    lifetime: Option<Duration>,
}

impl Lifetime {
    /// A handle whose writes have this lifetime.
    fn apply(self, dht: Dht) -> Dht {
        self.lifetime.map_or(dht.clone(), |time| dht.with_lifetime(time))
    }
}

/// When a write counts as done.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Writing {
    /// Fail if, after failures of hosts, fewer than this many remaining hosts hold the write, 1 to
    /// 16; the value may still be found. In a table that never had as many hosts, all hosts suffice
    #[arg(long, value_name = "N", default_value = "2",
          value_parser = clap::value_parser!(u8).range(1..=16))]
    require_copies: u8,
}

/// How bundles travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Travel {
    /// Each host on the way forwards its parts, and results come straight back
    Recursive,
    /// The command asks each host on the way for the next
    #[default]
    Iterative,
}

impl From<Travel> for Style {
    fn from(travel: Travel) -> Style {
        match travel {
            Travel::Recursive => Style::Recursive,
            Travel::Iterative => Style::Iterative,
        }
    }
}

/// The size of bundles, and how they travel.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Bundling {
    /// How bundles travel; hosts answer a recursive one at the address of --bind
    #[arg(long, value_name = "STYLE", default_value = "iterative")]
    pub style: Travel,

    /// Keys of a bundle, 1 to 1,024; with 1 each travels alone
    #[arg(long, value_name = "N", default_value = "256")]
    pub bundle: usize,

    /// Bundles in flight, 1 to 1,024
    #[arg(long, value_name = "N", default_value = "16")]
    pub in_flight: usize,

    /// Keys that are sorted before they are divided into bundles, 1 to 65,536
    #[arg(long, value_name = "N", default_value = "1024")]
    pub window: usize,
}

impl Bundling {
    fn apply(&self, builder: DhtBuilder) -> DhtBuilder {
        let builder = builder.style(self.style.into()).bundle(self.bundle);
        builder.bundles_in_flight(self.in_flight).window(self.window)
    }
}

impl ClientArgs {
    async fn visit(
        &self,
        bundling: Option<Bundling>,
        writing: Option<Writing>,
    ) -> Result<Dht, CliError> {
        let peers = peers_or_environment(&self.peers)?;
        if peers.is_empty() {
            let wrong = "no host to ask: pass --peer HOST:PORT, or set PACELINE_PEERS";
            return Err(CliError::Input(wrong.to_owned()));
        }
        let host = Host::builder(&self.cluster).bind(self.bind).peers(&peers);
        let host = self
            .sealing
            .apply(host)?
            .start()
            .await
            .map_err(|error| CliError::Input(error.to_string()))?;
        let mut builder = host.dht(&self.group).algorithm(self.algorithm).within(self.join_within);
        builder = builder.parallel(self.parallel);
        if let Some(bundling) = bundling {
            builder = bundling.apply(builder);
        }
        if let Some(writing) = writing {
            builder = builder.require_copies(writing.require_copies);
        }
        builder.visit().await.map_err(explain)
    }
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<usize>,
}

impl Written<'_> {
    fn new(key: &OsStr, copies: Option<usize>) -> Written<'_> {
        let (key, key_base64) = text_or_base64(bytes(key));
        Written { key, key_base64, copies }
    }
}

/// The bytes of an argument: those that the shell has given.
fn bytes(argument: &OsStr) -> &[u8] {
    argument.as_encoded_bytes()
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Get(args) => read::run(args, ui),
        What::Load(args) => load::run(args, ui),
        What::Send(args) => send::run(args, ui),
        What::Scan(args) => scan::run(args, ui),
        What::Dump(args) => dump::run(args, ui),
        What::Stat(args) => stat::run(args, ui),
        What::Put { key, value, condition, lifetime, writing, client } => ask(async {
            let dht = lifetime.apply(client.visit(None, Some(writing)).await?);
            if let Some(expect) = condition.expect() {
                return put_if(&dht, &key, &value, expect, ui).await;
            }
            let put = explained(&dht, ui, dht.put(bytes(&key), bytes(&value))).await;
            if let Ok(copies) | Err(paceline::KeyError::FewCopies { copies }) = put {
                ui.document(&Written::new(&key, Some(copies)))?;
            }
            let copies = put.map_err(refused)?;
            ui.print(&format!("stored on {copies} hosts\n"))?;
            Ok(Outcome::Done)
        }),
        What::Remove { key, writing, client } => ask(async {
            let dht = client.visit(None, Some(writing)).await?;
            explained(&dht, ui, dht.remove(bytes(&key))).await.map_err(refused)?;
            ui.document(&Written::new(&key, None))?;
            ui.print("removed\n")?;
            Ok(Outcome::Done)
        }),
    }
}

#[derive(Serialize)]
struct WrittenIf<'a> {
    #[serde(flatten)]
    written: Written<'a>,
    is_stored: bool,
    /// Of the value under the key, if it has one.
    version: Option<String>,
}

/// Writes a value if the condition holds.
async fn put_if(
    dht: &Dht,
    key: &OsStr,
    value: &OsStr,
    expect: Expect,
    ui: &Ui,
) -> Result<Outcome, CliError> {
    let put = explained(dht, ui, dht.put_if(bytes(key), bytes(value), expect)).await;
    let (copies, version) = match put.map_err(read::unsure)? {
        PutIfOutcome::Stored { version, copies } => (Some(copies), Some(version)),
        PutIfOutcome::Differs { found } => (None, found),
    };
    let text = version.map(|version| version.to_string());
    let written = Written::new(key, copies);
    ui.document(&WrittenIf { written, is_stored: copies.is_some(), version: text.clone() })?;
    match (copies, text) {
        (Some(copies), Some(version)) => {
            ui.print(&format!("stored on {copies} hosts as {version}\n"))?;
            Ok(Outcome::Done)
        }
        (_, Some(version)) => {
            Err(CliError::Failed(format!("not stored: the key has a value of version {version}")))
        }
        (_, None) => Err(CliError::Failed("not stored: the key has no value".to_owned())),
    }
}

/// Runs what asks a table, unless the user stops it before its end.
fn ask<T>(asking: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    runtime()?.block_on(async { unless_stopped(asking).await? })
}

/// How often a command that waits looks why.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Waits for a request, and says on standard error if hosts put it off.
async fn explained<T>(dht: &Dht, ui: &Ui, request: impl Future<Output = T>) -> T {
    tokio::pin!(request);
    let put_off = || dht.stats().counters.count("overlay_put_off");
    let before = put_off();
    let mut is_said = false;
    loop {
        match tokio::time::timeout(LOOK_EVERY, &mut request).await {
            Ok(result) => return result,
            Err(_) if !is_said && put_off() > before => {
                is_said = true;
                ui.note(
                    "waiting for up to 12 s: hosts near this key have joined, left or failed; a \
                     host accepts the write once its neighbours have been the same for 3.4 s and \
                     no missing host may be the only holder of the key",
                );
            }
            Err(_) => {}
        }
    }
}

/// Keys of a file, one a line, as the table takes them; and the thread that reads them.
fn keys_from(path: &Path) -> Result<(mpsc::Receiver<Bytes>, Reader), CliError> {
    let file = fs::File::open(path)
        .map_err(|error| CliError::Input(format!("{}: {error}", path.display())))?;
    let (keys, asked) = mpsc::channel(KEYS_AHEAD);
    let reader = std::thread::spawn(move || {
        for (place, line) in BufReader::new(file).split(b'\n').enumerate() {
            let mut line = line?;
            if place == 0 && line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            if !line.is_empty() && keys.blocking_send(Bytes::from(line)).is_err() {
                break;
            }
        }
        Ok(())
    });
    Ok((asked, reader))
}

/// Keys that wait to be asked for.
const KEYS_AHEAD: usize = 256;

type Reader = std::thread::JoinHandle<std::io::Result<()>>;

/// Maps an error of a key to its exit status and message.
fn refused(error: paceline::KeyError) -> CliError {
    use paceline::KeyError::{Duplicate, Empty, TooLong, ValueTooLarge};
    match error {
        Empty | TooLong { .. } | Duplicate { .. } | ValueTooLarge { .. } => {
            CliError::Input(error.to_string())
        }
        error => CliError::Failed(error.to_string()),
    }
}
