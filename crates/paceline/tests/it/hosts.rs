//! Hosts that start with default peers, and stop in order.

use std::time::Duration;

use bytes::Bytes;
use paceline::prelude::*;
use paceline::{PeerError, StartError};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, what).await.expect("in time")
}

/// A host whose services ask this one.
async fn host(id: u64, peer: Option<&Host>) -> Host {
    let peers = peer.map(|peer| peer.address().to_string());
    let stop_within = Duration::from_secs(30);
    let builder = Host::builder("test").id(NodeId(id)).stop_within(stop_within);
    builder.peers(peers).start().await.unwrap()
}

async fn view_of(events: &mut Events, members: usize) {
    let is_it = |event| matches!(event, Event::View(view) if view.len() == members);
    while !is_it(soon(events.recv()).await.expect("it runs")) {}
}

/// What a host runs in the tests.
struct Services {
    orders: (Group, Events),
    prices: (Multicast, multicast::Events),
    stock: Dht,
}

async fn enter<S: Joins>(service: ServiceBuilder<S>, is_first: bool) -> S::Joined {
    let joined = if is_first { service.bootstrap().await } else { service.join().await };
    joined.unwrap()
}

async fn services(host: &Host, is_first: bool) -> Services {
    Services {
        orders: enter(host.group("orders"), is_first).await,
        prices: enter(host.multicast("prices"), is_first).await,
        stock: enter(host.dht("stock").copies(1).require_copies(1), is_first).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_stops_leaves_all_services_and_others_detect_no_crash() {
    let first = host(1, None).await;
    let mut one = services(&first, true).await;
    let second = host(2, Some(&first)).await;
    let mut two = services(&second, false).await;
    let third = host(3, Some(&first)).await;
    let three = services(&third, false).await;
    let server = third.walks("web").serve().await.unwrap();
    for events in [&mut one.orders.1, &mut two.orders.1] {
        view_of(events, 3).await;
    }
    for number in 0..60 {
        soon(one.stock.put(format!("key {number}"), format!("{number}"))).await.unwrap();
    }
    three.orders.0.broadcast("farewell").await.unwrap();

    // Its events are not read meanwhile, and those of one service are gone.
    let (prices, packets) = three.prices;
    drop(packets);
    let stopped = soon(third.stop()).await;
    assert!(stopped.is_orderly(), "{stopped:?}");
    for events in [&mut one.orders.1, &mut two.orders.1] {
        assert_eq!(soon(events.delivery()).await.unwrap().payload, "farewell");
        view_of(events, 2).await;
    }
    for group in [&one.orders.0, &two.orders.0] {
        assert_eq!(group.stats().counters.count("group_member_down"), 0);
    }
    let members = async {
        let is_out = |event| matches!(event, multicast::Event::View(view) if view.len() == 2);
        while !is_out(one.prices.1.recv().await.expect("it runs")) {}
    };
    soon(members).await;
    for number in 0..60 {
        let read = async {
            loop {
                match two.stock.get(format!("key {number}")).await {
                    Err(KeyError::Unsettled) => {}
                    read => return read.unwrap(),
                }
            }
        };
        assert_eq!(soon(read).await, Some(Bytes::from(number.to_string())));
    }

    // What it ran has ended, and nothing starts.
    assert!(prices.send("late").await.is_err() && three.stock.get("key 1").await.is_err());
    assert_eq!(three.orders.0.leave().await, Err(LeaveError::Closed));
    let mut own = three.orders.1;
    while soon(own.recv()).await.is_some() {}
    assert_eq!(own.try_recv(), Err(TryRecvError::Closed));
    let late = third.group("late").bootstrap().await;
    assert!(matches!(late.err(), Some(JoinError::Start(StartError::Closed))));
    assert_eq!(third.stop().await, HostStopped::default());
    drop(server);
    // The port is free.
    let again = Host::builder("test").bind(third.address()).start().await.unwrap();
    again.abort().await;
}

#[tokio::test]
async fn a_service_that_others_do_not_let_go_is_named() {
    let hosts = [host(1, None).await];
    let mut first = hosts[0].group("orders").bootstrap().await.unwrap();
    let mut others = Vec::new();
    for id in [2, 3] {
        let builder = Host::builder("test").id(NodeId(id)).peers([hosts[0].address().to_string()]);
        let host = builder.stop_within(Duration::from_millis(500)).start().await.unwrap();
        let joined = host.group("orders").join().await.unwrap();
        others.push((host, joined));
    }
    view_of(&mut first.1, 3).await;
    hosts[0].abort().await;
    let (last, (group, mut events)) = others.pop().expect("two");
    others[0].0.abort().await;
    while soon(events.recv()).await.expect("it runs") != Event::LostPrimary {}
    let stopped = soon(last.stop()).await;
    let [not_left] = &stopped.not_left[..] else { panic!("{stopped:?}") };
    assert_eq!((&*not_left.kind, &*not_left.name), ("group", "orders"));
    assert!(matches!(not_left.error, LeaveError::TimedOut { .. }), "{stopped:?}");
    assert!(!stopped.is_orderly());
    assert_eq!(group.broadcast("late").await, Err(BroadcastError::LostPrimary));
    while soon(events.recv()).await.is_some() {}
}

#[tokio::test]
async fn a_member_leaves_though_its_events_are_not_read_or_gone() {
    let first = host(1, None).await;
    let (_group, mut events) = first.group("orders").bootstrap().await.unwrap();
    let second = host(2, Some(&first)).await;
    for is_read_later in [true, false] {
        let (group, own) = second.group("orders").join().await.unwrap();
        let mut own = is_read_later.then_some(own);
        view_of(&mut events, 2).await;
        for number in 0..20 {
            group.broadcast(format!("{number}")).await.unwrap();
        }
        soon(group.leave()).await.unwrap();
        for number in 0..20 {
            assert_eq!(soon(events.delivery()).await.unwrap().payload, format!("{number}"));
        }
        view_of(&mut events, 1).await;
        if let Some(own) = &mut own {
            let mut last = None;
            while let Some(event) = soon(own.recv()).await {
                last = Some(event);
            }
            assert_eq!(last, Some(Event::Left));
        }
    }
}

#[tokio::test]
async fn services_ask_the_peers_of_their_host_unless_they_name_others() {
    let first = host(1, None).await;
    let (_group, _events) = first.group("orders").bootstrap().await.unwrap();
    let known = first.address().to_string();
    let second = Host::builder("test").peers(["127.0.0.1:1"]).start().await.unwrap();
    let soon = Duration::from_millis(500);
    let unanswered = second.group("orders").within(soon).join().await.err().expect("no member");
    let said = unanswered.to_string();
    assert!(said.contains("no member of `group orders` answered at 127.0.0.1:1"), "{said}");
    let none = second.group("orders").peers([] as [&str; 0]).join().await;
    assert!(matches!(none.err(), Some(JoinError::NoPeer)));
    let wrong = second.group("orders").peers(["nonsense"]).join().await;
    assert!(matches!(wrong.err(), Some(JoinError::Peer(PeerError::Form(_)))));
    let (group, mut events) = second.group("orders").peers([&known]).join().await.unwrap();
    assert_eq!(group.members(), [NodeId(1), second.id()]);
    assert!(matches!(events.try_recv(), Ok(Event::View(_))));
    assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
}

#[tokio::test]
async fn a_host_whose_builder_is_wrong_does_not_start() {
    let form = Host::builder("test").peers(["127.0.0.1"]).start().await;
    assert!(matches!(form.err(), Some(HostError::Peer(_))));
    let first = host(1, None).await;
    let taken = Host::builder("test").bind(first.address()).start().await;
    assert!(matches!(taken.err(), Some(HostError::Bind(_))));
    let everywhere = Host::builder("test").bind("0.0.0.0:0".parse().unwrap());
    let unreachable = everywhere.insecure_plaintext().start().await;
    assert!(matches!(unreachable.err(), Some(HostError::Unreachable { .. })));
}
