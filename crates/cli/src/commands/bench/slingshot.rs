use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::slingshot::{Settings, run as measure};

use crate::commands::Outcome;
use crate::error::CliError;
use crate::ui::Ui;

/// Nanoseconds a packet and bytes of a member of multicast groups, to 1,024 members and groups
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The most members of a group, and the most groups, 16 to 1024
    #[arg(long, value_name = "N", default_value_t = 1_024)]
    #[arg(value_parser = clap::value_parser!(u32).range(16..=1_024))]
    most: u32,
    /// Packets of each row, 10000 to 2000000
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    #[arg(value_parser = clap::value_parser!(u32).range(10_000..=2_000_000))]
    packets: u32,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench slingshot
  paceline bench slingshot --most 256 --json

One member by itself, and the packets and repairs that come to it, at (8,3) and 1 % loss: 10,000
packets of 1,000 bytes a second of all groups together. First one group of 16 to 1,024 members, then
1 to 1,024 groups, each of 64 of 1,024 nodes drawn at random. `ns/packet` is processor time for each
packet that comes, the repairs that it receives and sends included; `state` is what it keeps beside
payloads, and `recovered` the share of lost packets that repairs bring. `regions` are the sets of
groups that some others share with it: each has a bin. At few packets a second of a region its
repairs are sent before they are full, so that there are more of them.";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let settings = Settings { most: args.most, packets: args.packets };
    let bench = Bench::new(measure(settings, &ui.progress())?);
    ui.document(&bench)?;
    let rows: Vec<[String; 8]> = bench
        .results
        .iter()
        .map(|row| {
            [
                row.members.to_string(),
                row.groups.to_string(),
                row.regions.to_string(),
                number(row.ns_per_packet.round()),
                number((row.state_bytes as f64 / 1e3).round()),
                number(row.repairs_sent_per_packet),
                number(row.repairs_received_per_packet),
                number(row.recovered),
            ]
        })
        .collect();
    let header = [
        "members",
        "groups",
        "regions",
        "ns/packet",
        "state kB",
        "repairs sent",
        "received",
        "recovered",
    ];
    ui.print(&table(header, &rows))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::Done)
}
