//! `paceline run` and `report`: documents, folders, exit statuses.

use crate::support;

use support::{Place, is_self_contained, keys};

const RUN_KEYS: [&str; 10] = [
    "deliveries",
    "digest",
    "events",
    "figures",
    "folder",
    "metrics",
    "scenario",
    "seed",
    "wall_s",
    "world",
];

#[test]
fn a_run_prints_one_document_and_leaves_a_folder_with_a_report() {
    let place = Place::new();
    let (ran, document) = place.json(&["run", "chain/six", "--seed", "7"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(keys(&document), RUN_KEYS);
    assert_eq!(document["scenario"], "chain/six");
    assert_eq!((&document["world"], &document["seed"]), (&"sim".into(), &7.into()));
    assert_eq!(document["digest"].as_str().unwrap().len(), 32);
    assert_eq!(keys(&document["metrics"][0]), ["metric", "unit", "value"]);
    assert_eq!(document["figures"][0]["id"], "chain/transmissions/n6");
    assert_eq!(document["folder"], "runs/chain-six-7-1");
    let report = place.path().join("runs/chain-six-7-1/report.html");
    assert!(is_self_contained(&std::fs::read_to_string(&report).unwrap()));
    assert!(ran.stderr.contains("messages_delivered"), "tables go to standard error");

    std::fs::remove_file(&report).unwrap();
    let (ran, document) = place.json(&["report"]);
    assert_eq!(ran.status, 0);
    assert_eq!(document["report"], "runs/chain-six-7-1/report.html");
    assert!(report.is_file());
}

#[test]
fn settings_and_the_wire_check_are_heard() {
    let place = Place::new();
    let sets = ["--set", "nodes=5", "--set", "blocks=3", "--set", "topology=chain"];
    let (_, typed) = place.json(&[&["run", "chain/rounds"], &sets[..]].concat());
    assert_eq!(typed["figures"][0]["id"], "chain/rounds/chain/x3-n5");
    assert_eq!(typed["figures"][0]["measured"], 6.0);
    let (_, wire) = place.json(&[&["run", "chain/rounds", "--check-wire"], &sets[..]].concat());
    let (_, set) =
        place.json(&[&["run", "chain/rounds", "--set", "check_wire=true"], &sets[..]].concat());
    assert_eq!(typed["digest"], wire["digest"]);
    assert_eq!(typed["digest"], set["digest"]);
}

#[test]
fn bad_input_is_status_2_and_says_where() {
    let place = Place::new();
    place.write("bad.toml", "[topology]\nnodez = 4\n\n[protocol]\nkind = \"chain\"\n");
    let said = place.error(&["run", "bad.toml"], 2);
    assert!(said.starts_with("error: bad.toml:2:1: unknown key `nodez`"), "{said}");
    assert!(said.contains("did you mean `nodes`?"), "{said}");
    let said = place.error(&["run", "chain/ten", "--set", "rate=5ms"], 2);
    assert!(said.contains("unknown unit `ms`"), "{said}");
    assert!(place.error(&["run", "missing.toml"], 2).contains("missing.toml"));
    assert!(place.error(&["run", "chain/tne"], 2).contains("did you mean"));
    assert!(place.error(&["rnu"], 2).contains("unrecognized subcommand"));
    assert!(place.error(&["run", "chain/ten", "--sead", "1"], 2).contains("--seed"));
    assert!(place.error(&["--log", "no=such=filter", "list"], 2).contains("--log"));
    place.error(&["report"], 2);
    place.error(&["report", "nowhere"], 2);
    place.error(&["reproduce", "chian"], 2);
    assert!(!place.path().join("runs").exists(), "nothing ran");
}

#[test]
fn a_taken_folder_is_status_2_and_left_as_it_is() {
    let place = Place::new();
    std::fs::create_dir(place.path().join("mine")).unwrap();
    place.write("mine/file", "mine");
    let said = place.error(&["run", "chain/six", "--out", "mine"], 2);
    assert!(said.contains("mine already exists"), "{said}");
    assert_eq!(std::fs::read_dir(place.path().join("mine")).unwrap().count(), 1);
}

#[test]
fn a_figure_out_of_band_or_a_missing_message_is_status_1() {
    let place = Place::new();
    // A queue of 1 Mbit/s is still full when the run ends.
    let (ran, document) = place.json(&["run", "chain/ten", "--set", "rate=1Mbit"]);
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    let metrics = document["metrics"].as_array().unwrap();
    let missing = metrics.iter().find(|metric| metric["metric"] == "messages_missing").unwrap();
    assert!(missing["value"].as_f64().unwrap() > 0.0);
    // The pipe has no time to fill.
    let sets = ["--set", "duration=3ms", "--set", "measure.warmup=0s"];
    let (ran, document) = place.json(&[&["run", "chain/throughput"], &sets[..]].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert_eq!(document["figures"][0]["pass"], false);
}

#[test]
fn a_trace_shows_the_five_hops_of_a_message() {
    let place = Place::new();
    let (ran, _) = place.json(&["run", "chain/six", "--trace", "six.csv"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let trace = std::fs::read_to_string(place.path().join("six.csv")).unwrap();
    assert!(trace.starts_with("time_ns,node,what,peer,detail\n"));
    let hops =
        trace.lines().filter(|line| line.contains(",send-stream,") && line.contains("data v0"));
    let hops: Vec<_> =
        hops.map(|line| line.split(',').skip(1).take(3).collect::<Vec<_>>()).collect();
    let path: Vec<_> = hops.iter().map(|hop| (hop[0], hop[2])).collect();
    assert_eq!(path, [("3", "4"), ("4", "5"), ("5", "0"), ("0", "1"), ("1", "2")]);
}

#[test]
fn what_only_the_simulator_can_count_is_refused_on_sockets() {
    let place = Place::new();
    for scenario in ["chain/six", "chain/rounds", "chain/gain"] {
        let said = place.error(&["run", scenario, "--on", "sockets"], 2);
        assert!(said.contains("use --on sim"), "{said}");
    }
    assert!(!place.path().join("runs").exists());
    // Loopback is not judged by the limit of a link that it does not have.
    let short = ["--set", "duration=300ms"];
    let (ran, document) =
        place.json(&[&["run", "chain/throughput", "--on", "sockets"], &short[..]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let figure = &document["figures"][0];
    assert!(figure["low"].is_null() && figure["high"].is_null() && figure["paper"].is_null());
    assert!(figure["measured"].as_f64().unwrap() > 0.0, "{figure}");
}

#[test]
fn what_was_not_measured_is_not_printed_as_zero() {
    let place = Place::new();
    let run = ["run", "chain/ten", "--on", "sockets", "--processes", "--set", "content=zeros"];
    let (ran, document) = place.json(&run);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let metrics = document["metrics"].as_array().unwrap();
    let p50 = metrics.iter().find(|metric| metric["metric"] == "latency_p50").unwrap();
    assert!(p50["value"].is_null(), "{p50}");
    let line = ran.stderr.lines().find(|line| line.starts_with("latency_p50")).unwrap();
    assert!(line.ends_with("not measured"), "{line}");
}
