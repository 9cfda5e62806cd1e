//! Applications that do not receive their events.

use crate::support;

use std::net::UdpSocket;
use std::time::Duration;

use paceline_net::record::{ClusterTag, Header, Kind, ServiceNumber, Session};
use paceline_net::{NodeConfig, Roster};
use paceline_proto::core::{Lane, NodeId, PeerState};
use support::{Report, Running, bind, config, start};

const EVENTS_BYTES_MAX: usize = 100_000;
/// What one turn may add: a share of a stream, and what was read into its buffer with it.
const TURN_BYTES_MAX: usize = 2 * (256 << 10);
const MESSAGES: u64 = 4000;
const MESSAGE_BYTES: usize = 4000;
/// Messages that are received before the application stops to.
const READ: u64 = 2000;

/// Nodes 0 and 1, and a member 2 that the test plays. Node 0 bounds its events.
fn nodes(adjust: impl Fn(NodeConfig) -> NodeConfig) -> (Running, Running, UdpSocket) {
    let zero = bind(adjust(config(0)).with_events_bytes_max(EVENTS_BYTES_MAX));
    let one = bind(config(1));
    let played = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let members = [zero.local_addr(), one.local_addr(), played.local_addr().unwrap()];
    let roster = Roster::new((0..).map(NodeId).zip(members)).expect("three members");
    (start(zero, &roster), start(one, &roster), played)
}

fn flood(one: &Running) {
    for number in 0..MESSAGES {
        one.send(0, Lane::Stream, number, vec![7; MESSAGE_BYTES]);
    }
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_application_that_does_not_receive_holds_its_peers_back_and_loses_nothing() {
    let within = Duration::from_millis(200);
    let (mut zero, one, two) =
        nodes(|config| config.with_record_within(within).with_hello_within(within));
    flood(&one);
    // It does for a while, so that the stream is a busy one that gathers before it is read.
    assert_eq!(zero.numbers(READ as usize).await, (0..READ).collect::<Vec<u64>>());
    zero.counted("event_held_peers", 1).await;
    let mut received = 0;
    while zero.count("post_received") != received {
        received = zero.count("post_received");
        wait(200).await;
    }
    let before = (received, zero.node.stats().traffic.turns);

    // More datagrams, and a stream: nothing of these is taken.
    let session = Session::new(1000, 1);
    let header = |kind, sequence| Header {
        kind,
        epoch: 0,
        service: kind.number(ServiceNumber::default()),
        cluster: ClusterTag::of("test"),
        sender: NodeId(2),
        session: session.tag(),
        sequence,
    };
    let to = zero.node.local_addr();
    two.send_to(&[&header(Kind::Hello, 0).encode()[..], session.as_bytes()].concat(), to).unwrap();
    for number in 0..100_u8 {
        let message = [0, 0, 0, 0, 0, 0, 0, 0, number];
        let record = [&header(Kind::Message, 1).encode()[..], &message].concat();
        two.send_to(&record, to).unwrap();
    }
    // Longer than a record and a Hello may take, which are not this node's to judge meanwhile.
    wait(1500).await;
    let stats = zero.node.stats();
    let held = stats.held.events_bytes;
    // Until half of the bound is left it stays held, also where it was before.
    assert!((EVENTS_BYTES_MAX / 2..EVENTS_BYTES_MAX + TURN_BYTES_MAX).contains(&held), "{held}");
    assert_eq!(stats.counters.count("post_received"), before.0, "nothing was taken");
    assert!(before.0 < READ + MESSAGES / 4, "{}", before.0);
    let turns = stats.traffic.turns - before.1;
    assert!(turns < 30, "a node that is held back sleeps: {turns} turns");

    let mut messages = [READ, 0];
    while messages != [MESSAGES, 100] {
        let Report::TestMessage(from, message) = zero.next().await else { continue };
        let next = &mut messages[from.index() - 1];
        assert_eq!(message.number, *next, "of {from}, in order");
        *next += 1;
    }
    let stats = zero.node.stats();
    assert_eq!(stats.held.events_bytes, 0);
    for lost in ["record_timed_out", "accept_timed_out", "event_discarded"] {
        assert_eq!(stats.counters.count(lost), 0, "{lost}");
    }
    assert_eq!(one.count("stream_broken"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_is_held_back_goes_on_sending_and_is_told_of_a_break_once() {
    let (mut zero, mut one, _two) = nodes(|config| config);
    zero.send(1, Lane::Stream, 0, "first");
    one.numbers(1).await;
    flood(&one);
    zero.counted("event_held_peers", 1).await;
    for number in 1..50 {
        zero.send(1, Lane::Stream, number, "more");
        zero.send(1, Lane::Datagram, 1000 + number, "more");
    }
    let mut numbers = one.numbers(98).await;
    numbers.sort_unstable();
    assert_eq!(numbers, (1..50).chain(1001..1050).collect::<Vec<u64>>());

    // The peer stops. Later sends detect that, and the notifications of it are bounded.
    one.node.stop().await;
    for number in 0..20 {
        zero.send(1, Lane::Stream, number, "to no reader");
        wait(10).await;
    }
    zero.counted("stream_broken", 1).await;
    let down = zero
        .find(|report| match report {
            Report::Peer(NodeId(1), state) => Some(*state),
            _ => None,
        })
        .await;
    assert_eq!(down, PeerState::Down);
    assert_eq!(zero.count("stream_broken"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn events_that_nobody_will_receive_hold_nobody_back() {
    let (zero, one, _two) = nodes(|config| config);
    flood(&one);
    zero.counted("event_held_peers", 1).await;
    let Running { node, events } = zero;
    drop(events);
    let all = async {
        while node.stats().counters.count("post_received") < MESSAGES {
            wait(2).await;
        }
    };
    tokio::time::timeout(support::PATIENCE, all).await.expect("all in time");
    let stats = node.stats();
    assert_eq!(stats.held.events_bytes, 0);
    assert!(stats.counters.count("event_discarded") > MESSAGES / 2);
}
