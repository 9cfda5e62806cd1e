use paceline::{Event, Stats};
use paceline_lab::serve_control;
use paceline_lab::table::table;

use super::Outcome;
use super::dht::service::{self, Service};
use super::member::{self, Member, describe, leave, runtime, stop_asked};
use super::walk;
use crate::error::CliError;
use crate::signals::Ending;
use crate::ui::Ui;

/// Be a member that forwards what the others broadcast, a host of a table, or a server of walks,
/// until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    member: member::Args,

    #[command(flatten)]
    service: service::Args,

    /// Do what the parent process says in JSON lines on standard input: one node of a scenario
    #[arg(long, hide = true)]
    control: bool,
}

const AFTER_HELP: &str = "\
Examples:
  paceline node --bootstrap --bind 127.0.0.1:7001   the first of a group
  paceline node --seed 127.0.0.1:7001               one more
  paceline node --service dht --bootstrap --bind 127.0.0.1:7001 --durable 7001.redb
                                                    the first of a distributed hash table
  paceline node --service walk --bind 127.0.0.1:7001
                                                    a server of random walks
  paceline node --service walk --bind 127.0.0.1:7001 --workers 2
                                                    two of them, at 7001 and 7002, on two cores

With --json the counters at the end are one JSON document.";

impl Args {
    /// How it ends after the first Ctrl-C. A node of a scenario ends when its parent says so, and a
    /// host of a table hands its values over first.
    pub fn ending(&self) -> Ending {
        match self.control || self.service.service == Service::Dht {
            true => Ending::AfterItsPart,
            false => Ending::Soon,
        }
    }
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    if args.control {
        serve_control()?;
        return Ok(Outcome::Done);
    }
    match args.service.service {
        Service::Group => {}
        Service::Dht => return service::host(&args.member.host, &args.service, ui),
        Service::Walk => return walk::service::serve(&args.member.host, args.service.workers, ui),
    }
    let runtime = runtime()?;
    let Member { group, mut events } = args.member.start(&runtime)?;
    ui.note(&format!("{} listens on {}", group.id(), group.local_addr()));
    let (mut messages, mut bytes) = (0u64, 0u64);
    runtime.block_on(async {
        tokio::pin! { let stop = stop_asked(); }
        loop {
            tokio::select! {
                () = &mut stop => break,
                event = events.recv() => match event {
                    Some(Event::Delivered(delivery)) => {
                        messages += 1;
                        bytes += delivery.payload.len() as u64;
                    }
                    Some(event) => {
                        describe(&event).inspect(|text| ui.note(text));
                    }
                    None => break,
                },
            }
        }
        leave(group.clone(), events).await;
    });
    let counts = [("messages_delivered", messages), ("bytes_delivered", bytes)];
    report(ui, &group.stats(), &counts)?;
    Ok(Outcome::Done)
}

/// Prints what a node has counted, after these counts.
pub fn report(ui: &Ui, stats: &Stats, first: &[(&'static str, u64)]) -> Result<(), CliError> {
    let traffic = stats.traffic;
    let mut counts = first.to_vec();
    counts.extend([
        ("stream_bytes_in", traffic.stream_bytes_in),
        ("stream_bytes_out", traffic.stream_bytes_out),
        ("datagrams_in", traffic.datagrams_in),
        ("datagrams_out", traffic.datagrams_out),
        ("datagram_bytes_in", traffic.datagram_bytes_in),
        ("datagram_bytes_out", traffic.datagram_bytes_out),
        ("held_bytes", stats.held.of_peers() as u64),
        ("held_events_bytes", stats.held.events_bytes as u64),
    ]);
    counts.extend(stats.counters.sorted());
    let document: serde_json::Map<String, serde_json::Value> =
        counts.iter().map(|&(name, n)| (name.to_owned(), n.into())).collect();
    ui.document(&document)?;
    let rows: Vec<[String; 2]> =
        counts.iter().map(|(name, n)| [name.to_string(), n.to_string()]).collect();
    ui.print(&table(["counter", "count"], &rows))
}
