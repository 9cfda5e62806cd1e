//! Commands with `--key`: a sealed cluster, and what is refused.
#![cfg(unix)]

use crate::support;

use support::running::Running;
use support::{Place, free_ports};

/// The options of a command that asks a node.
fn at(port: u16) -> Vec<String> {
    ["--peer", &format!("127.0.0.1:{port}")].map(str::to_owned).to_vec()
}

fn run(place: &Place, words: &[&str], more: &[String]) -> support::Ran {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    place.run(&[words, &more].concat())
}

#[test]
fn nodes_with_one_key_are_a_cluster_and_commands_without_it_get_nothing() {
    let place = Place::new();
    assert_eq!(place.run(&["key", "new"]).status, 0);
    assert_eq!(place.run(&["key", "new", "-o", "other.key"]).status, 0);
    let first = free_ports(3);
    let text = "[host]\nkey = \"cluster.key\"\n[[group]]\nname = \"orders\"\n\
                [[dht]]\nname = \"stock\"\n";
    place.write("node.toml", text);
    let mut nodes = Vec::new();
    for port in first..first + 3 {
        let (bind, key) = (format!("127.0.0.1:{port}"), format!("{port}.key"));
        let own = ["node", "--config", "node.toml", "--bind", &bind, "--host-key", &key];
        let peer = format!("127.0.0.1:{first}");
        let beginning: &[&str] = if port == first { &["--bootstrap"] } else { &["--peer", &peer] };
        let node = Running::start(&place, &[&own, beginning].concat());
        node.says("listens on");
        nodes.push(node);
    }
    let table = [at(first), ["--group", "stock"].map(str::to_owned).to_vec()].concat();
    let put = run(&place, &["dht", "put", "apples", "17", "--key", "cluster.key"], &table);
    assert!(put.stdout.contains("stored on 3"), "{}{}", put.stdout, put.stderr);
    let got = run(&place, &["dht", "get", "apples", "--key", "cluster.key"], &table);
    assert_eq!(got.stdout.trim(), "17", "{}", got.stderr);
    for key in [&[][..], &["--key", "other.key"]] {
        let words = [&["dht", "get", "apples", "--join-within", "1s"], key].concat();
        let got = run(&place, &words, &table);
        assert!(got.status != 0 && got.stdout.is_empty(), "{}{}", got.stdout, got.stderr);
    }
    // The number of a host follows from its key.
    let asked = format!("127.0.0.1:{first}");
    let (_, status) = place.json(&["status", &asked, "--key", "cluster.key"]);
    let (_, key) = place.json(&["key", "show", &format!("{first}.key")]);
    assert_eq!(status["hosts"][0]["id"], key["id"], "{status} {key}");
    assert_eq!(status["hosts"][0]["protection"], "sealed");
    let said = place.error(&["status", &asked, "--within", "1s"], 1);
    assert!(said.contains(&asked), "{said}");
}

#[test]
fn an_address_beyond_loopback_without_a_key_is_refused_with_what_mends_it() {
    let place = Place::new();
    let said = place.error(&["broadcast", "--bootstrap", "--bind", "10.0.0.7:7001"], 2);
    assert!(said.contains("run `paceline key new`"), "{said}");
    assert!(said.contains("pass `--key cluster.key`"), "{said}");
    assert!(said.contains("--insecure-plaintext"), "{said}");
}

#[test]
fn options_and_files_that_do_not_fit_are_refused_by_name() {
    let place = Place::new();
    for words in [
        &["key", "new"][..],
        &["key", "new", "--ca"],
        &["key", "host"],
        &["key", "host", "-o", "other.key"],
        &["key", "sign", "host.pub", "--ca", "ca.key", "--role", "member"],
    ] {
        assert_eq!(place.run(words).status, 0, "{words:?}");
    }
    let error =
        |options: &[&str]| place.error(&[&["broadcast", "--bootstrap"][..], options].concat(), 2);
    let cases: [(&[&str], &str); 8] = [
        (&["--key", "none.key"], "none.key"),
        (&["--key", "host.key"], "this is a host key"),
        (&["--key", "ca.key"], "this is a CA key"),
        (&["--key", "host.crt"], "pass --host-key FILE as well"),
        (&["--key", "host.crt", "--host-key", "other.key"], "host.crt: "),
        (&["--host-key", "host.key"], "pass --key FILE as well"),
        (&["--key", "cluster.key", "--insecure-plaintext"], "leave out one of the two"),
        (&["--key", "cluster.key", "--id", "7"], "leave out `id`"),
    ];
    for (options, expected) in cases {
        let said = error(options);
        assert!(said.starts_with("error: ") && said.contains(expected), "{options:?}: {said}");
    }
}
