//! Several services on one host: one port, one table of peers.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use paceline::identity::{ClusterKey, HostKey};
use paceline::{Event, Events, Group, Host, JoinError, NodeId, View, dht, multicast};
use paceline_seal::{Secret, Suite};

use crate::support::ring;

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

async fn hosts() -> Vec<Host> {
    let mut hosts = Vec::new();
    for id in 1..=4 {
        hosts.push(Host::builder("test").id(NodeId(id)).start().await.unwrap());
    }
    hosts
}

/// The same, with a key of their cluster.
async fn sealed_hosts() -> Vec<Host> {
    let mut hosts = Vec::new();
    for id in 1..=4 {
        let cluster = ClusterKey::generate(Secret::new([7; 32]), Suite::fastest());
        let key = HostKey::generate(&Secret::new([id; 32]));
        let host = Host::builder("test").cluster_key(cluster).host_key(key);
        hosts.push(host.start().await.unwrap());
    }
    hosts
}

fn peer(hosts: &[Host]) -> String {
    hosts[0].address().to_string()
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("in time")
}

async fn until_view(events: &mut Events, of: impl Fn(&View) -> bool) {
    loop {
        match soon(events.recv()).await.expect("it runs") {
            Event::View(view) if of(&view) => return,
            _ => {}
        }
    }
}

async fn group(hosts: &[Host], name: &str) -> Vec<(Group, Events)> {
    let mut members = vec![hosts[0].group(name).bootstrap().await.unwrap()];
    for host in &hosts[1..] {
        members.push(host.group(name).peers([peer(hosts)]).join().await.unwrap());
    }
    for (_, events) in &mut members {
        until_view(events, |view| view.len() == hosts.len()).await;
    }
    members
}

/// Each member broadcasts, and each receives one message of each, of its own group.
async fn all_receive(members: &mut [(Group, Events)], said: &str) {
    let ids: BTreeSet<NodeId> = members.iter().map(|(group, _)| group.id()).collect();
    for (group, _) in members.iter() {
        group.broadcast(format!("{said} of {}", group.id())).await.unwrap();
    }
    for (_, events) in members {
        let mut origins = BTreeSet::new();
        while origins != ids {
            let delivery = soon(events.delivery()).await.unwrap();
            assert_eq!(delivery.payload, Bytes::from(format!("{said} of {}", delivery.origin)));
            assert!(origins.insert(delivery.origin));
        }
    }
}

async fn table(hosts: &[Host], name: &str) -> Vec<dht::Dht> {
    let mut tables = vec![hosts[0].dht(name).bootstrap().await.unwrap()];
    for host in &hosts[1..] {
        tables.push(host.dht(name).peers([peer(hosts)]).join().await.unwrap());
    }
    tables
}

async fn packets_of_each(members: &mut [(multicast::Multicast, multicast::Events)], said: &str) {
    let ids: BTreeSet<NodeId> = members.iter().map(|(member, _)| member.id()).collect();
    for (member, _) in members.iter() {
        member.send(said.to_owned()).await.unwrap();
    }
    for (member, events) in members {
        let mut senders = BTreeSet::from([member.id()]);
        while senders != ids {
            if let Some(multicast::Event::Packet(packet)) = soon(events.recv()).await
                && packet.payload == said
            {
                senders.insert(packet.sender);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_of_each_kind_share_the_ports_of_four_hosts_and_survive_one() {
    share_and_survive(hosts().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_of_each_kind_run_on_hosts_that_seal() {
    let hosts = sealed_hosts().await;
    let watched = hosts.clone();
    share_and_survive(hosts).await;
    for host in &watched[..3] {
        let counters = host.stats().counters;
        // One session with each other host, or two if both dialled at once.
        assert!((3..=6).contains(&counters.count("handshake_made")), "{:?}", counters.sorted());
        assert_eq!(counters.count("record_forged"), 0);
    }
}

async fn share_and_survive(mut hosts: Vec<Host>) {
    let mut orders = group(&hosts, "orders").await;
    let mut audit = group(&hosts, "audit").await;
    let (stock, prices) = (table(&hosts, "stock").await, table(&hosts, "prices").await);
    let mut feed = vec![hosts[0].multicast("prices").bootstrap().await.unwrap()];
    for host in &hosts[1..] {
        feed.push(host.multicast("prices").peers([peer(&hosts)]).join().await.unwrap());
    }
    let mut servers = Vec::new();
    for host in &hosts[..3] {
        servers.push(host.walks("web").serve().await.unwrap());
    }
    let names = servers.iter().map(|server| server.local_addr().to_string());
    let client = hosts[3].walks("web").within(SOON).peers(names).connect().await.unwrap();

    for (number, table) in stock.iter().cycle().take(40).enumerate() {
        soon(table.put(format!("key {number}"), format!("stock {number}"))).await.unwrap();
        let other = &prices[number % 4];
        soon(other.put(format!("key {number}"), format!("price {number}"))).await.unwrap();
    }
    all_receive(&mut orders, "order").await;
    all_receive(&mut audit, "entry").await;
    packets_of_each(&mut feed, "tick").await;
    soon(ring::walk(&client, 3)).await;
    for (host, (group, _)) in hosts.iter().zip(&orders) {
        assert_eq!(group.local_addr(), host.address());
    }
    for table in stock.iter().chain(&prices) {
        assert_eq!(table.stats().counters.count("record_unknown_service"), 0);
    }

    let killed = hosts.pop().unwrap();
    killed.abort().await;
    assert!(stock[3].get("key 1").await.is_err(), "its services have ended");
    for members in [&mut orders, &mut audit] {
        members.pop();
        for (_, events) in members.iter_mut() {
            until_view(events, |view| view.len() == 3).await;
        }
    }
    feed.pop();
    all_receive(&mut orders, "later order").await;
    all_receive(&mut audit, "later entry").await;
    packets_of_each(&mut feed, "later tick").await;
    for (tables, kind) in [(&stock[..3], "stock"), (&prices[..3], "price")] {
        for number in 0..40 {
            let value = soon(tables[number % 3].get(format!("key {number}"))).await.unwrap();
            assert_eq!(value, Some(Bytes::from(format!("{kind} {number}"))));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_ends_and_starts_again_while_others_of_its_host_go_on() {
    let hosts = hosts().await;
    let mut orders = group(&hosts, "orders").await;
    let mut audit = group(&hosts, "audit").await;
    let again = hosts[1].group("orders").peers([peer(&hosts)]).join().await;
    assert!(matches!(&again, Err(JoinError::Start(_))), "{:?}", again.err());
    assert!(
        again.err().unwrap().to_string().contains("runs another service of this kind and name")
    );
    for round in 0..3 {
        let (member, mut events) = orders.remove(1);
        member.leave().await.unwrap();
        while !matches!(soon(events.recv()).await, Some(Event::Left)) {}
        member.stop().await;
        assert!(member.broadcast("too late").await.is_err());
        for (_, events) in &mut orders {
            until_view(events, |view| view.len() == 3).await;
        }
        all_receive(&mut audit, &format!("entry {round}")).await;
        orders.insert(1, hosts[1].group("orders").peers([peer(&hosts)]).join().await.unwrap());
        for (_, events) in &mut orders {
            until_view(events, |view| view.len() == 4).await;
        }
        all_receive(&mut orders, &format!("order {round}")).await;
    }
    // The last handles of a service end it as well.
    drop(audit.remove(1));
    for (_, events) in &mut audit {
        until_view(events, |view| view.len() == 3).await;
    }
    all_receive(&mut audit, "last entry").await;
    all_receive(&mut orders, "last order").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_a_host_does_not_run_is_refused_there_and_the_others_go_on() {
    let hosts = hosts().await;
    let mut orders = group(&hosts[..2], "orders").await;
    let soon = Duration::from_secs(2);
    let joined = hosts[2].group("audit").within(soon).peers([peer(&hosts)]).join().await;
    assert!(matches!(joined, Err(JoinError::NotRun { .. })), "{:?}", joined.err());
    let refused = orders[0].0.stats().counters.count("record_unknown_service");
    assert!(refused > 0, "it asked");
    all_receive(&mut orders, "order").await;
    // The same host joins what there is.
    let (third, _events) = hosts[2].group("orders").peers([peer(&hosts)]).join().await.unwrap();
    assert_eq!(third.view().unwrap().len(), 3);
}
