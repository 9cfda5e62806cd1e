//! `paceline bench broadcast`: of Paceline alone, or beside another implementation.

mod comparison;

use std::time::Duration;

use paceline_lab::figure::number;
use paceline_lab::scenario::Rate;
use paceline_lab::scenario::units::{parse_rate, parse_size};
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::broadcast::{
    BenchPlan, BenchRow, Membership, Peer, Place, compare, run as measure,
};

use crate::commands::bench::comparison::PAIRS;
use crate::commands::topology::{self, Choice};
use crate::commands::{Outcome, this_program};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Throughput, latency and processor time of a group, a process for each member
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Where the members run
    #[arg(long, value_name = "LAB", default_value = "loopback")]
    lab: Lab,

    /// Members
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=64))]
    nodes: u32,

    /// Members join a group and watch each other, instead of a fixed roster
    #[arg(long)]
    group: bool,

    /// Rate of each member's port, both ways; needs --lab netns [default there: 1Gbit]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    rate: Option<Rate>,

    /// The senders: one, all, a number (the first 2, neighbours), or members from 0: 0,2 or 0,2-7
    #[arg(long, value_name = "SENDERS", default_value = "all", value_parser = parse_senders)]
    senders: Senders,

    /// Members that send only a message each 100 ms, in the same form; their latency is measured
    /// separately
    #[arg(long, value_name = "SENDERS", value_parser = parse_senders)]
    quiet: Option<Senders>,

    /// How messages spread: unicast, chain, tree, pipeline, or auto for the planner
    #[arg(long, value_name = "TOPOLOGY", default_value = "chain", value_parser = topology::parse)]
    topology: Choice,

    /// Bytes of a message, with a unit
    #[arg(long, value_name = "SIZE", default_value = "8000B", value_parser = parse_size)]
    size: u64,

    /// Seconds measured, after one of warm-up
    #[arg(long, value_name = "S", default_value = "5s", value_parser = parse::seconds)]
    seconds: Duration,

    /// SO_SNDBUF and SO_RCVBUF of every socket [default: the kernel's choice]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    socket_buffer: Option<u64>,

    /// Change a setting of the group, such as protocol.window_bytes=2MiB; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// Run another implementation in turn with Paceline, on the same network, and compare them
    #[arg(long, value_name = "PEER", conflicts_with = "quiet")]
    peer: Option<PeerName>,

    /// Runs of each; needs --peer [default: 3]
    #[arg(long, value_name = "N", requires = "peer")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pairs: Option<u32>,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench broadcast
  paceline bench broadcast --lab netns --rate 100Mbit --senders one
  paceline bench broadcast --lab netns --rate 100Mbit --senders 2
  paceline bench broadcast --lab netns --rate 100Mbit --senders all --quiet 0,2
  paceline bench broadcast --lab netns --rate 1Gbit --topology unicast --json
  paceline bench broadcast --group --lab netns --rate 100Mbit
  paceline bench broadcast --lab netns --rate 100Mbit --senders one --size 200B --peer jgroups
  paceline bench broadcast --peer jgroups --set workload.rate=500/s --pairs 5

The network lab needs Linux and root: a network namespace for each member, a bridge between them,
both ends of every port shaped; all of it is removed afterwards, also on Ctrl-C. Latency is from
acceptance to each remote delivery; MB/node/s includes a member's own messages.

--peer jgroups runs a Java process for each member of a JGroups cluster, by TCP and DAISYCHAIN,
after each run of Paceline. It needs Java 17 and, in PACELINE_JGROUPS, the driver that `cargo xtask
peers jgroups` builds. JGroups warms up for 5 s. Its latency is from the call that sends a message,
so that waiting for flow-control credit is part of it (send_p99_ms of --json). --topology, --group,
--socket-buffer and settings of the protocol apply to Paceline only; workload.rate paces both.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lab {
    /// Loopback, not shaped
    Loopback,
    /// Network namespaces with shaped ports
    Netns,
}

/// Another implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PeerName {
    /// JGroups, by TCP and DAISYCHAIN
    Jgroups,
}

impl PeerName {
    fn peer(self) -> Peer {
        match self {
            PeerName::Jgroups => Peer::JGroups,
        }
    }
}

/// Who sends, as a scenario says it.
#[derive(Clone, Debug)]
struct Senders(String);

/// A word and a number stay what they are, members become a list: `0,2-7` is `[0, "2-7"]`.
fn parse_senders(text: &str) -> Result<Senders, String> {
    let number = |text: &str| text.trim().parse::<u32>().is_ok();
    let range = |text: &str| text.split_once('-').is_some_and(|(a, b)| number(a) && number(b));
    if ["one", "all"].contains(&text) {
        return Ok(Senders(format!("\"{text}\"")));
    }
    if number(text) {
        return Ok(Senders(text.to_owned()));
    }
    if !text.split(',').all(|part| number(part) || range(part)) {
        return Err("accepted: one, all, a number of members, or members: 0,2 or 0,2-7".to_owned());
    }
    let quoted = |part: &str| if number(part) { part.to_owned() } else { format!("{part:?}") };
    let parts: Vec<String> = text.split(',').map(quoted).collect();
    Ok(Senders(format!("[{}]", parts.join(", "))))
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let place = match (args.lab, args.rate) {
        (Lab::Loopback, None) => Place::Loopback,
        (Lab::Loopback, Some(_)) => {
            return Err(CliError::Input("loopback is not shaped: --rate needs --lab netns".into()));
        }
        (Lab::Netns, rate) => {
            Place::Netns(rate.unwrap_or(Rate::from_bits_per_second(1_000_000_000)))
        }
    };
    let plan = BenchPlan {
        nodes: args.nodes,
        membership: if args.group { Membership::Group } else { Membership::Fixed },
        place,
        senders: args.senders.0,
        quiet: args.quiet.map(|quiet| quiet.0),
        topology: args.topology.0,
        message_bytes: args.size as usize,
        duration: args.seconds,
        socket_buffer_bytes: args.socket_buffer.map(|bytes| bytes.min(1 << 30) as u32),
        sets: args.sets,
    };
    if let Some(peer) = args.peer {
        let pairs = args.pairs.unwrap_or(PAIRS);
        let comparison = compare(&plan, peer.peer(), pairs, &this_program()?, &ui.progress())?;
        let bench = Bench::new(vec![comparison]);
        ui.document(&bench)?;
        ui.print(&comparison::describe(&bench.results[0]))?;
        ui.print(&format!("\n{}\n", bench.machine.describe()))?;
        ui.warn_if_stopped();
        return Ok(Outcome::of(!ui.is_stopped()));
    }
    let bench = Bench::new(vec![measure(&plan, &this_program()?, &ui.progress())?]);
    ui.document(&bench)?;
    ui.print(&describe(&bench.results[0]))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    ui.warn_if_stopped();
    Ok(Outcome::of(!ui.is_stopped()))
}

fn describe(row: &BenchRow) -> String {
    let limit = row.limit_mb_per_node_per_s.zip(row.limit_share);
    let limit = limit.map_or("not shaped".to_owned(), |(limit, share)| {
        format!("{} ({} % of it)", number(limit), number(share * 100.0))
    });
    let starved: Vec<String> = row.starved.iter().map(u64::to_string).collect();
    let starved = if starved.is_empty() { "none".to_owned() } else { starved.join(", ") };
    let rows = [
        ["received, own included", &number(row.mb_per_node_per_s), "MB/node/s"],
        ["limit of the links", &limit, "MB/node/s"],
        ["latency, median", &number(row.p50_ms), "ms"],
        ["latency, 99th percentile", &number(row.p99_ms), "ms"],
        ["of quiet members, 99th", &row.quiet_p99_ms.map_or("-".into(), number), "ms"],
        ["processor time", &number(row.cpu_s_per_gb), "s/GB received"],
        ["fairness, most over fewest", &row.fairness.map_or("-".into(), number), ""],
        ["starved senders", &starved, ""],
        ["seconds without progress", &row.seconds_without_progress.to_string(), ""],
        ["load average", &number(row.load), ""],
    ];
    let rows: Vec<[String; 3]> = rows.iter().map(|row| row.map(str::to_owned)).collect();
    let quiet = match row.quiet_p99_ms {
        Some(_) => format!(", {} of them of quiet members", row.quiet_messages),
        None => String::new(),
    };
    format!("{}{quiet}\n\n", setting(row)) + &table(["", "measured", "unit"], &rows)
}

/// What was run.
fn setting(row: &BenchRow) -> String {
    let rate =
        row.rate_mbit.map_or("loopback".to_owned(), |rate| format!("{} Mbit/s", number(rate)));
    let BenchRow { nodes, topology, senders, message_bytes: bytes, .. } = row;
    format!("{nodes} members, {rate}, {topology}, {senders} sending, {bytes} B messages")
}
