//! The commands that use real sockets.

use crate::support;

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Place, free_port, is_self_contained, keys};

#[test]
fn all_three_ways_to_run_deliver_the_same_and_print_the_same_shape() {
    let place = Place::new();
    let run = |how: &[&str]| -> Value {
        let arguments = [&["run", "chain/ten", "--set", "nodes=5"], how].concat();
        let (ran, document) = place.json(&arguments);
        assert_eq!(ran.status, 0, "{how:?}: {}", ran.stderr);
        document
    };
    let simulated = run(&["--on", "sim"]);
    for how in [&["--on", "sockets"][..], &["--on", "sockets", "--processes"]] {
        let real = run(how);
        assert_eq!(real["deliveries"], simulated["deliveries"], "{how:?}");
        assert_eq!(keys(&real), keys(&simulated), "{how:?}");
        let metrics = |value: &Value| {
            let names =
                value["metrics"].as_array().unwrap().iter().map(|m| m["metric"].to_string());
            // Counters differ: each world has its own.
            names.take_while(|name| name != "\"ended\"").collect::<Vec<_>>()
        };
        assert_eq!(metrics(&real), metrics(&simulated), "{how:?}");
    }
}

#[test]
fn processes_of_a_group_that_leave_crash_and_come_back_lose_nothing() {
    let place = Place::new();
    // Two go, one by itself and one by a signal, and come back as processes of their own.
    let (leaves, crashes) = ("at = \"1500ms\"\nkind = \"leave\"", "at = \"3s\"\nkind = \"crash\"");
    let text = format!(
        "name = \"group/comings\"\nduration = \"6s\"\n[topology]\nnodes = 4\n\
         [protocol]\nkind = \"group\"\n\
         [workload]\nsenders = \"all\"\nsize = \"1KB\"\nrate = \"100/s\"\nstart = \"1s\"\n\
         [[faults]]\n{leaves}\nnode = 1\nfor = \"500ms\"\n\
         [[faults]]\n{crashes}\nnode = 0\nfor = \"500ms\"\n\
         [measure]\nfigures = \"stall\"\n"
    );
    place.write("comings.toml", &text);
    let (ran, document) = place.json(&["run", "comings.toml", "--on", "sockets", "--processes"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let metric = |name: &str| {
        let all = document["metrics"].as_array().unwrap();
        all.iter().find(|m| m["metric"] == name).map_or(f64::NAN, |m| m["value"].as_f64().unwrap())
    };
    assert_eq!(metric("messages_damaged"), 0.0);
    // Founded, joined, left, joined, and one incarnation in the place of another.
    assert!(metric("views") >= 5.0, "{document}");
    let lost = document["figures"].as_array().unwrap();
    let lost = lost.iter().find(|figure| figure["id"] == "group/comings/lost").unwrap();
    assert_eq!(lost["measured"], 0.0);
}

#[test]
fn lines_of_one_member_are_printed_by_all() {
    let first = format!("127.0.0.1:{}", free_port());
    let member = |id: usize| {
        let how = if id == 0 { ["--bootstrap", "--bind"] } else { ["--group=main", "--peer"] };
        let mut child = Command::new(env!("CARGO_BIN_EXE_paceline"))
            .args(["broadcast", "--members", "3", "--count", "6", "--id", &id.to_string()])
            .args(how)
            .arg(&first)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "first of {id}\nsecond of {id}").unwrap();
        child
    };
    let members: Vec<_> = (0..3).map(member).collect();
    for child in members {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(said.contains("view v"), "{said}");
        let text = String::from_utf8(output.stdout).unwrap();
        for id in 0..3 {
            let of_one: Vec<_> =
                text.lines().filter(|l| l.starts_with(&format!("{id}: "))).collect();
            assert_eq!(of_one, [format!("{id}: first of {id}"), format!("{id}: second of {id}")]);
        }
    }
}

#[test]
fn up_starts_what_is_missing_and_down_ends_it_all_however_often_they_run() {
    let place = Place::new();
    let state = tempfile::tempdir().unwrap();
    let state = state.path().join("state").display().to_string();
    let port = free_port().to_string();
    let up = |n: &str| -> Vec<(u64, String)> {
        let (ran, json) = place.json(&["up", "-n", n, "--port", &port, "--state", &state]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        let of =
            |p: &Value| (p["pid"].as_u64().unwrap(), p["address"].as_str().unwrap().to_owned());
        json.as_array().unwrap().iter().map(of).collect()
    };
    let two = up("2");
    assert_eq!(two.len(), 2);
    assert_eq!(up("2"), two, "they run already");
    let three = up("3");
    assert_eq!(three[..2], two[..]);
    let killed = Command::new("kill").args(["-KILL", &three[0].0.to_string()]).status();
    assert!(killed.unwrap().success());
    std::thread::sleep(std::time::Duration::from_millis(100));
    let again = up("3");
    assert!(again.contains(&three[1]) && again.contains(&three[2]) && again.len() == 3);

    let mut guest = Command::new(env!("CARGO_BIN_EXE_paceline"))
        .args(["broadcast", "--members", "4", "--count", "1", "--id", "9", "--peer"])
        .arg(&three[1].1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(guest.stdin.take().unwrap(), "hello").unwrap();
    let said = guest.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(said.stdout).unwrap(), "9: hello\n");

    for ended in [3, 0] {
        let (ran, json) = place.json(&["down", "--state", &state]);
        assert_eq!((ran.status, json.as_array().unwrap().len()), (0, ended), "{}", ran.stderr);
    }
}

#[test]
fn a_port_in_use_and_peers_that_lead_nowhere_are_input_errors() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let said = place.error(&["node", "--bootstrap", "--bind", &address.to_string()], 2);
    assert!(said.contains(&format!("port {} of 127.0.0.1 is in use", address.port())), "{said}");

    let said = place.error(&["broadcast"], 2);
    assert!(said.contains("--peer HOST:PORT"), "{said}");
    let said = place.error(&["broadcast", "--peer", "no-such-host.invalid:1"], 2);
    assert!(said.contains("no-such-host.invalid:1"), "{said}");
    let nowhere = format!("127.0.0.1:{}", free_port());
    let said = place.error(&["node", "--peer", &nowhere, "--join-within", "0.5"], 2);
    assert!(said.contains(&nowhere) && said.contains("is one running"), "{said}");

    let said = place.error(&["node", "--bootstrap", "--bind", "0.0.0.0:0"], 2);
    assert!(said.contains("--insecure-plaintext"), "{said}");
}

#[test]
fn a_bench_prints_the_machine_and_a_row() {
    let (ran, json) =
        Place::new().json(&["bench", "broadcast", "--nodes", "3", "--seconds", "0.5"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(json["machine"]["cores"].as_u64().unwrap() > 0);
    let row = &json["results"][0];
    assert!(row["mb_per_node_per_s"].as_f64().unwrap() > 0.0, "{row}");
    for key in [
        "nodes",
        "rate_mbit",
        "senders",
        "topology",
        "limit_mb_per_node_per_s",
        "p50_ms",
        "p99_ms",
        "cpu_s_per_gb",
        "fairness",
    ] {
        assert!(row.get(key).is_some(), "{key} is missing in {row}");
    }
}

#[test]
fn the_tour_checks_every_delivery_and_leaves_a_report() {
    let place = Place::new();
    let (ran, json) = place.json(&["tour"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(json["sockets"].as_array().unwrap().len(), 8);
    let wrong = |row: &Value| row["messages_missing"] != 0 || row["messages_damaged"] != 0;
    assert!(!json["sockets"].as_array().unwrap().iter().any(wrong), "{json}");
    // What people see beside the document is the summary, which fits a screen.
    let summary: Vec<&str> = ran.stderr.lines().collect();
    assert!(summary.len() <= 24, "{}", ran.stderr);
    assert!(summary.iter().all(|line| line.chars().count() <= 80), "{}", ran.stderr);
    let said = |text: &str| summary.iter().any(|line| line.contains(text));
    assert!(said("0 missing, 0 damaged") && said("Every check passed") && said("report.html"));
    let of = |name: &str| json["tally"][name].as_u64().unwrap();
    let all = json["results"].as_array().unwrap().len() as u64;
    let parts = ["reproduced", "differ", "beside", "checked", "failed", "shown"];
    assert_eq!(parts.into_iter().map(of).sum::<u64>(), all);
    let report = place.path().join(json["report"].as_str().unwrap());
    let html = std::fs::read_to_string(report).unwrap();
    assert!(html.contains("<svg") && is_self_contained(&html), "the report is not whole");
}
