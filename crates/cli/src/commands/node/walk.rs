//! Servers of walks, as a process.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread::scope;

use paceline::Stats;
use tokio::sync::watch;

use crate::commands::Outcome;
use crate::commands::counters::report;
use crate::commands::member::{AnsweringHost, HostArgs, explain_host, runtime, stop_asked};
use crate::error::CliError;
use crate::ui::Ui;

/// How many servers there are.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct ServerArgs {
    /// With --service walk: servers in this process, 1 to 256, each with a core, a part of the
    /// graph and a port of its own, from that of --bind on
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=256))]
    pub workers: u16,
}

/// Is a server until Ctrl-C, or this many, each with a thread and a port of its own.
pub fn serve(member: &HostArgs, workers: u16, ui: &Ui) -> Result<Outcome, CliError> {
    if member.bootstrap || member.expect.is_some() || !member.peers.is_empty() {
        let wrong = "--service walk: a server waits for its client, and accepts none of --peer, \
                     --bootstrap and --expect";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let hosts: Option<Vec<HostArgs>> = (0..workers).map(|place| member.of_worker(place)).collect();
    let hosts = hosts.ok_or_else(|| {
        let wrong =
            format!("--workers {workers}: there are too few ports or ids after the first one");
        CliError::Input(wrong)
    })?;
    let (stop, stopped) = watch::channel(false);
    let (started, starts) = mpsc::channel();
    let stats = scope(|scope| {
        let threads: Vec<_> = hosts
            .iter()
            .map(|host| {
                let (started, stopped) = (started.clone(), stopped.clone());
                scope.spawn(move || serve_one(host, stopped, started))
            })
            .collect();
        drop(started);
        let mut failed = None;
        for start in starts.iter().take(threads.len()) {
            match start {
                Ok((id, address)) => ui.note(&format!("{id} listens on {address}")),
                Err(error) => failed = Some(error),
            }
        }
        let waited = match &failed {
            None => runtime().map(|runtime| runtime.block_on(stop_asked())),
            Some(_) => Ok(()),
        };
        // Workers that have failed do not hear it.
        let _ = stop.send(true);
        let mut all = Stats::default();
        for thread in threads {
            match thread.join() {
                Ok(stats) => add(&mut all, &stats),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        waited?;
        failed.map_or(Ok(all), Err)
    })?;
    report(ui, &stats, &[])?;
    Ok(Outcome::Done)
}

type Start = Result<(paceline::NodeId, SocketAddr), CliError>;

/// One worker: a server with a part of its own. What it counted.
fn serve_one(
    host: &HostArgs,
    mut stopped: watch::Receiver<bool>,
    started: mpsc::Sender<Start>,
) -> Stats {
    let say = |start: Start| {
        // The main thread has stopped to listen once a worker has failed.
        let _ = started.send(start);
        Stats::default()
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return say(Err(error)),
    };
    runtime.block_on(async {
        let started = async { host.builder_by_address()?.start().await.map_err(explain_host) };
        let bound = match started.await {
            Ok(bound) => bound,
            Err(error) => return say(Err(error)),
        };
        let server = match bound.walks(host.group()).serve().await {
            Ok(server) => server,
            Err(error) => return say(Err(CliError::Failed(error.to_string()))),
        };
        let host = match AnsweringHost::new(bound) {
            Ok(host) => host,
            Err(error) => return say(Err(error)),
        };
        say(Ok((server.id(), server.local_addr())));
        // An error says that the main thread is gone.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        let stats = server.stats();
        server.stop().await;
        host.stop().await;
        stats
    })
}

/// Adds what is printed of another worker.
fn add(all: &mut Stats, one: &Stats) {
    all.traffic.stream_bytes_in += one.traffic.stream_bytes_in;
    all.traffic.stream_bytes_out += one.traffic.stream_bytes_out;
    all.traffic.datagrams_in += one.traffic.datagrams_in;
    all.traffic.datagrams_out += one.traffic.datagrams_out;
    all.traffic.datagram_bytes_in += one.traffic.datagram_bytes_in;
    all.traffic.datagram_bytes_out += one.traffic.datagram_bytes_out;
    all.counters.merge(&one.counters);
}
