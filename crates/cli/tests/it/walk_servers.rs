//! `paceline walk run --servers` against processes on loopback.

use crate::support;

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use support::{Place, free_ports};

/// Three servers of walks that end with the test, and a graph.
struct Servers {
    place: Place,
    state: String,
    port: u16,
}

impl Servers {
    fn new() -> Servers {
        let place = Place::new();
        let port = free_ports(3);
        let state = place.path().join("state").display().to_string();
        let servers = Servers { place, state, port };
        servers.up();
        let made = ["graph", "gen", "rmat", "--scale", "9", "--out", "g.tsv"];
        let made = servers.place.run(&made);
        assert_eq!(made.status, 0, "{}", made.stderr);
        servers
    }

    /// Starts those that do not run.
    fn up(&self) -> String {
        let port = self.port.to_string();
        let up = ["up", "-n", "3", "--service", "walk", "--port", &port, "--state", &self.state];
        let ran = self.place.run(&up);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    }

    fn names(&self) -> String {
        let name = |place| format!("127.0.0.1:{}", self.port + place);
        [0, 1, 2].map(name).join(",")
    }

    /// The arguments of a run on them.
    fn walk<'a>(names: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
        [&["walk", "run", "g.tsv", "--servers", names], rest].concat()
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.place.path().join(name)).unwrap()
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.place.run(&["down", "--state", &self.state]);
    }
}

#[test]
fn servers_give_the_bytes_that_this_machine_gives() {
    let servers = Servers::new();
    let names = servers.names();
    assert!(servers.up().contains(&format!("walk with --servers {names}")));
    let kinds: [&[&str]; 3] = [
        &["--kind", "ppr", "--walks", "40"],
        &["--kind", "node2vec", "--p", "0.5", "--q", "2", "--length", "10", "--walks", "3"],
        &["--kind", "deepwalk", "--walks", "5", "--source", "3", "--source", "77"],
    ];
    for kind in kinds {
        let here = [&["walk", "run", "g.tsv", "--out", "here.csv"], kind].concat();
        assert_eq!(servers.place.run(&here).status, 0);
        let there = Servers::walk(&names, &[kind, &["--out", "there.csv"]].concat());
        let (ran, summary) = servers.place.json(&there);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert!(servers.read("here.csv") == servers.read("there.csv"), "{kind:?}");
        let walkers = summary["servers"]["walkers"].as_u64().unwrap();
        assert!(walkers >= summary["walks"].as_u64().unwrap(), "{summary}");
        fs::remove_file(servers.place.path().join("here.csv")).unwrap();
        fs::remove_file(servers.place.path().join("there.csv")).unwrap();
    }
}

#[test]
fn a_server_that_is_killed_and_started_again_loses_nothing() {
    let servers = Servers::new();
    let names = servers.names();
    let much = ["--kind", "ppr", "--walks", "600", "--out", "there.txt"];
    let mut command = servers.place.command(&Servers::walk(&names, &much));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let partial = servers.place.path().join("there.txt.partial");
    let begun = Instant::now();
    while fs::metadata(&partial).map_or(0, |file| file.len()) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "refusing to write");
        assert!(child.try_wait().unwrap().is_none(), "it was over too soon");
        std::thread::sleep(Duration::from_millis(1));
    }
    let list = fs::read_to_string(servers.place.path().join("state/paceline/nodes.json")).unwrap();
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let pid = list[1]["pid"].to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    std::thread::sleep(Duration::from_millis(200));
    assert!(servers.up().contains("1 started, 2 already running"));
    let ended = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let here = ["walk", "run", "g.tsv", "--kind", "ppr", "--walks", "600", "--out", "here.txt"];
    assert_eq!(servers.place.run(&here).status, 0);
    assert!(servers.read("here.txt") == servers.read("there.txt"));
}

#[test]
fn each_method_gives_the_bytes_that_this_machine_gives() {
    let servers = Servers::new();
    let names = servers.names();
    let job = ["--kind", "ppr", "--walks", "4"];
    let here = [&["walk", "run", "g.tsv", "--out", "here.csv"], &job[..]].concat();
    assert_eq!(servers.place.run(&here).status, 0);
    for method in ["rq-rg", "tail", "mark-exact", "window"] {
        let out = format!("{method}.csv");
        let with = ["--method", method, "--replace", "--out", &out];
        let ran = servers.place.run(&Servers::walk(&names, &[&job[..], &with].concat()));
        assert_eq!(ran.status, 0, "{method}: {}", ran.stderr);
        assert!(servers.read("here.csv") == servers.read(&out), "{method}");
    }
    // The servers have the graph by the method that was used last.
    let said = servers.place.error(&Servers::walk(&names, &["--method", "tail"]), 2);
    assert!(said.contains("or another --method: --replace"), "{said}");
    let said = servers.place.error(&Servers::walk(&names, &["--method", "rq-rg-nodirect"]), 2);
    assert!(said.contains("rq-rg") && said.contains("mark-exact"), "{said}");
    let said = servers.place.error(&["walk", "run", "g.tsv", "--method", "tail"], 2);
    assert!(said.contains("--servers"), "{said}");
}

/// A process that ends with the test.
struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn workers_of_one_process_give_the_bytes_that_this_machine_gives() {
    let place = Place::new();
    let made = ["graph", "gen", "rmat", "--scale", "9", "--out", "g.tsv"];
    assert_eq!(place.run(&made).status, 0);
    let job = ["walk", "run", "g.tsv", "--kind", "ppr", "--walks", "5", "--out"];
    assert_eq!(place.run(&[&job[..], &["here.csv"]].concat()).status, 0);
    for workers in [1, 3] {
        let port = free_ports(workers);
        let (bind, count) = (format!("127.0.0.1:{port}"), workers.to_string());
        let node = ["node", "--service", "walk", "--bind", &bind, "--workers", &count];
        let mut command = place.command(&node);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let _running = Running(child);
        let names = format!("{bind}-{}", port + workers - 1);
        let there = format!("there{workers}.csv");
        let (ran, summary) =
            place.json(&[&job[..], &[there.as_str(), "--servers", &names]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        assert_eq!(summary["is_complete"], true);
        let read = |name: &str| fs::read(place.path().join(name)).unwrap();
        assert!(read("here.csv") == read(&there), "{workers} workers");
    }
    let far = place
        .error(&["node", "--service", "walk", "--bind", "127.0.0.1:65535", "--workers", "2"], 2);
    assert!(far.contains("--workers 2"), "{far}");
}

#[test]
fn what_servers_cannot_do_is_said() {
    let servers = Servers::new();
    let names = servers.names();
    let error = |arguments: &[&str], status| servers.place.error(arguments, status);
    let unreachable = format!("127.0.0.1:{},127.0.0.1:9", servers.port);
    let said = error(&Servers::walk(&unreachable, &["--servers-within", "0.5"]), 2);
    assert!(said.contains("no reply from 127.0.0.1:9"), "{said}");
    assert!(said.contains("paceline node --service walk"), "{said}");
    let parts = ["graph", "partition", "g.tsv", "--parts", "4", "--out", "parts.txt"];
    assert_eq!(servers.place.run(&parts).status, 0);
    let said = error(&Servers::walk(&names, &["--partition", "parts.txt"]), 2);
    assert!(said.contains("parts.txt: 4 parts for 3 servers"), "{said}");
    let few = Servers::walk(&names, &["--kind", "ppr", "--walks", "2", "--source", "3"]);
    assert_eq!(servers.place.run(&few).status, 0);
    // The same servers have the graph of another.
    servers.place.write("other.tsv", "1 2\n2 1\n");
    let other = ["walk", "run", "other.tsv", "--servers", &names, "--walks", "2"];
    let said = error(&other, 2);
    assert!(said.contains("has another graph") && said.contains("--replace"), "{said}");
    assert_eq!(servers.place.run(&[&other[..], &["--replace"]].concat()).status, 0);
    let long = Servers::walk(&names, &["--replace", "--length", "20000", "--source", "3"]);
    let said = error(&long, 2);
    assert!(said.contains("more than a message holds"), "{said}");
    let said = error(&["node", "--service", "walk", "--bootstrap"], 2);
    assert!(said.contains("a server waits for its client"), "{said}");
    let said = error(&["walk", "run", "g.tsv", "--replace"], 2);
    assert!(said.contains("--servers"), "{said}");
}
