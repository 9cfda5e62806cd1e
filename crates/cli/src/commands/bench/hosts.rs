use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use paceline::{Dht, Group, Host, View, ViewId};
use paceline_lab::Machine;
use paceline_lab::machine::{process_cpu, resident_bytes};
use paceline_lab::table::table;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::commands::Outcome;
use crate::commands::member::{explain, explain_host, runtime, unless_stopped};
use crate::commands::node::dht;
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Run many groups and tables on the same hosts on loopback, at rest and with one host killed
///
/// All hosts are in this process. They run one group, then all of them and the tables. At each of
/// the two steps it measures what a host costs at rest: datagrams of the failure detector,
/// processor time, memory. Then one host is killed, and each group has to agree on a view without
/// it. Fails if a group has not within 30 s.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Hosts, 3 to 64
    #[arg(long, value_name = "N", default_value = "8",
          value_parser = clap::value_parser!(u16).range(3..=64))]
    hosts: u16,

    /// Groups, each of which all hosts join, 1 to 10000
    #[arg(long, value_name = "N", default_value = "100",
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    groups: u32,

    /// Tables, each of which all hosts join, 0 to 1000
    #[arg(long, value_name = "N", default_value = "20",
          value_parser = clap::value_parser!(u32).range(0..=1_000))]
    tables: u32,

    /// How long the hosts are measured at rest, at each step
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse::seconds)]
    rest: Duration,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench hosts
  paceline bench hosts --groups 1000 --tables 0 --json";

/// Groups that are joined at the same time.
const JOINING_MAX: usize = 64;
/// Each step is over within this time, or the bench fails.
const WITHIN: Duration = Duration::from_secs(30);
/// Services that have started are at rest after this time.
const SETTLED_AFTER: Duration = Duration::from_secs(3);

/// What the hosts cost at rest.
#[derive(Serialize)]
struct AtRest {
    groups: u32,
    tables: u32,
    /// Seconds until all were in the views of all.
    ready_s: f64,
    /// Datagrams of the failure detector, of a host, a second.
    detector_datagrams_per_s: f64,
    /// All datagrams and messages on streams, of a host, a second.
    messages_per_s: f64,
    /// Processor time of a host, percent of a core.
    cpu_percent: f64,
    /// Resident memory of the process, bytes.
    resident_bytes: Option<u64>,
}

#[derive(Serialize)]
struct Document {
    machine: Machine,
    hosts: u16,
    at_rest: Vec<AtRest>,
    /// Memory for each further group and member of it, or table and host of it, bytes.
    bytes_per_member: Option<f64>,
    /// Seconds from the kill of a host until all groups had agreed on a view without it.
    agreed_s: Option<f64>,
    /// Groups that had not after 30 s.
    not_agreed: usize,
}

/// A host and its part in each service.
struct Member {
    host: Host,
    // By number.
    groups: BTreeMap<u32, Group>,
    tables: Vec<Dht>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let document = runtime()?.block_on(unless_stopped(measure(&args, ui)))??;
    ui.document(&document)?;
    let row = |rest: &AtRest| {
        let mib = rest.resident_bytes.map_or("-".to_owned(), |bytes| (bytes >> 20).to_string());
        [
            rest.groups.to_string(),
            rest.tables.to_string(),
            format!("{:.2}", rest.ready_s),
            format!("{:.1}", rest.detector_datagrams_per_s),
            format!("{:.1}", rest.messages_per_s),
            format!("{:.2}", rest.cpu_percent),
            mib,
        ]
    };
    let header = ["groups", "tables", "ready s", "detector/s", "messages/s", "CPU %", "MiB"];
    let rows: Vec<[String; 7]> = document.at_rest.iter().map(row).collect();
    ui.print(&table(header, &rows))?;
    let bytes = document.bytes_per_member;
    let bytes = bytes.map_or("unknown".to_owned(), |bytes| format!("{:.1} KiB", bytes / 1024.0));
    let agreed = match document.agreed_s {
        Some(seconds) => format!("all views agreed {seconds:.2} s after the kill of a host"),
        None => format!(
            "{} groups had no agreed view {} s after the kill",
            document.not_agreed,
            WITHIN.as_secs()
        ),
    };
    ui.print(&format!(
        "\nOf each of {} hosts at rest, but for the memory of all of them together.\n\
         Memory of a further group or table: {bytes} a host; {agreed}.\n",
        document.hosts
    ))?;
    ui.print(&format!("{}\n", document.machine.describe()))?;
    Ok(Outcome::of(document.agreed_s.is_some()))
}

async fn measure(args: &Args, ui: &Ui) -> Result<Document, CliError> {
    let mut members = Vec::new();
    for _ in 0..args.hosts {
        let host = Host::builder("bench").start().await.map_err(explain_host)?;
        members.push(Member { host, groups: BTreeMap::new(), tables: Vec::new() });
    }
    ui.note(&format!("{} hosts with one group", args.hosts));
    let mut at_rest = Vec::new();
    let begun = Instant::now();
    join_groups(&mut members, 0..1).await?;
    agreed(&members, begun).await.map_err(late)?;
    at_rest.push(rest(args, &members, (1, 0), begun.elapsed()).await);
    ui.note(&format!("{} groups and {} tables", args.groups, args.tables));
    let begun = Instant::now();
    join_groups(&mut members, 1..args.groups).await?;
    join_tables(&mut members, args.tables).await?;
    agreed(&members, begun).await.map_err(late)?;
    at_rest.push(rest(args, &members, (args.groups, args.tables), begun.elapsed()).await);
    let further = (args.groups - 1 + args.tables) as usize * members.len();
    let bytes_per_member = match (at_rest[0].resident_bytes, at_rest[1].resident_bytes) {
        (Some(before), Some(after)) if further > 0 => {
            Some(after.saturating_sub(before) as f64 / further as f64)
        }
        _ => None,
    };
    ui.note("a host is killed");
    let killed = members.pop().expect("three hosts or more");
    let begun = Instant::now();
    killed.host.abort().await;
    let (agreed_s, not_agreed) = match agreed(&members, begun).await {
        Ok(seconds) => (Some(seconds), 0),
        Err(open) => (None, open),
    };
    let (machine, hosts) = (Machine::observe(), args.hosts);
    Ok(Document { machine, hosts, at_rest, bytes_per_member, agreed_s, not_agreed })
}

/// Why a step failed in which this many groups agreed on no view.
fn late(open: usize) -> CliError {
    CliError::Failed(format!("{open} groups had no agreed view after {} s", WITHIN.as_secs()))
}

/// The first host creates these groups, and the others join each.
async fn join_groups(members: &mut [Member], groups: std::ops::Range<u32>) -> Result<(), CliError> {
    let first = members[0].host.address().to_string();
    let numbers: Vec<u32> = groups.collect();
    for numbers in numbers.chunks(JOINING_MAX) {
        for (place, member) in members.iter_mut().enumerate() {
            let mut joining = JoinSet::new();
            for &number in numbers {
                let group = member.host.group(format!("g{number}"));
                let builder = group.peers([&first]).within(WITHIN);
                joining.spawn(async move {
                    let joined = match place {
                        0 => builder.bootstrap().await,
                        _ => builder.join().await,
                    };
                    (number, joined)
                });
            }
            while let Some(joined) = joining.join_next().await {
                let (number, joined) = joined.expect("no panic");
                let (group, mut events) = joined.map_err(explain)?;
                // The handle has the view that was received last.
                tokio::spawn(async move { while events.recv().await.is_some() {} });
                member.groups.insert(number, group);
            }
        }
    }
    Ok(())
}

async fn join_tables(members: &mut [Member], tables: u32) -> Result<(), CliError> {
    let first = members[0].host.address().to_string();
    for number in 0..tables {
        for (place, member) in members.iter_mut().enumerate() {
            let builder = member.host.dht(format!("t{number}")).peers([&first]).within(WITHIN);
            let joined = match place {
                0 => builder.bootstrap().await,
                _ => builder.join().await,
            };
            member.tables.push(joined.map_err(dht::explain)?);
        }
    }
    Ok(())
}

/// Waits until all members of each group are in one view that has all of them and no other; returns
/// the seconds since `begun`, or how many groups are not.
async fn agreed(members: &[Member], begun: Instant) -> Result<f64, usize> {
    let ids: BTreeSet<_> = members.iter().map(|member| member.host.id()).collect();
    let is_agreed = |group: &u32| {
        let views: Option<Vec<Arc<View>>> =
            members.iter().map(|member| member.groups[group].view()).collect();
        views.is_some_and(|views| {
            let numbers: BTreeSet<ViewId> = views.iter().map(|view| view.id()).collect();
            let nodes = views[0].members().iter().map(|member| member.node);
            numbers.len() == 1 && nodes.collect::<BTreeSet<_>>() == ids
        })
    };
    let mut open: Vec<u32> = members[0].groups.keys().copied().collect();
    while begun.elapsed() < WITHIN {
        open.retain(|group| !is_agreed(group));
        if open.is_empty() {
            return Ok(begun.elapsed().as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err(open.len())
}

/// Measures hosts that do nothing.
async fn rest(
    args: &Args,
    members: &[Member],
    (groups, tables): (u32, u32),
    ready: Duration,
) -> AtRest {
    tokio::time::sleep(SETTLED_AFTER).await;
    let counted = || -> [u64; 2] {
        let stats = members.iter().map(|member| member.host.stats());
        stats.fold([0, 0], |[detector, all], stats| {
            let traffic = stats.traffic;
            let messages = traffic.datagrams_out + traffic.stream_messages_out;
            [detector + stats.counters.count("host_detector_sent"), all + messages]
        })
    };
    let (before, cpu, begun) = (counted(), process_cpu(), Instant::now());
    tokio::time::sleep(args.rest).await;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = |now: u64, before: u64| (now - before) as f64 / seconds / members.len() as f64;
    let (after, cpu) = (counted(), process_cpu() - cpu);
    AtRest {
        groups,
        tables,
        ready_s: ready.as_secs_f64(),
        detector_datagrams_per_s: rate(after[0], before[0]),
        messages_per_s: rate(after[1], before[1]),
        cpu_percent: 100.0 * cpu.as_secs_f64() / seconds / members.len() as f64,
        resident_bytes: resident_bytes(),
    }
}
