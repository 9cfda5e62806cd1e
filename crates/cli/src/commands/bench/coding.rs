use std::time::Duration;

use paceline_lab::figure::number;
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::coding::{Settings, run as measure};

use crate::commands::Outcome;
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Gigabytes a second of the sums that repairs are made of, beside copying, on one core
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Time for each row, 1 ms to 10 s
    #[arg(long, visible_alias = "milliseconds", value_name = "TIME", default_value = "100ms")]
    #[arg(value_parser = parse::milliseconds)]
    time: Duration,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench coding
  paceline bench coding --time 1s --json

Packets of 64 bytes to 64 KiB, 32 of them one after the other. `xor` and `multiply-add` (in the
field of 256 elements) add a packet to a sum by each set of instructions that this machine has;
`encode` makes a repair, and `decode` recovers packets, `missing` of them at once. GB/s counts the
bytes of all packets that are read, and `of copy` compares that with copying them in the same run.";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&args.time) {
        return Err(CliError::Input(format!("--time {:?}: expected 1 ms to 10 s", args.time)));
    }
    let settings = Settings { time: args.time };
    let bench = Bench::new(measure(settings, &ui.progress())?);
    ui.document(&bench)?;
    let rows: Vec<[String; 7]> = bench
        .results
        .iter()
        .map(|row| {
            [
                row.what.to_owned(),
                row.by.clone(),
                row.packet_bytes.to_string(),
                row.missing.map_or("-".to_owned(), |missing| missing.to_string()),
                number(row.gb_per_s),
                number(row.of_copy),
                row.packets_per_s.map_or("-".to_owned(), |rate| number(rate.round())),
            ]
        })
        .collect();
    let header = ["what", "by", "bytes", "missing", "GB/s", "of copy", "packets/s"];
    ui.print(&table(header, &rows))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    Ok(Outcome::Done)
}
