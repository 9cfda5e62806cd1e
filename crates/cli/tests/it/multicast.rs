//! `paceline multicast` and `paceline bench multicast` on loopback.

use crate::support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;
use support::{Place, free_port};

/// A receiver that ends with the test. What it prints is read while it runs: it waits for that.
struct Receiver {
    child: Child,
    printed: Option<JoinHandle<Vec<String>>>,
}

impl Receiver {
    fn start(mut command: Command) -> Receiver {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let printed = std::thread::spawn(|| stdout.lines().map(Result::unwrap).collect());
        Receiver { child, printed: Some(printed) }
    }

    /// Waits for its end and gives what it printed.
    fn lines(&mut self) -> Vec<Value> {
        let lines = self.printed.take().unwrap().join().unwrap();
        assert!(self.child.wait().unwrap().success());
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn lines_that_are_sent_are_received_by_all_others() {
    let place = Place::new();
    let address = format!("127.0.0.1:{}", free_port());
    let receive = |arguments: &[&str]| {
        let receive = ["multicast", "recv", "--count", "3", "--json"];
        Receiver::start(place.command(&[&receive[..], arguments].concat()))
    };
    let mut first = receive(&["--bootstrap", "--bind", &address, "--id", "1"]);
    let mut second = receive(&["--peer", &address, "--id", "2"]);
    let send = ["multicast", "send", "--peer", &address, "--id", "3", "--members", "3"];
    let mut command = place.command(&send);
    let mut sender = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    sender.stdin.take().unwrap().write_all(b"one\ntwo\nthree\n").unwrap();
    let said = sender.wait_with_output().unwrap();
    let said = (said.status.success(), String::from_utf8(said.stderr).unwrap());
    assert!(said.0 && said.1.contains("3 messages sent"), "{}", said.1);
    for lines in [first.lines(), second.lines()] {
        let texts = lines.iter().filter(|line| line["sender"] == 3);
        let texts: Vec<&str> = texts.filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(texts, ["one", "two", "three"], "{lines:?}");
        assert_eq!(lines.last().unwrap()["lost"], 0);
    }
}

#[test]
fn files_are_sent_as_messages_and_one_that_is_too_long_is_refused_with_the_bound() {
    let place = Place::new();
    let address = format!("127.0.0.1:{}", free_port());
    let receive = ["multicast", "recv", "--count", "2", "--json", "--bootstrap", "--bind"];
    let mut receiver =
        Receiver::start(place.command(&[&receive[..], &[&address, "--id", "1"]].concat()));
    let text = "a line\n".repeat(30_000);
    place.write("long.txt", &text);
    place.write("too-long", &".".repeat((1 << 20) + 1));
    let send = |file: &str| {
        let send = ["multicast", "send", "--peer", &address, "--file", file, "--file", "long.txt"];
        place.command(&send).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap()
    };
    let said = send("too-long");
    let said = (said.status.success(), String::from_utf8(said.stderr).unwrap());
    let wrong = "message of 1048577 bytes, at most 1048576 are allowed";
    assert!(!said.0 && said.1.contains(wrong), "{}", said.1);
    assert!(send("long.txt").status.success());
    let lines = receiver.lines();
    let whole = lines.iter().filter(|line| line["text"] == text.as_str());
    assert_eq!(whole.filter(|line| line["packets"].as_u64() > Some(100)).count(), 2);

    let receive = ["multicast", "recv", "--count", "2", "--json", "--save", "came", "--bootstrap"];
    let mut receiver = Receiver::start(
        place.command(&[&receive[..], &["--bind", &address, "--id", "2"]].concat()),
    );
    assert!(send("long.txt").status.success());
    let lines = receiver.lines();
    let files: Vec<&str> = lines.iter().filter_map(|line| line["file"].as_str()).collect();
    assert_eq!(files.len(), 2, "{lines:?}");
    for file in files {
        assert_eq!(std::fs::read_to_string(place.path().join(file)).unwrap(), text, "{file}");
    }
}

#[test]
fn the_tuner_says_what_it_takes_and_what_no_setting_can() {
    let place = Place::new();
    let target = ["multicast", "tune", "--within", "10ms", "--recover", "95%"];
    let (ran, chosen) = place.json(&[&target[..], &["--overhead", "30%"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(chosen["is_within_reach"], true);
    assert!(chosen["recovered_in_time"].as_f64().unwrap() >= 0.95, "{chosen}");
    assert!(chosen["overhead"].as_f64().unwrap() <= 0.3, "{chosen}");
    let (ran, chosen) = place.json(&[&target[..], &["--expect-rate", "100/s"]].concat());
    assert_eq!((ran.status, &chosen["is_within_reach"]), (1, &Value::Bool(false)));
    assert!(ran.stderr.contains("cannot be met"), "{}", ran.stderr);
    let message = place.error(&["multicast", "tune", "--recover", "0.9"], 2);
    assert!(message.contains("--within"), "{message}");
    let message = place.error(&[&target[..], &["--overhead", "1%"]].concat(), 2);
    assert!(message.contains("the lowest is 0.059"), "{message}");
    let messages = [
        "multicast",
        "tune",
        "--message",
        "1MiB",
        "--within",
        "200ms",
        "--recover",
        "99.9%",
        "--expect-bytes",
        "1338B",
        "--expect-rate",
    ];
    let (ran, chosen) = place.json(&[&messages[..], &["9000/s"]].concat());
    assert_eq!((ran.status, &chosen["code"]), (0, &Value::from("rlc")), "{}", ran.stderr);
    assert!(chosen["whole_in_time"].as_f64().unwrap() >= 0.999, "{chosen}");
    let message = place.error(&[&messages[..], &["3000/s"]].concat(), 2);
    assert!(message.contains("the 784 packets of a message take"), "{message}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_sent() {
    let place = Place::new();
    let refused = |arguments: &[&str], why: &str| {
        let send = ["multicast", "send", "--bootstrap"];
        let message = place.error(&[&send[..], arguments].concat(), 2);
        assert!(message.contains(why), "{arguments:?}: {message}");
    };
    refused(&["--rate-of-fire", "8"], "such as 8,3");
    refused(&["--rate-of-fire", "0,3"], "1 to 32");
    refused(&["--rate-of-fire", "8,3", "--within", "10ms"], "cannot be used with");
    refused(&["--within", "10ms", "--recover", "1.0"], "below 100 %");
    refused(&["--code", "rlc", "--window", "1"], "at least 2");
    refused(&["--rate", "0/s"], "sends no messages");
    refused(&["--file", "no-such-file"], "--file no-such-file: ");
    refused(&["--lost-after", "100ms"], "at least the deadline");
    refused(&["--datagram", "100"], "200");
}

#[test]
fn the_bench_measures_what_comes_back_and_books_every_packet() {
    let place = Place::new();
    let bench = ["bench", "multicast", "--members", "4", "--rate", "400/s", "--loss", "5%"];
    let settings = ["--seconds", "2s", "--setting", "xor,4,2,ask", "--setting", "rlc16,4,2"];
    let (ran, document) = place.json(&[&bench[..], &settings].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let rows = document["results"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap();
        // 5 % of 800 packets at three receivers each.
        assert!((60.0..200.0).contains(&number("lost")), "{row}");
        assert!(number("recovered") > 0.5, "{row}");
        assert_eq!((number("untold"), number("corrupt")), (0.0, 0.0), "{row}");
        assert!(number("receive_buffer_bytes") > 0.0, "{row}");
    }
    let message = place.error(&["bench", "multicast", "--setting", "xor"], 2);
    assert!(message.contains("rlc32,8,2,ask"), "{message}");
}
