use std::cell::Cell;
use std::time::Duration;

use paceline::multicast::{Event, Events};
use paceline::proto::slingshot::RejectReason;
use paceline::{Multicast, MulticastError};
use paceline_lab::scenario::units::{parse_frequency, parse_size};
use serde::Serialize;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::member::{self, Tally, leave, tell};
use crate::commands::Outcome;
use crate::commands::member::{LINES_AHEAD, read_lines, runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// Send lines of standard input to a group, each as a packet
///
/// With --rate the command generates packets instead. After the last packet the member stays for a
/// second, so that others can request missing packets, and leaves.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  date | paceline multicast send --peer 127.0.0.1:7001
  paceline multicast send --peer 127.0.0.1:7001 --rate 1000/s --size 1KB --count 60000")]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    /// Start once the group has this many members
    #[arg(long, value_name = "N", default_value = "2")]
    members: usize,

    /// Generate this many packets a second
    #[arg(long, value_name = "RATE", value_parser = parse_frequency)]
    rate: Option<f64>,

    /// Bytes of a packet that is made [default: as its number needs]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, requires = "rate")]
    size: Option<u64>,

    /// Stop after this many packets
    #[arg(long, value_name = "N")]
    count: Option<u64>,
}

/// How long the member stays for others to ask it.
const LINGER: Duration = Duration::from_secs(1);
/// Interval at which a packet is offered again to a group that this node rejoins.
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
            "--rate 0 sends no packets: expected a rate above 0".to_owned(),
        ));
    }
    let runtime = runtime()?;
    let (multicast, events) = args.member.start(&runtime, ui)?;
    let document = runtime.block_on(exchange(&args, multicast, events, ui))?;
    ui.note(&format!("{} packets sent; {}", document.sent, document.received.describe()));
    ui.record(&document)?;
    Ok(Outcome::Done)
}

async fn exchange(
    args: &Args,
    multicast: Multicast,
    mut events: Events,
    ui: &Ui,
) -> Result<Document, CliError> {
    let (packets, input) = mpsc::channel(LINES_AHEAD);
    match args.rate {
        Some(rate) => {
            tokio::spawn(make(packets, rate, args.size.unwrap_or(0) as usize));
        }
        None => read_lines(packets),
    }
    let sent = Cell::new(0);
    // A future of its own: what it waits for holds up neither the events nor the end.
    let sending = send_packets(&multicast, input, args.count, &sent);
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

/// Sends what comes, at most `count` packets, and counts it.
async fn send_packets(
    multicast: &Multicast,
    mut input: mpsc::Receiver<Vec<u8>>,
    count: Option<u64>,
    sent: &Cell<u64>,
) -> Result<(), MulticastError> {
    while count.is_none_or(|count| sent.get() < count) {
        let Some(packet) = input.recv().await else { break };
        loop {
            match multicast.send(packet.clone()).await {
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

/// Makes packets at a rate: their numbers, filled up to a size.
async fn make(packets: mpsc::Sender<Vec<u8>>, rate: f64, bytes: usize) {
    let mut ticks = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
    // What was missed is made up for.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for number in 0u64.. {
        ticks.tick().await;
        let mut packet = format!("packet {number} ").into_bytes();
        packet.resize(packet.len().max(bytes), b'.');
        if packets.send(packet).await.is_err() {
            return;
        }
    }
}
