//! What it takes to send to a group: system calls, and time of a node that does nothing else.

use crate::support;

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use paceline_net::{Multicast, Roster};
use paceline_proto::core::{GroupId, Lane, NodeId};
use support::{Order, Running, TestMessage, bind, config, start};

const PEERS: u32 = 15;
const PORT: u16 = 28_472;

/// A node 0 with 15 peers that do not say anything.
fn talker(multicast: Multicast) -> (Running, Vec<UdpSocket>) {
    let bound = bind(config(0).with_multicast(multicast));
    let peers: Vec<UdpSocket> =
        (0..PEERS).map(|_| UdpSocket::bind("127.0.0.1:0").expect("a port")).collect();
    let addrs = peers.iter().map(|peer| peer.local_addr().expect("bound"));
    let members = (1..).map(NodeId).zip(addrs).chain([(NodeId(0), bound.local_addr())]);
    let roster = Roster::new(members).expect("distinct members");
    (start(bound, &roster), peers)
}

/// Has the Hellos sent that go ahead of a first message.
async fn introduce(node: &Running) {
    let message = TestMessage { lane: Lane::Datagram, number: 0, payload: "".into() };
    node.order(Order::SendGroup(GroupId(1), message));
    while node.node.stats().traffic.datagrams_out <= u64::from(PEERS) {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
}

/// Sends `each` messages of 1,000 bytes to a group in each of `turns` turns. Returns the system
/// calls and the seconds for each message.
async fn cost(node: &Running, turns: u64, each: u64, copies: u64) -> (f64, f64) {
    let done = node.node.stats().traffic;
    let started = Instant::now();
    for turn in 0..turns {
        for number in 0..each {
            let message =
                TestMessage { lane: Lane::Datagram, number, payload: vec![7; 1000].into() };
            node.order(Order::SendGroup(GroupId(1), message));
        }
        let out = done.datagrams_out + (turn + 1) * each * copies;
        while node.node.stats().traffic.datagrams_out < out {
            tokio::task::yield_now().await;
        }
    }
    let messages = (turns * each) as f64;
    let sends = node.node.stats().traffic.datagram_sends - done.datagram_sends;
    (sends as f64 / messages, started.elapsed().as_secs_f64() / messages)
}

#[tokio::test]
async fn copies_for_many_peers_leave_with_few_calls() {
    let (node, _peers) = talker(Multicast::FanOut);
    introduce(&node).await;
    let (sends, _) = cost(&node, 1, 1, u64::from(PEERS)).await;
    assert!(sends <= 2.0, "{sends} calls for {PEERS} copies");
    let (sends, _) = cost(&node, 1, 20, u64::from(PEERS)).await;
    assert!(sends <= 1.0, "{sends} calls for each of 20 messages");
}

#[tokio::test]
async fn what_is_multicast_in_a_turn_leaves_as_one_train() {
    let (node, _peers) = talker(Multicast::native(PORT));
    introduce(&node).await;
    let (sends, _) = cost(&node, 1, 20, 1).await;
    assert!(sends <= 0.5, "{sends} calls for each of 20 messages");
}

#[tokio::test]
#[ignore = "a measurement: run it with `--ignored --nocapture`"]
async fn what_a_message_to_fifteen_peers_costs() {
    for (name, multicast, copies) in
        [("copies", Multicast::FanOut, u64::from(PEERS)), ("multicast", Multicast::auto(PORT), 1)]
    {
        let (node, _peers) = talker(multicast);
        introduce(&node).await;
        for each in [1, 5, 20] {
            let (sends, seconds) = cost(&node, 20_000 / each, each, copies).await;
            let micros = seconds * 1e6;
            println!("{name}, {each} a turn: {sends:.2} calls and {micros:.1} us a message");
        }
    }
}
