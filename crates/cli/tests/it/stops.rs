//! Runs that stop early: Ctrl-C, a killed parent, a crashed node. They leave the measurements up to
//! then, and nothing else.
#![cfg(target_os = "linux")]

use crate::support;

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::Place;

/// Far more than an end takes, and less than a run that was not stopped.
const SOON: Duration = Duration::from_secs(20);

/// A minute of broadcasts.
const LONG: &str = "duration = \"60s\"\n[topology]\nnodes = 3\n[protocol]\nkind = \"chain\"\n\
                    [workload]\nsenders = \"all\"\nsize = \"8000B\"\n";
const BENCH: [&str; 7] = ["bench", "broadcast", "--nodes", "3", "--seconds", "60", "--json"];

/// A command that runs, with a process group of its own.
struct Running {
    child: Child,
    _place: Place,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let place = Place::new();
        place.write("long.toml", LONG);
        let mut command = place.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        Running { child: command.spawn().unwrap(), _place: place }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until it has three children that are nodes, and for the given time.
    fn measure_for(&self, time: Duration) {
        wait_until("there are three nodes", || nodes_of(self.pid()).len() == 3);
        std::thread::sleep(time);
    }

    /// Sends a signal: to the process, or to its group as a terminal does.
    fn signal(&self, signal: &str, whole_group: bool) {
        let sign = if whole_group { "-" } else { "" };
        kill(signal, &format!("{sign}{}", self.pid()));
    }

    /// What it printed, once it ended with this status and left no child.
    fn ended_with(mut self, status: i32) -> (String, String) {
        let nodes = nodes_of(self.pid());
        wait_until("it has ended", || self.child.try_wait().unwrap().is_some());
        assert!(!nodes.iter().any(|&node| lives(node)), "a node outlives its parent");
        let output: Output = self.child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        assert_eq!(output.status.code(), Some(status), "{stdout}{stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("a bug"), "{stderr}");
        (stdout, stderr)
    }
}

fn kill(signal: &str, whom: &str) {
    let sent = Command::new("sh").args(["-c", &format!("kill -{signal} {whom}")]).status();
    assert!(sent.unwrap().success(), "no process {whom}");
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// State and parent of a process, if there is one.
fn state(pid: u32) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses and may hold spaces.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn lives(pid: u32) -> bool {
    state(pid).is_some_and(|(state, _)| state != 'Z')
}

/// The processes that are `paceline node`, children of this one, in the order they were started.
fn nodes_of(parent: u32) -> Vec<u32> {
    let is_node = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let mut words = line.split(|byte| *byte == 0);
        words.next().is_some_and(|program| program.ends_with(b"paceline"))
            && words.next() == Some(b"node")
            && state(*pid).is_some_and(|(_, of)| of == parent)
    };
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut nodes: Vec<u32> = pids.filter(is_node).collect();
    nodes.sort_unstable();
    nodes
}

/// Network namespaces that the process made.
fn namespaces_of(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return 0 };
    let prefix = format!("paceline-{pid}-");
    entries.flatten().filter(|e| e.file_name().to_string_lossy().starts_with(&prefix)).count()
}

/// True if a network lab can be built here; else prints why not, past the capture of output.
fn has_lab() -> bool {
    let place = Place::new();
    let ran =
        place.run(&["bench", "broadcast", "--lab", "netns", "--nodes", "2", "--seconds", "0.2"]);
    if ran.status == 2 {
        let test = std::thread::current().name().unwrap_or("a test").to_owned();
        let _ = writeln!(std::io::stderr(), "{test} skipped: {}", ran.stderr.trim());
    }
    ran.status != 2
}

fn row(stdout: &str) -> Value {
    let document: Value = serde_json::from_str(stdout).unwrap_or_else(|e| panic!("{e}: {stdout}"));
    document["results"][0].clone()
}

#[test]
fn a_bench_that_is_stopped_prints_what_it_measured() {
    for (signal, whole_group) in [("INT", true), ("TERM", false)] {
        let bench = Running::start(&BENCH);
        bench.measure_for(Duration::from_millis(2500));
        bench.signal(signal, whole_group);
        let (stdout, stderr) = bench.ended_with(1);
        let row = row(&stdout);
        let seconds = row["seconds"].as_f64().unwrap();
        assert!(seconds > 0.0 && seconds < 60.0, "{row}");
        assert!(row["mb_per_node_per_s"].as_f64().unwrap() > 0.0, "{row}");
        assert!(stderr.contains("stopped early"), "{stderr}");
    }
}

#[test]
fn a_bench_that_is_stopped_in_its_warm_up_has_nothing_to_print() {
    let bench = Running::start(&BENCH);
    bench.measure_for(Duration::ZERO);
    bench.signal("INT", true);
    let (stdout, stderr) = bench.ended_with(1);
    assert!(stdout.is_empty(), "{stdout}");
    assert!(stderr.contains("stopped before anything was measured"), "{stderr}");
}

#[test]
fn a_run_on_sockets_that_is_stopped_keeps_what_ran_until_then() {
    let run = ["run", "long.toml", "--on", "sockets", "--json"];
    for arguments in [&run[..], &[&run[..], &["--processes"]].concat()] {
        let running = Running::start(arguments);
        match arguments.contains(&"--processes") {
            true => running.measure_for(Duration::from_secs(1)),
            false => std::thread::sleep(Duration::from_secs(2)),
        }
        running.signal("INT", true);
        let (stdout, stderr) = running.ended_with(1);
        let document: Value = serde_json::from_str(&stdout).unwrap();
        let metrics = document["metrics"].as_array().unwrap();
        let value = |name: &str| {
            let metric = metrics.iter().find(|metric| metric["metric"] == name);
            metric.map_or(0.0, |metric| metric["value"].as_f64().unwrap())
        };
        assert_eq!(value("stopped_early"), 1.0, "{arguments:?}: {document}");
        assert!(value("messages_delivered") > 0.0, "{arguments:?}: {document}");
        assert!(stderr.contains("stopped early"), "{stderr}");
    }
}

#[test]
fn a_second_ctrl_c_ends_at_once() {
    let bench = Running::start(&BENCH);
    bench.measure_for(Duration::ZERO);
    let nodes = nodes_of(bench.pid());
    // A node that does not answer keeps the parent waiting.
    kill("STOP", &nodes[1].to_string());
    bench.signal("INT", true);
    std::thread::sleep(Duration::from_millis(800));
    bench.signal("INT", true);
    kill("CONT", &nodes[1].to_string());
    let Running { mut child, .. } = bench;
    wait_until("it has ended", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    wait_until("no node is left", || !nodes.iter().any(|&node| lives(node)));
}

#[test]
fn nodes_end_with_a_parent_that_was_killed() {
    let bench = Running::start(&BENCH);
    bench.measure_for(Duration::from_millis(500));
    let nodes = nodes_of(bench.pid());
    bench.signal("KILL", false);
    wait_until("no node is left", || !nodes.iter().any(|&node| lives(node)));
}

#[test]
fn a_node_that_crashes_is_named() {
    let run = ["run", "long.toml", "--on", "sockets", "--processes"];
    for arguments in [&BENCH[..], &run] {
        let running = Running::start(arguments);
        running.measure_for(Duration::from_secs(1));
        kill("KILL", &nodes_of(running.pid())[1].to_string());
        let (_, stderr) = running.ended_with(1);
        assert!(stderr.contains("the process of n1 exited early: signal: 9"), "{stderr}");
    }
}

#[test]
fn a_lab_is_removed_however_the_bench_ends() {
    if !has_lab() {
        return;
    }
    let netns = [&BENCH[..], &["--lab", "netns", "--rate", "100Mbit"]].concat();

    let bench = Running::start(&netns);
    bench.measure_for(Duration::from_millis(2500));
    let pid = bench.pid();
    assert_eq!(namespaces_of(pid), 4);
    bench.signal("INT", true);
    let (stdout, _) = bench.ended_with(1);
    assert!(row(&stdout)["limit_share"].as_f64().unwrap() > 0.0, "{stdout}");
    assert_eq!(namespaces_of(pid), 0);

    // In the midst of building.
    let bench = Running::start(&netns);
    let pid = bench.pid();
    wait_until("a namespace is there", || namespaces_of(pid) > 0);
    bench.signal("INT", true);
    let (_, stderr) = bench.ended_with(1);
    assert!(stderr.contains("stopped before anything was measured"), "{stderr}");
    assert_eq!(namespaces_of(pid), 0);

    let bench = Running::start(&netns);
    bench.measure_for(Duration::from_millis(500));
    let pid = bench.pid();
    kill("KILL", &nodes_of(pid)[2].to_string());
    let (_, stderr) = bench.ended_with(1);
    assert!(stderr.contains("the process of n2 exited early"), "{stderr}");
    assert_eq!(namespaces_of(pid), 0);

    // After SIGKILL the lab stays; the next build removes it.
    let bench = Running::start(&netns);
    bench.measure_for(Duration::from_millis(500));
    let (pid, nodes) = (bench.pid(), nodes_of(bench.pid()));
    bench.signal("KILL", false);
    wait_until("no node is left", || !nodes.iter().any(|&node| lives(node)));
    drop(bench.child.wait_with_output());
    assert!(has_lab());
    assert_eq!(namespaces_of(pid), 0);
}

#[test]
fn a_bench_that_cannot_run_here_says_so() {
    let place = Place::new();
    let said = place.error(&["bench", "broadcast", "--rate", "1Gbit"], 2);
    assert!(said.contains("--rate needs --lab netns"), "{said}");
    for nodes in ["1", "65"] {
        let said = place.error(&["bench", "broadcast", "--nodes", nodes], 2);
        assert!(said.contains("2..=64"), "{said}");
    }
    let said = place.error(&["bench", "broadcast", "--lab", "netns", "--rate", "1kbit"], 2);
    assert!(said.contains("100 kbit to 100 Gbit"), "{said}");
    let said = place.error(&["bench", "broadcast", "--topology", "star"], 2);
    assert!(said.contains("unknown topology `star`"), "{said}");
}

#[test]
fn a_lab_without_root_is_refused() {
    // Runs as an unprivileged user, who can start the binary only if its folder is readable by all.
    let mut command = Command::new(env!("CARGO_BIN_EXE_paceline"));
    command.args(["bench", "broadcast", "--lab", "netns"]).current_dir(Path::new("/"));
    if std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t0") {
        command.uid(65_534).gid(65_534);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "a_lab_without_root skipped: {error}");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the network lab needs root with user id 0"), "{said}");
}
