//! Several services on the same nodes.

use std::path::Path;

use paceline_lab::Quiet;
use paceline_lab::run::RunResult;
use paceline_lab::scenario::Scenario;
use paceline_lab_services::catalog::CATALOG;
use paceline_lab_services::{run_on_sockets, simulate, simulate_watched};

fn scenario(text: &str) -> Scenario {
    CATALOG.parse("t.toml", text).unwrap().resolve().unwrap()
}

fn five(sets: &[&str]) -> Scenario {
    CATALOG.load("hosts/five").unwrap().with_sets(sets).unwrap().resolve().unwrap()
}

fn value(result: &RunResult, name: &str) -> f64 {
    let found = result.summary.iter().find(|metric| metric.metric == name);
    found.unwrap_or_else(|| panic!("no {name} in {:?}", result.summary)).value
}

#[test]
fn four_services_of_five_hosts_outlive_a_crash_and_a_run_repeats() {
    let whole = five(&[]);
    let result = simulate(&whole, 1).unwrap();
    let value = |name| value(&result, name);
    assert_eq!(value("orders.messages_missing"), 0.0);
    assert!(value("orders.messages_delivered") > 2_000.0 && value("orders.views") >= 7.0);
    assert_eq!((value("prices.packets_corrupt"), value("prices.packets_sent")), (0.0, 3_600.0));
    assert_eq!((value("stock.keys_wrong"), value("stock.keys_failed")), (0.0, 0.0));
    assert!(value("stock.keys_done") > 900.0);
    assert_eq!(value("web.walks"), 75_000.0);
    let figure = &result.figures[0];
    assert_eq!((&*figure.id, &*figure.scenario), ("web.walk/e1/rq-rg/time-s", "hosts/five"));
    // What a service counts bears its name, and what the network counts bears none.
    assert!(value("orders.group_member_down") > 0.0 && value("sim_to_crashed") > 0.0);
    let names: Vec<&str> = result.summary.iter().map(|metric| &*metric.metric).collect();
    assert!(!names.contains(&"group_member_down") && !names.contains(&"prices.sim_to_crashed"));

    // The file with every default written out is the same run, also through the codec.
    let written = scenario(&whole.to_toml());
    let trace = std::env::temp_dir().join(format!("paceline-hosts-{}", std::process::id()));
    let again = simulate_watched(&written, 1, Some(&trace), &Quiet).unwrap();
    assert_eq!((&again.digest, &again.deliveries), (&result.digest, &result.deliveries));
    let traced = std::fs::read_to_string(&trace).unwrap();
    std::fs::remove_file(&trace).unwrap();
    assert!(traced.lines().any(|line| line.contains("service ")), "{:?}", traced.lines().next());
    let checked = simulate(&five(&["service.stock.protocol.check_wire=true"]), 1).unwrap();
    assert_eq!(checked.digest, result.digest);
}

#[test]
fn a_service_alone_on_its_hosts_delivers_what_it_delivers_without_hosts() {
    let own = [
        ("chain", "[W]\nmessages = 40\n", "messages_delivered"),
        ("group", "[W]\nmessages = 40\nrate = \"50/s\"\nstart = \"1s\"\n", "messages_delivered"),
        ("slingshot", "[W]\nrate = \"100/s\"\n", "packets_sent"),
        (
            "overlay",
            "[W]\nkeys = 60\nactions = \"put-get\"\nclients = 2\nstart = \"3s\"\n",
            "keys_done",
        ),
        ("walk", "[W]\nwalks = 20\nblock = 20\n", "walks"),
    ];
    for (kind, rest, metric) in own {
        let shared = "duration = \"20s\"\n[topology]\nnodes = 4\ndelay = \"200us\"\n";
        let workload = |name: &str| rest.replace("[W]", &format!("[{name}]"));
        let alone = format!("{shared}[protocol]\nkind = \"{kind}\"\n{}", workload("workload"));
        let hosted = format!(
            "{shared}[[service]]\nname = \"one\"\n[service.protocol]\nkind = \"{kind}\"\n{}",
            workload("service.workload")
        );
        let (alone, hosted) = (scenario(&alone), scenario(&hosted));
        let (alone, hosted) = (simulate(&alone, 3).unwrap(), simulate(&hosted, 3).unwrap());
        let named = format!("one.{metric}");
        assert_eq!(value(&hosted, &named), value(&alone, metric), "{kind}");
        assert!(value(&alone, metric) > 0.0, "{kind}");
        let delivered = alone.deliveries.map(|delivered| format!("one.{delivered}"));
        assert_eq!(hosted.deliveries, delivered, "{kind}");
    }
}

#[test]
fn what_does_not_run_on_hosts_is_refused() {
    let hosts = |rest: &str| format!("[topology]\nnodes = 4\n[[service]]\nname = \"a\"\n{rest}");
    for (rest, problem) in [
        ("[service.protocol]\nkind = \"mircc\"\n", "nodes that run `mircc` run nothing else"),
        ("[service.protocol]\nkind = \"srm\"\n", "nodes that run `srm` run nothing else"),
        (
            "[service.protocol]\nkind = \"slingshot\"\n[service.measure]\n\
             throughput_within = \"20ms\"\n",
            "a search for the throughput runs its service alone",
        ),
    ] {
        let said = simulate(&scenario(&hosts(rest)), 1).unwrap_err().to_string();
        assert!(said.starts_with("t.toml:") && said.contains(problem), "{said}");
    }
    let said = run_on_sockets(five(&[]).into(), 1, None, &Quiet).unwrap_err().to_string();
    assert!(said.contains("runs in the simulator only: --on sim"), "{said}");
    // Walks that cannot end in time: the error names the service.
    let late = ["topology.rate=1Mbit", "duration=7s", "service.web.protocol.method=mark-exact"];
    let late = five(&late);
    let said = simulate(&late, 1).unwrap_err().to_string();
    assert!(said.starts_with("service `web`: walks were unfinished"), "{said}");
    assert!(!Path::new("runs").exists());
}
