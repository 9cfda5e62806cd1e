use std::path::PathBuf;
use std::time::Duration;

use paceline::{BroadcastError, Delivery, Event, Group};
use serde::Serialize;
use tokio::sync::mpsc;

use super::Outcome;
use super::member::{
    self, LINES_AHEAD, Member, ViewLine, describe, leave, read_lines, runtime, stop_asked,
};
use crate::content::text_or_base64;
use crate::error::CliError;
use crate::service_tables;
use crate::ui::Ui;

/// Send lines of standard input to a group, and print what its members send
///
/// Every line becomes a message to all members, the sender included; every delivery is printed as
/// `ID: text`. While too few members are reachable the command stops reading input. After the end
/// of the input the member stays until Ctrl-C or --count, then leaves.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// The node file whose [[group]] of this name says how the group is configured: its windows and
    /// its largest message must be equal at all members
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Read the input once the group has this many members
    #[arg(long, value_name = "N", default_value = "1")]
    members: usize,

    /// Stop after this many deliveries
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

const AFTER_HELP: &str = "\
Examples, one in each terminal:
  paceline broadcast --bootstrap --bind 127.0.0.1:7001 --id 1
  paceline broadcast --peer 127.0.0.1:7001 --id 2
  paceline broadcast --peer 127.0.0.1:7001 --id 3

With --json a delivery is a JSON document in a line: {\"origin\":1,\"seq\":4,\"text\":\"hello\"},
and so is a view: {\"view\":3,\"members\":[1,2,3]}. A message that is not UTF-8 is in base64
under \"text_base64\" instead of \"text\". On a terminal control characters are shown as \\x1b.";

/// How often a line is offered again that no group was there to accept.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Line<'a> {
    origin: u64,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text_base64: Option<String>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let runtime = runtime()?;
    let settings =
        args.config.map(|file| service_tables::group_of(&file, args.member.host.group()));
    let member = args.member.start(&runtime, settings.transpose()?)?;
    ui.note(&format!("{} listens on {}", member.group.id(), member.group.local_addr()));
    let (lines, input) = mpsc::channel(LINES_AHEAD);
    read_lines(lines);
    runtime.block_on(exchange(member, input, args.members, args.count, ui))?;
    Ok(Outcome::Done)
}

async fn exchange(
    member: Member,
    input: mpsc::Receiver<Vec<u8>>,
    members: usize,
    count: Option<u64>,
    ui: &Ui,
) -> Result<(), CliError> {
    let Member { group, mut events, host } = member;
    let sending = send_lines(group.clone(), input);
    tokio::pin!(sending);
    tokio::pin! { let stop = stop_asked(); }
    let (mut delivered, mut is_complete, mut is_sending) = (0, false, true);
    while count.is_none_or(|count| delivered < count) {
        tokio::select! {
            () = &mut stop => break,
            sent = &mut sending, if is_complete && is_sending => {
                sent.map_err(|error| CliError::Input(error.to_string()))?;
                is_sending = false;
            }
            event = events.recv() => match event {
                None => break,
                Some(Event::Delivered(delivery)) => {
                    delivered += 1;
                    print(&delivery, ui)?;
                }
                Some(event) => {
                    if let Event::View(view) = &event {
                        is_complete |= view.len() >= members;
                        ui.record(&ViewLine::new(view))?;
                    }
                    describe(&event).inspect(|text| ui.note(text));
                }
            }
        }
    }
    leave(group, events).await;
    host.stop().await;
    Ok(())
}

async fn send_lines(
    group: Group,
    mut input: mpsc::Receiver<Vec<u8>>,
) -> Result<(), BroadcastError> {
    while let Some(line) = input.recv().await {
        loop {
            match group.broadcast(line.clone()).await {
                Ok(()) => break,
                // The primary partition may return: the input waits for it.
                Err(BroadcastError::LostPrimary | BroadcastError::NotAMember) => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

fn print(delivery: &Delivery, ui: &Ui) -> Result<(), CliError> {
    let bytes = &delivery.payload[..];
    let (text, text_base64) = text_or_base64(bytes);
    let (origin, seq) = (delivery.origin.0, delivery.seq);
    let line = Line { origin, seq, text, text_base64 };
    ui.line_of_bytes(&line, || [format!("{origin}: ").as_bytes(), bytes].concat())
}
