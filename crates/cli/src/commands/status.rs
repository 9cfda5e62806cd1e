//! `paceline status`: what hosts of a cluster run, asked of each over its port.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use paceline::status::{HostStatus, ServiceStatus, Standing, StatusError};
use paceline::{Host, NodeId};
use paceline_lab::table::table_within;
use paceline_lab_services::counters::SETS;
use serde::Serialize;

use super::member::{CLUSTER, explain_host, peer, peers_or_environment, runtime, unless_stopped};
use super::sealing::SealArgs;
use super::{COLUMNS_UNKNOWN, Outcome};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Ask running nodes which services they run, who is in them, and how far they lag
///
/// A node of `paceline node` answers on its own port; it lags by the events that its application
/// has not read. Nodes that do not answer are named, and the exit status is 1.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline status 127.0.0.1:7001
  paceline status 127.0.0.1:7001 127.0.0.1:7002 --cluster shop
  paceline status 127.0.0.1:7001 --json

With --json one document has all hosts with all counters: {\"hosts\":[{\"id\":1,..,
\"protection\":\"sealed\",..,\"services\":[{\"kind\":\"group\",\"name\":\"orders\",..")]
pub struct Args {
    /// The nodes to ask, each in a form of --peer of `paceline node` [default: PACELINE_PEERS]
    #[arg(value_name = "ADDR", value_delimiter = ',', value_parser = peer)]
    nodes: Vec<String>,

    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = CLUSTER, env = "PACELINE_CLUSTER")]
    cluster: String,

    /// The address to listen on for answers
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = parse::address)]
    bind: SocketAddr,

    /// How long a node may take to answer
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse::seconds)]
    within: Duration,

    #[command(flatten)]
    sealing: SealArgs,
}

/// How a host protects what it sends.
const SEALED: &str = "sealed";
const INSECURE_PLAINTEXT: &str = "insecure plaintext";

#[derive(Serialize)]
struct Document {
    hosts: Vec<HostLine>,
}

#[derive(Serialize)]
struct HostLine {
    id: u64,
    address: String,
    unread_bytes: u64,
    backlog_bytes: u64,
    protection: &'static str,
    services: Vec<ServiceLine>,
    services_omitted: u32,
    counts: BTreeMap<String, u64>,
}

#[derive(Serialize)]
struct ServiceLine {
    kind: String,
    name: String,
    standing: Option<&'static str>,
    view: Option<u64>,
    members: Vec<u64>,
    counts: BTreeMap<String, u64>,
}

impl HostLine {
    fn new(status: HostStatus) -> HostLine {
        let mut counts = status.counts;
        let mut taken = |name| counts.remove(name).unwrap_or(0);
        HostLine {
            id: status.id.0,
            address: status.address,
            unread_bytes: taken("unread_bytes"),
            backlog_bytes: taken("backlog_bytes"),
            protection: match (taken("sealed"), taken("insecure_plaintext")) {
                (1.., _) => SEALED,
                (0, 1..) => INSECURE_PLAINTEXT,
                (0, 0) => "loopback only",
            },
            services: status.services.into_iter().map(ServiceLine::new).collect(),
            services_omitted: status.omitted,
            counts,
        }
    }
}

impl ServiceLine {
    fn new(status: ServiceStatus) -> ServiceLine {
        let standing = match status.standing {
            Standing::Unknown => None,
            Standing::Outside => Some("outside"),
            Standing::Member => Some("member"),
            Standing::WithoutPrimary => Some("without primary"),
            Standing::Unsettled => Some("unsettled"),
        };
        ServiceLine {
            kind: status.kind,
            name: status.name,
            standing,
            view: (status.view > 0).then_some(status.view),
            members: status.members.into_iter().map(|NodeId(member)| member).collect(),
            counts: status.counts,
        }
    }

    /// What it holds or has done, in a few words.
    fn summary(&self) -> String {
        // Counters that say how a service does, each with a word for them.
        const SHOWN: [(&str, &str); 7] = [
            ("values", "values"),
            ("bytes", "bytes"),
            ("contacts", "contacts"),
            ("missing", "hosts missing"),
            ("group_member_down", "members went down"),
            ("slingshot_sent", "packets sent"),
            ("slingshot_repairs", "repairs sent"),
        ];
        let count = |name: &str| self.counts.get(name).copied().unwrap_or(0);
        let shown = SHOWN.map(|(name, word)| (count(name), word));
        let of_faults = SETS.iter().flat_map(|set| set.counters).filter(|it| it.shows_fault);
        let faults = of_faults.map(|counter| count(counter.name)).sum();
        let shown = shown.into_iter().chain([(faults, "faults of others")]);
        let shown = shown.filter(|(count, _)| *count > 0);
        let shown = shown.map(|(count, word)| format!("{count} {word}"));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let nodes = peers_or_environment(&args.nodes)?;
    if nodes.is_empty() {
        let wrong = "no node to ask: pass ADDR, such as 127.0.0.1:7001, or set PACELINE_PEERS";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let mut hosts = Vec::new();
    let mut is_complete = true;
    let runtime = runtime()?;
    for node in nodes {
        match runtime.block_on(unless_stopped(args.ask(&node)))? {
            Ok(status) => hosts.push(HostLine::new(status)),
            Err(error) => {
                ui.warn(&error.to_string());
                is_complete = false;
            }
        }
    }
    let columns = ui.columns().unwrap_or(COLUMNS_UNKNOWN);
    for host in &hosts {
        ui.print(&describe(host, columns))?;
    }
    ui.document(&Document { hosts })?;
    Ok(Outcome::of(is_complete))
}

impl Args {
    /// Asks one node. Each has an asking host of its own: nodes may know each other's addresses.
    async fn ask(&self, node: &str) -> Result<HostStatus, CliError> {
        let builder = self.sealing.apply(Host::builder(&self.cluster).bind(self.bind))?;
        let host = builder.start().await.map_err(explain_host)?;
        let status = host.ask_status(node, self.within).await;
        host.stop().await;
        status.map_err(|error| match error {
            StatusError::Unanswered { .. } | StatusError::NoStatus { .. } | StatusError::Closed => {
                CliError::Failed(error.to_string())
            }
            error => CliError::Input(error.to_string()),
        })
    }
}

/// Prints the status of this process's own host, as its last word.
pub fn print(status: HostStatus, ui: &Ui) -> Result<(), CliError> {
    let host = HostLine::new(status);
    ui.document(&host)?;
    ui.print(&describe(&host, ui.columns().unwrap_or(COLUMNS_UNKNOWN)))
}

/// A host in readable form.
fn describe(host: &HostLine, columns: usize) -> String {
    let HostLine { id, address, unread_bytes, backlog_bytes, .. } = host;
    let protection = match host.protection {
        SEALED => ", sealed",
        INSECURE_PLAINTEXT => ", PLAINTEXT",
        _ => "",
    };
    let row = |service: &ServiceLine| {
        let none = || "-".to_owned();
        [
            format!("{} {}", service.kind, service.name),
            service.standing.unwrap_or("-").to_owned(),
            service.view.map_or_else(none, |view| view.to_string()),
            if service.members.is_empty() { none() } else { service.members.len().to_string() },
            service.summary(),
        ]
    };
    let rows: Vec<[String; 5]> = host.services.iter().map(row).collect();
    let header = ["service", "standing", "view", "members", "counts"];
    let mut text = format!(
        "host {id} at {address}{protection}: {unread_bytes} bytes unread, {backlog_bytes} to \
         send\n{}",
        table_within(header, &rows, columns)
    );
    if host.services_omitted > 0 {
        text.push_str(&format!("and {} services more\n", host.services_omitted));
    }
    let members = host.services.iter().flat_map(|service| &service.members);
    let members: BTreeSet<String> = members.map(u64::to_string).collect();
    if !members.is_empty() {
        let members: Vec<String> = members.into_iter().collect();
        text.push_str(&format!("members: {}\n", members.join(" ")));
    }
    text
}
