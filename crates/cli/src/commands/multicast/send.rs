use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use paceline::multicast::{Config, Event, Events, RateControl};
use paceline::proto::slingshot::RejectReason;
use paceline::{Multicast, MulticastError};
use paceline_lab::scenario::units::{parse_frequency, parse_rate, parse_size};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::member::{self, Tally, leave, tell};
use crate::commands::Outcome;
use crate::commands::member::{LINES_AHEAD, read_lines, runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Send lines of standard input or files to a group, each as a message
///
/// A message of up to 1 MiB is delivered whole or reported lost; see --datagram for the size of its
/// packets. With --rate the command generates messages instead. After the last message the member
/// stays for a second, so that others can request missing packets, and leaves.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  date | paceline multicast send --peer 127.0.0.1:7001
  paceline multicast send --peer 127.0.0.1:7001 --file image.jpeg
  paceline multicast send --peer 127.0.0.1:7001 --file image.jpeg --rate-control tfmcc
  paceline multicast send --peer 127.0.0.1:7001 --rate 1000/s --size 1KB --count 60000")]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// Start once the group has this many members
    #[arg(long, value_name = "N", default_value = "2")]
    members: usize,

    /// Send this file as a message, instead of lines; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with = "rate")]
    file: Vec<PathBuf>,

    /// What is paced, and how
    #[arg(long, value_name = "HOW", default_value = "fixed")]
    rate_control: RateControlName,

    /// The highest rate of what is paced, with its heads but without repairs
    #[arg(long, value_name = "RATE", default_value = "100Mbit", value_parser = rate_max)]
    rate_max: u32,

    /// Generate this many messages a second
    #[arg(long, value_name = "RATE", value_parser = parse_frequency)]
    rate: Option<f64>,

    /// Bytes of a message that is made [default: as its number needs]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "rate")]
    size: Option<u64>,

    /// Stop after this many messages
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// What is paced, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RateControlName {
    /// Messages of several packets, at --rate-max; others leave at once
    Fixed,
    /// All messages, at a rate that follows the slowest receiver (TFMCC, RFC 4654)
    Tfmcc,
}

impl From<RateControlName> for RateControl {
    fn from(name: RateControlName) -> RateControl {
        match name {
            RateControlName::Fixed => RateControl::Fixed,
            RateControlName::Tfmcc => RateControl::Tfmcc,
        }
    }
}

/// Reads a rate as bytes a second.
fn rate_max(text: &str) -> Result<u32, String> {
    let bytes = u32::try_from(parse_rate(text)?.bytes_per_second()).ok();
    bytes.filter(|&bytes| bytes >= 1_000).ok_or_else(|| "expected 8kbit to 34Gbit".to_owned())
}

/// How long the member stays for others to ask it.
const LINGER: Duration = Duration::from_secs(1);
/// Interval at which a message is offered again to a group that this node rejoins.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Document {
    sent: u64,
    received: Tally,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.rate.is_some_and(|rate| rate <= 0.0) {
        return Err(CliError::Input(
            "--rate 0 sends no messages: expected a rate above 0".to_owned(),
        ));
    }
    let files = args.file.iter().map(read_file).collect::<Result<Vec<_>, CliError>>()?;
    let runtime = runtime()?;
    let (control, rate_max) = (args.rate_control, args.rate_max);
    let sending = |config: Config| {
        config.with_rate_control(control.into()).with_message_bytes_per_second(rate_max)
    };
    let (multicast, events) = args.member.start(&runtime, ui, sending)?;
    let document = runtime.block_on(exchange(&args, files, multicast, events, ui))?;
    ui.note(&format!("{} messages sent; {}", document.sent, document.received.describe()));
    ui.record(&document)?;
    Ok(Outcome::Done)
}

async fn exchange(
    args: &Args,
    files: Vec<Vec<u8>>,
    multicast: Multicast,
    mut events: Events,
    ui: &Ui,
) -> Result<Document, CliError> {
    let (messages, input) = mpsc::channel(LINES_AHEAD);
    match args.rate {
        Some(rate) => {
            tokio::spawn(make(messages, rate, args.size.unwrap_or(0) as usize));
        }
        None if !files.is_empty() => {
            tokio::spawn(async move {
                for file in files {
                    if messages.send(file).await.is_err() {
                        return;
                    }
                }
            });
        }
        None => read_lines(messages),
    }
    let sent = Cell::new(0);
    // A future of its own: what it waits for holds up neither the events nor the end.
    let sending = send_messages(&multicast, input, args.count, &sent);
    tokio::pin!(sending);
    let (mut received, mut is_complete, mut is_over) = (Tally::default(), false, false);
    tokio::pin! { let stop = stop_asked(); }
    tokio::pin! { let linger = tokio::time::sleep(Duration::ZERO); }
    loop {
        tokio::select! {
            () = &mut stop => break,
            () = &mut linger, if is_over => break,
            ended = &mut sending, if is_complete && !is_over => {
                ended.map_err(|error| CliError::Input(error.to_string()))?;
                is_over = true;
                linger.as_mut().reset(tokio::time::Instant::now() + LINGER);
            }
            event = events.recv() => {
                let Some(event) = event else { break };
                received.note(&event);
                if let Event::View(view) = &event {
                    is_complete |= view.len() >= args.members;
                }
                tell(&event, ui)?;
            }
        }
    }
    leave(&multicast, events).await;
    Ok(Document { sent: sent.get(), received })
}

/// The bytes of a file.
fn read_file(path: &PathBuf) -> Result<Vec<u8>, CliError> {
    std::fs::read(path)
        .map_err(|error| CliError::Input(format!("--file {}: {error}", path.display())))
}

/// Sends what comes, at most `count` messages, and counts it.
async fn send_messages(
    multicast: &Multicast,
    mut input: mpsc::Receiver<Vec<u8>>,
    count: Option<u64>,
    sent: &Cell<u64>,
) -> Result<(), MulticastError> {
    while count.is_none_or(|count| sent.get() < count) {
        let Some(message) = input.recv().await else { break };
        loop {
            match multicast.send(message.clone()).await {
                Ok(()) => break,
                // An excluded member joins again by itself: the input waits for it.
                Err(MulticastError::Refused(RejectReason::NotAMember(_))) => {
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
                Err(error) => return Err(error),
            }
        }
        sent.set(sent.get() + 1);
    }
    Ok(())
}

/// Makes messages at a rate: their numbers, filled up to a size.
async fn make(messages: mpsc::Sender<Vec<u8>>, rate: f64, bytes: usize) {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    // What was missed is made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0u64.. {
        ticks.tick().await;
        let mut message = format!("packet {number} ").into_bytes();
        message.resize(message.len().max(bytes), b'.');
        if messages.send(message).await.is_err() {
            return;
        }
    }
}
