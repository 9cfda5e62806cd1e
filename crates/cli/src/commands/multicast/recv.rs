use std::path::{Path, PathBuf};

use paceline::multicast::{Event, Packet};
use paceline_lab::LabError;

use super::member::{self, Tally, leave, print, tell};
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Print the messages of a group, and reports of losses
///
/// Each is printed as `ID: text`. Stops at Ctrl-C or --count, and prints how messages arrived.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples, one in each terminal:
  paceline multicast recv --bootstrap --bind 127.0.0.1:7001 --id 1
  paceline multicast recv --peer 127.0.0.1:7001 --id 2
  paceline multicast send --peer 127.0.0.1:7001 --id 3

With --json a message is a JSON document in a line: {\"sender\":3,\"seq\":0,\"text\":\"hello\",
\"how\":\"direct\",\"after_ms\":0.0,\"late\":false}, with \"packets\" if it took several; so are
losses and views. A message that is not UTF-8 is in base64 under \"text_base64\" instead of
\"text\"; with --save the message's \"file\" is named instead. On a terminal control characters are
shown as \\x1b.")]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// Stop after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Write each message to a file of its own in this folder, and print the file's name instead:
    /// the sender, its incarnation and the message's number
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,

    /// Count messages without printing them
    #[arg(long)]
    quiet: bool,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if let Some(folder) = &args.save {
        std::fs::create_dir_all(folder).map_err(LabError::write(folder))?;
    }
    let runtime = runtime()?;
    let (multicast, mut events) = args.member.start(&runtime, ui, |config| config)?;
    let mut tally = Tally::default();
    runtime.block_on(async {
        tokio::pin! { let stop = stop_asked(); }
        while args.count.is_none_or(|count| tally.messages() < count) {
            tokio::select! {
                () = &mut stop => break,
                event = events.recv() => {
                    let Some(event) = event else { break };
                    tally.note(&event);
                    match &event {
                        Event::Packet(packet) => {
                            let saved = args.save.as_ref().map(|folder| save(packet, folder));
                            let saved = saved.transpose()?;
                            if !args.quiet {
                                print(packet, saved.as_deref(), ui)?;
                            }
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

/// Writes a message to a file of its own. A number is used once by each life of a sender.
fn save(packet: &Packet, folder: &Path) -> Result<PathBuf, CliError> {
    let Packet { sender, incarnation, seq, .. } = packet;
    let file = folder.join(format!("{}-{incarnation:x}-{seq}", sender.0));
    std::fs::write(&file, &packet.payload).map_err(LabError::write(&file))?;
    Ok(file)
}
