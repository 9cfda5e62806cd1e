//! `paceline node --config`: wrong files, the order of options, variables and the file, and nodes
//! that run every kind of service.
#![cfg(unix)]

use crate::support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use support::running::{Running, SOON};
use support::{Place, free_port, free_ports};

/// Wrong node files, each with its error. Rewritten with `PACELINE_UPDATE_NODE_ERRORS`.
const ERRORS: &str = "tests/it/node_errors.txt";
/// The node file of the documentation.
const EXAMPLE: &str = "../../docs/operations/node.toml";

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn a_wrong_file_is_refused_with_its_name_the_line_the_key_and_what_would_do() {
    let kept = std::fs::read_to_string(at(ERRORS)).unwrap();
    let mut now = String::new();
    let mut cases = 0;
    for case in kept.split("=== ").skip(1) {
        let (title, rest) = case.split_once('\n').unwrap();
        let (text, _) = rest.split_once("---\n").unwrap();
        let place = Place::new();
        place.write("node.toml", text);
        let said = place.error(&["node", "--config", "node.toml"], 2);
        assert!(said.starts_with("error: node.toml"), "{title}: {said}");
        now.push_str(&format!("=== {title}\n{text}---\n{said}"));
        cases += 1;
    }
    assert!(cases >= 20, "{cases} wrong files");
    if std::env::var_os("PACELINE_UPDATE_NODE_ERRORS").is_some() {
        std::fs::write(at(ERRORS), now).unwrap();
        return;
    }
    assert_eq!(now, kept, "PACELINE_UPDATE_NODE_ERRORS=1 writes the file");
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let place = Place::new();
    place.write("node.toml", "");
    let said = place.error(&["node", "--config", "nodes.toml"], 2);
    assert!(said.contains("there is no file nodes.toml"), "{said}");
    assert!(said.contains("did you mean `node.toml`?"), "{said}");
    place.write("long.toml", &"#".repeat((1 << 20) + 1));
    let said = place.error(&["node", "--config", "long.toml"], 2);
    assert!(said.contains("longer than 1 MiB"), "{said}");
}

#[test]
fn options_of_one_service_are_refused_beside_a_file() {
    let place = Place::new();
    place.write("node.toml", "[[walks]]\nname = \"web\"");
    for option in [["--service", "dht"], ["--topology", "tree"], ["--durable", "a.redb"]] {
        let said = place.error(&["node", "--config", "node.toml", option[0], option[1]], 2);
        assert!(said.contains(option[0]) && said.contains("cannot be used with"), "{said}");
    }
    let said = place.error(&["node", "--config", "node.toml", "--group", "orders"], 2);
    assert!(said.contains("--group") && said.contains("[[group]] name"), "{said}");
}

/// Runs a node that cannot start, with these variables.
fn refused(place: &Place, options: &[&str], variables: &[(&str, &str)]) -> String {
    let mut command = place.command(&[&["node", "--config", "node.toml"], options].concat());
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let Output { status, stderr, .. } = output;
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{said}");
    said
}

#[test]
fn an_option_stands_above_a_variable_and_a_variable_above_the_file() {
    let place = Place::new();
    let [file, variable, option] = [free_port(), free_port(), free_port()];
    let text = format!(
        "[host]\npeers = [\"127.0.0.1:{file}\"]\njoin_within = \"150ms\"\n[[group]]\nname = \"a\"\n"
    );
    place.write("node.toml", &text);
    let peer = |port: u16| format!("127.0.0.1:{port}");
    let of_variable = peer(variable);
    let variables = [("PACELINE_PEERS", &*of_variable), ("PACELINE_JOIN_WITHIN", "160ms")];
    let said = refused(&place, &[], &[]);
    assert!(said.contains(&peer(file)) && said.contains("within 150ms"), "{said}");
    assert!(said.contains("group a: "), "{said}");
    let said = refused(&place, &[], &variables);
    assert!(said.contains(&of_variable) && said.contains("within 160ms"), "{said}");
    let of_option = peer(option);
    let options = ["--peer", &of_option, "--join-within", "170ms"];
    let said = refused(&place, &options, &variables);
    assert!(said.contains(&of_option) && said.contains("within 170ms"), "{said}");
    // A wrong variable is named, and one for other commands is not in the way.
    let said = refused(&place, &[], &[("PACELINE_EXPECT", "one")]);
    assert!(said.starts_with("error: PACELINE_EXPECT: `expect` cannot be the text"), "{said}");
    let said = refused(&place, &[], &[("PACELINE_GROUP", "elsewhere")]);
    assert!(said.contains("group a: "), "{said}");
}

#[test]
fn three_nodes_of_one_file_are_one_cluster_of_all_services_and_leave_in_order() {
    let place = Place::new();
    let first = free_ports(3);
    let mut text = std::fs::read_to_string(at(EXAMPLE)).unwrap();
    for (place, port) in (7001..7004).zip(first..) {
        text = text.replace(&format!("127.0.0.1:{place}"), &format!("127.0.0.1:{port}"));
    }
    place.write("node.toml", &text);
    let start = |port: u16| {
        let forwarder = format!("127.0.0.1:{}", free_port());
        let own = format!("node-{port}.toml");
        place.write(&own, &text.replace("127.0.0.1:6363", &forwarder));
        let bind = format!("127.0.0.1:{port}");
        Running::start(&place, &["node", "--config", &own, "--bind", &bind])
    };
    let mut nodes: Vec<Running> = (first..first + 3).map(start).collect();
    for node in &nodes {
        let said = node.says("listens on");
        for service in ["group orders", "multicast prices", "dht stock", "walks web"] {
            assert!(said.contains(service), "{said}");
        }
        assert!(said.contains("named data at 127.0.0.1:"), "{said}");
    }
    // Other commands join the services of the file.
    let peer = format!("127.0.0.1:{first}");
    let table = ["--group", "stock", "--peer", &peer, "--cluster", "shop"];
    let run = |words: &[&str]| place.run(&[words, &table].concat());
    let put = run(&["dht", "put", "apples", "17"]);
    assert!(put.stdout.contains("stored on 3"), "{}{}", put.stdout, put.stderr);
    assert_eq!(run(&["dht", "get", "apples"]).stdout.trim(), "17");
    all_run_everything(&place, first);
    let with_peer = ["--peer", &peer, "--cluster", "shop"];
    for words in [["broadcast", "--group", "orders"], ["multicast recv", "--group", "prices"]] {
        let words: Vec<&str> = words.iter().flat_map(|word| word.split(' ')).collect();
        let mut guest = Running::start_unread(&place, &[&words[..], &with_peer].concat());
        guest.says("listens on");
        guest.signal("-INT");
        assert_eq!(guest.status_within(SOON, words[0]), 0);
    }
    let one = nodes.pop().unwrap();
    for (signal, mut node) in [("-TERM", one), ("-INT", nodes.pop().unwrap())] {
        node.signal(signal);
        assert!(node.says("leaving").contains("second Ctrl-C"));
        assert_eq!(node.status_within(SOON, signal), 0);
    }
    // The others did not wait for a time-out to miss them, and hold the value.
    assert_eq!(run(&["dht", "get", "apples"]).stdout.trim(), "17");
    let mut last = nodes.pop().unwrap();
    last.signal("-TERM");
    assert_eq!(last.status_within(SOON, "the last one"), 0);
}

/// Asks three nodes what they run.
fn all_run_everything(place: &Place, first: u16) {
    let addresses: Vec<String> =
        (first..first + 3).map(|port| format!("127.0.0.1:{port}")).collect();
    let words: Vec<&str> = addresses.iter().map(String::as_str).collect();
    let ask = [&["status", "--cluster", "shop"], &words[..]].concat();
    let (ran, document) = place.json(&ask);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let hosts = document["hosts"].as_array().unwrap();
    let ids: BTreeSet<u64> = hosts.iter().map(|host| host["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), 3);
    for (host, address) in hosts.iter().zip(&addresses) {
        assert_eq!(host["address"], address.as_str());
        let services = host["services"].as_array().unwrap();
        let mut names: Vec<String> = services
            .iter()
            .map(|it| format!("{} {}", it["kind"].as_str().unwrap(), it["name"].as_str().unwrap()))
            .collect();
        names.sort();
        assert_eq!(names, ["dht/chord stock", "group orders", "multicast prices", "walks web"]);
        for service in services.iter().filter(|it| it["view"].is_u64()) {
            let members = service["members"].as_array().unwrap();
            let members: BTreeSet<u64> = members.iter().map(|it| it.as_u64().unwrap()).collect();
            assert_eq!(members, ids, "{service}");
        }
        assert!(host["unread_bytes"].is_u64());
    }
    let text = place.run(&ask).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("group orders") && text.contains("standing"), "{text}");
    // A node that is not there is named, and the others are shown.
    let nowhere = format!("127.0.0.1:{}", free_port());
    let ran = place.run(&[&ask[..], &[&nowhere, "--within", "300ms"]].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(ran.stderr.contains(&nowhere) && ran.stdout.contains("group orders"), "{}", ran.stderr);
}

#[test]
fn a_command_that_differs_from_the_node_is_refused_by_what_differs_and_takes_its_file() {
    let place = Place::new();
    let port = free_port();
    let text = "[host]\ncluster = \"shop\"\n[[group]]\nname = \"orders\"\nwindow_bytes = \"2MiB\"\n\
                [[multicast]]\nname = \"prices\"\nr = 4\n";
    place.write("node.toml", text);
    let peer = format!("127.0.0.1:{port}");
    let node = ["node", "--config", "node.toml", "--bootstrap", "--bind", &peer];
    let mut node = Running::start(&place, &node);
    node.says("listens on");
    let of = |name| ["--cluster", "shop", "--peer", &peer, "--group", name];
    let refused = |words: &[&str], name, expected: &str| {
        let said = place.error(&[words, &of(name), &["--join-within", "2s"]].concat(), 2);
        assert!(said.contains(expected) && said.contains(&peer), "{said}");
    };
    refused(&["broadcast"], "orders", "`window_bytes` is 2MiB there and 1MiB here");
    refused(&["multicast", "recv"], "prices", "`r_max` is 4 there and 8 here");
    refused(&["broadcast"], "order", "none runs `group order`");
    refused(&["broadcast"], "prices", "its kind is `multicast` there");
    let said =
        place.error(&[&["broadcast", "--config", "node.toml"], &of("prices")[..]].concat(), 2);
    assert!(said.contains("node.toml") && said.contains("no [[group]] named `prices`"), "{said}");
    let said = place.error(
        &[&["multicast", "recv", "--config", "node.toml", "--fifo"], &of("prices")[..]].concat(),
        2,
    );
    assert!(said.contains("--fifo"), "{said}");
    for (words, name) in [(&["broadcast"][..], "orders"), (&["multicast", "recv"], "prices")] {
        let words = [words, &["--config", "node.toml"], &of(name)].concat();
        let mut guest = Running::start_unread(&place, &words);
        guest.says("listens on");
        guest.signal("-INT");
        assert_eq!(guest.status_within(SOON, name), 0);
    }
    node.signal("-TERM");
    assert_eq!(node.status_within(SOON, "the node"), 0);
}

#[test]
fn a_local_cluster_of_a_file_runs_its_services() {
    let place = Place::new();
    let first = free_ports(2);
    let text = std::fs::read_to_string(at(EXAMPLE)).unwrap();
    place.write("node.toml", &text);
    let (port, address) = (first.to_string(), format!("127.0.0.1:{first}"));
    let up = ["up", "-n", "2", "--port", &port, "--config", "node.toml", "--state", "state"];
    let ran = place.run(&up);
    assert!(ran.stdout.contains("2 started"), "{}{}", ran.stdout, ran.stderr);
    let (_, document) = place.json(&["status", &address]);
    assert_eq!(document["hosts"][0]["services"].as_array().unwrap().len(), 4, "{document}");
    // Nodes of one service are another cluster.
    let other = ["up", "-n", "3", "--port", &port, "--state", "state"];
    assert!(place.error(&other, 2).contains("runs another service or another file"));
    let ran = place.run(&["down", "--state", "state"]);
    assert!(ran.stdout.contains("2 ended"), "{}{}", ran.stdout, ran.stderr);
    let said = place.error(&["up", "--config", "node.toml", "--service", "dht"], 2);
    assert!(said.contains("cannot be used with"), "{said}");
}

#[test]
fn the_page_shows_the_file_that_is_tested() {
    let file = std::fs::read_to_string(at(EXAMPLE)).unwrap();
    let page = std::fs::read_to_string(at("../../docs/operations/node.md")).unwrap();
    assert!(page.contains(&format!("```toml\n{file}```")), "node.md differs from node.toml");
}

#[test]
fn status_without_a_node_says_what_would_do() {
    let place = Place::new();
    let said = place.error(&["status"], 2);
    assert!(said.contains("pass ADDR") && said.contains("PACELINE_PEERS"), "{said}");
    assert!(place.error(&["status", "nowhere"], 2).contains("HOST:PORT"));
}

#[test]
fn a_second_signal_ends_a_node_that_is_leaving() {
    let place = Place::new();
    // The other member stands still, so that leaving takes as long as it may.
    let text = "[host]\nleave_within = \"60s\"\n[[group]]\nname = \"a\"\n";
    place.write("node.toml", text);
    let bind = format!("127.0.0.1:{}", free_port());
    let first =
        Running::start(&place, &["node", "--config", "node.toml", "--bootstrap", "--bind", &bind]);
    first.says("listens on");
    let mut second = Running::start(&place, &["node", "--config", "node.toml", "--peer", &bind]);
    second.says("listens on");
    first.signal("-STOP");
    second.signal("-TERM");
    second.says("leaving");
    // Two signals within this time are one wish.
    std::thread::sleep(Duration::from_millis(400));
    second.signal("-TERM");
    assert_eq!(second.status_within(SOON, "the second signal"), 130);
    first.signal("-CONT");
}

#[test]
fn a_node_that_cannot_leave_in_time_says_so() {
    let place = Place::new();
    let text = "[host]\nleave_within = \"200ms\"\n[[group]]\nname = \"a\"\n";
    place.write("node.toml", text);
    let bind = format!("127.0.0.1:{}", free_port());
    let first =
        Running::start(&place, &["node", "--config", "node.toml", "--bootstrap", "--bind", &bind]);
    first.says("listens on");
    let mut second = Running::start(&place, &["node", "--config", "node.toml", "--peer", &bind]);
    second.says("listens on");
    first.signal("-STOP");
    second.signal("-TERM");
    second.says("stopped before it had left: group a");
    assert_eq!(second.status_within(SOON, "its bound"), 1);
    first.signal("-CONT");
}
