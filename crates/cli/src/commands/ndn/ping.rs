use std::time::Duration;

use paceline::named::{AskError, Forwarder, Name, PathLabel, Reply};
use paceline_lab::scenario::units::parse_duration;
use serde::Serialize;

use super::args::{Consumer, PathLine, explain_ask, parse_name};
use crate::commands::Outcome;
use crate::commands::member::{runtime, stop_asked, unless_stopped};
use crate::error::CliError;
use crate::ui::Ui;

/// Send ping Interests for a name
///
/// Prints the path, the round-trip time and the stamped rate of each reply. For a producer without
/// support for ping it requests the name itself.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline ndn ping /music -c 3
  paceline ndn ping /music --all-paths --interval 200ms")]
pub struct Args {
    /// The name, or a prefix that is served
    #[arg(value_parser = parse_name)]
    name: Name,

    #[command(flatten)]
    consumer: Consumer,

    /// Stop after this many [default: Ctrl-C]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// The time between two Interests
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    interval: Duration,

    /// Find all paths first, and use each in turn
    #[arg(long)]
    all_paths: bool,
}

#[derive(Serialize)]
struct Document {
    name: String,
    sent: u64,
    answered: u64,
    round_trip_ms: Option<RoundTrips>,
    pings: Vec<Ping>,
}

#[derive(Serialize)]
struct RoundTrips {
    min: f64,
    mean: f64,
    max: f64,
}

#[derive(Serialize)]
struct Ping {
    node: Option<String>,
    error: Option<String>,
    #[serde(flatten)]
    path: Option<PathLine>,
}

/// Pings that are kept for the document.
const KEPT_MAX: usize = 100_000;

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    runtime()?.block_on(async {
        let forwarder = args.consumer.start(|builder| builder)?;
        let paths = paths(&forwarder, &args.name, args.all_paths);
        let paths = unless_stopped(paths).await??;
        let (mut pings, mut sent, mut trips) = (Vec::new(), 0, Vec::new());
        tokio::pin! { let stop = stop_asked(); }
        let mut ticks = tokio::time::interval(args.interval.max(Duration::from_millis(1)));
        while args.count.is_none_or(|count| sent < count) {
            tokio::select! {
                () = &mut stop => break,
                _ = ticks.tick() => {}
            }
            let path = paths[sent as usize % paths.len()];
            let reply = tokio::select! {
                () = &mut stop => break,
                reply = forwarder.ping(&args.name, path) => reply,
            };
            sent += 1;
            if let Ok(reply) = &reply {
                trips.push(reply.round_trip.as_secs_f64() * 1e3);
            }
            if !ui.is_json() {
                ui.print(&format!("{}\n", line(&reply)))?;
            } else if pings.len() < KEPT_MAX {
                pings.push(ping(reply));
            }
        }
        forwarder.stop().await;
        let answered = trips.len() as u64;
        let document = Document {
            name: args.name.to_string(),
            sent,
            answered,
            round_trip_ms: round_trips(&trips),
            pings,
        };
        ui.document(&document)?;
        let times = document.round_trip_ms.as_ref().map_or(String::new(), |trips| {
            format!(
                "; {:.3}/{:.3}/{:.3} ms at least, on average, at most",
                trips.min, trips.mean, trips.max
            )
        });
        ui.print(&format!("{sent} sent, {answered} answered{times}\n"))?;
        Ok(Outcome::of(answered > 0))
    })
}

fn ping(reply: Result<Reply, AskError>) -> Ping {
    match reply {
        Ok(reply) => {
            let path = Some(PathLine::of_reply(&reply));
            Ping { node: reply.node, error: None, path }
        }
        Err(error) => Ping { node: None, error: Some(error.to_string()), path: None },
    }
}

fn round_trips(trips: &[f64]) -> Option<RoundTrips> {
    let count = trips.len() as f64;
    (count > 0.0).then(|| RoundTrips {
        min: trips.iter().copied().fold(f64::INFINITY, f64::min),
        mean: trips.iter().sum::<f64>() / count,
        max: trips.iter().copied().fold(0.0, f64::max),
    })
}

/// The answer, or its absence, as one line.
pub fn line(reply: &Result<Reply, AskError>) -> String {
    match reply {
        Err(error) => error.to_string(),
        Ok(reply) => {
            let path = PathLine::of_reply(reply);
            let who = reply.node.as_deref().unwrap_or("who has the name");
            let ms = reply.round_trip.as_secs_f64() * 1e3;
            format!("{who} by {}: {ms:.3} ms, {}", path.path, path.rate())
        }
    }
}

/// Paths to a name, or the one that is given by chance.
pub async fn paths(
    forwarder: &Forwarder,
    name: &Name,
    all: bool,
) -> Result<Vec<PathLabel>, CliError> {
    if !all {
        return Ok(vec![PathLabel::EMPTY]);
    }
    let found = forwarder.paths(name).await.map_err(explain_ask)?;
    Ok(found.iter().map(|reply| reply.path).collect())
}
