use paceline_lab::serve_control;
use paceline_lab::table::table;

use super::Outcome;
use super::member::{self, runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Be a member that forwards what the others broadcast, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// Do what the parent process says in JSON lines on standard input: one node of a scenario
    #[arg(long, hide = true)]
    control: bool,
}

const AFTER_HELP: &str = "\
Examples:
  paceline node --roster members.txt --id 2
  paceline node --bind 127.0.0.1:0         a group of one, to look at

With --json the counters at the end are one JSON document.";

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.control {
        serve_control()?;
        return Ok(Outcome::Done);
    }
    let runtime = runtime()?;
    let member = args.member.start(&runtime)?;
    ui.note(&format!("{} of {} listens on {}", member.id, member.members, member.address));
    let (group, mut deliveries) = (member.group, member.deliveries);
    let (mut messages, mut bytes) = (0u64, 0u64);
    runtime.block_on(async {
        tokio::pin! { let stop = stop_asked(); }
        loop {
            tokio::select! {
                () = &mut stop => break,
                delivery = deliveries.recv() => match delivery {
                    Some(delivery) => {
                        messages += 1;
                        bytes += delivery.payload.len() as u64;
                    }
                    None => break,
                },
            }
        }
        group.stop().await;
    });
    let counters = group.stats().counters.sorted();
    let mut counts = vec![("messages_delivered", messages), ("bytes_delivered", bytes)];
    counts.extend(counters);
    let document: serde_json::Map<String, serde_json::Value> =
        counts.iter().map(|&(name, n)| (name.to_owned(), n.into())).collect();
    ui.document(&document)?;
    let rows: Vec<[String; 2]> =
        counts.iter().map(|(name, n)| [name.to_string(), n.to_string()]).collect();
    ui.print(&table(["counter", "count"], &rows))?;
    Ok(Outcome::Done)
}
