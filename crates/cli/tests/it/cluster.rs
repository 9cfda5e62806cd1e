//! `paceline up` and `down`: which files of a folder they own, two of them at once, and damaged
//! lists.
#![cfg(target_os = "linux")]

use crate::support;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Place, free_ports};

/// Far more than a node takes to start or to end.
const SOON: Duration = Duration::from_secs(30);

/// A state folder whose nodes end with the test.
struct State {
    place: Place,
    port: u16,
}

impl State {
    fn new() -> State {
        State { place: Place::new(), port: free_ports(4) }
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("state/paceline")
    }

    fn arguments<'a>(&self, arguments: &[&'a str]) -> Vec<&'a str> {
        [arguments, &["--state", "state"]].concat()
    }

    fn up(&self, n: u16) -> String {
        let (n, port) = (n.to_string(), self.port.to_string());
        let ran = self.place.run(&self.arguments(&["up", "-n", &n, "--port", &port]));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    }

    fn down(&self) -> (String, String) {
        let ran = self.place.run(&self.arguments(&["down"]));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        (ran.stdout, ran.stderr)
    }

    /// The processes that write into the folder.
    fn nodes(&self) -> Vec<u32> {
        let folder = self.folder();
        let entries = fs::read_dir("/proc").unwrap().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let writes_here = |pid: &u32| {
            let output = fs::read_link(format!("/proc/{pid}/fd/1"));
            output.is_ok_and(|output| output.starts_with(&folder))
        };
        pids.filter(writes_here).collect()
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for pid in self.nodes() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
    }
}

/// A process that is killed with the test.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < end, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn down_leaves_a_folder_that_up_did_not_make() {
    let place = Place::new();
    fs::create_dir_all(place.path().join("v/proj/src")).unwrap();
    place.write("v/proj/src/f", "precious");
    place.write("v/proj/nodes.json", "[]");
    let said = place.error(&["down", "--state", "v", "--cluster", "proj"], 2);
    assert!(said.contains("v/proj") && said.contains("did not make this folder"), "{said}");
    assert!(said.contains(".paceline-cluster"), "{said}");
    let up = ["up", "-n", "1", "--state", "v", "--cluster", "proj"];
    let said = place.error(&up, 2);
    assert!(said.contains("name another --cluster or --state"), "{said}");
    for name in ["", ".", "..", "-proj", ".proj", "a/b", "a\\b", "/"] {
        let cluster = format!("--cluster={name}");
        for command in ["down", "up"] {
            let said = place.error(&[command, "--state", "v", &cluster], 2);
            assert!(said.contains("is not the name of a folder"), "{command} {name}: {said}");
        }
    }
    // Not even a file that has the name of the lock.
    fs::create_dir(place.path().join("v/locked")).unwrap();
    place.write("v/locked/lock", "precious");
    for command in ["up", "down"] {
        let said = place.error(&[command, "--state", "v", "--cluster", "locked"], 2);
        assert!(said.contains("did not make this folder"), "{said}");
    }
    assert_eq!(fs::read_to_string(place.path().join("v/locked/lock")).unwrap(), "precious");
    let text = fs::read_to_string(place.path().join("v/proj/src/f")).unwrap();
    assert_eq!(text, "precious");
    assert_eq!(fs::read_dir(place.path().join("v/proj")).unwrap().count(), 2);
}

#[test]
fn down_names_the_files_that_up_did_not_make_and_leaves_them() {
    let state = State::new();
    state.up(2);
    let foreign = ["notes.txt", "07001.log", "70000.log", "nodes.json.old"];
    for name in foreign {
        fs::write(state.folder().join(name), name).unwrap();
    }
    fs::create_dir(state.folder().join("1.log")).unwrap();
    let (printed, said) = state.down();
    assert_eq!(printed, "2 ended\n");
    for name in foreign {
        assert!(said.contains(name), "{said}");
        assert_eq!(fs::read_to_string(state.folder().join(name)).unwrap(), name);
    }
    assert!(state.folder().join("1.log").is_dir() && said.contains("1.log"), "{said}");
    assert!(!state.folder().join("nodes.json").exists());
    // It is still a folder of `up`.
    assert!(state.up(1).contains("1 started"));
    for name in foreign {
        fs::remove_file(state.folder().join(name)).unwrap();
    }
    fs::remove_dir(state.folder().join("1.log")).unwrap();
    assert_eq!(state.down().0, "1 ended\n");
    assert!(!state.folder().exists());
}

#[test]
fn two_ups_at_once_start_each_node_once() {
    let state = State::new();
    let port = state.port.to_string();
    let up = state.arguments(&["up", "-n", "3", "--port", &port, "--json"]);
    let start = || {
        let mut command = state.place.command(&up);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()];
    let mut lists = both.map(|child| {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        let pids = list.as_array().unwrap().iter().map(|node| node["pid"].as_u64().unwrap());
        pids.map(|pid| pid as u32).collect::<Vec<u32>>()
    });
    lists.iter_mut().for_each(|list| list.sort_unstable());
    let mut nodes = state.nodes();
    nodes.sort_unstable();
    assert_eq!((&lists[0], &lists[1]), (&nodes, &nodes));
    assert_eq!(nodes.len(), 3);
    assert_eq!(state.down().0, "3 ended\n");
    assert!(state.nodes().is_empty());
}

#[test]
fn an_up_that_finds_the_folder_held_says_by_whom() {
    let state = State::new();
    state.up(1);
    let lock = fs::File::options().read(true).write(true).open(state.folder().join("lock"));
    let lock = lock.unwrap();
    lock.lock().unwrap();
    fs::write(state.folder().join("lock"), "4711").unwrap();
    let port = state.port.to_string();
    for command in [&["up", "-n", "1", "--port", &port][..], &["down"]] {
        let said = state.place.error(&state.arguments(command), 2);
        assert!(said.contains("process 4711") && said.contains("changing this cluster"), "{said}");
    }
    drop(lock);
    assert_eq!(state.down().0, "1 ended\n");
}

#[test]
fn nodes_of_a_damaged_list_are_found_by_their_logs_and_no_others_are_ended() {
    let state = State::new();
    state.up(3);
    let nodes = state.nodes();
    assert_eq!(nodes.len(), 3);
    // With the address of a node among its words, as a number that is used again may have.
    let address = format!("127.0.0.1:{}", state.port);
    let mut tail = Command::new("tail");
    tail.args(["-f", "/dev/null", &address]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut stranger = Stranger(tail.spawn().unwrap());
    let list = state.folder().join("nodes.json");
    let whole = fs::read_to_string(&list).unwrap();
    fs::write(&list, &whole[..whole.len() / 2]).unwrap();
    let port = state.port.to_string();
    let up = state.arguments(&["up", "-n", "3", "--port", &port]);
    let ran = state.place.run(&up);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("0 started, 3 already running"), "{}", ran.stdout);
    assert!(ran.stderr.contains("nodes.json") && ran.stderr.contains("damaged"), "{}", ran.stderr);
    assert_eq!(state.nodes(), nodes);
    // A list that names a process that is not a node.
    let mut listed: Value = serde_json::from_str(&fs::read_to_string(&list).unwrap()).unwrap();
    assert_eq!(listed.as_array().unwrap().len(), 3, "up has mended the list");
    listed[0]["pid"] = stranger.0.id().into();
    fs::write(&list, listed.to_string()).unwrap();
    assert_eq!(state.down().0, "3 ended\n");
    wait_until("no node is left", || state.nodes().is_empty());
    assert!(stranger.0.try_wait().unwrap().is_none(), "a process that is not a node was ended");

    state.up(2);
    fs::write(&list, "").unwrap();
    let (printed, said) = state.down();
    assert_eq!(printed, "2 ended\n");
    assert!(said.contains("damaged"), "{said}");
    assert!(!state.folder().exists());
}
