//! The first SIGTERM ends every command soon, whatever the command waits for.
#![cfg(target_os = "linux")]

use crate::support;

use std::fs;
use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use support::running::{Running, SOON};
use support::{Place, free_port};

/// How long a command may take to end.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Asks a command to end, once; its exit status.
fn ends(running: &mut Running, what: &str) -> i32 {
    running.signal("-TERM");
    running.status_within(ENDS_WITHIN, what)
}

/// A port whose listener never answers.
struct Silent {
    address: String,
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Silent {
    fn new() -> Silent {
        loop {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let address = udp.local_addr().unwrap();
            let Ok(tcp) = TcpListener::bind(address) else { continue };
            udp.set_nonblocking(true).unwrap();
            tcp.set_nonblocking(true).unwrap();
            return Silent { address: address.to_string(), udp, tcp };
        }
    }

    /// Waits for a request.
    fn is_asked(&self, what: &str) {
        let end = Instant::now() + SOON;
        while self.udp.recv(&mut [0; 2048]).is_err() && self.tcp.accept().is_err() {
            assert!(Instant::now() < end, "no request: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_command_that_waits_for_an_answer_ends_at_the_first_signal() {
    let place = Place::new();
    fs::create_dir(place.path().join("served")).unwrap();
    place.write("few.csv", "a,1\n");
    place.write("keys", "a\n");
    place.write("graph.tsv", "0 1\n1 0\n");
    let join = ["--join-within", "60s", "--peer"];
    let ask = ["--answer-within", "60s", "--face"];
    let serve = ["serve", "served", "--prefix", "/p", "--bind", "127.0.0.1:0", "--register"];
    let walk = ["walk", "run", "graph.tsv", "--servers-within", "60s"];
    let commands: [(&[&str], &[&str]); 14] = [
        (&["broadcast"], &join),
        (&["node"], &join),
        (&["node", "--service", "dht"], &join),
        (&["multicast", "send"], &join),
        (&["multicast", "recv"], &join),
        (&["dht", "put", "k", "v"], &join),
        (&["dht", "get", "k"], &join),
        (&["dht", "get", "--keys-from", "keys"], &join),
        (&["dht", "remove", "k"], &join),
        (&["dht", "send", "m", "k"], &join),
        (&["dht", "load", "few.csv"], &join),
        (&["fetch", "/p/f", "-o", "x"], &ask),
        (&serve, &["--face"]),
        (&walk, &["--servers"]),
    ];
    for (command, peer) in commands {
        let silent = Silent::new();
        let arguments = [command, peer, &[&silent.address]].concat();
        let what = arguments.join(" ");
        let mut running = Running::start(&place, &arguments);
        silent.is_asked(&what);
        assert_eq!(ends(&mut running, &what), 1, "{what}");
    }
    for command in ["ping", "traceroute"] {
        let silent = Silent::new();
        let arguments = ["ndn", command, "/p", "--all-paths", "--face", &silent.address];
        let mut running = Running::start(&place, &arguments);
        silent.is_asked(command);
        assert_eq!(ends(&mut running, command), 1, "{command}");
    }
}

#[test]
fn a_command_whose_input_stands_still_ends_at_the_first_signal() {
    let place = Place::new();
    let first = format!("127.0.0.1:{}", free_port());
    for arguments in [
        &["broadcast", "--bootstrap", "--bind", &first][..],
        &["multicast", "send", "--bootstrap", "--members", "1"],
    ] {
        let mut running = Running::start(&place, arguments);
        running.says("listens on");
        let what = arguments.join(" ");
        assert_eq!(ends(&mut running, &what), 0, "{what}");
    }
    // No process ever opens the other end.
    let made = Command::new("mkfifo").arg(place.path().join("pipe")).status();
    assert!(made.unwrap().success());
    let keys = ["dht", "get", "--keys-from", "pipe", "--peer", &first];
    let graph = ["graph", "stat", "pipe"];
    for arguments in [&keys[..], &graph] {
        let mut running = Running::start(&place, arguments);
        let pid = running.child.id();
        let end = Instant::now() + SOON;
        let waits = || fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
        while !waits().contains("fifo") && !waits().contains("wait_for_partner") {
            if Instant::now() > end {
                // Not every system says what a process waits for.
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let what = arguments.join(" ");
        assert_ne!(ends(&mut running, &what), 0, "{what}");
    }
}

/// Two receivers and a sender that makes packets all the time; the receivers went on without it.
fn excluded(place: &Place) -> (Running, Running, Running) {
    let first = format!("127.0.0.1:{}", free_port());
    let recv = ["multicast", "recv"];
    let founder = Running::start(
        place,
        &[&recv[..], &["--bootstrap", "--bind", &first, "--id", "1"]].concat(),
    );
    founder.says("listens on");
    let second = Running::start(place, &[&recv[..], &["--peer", &first, "--id", "2"]].concat());
    second.says("n1 n2");
    let send = ["multicast", "send", "--peer", &first, "--id", "3", "--rate", "500/s"];
    let sender = Running::start(place, &send);
    founder.says("n1 n2 n3");
    sender.says("n1 n2 n3");
    sender.signal("-STOP");
    while founder.says("view ").contains("n3") {}
    sender.signal("-CONT");
    sender.says("the other members continued without this node");
    (founder, second, sender)
}

#[test]
fn an_excluded_sender_ends_at_the_first_signal() {
    let place = Place::new();
    let (founder, second, mut sender) = excluded(&place);
    founder.signal("-KILL");
    second.signal("-KILL");
    assert_eq!(ends(&mut sender, "multicast send"), 0);
}

#[test]
fn an_excluded_sender_sends_on_once_it_is_a_member_again() {
    let place = Place::new();
    let (founder, _second, mut sender) = excluded(&place);
    while !founder.says("view ").contains("n3") {}
    founder.says("3: packet");
    assert_eq!(ends(&mut sender, "multicast send"), 0);
}

#[test]
fn a_producer_whose_neighbours_are_gone_ends_at_the_first_signal() {
    let place = Place::new();
    fs::create_dir(place.path().join("served")).unwrap();
    let forward = ["forward", "--bind", "127.0.0.1:0", "--accept-registrations"];
    let relays: Vec<Running> = (0..3).map(|_| Running::start(&place, &forward)).collect();
    let mut arguments = vec!["serve", "served", "--prefix", "/p", "--register"];
    let addresses: Vec<String> = relays
        .iter()
        .map(|relay| relay.says(" at ").rsplit_once(" at ").unwrap().1.to_owned())
        .collect();
    for address in &addresses {
        arguments.extend(["--face", address]);
    }
    let mut serving = Running::start(&place, &arguments);
    for _ in &relays {
        serving.says("registered at");
    }
    relays.iter().for_each(|relay| relay.signal("-KILL"));
    assert_eq!(ends(&mut serving, "serve"), 0);
}

#[test]
fn standard_input_that_is_open_does_not_keep_a_member() {
    let place = Place::new();
    let mut member = Running::start(&place, &["broadcast", "--bootstrap"]);
    member.says("listens on");
    let mut stdin = member.child.stdin.take().unwrap();
    writeln!(stdin, "hello").unwrap();
    member.says("hello");
    assert_eq!(ends(&mut member, "broadcast"), 0);
    drop(stdin);
}
