//! A group of processes on this machine: `up` starts what is missing, `down` ends all of it.

mod folder;
mod process;

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use paceline_graph::files::open_unlinked;

use super::node::service;
use super::{Outcome, this_program};
use crate::error::CliError;
use crate::files::failed;
use crate::ui::Ui;
use folder::Folder;
use process::end_all;

pub use process::{Process, signal};

/// Most processes of a local cluster.
const NODES_MAX: u16 = 64;
/// How long a process may take to listen, or to end.
const WITHIN: Duration = Duration::from_secs(10);

/// Which local cluster.
#[derive(Debug, clap::Args)]
pub struct Which {
    /// The cluster's name
    #[arg(long, value_name = "NAME", default_value = "paceline", env = "PACELINE_CLUSTER")]
    pub cluster: String,

    /// Where it keeps its list of processes and their logs: in DIR/NAME, which `up` makes
    #[arg(long, value_name = "DIR", env = "PACELINE_STATE")]
    pub state: Option<PathBuf>,
}

/// Start a local cluster, or restart its dead nodes
///
/// Each node is a `paceline node` on a port of loopback: a member of a group, a host of a table, a
/// server of walks, or with --config all services of a file. Run again it starts the nodes that
/// have died, which join as new members; a client supplies a restarted server of walks with its
/// part of the graph again. If one node does not start, the nodes that this call started are
/// stopped.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline up -n 5
  paceline broadcast --peer 127.0.0.1:7001     one more member, at your terminal
  paceline up -n 16 --service dht              a distributed hash table instead
  paceline dht put apples 17 --peer 127.0.0.1:7001
  paceline up -n 3 --service walk              servers of random walks instead
  paceline up -n 5 --config node.toml          all services of a file
  paceline down")]
pub struct UpArgs {
    /// How many processes, 1 to 64
    #[arg(short, value_name = "N", default_value = "3",
          value_parser = clap::value_parser!(u16).range(1..=i64::from(NODES_MAX)))]
    pub n: u16,

    /// The port of the first; the others follow
    #[arg(long, value_name = "PORT", default_value = "7001")]
    pub port: u16,

    #[command(flatten)]
    pub which: Which,

    #[command(flatten)]
    pub service: service::Shared,

    /// Run the services of this file in each node (docs/operations/node.md): the first node creates
    /// them, the others join it. A forwarder of named data listens 1000 ports above its node
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_ONE_SERVICE)]
    pub config: Option<PathBuf>,

    /// With --service dht: each host stores its records in a file in this folder, and restores them
    /// when it is restarted; writes are acknowledged once they are on disk
    #[arg(long, value_name = "DIR")]
    pub durable: Option<PathBuf>,

    /// As --durable, but writes are acknowledged before they are on disk: faster, and lost if all
    /// their holders stop at once
    #[arg(long, value_name = "DIR", conflicts_with = "durable")]
    pub durable_async: Option<PathBuf>,
}

/// Options of nodes with one service, for which a file has keys.
const OF_ONE_SERVICE: [&str; 6] =
    ["service", "algorithm", "copies", "quota", "durable", "durable_async"];
/// The port of a node's forwarder is this much above the node's.
const FORWARDER_PORTS: u16 = 1000;

impl UpArgs {
    /// The folder of files, and the option that names it.
    fn files(&self) -> Option<(&'static str, &Path)> {
        let on_disk = self.durable.as_deref().map(|folder| ("--durable", folder));
        let in_memory = self.durable_async.as_deref().map(|folder| ("--durable-async", folder));
        on_disk.or(in_memory)
    }
}

/// End the processes that `up` started; they leave the group
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  paceline down
  paceline down --cluster shop")]
pub struct DownArgs {
    #[command(flatten)]
    which: Which,
}

impl Which {
    /// Another one, with its state elsewhere.
    pub fn new(cluster: &str, state: &Path) -> Which {
        Which { cluster: cluster.to_owned(), state: Some(state.to_owned()) }
    }

    /// Its processes that run.
    pub fn processes(&self, ui: &Ui) -> Result<Vec<Process>, CliError> {
        folder::processes(&self.path()?, ui)
    }

    fn path(&self) -> Result<PathBuf, CliError> {
        let state = self.state.clone().or_else(|| {
            let variable = |name| std::env::var_os(name).map(PathBuf::from);
            let home = || variable("HOME").map(|home| home.join(".local/state"));
            variable("XDG_STATE_HOME").or_else(home).map(|state| state.join("paceline"))
        });
        let state =
            state.ok_or_else(|| CliError::Input("HOME is not set: pass --state DIR".to_owned()))?;
        let name = &self.cluster;
        if name.is_empty() || name.contains(['/', '\\']) || name.starts_with(['.', '-']) {
            return Err(CliError::Input(format!(
                "--cluster `{name}` is not the name of a folder: expected a name without / and \\ \
                 that begins with neither . nor -"
            )));
        }
        Ok(state.join(name))
    }
}

/// Starts what is missing.
pub fn up(args: UpArgs, ui: &Ui) -> Result<Outcome, CliError> {
    let (processes, kept) = start_missing(&args, ui)?;
    ui.document(&processes)?;
    let started = processes.len() - kept;
    let text: String = processes.iter().map(|p| format!("{} pid {}\n", p.address, p.pid)).collect();
    let all: Vec<String> = processes.iter().map(|process| process.address.to_string()).collect();
    let how = match args.config.is_some() || args.service.service.joins {
        true => format!("join with --peer {}", all[0]),
        false => format!("walk with --servers {}", all.join(",")),
    };
    ui.print(&format!("{text}{started} started, {kept} already running; {how}\n"))?;
    Ok(Outcome::Done)
}

/// Starts what is missing; all that run, and how many did before.
pub fn start_missing(args: &UpArgs, ui: &Ui) -> Result<(Vec<Process>, usize), CliError> {
    let last = args.port.checked_add(args.n - 1).ok_or_else(|| {
        CliError::Input(format!("{} ports from {} exceed 65535", args.n, args.port))
    })?;
    let service = args.service.service;
    let config = args.config.as_deref().map(|path| {
        path.canonicalize().map_err(|error| CliError::Input(failed(path, &error).to_string()))
    });
    let config = config.transpose()?;
    if args.files().is_some() && !service.stores {
        let wrong = "--durable and --durable-async apply only to --service dht";
        return Err(CliError::Input(wrong.to_owned()));
    }
    let folder = Folder::make(&args.which.path()?, ui)?;
    let mut processes = folder.processes(ui)?;
    let kept = processes.len();
    let is_other = |process: &&Process| process.service != service || process.config != config;
    if let Some(other) = processes.iter().find(is_other) {
        return Err(CliError::Input(format!(
            "{} runs another service or another file: stop it with `paceline down`, or name \
             another --cluster",
            other.address
        )));
    }
    if let Some((_, durable)) = args.files() {
        fs::create_dir_all(durable).map_err(|error| failed(durable, &error))?;
    }
    for port in args.port..=last {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if processes.iter().any(|process| process.address == address) {
            continue;
        }
        let peer = processes.first().map(|process| process.address);
        let how = How { config: config.as_deref(), address, peer };
        let started = start(args, &folder, how, ui).and_then(|process| {
            processes.push(process);
            folder.write(&processes)
        });
        if let Err(error) = started {
            undo(folder, &mut processes, kept, ui)?;
            return Err(error);
        }
    }
    // What was found without the list belongs in it.
    folder.write(&processes)?;
    Ok((processes, kept))
}

/// Ends what one call has started, whose other processes did not start.
fn undo(
    folder: Folder,
    processes: &mut Vec<Process>,
    kept: usize,
    ui: &Ui,
) -> Result<(), CliError> {
    let started = processes.split_off(kept);
    end_all(&started, ui);
    if processes.is_empty() {
        return folder.remove().map(drop);
    }
    started.iter().filter_map(|process| process.stat.as_ref()).for_each(|stat| {
        // It may not have been written yet.
        let _ = fs::remove_file(stat);
    });
    folder.write(processes)
}

/// Ends all of it.
pub fn down(args: DownArgs, ui: &Ui) -> Result<Outcome, CliError> {
    let (processes, others) = end(&args.which, ui)?;
    ui.document(&processes)?;
    ui.print(&format!("{} ended\n", processes.len()))?;
    if !others.is_empty() {
        let names: Vec<_> = others.iter().map(|name| name.to_string_lossy()).collect();
        let path = args.which.path()?;
        let names = names.join(", ");
        ui.note(&format!("{} remains, because `up` did not make {names} in it", path.display()));
    }
    Ok(Outcome::Done)
}

/// Ends the processes of a cluster; those that ran, and what else is in its folder.
pub fn end(which: &Which, ui: &Ui) -> Result<(Vec<Process>, Vec<OsString>), CliError> {
    let Some(folder) = Folder::take(&which.path()?, ui)? else {
        return Ok((Vec::new(), Vec::new()));
    };
    let processes = folder.processes(ui)?;
    let living = end_all(&processes, ui);
    if !living.is_empty() {
        folder.write(&living)?;
        let pids: Vec<String> = living.iter().map(|process| process.pid.to_string()).collect();
        return Err(CliError::Failed(format!(
            "still running after a kill: {}; run `paceline down` again",
            pids.join(", ")
        )));
    }
    Ok((processes, folder.remove()?))
}

/// How a node starts.
struct How<'a> {
    config: Option<&'a Path>,
    address: SocketAddr,
    /// A node that runs; none if this is the first one.
    peer: Option<SocketAddr>,
}

fn start(args: &UpArgs, folder: &Folder, how: How<'_>, ui: &Ui) -> Result<Process, CliError> {
    let How { config, address, peer } = how;
    let log = folder.log(address.port());
    let mut options = OpenOptions::new();
    let file = open_unlinked(&log, options.write(true).create(true).truncate(true));
    let file = file.map_err(|error| failed(&log, &error))?;
    let twin = file.try_clone().map_err(|error| failed(&log, &error))?;
    let mut command = Command::new(this_program()?);
    command.args(["node", "--cluster", &args.which.cluster, "--bind", &address.to_string()]);
    // Meant for commands of this shell, not for the nodes.
    command.env_remove("PACELINE_PEERS").env_remove("PACELINE_ADVERTISE");
    let service = args.service.service;
    match config {
        None => _ = command.args(args.service.arguments()),
        Some(config) => {
            command.arg("--config").arg(config);
            let port = address.port().checked_add(FORWARDER_PORTS);
            let named = SocketAddr::new(address.ip(), port.unwrap_or(0));
            command.env("PACELINE_NAMED_BIND", named.to_string());
        }
    }
    match peer {
        _ if config.is_none() && !service.joins => {}
        None => _ = command.arg("--bootstrap"),
        Some(peer) => _ = command.args(["--peer", &peer.to_string()]),
    }
    let mut stat = None;
    if config.is_none() && service.stores {
        let file = folder.stat(address.port());
        command.arg("--stat").arg(&file);
        stat = Some(file);
        if let Some((option, durable)) = args.files() {
            command.arg(option).arg(durable.join(format!("{}.redb", address.port())));
        }
    }
    // A Ctrl-C at this terminal is not meant for it.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stdin(Stdio::null()).stdout(file).stderr(twin);
    let child = command.spawn().map_err(|error| failed(&log, &error))?;
    let config = config.map(Path::to_owned);
    await_start(child, Process { pid: 0, address, log, service, stat, config }, ui)
}

/// Waits until a process says that it listens.
fn await_start(mut child: Child, process: Process, ui: &Ui) -> Result<Process, CliError> {
    let Process { address, log, .. } = &process;
    let begun = Instant::now();
    loop {
        let said = fs::read_to_string(log).unwrap_or_default();
        if said.contains("listens on") {
            return Ok(Process { pid: child.id(), ..process });
        }
        if let Ok(Some(_)) = child.try_wait() {
            let _ = fs::remove_file(log);
            let said = said.trim();
            let reason = said.rsplit_once("error: ").map_or(said, |(_, reason)| reason);
            return Err(CliError::Input(format!("{address}: {reason}")));
        }
        if ui.is_stopped() || begun.elapsed() >= WITHIN {
            // It is not ours to keep.
            let _ = child.kill();
            let _ = child.wait();
            return Err(match ui.is_stopped() {
                true => CliError::Stopped,
                false => CliError::Failed(format!("{address} is not a member after {WITHIN:?}")),
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
