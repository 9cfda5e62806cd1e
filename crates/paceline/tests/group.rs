//! Groups on real loopback sockets.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use paceline::net::{Bound, EmulateChange, NodeConfig};
use paceline::{
    BroadcastError, Deliveries, Group, GroupConfig, Host, NodeId, Roster, Topology,
    TryBroadcastError,
};

type Change = fn(GroupConfig) -> GroupConfig;

/// A cluster of this many members in this process.
fn cluster(members: u32, change: Change) -> Vec<Host> {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let bind = |id| Bound::bind(anywhere, NodeConfig::new("test", NodeId(id))).unwrap();
    let bound: Vec<Bound> = (0..members).map(bind).collect();
    let addresses = (0..).map(NodeId).zip(bound.iter().map(Bound::local_addr));
    let roster = Roster::new(addresses).unwrap();
    let config = change(GroupConfig::new(roster.view())).build().unwrap();
    let start = |bound| Host::on(bound, roster.clone(), config.clone()).unwrap();
    bound.into_iter().map(start).collect()
}

fn split(hosts: Vec<Host>) -> (Vec<Group>, Vec<Deliveries>) {
    hosts.into_iter().map(Host::group).unzip()
}

/// The next messages of each member, `count` in all, as `(origin, text)`.
async fn receive(deliveries: &mut Deliveries, count: usize) -> Vec<(u32, String)> {
    let mut received = Vec::new();
    while received.len() < count {
        let next = tokio::time::timeout(Duration::from_secs(20), deliveries.recv()).await;
        let delivery = next.expect("a message comes in time").expect("the host runs");
        let text = String::from_utf8(delivery.payload.to_vec()).unwrap();
        received.push((delivery.origin.0, text));
    }
    received
}

#[tokio::test]
async fn every_member_gets_every_message_in_the_order_of_its_sender() {
    for topology in Topology::ALL {
        let (groups, deliveries) = split(cluster(4, |config| config));
        for (id, group) in groups.iter().enumerate() {
            let group = group.with_topology(topology);
            for number in 0..20 {
                group.broadcast(format!("{id}-{number}")).await.unwrap();
            }
        }
        for mut deliveries in deliveries {
            let received = receive(&mut deliveries, 80).await;
            for id in 0..4 {
                let of_one: Vec<_> = received.iter().filter(|(origin, _)| *origin == id).collect();
                let expected: Vec<_> =
                    (0..20).map(|number| (id, format!("{id}-{number}"))).collect();
                assert_eq!(of_one, expected.iter().collect::<Vec<_>>(), "{topology}");
            }
        }
    }
}

#[tokio::test]
async fn a_large_message_is_cut_and_delivered_whole() {
    let (groups, deliveries) = split(cluster(3, |config| config));
    let message: Bytes = (0..5_000_000u32).map(|i| (i % 251) as u8).collect::<Vec<u8>>().into();
    groups[1].broadcast(message.clone()).await.unwrap();
    for mut deliveries in deliveries {
        assert_eq!(deliveries.recv().await.unwrap().payload, message);
    }
}

#[tokio::test]
async fn a_message_that_is_too_large_is_refused_and_an_empty_one_is_not() {
    let (groups, mut deliveries) = split(cluster(2, |config| config.with_message_bytes_max(100)));
    let refused = groups[0].broadcast(vec![0; 101]).await;
    assert_eq!(refused, Err(BroadcastError::TooLarge { bytes: 101, bytes_max: 100 }));
    groups[0].broadcast(Bytes::new()).await.unwrap();
    assert!(deliveries[1].recv().await.unwrap().payload.is_empty());
}

#[tokio::test]
async fn a_slow_reader_slows_its_sender_and_loses_nothing() {
    const MESSAGE: usize = 4000;
    let small: Change = |config| {
        let config = config.with_block_bytes_max(16 * 1024).with_window_bytes(64 * 1024);
        config.with_queue_bytes(16 * 1024)
    };
    let (groups, mut deliveries) = split(cluster(3, small));
    let slow = deliveries.pop().unwrap();
    for mut fast in deliveries {
        tokio::spawn(async move { while fast.recv().await.is_some() {} });
    }
    // Nobody reads at the third member: its sender must be stopped, by the window.
    let mut accepted = 0u32;
    let mut refusals = 0;
    while refusals < 50 {
        let message = [accepted.to_be_bytes().to_vec(), vec![0; MESSAGE - 4]].concat();
        match groups[0].try_broadcast(message) {
            Ok(()) => {
                accepted += 1;
                refusals = 0;
            }
            Err(TryBroadcastError::WouldBlock(_)) => {
                refusals += 1;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            Err(error) => panic!("{error}"),
        }
        assert!(accepted < 1000, "the slow reader holds nobody back");
    }
    assert!(accepted as usize * MESSAGE >= 64 * 1024, "the window was not used: {accepted}");
    // Once it reads, all that was accepted comes, and more is accepted.
    let group = groups[0].clone();
    let more = tokio::spawn(async move {
        for number in accepted..accepted + 200 {
            let message = [number.to_be_bytes().to_vec(), vec![0; MESSAGE - 4]].concat();
            group.broadcast(message).await.unwrap();
        }
    });
    let mut slow = slow;
    for number in 0..accepted + 200 {
        let delivery = slow.recv().await.unwrap();
        assert_eq!(delivery.payload[..4], number.to_be_bytes());
    }
    more.await.unwrap();
}

#[tokio::test]
async fn a_hop_that_breaks_again_and_again_resumes_and_loses_nothing() {
    let hosts = cluster(4, |config| config);
    let nodes: Vec<_> = hosts.iter().map(|host| host.node().clone()).collect();
    let (groups, deliveries) = split(hosts);
    let sender = groups[0].clone();
    let breaking = nodes.clone();
    tokio::spawn(async move {
        for number in 0..3000 {
            sender.broadcast(format!("{number:01000}")).await.unwrap();
            // In the midst of the stream, one hop after the other.
            if number % 250 == 125 {
                let from = number / 250 % 3;
                breaking[from].emulate(EmulateChange::Reset(NodeId(from as u32 + 1))).unwrap();
            }
        }
    });
    // All read at once: who does not read holds the sender back.
    let readers: Vec<_> = deliveries
        .into_iter()
        .map(|mut deliveries| tokio::spawn(async move { receive(&mut deliveries, 3000).await }))
        .collect();
    for reader in readers {
        for (number, (origin, text)) in reader.await.unwrap().into_iter().enumerate() {
            assert_eq!((origin, text), (0, format!("{number:01000}")));
        }
    }
    let resumed = nodes.iter().map(|node| node.stats().counters.count("chain_hop_resumed"));
    assert!(resumed.sum::<u64>() > 0, "no hop was broken while it was in use");
}

#[tokio::test]
async fn a_group_of_one_delivers_to_itself() {
    let (groups, mut deliveries) = split(cluster(1, |config| config));
    for topology in Topology::ALL {
        groups[0].with_topology(topology).broadcast("alone").await.unwrap();
        assert_eq!(deliveries[0].recv().await.unwrap().payload, "alone");
    }
}

#[tokio::test]
async fn members_that_start_late_get_what_was_accepted_before() {
    let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let bind = |id| Bound::bind(anywhere, NodeConfig::new("late", NodeId(id))).unwrap();
    let (first, second) = (bind(0), bind(1));
    let address = second.local_addr();
    let members = [(NodeId(0), first.local_addr()), (NodeId(1), address)];
    let roster = Roster::new(members).unwrap();
    drop(second);
    let config = GroupConfig::new(roster.view()).build().unwrap();
    let (group, _own) = Host::on(first, roster.clone(), config).unwrap().group();
    group.broadcast("early").await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let late = Host::builder("late", roster, NodeId(1)).start().unwrap();
    let (_group, mut deliveries) = late.group();
    assert_eq!(deliveries.recv().await.unwrap().payload, "early");
}
