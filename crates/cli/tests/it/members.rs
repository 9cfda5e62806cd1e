//! Members at the shell: restarts at other addresses, the environment, closed outputs, clusters
//! that do not start.
#![cfg(unix)]

use crate::support;

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::Instant;

use support::running::{Running, SOON};
use support::{Place, free_port, free_ports};

fn address(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

#[test]
fn a_member_comes_back_with_its_id_on_another_port_however_it_ended() {
    let place = Place::new();
    let peer = address(free_port());
    let founder =
        Running::start_unread(&place, &["broadcast", "--bootstrap", "--bind", &peer, "--id", "1"]);
    founder.says("listens on");
    // In order: it leaves; it is killed; it is killed again at once.
    for end in ["-INT", "-KILL", "-KILL", "-TERM"] {
        let begun = Instant::now();
        let mut member =
            Running::start_unread(&place, &["broadcast", "--peer", &peer, "--id", "3"]);
        member.says("n1 n3");
        founder.says("n1 n3");
        assert!(begun.elapsed() < SOON);
        member.signal(end);
        member.status_within(SOON, end);
    }
}

#[test]
fn peers_of_the_environment_are_for_who_joins_and_stop_nobody_else() {
    let place = Place::new();
    let first = free_ports(3);
    let peers = address(first);
    let run = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("PACELINE_PEERS", &peers).env("PACELINE_STATE", place.path());
        let output = command.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let port = first.to_string();
    for service in ["dht", "walk", "group"] {
        let up = ["up", "-n", "2", "--port", &port, "--service", service, "--cluster", service];
        assert!(run(&up).contains("2 started"));
        if service == "dht" {
            assert!(run(&["dht", "put", "k", "v", "--cluster", "dht"]).contains("stored on"));
            assert_eq!(run(&["dht", "get", "k", "--cluster", "dht"]).trim(), "v");
        }
        assert!(run(&["down", "--cluster", service]).contains("2 ended"));
    }
    let start = |arguments: &[&str]| {
        let mut command = place.command(arguments);
        let mut child =
            command.env("PACELINE_PEERS", &peers).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        stderr.read_line(&mut line).unwrap();
        (child, stderr, line)
    };
    let (mut founder, _first, said) = start(&["node", "--bootstrap", "--bind", &peers]);
    assert!(said.contains("listens on"), "{said}");
    let (mut member, _second, said) = start(&["node"]);
    assert!(said.contains("listens on"), "it joins by the environment alone: {said}");
    for child in [&mut member, &mut founder] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_member_ends_once_nobody_reads_its_output() {
    let place = Place::new();
    for command in ["broadcast", "node"] {
        let mut member = Running::start_unread(&place, &[command, "--bootstrap"]);
        member.says("listens on");
        // As `| head` does.
        drop(member.child.stdout.take());
        assert_eq!(member.status_within(SOON, command), 0);
    }
}

#[test]
fn a_cluster_that_cannot_start_leaves_nothing_behind_and_says_why_once() {
    let place = Place::new();
    let first = free_ports(3);
    let busy = UdpSocket::bind(("127.0.0.1", first + 1)).unwrap();
    let port = first.to_string();
    let up = ["up", "-n", "3", "--port", &port, "--state", "state"];
    let said = place.error(&up, 2);
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(said.contains(&format!("port {} of 127.0.0.1 is in use", first + 1)), "{said}");
    assert!(!place.path().join("state/paceline").exists());
    // The first one's port is free again.
    drop(busy);
    assert!(place.run(&up).stdout.contains("3 started, 0 already running"));
    // What ran before stays, if more cannot be started.
    let busy = UdpSocket::bind(("127.0.0.1", first + 3)).unwrap();
    place.error(&["up", "-n", "4", "--port", &port, "--state", "state"], 2);
    drop(busy);
    assert!(place.run(&["down", "--state", "state"]).stdout.contains("3 ended"));
}

#[test]
fn members_take_times_with_units_and_names_of_addresses() {
    let place = Place::new();
    let nowhere = address(free_port());
    for within in ["200ms", "0.2"] {
        let said = place.error(&["node", "--peer", &nowhere, "--join-within", within], 2);
        assert!(said.contains("within 200ms"), "{said}");
    }
    let said = place.error(&["node", "--peer", &nowhere, "--join-within", "5x"], 2);
    assert!(said.contains("unknown unit `x`"), "{said}");
    let bind = format!("localhost:{}", free_port());
    let member = Running::start_unread(&place, &["node", "--bootstrap", "--bind", &bind]);
    member.says("listens on 127.0.0.1");
    for command in [&["broadcast"][..], &["node"]] {
        let said = place.error(command, 2);
        assert!(said.contains("--peer HOST:PORT") && said.contains("--bootstrap"), "{said}");
    }
    let said = place.error(&["dht", "get", "k"], 2);
    assert!(said.contains("PACELINE_PEERS") && !said.contains("bootstrap"), "{said}");
}

#[test]
fn the_former_names_of_peers_are_refused_with_the_present_ones() {
    let place = Place::new();
    let at = address(free_port());
    let joins: [&[&str]; 4] =
        [&["node"], &["broadcast"], &["multicast", "recv"], &["dht", "get", "k"]];
    for join in joins {
        let said = place.error(&[join, &["--seed", &at]].concat(), 2);
        assert!(said.contains("the option is `--peer` now"), "{join:?}: {said}");
        let output = place.command(join).env("PACELINE_SEEDS", &at).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{join:?}: {said}");
        assert!(said.contains("PACELINE_SEEDS is PACELINE_PEERS now"), "{join:?}: {said}");
    }
    // The first member joins at no other.
    let bind = address(free_port());
    let mut founder = place.command(&["node", "--bootstrap", "--bind", &bind]);
    let founder = founder.env("PACELINE_SEEDS", &at).stderr(Stdio::piped()).spawn();
    let mut founder = founder.unwrap();
    let mut line = String::new();
    BufReader::new(founder.stderr.take().unwrap()).read_line(&mut line).unwrap();
    founder.kill().unwrap();
    founder.wait().unwrap();
    assert!(line.contains("listens on"), "{line}");
}

#[test]
fn a_peer_of_no_form_is_refused_with_the_place_and_the_forms() {
    let place = Place::new();
    place.write("peers", "# none\nweb\n");
    for (peer, parts) in [
        ("web", ["--peer", "`web` has no port; expected HOST:PORT, dns:NAME:PORT"]),
        ("dns:web", ["--peer", "`dns:web` has no port; expected dns:NAME:PORT"]),
        ("file:peers", ["`file:peers`", "line 2: `web` has no port; expected HOST:PORT"]),
        ("env:POD_PEERS", ["`env:POD_PEERS`", "`:1` names no host; expected HOST:PORT"]),
    ] {
        let output = place.command(&["node", "--peer", peer]).env("POD_PEERS", ":1").output();
        let output = output.unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{peer}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{peer}: {said}");
    }
    for command in [&["node"][..], &["dht", "get", "k"]] {
        let output = place.command(command).env("PACELINE_PEERS", "10.0.0.1:7,web").output();
        let said = String::from_utf8(output.unwrap().stderr).unwrap();
        assert!(said.contains("PACELINE_PEERS: `web` has no port; expected HOST:PORT"), "{said}");
    }
}

#[test]
fn three_nodes_that_expect_each_other_create_one_group() {
    let place = Place::new();
    let first = free_ports(3);
    let peers: Vec<String> = (first..first + 3).map(address).collect();
    place.write("peers", &peers.join("\n"));
    let start = |bind: &str, id: &str| {
        let node = ["node", "--expect", "3", "--peer", "file:peers", "--bind", bind, "--id", id];
        Running::start_unread(&place, &node)
    };
    let nodes = [start(&peers[0], "7"), start(&peers[1], "4"), start(&peers[2], "9")];
    for node in &nodes {
        node.says("n4 n7 n9");
    }
    for (arguments, part) in [
        (&["node", "--expect", "1", "--peer", &peers[0]][..], "2..=64"),
        (&["node", "--expect", "3", "--bootstrap"], "cannot be used with"),
        (&["node", "--service", "dht", "--expect", "3", "--peer", &peers[0]], "--bootstrap"),
        (&["node", "--service", "walk", "--expect", "3"], "a server waits for its client"),
    ] {
        let said = place.error(arguments, 2);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
}
