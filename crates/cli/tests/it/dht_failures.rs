//! `paceline dht` while hosts are killed, stopped, out of disk, or have a damaged file.
#![cfg(unix)]

use crate::support;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Place, free_ports};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

/// Waits until it holds.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < SOON, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([name, &pid.to_string()]).status();
    assert!(sent.unwrap().success(), "{name} {pid}");
}

/// A host of a table, which is killed with the test.
struct HostProcess {
    child: Child,
    log: PathBuf,
    port: u16,
}

impl HostProcess {
    /// Starts a host, founder if it has no peer, and waits until it is part of the table.
    fn start(place: &Place, port: u16, peer: Option<u16>, arguments: &[&str]) -> HostProcess {
        HostProcess::start_as(place, place.command(&[]), port, peer, arguments)
    }

    fn start_as(
        place: &Place,
        mut command: Command,
        port: u16,
        peer: Option<u16>,
        arguments: &[&str],
    ) -> HostProcess {
        let log = place.path().join(format!("{port}.log"));
        let bind = format!("127.0.0.1:{port}");
        command.args(["node", "--service", "dht", "--bind", &bind, "--stat"]);
        command.arg(format!("{port}.json")).args(arguments);
        match peer {
            Some(peer) => command.args(["--peer", &format!("127.0.0.1:{peer}")]),
            None => command.arg("--bootstrap"),
        };
        let file = File::create(&log).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file).spawn();
        let host = HostProcess { child: child.unwrap(), log, port };
        wait_until("it listens", || host.said().contains("listens on"));
        host
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn kill(&mut self) {
        signal("-KILL", self.child.id());
        self.child.wait().unwrap();
    }

    fn peer(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What it says of itself.
    fn stat(&self, place: &Place) -> Value {
        let text = fs::read(place.path().join(format!("{}.json", self.port))).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Entries of a file, one a line, whose values have this many bytes.
fn entries(place: &Place, name: &str, numbers: std::ops::Range<usize>, bytes: usize) {
    let line = |number| format!("key {number},{}\n", format!("{number} ").repeat(bytes / 6 + 1));
    place.write(name, &numbers.map(line).collect::<String>());
}

/// All entries of the first lines of a file are read as they were written.
fn all_are_read(place: &Place, peer: &str, name: &str, lines: usize) {
    let text = fs::read_to_string(place.path().join(name)).unwrap();
    let mut written: Vec<&str> = text.lines().take(lines).collect();
    let keys: String =
        written.iter().map(|line| format!("{}\n", line.split(',').next().unwrap())).collect();
    place.write("keys", &keys);
    let ran = place.run(&["dht", "get", "--keys-from", "keys", "--peer", peer]);
    let mut found: Vec<&str> = ran.stdout.lines().collect();
    found.sort_unstable();
    written.sort_unstable();
    assert_eq!(found.len(), written.len(), "{}", ran.stderr);
    assert!(found == written, "a value is not what was written");
}

/// Starts to load a file, and waits until this many lines are acknowledged.
fn load(place: &Place, peer: &str, name: &str) -> Child {
    let load = ["dht", "load", name, "--peer", peer];
    let quiet = Stdio::null;
    place.command(&load).stdout(quiet()).stderr(quiet()).spawn().unwrap()
}

/// Lines of a file that were acknowledged, from its first on, as the journal says.
fn acknowledged(place: &Place, name: &str) -> (usize, u64) {
    let text = fs::read(place.path().join(format!("{name}.progress"))).unwrap_or_default();
    let json: Value = serde_json::from_slice(&text).unwrap_or_default();
    (json["stored"].as_u64().unwrap_or(0) as usize, json["failed"].as_u64().unwrap_or(0))
}

#[test]
fn what_was_acknowledged_is_there_after_the_only_host_is_killed_again_and_again() {
    let place = Place::new();
    let port = free_ports(1);
    let durable = ["--durable", "host.redb", "--copies", "1"];
    let mut host = HostProcess::start(&place, port, None, &durable);
    for round in 0..3 {
        // Killed at once after the last acknowledgement.
        let name = format!("whole-{round}.csv");
        entries(&place, &name, 10_000 * round..10_000 * round + 4000, 100);
        let (ran, json) = place.json(&["dht", "load", &name, "--peer", &host.peer()]);
        host.kill();
        assert_eq!((ran.status, &json["stored"], &json["copies"]), (0, &4000.into(), &1.into()));
        host = HostProcess::start(&place, port, None, &durable);
        all_are_read(&place, &host.peer(), &name, 4000);

        // Killed during the load.
        let name = format!("part-{round}.csv");
        entries(&place, &name, 100_000 * (round + 1)..100_000 * (round + 1) + 60_000, 100);
        let mut loading = load(&place, &host.peer(), &name);
        wait_until("some are acknowledged", || acknowledged(&place, &name).0 > 0);
        host.kill();
        signal("-KILL", loading.id());
        loading.wait().unwrap();
        let (stored, failed) = acknowledged(&place, &name);
        assert_eq!(failed, 0);
        host = HostProcess::start(&place, port, None, &durable);
        all_are_read(&place, &host.peer(), &name, stored);
    }
    assert!(!host.said().contains("damaged"), "{}", host.said());
}

/// The command, with files limited to 6 MiB to emulate a full disk.
fn limited(place: &Place) -> Command {
    let mut limited = Command::new("sh");
    let script = "trap '' XFSZ; ulimit -f 12288; exec \"$0\" \"$@\"";
    limited.args(["-c", script, env!("CARGO_BIN_EXE_paceline")]).current_dir(place.path());
    limited
}

/// How often a test does its work: `PACELINE_TEST_ROUNDS`, or as often as it takes in a few
/// seconds.
fn rounds(usual: usize) -> usize {
    let text = std::env::var("PACELINE_TEST_ROUNDS");
    text.map_or(usual, |text| text.parse().expect("a number"))
}

/// Kills hosts with one command, so that none sees another go.
fn kill_together(mut hosts: Vec<HostProcess>) {
    let pids: Vec<String> = hosts.iter().map(|host| host.child.id().to_string()).collect();
    let sent = Command::new("kill").arg("-KILL").args(pids).status();
    assert!(sent.unwrap().success());
    for host in &mut hosts {
        host.child.wait().unwrap();
    }
}

#[test]
fn what_was_acknowledged_is_there_after_all_three_hosts_are_killed_together() {
    let place = Place::new();
    let port = free_ports(3);
    let files: Vec<String> = (0..3).map(|number| format!("host-{number}.redb")).collect();
    let start = |number: u16| {
        let durable = ["--durable", &files[usize::from(number)]];
        HostProcess::start(&place, port + number, (number > 0).then_some(port), &durable)
    };
    let name = |round: usize| format!("round-{round}.csv");
    let rounds = rounds(2);
    for round in 0..rounds {
        let hosts: Vec<HostProcess> = (0..3).map(start).collect();
        entries(&place, &name(round), 10_000 * round..10_000 * round + 1500, 100);
        let (ran, json) = place.json(&["dht", "load", &name(round), "--peer", &hosts[0].peer()]);
        // At once after the last acknowledgement.
        kill_together(hosts);
        assert_eq!((ran.status, &json["stored"], &json["copies"]), (0, &1500.into(), &3.into()));
        let hosts: Vec<HostProcess> = (0..3).map(start).collect();
        (0..=round).for_each(|round| all_are_read(&place, &hosts[2].peer(), &name(round), 1500));
        assert!(hosts.iter().all(|host| !host.said().contains("damaged")));
        kill_together(hosts);
    }
    // Each file has all of it, since there were never more than three hosts.
    for file in &files {
        let dumped = place.run(&["dht", "dump", file]);
        assert_eq!((dumped.status, dumped.stdout.lines().count()), (0, 1500 * rounds));
    }
}

#[test]
fn a_table_goes_on_when_one_disk_of_three_is_full_and_all_of_it_outlives_a_kill() {
    let place = Place::new();
    let port = free_ports(3);
    let files = ["host-0.redb", "host-1.redb", "host-2.redb"];
    let durable = |number: u16| ["--durable", files[usize::from(number)]];
    let first = HostProcess::start(&place, port, None, &durable(0));
    let second = HostProcess::start(&place, port + 1, Some(port), &durable(1));
    let mut full =
        HostProcess::start_as(&place, limited(&place), port + 2, Some(port), &durable(2));
    entries(&place, "big.csv", 0..9_000, 900);
    let load = ["dht", "load", "big.csv", "--outcomes", "outcomes.csv", "--peer", &first.peer()];
    let (ran, json) = place.json(&load);
    wait_until("the host without room ends", || full.child.try_wait().unwrap().is_some());
    kill_together(vec![first, second]);
    let outcomes = fs::read_to_string(place.path().join("outcomes.csv")).unwrap();
    let failed = outcomes.lines().find(|line| line.contains(",failed,"));
    assert_eq!((ran.status, &json["stored"]), (0, &9000.into()), "{} {failed:?}", ran.stderr);
    assert!(full.said().contains("error: host-2.redb: "), "{}", full.said());
    let hosts: Vec<HostProcess> = (0..3)
        .map(|number| {
            let peer = (number > 0).then_some(port);
            HostProcess::start(&place, port + number, peer, &durable(number))
        })
        .collect();
    all_are_read(&place, &hosts[2].peer(), "big.csv", 9000);
    assert!(hosts.iter().all(|host| !host.said().contains("damaged")));
}

#[test]
fn a_host_whose_disk_is_full_ends_with_an_error_and_kept_what_was_acknowledged() {
    let place = Place::new();
    let port = free_ports(1);
    let durable = ["--durable", "host.redb", "--copies", "1"];
    let mut host = HostProcess::start_as(&place, limited(&place), port, None, &durable);
    entries(&place, "big.csv", 0..40_000, 900);
    let mut loading = load(&place, &host.peer(), "big.csv");
    let mut status = None;
    wait_until("the host ends", || {
        status = host.child.try_wait().unwrap();
        status.is_some()
    });
    signal("-KILL", loading.id());
    loading.wait().unwrap();
    let said = host.said();
    assert_eq!(status.unwrap().code(), Some(1), "{said}");
    assert!(said.contains("error: host.redb: ") && !said.contains("a bug in Paceline"), "{said}");
    let (stored, _) = acknowledged(&place, "big.csv");
    let host = HostProcess::start(&place, port, None, &durable);
    all_are_read(&place, &host.peer(), "big.csv", stored);
}

#[test]
fn a_damaged_file_is_set_aside_and_reported_and_the_host_starts_empty() {
    let place = Place::new();
    let port = free_ports(1);
    let durable = ["--durable", "host.redb", "--copies", "1"];
    let mut host = HostProcess::start(&place, port, None, &durable);
    entries(&place, "few.csv", 0..500, 400);
    assert_eq!(place.run(&["dht", "load", "few.csv", "--peer", &host.peer()]).status, 0);
    host.kill();
    let path = place.path().join("host.redb");
    let mut bytes = fs::read(&path).unwrap();
    let value = b"137 137 137 137";
    // Pages that were freed hold it too.
    let is_it = |at: &usize| bytes[*at..].starts_with(value);
    let places: Vec<usize> = (0..bytes.len()).filter(is_it).collect();
    assert!(!places.is_empty(), "the value is in the file");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    fs::write(&path, &bytes).unwrap();
    let said = place.error(&["dht", "dump", "host.redb"], 2);
    assert!(said.contains("host.redb: the file is damaged"), "{said}");
    assert_eq!(fs::read(&path).unwrap(), bytes, "a dump changes nothing");

    let host = HostProcess::start(&place, port, None, &durable);
    let said = host.said();
    assert!(said.contains("warning: host.redb is damaged"), "{said}");
    assert!(said.contains("the host keeps it as host.redb.damaged-"), "{said}");
    assert!(!said.contains("a bug in Paceline"), "{said}");
    let said = place.error(&["dht", "get", "key 137", "--peer", &host.peer()], 1);
    assert!(said.contains("there is no value for"), "{said}");
    assert_eq!(place.run(&["dht", "put", "key 137", "new", "--peer", &host.peer()]).status, 0);
}

#[test]
fn a_host_that_is_left_alone_is_not_sure_and_takes_writes_only_if_fewer_copies_will_do() {
    let place = Place::new();
    let port = free_ports(6);
    let first = HostProcess::start(&place, port, None, &[]);
    let peer = first.peer();
    // A table of one host never had more.
    let (ran, json) = place.json(&["dht", "put", "alone", "1", "--peer", &peer]);
    assert_eq!((ran.status, &json["copies"]), (0, &1.into()), "{}", ran.stderr);
    let others: Vec<HostProcess> =
        (1..6).map(|n| HostProcess::start(&place, port + n, Some(port), &[])).collect();
    entries(&place, "few.csv", 0..60, 20);
    let (ran, json) = place.json(&["dht", "load", "few.csv", "--peer", &peer]);
    assert_eq!((ran.status, &json["copies"]), (0, &3.into()), "{}", ran.stderr);
    others.iter().for_each(|host| signal("-STOP", host.child.id()));
    wait_until("it misses the others", || first.stat(&place)["contacts"] == 0);
    assert!(first.stat(&place)["missing"].as_u64() >= Some(5));
    assert_eq!(first.stat(&place)["is_settled"], false);

    place.write("keys", &(0..60).map(|number| format!("key {number}\n")).collect::<String>());
    let ran = place.run(&["dht", "get", "--keys-from", "keys", "--peer", &peer]);
    assert!(ran.stderr.contains(" 0 absent") && ran.status == 3, "{}", ran.stderr);
    let found = ran.stdout.lines().count();
    assert!(found > 0 && found < 60, "{found} are here");
    let absent = (0..60).find(|n| !ran.stdout.contains(&format!("key {n},"))).unwrap();
    let said = place.error(&["dht", "get", &format!("key {absent}"), "--peer", &peer], 3);
    assert!(said.contains("not sure"), "{said}");

    let put = ["dht", "put", "new", "1", "--peer", &peer];
    let (ran, json) = place.json(&put);
    assert_eq!((ran.status, &json["copies"]), (1, &1.into()));
    assert!(ran.stderr.contains("too few hosts (1)"), "{}", ran.stderr);
    let (ran, json) = place.json(&[&put[..], &["--require-copies", "1"]].concat());
    assert_eq!((ran.status, &json["copies"]), (0, &1.into()), "{}", ran.stderr);

    others.iter().for_each(|host| signal("-CONT", host.child.id()));
    wait_until("all are back", || {
        first.stat(&place)["contacts"] == 5 && first.stat(&place)["is_settled"] == true
    });
    all_are_read(&place, &peer, "few.csv", 60);
    assert_eq!(place.run(&["dht", "get", "never", "--peer", &peer]).status, 1);
}
