//! The processes of a local cluster, and how to identify them.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::WITHIN;
use crate::commands::node::service::Service;
use crate::ui::Ui;

/// How long processes may take to end once the user has asked to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(3);
/// How long a killed process may take to disappear.
const KILLED_WITHIN: Duration = Duration::from_secs(1);

/// A process of the cluster.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pub pid: u32,
    pub address: SocketAddr,
    pub log: PathBuf,
    /// What it is part of.
    #[serde(default)]
    pub service: Service,
    /// Where it says what it holds.
    #[serde(default)]
    pub stat: Option<PathBuf>,
    /// The file that names its services, if it was started with one.
    #[serde(default)]
    pub config: Option<PathBuf>,
}

impl Process {
    /// True if the process lives and is the one that was started: a `paceline node` at this address
    /// whose standard output is this log. A number alone proves nothing, since the system gives it
    /// to another process later.
    pub fn is_running(&self) -> bool {
        if cfg!(target_os = "linux") {
            return Seen::of(self.pid).is_some_and(|seen| seen.is_node(&self.log, self.address));
        }
        let asked = Command::new("kill").args(["-0", &self.pid.to_string()]).status();
        asked.is_ok_and(|status| status.success())
    }
}

/// What `/proc` says of a process.
struct Seen {
    pid: u32,
    words: Vec<String>,
    output: PathBuf,
}

impl Seen {
    /// None if there is no such process, or it is not the user's.
    fn of(pid: u32) -> Option<Seen> {
        let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let words = line.split(|&byte| byte == 0).map(|word| String::from_utf8_lossy(word).into());
        let output = fs::read_link(format!("/proc/{pid}/fd/1")).ok()?;
        Some(Seen { pid, words: words.collect(), output })
    }

    /// The word behind an option.
    fn value(&self, option: &str) -> Option<&str> {
        let place = self.words.iter().position(|word| word == option)?;
        self.words.get(place + 1).map(String::as_str)
    }

    fn is_node(&self, log: &Path, address: SocketAddr) -> bool {
        let mut deleted = log.as_os_str().to_owned();
        deleted.push(" (deleted)");
        self.words.get(1).is_some_and(|word| word == "node")
            && self.value("--bind") == Some(&address.to_string())
            && (self.output == log || self.output.as_os_str() == deleted)
    }
}

/// The nodes that write these logs, which are named after the ports; none where the system does not
/// say what a process writes to.
pub fn find(logs: &[(u16, PathBuf)]) -> Vec<Process> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut found: Vec<Process> = pids
        .filter_map(Seen::of)
        .filter_map(|seen| {
            let (port, log) = logs.iter().find(|(_, log)| seen.output == *log)?;
            let address = SocketAddr::from(([127, 0, 0, 1], *port));
            if !seen.is_node(log, address) {
                return None;
            }
            let service = seen.value("--service").and_then(Service::named);
            Some(Process {
                pid: seen.pid,
                address,
                log: log.clone(),
                service: service.unwrap_or_default(),
                stat: seen.value("--stat").map(PathBuf::from),
                config: seen.value("--config").map(PathBuf::from),
            })
        })
        .collect();
    found.sort_by_key(|process| process.address);
    found
}

/// Asks processes to end, and kills those that do not in time. Those that live all the same.
pub fn end_all(processes: &[Process], ui: &Ui) -> Vec<Process> {
    let running = || processes.iter().filter(|process| process.is_running());
    running().for_each(|process| signal(process.pid, "-TERM"));
    let begun = Instant::now();
    let mut killed_at: Option<Instant> = None;
    while running().next().is_some() {
        let within = if ui.is_stopped() { STOPPED_WITHIN } else { WITHIN };
        match killed_at {
            None if begun.elapsed() >= within => {
                running().for_each(|process| signal(process.pid, "-KILL"));
                killed_at = Some(Instant::now());
            }
            Some(at) if at.elapsed() >= KILLED_WITHIN => break,
            _ => {}
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    running().cloned().collect()
}

/// Sends a process a signal.
pub fn signal(pid: u32, signal: &str) {
    // It may just have ended by itself.
    let _ = Command::new("kill").args([signal, &pid.to_string()]).stderr(Stdio::null()).status();
}
