//! `paceline bench fetch` on loopback: the tests check the report, not the throughput.

use crate::support;

use serde_json::Value;
use support::Place;

const QUICK: [&str; 7] = ["bench", "fetch", "--seconds", "1s", "--settle", "200ms", "--case"];

fn phases(document: &Value) -> Vec<&str> {
    let phases = document["results"][0]["phases"].as_array().unwrap();
    phases.iter().map(|phase| phase["phase"].as_str().unwrap()).collect()
}

#[test]
fn two_consumers_meet_behind_one_link_and_both_files_come_whole() {
    let place = Place::new();
    let lenient = ["slingshot", "--second", "right", "--least", "0%", "--apart", "100%"];
    let (ran, document) = place.json(&[&QUICK[..], &lenient].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(phases(&document), ["alone", "shared", "after"]);
    let row = &document["results"][0];
    assert_eq!(row["missed"], Value::Array(Vec::new()));
    let shared = &row["phases"][1];
    assert_eq!(shared["links_mbit"], 15.0, "what the oracle says of links of 15, 12 and 9");
    let consumers = shared["consumers"].as_array().unwrap();
    let names: Vec<&str> = consumers.iter().filter_map(|one| one["consumer"].as_str()).collect();
    assert_eq!(names, ["C1", "C2"]);
    for consumer in consumers {
        assert!(consumer["mbit"].as_f64() > consumer["goodput_mbit"].as_f64(), "{consumer}");
    }
    assert!(shared["asked_mbit"].is_null(), "there is no shaped port");
    let files = row["files"].as_array().unwrap();
    assert!(files.len() == 2 && files.iter().all(|file| file["is_verified"] == true), "{row}");
    assert!(ran.stderr.contains("the digest matches"), "{}", ran.stderr);
}

#[test]
fn a_band_that_is_missed_is_said_and_is_a_failure() {
    let place = Place::new();
    // Flows are given 95 % of a link.
    let strict = ["single", "--single", "10Mbit", "--least", "100%"];
    let (ran, document) = place.json(&[&QUICK[..], &strict].concat());
    assert_eq!(ran.status, 1, "{}", ran.stderr);
    assert_eq!(phases(&document), ["alone"]);
    let missed = document["results"][0]["missed"][0].as_str().unwrap();
    assert!(missed.contains("below the minimum of 10.00"), "{missed}");
    assert!(ran.stderr.contains(missed), "{}", ran.stderr);
    let refused = place.error(&["bench", "fetch", "--seconds", "10ms"], 2);
    assert!(refused.contains("at least 1 second"), "{refused}");
}
