use super::member::{self, Tally, leave, print, tell};
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Print the packets of a group, and reports of losses
///
/// Each is printed as `ID: text`. Stops at Ctrl-C or --count, and prints how packets arrived.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples, one in each terminal:
  paceline multicast recv --bootstrap --bind 127.0.0.1:7001 --id 1
  paceline multicast recv --peer 127.0.0.1:7001 --id 2
  paceline multicast send --peer 127.0.0.1:7001 --id 3

With --json a packet is a JSON document in a line: {\"sender\":3,\"seq\":0,\"text\":\"hello\",
\"how\":\"direct\",\"after_ms\":0.0,\"late\":false}; so are losses and views. A packet that is
not UTF-8 is in base64 under \"text_base64\" instead of \"text\". On a terminal control
characters are shown as \\x1b.")]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Count packets without printing them
    #[arg(long)]
    quiet: bool,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let runtime = runtime()?;
    let (multicast, mut events) = args.member.start(&runtime, ui)?;
    let mut tally = Tally::default();
    runtime.block_on(async {
        tokio::pin! { let stop = stop_asked(); }
        while args.count.is_none_or(|count| tally.packets() < count) {
            tokio::select! {
                () = &mut stop => break,
                event = events.recv() => {
                    let Some(event) = event else { break };
                    tally.note(&event);
                    match &event {
                        paceline::multicast::Event::Packet(packet) if !args.quiet => {
                            print(packet, ui)?;
                        }
                        event => tell(event, ui)?,
                    }
                }
            }
        }
        leave(&multicast, events).await;
        Ok::<(), CliError>(())
    })?;
    ui.note(&tally.describe());
    ui.record(&tally)?;
    Ok(Outcome::Done)
}
