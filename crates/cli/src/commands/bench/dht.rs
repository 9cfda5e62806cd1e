use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use paceline::{Algorithm, Dht, Host};
use paceline_lab::Machine;
use paceline_lab::table::table;
use serde::Serialize;

use crate::commands::Outcome;
use crate::commands::cluster::{self, UpArgs, Which};
use crate::commands::dht::Travel;
use crate::commands::dht::stat::stats;
use crate::commands::member::{runtime, unless_stopped};
use crate::commands::node::dht::{TableArgs, explain};
use crate::commands::node::service::{Service, Shared};
use crate::error::CliError;
use crate::parse;
use crate::ui::Ui;

/// Load a table of processes on loopback, bundled and not; then kill two of them
///
/// A client loads keys each on its own, then all keys bundled, and reads all back. Two hosts are
/// killed, fewer if there are fewer than three copies; all is read again, and copies are counted
/// until all are restored. Fails if an acknowledged key is not read back as it was written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Hosts, 3 to 64
    #[arg(long, value_name = "N", default_value = "16",
          value_parser = clap::value_parser!(u16).range(3..=64))]
    nodes: u16,

    /// Keys that are loaded bundled
    #[arg(long, value_name = "N", default_value = "100000")]
    keys: u64,

    /// Keys that are loaded unbundled [default: as many as keys, at most 20,000]
    #[arg(long, value_name = "N")]
    unbundled: Option<u64>,

    /// Size of a value; a bare number counts bytes
    #[arg(long, value_name = "SIZE", default_value = "100B", value_parser = parse::bytes)]
    value: usize,

    /// Keys of a bundle
    #[arg(long, value_name = "N", default_value = "256")]
    bundle: usize,

    /// Bundles in flight, bundled or not
    #[arg(long, value_name = "N", default_value = "16")]
    in_flight: usize,

    /// Each host keeps a file in this folder; writes are acknowledged once they are on disk
    #[arg(long, value_name = "DIR")]
    durable: Option<PathBuf>,

    /// As --durable, but writes are acknowledged before they are on disk
    #[arg(long, value_name = "DIR", conflicts_with = "durable")]
    durable_async: Option<PathBuf>,

    /// The port of the first host; the others follow
    #[arg(long, value_name = "PORT", default_value = "17001")]
    port: u16,

    /// How hosts route: chord, koorde, pastry, tapestry or kademlia
    #[arg(long, value_name = "NAME", default_value_t)]
    algorithm: Algorithm,

    /// Hosts that hold each value, 1 to 16; with 1 no host is killed, as its values would be lost
    #[arg(long, value_name = "K", default_value = "3",
          value_parser = clap::value_parser!(u8).range(1..=16))]
    copies: u8,

    /// The most that a host stores, keys and values; a bare number counts MiB
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse::mebibytes)]
    quota: usize,

    /// How bundles travel
    #[arg(long, value_name = "STYLE", default_value = "iterative")]
    style: Travel,
}

/// Hosts that have started know each other within this time.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Copies are restored within this time, or the bench fails.
const RESTORED_WITHIN: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Phase {
    phase: &'static str,
    keys: u64,
    seconds: f64,
    keys_per_s: f64,
    failed: u64,
    wrong: u64,
}

#[derive(Serialize)]
struct Document {
    machine: Machine,
    nodes: u16,
    bundle: usize,
    in_flight: usize,
    copies: u8,
    phases: Vec<Phase>,
    /// Keys a second, bundled over unbundled.
    ratio: f64,
    killed: usize,
    /// Seconds from the kill until as many copies as before were there.
    restored_s: Option<f64>,
}

/// Does it.
pub fn run(args: Args, ui: &Ui) -> Result<Outcome, CliError> {
    let state = std::env::temp_dir().join(format!("paceline-bench-{}", std::process::id()));
    let Args { algorithm, copies, quota, .. } = args;
    let service = Service::named("dht").expect("it is one of them");
    let service = Shared { service, table: TableArgs { algorithm, copies, quota } };
    let which = || Which::new("bench", &state);
    let up = UpArgs {
        n: args.nodes,
        port: args.port,
        which: which(),
        service,
        config: None,
        durable: args.durable.clone(),
        durable_async: args.durable_async.clone(),
    };
    let measured = measure(&args, &up, ui);
    cluster::end(&which(), ui)?;
    // Empty by now, and nothing depends on it.
    let _ = std::fs::remove_dir(&state);
    let document = measured?;
    ui.document(&document)?;
    let row = |phase: &Phase| {
        let Phase { phase, keys, seconds, keys_per_s, failed, wrong } = phase;
        let numbers = [format!("{seconds:.2}"), format!("{keys_per_s:.0}")];
        let [seconds, rate] = numbers;
        [(*phase).to_owned(), keys.to_string(), seconds, rate, (failed + wrong).to_string()]
    };
    let rows: Vec<[String; 5]> = document.phases.iter().map(row).collect();
    ui.print(&table(["phase", "keys", "s", "keys/s", "lost"], &rows))?;
    let killed = document.killed;
    let restored = match document.restored_s {
        _ if killed == 0 => "one copy, so no host was killed".to_owned(),
        Some(seconds) => {
            format!("all copies restored {seconds:.1} s after the kill of hosts: {killed}")
        }
        None => format!("copies not restored within {RESTORED_WITHIN:?}"),
    };
    ui.print(&format!("bundled over unbundled: {:.1}; {restored}\n", document.ratio))?;
    let is_lost = document.phases.iter().any(|phase| phase.failed + phase.wrong > 0);
    Ok(Outcome::of(!is_lost && (killed == 0 || document.restored_s.is_some())))
}

fn measure(args: &Args, up: &UpArgs, ui: &Ui) -> Result<Document, CliError> {
    let (processes, _) = cluster::start_missing(up, ui)?;
    let seeds: Vec<String> = processes.iter().map(|p| p.address.to_string()).collect();
    let runtime = runtime()?;
    runtime.block_on(unless_stopped(settled(args, up, ui)))??;
    let visit = |bundle: usize| async move {
        let host = Host::builder("bench").peers([seeds_of(up)]).start().await;
        let host = host.map_err(|error| CliError::Failed(error.to_string()))?;
        let dht = host.dht("main").algorithm(args.algorithm).bundle(bundle);
        dht.style(args.style.into())
            .bundles_in_flight(args.in_flight)
            .visit()
            .await
            .map_err(explain)
    };
    let mut phases = Vec::new();
    let alone = args.unbundled.unwrap_or(args.keys.min(20_000));
    let mut restored_s = None;
    // As many as the copies bear.
    let killed = usize::from(args.copies - 1).min(2);
    runtime.block_on(unless_stopped(async {
        let single = visit(1).await?;
        ui.note(&format!("{} hosts run; {alone} keys, each on its own", seeds.len()));
        phases.push(load(&single, "put unbundled", alone, args, 'u').await);
        single.leave().await.map_err(|error| CliError::Failed(error.to_string()))?;
        let client = visit(args.bundle).await?;
        ui.note(&format!("{} keys, in bundles of {}", args.keys, args.bundle));
        phases.push(load(&client, "put bundled", args.keys, args, 'b').await);
        phases.push(read(&client, "get bundled", args.keys, args, 'b').await);
        if killed == 0 {
            return Ok(());
        }
        ui.note(&format!("killed hosts: {killed}"));
        let begun = Instant::now();
        let middle = processes.len() / 2;
        for process in &processes[middle + 1 - killed..=middle] {
            cluster::signal(process.pid, "-KILL");
        }
        phases.push(read(&client, "get after kill", args.keys, args, 'b').await);
        phases.push(read(&client, "get after kill, unbundled's", alone, args, 'u').await);
        let wanted = (args.keys + alone) as usize * usize::from(args.copies);
        while begun.elapsed() < RESTORED_WITHIN && restored_s.is_none() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let values: usize = stats(&up.which, ui)?.iter().map(|stat| stat.values).sum();
            restored_s = (values == wanted).then(|| begun.elapsed().as_secs_f64());
        }
        phases.push(read(&client, "get after repair", args.keys, args, 'b').await);
        Ok::<(), CliError>(())
    }))??;
    let ratio = phases[1].keys_per_s / phases[0].keys_per_s;
    let (nodes, bundle, in_flight) = (args.nodes, args.bundle, args.in_flight);
    let (machine, copies) = (Machine::observe(), args.copies);
    Ok(Document { machine, nodes, bundle, in_flight, copies, phases, ratio, killed, restored_s })
}

fn seeds_of(up: &UpArgs) -> String {
    format!("127.0.0.1:{}", up.port)
}

/// Waits until each host takes writes.
async fn settled(args: &Args, up: &UpArgs, ui: &Ui) -> Result<(), CliError> {
    let begun = Instant::now();
    while begun.elapsed() < SETTLED_WITHIN {
        let stats = stats(&up.which, ui)?;
        if stats.len() == usize::from(args.nodes) && stats.iter().all(|stat| stat.is_settled) {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err(CliError::Failed(format!("the table did not stabilize within {SETTLED_WITHIN:?}")))
}

fn entry(number: u64, args: &Args, of: char) -> (Bytes, Bytes) {
    let key = format!("{of}{number}");
    let value = format!("{key} ").into_bytes().into_iter().cycle().take(args.value).collect();
    (key.into(), value)
}

async fn load(dht: &Dht, phase: &'static str, keys: u64, args: &Args, of: char) -> Phase {
    let begun = Instant::now();
    let entries: Vec<_> = (0..keys).map(|number| entry(number, args, of)).collect();
    let mut results = dht.put_all(entries);
    // A key without a result counts as lost, too.
    let mut failed = keys;
    while let Some(result) = results.next().await {
        failed -= u64::from(result.outcome.is_ok());
    }
    let seconds = begun.elapsed().as_secs_f64();
    Phase { phase, keys, seconds, keys_per_s: keys as f64 / seconds, failed, wrong: 0 }
}

async fn read(dht: &Dht, phase: &'static str, keys: u64, args: &Args, of: char) -> Phase {
    let begun = Instant::now();
    let wanted: Vec<_> = (0..keys).map(|number| entry(number, args, of)).collect();
    let mut results = dht.get_all(wanted.clone().into_iter().map(|(key, _)| key));
    let (mut failed, mut wrong) = (keys, 0);
    while let Some(result) = results.next().await {
        if let Ok(value) = result.outcome {
            let written = &wanted[result.place as usize].1;
            failed -= 1;
            wrong += u64::from(value.as_ref() != Some(written));
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    Phase { phase, keys, seconds, keys_per_s: keys as f64 / seconds, failed, wrong }
}
