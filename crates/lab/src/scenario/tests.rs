//! The exact text of each kind of error, and what overrides and defaults resolve to.

use super::sample::CATALOG;
use super::*;

const GOOD: &str = r#"name = "good"
duration = "10s"
[topology]
nodes = 4
rate = "10Mbit"
[protocol]
kind = "chain"
[workload]
size = "8KB"
"#;

/// What the user sees when line `line` of a good file is replaced.
fn said(line: usize, with: &str) -> String {
    let mut lines: Vec<&str> = GOOD.lines().collect();
    lines[line - 1] = with;
    said_of(&lines.join("\n"), &[])
}

fn said_of(text: &str, sets: &[&str]) -> String {
    let outcome = CATALOG
        .parse("t.toml", text)
        .and_then(|file| file.with_sets(sets))
        .and_then(|file| file.resolve())
        .and_then(|scenario| {
            let mut table = scenario.workload();
            table.size("size")?;
            table.integer_or("messages", 1..=1000_u32, 10)?;
            table.finish()?;
            scenario.protocol().finish()
        });
    match outcome {
        Ok(()) => "fine".to_owned(),
        Err(error) => {
            assert_eq!(error.exit_status(), 2);
            error.to_string()
        }
    }
}

const TOPOLOGY_KEYS: &str = "kind, nodes, rate, overhead, queue, datagram, delay, jitter, \
                             loss, burst, duplicate, reorder, reorder_delay, stream_resend_after, \
                             multicast, receive_loss, receive_burst, streams, port_buffer, \
                             congestion";

#[track_caller]
fn assert_said(actual: String, expected: &str) {
    let kinds: Vec<String> = CATALOG.kind_names().map(|kind| format!("{kind:?}")).collect();
    let expected = expected.replace("<keys of topology>", TOPOLOGY_KEYS);
    let expected = expected.replace("<kinds>", &kinds.join(", "));
    assert!(actual == expected, "\n--- said ---\n{actual}\n--- expected ---\n{expected}\n");
}

#[test]
fn links_that_lose_all_are_refused_where_streams_go_over_them() {
    let resolve = |kind: &str, rest: &str| {
        let text = format!("{rest}\n[protocol]\nkind = \"{kind}\"");
        CATALOG.parse("t.toml", &text).unwrap().resolve().map(|_| ())
    };
    let link = "[topology]\nnodes = 3\nloss = \"100%\"";
    let burst = "[topology]\nnodes = 3\nburst = { good_to_bad = 0.1, bad_to_good = 0.0 }";
    let fault = "[topology]\nnodes = 3\n[[faults]]\nat = \"1s\"\nkind = \"link\"\nloss = 1.0";
    for (rest, place) in [(link, "t.toml:3:8"), (burst, "t.toml:3:9"), (fault, "t.toml:6:8")] {
        let error = resolve("chain", rest).unwrap_err();
        let text = error.to_string();
        assert!(text.starts_with(place), "{text}");
        assert!(text.contains("a link that loses every packet is a cut"), "{text}");
        assert_eq!(error.exit_status(), 2);
        // A scenario of slingshot may lose datagrams: it measures the reports of lost packets.
        assert!(resolve("slingshot", rest).is_ok());
    }
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion_and_the_accepted_keys() {
    assert_eq!(said_of(GOOD, &[]), "fine");
    assert_said(
        said(5, "ratee = \"10Mbit\""),
        r#"t.toml:5:1: unknown key `ratee` in [topology]
  |
5 | ratee = "10Mbit"
  | ^^^^^
  = did you mean `rate`?
  = accepted keys: <keys of topology>"#,
    );
    assert_said(
        said(4, "nodez = 4"),
        r#"t.toml:4:1: unknown key `nodez` in [topology]
  |
4 | nodez = 4
  | ^^^^^
  = did you mean `nodes`?"#,
    );
    assert_said(
        said(9, "size = \"8KB\"\nmesages = 3"),
        r#"t.toml:10:1: unknown key `mesages` in [workload]
   |
10 | mesages = 3
   | ^^^^^^^
   = did you mean `messages`?
   = accepted keys: size, messages"#,
    );
    assert_said(
        said(9, "size = \"8KB\"\nloss = 0.5"),
        r#"t.toml:10:1: unknown key `loss` in [workload]
   |
10 | loss = 0.5
   | ^^^^
   = `loss` belongs in [topology]
   = accepted keys: size, messages"#,
    );
    assert_said(
        said(1, "nam = \"x\""),
        r#"t.toml:1:1: unknown key `nam` in the scenario
  |
1 | nam = "x"
  | ^^^
  = did you mean `name`?
  = accepted keys: name, about, seed, duration"#,
    );
    assert_said(
        said(8, "[worklod]"),
        r#"t.toml:8:2: unknown table [worklod]
  |
8 | [worklod]
  |  ^^^^^^^
  = did you mean `workload`?
  = accepted tables: topology, protocol, workload, service, faults, measure, sweep"#,
    );
}

#[test]
fn plain_numbers_and_wrong_units_say_what_is_accepted() {
    assert_said(
        said(5, "rate = 10"),
        r#"t.toml:5:8: `rate` cannot be the plain number 10
  |
5 | rate = 10
  |        ^^
  = accepted: a rate: "500kbit", "10Mbit", "1Gbit" a second, or "12MB/s""#,
    );
    assert_said(
        said(5, "rate = \"10mbit\""),
        r#"t.toml:5:8: bad value for `rate`: unknown unit `mbit`; did you mean "10Mbit"?
  |
5 | rate = "10mbit"
  |        ^^^^^^^^
  = accepted: a rate: "500kbit", "10Mbit", "1Gbit" a second, or "12MB/s""#,
    );
    assert_said(
        said(5, "delay = 5"),
        r#"t.toml:5:9: `delay` cannot be the plain number 5
  |
5 | delay = 5
  |         ^
  = accepted: a duration: "250us", "5ms", "1.5s", "2min" (also ns, h)"#,
    );
    assert_said(
        said(5, "delay = \"5\""),
        r#"t.toml:5:9: bad value for `delay`: `5` has no unit
  |
5 | delay = "5"
  |         ^^^
  = accepted: a duration: "250us", "5ms", "1.5s", "2min" (also ns, h)"#,
    );
    assert_said(
        said(9, "size = 8000"),
        r#"t.toml:9:8: `size` cannot be the plain number 8000
  |
9 | size = 8000
  |        ^^^^
  = accepted: a size: "8000B", "64KB" (1000 each), "8KiB" (1024 each), "1MiB""#,
    );
    assert_said(
        said(5, "loss = 1.5"),
        r#"t.toml:5:8: bad value for `loss`: 1.5 is not between 0 and 1
  |
5 | loss = 1.5
  |        ^^^
  = accepted: a probability: 0.01 or "1%""#,
    );
    assert_said(
        said(5, "rate = 10Mbit"),
        r#"t.toml:5:8: not TOML: string values must be quoted, expected literal string
  |
5 | rate = 10Mbit
  |        ^^^^^^
  = quote text and values with a unit: "10Mbit""#,
    );
    assert_said(
        said(5, "rate = \"0bit\""),
        r#"t.toml:5:8: `rate` is zero
  |
5 | rate = "0bit"
  |        ^^^^^^
  = accepted: a rate above zero"#,
    );
}

#[test]
fn wrong_types_ranges_choices_and_missing_keys_point_at_their_line() {
    assert_said(
        said(4, "nodes = \"four\""),
        r#"t.toml:4:9: `nodes` cannot be the text "four"
  |
4 | nodes = "four"
  |         ^^^^^^
  = accepted: a whole number from 1 to 4000000"#,
    );
    assert_said(
        said(4, "nodes = 0"),
        r#"t.toml:4:9: `nodes` is out of range: 0
  |
4 | nodes = 0
  |         ^
  = accepted: a whole number from 1 to 4000000"#,
    );
    assert_said(
        said(5, "datagram = \"70kB\""),
        r#"t.toml:5:12: `datagram` is out of range: 70000 bytes
  |
5 | datagram = "70kB"
  |            ^^^^^^
  = accepted: "576B" to "65000B""#,
    );
    assert_said(
        said(5, "kind = \"ring\""),
        r#"t.toml:5:8: `kind` cannot be "ring"
  |
5 | kind = "ring"
  |        ^^^^^^
  = accepted: "star", "mesh""#,
    );
    assert_said(
        said(7, "kind = \"chian\""),
        r#"t.toml:7:8: `kind` cannot be "chian"
  |
7 | kind = "chian"
  |        ^^^^^^^
  = did you mean `chain`?
  = accepted: <kinds>"#,
    );
    assert_said(
        said(4, ""),
        r#"t.toml:3:1: missing key `nodes` in [topology]
  |
3 | [topology]
  | ^^^^^^^^^^
  = accepted: a whole number from 1 to 4000000"#,
    );
    assert_said(
        said(9, ""),
        r#"t.toml:8:1: missing key `size` in [workload]
  |
8 | [workload]
  | ^^^^^^^^^^
  = accepted: a size: "8000B", "64KB" (1000 each), "8KiB" (1024 each), "1MiB""#,
    );
    assert_said(
        said_of("[protocol]\nkind = \"chain\"\n", &[]),
        r#"t.toml: missing key `nodes` in [topology]
 = accepted: a whole number from 1 to 4000000"#,
    );
    assert_said(
        said(5, "topology = 3"),
        r#"t.toml:5:1: unknown key `topology` in [topology]
  |
5 | topology = 3
  | ^^^^^^^^
  = accepted keys: <keys of topology>"#,
    );
    assert_said(
        said(5, "burst = { good_to_bad = 0.1, bad_to_god = 0.2 }"),
        r#"t.toml:5:30: unknown key `bad_to_god` in [topology.burst]
  |
5 | burst = { good_to_bad = 0.1, bad_to_god = 0.2 }
  |                              ^^^^^^^^^^
  = did you mean `bad_to_good`?"#,
    );
    assert_said(
        said(5, "loss = 0.1\nburst = { good_to_bad = 0.1, bad_to_good = 0.2 }"),
        r#"t.toml:6:9: `loss` and `burst` are two models of the same loss
  |
6 | burst = { good_to_bad = 0.1, bad_to_good = 0.2 }
  |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  = accepted: only one of them"#,
    );
}

#[test]
fn faults_say_what_their_kind_needs() {
    let fault = |body: &str| said(9, &format!("size = \"8KB\"\n[[faults]]\n{body}"));
    assert_said(
        fault("at = \"1s\"\nkind = \"crash\""),
        r#"t.toml:10:1: missing key `node` in [[faults]]
   |
10 | [[faults]]
   | ^^^^^^^^^^
   = accepted: node = 3, or nodes = [1, "4-9"]"#,
    );
    assert_said(
        fault("at = \"1s\"\nkind = \"crash\"\nnode = 4"),
        r#"t.toml:13:8: `node`: there is no node 4; nodes are 0 to 3
   |
13 | node = 4
   |        ^
   = accepted: nodes: 3, [1, 2], "4-9" or [1, "4-9"]"#,
    );
    assert_said(
        fault("at = \"11s\"\nkind = \"heal\""),
        r#"t.toml:11:6: `at` is after the end of the run at 10s
   |
11 | at = "11s"
   |      ^^^^^
   = accepted: a time within the run, or a longer `duration`"#,
    );
    assert_said(
        fault("at = \"1s\"\nkind = \"heal\"\nnode = 3"),
        r#"t.toml:13:1: unknown key `node` in [[faults]]
   |
13 | node = 3
   | ^^^^
   = accepted keys: at, kind"#,
    );
    assert_said(
        fault("at = \"1s\"\nkind = \"partition\"\ngroups = [[0, 1], \"1-3\"]"),
        r#"t.toml:13:10: node 1 is in two groups
   |
13 | groups = [[0, 1], "1-3"]
   |          ^^^^^^^^^^^^^^^
   = accepted: at most one group for each node"#,
    );
    assert_said(
        said(9, "size = \"8KB\"\n[faults]\nat = \"1s\""),
        r#"t.toml:10:2: `faults` is a list of tables
   |
10 | [faults]
   |  ^^^^^^
   = tables that begin with [[faults]], in double brackets"#,
    );
}

const SEVERAL_SERVICES: &str = r#"[topology]
nodes = 3
[[service]]
name = "a"
[service.protocol]
kind = "chain"
[service.workload]
messages = 3
[[service]]
name = "b"
[service.protocol]
kind = "slingshot"
"#;

#[test]
fn services_on_the_same_nodes_are_scenarios_of_their_own() {
    let file = || CATALOG.parse("t.toml", SEVERAL_SERVICES).unwrap();
    let sets = [
        "service.a.workload.messages=7",
        "service.1.protocol.kind=chain",
        "service.b.weight=3",
        "nodes=5",
    ];
    let scenario = file().with_sets(sets).unwrap().resolve().unwrap();
    assert_eq!(scenario.service, SEVERAL);
    let kinds: Vec<_> = scenario.services.iter().map(|one| (&*one.name, one.service)).collect();
    assert_eq!(kinds, [("a", "chain"), ("b", "chain")]);
    assert_eq!(scenario.services.iter().map(|one| one.weight).collect::<Vec<_>>(), [1, 3]);
    let mut workload = scenario.services[0].workload();
    assert_eq!(workload.integer("messages", 1..=9u64).unwrap(), 7);
    workload.finish().unwrap();
    assert_eq!(scenario.services[1].topology.nodes, 5);
    let text = scenario.to_toml();
    let again = CATALOG.parse("t.toml", &text).unwrap().resolve().unwrap();
    assert_eq!(again.to_toml(), text);
    let own = "[[service]]\nname = \"a\"\nweight = 1\n\n[service.protocol]\nkind = \"chain\"\n";
    assert!(text.contains(own), "{text}");
    assert!(text.contains("[service.workload]\nmessages = 7\n"));
}

#[test]
fn services_say_what_is_wrong_with_them() {
    let said = |from: &str, to: &str| {
        assert!(SEVERAL_SERVICES.contains(from), "{from}");
        said_of(&SEVERAL_SERVICES.replacen(from, to, 1), &[])
    };
    assert_said(
        said("name = \"a\"", "name = \"b\""),
        r#"t.toml:10:8: there is a service `b` already
   |
10 | name = "b"
   |        ^^^
   = accepted: a name of its own"#,
    );
    assert_said(
        said("name = \"a\"", "name = \"a b\""),
        r#"t.toml:4:8: `a b` is not the name of a service
  |
4 | name = "a b"
  |        ^^^^^
  = accepted: letters, digits, `-` and `_`"#,
    );
    assert_said(
        said("service.workload", "service.worklode"),
        r#"t.toml:7:10: unknown key `worklode` in [[service]]
  |
7 | [service.worklode]
  |          ^^^^^^^^
  = did you mean `workload`?
  = accepted keys: name, weight, protocol, workload, measure"#,
    );
    assert_said(
        said("name = \"a\"", "name = \"a\"\nweight = 0"),
        r#"t.toml:5:10: `weight` is out of range: 0
  |
5 | weight = 0
  |          ^
  = accepted: a whole number from 1 to 1000"#,
    );
    assert_said(
        said_of("[topology]\nnodes = 3\n[service]\nname = \"a\"\n", &[]),
        r#"t.toml:3:2: `service` is a list of tables
  |
3 | [service]
  |  ^^^^^^^
  = tables that begin with [[service]], in double brackets"#,
    );
    assert_said(
        said("kind = \"chain\"", "kind = \"chian\""),
        r#"t.toml:6:8: `kind` cannot be "chian"
  |
6 | kind = "chian"
  |        ^^^^^^^
  = did you mean `chain`?
  = accepted: "chain", "slingshot""#,
    );
    assert_said(
        said_of(SEVERAL_SERVICES, &["measure.figures=all"]),
        r#"from --set measure.figures=all: [measure] stands beside [[service]]
 = each service has a table of its own: [service.measure]"#,
    );
    let said = said_of(SEVERAL_SERVICES, &["service.c.workload.size=1KB"]);
    assert!(said.contains("`service` is a list of 2; say `service.0.key=value`"), "{said}");
    assert!(said.ends_with("or a service's name instead of 0"), "{said}");
    let many: String = (0..65)
        .map(|n| format!("[[service]]\nname = \"{n}\"\n[service.protocol]\nkind = \"chain\"\n"))
        .collect();
    let said = said_of(&format!("[topology]\nnodes = 3\n{many}"), &[]);
    assert!(said.contains("more than 64 services"), "{said}");
}

#[test]
fn overrides_are_blamed_by_name() {
    assert_said(
        said_of(GOOD, &["nodes=x"]),
        r#"from --set nodes=x: `nodes` cannot be the text "x"
 = accepted: a whole number from 1 to 4000000"#,
    );
    assert_said(
        said_of(GOOD, &["topology.nodez=8"]),
        r#"from --set topology.nodez=8: unknown key `nodez` in [topology]
 = did you mean `nodes`?
 = accepted keys: <keys of topology>"#,
    );
    assert_said(
        said_of(GOOD, &["noodes=8"]),
        r#"from --set noodes=8: no table of the scenario has a key `noodes`
 = did you mean `nodes`?"#,
    );
    assert_said(
        said_of(GOOD, &["kind=mesh"]),
        r#"from --set kind=mesh: `kind` could be `protocol.kind` or `topology.kind`
 = say which table is meant"#,
    );
    assert_said(
        said_of(GOOD, &["toplogy.nodes=8"]),
        r#"from --set toplogy.nodes=8: there is no table [toplogy]
 = did you mean `topology`?
 = tables: topology, protocol, workload, service, faults, measure, sweep"#,
    );
    assert_said(
        said_of(GOOD, &["sparkle=8"]),
        r#"from --set sparkle=8: no table of the scenario has a key `sparkle`
 = the key with its table, where the file does not mention it: `protocol.sparkle`"#,
    );
    assert_said(
        said_of(GOOD, &["nodes"]),
        r#"from --set nodes: an override is `key=value`
 = such as `--set topology.nodes=8`"#,
    );
    assert_said(
        said_of(GOOD, &["name.x=8"]),
        r#"from --set name.x=8: there is no table [name]
 = tables: topology, protocol, workload, service, faults, measure, sweep"#,
    );
}

#[test]
fn unknown_scenarios_and_missing_files_are_named() {
    let said = |name| CATALOG.load(name).unwrap_err().to_string();
    let known = CATALOG.scenario_names().collect::<Vec<_>>().join(", ");
    assert_said(
        said("ten"),
        &format!(
            r#"there is no scenario `ten`
 = did you mean `chain/ten`?
 = scenarios: {known}
 = or a file whose name ends in .toml"#
        ),
    );
    assert_said(
        said("chain/ten.toml"),
        "there is no file chain/ten.toml\n = `chain/ten` without .toml is a built-in scenario",
    );
    assert_said(said("nothing.toml"), r#"there is no file nothing.toml"#);
}

#[test]
fn a_resolved_scenario_says_every_default_and_resolves_to_itself() {
    let resolve = |text: &str| {
        let file = CATALOG.parse("t.toml", text).unwrap();
        let scenario = file.with_sets(["nodes=8", "protocol.mode=tree"]).unwrap().resolve();
        let scenario = scenario.map_err(|error| error.to_string()).unwrap();
        let mut workload = scenario.workload();
        assert_eq!(workload.size("size").unwrap(), 8000);
        assert_eq!(workload.frequency_or("frequency", 1000.0).unwrap(), 1000.0);
        workload.finish().unwrap();
        scenario
    };
    let fault = "[[faults]]\nat = \"1s\"\nkind = \"pause\"\nnodes = [1, \"3-4\"]\nfor = \"2s\"\n";
    let scenario = resolve(&format!("{GOOD}{fault}"));
    assert_eq!(scenario.topology.nodes, 8);
    let nodes = || [1, 3, 4].map(paceline_proto::core::NodeId).to_vec();
    assert_eq!(
        scenario.faults,
        [
            TimedFault { at: Duration::from_secs(1), fault: Fault::Pause(nodes()) },
            TimedFault { at: Duration::from_secs(3), fault: Fault::Resume(nodes()) },
        ]
    );
    let written = scenario.to_toml();
    assert_said(
        written.clone(),
        r#"name = "good"
about = ""
seed = 1
duration = "10s"

[topology]
kind = "star"
nodes = 8
rate = "10Mbit"
overhead = "ethernet"
datagram = "1200B"
delay = "0s"
jitter = "0s"
duplicate = 0.0
reorder = 0.0
reorder_delay = "1ms"
stream_resend_after = "200ms"
multicast = "native"
receive_loss = 0.0
streams = "lossless"

[protocol]
kind = "chain"
mode = "tree"

[workload]
size = "8KB"
frequency = "1000/s"

[[faults]]
at = "1s"
kind = "pause"
nodes = [1, "3-4"]
for = "2s"
"#,
    );
    assert_eq!(resolve(&written).to_toml(), written);
}

#[test]
fn a_bare_key_goes_to_the_one_table_that_has_it_and_lists_take_an_index() {
    let file = CATALOG
        .parse("t.toml", &format!("{GOOD}[[faults]]\nat = \"1s\"\nkind = \"crash\"\nnode = 1\n"));
    let sets = ["size=64KB", "loss=1%", "seed=7", "faults.0.node=2", "delay=\"3ms\""];
    let scenario = file.unwrap().with_sets(sets).unwrap().resolve().unwrap();
    assert_eq!(scenario.workload().size("size").unwrap(), 64_000);
    assert_eq!(scenario.topology.link.loss, paceline_proto::core::Loss::Independent(0.01));
    assert_eq!(scenario.topology.link.delay, Duration::from_millis(3));
    assert_eq!(scenario.seed, 7);
    assert_eq!(scenario.faults[0].fault, Fault::Crash(vec![paceline_proto::core::NodeId(2)]));
}

#[test]
fn no_damage_to_a_file_makes_it_panic() {
    let fault = "[[faults]]\nat = \"1s\"\nkind = \"link\"\nfrom = [1, \"0-3\"]\n\
                 burst = { good_to_bad = 1 }\n";
    let text = format!("{GOOD}{fault}[sweep]\nseeds = 2\n\"topology.nodes\" = [2, 4]\n");
    let mut tried = 0;
    for at in 0..text.len() {
        for with in ["", "\"", "[", "9", "-", "\u{e9}", "\n", "a = 1\n"] {
            let damaged = format!("{}{with}{}", &text[..at], &text[at + 1..]);
            if let Ok(file) = CATALOG.parse("t.toml", &damaged) {
                match file.resolve() {
                    Ok(scenario) => drop(scenario.to_toml()),
                    Err(error) => assert_eq!(error.exit_status(), 2),
                }
                tried += 1;
                let _ = crate::sweep::Plan::new(&file).map_err(|error| error.to_string());
            }
        }
    }
    assert!(tried > 500);
}

#[test]
fn streams_as_tcp_need_a_star_and_their_keys_need_them() {
    let set = |sets: &[&str]| said_of(GOOD, sets);
    assert_eq!(set(&["streams=tcp"]), "fine");
    assert_eq!(set(&["streams=tcp", "port_buffer=64KiB", "congestion=reno"]), "fine");
    for (sets, part) in [
        (&["port_buffer=64KiB"][..], "`port_buffer` applies only to streams that behave as TCP"),
        (&["congestion=reno"], "`congestion` applies only to streams that behave as TCP"),
        (&["streams=tcp", "port_buffer=1KiB"], "`port_buffer` is out of range: 1024 bytes"),
        (&["streams=tcp", "topology.kind=mesh"], "needs the ports of a switch"),
    ] {
        let said = set(sets);
        assert!(said.contains(part), "{said}");
    }
}
