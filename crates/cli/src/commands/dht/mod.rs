//! `paceline dht`: reads and writes a distributed hash table.

mod dump;
mod input;
mod load;
#[cfg(feature = "parquet")]
mod parquet;
mod read;
pub mod service;
pub mod stat;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline::{Algorithm, Dht, DhtBuilder, Host};
use serde::Serialize;

use super::Outcome;
use super::member::runtime;
use crate::error::CliError;
use crate::ui::Ui;

/// Read and write a distributed hash table
///
/// The command asks as a guest: it stores nothing, and no host depends on it.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

const AFTER_HELP: &str = "\
Examples:
  paceline up -n 16 --service dht
  export PACELINE_SEEDS=127.0.0.1:7001
  paceline dht put apples 17
  paceline dht get apples
  paceline dht load stock.csv --outcomes stock.outcomes.csv
  paceline dht get --keys-from keys.txt
  paceline dht stat";

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Write a value
    Put {
        /// The key, 1 to 512 bytes
        key: String,
        /// The value, up to 63,488 bytes
        value: String,
        #[command(flatten)]
        guest: Guest,
    },
    Get(read::Args),
    /// Remove the value under a key
    Remove {
        /// The key
        key: String,
        #[command(flatten)]
        guest: Guest,
    },
    Load(load::Args),
    Dump(dump::Args),
    Stat(stat::Args),
}

/// Which table, and how to ask.
#[derive(Debug, clap::Args)]
pub struct Guest {
    /// A host to ask, HOST:PORT; may be repeated
    #[arg(long = "seed", value_name = "HOST:PORT", env = "PACELINE_SEEDS", value_delimiter = ',')]
    seeds: Vec<String>,

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
    bind: SocketAddr,

    /// How long the first answer may take, seconds
    #[arg(long, value_name = "S", default_value = "10")]
    join_within: f64,

    /// Allow addresses beyond loopback though nothing is encrypted or authenticated
    #[arg(long)]
    insecure_plaintext: bool,
}

/// How many keys travel together.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Bundling {
    /// Keys of a bundle, 1 to 1,024; with 1 each travels alone
    #[arg(long, value_name = "N", default_value = "256")]
    pub bundle: usize,

    /// Bundles on their way at once, 1 to 1,024
    #[arg(long, value_name = "N", default_value = "16")]
    pub in_flight: usize,

    /// Keys that are sorted before they are divided into bundles, 1 to 65,536
    #[arg(long, value_name = "N", default_value = "1024")]
    pub window: usize,
}

impl Bundling {
    fn apply(&self, builder: DhtBuilder) -> DhtBuilder {
        builder.bundle(self.bundle).bundles_in_flight(self.in_flight).window(self.window)
    }
}

impl Guest {
    async fn visit(&self, bundling: Option<Bundling>) -> Result<Dht, CliError> {
        let within = Duration::try_from_secs_f64(self.join_within)
            .map_err(|_| CliError::Input(format!("--join-within {}", self.join_within)))?;
        let mut host = Host::builder(&self.cluster).bind(self.bind);
        if self.insecure_plaintext {
            host = host.insecure_plaintext();
        }
        let host = host.start().map_err(|error| CliError::Input(error.to_string()))?;
        let mut builder = host.dht(&self.group).algorithm(self.algorithm).within(within);
        if let Some(bundling) = bundling {
            builder = bundling.apply(builder);
        }
        builder.visit(&self.seeds).await.map_err(service::explain)
    }
}

#[derive(Serialize)]
struct Written<'a> {
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    copies: Option<usize>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    match args.what {
        What::Get(args) => read::run(args, ui),
        What::Load(args) => load::run(args, ui),
        What::Dump(args) => dump::run(args, ui),
        What::Stat(args) => stat::run(args, ui),
        What::Put { key, value, guest } => runtime()?.block_on(async {
            let dht = guest.visit(None).await?;
            let copies = dht.put(&key, &value).await.map_err(refused)?;
            ui.document(&Written { key: &key, copies: Some(copies) })?;
            ui.print(&format!("stored on {copies} hosts\n"))?;
            Ok(Outcome::Done)
        }),
        What::Remove { key, guest } => runtime()?.block_on(async {
            let dht = guest.visit(None).await?;
            dht.remove(&key).await.map_err(refused)?;
            ui.document(&Written { key: &key, copies: None })?;
            ui.print("removed\n")?;
            Ok(Outcome::Done)
        }),
    }
}

/// Who is at fault that a key failed.
fn refused(error: paceline::KeyError) -> CliError {
    use paceline::KeyError::{Duplicate, Empty, TooLong, ValueTooLarge};
    match error {
        Empty | TooLong { .. } | Duplicate { .. } | ValueTooLarge { .. } => {
            CliError::Input(error.to_string())
        }
        error => CliError::Failed(error.to_string()),
    }
}

/// Writes a file whole, or leaves the one that is there.
fn replace(path: &Path, text: &str) -> Result<(), CliError> {
    let mut other = path.as_os_str().to_owned();
    other.push(".new");
    let other = PathBuf::from(other);
    let written = fs::write(&other, text).and_then(|()| fs::rename(&other, path));
    written.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &dyn std::error::Error) -> CliError {
    CliError::Failed(format!("{}: {error}", path.display()))
}
