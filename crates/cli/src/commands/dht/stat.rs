use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use paceline::dht::{DhtStat, HostStat};
use paceline::{Dht, NodeId};
use paceline_lab::table::table;
use serde::Serialize;

use super::{ClientArgs, ask, explained, refused};
use crate::commands::Outcome;
use crate::commands::cluster::Which;
use crate::commands::node::dht::Stat;
use crate::error::CliError;
use crate::ui::Ui;

/// Show the state of the hosts of a table
///
/// By default of the hosts that `up` started on this machine: each writes its state twice a second
/// to a file beside its log. With --all, --host or --peer hosts are asked over the network,
/// wherever they run: all of the table, or one. A host accepts no writes until its neighbours have
/// been the same for some seconds (settled).
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline dht stat
  paceline dht stat --json
  paceline dht stat --all --peer 127.0.0.1:7001
  paceline dht stat --host 7002 --peer 127.0.0.1:7001")]
pub struct Args {
    /// Ask the host with this number, such as 7002 or n7002; exit status 1 if the table has no such
    /// host
    #[arg(long, value_name = "ID")]
    host: Option<HostId>,

    /// Ask all hosts of the table
    #[arg(long, conflicts_with = "host")]
    all: bool,

    /// Where `up` keeps its list of processes and their logs: in DIR/NAME of the cluster
    #[arg(long, value_name = "DIR", env = "PACELINE_STATE")]
    state: Option<PathBuf>,

    #[command(flatten)]
    client: ClientArgs,
}

/// The number of a host, as other commands print it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HostId(NodeId);

impl FromStr for HostId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<HostId, &'static str> {
        let digits = text.strip_prefix('n').unwrap_or(text);
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number);
        number.map(|id| HostId(NodeId(id))).ok_or("expected the number of a host, such as 7002")
    }
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.all || args.host.is_some() || !args.client.peers.is_empty() {
        return ask(asked(&args, ui));
    }
    let which = Which { cluster: args.client.cluster, state: args.state };
    let stats = stats(&which, ui)?;
    if stats.is_empty() {
        let cluster = &which.cluster;
        return Err(CliError::Input(format!(
            "no host of `{cluster}` is running here: `paceline up --service dht` starts hosts, and \
             --all asks those of any table"
        )));
    }
    ui.document(&stats)?;
    let row = |stat: &Stat| {
        let Stat { address, contacts, is_settled, missing, values, bytes } = stat;
        let [contacts, missing, values, bytes] =
            [contacts, missing, values, bytes].map(usize::to_string);
        [address.clone(), contacts, yes_or_no(*is_settled), missing, values, bytes]
    };
    let mut rows: Vec<[String; 6]> = stats.iter().map(row).collect();
    let sum = |of: fn(&Stat) -> usize| stats.iter().map(of).sum::<usize>().to_string();
    let all = format!("{} hosts", stats.len());
    let none = String::new;
    rows.push([all, none(), none(), none(), sum(|stat| stat.values), sum(|stat| stat.bytes)]);
    ui.print(&table(["host", "contacts", "settled", "missing", "values", "bytes"], &rows))?;
    Ok(Outcome::Done)
}

/// What the hosts of a cluster said last, those that run.
pub fn stats(which: &Which, ui: &Ui) -> Result<Vec<Stat>, CliError> {
    let mut stats = Vec::new();
    for process in which.processes(ui)? {
        let Some(path) = &process.stat else { continue };
        // It may not have said anything yet.
        let text = fs::read_to_string(path).unwrap_or_default();
        let address = process.address.to_string();
        stats.push(serde_json::from_str(&text).unwrap_or(Stat { address, ..Stat::default() }));
    }
    Ok(stats)
}

/// What a host says of itself over the network.
#[derive(Serialize)]
struct Told {
    host: u64,
    contacts: usize,
    is_settled: bool,
    missing: usize,
    values: usize,
    removed: usize,
    bytes: usize,
    neighbours: Vec<u64>,
}

impl From<HostStat> for Told {
    fn from(told: HostStat) -> Told {
        let HostStat { host, stat, removed, neighbours } = told;
        let DhtStat { contacts, is_settled, missing, values, bytes, .. } = stat;
        let neighbours = neighbours.into_iter().map(|node| node.0).collect();
        Told { host: host.0, contacts, is_settled, missing, values, removed, bytes, neighbours }
    }
}

/// Asks hosts over the network.
async fn asked(args: &Args, ui: &Ui) -> Result<Outcome, CliError> {
    let dht = args.client.visit(None, None).await?;
    let told = match args.host {
        Some(HostId(host)) => {
            let stat = explained(&dht, ui, dht.stat_of(host)).await.map_err(refused)?;
            let missing = || CliError::Failed(format!("the table has no host {}", host.0));
            vec![Told::from(stat.ok_or_else(missing)?)]
        }
        None => all_hosts(&dht, ui).await?,
    };
    ui.document(&told)?;
    let row = |told: &Told| {
        let Told { host, contacts, missing, values, removed, bytes, .. } = told;
        let [contacts, missing, values, removed, bytes] =
            [contacts, missing, values, removed, bytes].map(usize::to_string);
        let settled = yes_or_no(told.is_settled);
        [host.to_string(), contacts, settled, missing, values, removed, bytes]
    };
    let rows: Vec<[String; 7]> = told.iter().map(row).collect();
    let heads = ["host", "contacts", "settled", "missing", "values", "removed", "bytes"];
    ui.print(&table(heads, &rows))?;
    Ok(Outcome::Done)
}

/// All hosts, by number.
async fn all_hosts(dht: &Dht, ui: &Ui) -> Result<Vec<Told>, CliError> {
    let (mut hosts, mut told) = (dht.hosts(), Vec::new());
    while let Some(stat) = explained(dht, ui, hosts.next()).await {
        told.push(Told::from(stat.map_err(refused)?));
    }
    told.sort_unstable_by_key(|told| told.host);
    Ok(told)
}

fn yes_or_no(is_true: bool) -> String {
    (if is_true { "yes" } else { "no" }).to_owned()
}
