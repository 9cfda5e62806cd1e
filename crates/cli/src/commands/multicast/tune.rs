use paceline_lab::figure::number;
use paceline_lab::table::table;
use serde::Serialize;

use super::repairs::{CodeName, Wanted};
use crate::commands::Outcome;
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Print the rate of fire and code that meet a target, and their expected recovery
///
/// Sends nothing. Fails if no setting is expected to meet the target, and prints the best one.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  paceline multicast tune --within 10ms --recover 0.97 --overhead 0.3 --expect-rate 5000/s
  paceline multicast tune --message 1MiB --within 200ms --recover 99.9% \
    --expect-rate 9000/s --expect-bytes 1338B")]
pub struct Args {
    #[command(flatten)]
    wanted: Wanted,

    /// Choose for messages of this size: --recover is the share of them that is whole --within that
    /// time after their first packet. One sender at a time sends, at --expect-rate
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    message: Option<usize>,

    /// Choose among the settings of this code only
    #[arg(long, value_name = "CODE")]
    code: Option<CodeName>,
}

#[derive(Serialize)]
struct Document {
    r: u8,
    c: u8,
    code: CodeName,
    is_within_reach: bool,
    recovered_in_time: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    whole_in_time: Option<f64>,
    recovered: f64,
    mean_ms: f64,
    overhead: f64,
    repair_bytes_per_packet: f64,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let Some(target) = args.wanted.target()? else {
        return Err(CliError::Input("missing --within TIME".to_owned()));
    };
    let messages = args.message.map(|bytes| args.wanted.messages(bytes, &target)).transpose()?;
    let (choice, met) = args.wanted.choice(&target, messages.as_ref(), args.code)?;
    let setting = choice.setting;
    let conditions = args.wanted.conditions();
    let whole = messages.map(|messages| messages.whole(&conditions, &choice));
    let document = Document {
        r: setting.r,
        c: setting.c,
        code: setting.code.into(),
        is_within_reach: met.is_ok(),
        recovered_in_time: choice.in_time,
        whole_in_time: whole,
        recovered: choice.recovered,
        mean_ms: choice.mean.as_secs_f64() * 1e3,
        overhead: setting.overhead(),
        repair_bytes_per_packet: choice.bytes_per_packet,
    };
    ui.document(&document)?;
    let rows = [
        ["rate of fire", &setting.to_string(), ""],
        ["recovered in time", &number(choice.in_time * 100.0), "% of lost packets"],
        ["recovered in total", &number(choice.recovered * 100.0), "% of lost packets"],
        ["mean recovery time", &number(document.mean_ms), "ms"],
        ["repairs", &number(document.overhead * 100.0), "% of all packets"],
        ["bytes of repairs", &number(choice.bytes_per_packet), "for each packet received"],
    ];
    let mut rows: Vec<[String; 3]> = rows.iter().map(|row| row.map(str::to_owned)).collect();
    if let Some(whole) = whole {
        let row = ["messages whole in time", &number(whole * 100.0), "% of messages"];
        rows.insert(1, row.map(str::to_owned));
    }
    ui.print(&table(["expected", "", ""], &rows))?;
    if let Err(error) = &met {
        ui.warn(&format!("the target cannot be met: {error}"));
    }
    Ok(Outcome::of(met.is_ok()))
}
