use std::time::Duration;

use paceline_lab::figure::number;
use paceline_lab::scenario::Rate;
use paceline_lab::scenario::units::{parse_duration, parse_probability, parse_rate};
use paceline_lab::table::table;
use paceline_lab_bench::Bench;
use paceline_lab_bench::fetch::{
    FetchCase, FetchPlace, FetchPlan, FetchRow, PhaseRow, run as measure,
};
use paceline_lab_services::mircc::topology::Branch;

use crate::commands::{Outcome, this_program};
use crate::error::CliError;
use crate::ui::Ui;

/// Named data between processes at a fair rate: over two paths behind one link, and over one
///
/// Two cases. Slingshot: consumer C1 fetches a file from the ends of two links behind a shared one;
/// meanwhile C2 fetches another file from one of the ends. Single: one consumer, a forwarder and a
/// producer in a row. The processes are `paceline serve`, `forward` and `fetch`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Where the processes run
    #[arg(long, value_name = "LAB", default_value = "loopback")]
    lab: Lab,

    /// The case to run [default: both]
    #[arg(long, value_name = "CASE")]
    case: Option<Case>,

    /// Rate of the link that both consumers share
    #[arg(long, value_name = "RATE", default_value = "15Mbit", value_parser = parse_rate)]
    joint: Rate,

    /// Rate of the left link behind it
    #[arg(long, value_name = "RATE", default_value = "12Mbit", value_parser = parse_rate)]
    left: Rate,

    /// Rate of the right link behind it
    #[arg(long, value_name = "RATE", default_value = "9Mbit", value_parser = parse_rate)]
    right: Rate,

    /// At which end C2's file is
    #[arg(long, value_name = "END", default_value = "left")]
    second: End,

    /// Rate of both links of the single path
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = parse_rate)]
    single: Rate,

    /// Measured time of each phase
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    seconds: Duration,

    /// Time before that, in which rates settle
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_duration)]
    settle: Duration,

    /// Bytes of a segment
    #[arg(long, value_name = "BYTES", default_value_t = 1_000)]
    #[arg(value_parser = clap::value_parser!(u16).range(100..=8_000))]
    segment_bytes: u16,

    /// The minimum share of the capacity of the links that must arrive
    #[arg(long, value_name = "SHARE", default_value = "90%", value_parser = parse_probability)]
    least: f64,

    /// The maximum difference between the rates of C1 and C2, as a share of the faster one
    #[arg(long, value_name = "SHARE", default_value = "10%", value_parser = parse_probability)]
    apart: f64,
}

const AFTER_HELP: &str = "\
Examples:
  paceline bench fetch --lab netns
  paceline bench fetch --lab netns --case slingshot --second right --seconds 30s --json
  paceline bench fetch --case slingshot --left 10Mbit --right 10Mbit

The network lab needs Linux and root: a network namespace for each node, a bridge between them, and
each node's port shaped both ways as its link is. Mbit/s are Ethernet bytes there, as the shaper of
the consumers' port counts them; on loopback nothing is shaped but by the nodes themselves, and
the bench reports what consumers counted of Data.

Exit status 1 if less than --least of what the links hold comes in a phase (of 15 Mbit/s 13.5, of
100 Mbit/s 90), if C1 and C2 are further --apart, or if a file does not come whole.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lab {
    /// Loopback, links as configured
    Loopback,
    /// Network namespaces with shaped ports
    Netns,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Case {
    /// Two paths behind one link, and a second consumer
    Slingshot,
    /// One path
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum End {
    /// Of the left link
    Left,
    /// Of the right link
    Right,
}

/// What is said of a fetch comes four times a second.
const SECONDS_MIN: Duration = Duration::from_secs(1);

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = parse_duration(text)?;
    if time < SECONDS_MIN {
        return Err("--seconds: expected at least 1 second".to_owned());
    }
    Ok(time)
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let plan = FetchPlan {
        place: match args.lab {
            Lab::Loopback => FetchPlace::Loopback,
            Lab::Netns => FetchPlace::Netns,
        },
        joint: args.joint,
        left: args.left,
        right: args.right,
        second: match args.second {
            End::Left => Branch::Left,
            End::Right => Branch::Right,
        },
        single: args.single,
        duration: args.seconds,
        settle: args.settle,
        segment_bytes: usize::from(args.segment_bytes),
        least: args.least,
        apart: args.apart,
    };
    let cases = match args.case {
        None => &FetchCase::ALL[..],
        Some(Case::Slingshot) => &[FetchCase::Slingshot],
        Some(Case::Single) => &[FetchCase::Single],
    };
    let program = this_program()?;
    let mut rows = Vec::new();
    for &case in cases {
        rows.push(measure(&plan, case, &program, &ui.progress())?);
    }
    let bench = Bench::new(rows);
    ui.document(&bench)?;
    ui.print(&describe(&bench.results))?;
    ui.print(&format!("\n{}\n", bench.machine.describe()))?;
    let missed =
        || bench.results.iter().flat_map(|row| row.missed.iter().map(move |why| (row, why)));
    for (row, why) in missed() {
        ui.warn(&format!("{}: {why}", row.case));
    }
    Ok(Outcome::of(missed().next().is_none()))
}

fn describe(rows: &[FetchRow]) -> String {
    let phases = rows.iter().flat_map(|row| row.phases.iter().map(move |phase| (row, phase)));
    let lines: Vec<[String; 11]> = phases.map(|(row, phase)| line(row, phase)).collect();
    let head = [
        "case",
        "phase",
        "Mbit/s",
        "at least",
        "of links",
        "C1",
        "C2",
        "apart %",
        "branches",
        "goodput C1 / C2",
        "dropped",
    ];
    let mut text = table(head, &lines);
    for row in rows {
        for file in &row.files {
            text += &format!(
                "{} {}: {} bytes in {} s, {} Mbit/s; {} late, {} refused, {} duplicate{}\n",
                row.case,
                file.consumer,
                file.bytes,
                number(file.seconds),
                number(file.goodput_mbit),
                file.timeouts,
                file.nacks,
                file.duplicates,
                if file.is_verified { "; the digest matches" } else { "" },
            );
        }
        text += &format!("{}: load {}\n", row.case, number(row.load));
    }
    text
}

fn line(row: &FetchRow, phase: &PhaseRow) -> [String; 11] {
    let or_dash = |value: Option<f64>| value.map_or("-".to_owned(), number);
    let consumer = |place: usize| phase.consumers.get(place);
    let goodput = |place| or_dash(consumer(place).map(|consumer| consumer.goodput_mbit));
    [
        row.case.to_owned(),
        phase.phase.to_owned(),
        number(phase.mbit),
        number(phase.least_mbit),
        number(phase.links_mbit),
        or_dash(consumer(0).map(|consumer| consumer.mbit)),
        or_dash(consumer(1).map(|consumer| consumer.mbit)),
        or_dash(phase.apart.map(|apart| apart * 100.0)),
        phase.branches_mbit.map(or_dash).join(" / "),
        format!("{} / {}", goodput(0), goodput(1)),
        phase.dropped.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_which_nothing_can_be_measured_is_refused() {
        assert_eq!(parse_time("2500ms"), Ok(Duration::from_millis(2_500)));
        assert!(parse_time("500ms").unwrap_err().contains("at least 1 second"));
        assert!(parse_time("ten").is_err());
    }
}
