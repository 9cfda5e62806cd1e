//! Services of a node that share its link.

use crate::support;

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use paceline_net::record::{ClusterTag, Header, Kind, ServiceNumber};
use paceline_net::{Bound, EmulateChange, Endpoint, NodeConfig, Roster};
use paceline_proto::core::{Lane, NodeId};
use support::{Order, PATIENCE, Post, Report, Running, bind, bind_all, config};

const A: ServiceNumber = ServiceNumber(1);
const B: ServiceNumber = ServiceNumber(2);
const C: ServiceNumber = ServiceNumber(3);

/// A node that runs these services.
fn open<const N: usize>(
    bound: Bound,
    roster: &Roster,
    services: [ServiceNumber; N],
) -> (Endpoint, [Running; N]) {
    let endpoint = bound.open(roster.clone()).expect("opened");
    let running = services.map(|number| {
        let started = endpoint.start(number, Post::default(), Arc::new(()));
        let (node, events) = started.expect("a service of its own");
        Running { node, events }
    });
    (endpoint, running)
}

/// A node with these services, and a member that the test plays.
fn open_beside_played<const N: usize>(
    adjust: impl Fn(NodeConfig) -> NodeConfig,
    services: [ServiceNumber; N],
) -> (Endpoint, [Running; N], UdpSocket) {
    let bound = bind(adjust(config(0)));
    let played = UdpSocket::bind("127.0.0.1:0").expect("a port");
    played.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let members = [(NodeId(0), bound.local_addr()), (NodeId(1), played.local_addr().unwrap())];
    let roster = Roster::new(members).expect("two members");
    let (endpoint, running) = open(bound, &roster, services);
    (endpoint, running, played)
}

/// The services of the next messages that arrive.
fn received(played: &UdpSocket, count: usize) -> Vec<ServiceNumber> {
    let mut services = Vec::new();
    let mut buffer = [0; 2_000];
    while services.len() < count {
        let bytes = played.recv(&mut buffer).expect("a datagram");
        let mut record = bytes::Bytes::copy_from_slice(&buffer[..bytes]);
        let header = Header::decode(&mut record, ClusterTag::of("test")).expect("a record");
        assert_ne!(header.kind, Kind::Bundle, "two of these do not fit a datagram");
        services.extend((header.kind == Kind::Message).then_some(header.service));
    }
    services
}

fn count_of(services: &[ServiceNumber], number: ServiceNumber) -> usize {
    services.iter().filter(|&&service| service == number).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn services_share_a_configured_rate_by_weight() {
    let slow = |config: NodeConfig| config.with_link_rate(8_000_000);
    let (_endpoint, [a, b, c], played) = open_beside_played(slow, [A, B, C]);
    a.node.set_weight(3).expect("it runs");
    c.node.set_weight(2).expect("it runs");
    for number in 0..600 {
        for service in [&a, &b, &c] {
            service.send(1, Lane::Datagram, number, vec![7; 900]);
        }
    }
    let order = tokio::task::spawn_blocking(move || received(&played, 600)).await.expect("all");
    // All have some waiting all the time, but for the first millisecond.
    for (number, share) in [(A, 300), (B, 100), (C, 200)] {
        let got = count_of(&order, number);
        assert!(got.abs_diff(share) <= 20, "{number:?}: {got} of 600, not {share}");
    }
    assert!(a.count("host_link_waited") > 500 && b.count("host_link_waited") > 500);
    assert_eq!(a.count("host_link_dropped"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_service_that_floods_drops_its_own_datagrams_and_none_of_another() {
    let slow =
        |config: NodeConfig| config.with_link_rate(1_000_000).with_datagram_queue_bytes_max(20_000);
    let (_endpoint, [a, b], played) = open_beside_played(slow, [A, B]);
    for number in 0..1_000 {
        a.send(1, Lane::Datagram, number, vec![7; 900]);
    }
    for number in 0..10 {
        b.send(1, Lane::Datagram, number, vec![7; 900]);
    }
    let order = tokio::task::spawn_blocking(move || received(&played, 25)).await.expect("some");
    assert_eq!(count_of(&order, B), 10, "{order:?}");
    assert!(a.count("host_link_dropped") > 900, "{}", a.count("host_link_dropped"));
    assert_eq!(b.count("host_link_dropped"), 0);
}

/// Two nodes with services A and B. The stream from the first to the second has more messages of A
/// than it takes, 3,000 of 10,000 bytes, since the second reads nothing.
async fn flooded() -> [(Endpoint, [Running; 2]); 2] {
    let (mut bound, roster) = bind_all(2, |config| config);
    let mut second = open(bound.pop().expect("two"), &roster, [A, B]);
    let first = open(bound.pop().expect("two"), &roster, [A, B]);
    let (a, at_a) = (&first.1[0], &mut second.1[0]);
    a.send(1, Lane::Stream, 0, "it stands");
    at_a.message().await;
    at_a.node.emulate(EmulateChange::Pause(Duration::from_secs(3600))).expect("it runs");
    for number in 0..3_000 {
        a.send(1, Lane::Stream, number, vec![7; 10_000]);
    }
    a.counted("host_link_waited", 1_000).await;
    [first, second]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_flooded_stream_delays_another_service_by_a_turn_and_is_no_backlog_of_it() {
    let [(_first, [_a, mut b]), (_second, [mut at_a, mut at_b])] = flooded().await;
    b.send(1, Lane::Stream, 0, "in turn");
    b.order(Order::AskBacklog(NodeId(1)));
    let backlog = b.find(|report| match report {
        Report::Backlog(bytes) => Some(*bytes),
        _ => None,
    });
    assert!(backlog.await < 100, "its own message");
    at_b.node.emulate(EmulateChange::Pause(Duration::from_millis(1))).expect("it runs");
    assert_eq!(at_b.message().await.number, 0);
    let before = at_a.count("post_received");
    assert!(before < 2_000, "{before} of 3000 messages went before it");
    // Nothing is lost, and the order is kept.
    assert!(at_a.numbers(3_000).await.into_iter().eq(0..3_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_for_a_stream_that_breaks_is_lost_with_it_and_counted() {
    let [(first, [a, _b]), second] = flooded().await;
    assert!(first.stats().held.link_bytes > 5_000_000);
    a.order(Order::Disconnect(NodeId(1)));
    let wait = async {
        while first.stats().held.link_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it is dropped");
    assert!(first.stats().counters.count("stream_bytes_lost") > 5_000_000);
    drop(second);
}
