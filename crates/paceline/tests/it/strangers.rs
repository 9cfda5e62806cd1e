//! Nodes that belong to nothing, and addresses that have proven nothing: what services send there,
//! and what false announcements do to a table.

use crate::support;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline::net::record::{HEADER_BYTES, Kind, ServiceNumber};
use paceline::proto::core::{Member, Wire};
use paceline::proto::graphshare::{GraphMessage, GraphPlan, OpenRequest};
use paceline::proto::overlay::{
    Addresses, Algorithm, Body, Key, Message, Purpose, PutItem, Route, TableQuery, Target,
};
use paceline::proto::{group, multicast, walk};
use paceline::{Dht, Host, NodeId};
use support::builder;
use support::stranger::{Stranger, encoded};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(30);
/// Longer than any address is asked for that does not answer, a second time included.
const WATCHED: Duration = Duration::from_millis(3500);
/// What IPv4 and UDP add to a datagram.
const HEADS: usize = 28;

fn dht_service() -> ServiceNumber {
    ServiceNumber::of("dht/chord", "table")
}

/// One exchange: what was sent, and what came to an address that never answered.
#[derive(Debug, Default)]
struct Exchange {
    name: &'static str,
    sent: (usize, usize),
    received: (usize, usize),
    is_dialled: bool,
}

impl Exchange {
    fn factor(&self) -> f64 {
        self.received.0 as f64 / self.sent.0 as f64
    }

    fn factor_on_the_wire(&self) -> f64 {
        let bytes = |(bytes, datagrams): (usize, usize)| (bytes + HEADS * datagrams) as f64;
        bytes(self.received) / bytes(self.sent)
    }
}

/// A record from an address that does not answer, as with a forged source.
async fn own(
    name: &'static str,
    service: (ServiceNumber, SocketAddr),
    id: u64,
    (kind, body): (Kind, Vec<u8>),
) -> Exchange {
    let victim = Stranger::new(service.0, id);
    let sent = victim.say(service.1, kind, &body);
    watch(name, (sent, 1), &victim).await
}

/// A Hello alone.
async fn hello(name: &'static str, service: (ServiceNumber, SocketAddr), id: u64) -> Exchange {
    let victim = Stranger::new(service.0, id);
    let sent = victim.say(service.1, Kind::Hello, victim.session.as_bytes());
    watch(name, (sent, 1), &victim).await
}

/// The same behind a Hello and the question that is answered with a verification tag, so that
/// messages are understood.
async fn after_hello(
    name: &'static str,
    service: (ServiceNumber, SocketAddr),
    id: u64,
    message: impl Wire,
) -> Exchange {
    let victim = Stranger::new(service.0, id);
    let [(sent, datagrams), before] = victim.meets(service.1).await;
    let sent = sent + victim.say(service.1, Kind::Message, &encoded(&message));
    let mut exchange = watch(name, (sent, datagrams + 1), &victim).await;
    exchange.received = (exchange.received.0 + before.0, exchange.received.1 + before.1);
    exchange
}

/// A message of a node that has proven its own address and names another one: with no source
/// forged.
async fn naming<M: Wire>(
    name: &'static str,
    service: (ServiceNumber, SocketAddr),
    id: u64,
    message: impl FnOnce(NodeId, Bytes) -> M,
) -> Exchange {
    let (attacker, victim) = (Stranger::new(service.0, id), Stranger::new(service.0, id + 1));
    attacker.proves_itself(service.1).await;
    let message = message(NodeId(id + 1), Bytes::from(victim.addr().to_string()));
    let sent = attacker.say(service.1, Kind::Message, &encoded(&message));
    let (exchange, ()) = tokio::join!(watch(name, (sent, 1), &victim), async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            attacker.answer(service.1);
        }
    });
    exchange
}

async fn watch(name: &'static str, sent: (usize, usize), victim: &Stranger) -> Exchange {
    let mut exchange = Exchange { name, sent, ..Exchange::default() };
    let mut buffer = [0; 70_000];
    let end = tokio::time::Instant::now() + WATCHED;
    while tokio::time::Instant::now() < end {
        while let Ok((bytes, _)) = victim.udp.recv_from(&mut buffer) {
            exchange.received.0 += bytes;
            exchange.received.1 += 1;
        }
        exchange.is_dialled |= victim.tcp.accept().is_ok();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    exchange
}

fn name_of(number: usize) -> Bytes {
    Bytes::from(format!("key {number}"))
}

fn keys(count: usize) -> Vec<Key> {
    let mut keys: Vec<Key> = (0..count).map(|number| Key::of(&name_of(number))).collect();
    keys.sort_unstable();
    keys
}

fn targets(count: usize) -> Arc<[Target]> {
    keys(count).into_iter().map(|key| Target { key, walk: Algorithm::Chord.first_walk() }).collect()
}

fn get(initiator: NodeId, exchange: u32, count: usize) -> Body {
    Body::Route(Route {
        exchange,
        ttl: 20,
        initiator,
        is_member: false,
        tag: 5,
        purpose: Purpose::Get,
        targets: targets(count),
    })
}

fn with_address(body: Body, node: NodeId, address: Bytes) -> Message {
    Message { body, addresses: Addresses(Some([(node, address)].into())) }
}

fn contact(node: NodeId, address: Bytes) -> group::Contact {
    group::Contact { member: Member { node, incarnation: 7 }, host: 0, token: 9, address }
}

fn plan(servers: Vec<(NodeId, Bytes)>) -> walk::Message {
    let plan = GraphPlan {
        id: 77,
        vertices: 10,
        is_weighted: false,
        is_labelled: false,
        servers,
        pass: None,
    };
    let open = GraphMessage::Open(OpenRequest { plan, replaces: true });
    walk::Message::Graph(77, Box::new(open))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_service_sends_more_than_three_times_what_came_to_an_address_that_proved_nothing() {
    let table = builder(1).await.bootstrap().await.unwrap();
    for number in 0..4 {
        table.put(name_of(number), vec![b'x'; 1000]).await.unwrap();
    }
    let (group, _events) = Host::builder("test")
        .id(NodeId(1))
        .start()
        .await
        .unwrap()
        .group("g")
        .bootstrap()
        .await
        .unwrap();
    let (multicast, _packets) = Host::builder("test")
        .id(NodeId(1))
        .start()
        .await
        .unwrap()
        .multicast("m")
        .bootstrap()
        .await
        .unwrap();
    let server = Host::builder("test")
        .id(NodeId(1))
        .start()
        .await
        .unwrap()
        .walks("w")
        .serve()
        .await
        .unwrap();

    let dht = (dht_service(), table.local_addr());
    let g = (group.node().number(), group.local_addr());
    let m = (multicast.node().number(), multicast.local_addr());
    let w = (ServiceNumber::of("walks", "w"), server.local_addr());
    let message = |body: Body| Message::from(body);
    let put = PutItem {
        key: keys(1)[0],
        lifetime_ms: 1000,
        after: 0,
        value: Some(Bytes::from_static(b"\0\x05key 0v").into()),
    };
    let group_join = |node, address| group::Message::Join(contact(node, address));
    let multicast_join =
        |node, address| multicast::Message::Group(group::Message::Join(contact(node, address)));
    let at = |addr: &'static str| Bytes::from_static(addr.as_bytes());
    let name_host = |node, address| plan(vec![(NodeId(1), at("127.0.0.1:1")), (node, address)]);

    // All services have this in common.
    let rows = tokio::join!(
        own("Who", dht, 100, (Kind::Who, vec![])),
        own("Who with a nonce", dht, 102, (Kind::Who, vec![1; 8])),
        own("a message, unknown sender", dht, 104, (Kind::Message, vec![0])),
        after_hello("Hello, Ping", dht, 106, message(Body::Ping { exchange: 1 })),
        after_hello("Hello, Route{Get}, 1 key", dht, 108, message(get(NodeId(108), 1, 1))),
        after_hello("Hello, Route{Get}, 2 keys", dht, 110, message(get(NodeId(110), 1, 2))),
        after_hello("Hello, Route{Get}, 4 keys", dht, 112, message(get(NodeId(112), 1, 4))),
    );
    let mut rows = vec![rows.0, rows.1, rows.2, rows.3, rows.4, rows.5, rows.6];
    let find = Body::Find {
        exchange: 1,
        is_member: false,
        tag: 5,
        purpose: Purpose::Get,
        targets: targets(4),
    };
    let fetch = Body::Fetch { exchange: 1, keys: keys(4).into() };
    let write = Body::Put { exchange: 1, is_member: false, write: 1, items: [put].into() };
    let ask = Body::Ask { exchange: 1, is_member: true, query: TableQuery::Neighbours };
    let more = tokio::join!(
        after_hello("Hello, Find{Get}, 4 keys", dht, 120, message(find)),
        after_hello("Hello, Fetch, 4 keys", dht, 122, message(fetch)),
        after_hello("Hello, Put", dht, 124, message(write)),
        after_hello("Hello, Ask", dht, 126, message(ask)),
        after_hello("Hello, Notify", dht, 128, message(Body::Notify)),
        naming("Route{Get}, 1 key, naming another", dht, 130, |node, address| {
            with_address(get(node, 1, 1), node, address)
        }),
        naming("Route{Get}, 2 keys, naming another", dht, 132, |node, address| {
            with_address(get(node, 1, 2), node, address)
        }),
        naming("Route{Get}, 4 keys, naming another", dht, 134, |node, address| {
            with_address(get(node, 1, 4), node, address)
        }),
        naming("Notify, naming another", dht, 136, |node, address| {
            with_address(Body::Notify, node, address)
        }),
    );
    rows.extend([more.0, more.1, more.2, more.3, more.4, more.5, more.6, more.7, more.8]);
    let more = tokio::join!(
        hello("group: Hello", g, 200),
        after_hello("group: Hello, Join", g, 202, group_join(NodeId(202), at(""))),
        naming("group: Join, naming another", g, 204, group_join),
        hello("multicast: Hello", m, 206),
        after_hello("multicast: Hello, Join", m, 208, multicast_join(NodeId(208), at(""))),
        naming("multicast: Join, naming another", m, 210, multicast_join),
        hello("walk: Hello", w, 212),
        after_hello("walk: Hello, Open", w, 214, plan(vec![(NodeId(1), at("127.0.0.1:1"))])),
        naming("walk: Open, naming another", w, 216, name_host),
        after_hello(
            "walk: Hello, Who",
            w,
            218,
            walk::Message::Graph(0, Box::new(GraphMessage::Who))
        ),
    );
    rows.extend([more.0, more.1, more.2, more.3, more.4, more.5, more.6, more.7, more.8, more.9]);

    println!("| exchange | bytes sent | bytes received | factor | with IP and UDP |");
    println!("|---|---|---|---|---|");
    for row in &rows {
        let Exchange { name, sent, received, .. } = row;
        let (factor, wire) = (row.factor(), row.factor_on_the_wire());
        println!("| {name} | {} | {} | {factor:.2} | {wire:.2} |", sent.0, received.0);
    }
    for row in &rows {
        assert!(row.factor() <= 3.0 && row.factor_on_the_wire() <= 3.0, "{row:?}");
        assert!(!row.is_dialled, "{row:?}");
    }
    // The requests were understood: each answer waited for a proof.
    let counts = table.stats().counters;
    assert!(counts.count("proof_waited_for") >= 10, "{:?}", counts.sorted());
    assert!(counts.count("proof_failed") >= 10, "{:?}", counts.sorted());
    for (name, stats, least) in [
        ("group", group.stats(), 1),
        ("multicast", multicast.stats(), 1),
        ("walk", server.stats(), 2),
    ] {
        let counts = stats.counters;
        assert!(counts.count("proof_waited_for") >= least, "{name}: {:?}", counts.sorted());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_just_came_gets_its_values_at_once_from_hosts_that_never_heard_of_it() {
    let hosts = table(6).await;
    for number in 0..50 {
        hosts[number % 6].put(name_of(number), format!("value {number}")).await.unwrap();
    }
    for (round, style) in [paceline::dht::Style::Recursive, paceline::dht::Style::Iterative]
        .into_iter()
        .cycle()
        .take(6)
        .enumerate()
    {
        let peer = hosts[round].local_addr().to_string();
        let began = tokio::time::Instant::now();
        let client =
            builder(500 + round as u32).await.style(style).peers([peer]).visit().await.unwrap();
        for number in 0..50 {
            let value = client.get(name_of(number)).await.unwrap();
            assert_eq!(value.unwrap(), format!("value {number}"));
        }
        // Nothing was asked for twice, as it is after a time-out.
        let counts = client.stats().counters;
        assert_eq!(counts.count("overlay_resent"), 0, "{round}: {:?}", counts.sorted());
        println!("client {round}, {style:?}: 50 values in {:?}", began.elapsed());
        client.leave().await.unwrap();
    }
    let proven: u64 = hosts.iter().map(|host| host.stats().counters.count("peer_proven")).sum();
    assert!(proven > 0);
}

async fn table(hosts: u32) -> Vec<Dht> {
    let mut dhts = vec![builder(0).await.bootstrap().await.unwrap()];
    for id in 1..hosts {
        let peer = dhts[0].local_addr().to_string();
        dhts.push(builder(id).await.peers([peer]).join().await.unwrap());
    }
    dhts
}

async fn have_contacts(hosts: &[Dht], expected: usize) {
    let mut contacts = Vec::new();
    let all = async {
        loop {
            contacts.clear();
            for host in hosts {
                contacts.push(host.stat().await.unwrap().contacts);
            }
            if contacts.iter().all(|&contacts| contacts == expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, all).await;
    assert!(in_time.is_ok(), "contacts of the hosts: {contacts:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_hosts_under_six_hundred_forged_announcements_keep_all_contacts_and_keys() {
    const KEYS: usize = 300;
    let hosts = table(6).await;
    for number in 0..KEYS {
        hosts[number % 6].put(name_of(number), format!("value {number}")).await.unwrap();
    }
    have_contacts(&hosts, 5).await;

    // It never answers.
    let nowhere = Stranger::new(dht_service(), 1);
    let attacker = Stranger::new(dht_service(), 9000);
    for host in &hosts {
        attacker.proves_itself(host.local_addr()).await;
    }
    let began = tokio::time::Instant::now();
    for round in 0..600_u32 {
        let host = &hosts[(round % 6) as usize];
        let to = host.local_addr();
        let known = NodeId::from((round + 1 + round / 18 % 5) % 6);
        let address = Bytes::from(nowhere.addr().to_string());
        match round / 6 % 3 {
            // A known host is somewhere else.
            0 => attacker.say(
                to,
                Kind::Message,
                &encoded(&with_address(Body::Notify, known, address)),
            ),
            // A known host has restarted, at the attacker's address.
            1 => attacker.say_as(known.0, to, Kind::Hello, attacker.session.as_bytes()),
            // A host that is not: let it have these values.
            _ => {
                let unknown = NodeId::from(10_000 + round);
                let body = get(unknown, round, 4);
                attacker.say(to, Kind::Message, &encoded(&with_address(body, unknown, address)))
            }
        };
        if round % 30 == 0 {
            attacker.answer(to);
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        if round == 300 {
            // Meanwhile clients come and read.
            let client = builder(600).await.peers([to.to_string()]).visit().await.unwrap();
            for number in 0..20 {
                let value = client.get(name_of(number)).await.unwrap();
                assert_eq!(value.unwrap(), format!("value {number}"));
            }
        }
    }
    assert!(began.elapsed() > Duration::from_secs(4), "longer than hosts wait for each other");

    have_contacts(&hosts, 5).await;
    for host in &hosts {
        for number in 0..KEYS {
            let value = host.get(name_of(number)).await.unwrap();
            assert_eq!(value.unwrap(), format!("value {number}"));
        }
        let counts = host.stats().counters;
        assert!(counts.count("peer_challenged") > 10, "{:?}", counts.sorted());
        assert_eq!(counts.count("peer_moved"), 0, "{:?}", counts.sorted());
    }
    let mut buffer = [0; 2000];
    let mut questions = 0;
    while let Ok((bytes, _)) = nowhere.udp.recv_from(&mut buffer) {
        assert_eq!((buffer[1], bytes), (3, HEADER_BYTES + 8), "a question and nothing else");
        questions += 1;
    }
    assert!(questions > 0);
    assert!(nowhere.tcp.accept().is_err(), "no node dials it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hosts_of_a_table_come_back_with_their_ids_at_other_addresses() {
    const KEYS: usize = 100;
    let mut hosts = table(4).await;
    for number in 0..KEYS {
        hosts[0].put(name_of(number), format!("value {number}")).await.unwrap();
    }
    have_contacts(&hosts, 3).await;
    for id in [1_u32, 2, 3, 0] {
        let place = id as usize;
        let before = hosts[place].local_addr();
        hosts[place].stop().await;
        let peer = hosts[(place + 1) % 4].local_addr().to_string();
        let began = tokio::time::Instant::now();
        hosts[place] = builder(id).await.peers([peer]).join().await.unwrap();
        println!("host {id} is back after {:?}", began.elapsed());
        assert_ne!(hosts[place].local_addr(), before);
        have_contacts(&hosts, 3).await;
        for host in &hosts {
            // It has forgotten everything: the others give it what it is to hold.
            let read = async {
                for number in 0..KEYS {
                    let value = loop {
                        match host.get(name_of(number)).await {
                            Ok(value) => break value,
                            Err(paceline::KeyError::Unsettled) => {}
                            Err(error) => panic!("{number}: {error}"),
                        }
                    };
                    assert_eq!(value.unwrap(), format!("value {number}"));
                }
            };
            tokio::time::timeout(SOON, read).await.expect("read in time");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_group_come_back_with_their_ids_at_other_addresses() {
    let host = async |id| Host::builder("test").id(NodeId(id)).start().await.unwrap().group("g");
    let (first, mut events) = host(1).await.bootstrap().await.unwrap();
    let peer = first.local_addr().to_string();
    let (_second, _others) = host(2).await.peers([&peer]).join().await.unwrap();
    for round in 0..3 {
        let began = tokio::time::Instant::now();
        let (third, mut own) = host(3).await.peers([&peer]).join().await.unwrap();
        println!("member 3 is in for the {}. time after {:?}", round + 1, began.elapsed());
        third.broadcast(format!("round {round}")).await.unwrap();
        for events in [&mut events, &mut own] {
            let next = tokio::time::timeout(SOON, events.delivery()).await;
            let delivery = next.expect("in time").expect("the host runs");
            assert_eq!(delivery.payload.to_vec(), format!("round {round}").into_bytes());
        }
        third.stop().await;
    }
}
