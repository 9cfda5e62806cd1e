//! Messages, timers, views and commands on healthy links.

use crate::support;

use std::time::Duration;

use paceline_proto::core::{GroupId, Lane, Membership, NodeId, Payload};
use support::{
    Order, Post, Report, Running, TestMessage, bind_all, cluster, pair, start, start_with,
};

#[tokio::test]
async fn both_lanes_deliver() {
    let (a, mut b) = pair();
    a.send(1, Lane::Stream, 1, "by stream");
    a.send(1, Lane::Datagram, 2, "by datagram");
    let mut got = [b.message().await, b.message().await];
    got.sort_by_key(|message| message.number);
    assert_eq!(got[0].payload, Payload::from("by stream"));
    assert_eq!(got[1].payload, Payload::from("by datagram"));
    assert_eq!((got[0].lane, got[1].lane), (Lane::Stream, Lane::Datagram));
    assert_eq!(b.count("post_received"), 2);
}

#[tokio::test]
async fn a_stream_keeps_order_and_bytes_at_every_size() {
    let (a, mut b) = pair();
    let size =
        |number: u64| [0, 1, 100, 1023, 1024, 1025, 8000, 65_536, 300_000][number as usize % 9];
    for number in 0..450 {
        a.send(1, Lane::Stream, number, vec![number as u8; size(number)]);
    }
    for number in 0..450 {
        let message = b.message().await;
        assert_eq!(message.number, number);
        assert!(message.payload == Payload::from(vec![number as u8; size(number)]));
    }
}

#[tokio::test]
async fn zeros_arrive_as_written_out_zeros() {
    let (a, mut b) = pair();
    a.send(1, Lane::Stream, 0, Payload::Zeros(200_000));
    assert_eq!(b.message().await.payload, Payload::Zeros(200_000));
}

#[tokio::test]
async fn a_burst_of_datagrams_to_one_peer_travels_as_trains() {
    let (a, mut b) = pair();
    for number in 0..200 {
        a.send(1, Lane::Datagram, number, vec![number as u8; 1000]);
    }
    let mut numbers = b.numbers(200).await;
    numbers.sort_unstable();
    assert_eq!(numbers, (0..200).collect::<Vec<_>>());
    let traffic = a.node.stats().traffic;
    assert!(traffic.datagram_sends <= traffic.datagrams_out, "{traffic:?}");
}

#[tokio::test]
async fn messages_of_one_turn_share_datagrams_as_long_as_these_may_be() {
    let (a, mut b) = pair();
    let size = |number: u64| [1, 60, 500, 1100, 0, 200, 7][number as usize % 7];
    let mut bytes = 0;
    for number in 0..2000 {
        a.send(1, Lane::Datagram, number, vec![number as u8; size(number)]);
        bytes += size(number);
    }
    let mut numbers = Vec::new();
    for _ in 0..2000 {
        let message = b.message().await;
        assert!(message.payload == Payload::from(vec![message.number as u8; size(message.number)]));
        numbers.push(message.number);
    }
    assert!(numbers.is_sorted(), "loopback keeps the order, and so do bundles");
    let traffic = a.node.stats().traffic;
    let (out, bundled) = (traffic.datagrams_out, traffic.datagram_messages_bundled);
    // Hellos are datagrams as well.
    assert!((2000..2010).contains(&(out + bundled)), "{traffic:?}");
    // Three of four join another one where all of a turn is there; a turn may have few.
    assert!(bundled > 500, "{traffic:?}");
    assert!(traffic.datagram_bytes_out < bytes as u64 + 2000 * (6 + 9) + out * 44, "{traffic:?}");
}

#[tokio::test]
async fn a_node_sends_to_itself_like_to_any_other() {
    let mut nodes = cluster(1);
    nodes[0].send(0, Lane::Stream, 1, "self");
    nodes[0].send(0, Lane::Datagram, 2, "self");
    let mut numbers = nodes[0].numbers(2).await;
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
}

#[tokio::test]
async fn the_queue_is_kept_while_a_peer_has_not_started() {
    let (mut bound, roster) = bind_all(2, |config| config);
    let late = bound.pop().expect("two");
    let (addr, a) = (late.local_addr(), start(bound.pop().expect("two"), &roster));
    drop(late);
    for number in 0..10 {
        a.send(1, Lane::Stream, number, "early");
    }
    a.counted("stream_dial_failed", 2).await;
    let bound = paceline_net::Bound::bind(addr, support::config(1)).expect("the same port");
    let mut b = start(bound, &roster);
    assert_eq!(b.numbers(10).await, (0..10).collect::<Vec<_>>());
    assert_eq!(a.count("stream_broken"), 0);
}

#[tokio::test]
async fn a_timer_fires_at_its_time_or_later() {
    let (mut a, _b) = pair();
    a.order(Order::SetTimer(Duration::from_millis(20), 4));
    let Report::Timer(4, due, fired) = a.next().await else {
        panic!("the timer");
    };
    assert!(fired >= due);
}

#[tokio::test]
async fn a_view_reaches_the_protocol_in_order_with_commands() {
    let (mut bound, roster) = bind_all(2, |config| config);
    let mut a =
        start_with(bound.remove(0), &roster, Post { admitted_bytes: Some(10), ..Post::default() });
    a.order(Order::Fill(1));
    a.node.install_view(roster.view().into()).expect("the node runs");
    a.order(Order::Fill(1));
    let reports = [a.next().await, a.next().await, a.next().await];
    assert_eq!(reports, [Report::Filled, Report::View(2), Report::Filled]);
}

#[tokio::test]
async fn what_cannot_be_sent_is_counted() {
    let (bound, roster) = bind_all(2, |config| config.with_record_bytes_max(100_000));
    let nodes: Vec<_> = bound.into_iter().map(|bound| start(bound, &roster)).collect();
    nodes[0].send(1, Lane::Datagram, 1, vec![0; 1200]);
    nodes[0].send(1, Lane::Stream, 1, vec![0; 100_000]);
    nodes[0].send(9, Lane::Stream, 1, "no member");
    nodes[0].counted("datagram_unsendable", 1).await;
    nodes[0].counted("stream_unsendable", 1).await;
    nodes[0].counted("send_unknown_member", 1).await;
}

#[tokio::test]
async fn four_nodes_all_to_all_keep_fifo_per_sender() {
    let mut nodes = cluster(4);
    for number in 0..100 {
        for (from, node) in nodes.iter().enumerate() {
            for to in (0..4).filter(|&to| to != from as u32) {
                node.send(to, Lane::Stream, number, vec![from as u8; 2000]);
            }
        }
    }
    for node in &mut nodes {
        let mut next = [0; 4];
        for _ in 0..300 {
            let Report::TestMessage(NodeId(from), message) = node.next().await else {
                panic!("only messages");
            };
            assert_eq!(message.number, next[from as usize]);
            next[from as usize] += 1;
        }
    }
}

const GROUP: GroupId = GroupId(7);

async fn set(node: &mut Running, membership: Membership) {
    node.order(Order::Set(GROUP, membership));
    node.find(|report| (*report == Report::Set).then_some(())).await;
}

fn to_group(number: u64, bytes: usize) -> Order {
    let payload = Payload::from(vec![number as u8; bytes]);
    Order::SendGroup(GROUP, TestMessage { lane: Lane::Datagram, number, payload })
}

#[tokio::test]
async fn what_is_sent_to_a_group_goes_to_every_other_node_that_has_joined() {
    let mut nodes = cluster(4);
    for node in [0, 1, 2] {
        set(&mut nodes[node], Membership::Joined).await;
    }
    nodes[0].order(to_group(1, 100));
    assert_eq!(nodes[1].message().await.number, 1);
    let message = nodes[2].message().await;
    assert_eq!((message.number, message.payload), (1, Payload::from(vec![1; 100])));
    nodes[3].counted("group_not_joined", 1).await;
    set(&mut nodes[2], Membership::Left).await;
    // A sender need not have joined.
    nodes[3].order(to_group(2, 100));
    assert_eq!(nodes[0].message().await.number, 2, "its own message did not come back");
    assert_eq!(nodes[1].message().await.number, 2);
    nodes[2].counted("group_not_joined", 1).await;
    assert_eq!(nodes[3].count("group_not_joined"), 1);
}

#[tokio::test]
async fn the_longest_message_that_a_datagram_carries_may_go_to_a_group() {
    let mut nodes = cluster(2);
    set(&mut nodes[1], Membership::Joined).await;
    // 1,200 bytes less the record header, the group's number and the head of a message.
    let longest = 1200 - 32 - 4 - 9;
    nodes[0].order(to_group(1, longest + 1));
    nodes[0].counted("datagram_unsendable", 1).await;
    nodes[0].order(to_group(2, longest));
    assert_eq!(nodes[1].message().await.number, 2);
}
