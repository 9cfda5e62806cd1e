//! A member of a group as a process in the network lab, and all that it says.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

use paceline_netlab::NetworkLab;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::shell::Build;

/// Time between two messages of a member.
const EVERY: Duration = Duration::from_millis(2);

#[derive(Debug, Default)]
struct Said {
    // When, whose, which.
    deliveries: Vec<(Instant, u32, u64)>,
    views: Vec<(u64, BTreeSet<u32>)>,
    notes: Vec<String>,
}

/// `paceline broadcast` in a namespace, sending numbered lines.
pub struct Member {
    /// Its number.
    pub id: u32,
    child: Child,
    said: Arc<Mutex<Said>>,
    is_hushed: Arc<AtomicBool>,
}

impl Member {
    /// Starts it in the namespace of this node; without peers it founds the group.
    pub fn start(
        lab: &NetworkLab,
        node: usize,
        id: u32,
        peers: &[String],
    ) -> Result<Member, String> {
        let mut command = Command::new(Build::Release.binary()?);
        command.args(["broadcast", "--json", "--insecure-plaintext", "--join-within", "20"]);
        command.args(["--id", &id.to_string()]);
        command.args(["--bind", &format!("{}:7946", lab.address(node))]);
        match peers {
            [] => command.arg("--bootstrap"),
            peers => command.args(["--peer", &peers.join(",")]),
        };
        let mut inside = lab.command_in(node, command);
        inside.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            inside.spawn().map_err(|error| format!("cannot start a member: {error}"))?;
        let said = Arc::new(Mutex::new(Said::default()));
        let is_hushed = Arc::new(AtomicBool::new(false));
        let stdout = child.stdout.take().expect("piped");
        listen(stdout, said.clone(), note_line);
        let stderr = child.stderr.take().expect("piped");
        listen(stderr, said.clone(), |said, line| said.notes.push(line.to_owned()));
        let mut stdin = child.stdin.take().expect("piped");
        let hushed = is_hushed.clone();
        spawn(move || {
            for number in 0u64.. {
                // Kept open: the end of the input would say that nothing more comes.
                if hushed.load(Ordering::Relaxed) {
                    sleep(Duration::from_secs(60));
                } else if writeln!(stdin, "{number}").is_err() {
                    return;
                }
                sleep(EVERY);
            }
        });
        Ok(Member { id, child, said, is_hushed })
    }

    /// The last view that it installed: number and members.
    pub fn view(&self) -> (u64, BTreeSet<u32>) {
        self.said().views.last().cloned().unwrap_or_default()
    }

    /// The members of each view that it installed.
    pub fn views(&self) -> Vec<BTreeSet<u32>> {
        self.said().views.iter().map(|(_, members)| members.clone()).collect()
    }

    /// Its deliveries: time, origin, number.
    pub fn deliveries(&self) -> Vec<(Instant, u32, u64)> {
        self.said().deliveries.clone()
    }

    /// The longest time without a delivery, between these instants, in seconds.
    pub fn longest_silence(&self, from: Instant, to: Instant) -> f64 {
        let said = self.said();
        let times = said.deliveries.iter().map(|&(at, ..)| at).filter(|&at| at >= from && at <= to);
        let (mut last, mut longest) = (from, Duration::ZERO);
        for at in times.chain([to]) {
            longest = longest.max(at - last);
            last = at;
        }
        longest.as_secs_f64()
    }

    /// True if too few members are reachable, as it said last about that.
    pub fn has_lost_primary(&self) -> bool {
        let said = self.said();
        let about = |note: &&String| {
            ["too few members", "enough members", "view "].iter().any(|word| note.contains(word))
        };
        said.notes.iter().rev().find(about).is_some_and(|note| note.contains("too few"))
    }

    /// The end of what it said to people.
    pub fn recent_notes(&self) -> String {
        let said = self.said();
        let from = said.notes.len().saturating_sub(4);
        format!("n{}: {}", self.id, said.notes[from..].join(" | "))
    }

    /// Stops sending.
    pub fn hush(&self) {
        self.is_hushed.store(true, Ordering::Relaxed);
    }

    /// Kills it.
    pub fn kill(&mut self) {
        // It may have ended by itself, which shows in what it said.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        // It may have ended by itself, which shows in its status.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Asks it to leave and waits until it has.
    pub fn leave(&mut self) -> Result<(), String> {
        self.signal(Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return Ok(()),
                Ok(Some(status)) => return Err(format!("n{} ended with {status}", self.id)),
                Ok(None) => sleep(Duration::from_millis(5)),
                Err(error) => return Err(error.to_string()),
            }
        }
        Err(format!("n{} did not leave", self.id))
    }

    // A panic while the lock is held leaves whole lines.
    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.kill();
    }
}

fn listen(output: impl Read + Send + 'static, said: Arc<Mutex<Said>>, note: fn(&mut Said, &str)) {
    spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            note(&mut said.lock().unwrap_or_else(PoisonError::into_inner), &line);
        }
    });
}

/// A delivery or a view.
fn note_line(said: &mut Said, line: &str) {
    let now = Instant::now();
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        return said.notes.push(format!("no JSON: {line}"));
    };
    let number = |value: &Value| value.as_u64().unwrap_or(u64::MAX);
    if let Some(members) = line["members"].as_array() {
        let members = members.iter().map(|id| number(id) as u32).collect();
        return said.views.push((number(&line["view"]), members));
    }
    let which = line["text"].as_str().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    said.deliveries.push((now, number(&line["origin"]) as u32, which));
}
