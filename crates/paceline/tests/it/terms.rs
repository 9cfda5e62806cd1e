//! Hosts whose services of one name differ: each is refused by what differs, and others are served.

use std::time::Duration;

use paceline::multicast::{Code, Rate};
use paceline::net::ServiceDifference;
use paceline::{BroadcastConfig, Host, JoinError, NodeId, StartError, ViewsConfig, dht};

async fn host(id: u64) -> Host {
    Host::builder("test").id(NodeId(id)).start().await.unwrap()
}

/// The knob that differs, with its values at the first host and at the second.
fn knob(error: JoinError) -> (String, String, String) {
    match error {
        JoinError::Differs {
            difference: ServiceDifference::Knob { knob, ours, theirs }, ..
        } => (knob, theirs, ours),
        error => panic!("{error}"),
    }
}

fn counted(host: &Host, counter: &str) -> u64 {
    host.stats().counters.count(counter)
}

#[tokio::test]
async fn each_knob_that_members_of_a_group_need_alike_is_named() {
    type Change = (fn(BroadcastConfig) -> BroadcastConfig, fn(ViewsConfig) -> ViewsConfig);
    let same: Change = (|config| config, |config| config);
    let cases: [(Change, [&str; 3]); 7] = [
        ((|c| c.with_block_bytes_max(1 << 15), same.1), ["block_bytes_max", "64KiB", "32KiB"]),
        ((|c| c.with_message_bytes_max(1 << 20), same.1), ["message_bytes_max", "16MiB", "1MiB"]),
        ((|c| c.with_window_blocks(1024), same.1), ["window_blocks", "4096", "1024"]),
        ((|c| c.with_window_bytes(1 << 21), same.1), ["window_bytes", "1MiB", "2MiB"]),
        ((same.0, |c| c.with_direct_window_bytes(1)), ["direct_window_bytes", "256KiB", "1B"]),
        ((same.0, |c| c.with_requests_max(7)), ["requests_max", "256", "7"]),
        ((same.0, |c| c.with_requests_bytes_max(1 << 10)), ["requests_bytes_max", "1MiB", "1KiB"]),
    ];
    let first = host(0).await;
    let _first = first.group("g").bootstrap().await.unwrap();
    let peer = first.address().to_string();
    for (id, ((broadcast, views), named)) in (1..).zip(cases) {
        let other = host(id).await;
        let group = other.group("g").with_broadcast(broadcast).with_views(views);
        let began = std::time::Instant::now();
        let error = group.peers([&peer]).join().await.err().expect("another configuration");
        assert!(began.elapsed() < Duration::from_secs(8), "it need not wait for its time to end");
        let text = error.to_string();
        let (knob, here, there) = knob(error);
        assert_eq!([&*knob, &*here, &*there], named);
        assert!(text.contains(&format!("n0 at {peer}")) && text.contains("`group g`"), "{text}");
        assert!(counted(&other, "service_other_knobs") > 0);
    }
    assert!(counted(&first, "service_other_knobs") >= 7);
    // Timeouts, and how messages spread, are each member's own.
    let last = host(9).await;
    let group = last.group("g").with_broadcast(|c| c.with_queue_bytes(1 << 20).with_ack_blocks(8));
    let group = group.with_views(|c| c.with_lag_after(Duration::from_secs(9)));
    group.peers([&peer]).join().await.unwrap();
}

#[tokio::test]
async fn each_knob_that_members_of_a_multicast_need_alike_is_named() {
    type Change = fn(paceline::multicast::Config) -> paceline::multicast::Config;
    let cases: [(Change, [&str; 3]); 5] = [
        (|c| c.with_code(Code::Rlc { window: 32 }), ["code", "xor", "rlc"]),
        (|c| c.with_rate(Rate { r: 4, c: 3 }), ["r_max", "8", "4"]),
        (|c| c.with_r_max(16), ["r_max", "8", "16"]),
        (|c| c.with_message_bytes_max(2 << 20), ["message_bytes_max", "1MiB", "2MiB"]),
        (|c| c.with_overlap(true), ["overlap", "false", "true"]),
    ];
    let first = host(0).await;
    let _first = first.multicast("m").bootstrap().await.unwrap();
    let peer = first.address().to_string();
    for (id, (change, named)) in (1..).zip(cases) {
        let other = host(id).await;
        let multicast = other.multicast("m").with_repairs(change);
        let error = multicast.peers([&peer]).join().await.err().expect("another configuration");
        let (knob, here, there) = knob(error);
        assert_eq!([&*knob, &*here, &*there], named);
    }
    let last = host(9).await;
    let multicast = last.multicast("m").with_repairs(|c| c.with_rate(Rate { r: 8, c: 1 }));
    multicast.peers([&peer]).join().await.unwrap();
}

/// Every kind is looked for at a host that runs each other kind under its name.
#[tokio::test]
async fn another_kind_under_the_name_is_named() {
    let within = Duration::from_secs(20);
    let hosts = [host(0).await, host(1).await, host(2).await, host(3).await];
    let peers = hosts.each_ref().map(|host| host.address().to_string());
    let _group = hosts[0].group("x").bootstrap().await.unwrap();
    let _multicast = hosts[1].multicast("x").bootstrap().await.unwrap();
    let _table = hosts[2].dht("x").bootstrap().await.unwrap();
    let _server = hosts[3].walks("x").serve().await.unwrap();
    let kinds = ["group", "multicast", "dht/chord", "walks"];
    for (there, peer) in kinds.into_iter().zip(peers) {
        let own = host(9).await;
        let mut errors = Vec::new();
        if there != "group" {
            errors.push(own.group("x").peers([&peer]).within(within).join().await.err());
        }
        if there != "multicast" {
            errors.push(own.multicast("x").peers([&peer]).within(within).join().await.err());
        }
        if there != "dht/chord" {
            errors.push(own.dht("x").peers([&peer]).within(within).join().await.err());
        }
        if there != "walks" {
            errors.push(own.walks("x").peers([&peer]).within(within).connect().await.err());
        }
        for error in errors {
            match error.expect("nothing to join") {
                JoinError::Differs { difference: ServiceDifference::Kind { theirs }, .. } => {
                    assert_eq!(theirs, there);
                }
                error => panic!("{there}: {error}"),
            }
        }
        assert!(counted(&own, "service_other_kind") >= 3);
        own.stop().await;
    }
}

#[tokio::test]
async fn hosts_of_a_table_need_the_same_algorithm_and_degree() {
    let koorde = |table: paceline::DhtBuilder, degree| {
        table.with_overlay(move |config| {
            let shape = dht::Shape { degree, ..dht::Shape::default() };
            config.with_algorithm(dht::Algorithm::Koorde).with_shape(shape)
        })
    };
    let first = host(0).await;
    let _first = koorde(first.dht("t"), 2).bootstrap().await.unwrap();
    let peer = first.address().to_string();
    let other = host(1).await;
    let error = koorde(other.dht("t"), 8).peers([&peer]).join().await.err().expect("another");
    assert_eq!(knob(error), ("degree".to_owned(), "2".to_owned(), "8".to_owned()));
    let error = other.dht("t").peers([&peer]).join().await.err().expect("chord");
    assert!(error.to_string().contains("its kind is `dht/koorde` there"), "{error}");
    koorde(other.dht("t"), 2).peers([&peer]).join().await.unwrap();
}

#[tokio::test]
async fn a_name_that_no_host_runs_is_said_to_be_one() {
    let first = host(0).await;
    let _first = first.group("orders").bootstrap().await.unwrap();
    let peer = first.address().to_string();
    let other = host(1).await;
    let group = other.group("order").peers([&peer]).within(Duration::from_secs(2));
    let error = group.join().await.err().expect("no such group");
    assert!(matches!(error, JoinError::NotRun { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("n0 at {peer}")) && text.contains("`group order`"), "{text}");
    let table = other.dht("order").peers([&peer]).within(Duration::from_secs(2));
    let error = table.join().await.err().expect("no such table");
    assert!(matches!(error, JoinError::NotRun { .. }), "{error}");
}

/// A host with another configuration does not keep those out that are alike.
#[tokio::test]
async fn one_host_that_differs_does_not_keep_others_apart() {
    let hosts = [host(0).await, host(1).await, host(2).await];
    let peers = hosts.each_ref().map(|host| host.address().to_string());
    let odd = |c: BroadcastConfig| c.with_window_blocks(64);
    let _odd = hosts[0].group("g").with_broadcast(odd).bootstrap().await.unwrap();
    let _first = hosts[1].group("g").bootstrap().await.unwrap();
    let (member, _events) = hosts[2].group("g").peers(&peers[..2]).join().await.unwrap();
    assert_eq!(member.members(), [NodeId(1), NodeId(2)]);
    // A group and a multicast of one name live on one host, and each is found.
    let _multicast = hosts[1].multicast("g").bootstrap().await.unwrap();
    hosts[2].multicast("g").peers(&peers[1..2]).join().await.unwrap();
    let again = hosts[1].group("g").with_broadcast(odd).bootstrap().await.err();
    let taken = matches!(again, Some(JoinError::Start(StartError::ServiceTaken { .. })));
    assert!(taken, "a host runs one of each kind and name: {again:?}");
}
