use std::io::BufRead;

use paceline::{BroadcastError, Delivery, Group};
use serde::Serialize;
use tokio::sync::mpsc;

use super::Outcome;
use super::member::{self, Member, runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Send lines of standard input to a group, and print what its members send
///
/// Every line becomes a message to all members, oneself included; every delivery is printed as
/// `ID: text`. After the end of the input the member stays, since the others need it to forward,
/// until Ctrl-C or --count.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// End after so many deliveries
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

const AFTER_HELP: &str = "\
Examples, one in each terminal:
  printf '0 127.0.0.1:7001\\n1 127.0.0.1:7002\\n2 127.0.0.1:7003\\n' > members.txt
  paceline broadcast --roster members.txt --id 0
  paceline broadcast --roster members.txt --id 1
  paceline broadcast --roster members.txt --id 2

With --json a delivery is a JSON document in a line: {\"origin\":0,\"seq\":4,\"text\":\"hello\"}.";

/// Lines read ahead of what the group admits.
const LINES_AHEAD: usize = 16;

#[derive(Serialize)]
struct Line<'a> {
    origin: u32,
    seq: u64,
    text: &'a str,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if !args.member.has_roster() {
        return Err(CliError::Input("a group needs --roster FILE and --id K".to_owned()));
    }
    let runtime = runtime()?;
    let member = args.member.start(&runtime)?;
    ui.note(&format!("{} of {} listens on {}", member.id, member.members, member.address));
    let (lines, input) = mpsc::channel(LINES_AHEAD);
    // A read of standard input cannot be given up, so it has a thread of its own.
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().split(b'\n').map_while(Result::ok) {
            if lines.blocking_send(line).is_err() {
                return;
            }
        }
    });
    runtime.block_on(exchange(member, input, args.count, ui))?;
    Ok(Outcome::Done)
}

async fn exchange(
    member: Member,
    input: mpsc::Receiver<Vec<u8>>,
    count: Option<u64>,
    ui: &Ui,
) -> Result<(), CliError> {
    let Member { group, mut deliveries, .. } = member;
    let sending = send_lines(group.clone(), input);
    tokio::pin!(sending);
    tokio::pin! { let stop = stop_asked(); }
    let (mut delivered, mut is_sending) = (0, true);
    while count.is_none_or(|count| delivered < count) {
        tokio::select! {
            () = &mut stop => break,
            sent = &mut sending, if is_sending => {
                sent.map_err(|error| CliError::Input(error.to_string()))?;
                is_sending = false;
            }
            delivery = deliveries.recv() => {
                let Some(delivery) = delivery else { break };
                delivered += 1;
                print(&delivery, ui)?;
            }
        }
    }
    group.stop().await;
    Ok(())
}

async fn send_lines(
    group: Group,
    mut input: mpsc::Receiver<Vec<u8>>,
) -> Result<(), BroadcastError> {
    while let Some(line) = input.recv().await {
        group.broadcast(line).await?;
    }
    Ok(())
}

fn print(delivery: &Delivery, ui: &Ui) -> Result<(), CliError> {
    let text = String::from_utf8_lossy(&delivery.payload);
    let (origin, seq) = (delivery.origin.0, delivery.seq);
    ui.line(&Line { origin, seq, text: &text }, || format!("{origin}: {text}"))
}
