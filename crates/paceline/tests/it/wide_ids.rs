//! Every service among hosts whose ids are the same in their lower 32 bits.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use paceline::multicast::Rate;
use paceline::net::{EmulateChange, Peers};
use paceline::proto::core::{LinkFaults, Loss};
use paceline::{Event, Host, NodeId, View, dht, multicast};

use crate::support::ring;

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

fn ids() -> [NodeId; 4] {
    [5, 5 | 1 << 32, 5 | 1 << 52, 5 | 1 << 63].map(NodeId)
}

async fn host(id: NodeId) -> Host {
    Host::builder("test").id(id).start().await.unwrap()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("in time")
}

fn is_of_all(view: &View) -> bool {
    ids().iter().all(|&id| view.rank(id).is_some())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_delivers_the_messages_of_each() {
    let [first, others @ ..] = ids();
    let mut members = vec![host(first).await.group("g").bootstrap().await.unwrap()];
    let peer = members[0].0.local_addr().to_string();
    for id in others {
        members.push(host(id).await.group("g").peers([&peer]).join().await.unwrap());
    }
    for (_, events) in &mut members {
        loop {
            match soon(events.recv()).await.expect("it runs") {
                Event::View(view) if is_of_all(&view) => break,
                _ => {}
            }
        }
    }
    for (group, _) in &members {
        group.broadcast(group.id().to_string()).await.unwrap();
    }
    for (_, events) in &mut members {
        let mut origins = BTreeSet::new();
        while origins.len() < ids().len() {
            let delivery = soon(events.delivery()).await.unwrap();
            assert_eq!(delivery.payload, Bytes::from(delivery.origin.to_string()));
            assert!(origins.insert(delivery.origin));
        }
        assert_eq!(origins, BTreeSet::from(ids()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multicast_repairs_the_packets_of_each() {
    const PACKETS: u64 = 200;
    let builder = async |id| {
        let multicast = host(id).await.multicast("prices");
        multicast.with_repairs(|config| config.with_rate(Rate { r: 4, c: 3 }))
    };
    let [first, others @ ..] = ids();
    let mut members = vec![builder(first).await.bootstrap().await.unwrap()];
    let peer = members[0].0.local_addr().to_string();
    for id in others {
        members.push(builder(id).await.peers([&peer]).join().await.unwrap());
    }
    for (member, events) in &mut members {
        loop {
            match soon(events.recv()).await.expect("it runs") {
                multicast::Event::View(view) if is_of_all(&view) => break,
                _ => {}
            }
        }
        let faults = LinkFaults { loss: Loss::Independent(0.1), ..LinkFaults::default() };
        member.node().emulate(EmulateChange::Faults { to: Peers::All, faults }).unwrap();
    }
    for number in 0..PACKETS {
        for (member, _) in &members {
            member.send(format!("{number} of {}", member.id())).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    for (member, events) in &mut members {
        let (mut known, mut repaired) = (BTreeSet::new(), 0);
        // Some may be lost for good.
        let wanted = 3 * PACKETS as usize * 9 / 10;
        let packets = async {
            while known.len() < wanted {
                if let Some(multicast::Event::Packet(packet)) = events.recv().await {
                    let said = format!("{} of {}", packet.seq, packet.sender);
                    assert_eq!(packet.payload, Bytes::from(said));
                    repaired += usize::from(packet.how != multicast::How::Direct);
                    known.insert((packet.sender, packet.seq));
                }
            }
        };
        soon(packets).await;
        let senders: BTreeSet<NodeId> = known.iter().map(|&(sender, _)| sender).collect();
        let expected = ids().into_iter().filter(|&id| id != member.id()).collect();
        assert_eq!(senders, expected);
        assert!(repaired > 0, "the loss acted");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_any_algorithm_finds_the_values_of_each() {
    for algorithm in dht::Algorithm::ALL {
        let builder = async |id| host(id).await.dht("table").algorithm(algorithm);
        let [first, others @ ..] = ids();
        let mut hosts = vec![builder(first).await.bootstrap().await.unwrap()];
        let peer = hosts[0].local_addr().to_string();
        for id in others {
            hosts.push(builder(id).await.peers([&peer]).join().await.unwrap());
        }
        for (number, host) in hosts.iter().cycle().take(80).enumerate() {
            soon(host.put(format!("key {number}"), format!("value {number}"))).await.unwrap();
        }
        let mut responsible = BTreeSet::new();
        for number in 0..80 {
            let key = format!("key {number}");
            for host in &hosts {
                let value = soon(host.get(&key)).await.unwrap();
                assert_eq!(value, Some(Bytes::from(format!("value {number}"))), "{algorithm}");
            }
            responsible.insert(soon(hosts[0].locate(&key)).await.unwrap());
        }
        assert_eq!(responsible, BTreeSet::from(ids()), "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walkers_of_a_graph_pass_through_the_servers_of_each() {
    let mut servers = Vec::new();
    for id in ids() {
        servers.push(host(id).await.walks("walks").serve().await.unwrap());
    }
    let names = servers.iter().map(|server| server.local_addr().to_string());
    let client = Host::builder("test").start().await.unwrap().walks("walks").within(SOON);
    let client = client.peers(names).connect().await.unwrap();
    soon(ring::walk(&client, 4)).await;
}
