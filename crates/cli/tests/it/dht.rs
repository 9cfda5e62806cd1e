//! `paceline dht` against processes on loopback.

use crate::support;

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Place, free_ports};

/// A table of processes that ends with the test.
struct Table {
    place: Place,
    state: String,
    peer: String,
}

impl Table {
    fn new(hosts: u16) -> Table {
        let place = Place::new();
        let port = free_ports(hosts);
        let state = place.path().join("state").display().to_string();
        let table = Table { place, state, peer: format!("127.0.0.1:{port}") };
        let (hosts, port) = (hosts.to_string(), port.to_string());
        let arguments =
            ["up", "-n", &hosts, "--service", "dht", "--port", &port, "--state", &table.state];
        for _ in 0..2 {
            let ran = table.place.run(&arguments);
            assert_eq!(ran.status, 0, "{}", ran.stderr);
        }
        table
    }

    fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["dht"], arguments, &["--peer", &self.peer]].concat()
    }

    fn run(&self, arguments: &[&str], status: i32) -> (String, String) {
        let ran = self.place.run(&self.arguments(arguments));
        assert_eq!(ran.status, status, "{arguments:?}: {}{}", ran.stdout, ran.stderr);
        assert!(!ran.stderr.contains("a bug in Paceline"), "{}", ran.stderr);
        (ran.stdout, ran.stderr)
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        self.place.run(&["down", "--state", &self.state]);
    }
}

#[test]
fn a_value_is_written_if_its_version_is_the_expected_one_and_lives_as_long_as_asked() {
    let table = Table::new(3);
    let (said, _) = table.run(&["put", "leader", "a", "--if-absent"], 0);
    let version = said.trim().strip_prefix("stored on 3 hosts as ").expect("it names a version");
    let (_, said) = table.run(&["put", "leader", "b", "--if-absent"], 1);
    assert!(said.contains(&format!("the key has a value of version {version}")), "{said}");
    assert_eq!(table.run(&["get", "leader", "--with-version"], 0).0, format!("{version}\na"));
    let put = ["put", "leader", "c", "--if-version", version, "--lifetime", "2s", "--json"];
    let said: Value = serde_json::from_str(&table.run(&put, 0).0).unwrap();
    assert_eq!((&said["is_stored"], &said["copies"]), (&Value::from(true), &Value::from(3)));
    let said: Value = serde_json::from_str(&table.run(&put, 1).0).unwrap();
    assert_eq!((&said["key"], &said["is_stored"]), (&Value::from("leader"), &Value::from(false)));
    let (_, said) = table.run(&["put", "leader", "d", "--if-version", "3"], 2);
    assert!(said.contains("such as v3.17"), "{said}");
    table.run(&["put", "leader", "d", "--if-absent", "--if-version", version], 2);
    let (_, said) = table.run(&["put", "none", "e", "--if-version", version], 1);
    assert!(said.contains("the key has no value"), "{said}");
    table.place.write("brief.csv", "brief,1\n");
    table.run(&["load", "brief.csv", "--lifetime", "100ms"], 0);
    for key in ["leader", "brief"] {
        let is_there = || table.place.run(&table.arguments(&["get", key])).status == 0;
        let mut looks = 0..600;
        while is_there() {
            assert!(looks.next().is_some(), "{key} does not end");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    table.run(&["put", "leader", "d", "--if-absent"], 0);
}

#[test]
fn all_entries_are_printed_and_any_host_is_asked_for_its_state() {
    let table = Table::new(4);
    let (printed, said) = table.run(&["scan"], 0);
    assert!(printed.is_empty() && said.contains("0 entries"), "{printed}{said}");
    let lines: String = (0..300).map(|number| format!("k{number},\"v,{number}\"\n")).collect();
    table.place.write("many.csv", &lines);
    table.run(&["load", "many.csv"], 0);
    let (printed, said) = table.run(&["scan"], 0);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&printed), sorted(&lines));
    assert!(said.contains("300 entries"), "{said}");
    let (documents, _) = table.run(&["scan", "--json"], 0);
    let first: Value = serde_json::from_str(documents.lines().next().unwrap()).unwrap();
    assert!(first["key"].as_str().is_some_and(|key| key.starts_with('k')), "{first}");
    // What is printed can be loaded again.
    table.place.write("again.jsonl", &documents);
    assert!(table.run(&["load", "again.jsonl"], 0).0.starts_with("300 stored"));
    let half = format!("8{}", "0".repeat(39));
    let (part, _) = table.run(&["scan", "--from", &half], 0);
    assert!(printed.ends_with(&part) && part.len() < printed.len(), "{part}");
    let (_, said) = table.run(&["scan", "--from", "80"], 2);
    assert!(said.contains("40 hexadecimal digits"), "{said}");

    // Hosts drop what others hold in their place once tables are right.
    let mut looks = 0..600;
    let told = loop {
        let told: Value = serde_json::from_str(&table.run(&["stat", "--json"], 0).0).unwrap();
        let sum = |hosts: &Vec<Value>| hosts.iter().map(|it| it["values"].as_u64()).sum();
        if told.as_array().map(|hosts| (hosts.len(), sum(hosts))) == Some((4, Some(900))) {
            break told;
        }
        assert!(looks.next().is_some(), "{told}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let host = told[2]["host"].to_string();
    for name in [host.clone(), format!("n{host}")] {
        let one = table.run(&["stat", "--host", &name, "--json"], 0).0;
        let one: Value = serde_json::from_str(&one).unwrap();
        assert_eq!((&one[0]["host"], &one[0]["values"]), (&told[2]["host"], &told[2]["values"]));
    }
    assert!(table.run(&["stat", "--all"], 0).0.contains("removed"));
    assert!(table.run(&["stat", "--host", "1"], 1).1.contains("the table has no host 1"));
    assert!(table.run(&["stat", "--host", "x"], 2).1.contains("the number of a host"));
    table.run(&["stat", "--host", "1", "--all"], 2);
    let said = table.place.error(&["dht", "scan"], 2);
    assert!(said.contains("--peer HOST:PORT"), "{said}");
}

#[test]
fn entries_are_written_read_removed_and_loaded_and_each_has_an_outcome() {
    let table = Table::new(4);
    let (said, _) = table.run(&["put", "apples", "17"], 0);
    assert!(said.starts_with("stored on 3 hosts"), "{said}");
    assert_eq!(table.run(&["get", "apples"], 0).0, "17");
    table.run(&["remove", "apples"], 0);
    assert!(table.run(&["get", "apples"], 1).1.contains("there is no value for `apples`"));
    assert!(table.run(&["put", "", "x"], 2).1.contains("1 to 512"));

    let csv = "name,count\n\"a,b\",\"say \"\"x\"\"\"\nplain,1\n\n,no key\nplain,2\n";
    table.place.write("stock.csv", csv);
    let arguments = ["load", "stock.csv", "--header", "--outcomes", "out.csv"];
    let (said, _) = table.run(&arguments, 1);
    assert!(said.starts_with("2 stored, 2 failed"), "{said}");
    let outcomes = fs::read_to_string(table.place.path().join("out.csv")).unwrap();
    let lines: Vec<&str> = outcomes.lines().collect();
    assert_eq!(lines[..3], ["line,key,outcome,detail", "2,\"a,b\",stored,3", "3,plain,stored,3"]);
    assert!(lines[3].starts_with("5,,failed,") && lines[4].starts_with("6,plain,failed,"));
    assert!(lines[4].contains("appears twice"), "{outcomes}");
    assert!(!table.place.path().join("out.csv.progress").exists());

    table.place.write("keys", "plain\na,b\n");
    let (found, _) = table.run(&["get", "--keys-from", "keys"], 0);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["\"a,b\",\"say \"\"x\"\"\"", "plain,1"]);
    table.place.write("keys", "plain\nunknown\n");
    let (found, said) = table.run(&["get", "--keys-from", "keys", "--json"], 1);
    assert_eq!(found, "{\"key\":\"plain\",\"value\":\"1\"}\n");
    assert!(said.contains("unknown: nothing") && said.contains("1 found, 1 absent"), "{said}");
}

#[test]
fn recursive_bundles_and_payloads_to_keys_travel_from_the_shell() {
    let table = Table::new(4);
    let lines: String = (0..200).map(|number| format!("k{number},v{number}\n")).collect();
    table.place.write("entries.csv", &lines);
    let (said, _) = table.run(&["load", "entries.csv", "--style", "recursive"], 0);
    assert!(said.starts_with("200 stored, 0 failed"), "{said}");
    let keys: String = (0..200).map(|number| format!("k{number}\n")).collect();
    table.place.write("keys", &keys);
    for style in ["recursive", "iterative"] {
        let (found, _) = table.run(&["get", "--keys-from", "keys", "--style", style], 0);
        assert_eq!(found.lines().count(), 200, "{style}");
        let send = ["send", "stock is closed", "--keys-from", "keys", "--style", style];
        let (said, _) = table.run(&send, 0);
        assert_eq!(said, "delivered for 200 keys, 0 failed\n", "{style}");
    }
    assert!(table.run(&["send", "x", ""], 1).1.contains("1 to 512"));
}

#[test]
fn a_line_that_is_no_entry_is_named_what_was_before_it_is_kept_and_the_rest_follows() {
    let table = Table::new(3);
    table.place.write("bad.csv", "a,1\nb,2\nthird\nd,4\n");
    let said = table.run(&["load", "bad.csv", "--outcomes", "out"], 2).1;
    assert!(said.contains("bad.csv:3: one field: expected `key,value`"), "{said}");
    assert_eq!(table.run(&["get", "b"], 0).0, "2");
    assert!(table.run(&["get", "d"], 1).0.is_empty());
    // Mended behind what is done, it goes on from there.
    table.place.write("bad.csv", "a,1\nb,2\nthird,3\nd,4\n");
    let (ran, json) = table.place.json(&table.arguments(&["load", "bad.csv", "--outcomes", "out"]));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!((&json["resumed_after_lines"], &json["stored"]), (&2.into(), &4.into()));
    let outcomes = fs::read_to_string(table.place.path().join("out")).unwrap();
    let expected = "line,key,outcome,detail\n1,a,stored,3\n2,b,stored,3\n3,third,stored,3\n\
                    4,d,stored,3\n";
    assert_eq!(outcomes, expected);

    table.place.write("bad.jsonl", "{\"key\":\"x\",\"value\":\"9\"}\n{\"key\":\"y\"}\n");
    let said = table.run(&["load", "bad.jsonl"], 2).1;
    assert!(said.contains("bad.jsonl:2: missing field `value`: expected {\"key\""), "{said}");
    assert_eq!(table.run(&["get", "x"], 0).0, "9");
    assert!(table.run(&["load", "no-such-file"], 2).1.contains("no-such-file"));
}

#[test]
fn a_load_that_is_killed_goes_on_where_it_was() {
    const COUNT: usize = 30_000;
    let table = Table::new(3);
    let text: String = (0..COUNT).map(|number| format!("key {number},value {number}\n")).collect();
    table.place.write("big.csv", &text);
    let load = ["load", "big.csv", "--outcomes", "out", "--bundle", "1", "--in-flight", "4"];
    let mut child = table
        .place
        .command(&table.arguments(&load))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let journal = table.place.path().join("out.progress");
    let lines = || {
        let text = fs::read(&journal).unwrap_or_default();
        let json: Value = serde_json::from_slice(&text).unwrap_or_default();
        json["lines"].as_u64().unwrap_or(0)
    };
    while lines() == 0 {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill").args(["-KILL", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    child.wait().unwrap();
    let before = lines();

    let load = ["load", "big.csv", "--outcomes", "out"];
    let (ran, json) = table.place.json(&table.arguments(&load));
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert_eq!(json["resumed_after_lines"], before);
    assert_eq!((&json["stored"], &json["failed"]), (&COUNT.into(), &0.into()));
    let outcomes = fs::read_to_string(table.place.path().join("out")).unwrap();
    let numbers = outcomes.lines().skip(1).map(|line| line.split(',').next().unwrap());
    assert!(numbers.eq((1..=COUNT).map(|number| number.to_string())), "one outcome a line");
    assert!(!journal.exists());

    let keys: String = (0..COUNT).map(|number| format!("key {number}\n")).collect();
    table.place.write("keys", &keys);
    let (found, _) = table.run(&["get", "--keys-from", "keys"], 0);
    let mut found: Vec<&str> = found.lines().collect();
    let mut written: Vec<&str> = text.lines().collect();
    found.sort_unstable();
    written.sort_unstable();
    assert_eq!(found, written);
}

#[cfg(unix)]
#[test]
fn outcomes_and_dumps_are_not_written_through_a_symbolic_link() {
    let place = Place::new();
    place.write("victim", "precious");
    place.write("few.csv", "a,1\n");
    std::os::unix::fs::symlink("victim", place.path().join("out.csv")).unwrap();
    let load = ["dht", "load", "few.csv", "--outcomes", "out.csv", "--peer", "127.0.0.1:1"];
    let said = place.error(&load, 1);
    assert!(said.contains("out.csv") && said.contains("symbolic link"), "{said}");
    // The name under which a dump is written first.
    let host = ["node", "--service", "dht", "--bootstrap", "--durable", "host.redb", "--stat", "s"];
    let mut host = place.command(&host).stderr(Stdio::null()).spawn().unwrap();
    while !place.path().join("s").exists() {
        assert!(host.try_wait().unwrap().is_none(), "the host has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    host.kill().unwrap();
    host.wait().unwrap();
    std::os::unix::fs::symlink("victim", place.path().join("dump.csv.new")).unwrap();
    let said = place.error(&["dht", "dump", "host.redb", "-o", "dump.csv"], 1);
    assert!(said.contains("dump.csv.new") && said.contains("symbolic link"), "{said}");
    assert_eq!(fs::read_to_string(place.path().join("victim")).unwrap(), "precious");
}

#[test]
fn a_seed_that_leads_nowhere_and_knobs_out_of_range_are_input_errors() {
    let place = Place::new();
    let nowhere = format!("127.0.0.1:{}", free_ports(1));
    let asked = ["dht", "get", "k", "--peer", &nowhere, "--join-within", "0.5"];
    let said = place.error(&asked, 2);
    assert!(said.contains(&nowhere) && said.contains("is one running"), "{said}");
    assert!(place.error(&["dht", "get", "k"], 2).contains("--peer HOST:PORT"));
    let said = place.error(&["dht", "get", "k", "--peer", &nowhere, "--algorithm", "can"], 2);
    assert!(said.contains("chord, koorde"), "{said}");
    let state = place.path().join("state").display().to_string();
    assert!(place.error(&["dht", "stat", "--state", &state], 2).contains("no host"));
    let said = place.error(&["dht", "dump", "no-such-file"], 2);
    assert!(said.contains("no-such-file"), "{said}");
}

#[test]
fn durable_hosts_come_back_with_what_they_held_and_their_files_can_be_dumped() {
    let place = Place::new();
    let (port, state) = (free_ports(2).to_string(), place.path().join("state"));
    let state = state.display().to_string();
    let peer = format!("127.0.0.1:{port}");
    let up = |place: &Place| {
        let place_of = ["up", "-n", "2", "--service", "dht", "--durable", "files"];
        let ran = place.run(&[&place_of[..], &["--port", &port, "--state", &state]].concat());
        assert_eq!(ran.status, 0, "{}", ran.stderr);
    };
    up(&place);
    place.write("few.csv", "a,1\nb,2\nc,3\n");
    assert_eq!(place.run(&["dht", "load", "few.csv", "--peer", &peer]).status, 0);
    assert_eq!(place.run(&["dht", "remove", "b", "--peer", &peer]).status, 0);
    let said = place.error(&["up", "-n", "2", "--port", &port, "--state", &state], 2);
    assert!(said.contains("another service"), "{said}");
    let list = fs::read_to_string(place.path().join("state/paceline/nodes.json")).unwrap();
    let list: Value = serde_json::from_str(&list).unwrap();
    // What is acknowledged is on the disk.
    for process in list.as_array().unwrap() {
        let pid = process["pid"].to_string();
        assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    }
    std::thread::sleep(Duration::from_millis(200));
    let files = [format!("files/{port}.redb")];
    let dumped = place.run(&["dht", "dump", &files[0]]);
    let mut lines: Vec<&str> = dumped.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a,1", "c,3"], "{}", dumped.stderr);
    up(&place);
    assert_eq!(place.run(&["dht", "get", "c", "--peer", &peer]).stdout, "3");
    assert_eq!(place.run(&["dht", "get", "b", "--peer", &peer]).status, 1);
    let (_, stats) = place.json(&["dht", "stat", "--state", &state]);
    assert_eq!(stats.as_array().unwrap().len(), 2);
    assert_eq!(place.run(&["down", "--state", &state]).status, 0);
}

/// What a command prints, byte for byte.
#[cfg(unix)]
fn bytes_of(place: &Place, arguments: &[&str]) -> Vec<u8> {
    let output = place.command(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output.stdout
}

#[cfg(unix)]
#[test]
fn any_bytes_are_loaded_read_dumped_and_loaded_again_as_they_are() {
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const MARK: &[u8] = "\u{feff}".as_bytes();
    let all: Vec<u8> = (0..=255).collect();
    let mut entries = BTreeMap::from([
        (b"plain".to_vec(), b"1".to_vec()),
        (b"\xff\xfe".to_vec(), all.clone()),
        (all[1..].to_vec(), b"\r\n\r".to_vec()),
        (b"a,\"b\"\n".to_vec(), b"\n\n".to_vec()),
        ([MARK, b"marked"].concat(), Vec::new()),
        (b"\x1b[2J".to_vec(), b"\0".to_vec()),
    ]);
    let place = Place::new();
    let port = free_ports(2).to_string();
    let peer = format!("127.0.0.1:{port}");
    let up = ["up", "-n", "2", "--service", "dht", "--durable", "files", "--state", "state"];
    let up = [&up[..], &["--port", &port]].concat();
    assert_eq!(place.run(&up).status, 0);
    let dht =
        |arguments: &[&str]| bytes_of(&place, &[&["dht"], arguments, &["--peer", &peer]].concat());
    // Written by hand: a byte order mark that is not part of the key, and a line break within
    // quotes.
    let csv = [MARK, b"plain,1\r\n\"a,\"\"b\"\"\n\",\"\n\n\"\n\xff\xfe,old\n"].concat();
    fs::write(place.path().join("hand.csv"), csv).unwrap();
    dht(&["load", "hand.csv", "--outcomes", "outcomes.csv"]);
    let outcomes = fs::read(place.path().join("outcomes.csv")).unwrap();
    let expected = b"line,key,outcome,detail\n1,plain,stored,2\n2,\"a,\"\"b\"\"\n\",stored,2\n\
                     6,\xff\xfe,stored,2\n";
    assert_eq!(outcomes, expected);
    assert_eq!(dht(&["get", "plain"]), b"1");
    for (key, value) in &entries {
        let mut put = place.command(&["dht", "put", "--peer", &peer, "--"]);
        if key.contains(&0) || value.contains(&0) {
            continue;
        }
        put.arg(OsStr::from_bytes(key)).arg(OsStr::from_bytes(value));
        assert!(put.output().unwrap().status.success(), "{key:?}");
    }
    let base64 = "{\"key_base64\":\"//4=\",\"value_base64\":\"AAEC\"}\n\
                  {\"key\":\"\\u001b[2J\",\"value\":\"\\u0000\"}\n";
    place.write("some.jsonl", base64);
    dht(&["load", "some.jsonl"]);
    entries.insert(b"\xff\xfe".to_vec(), vec![0, 1, 2]);
    for (key, value) in &entries {
        let get = |more: &[&str]| {
            let mut get = place.command(&["dht", "get", "--peer", &peer]);
            get.args(more).arg("--").arg(OsStr::from_bytes(key)).output().unwrap().stdout
        };
        assert_eq!(&get(&[]), value, "{key:?}");
        assert_eq!(&get(&["-o", "-"]), value, "{key:?}");
        get(&["-o", "value"]);
        assert_eq!(&fs::read(place.path().join("value")).unwrap(), value, "{key:?}");
        let json: Value = serde_json::from_slice(&get(&["--json"])).unwrap();
        let is_text = std::str::from_utf8(value).is_ok();
        assert_eq!(json.get("value").is_some(), is_text, "{json}");
        assert_eq!(json.get("value_base64").is_some(), !is_text, "{json}");
    }
    assert_eq!(place.run(&["down", "--state", "state"]).status, 0);
    let files = [format!("files/{port}.redb"), format!("files/{}.redb", next_port(&port))];
    let dump = ["dht", "dump", &files[0], &files[1]];
    fs::write(place.path().join("dumped.csv"), bytes_of(&place, &dump)).unwrap();
    let json = bytes_of(&place, &[&dump[..], &["--json"]].concat());
    fs::write(place.path().join("dumped.jsonl"), &json).unwrap();
    bytes_of(&place, &[&dump[..], &["-o", "written.jsonl"]].concat());
    assert_eq!(fs::read(place.path().join("written.jsonl")).unwrap(), json);
    for dumped in ["dumped.csv", "dumped.jsonl"] {
        fs::remove_dir_all(place.path().join("files")).unwrap();
        assert_eq!(place.run(&up).status, 0);
        dht(&["load", dumped]);
        assert_eq!(place.run(&["down", "--state", "state"]).status, 0);
        let again = bytes_of(&place, &[&dump[..], &["--json"]].concat());
        assert_eq!(again, json, "{dumped}");
    }
    assert_eq!(json.iter().filter(|&&byte| byte == b'\n').count(), entries.len());
}

/// The port that follows.
fn next_port(port: &str) -> u16 {
    port.parse::<u16>().unwrap() + 1
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_by_a_build_without_it_and_what_would_do_is_named() {
    let place = Place::new();
    place.write("few.parquet", "PAR1");
    let said = place.error(&["dht", "load", "few.parquet", "--peer", "127.0.0.1:1"], 2);
    assert!(said.contains("few.parquet: this build cannot read Parquet"), "{said}");
    assert!(said.contains("--features paceline-cli/parquet"), "{said}");
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_is_loaded_row_by_row() {
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    let table = Table::new(3);
    let write = |name: &str, schema: &str, columns: &[Vec<String>]| {
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = fs::File::create(table.place.path().join(name)).unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(file, schema, properties).unwrap();
        let mut group = writer.next_row_group().unwrap();
        for texts in columns {
            let mut column = group.next_column().unwrap().unwrap();
            let texts: Vec<ByteArray> = texts.iter().map(|text| text.as_str().into()).collect();
            column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
    };
    let texts = |what: &str| (0..500).map(|row| format!("{what} {row}")).collect::<Vec<_>>();
    // The columns in another order, and an unknown one.
    let schema = "message m { required binary value (UTF8); required binary key; \
                  required binary more; }";
    write("rows.parquet", schema, &[texts("value"), texts("key"), texts("more")]);
    let load = ["load", "rows.parquet", "--outcomes", "out.csv"];
    let (said, _) = table.run(&load, 0);
    assert!(said.starts_with("500 stored, 0 failed"), "{said}");
    let outcomes = fs::read_to_string(table.place.path().join("out.csv")).unwrap();
    assert_eq!(outcomes.lines().nth(500), Some("500,key 499,stored,3"));
    assert_eq!(table.run(&["get", "key 77"], 0).0, "value 77");

    write("other.parquet", "message m { required binary name; }", &[texts("name")]);
    let said = table.run(&["load", "other.parquet"], 2).1;
    assert!(said.contains("no column `key` of text or bytes among name"), "{said}");
    table.place.write("none.parquet", "no such thing");
    let said = table.run(&["load", "none.parquet"], 2).1;
    assert!(said.contains("none.parquet") && said.contains("expected a Parquet file"), "{said}");
}
