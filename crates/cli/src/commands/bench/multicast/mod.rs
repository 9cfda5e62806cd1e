//! `paceline bench multicast`: of Paceline alone, or beside another implementation.

mod comparison;

use std::time::Duration;

use paceline_lab::figure::number;
use paceline_lab::scenario::units::{
    parse_duration, parse_frequency, parse_probability, parse_size,
};
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::multicast::{
    FlowControl, MulticastPeer, MulticastPlace, MulticastPlan, MulticastRow, PeerRuns,
    RepairSetting, compare, run as measure,
};

use crate::commands::bench::comparison::PAIRS;
use crate::commands::{Outcome, seed, this_program};
use crate::error::CliError;
use crate::ui::Ui;

/// Losses of members and the time to recover them, with a process for each member
///
/// Without --setting, four are measured one after another: repairs at (8,3), with and without
/// requests for missing packets, at (8,5), and a linear code at (8,3).
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Where the members run
    #[arg(long, value_name = "LAB", default_value = "loopback")]
    lab: Lab,

    /// Members
    #[arg(long, value_name = "N", default_value_t = 16)]
    #[arg(value_parser = clap::value_parser!(u32).range(2..=64))]
    members: u32,

    /// How many of them send [default: all]
    #[arg(long, value_name = "N")]
    senders: Option<u32>,

    /// Packets a second of the whole group
    #[arg(long, value_name = "RATE", default_value = "1000/s", value_parser = parse_frequency)]
    rate: f64,

    /// Share of datagrams that each member loses, repairs too
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = parse_probability)]
    loss: f64,

    /// Bytes of a packet
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = parse_size)]
    size: u64,

    /// Measured time of each setting
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    seconds: Duration,

    /// On loopback: by IP multicast on this UDP port, instead of a copy to each member
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    ip_multicast: Option<u16>,

    /// A setting to measure: code, packets of a repair, members it goes to, and `ask` for requests
    /// of missing packets, such as xor,8,3 or rlc32,8,2,ask; may be repeated
    #[arg(long = "setting", value_name = "CODE,R,C", value_parser = parse_setting)]
    settings: Vec<RepairSetting>,

    /// Change a setting of the group, such as protocol.flush_after=5ms; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    sets: Vec<String>,

    /// On loopback: which members lose which packets
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = seed())]
    seed: u64,

    /// Run another implementation in turn with Paceline, on the same network, and compare them
    #[arg(long, value_name = "PEER")]
    peer: Option<PeerName>,

    /// Runs of each; needs --peer [default: 3]
    #[arg(long, value_name = "N", requires = "peer")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pairs: Option<u32>,

    /// The receiver that limits a sender of Aeron; needs --peer [default: min]
    #[arg(long, value_name = "RECEIVER", requires = "peer")]
    flow_control: Option<FlowControlName>,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench multicast
  paceline bench multicast --loss 5% --setting rlc64,8,4 --setting xor,4,4,ask
  paceline bench multicast --lab netns --seconds 60s --json
  paceline bench multicast --lab netns --peer aeron
  paceline bench multicast --lab netns --senders 1 --loss 5% --peer aeron --pairs 5

The network lab needs Linux and root: a network namespace for each member, a bridge between them,
IP multicast across it, and nftables that drop. On loopback members drop what has reached them.
Times of recovery run from when a packet would have arrived.

--peer aeron runs a Java process for each member after each run of Paceline, each with a media
driver of its own, over UDP multicast, also on loopback. It needs Java 17 and, in PACELINE_AERON,
the driver that `cargo xtask peers aeron` builds. Times are from sending to delivery, of all packets
that are delivered, repaired ones included. Paceline has one --setting, by default xor,8,3,ask.
Aeron warms up for 5 s and delivers the packets of a sender in order: those after a gap wait for it.
--setting and settings of the protocol apply to Paceline only.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lab {
    /// Loopback, losses drawn by the receivers
    Loopback,
    /// Network namespaces, IP multicast, losses by nftables
    Netns,
}

/// Another implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PeerName {
    /// Aeron, over UDP multicast
    Aeron,
}

impl PeerName {
    fn peer(self) -> MulticastPeer {
        match self {
            PeerName::Aeron => MulticastPeer::Aeron,
        }
    }
}

/// The receiver that limits a sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FlowControlName {
    /// The slowest, so that all receive everything
    Min,
    /// The fastest: Aeron's own default
    Max,
}

impl FlowControlName {
    fn flow_control(self) -> FlowControl {
        match self {
            FlowControlName::Min => FlowControl::Min,
            FlowControlName::Max => FlowControl::Max,
        }
    }
}

/// What is compared with another implementation if nothing is said: all packets arrive.
const BESIDE_A_PEER: RepairSetting = RepairSetting { window: None, r: 8, c: 3, questions: true };

/// What is measured if nothing is said.
const DEFAULT: [RepairSetting; 4] = [
    RepairSetting { window: None, r: 8, c: 3, questions: false },
    RepairSetting { window: None, r: 8, c: 5, questions: false },
    RepairSetting { window: Some(32), r: 8, c: 3, questions: false },
    BESIDE_A_PEER,
];

/// `xor,8,3`, `rlc32,8,2`, `xor,8,3,ask`.
fn parse_setting(text: &str) -> Result<RepairSetting, String> {
    let wrong = || format!("`{text}` is not a setting, such as xor,8,3 or rlc32,8,2,ask");
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let (code, r, c, questions) = match parts[..] {
        [code, r, c] => (code, r, c, false),
        [code, r, c, "ask"] => (code, r, c, true),
        _ => return Err(wrong()),
    };
    let window = match code.strip_prefix("rlc") {
        None if code == "xor" => None,
        None => return Err(wrong()),
        Some("") => Some(32),
        Some(window) => Some(window.parse().map_err(|_| wrong())?),
    };
    let number = |text: &str| text.parse().map_err(|_| wrong());
    Ok(RepairSetting { window, r: number(r)?, c: number(c)?, questions })
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let place = match (args.lab, args.ip_multicast) {
        (Lab::Loopback, multicast_port) => MulticastPlace::Loopback { multicast_port },
        (Lab::Netns, None) => MulticastPlace::Netns,
        (Lab::Netns, Some(_)) => {
            let text = "--ip-multicast applies only to loopback: --lab netns always uses it";
            return Err(CliError::Input(text.to_owned()));
        }
    };
    let plan = MulticastPlan {
        members: args.members,
        senders: args.senders.unwrap_or(args.members),
        packets_per_second: args.rate,
        packet_bytes: args.size as usize,
        loss: args.loss,
        place,
        duration: args.seconds,
        seed: args.seed,
        sets: args.sets,
    };
    if let Some(peer) = args.peer {
        let setting = match args.settings[..] {
            [] => BESIDE_A_PEER,
            [setting] => setting,
            _ => {
                let text = "--peer compares with one --setting";
                return Err(CliError::Input(text.to_owned()));
            }
        };
        let flow_control = args.flow_control.unwrap_or(FlowControlName::Min).flow_control();
        let pairs = args.pairs.unwrap_or(PAIRS);
        return beside_a_peer(
            &plan,
            setting,
            PeerRuns { peer: peer.peer(), flow_control, pairs },
            ui,
        );
    }
    let settings = if args.settings.is_empty() { &DEFAULT[..] } else { &args.settings[..] };
    let program = this_program()?;
    let mut rows = Vec::new();
    for &setting in settings {
        rows.push(measure(&plan, setting, &program, &ui.progress())?);
    }
    let bench = Bench::new(rows);
    ui.document(&bench)?;
    ui.print(&describe(&plan, &bench.results))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::of(bench.results.iter().all(is_kept)))
}

/// Runs pairs.
fn beside_a_peer(
    plan: &MulticastPlan,
    setting: RepairSetting,
    runs: PeerRuns,
    ui: &Ui,
) -> Result<Outcome, CliError> {
    let comparison = compare(plan, setting, runs, &this_program()?, &ui.progress())?;
    let bench = Bench::new(vec![comparison]);
    ui.document(&bench)?;
    ui.print(&comparison::describe(plan, &bench.results[0]))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    ui.warn_if_stopped();
    let is_kept = bench.results[0].pairs.iter().all(|pair| is_kept(&pair.paceline));
    Ok(Outcome::of(is_kept && !ui.is_stopped()))
}

/// What was neither delivered nor reported lost is a promise that was broken.
fn is_kept(row: &MulticastRow) -> bool {
    row.untold == 0 && row.corrupt == 0
}

fn describe(plan: &MulticastPlan, rows: &[MulticastRow]) -> String {
    let title = format!(
        "{} members, {} packets a second, {} % lost at each\n\n",
        plan.members,
        number(plan.packets_per_second),
        number(plan.loss * 100.0)
    );
    let percent = |share: f64| number(share * 100.0);
    let lines: Vec<[String; 12]> = rows
        .iter()
        .map(|row| {
            [
                setting(row),
                row.lost.to_string(),
                percent(row.recovered),
                percent(row.pulled),
                row.reported_lost.to_string(),
                number(row.p50_ms),
                number(row.mean_ms),
                number(row.p99_ms),
                percent(row.overhead),
                format!("{} / {}", number(row.data_p50_ms), number(row.data_p99_ms)),
                number(row.cores),
                number(row.load),
            ]
        })
        .collect();
    let head = [
        "setting",
        "lost",
        "repaired %",
        "asked %",
        "reported",
        "p50 ms",
        "mean ms",
        "p99 ms",
        "repairs %",
        "data p50 / p99 ms",
        "cores",
        "load",
    ];
    let granted = rows.first().map_or(0, |row| row.receive_buffer_bytes);
    title + &table(head, &lines) + &format!("receive buffers of {} KiB granted\n", granted >> 10)
}

/// `xor (8,3) ask`.
fn setting(row: &MulticastRow) -> String {
    let code = row.window.map_or("xor".to_owned(), |window| format!("rlc {window}"));
    let ask = if row.questions { " ask" } else { "" };
    format!("{code} ({},{}){ask}", row.r, row.c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read() {
        let parsed = |text| parse_setting(text).ok();
        let setting = |window, questions| Some(RepairSetting { window, r: 8, c: 3, questions });
        assert_eq!(parsed("xor,8,3"), setting(None, false));
        assert_eq!(parsed("rlc,8,3,ask"), setting(Some(32), true));
        assert_eq!(parsed("rlc64, 8, 3"), setting(Some(64), false));
        for wrong in ["", "xor", "xor,8", "lrc,8,3", "xor,8,3,no", "rlcx,8,3", "xor,a,3"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }
}
