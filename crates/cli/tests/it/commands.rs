//! The other commands: the shapes of their documents, and the files that they leave.

use crate::support;

use std::io::Read;
use std::process::Stdio;

use serde_json::Value;
use support::{Place, is_self_contained, keys};

#[test]
fn reproduce_prints_the_published_shape_and_writes_a_report() {
    let place = Place::new();
    let (ran, document) = place.json(&["reproduce", "chain", "--quick", "--out", "figures"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(keys(&document), ["results"]);
    let results = document["results"].as_array().unwrap();
    assert_eq!(results.len(), 41);
    let row = [
        "digest", "events", "high", "id", "low", "measured", "note", "paper", "pass", "scenario",
        "seed", "unit",
    ];
    assert!(results.iter().all(|result| keys(result) == row && result["pass"] == true));
    let html = std::fs::read_to_string(place.path().join("figures/report.html")).unwrap();
    assert!(is_self_contained(&html) && html.contains("<svg") && html.contains("C N / (N - 1)"));
}

#[test]
fn reproduce_fails_if_a_figure_does() {
    let place = Place::new();
    let sets = ["--set", "duration=3ms", "--set", "measure.warmup=0s"];
    let (ran, document) = place.json(&[&["reproduce", "chain", "--quick"], &sets[..]].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let results = document["results"].as_array().unwrap();
    assert!(results.iter().any(|result| result["pass"] == false));
}

#[test]
fn a_sweep_resumes_merges_and_reports() {
    let place = Place::new();
    place.write(
        "s.toml",
        "duration = \"200ms\"\n[topology]\nnodes = 4\nrate = \"1Gbit\"\n\
         [protocol]\nkind = \"chain\"\n\
         [measure]\nfigures = \"throughput\"\nwarmup = \"5ms\"\n\
         [sweep]\nseeds = 2\n\"topology.nodes\" = [2, 4]\n\
         \"protocol.topology\" = [\"chain\", \"tree\"]\n",
    );
    for shard in ["1", "2"] {
        let (part, out) = (format!("{shard}/2"), format!("part-{shard}"));
        let (ran, _) = place.json(&["sweep", "s.toml", "--shard", &part, "--out", &out]);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    }
    let merge = ["sweep", "s.toml", "--merge", "part-1", "part-2", "--out", "all"];
    let (ran, merged) = place.json(&merge);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(merged["cells"], 8);
    assert_eq!(merged["results"].as_array().unwrap().len(), 8);
    let (_, whole) = place.json(&["sweep", "s.toml", "--threads", "2", "--out", "whole"]);
    let digests = |document: &serde_json::Value| -> Vec<String> {
        let cells = document["results"].as_array().unwrap();
        cells.iter().map(|cell| cell["digest"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(digests(&merged), digests(&whole));
    let (_, again) = place.json(&["sweep", "s.toml", "--out", "whole"]);
    assert_eq!(again["resumed"], 8);
    let html = |path: &str| std::fs::read_to_string(place.path().join(path)).unwrap();
    assert!(
        is_self_contained(&html("all/report.html")) && html("all/report.html").contains("<svg")
    );
    std::fs::remove_file(place.path().join("all/report.html")).unwrap();
    assert_eq!(place.run(&["report", "all"]).status, 0);
    assert!(html("all/report.html").contains("tree"));
}

#[test]
fn bench_simulator_measures_chain_and_queue() {
    let place = Place::new();
    let (ran, document) = place.json(&["bench", "simulator", "--nodes-max", "1000"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(keys(&document), ["machine", "results"]);
    assert!(document["machine"]["cores"].as_u64().unwrap() >= 1);
    let rows = document["results"].as_array().unwrap();
    let whats: Vec<&str> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["chain", "hold", "hold-binary-heap"]);
    for row in rows {
        for key in ["nodes", "pending", "ns_per_event", "bytes_per_node"] {
            assert!(row.get(key).is_some(), "{row}");
        }
        assert!(row["ns_per_event"].as_f64().unwrap() > 0.0);
    }
    assert!(rows[0]["bytes_per_node"].as_f64().unwrap() <= 64.0, "{}", rows[0]);
}

#[test]
fn bench_hosts_measures_them_at_rest_and_kills_one() {
    let place = Place::new();
    let settings = ["--hosts", "3", "--groups", "4", "--tables", "1", "--rest", "1s"];
    let (ran, document) = place.json(&[&["bench", "hosts"], &settings[..]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let steps = document["at_rest"].as_array().unwrap();
    let groups: Vec<_> = steps.iter().map(|step| step["groups"].as_u64().unwrap()).collect();
    assert_eq!(groups, [1, 4]);
    for step in steps {
        // A probe in 180 ms, and the answer to another one.
        let datagrams = step["detector_datagrams_per_s"].as_f64().unwrap();
        assert!((5.0..20.0).contains(&datagrams), "{step}");
    }
    assert_eq!(document["not_agreed"], 0);
    assert!(document["agreed_s"].as_f64().unwrap() < 30.0, "{document}");
    let refused = place.error(&["bench", "hosts", "--hosts", "2"], 2);
    assert!(refused.contains("3..=64"), "{refused}");
}

/// The group, the multicast and the walks always have something to send. The table has some writes
/// under way, and waits for their replies. What it leaves is the others' by weight.
#[test]
fn bench_link_gives_services_their_weights() {
    const TABLE: usize = 2;
    let shares_of = |weights: &'static str| {
        let place = Place::new();
        let settings = ["--rate", "4Mbit", "--weights", weights, "--seconds", "6s"];
        let (ran, document) = place.json(&[&["bench", "link"], &settings[..]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        // On a machine that others use timers are late, and what they miss is not made up for.
        assert!(document["of_link"].as_f64().unwrap() > 0.5, "not saturated: {document}");
        assert_eq!(document["beside"].as_array().unwrap().len(), 2, "{document}");
        assert!(document["beside"][1]["p99_ms"].as_f64().unwrap() > 0.0, "{document}");
        let shares = document["shares"].as_array().unwrap().clone();
        assert_eq!(shares.len(), 4, "{document}");
        let number = |share: &Value, key: &str| share[key].as_f64().unwrap();
        let table = number(&shares[TABLE], "of_weight");
        assert!((0.3..1.1).contains(&table), "{weights}: {shares:?}");
        let left = (1.0 - number(&shares[TABLE], "share"))
            / (1.0 - number(&shares[TABLE], "share") / table);
        for (at, share) in shares.iter().enumerate().filter(|(at, _)| *at != TABLE) {
            let of_left = number(share, "of_weight") / left;
            assert!((0.9..1.1).contains(&of_left), "{weights}, {at}: {shares:?}");
        }
    };
    std::thread::scope(|scope| {
        for weights in ["1,1,1,1", "1,2,3,4", "4,3,2,1"] {
            scope.spawn(move || shares_of(weights));
        }
    });
    let place = Place::new();
    let refused = place.error(&["bench", "link", "--weights", "1,2"], 2);
    assert!(refused.contains("four numbers from 1 to 100"), "{refused}");
}

/// The error of a bench beside a peer, without Java, and with this jar as the peer's driver.
fn error_beside_peer(
    place: &Place,
    arguments: &[&str],
    variable: &str,
    jar: Option<&str>,
) -> String {
    let mut command = place.command(&[&["bench"], arguments].concat());
    command.env_remove(variable).env("JAVA_HOME", place.path());
    command.envs(jar.map(|jar| (variable, jar)));
    let output = command.output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    stderr
}

#[test]
fn a_bench_beside_a_peer_that_is_not_installed_names_what_to_do() {
    let place = Place::new();
    place.write("a.jar", "");
    for (bench, peer, name, variable) in [
        ("broadcast", "jgroups", "JGroups", "PACELINE_JGROUPS"),
        ("multicast", "aeron", "Aeron", "PACELINE_AERON"),
    ] {
        let error = |arguments: &[&str], jar: Option<&str>| {
            error_beside_peer(&place, &[&[bench], arguments].concat(), variable, jar)
        };
        let beside = ["--peer", peer];
        assert!(error(&beside, None).contains(&format!("cargo xtask peers {peer}")));
        let no_file = error(&beside, Some("no.jar"));
        assert!(no_file.contains(&format!("{variable}=no.jar: there is no such")), "{no_file}");
        assert!(error(&beside, Some("a.jar")).contains(&format!("{name} needs Java 17")));
        assert!(error(&["--peer", "other"], None).contains(peer));
        assert!(error(&["--pairs", "2"], None).contains("--peer"));
    }
}

#[test]
fn a_bench_beside_a_peer_refuses_what_cannot_be_compared() {
    let place = Place::new();
    let broadcast = |arguments: &[&str]| {
        let arguments = [&["broadcast", "--peer", "jgroups"], arguments].concat();
        error_beside_peer(&place, &arguments, "PACELINE_JGROUPS", None)
    };
    assert!(broadcast(&["--quiet", "1"]).contains("--quiet"));
    let multicast = |arguments: &[&str]| {
        let arguments = [&["multicast"], arguments].concat();
        error_beside_peer(&place, &arguments, "PACELINE_AERON", None)
    };
    assert!(multicast(&["--flow-control", "min"]).contains("--peer"));
    let settings = ["--setting", "xor,8,3", "--setting", "xor,8,5", "--peer", "aeron"];
    assert!(multicast(&settings).contains("one --setting"));
    let spacing = ["--peer", "aeron", "--set", "workload.spacing=phases"];
    assert!(multicast(&spacing).contains("senders take turns"));
}

#[test]
fn bench_coding_compares_every_kernel_with_copying() {
    let place = Place::new();
    let (ran, document) = place.json(&["bench", "coding", "--milliseconds", "1"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(keys(&document), ["machine", "results"]);
    let rows = document["results"].as_array().unwrap();
    for what in ["copy", "xor", "multiply-add", "encode", "decode"] {
        let mut of_that = rows.iter().filter(|row| row["what"] == what);
        let row = of_that.find(|row| row["packet_bytes"] == 1024).expect(what);
        assert!(row["of_copy"].as_f64().unwrap() > 0.0, "{row}");
        let is_of_a_code = what.ends_with("code");
        assert_eq!(row["packets_per_s"].is_f64(), is_of_a_code, "{row}");
    }
}

#[test]
fn bench_slingshot_measures_growing_groups_and_more_of_them() {
    let place = Place::new();
    let args = ["bench", "slingshot", "--most", "16", "--packets", "10000"];
    let (ran, document) = place.json(&args);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(keys(&document), ["machine", "results"]);
    let rows = document["results"].as_array().unwrap();
    let sizes: Vec<_> =
        rows.iter().map(|row| (row["members"].as_u64(), row["groups"].as_u64())).collect();
    assert_eq!(sizes, [(16, 1), (64, 1), (64, 16)].map(|(n, g)| (Some(n), Some(g))));
    assert!(rows.iter().all(|row| row["ns_per_packet"].as_f64().unwrap() > 0.0), "{rows:?}");
}

#[test]
fn every_shell_gets_a_completion_script() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = place.run(&["completions", shell]);
        assert_eq!(ran.status, 0);
        assert!(ran.stdout.contains("reproduce"), "{shell}");
    }
}

#[test]
fn doctor_and_list_say_what_there_is() {
    let place = Place::new();
    let (ran, document) = place.json(&["doctor"]);
    let checks = document["checks"].as_array().unwrap();
    let row = ["advice", "found", "name", "needed_for", "required", "state"];
    assert!(checks.len() > 8 && checks.iter().all(|check| keys(check) == row));
    let lacks = checks.iter().any(|check| check["required"] == true && check["state"] != "ok");
    assert_eq!(ran.status, i32::from(lacks));
    let (_, document) = place.json(&["list"]);
    let scenarios = document["scenarios"].as_array().unwrap();
    assert!(scenarios.iter().any(|scenario| scenario["name"] == "chain/ten"));
    assert!(place.run(&["--version"]).stdout.starts_with("paceline "));
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let place = Place::new();
    let mut command = place.command(&["completions", "bash"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(said, "");
}

#[test]
fn bench_walk_holds_the_papers_order_and_says_what_does_not() {
    let place = Place::new();
    let small = ["bench", "walk", "--on", "sim", "--walks", "30"];
    let (ran, document) = place.json(&small);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let methods = document["results"][0]["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 7);
    let exact = methods.iter().find(|method| method["method"] == "mark-exact").unwrap();
    assert_eq!(exact["dropped"], 0.0);
    // Without congestion no method is better than another.
    let idle = ["bench", "walk", "--on", "sim", "--walks", "1", "--block", "10"];
    let (ran, document) = place.json(&idle);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let missed = document["results"][0]["missed"][0].as_str().unwrap();
    assert!(ran.stderr.contains(missed), "{}", ran.stderr);
    let refused = place.error(&["bench", "walk", "--hop", "5s"], 2);
    assert!(refused.contains("1us to 1s"), "{refused}");
}

#[test]
fn walks_between_processes_are_those_of_the_simulator() {
    let place = Place::new();
    let deliveries = |world: &[&str]| {
        let mut arguments = vec!["run", "walk/e1"];
        arguments.extend(["--set", "walks=10", "--set", "method=window", "--set", "service=0s"]);
        arguments.extend(["--set", "timeout_min=500ms"]);
        arguments.extend_from_slice(world);
        let (ran, document) = place.json(&arguments);
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        document["deliveries"].as_str().unwrap().to_owned()
    };
    assert_eq!(deliveries(&[]), deliveries(&["--on", "sockets", "--processes"]));
}

#[test]
fn a_wrong_setting_of_a_sweep_is_one_error_before_anything_runs() {
    let place = Place::new();
    // The warm-up is as long.
    let sweep = ["sweep", "chain/throughput", "--set", "duration=100ms", "--out", "wrong"];
    let said = place.error(&sweep, 2);
    assert_eq!(said.matches("error:").count(), 1, "{said}");
    assert!(said.lines().count() < 10, "{said}");
    assert!(!place.path().join("wrong").exists(), "the folder is free for the right settings");
}

#[test]
fn a_sweep_names_the_figures_that_are_out_of_band() {
    let place = Place::new();
    let sets = ["duration=3ms", "measure.warmup=0s", "sweep.topology.nodes=[2, 4]"];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let words: Vec<&str> = ["sweep", "chain/throughput"].into_iter().chain(sets).collect();
    let ran = place.run(&words);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("  chain/throughput/") && ran.stdout.contains("band "),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_report_of_a_reproduction_is_found() {
    let place = Place::new();
    place.json(&["reproduce", "chain", "--quick", "--out", "figures"]);
    let (ran, document) = place.json(&["report", "figures"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(document["report"], "figures/report.html");
}
