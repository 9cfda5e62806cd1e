//! Protocols on raw datagrams: faces that the application and strangers open, and bad bytes.

use crate::support::oracle;

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use oracle::{
    ANSWER, Oracle, Order, PATIENCE, QUESTION, Report, Running, UP, bind, loopback, open_node,
    start,
};
use paceline_net::{
    AddressRange, BindError, BoundFaces, Closed, Exposure, FaceError, FacesConfig, LOCAL, Peers,
    StartError, TrySubmitError,
};
use paceline_proto::core::{LinkFaults, Loss, NodeId, PeerState};

/// A socket that is no node, and asks one.
struct Stranger(UdpSocket);

impl Stranger {
    fn of(node: SocketAddr) -> Stranger {
        Stranger::at("127.0.0.1", node)
    }

    /// One with this address, of the machine itself.
    fn at(address: &str, node: SocketAddr) -> Stranger {
        let socket = UdpSocket::bind((address, 0)).expect("a port");
        socket.connect(node).expect("an address");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Stranger(socket)
    }

    fn send(&self, bytes: &[u8]) {
        self.0.send(bytes).expect("sent");
    }

    fn ask(&self, number: u32) {
        self.send(&[&[QUESTION], &number.to_be_bytes()[..]].concat());
    }
}

#[tokio::test]
async fn three_nodes_ask_each_other_over_their_static_faces() {
    let bound: Vec<BoundFaces> = (0..3).map(|_| bind(loopback())).collect();
    let addrs: Vec<SocketAddr> = bound.iter().map(BoundFaces::local_addr).collect();
    let mut nodes: Vec<Running> = bound
        .into_iter()
        .zip([[1, 2], [0, 2], [0, 1]])
        .map(|(bound, others)| start(bound, &others.map(|other| addrs[other])))
        .collect();
    for (asker, node) in (0..).zip(&nodes) {
        for to in [0, 1] {
            node.order(Order::Ask(NodeId::from(to), 10 * asker + to));
        }
    }
    for (own, node) in (0..).zip(&mut nodes) {
        assert_eq!(node.next().await, Report::Started(LOCAL));
        let (mut asked, mut answered) = (Vec::new(), Vec::new());
        while asked.len() + answered.len() < 4 {
            match node.next().await {
                Report::Asked(from, number) => asked.push((from.0, number)),
                Report::Answered(from, number, 0) => answered.push((from.0, number)),
                other => panic!("{other:?}"),
            }
        }
        asked.sort_unstable();
        answered.sort_unstable();
        // A list has the other nodes by number, so this one is at its own place or one before.
        let others = (0..3).filter(|&other| other != own);
        let by_others = others.zip(0..).map(|(other, face)| {
            let place = if own < other { own } else { own - 1 };
            (face, 10 * other + place)
        });
        assert_eq!(asked, by_others.collect::<Vec<_>>());
        assert_eq!(answered, [(0, 10 * own), (1, 10 * own + 1)]);
        let stats = node.node.stats();
        assert_eq!((stats.traffic.datagrams_in, stats.traffic.datagrams_out), (4, 4));
        assert!(stats.counters.is_empty(), "{:?}", stats.counters);
    }
    assert_eq!(nodes[2].node.addr(NodeId(1)), Some(addrs[1]));
    assert_eq!(nodes[2].node.addr(NodeId(2)), None);
    let faces = [(NodeId(0), addrs[1]), (NodeId(1), addrs[2])];
    assert_eq!(nodes[0].node.faces(), faces);
}

#[tokio::test]
async fn a_strangers_message_opens_a_face_that_closes_when_idle_and_comes_back_as_another() {
    let (mut open, addr) =
        open_node(|config| config.with_face_idle_after(Duration::from_millis(50)));
    let mut asker = start(bind(loopback()), &[addr]);
    for round in 0..3 {
        let face = NodeId(round);
        assert_eq!(asker.ask(0, 5).await, (NodeId(0), 5));
        assert_eq!(open.peer().await, (face, UP));
        assert_eq!(open.next().await, Report::Asked(face, 5), "after it is known to be up");
        assert_eq!(open.node.addr(face), Some(asker.node.local_addr()));
        assert_eq!(open.peer().await, (face, PeerState::Down));
        assert_eq!(open.node.addr(face), None);
        open.order(Order::Ask(face, 6));
        open.counted("send_unknown_face", round + 1).await;
    }
    assert_eq!((open.count("faces_opened"), open.count("faces_closed")), (3, 3));
}

#[tokio::test]
async fn a_node_whose_application_does_not_receive_takes_no_more_datagrams_until_it_does() {
    const EVENTS_BYTES_MAX: usize = 4000;
    // Datagrams that a turn takes, and the rest of its last batch.
    const TURN: usize = 256 + 64;
    let (mut node, addr) = open_node(|config| config.with_events_bytes_max(EVENTS_BYTES_MAX));
    let stranger = Stranger::of(addr);
    for number in 0..4000 {
        stranger.ask(number);
        if number % 100 == 99 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    node.counted("event_held_peers", 1).await;
    let stats = node.node.stats();
    let most = EVENTS_BYTES_MAX + TURN * size_of::<Report>();
    assert!((EVENTS_BYTES_MAX..most).contains(&stats.held.events_bytes), "{:?}", stats.held);
    assert!(stats.traffic.datagrams_in < 1000, "{:?}", stats.traffic);
    // The datagrams in the kernel come first, in order, and then the new questions.
    let (mut latest, mut is_asked) = (None, false);
    while latest != Some(5000) {
        let Report::Asked(_, number) = node.next().await else { continue };
        assert!(latest < Some(number) || number == 5000, "{number} after {latest:?}");
        latest = Some(number);
        if !is_asked && node.node.stats().held.events_bytes == 0 {
            is_asked = true;
            stranger.ask(5000);
        }
    }
    assert_eq!(node.node.stats().held.events_bytes, 0);
}

#[tokio::test]
async fn commands_that_wait_are_handled_before_more_datagrams_are_taken() {
    const COMMANDS: u32 = 5000;
    // Commands at which datagrams wait, and one turn's.
    const WAITING: u32 = 1024 + 256;
    let (mut node, addr) = open_node(|config| config);
    let stranger = Stranger::of(addr);
    stranger.ask(0);
    while !matches!(node.next().await, Report::Asked(_, 0)) {}
    // On this thread, so that the node finds all of it at once.
    for command in 0..COMMANDS {
        node.order(Order::SetTimers(vec![(Duration::ZERO, command)]));
    }
    stranger.ask(1);
    let mut handled = 0;
    loop {
        match node.next().await {
            Report::Rang { .. } => handled += 1,
            Report::Asked(_, 1) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(handled >= COMMANDS - WAITING, "the question was taken after {handled}");
}

#[tokio::test]
async fn strangers_are_not_heard_where_they_are_not_accepted() {
    let mut closed = start(bind(loopback()), &[]);
    let stranger = Stranger::of(closed.node.local_addr());
    stranger.ask(1);
    closed.counted("faces_unknown", 1).await;
    let face = closed.node.open(stranger.0.local_addr().expect("bound")).await;
    assert_eq!(face, Ok(NodeId(0)));
    assert_eq!(closed.peer().await, (NodeId(0), UP));
    stranger.ask(2);
    assert_eq!(closed.next().await, Report::Asked(NodeId(0), 2));
    assert_eq!(closed.count("faces_unknown"), 1);
}

#[tokio::test]
async fn beyond_the_most_faces_strangers_wait_until_one_has_been_silent() {
    let (mut open, addr) = open_node(|config| {
        config.with_faces_max(2).with_face_yields_after(Duration::from_millis(300))
    });
    let strangers: Vec<Stranger> = (0..3).map(|_| Stranger::of(addr)).collect();
    strangers[0].ask(0);
    assert_eq!(open.peer().await, (NodeId(0), UP));
    strangers[1].ask(1);
    assert_eq!(open.peer().await, (NodeId(1), UP));
    strangers[2].ask(2);
    open.counted("faces_full", 1).await;
    // The first speaks again and again, so the second is the one that was silent.
    let peer = loop {
        strangers[0].ask(0);
        strangers[2].ask(2);
        tokio::select! {
            peer = open.peer() => break peer,
            () = tokio::time::sleep(Duration::from_millis(10)) => {}
        }
    };
    assert_eq!(peer, (NodeId(1), PeerState::Down));
    assert_eq!(open.peer().await, (NodeId(2), UP));
    open.counted("faces_yielded", 1).await;
    let addr_of = |stranger: &Stranger| stranger.0.local_addr().ok();
    assert_eq!(open.node.addr(NodeId(0)), addr_of(&strangers[0]));
    assert_eq!(open.node.addr(NodeId(2)), addr_of(&strangers[2]));
    assert_eq!(open.node.faces().len(), 2);
}

/// Of the loopback addresses this one is proven.
fn but_for_others(config: FacesConfig) -> FacesConfig {
    let range: AddressRange = "127.0.0.1/32".parse().expect("a range");
    config.with_faces_allowed([range])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unproven_face_gets_three_times_the_bytes_that_came_from_it() {
    let (mut open, addr) = open_node(but_for_others);
    let (stranger, proven) = (Stranger::at("127.0.0.2", addr), Stranger::of(addr));
    stranger.ask(1);
    assert_eq!(open.peer().await, (NodeId(0), UP));
    proven.ask(2);
    assert_eq!(open.peer().await, (NodeId(1), UP));
    for face in [0, 1] {
        open.order(Order::AskMany(NodeId(face), 10, 100));
    }
    open.counted("faces_unproven_allowance", 10).await;
    // Five bytes came and were answered with five.
    for number in 0..3 {
        open.order(Order::Ask(NodeId(0), number));
    }
    open.counted("faces_unproven_allowance", 11).await;
    // What is no message counts as well.
    stranger.send(&[0; 2]);
    open.counted("faces_undecodable", 1).await;
    open.order(Order::Ask(NodeId(0), 9));
    let received = |from: &Stranger, datagrams: usize| {
        let mut bytes = [0; 200];
        let lengths = (0..datagrams).map(|_| from.0.recv(&mut bytes).expect("it came"));
        lengths.collect::<Vec<_>>()
    };
    assert_eq!(received(&stranger, 4), [5; 4]);
    assert_eq!(received(&proven, 11), [&[5][..], &[105; 10]].concat());
    // Whom the application names is proven.
    let named = open.node.open(stranger.0.local_addr().expect("bound")).await;
    assert_eq!(named, Ok(NodeId(0)));
    open.order(Order::AskMany(NodeId(0), 10, 100));
    assert_eq!(received(&stranger, 10), [105; 10]);
    assert_eq!(open.count("faces_unproven_allowance"), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unproven_faces_of_a_network_share_a_rate() {
    // A datagram takes 33 bytes on the wire: two are too many until more than half a second has
    // passed.
    let (open, addr) =
        open_node(|config| but_for_others(config).with_unproven_bytes_per_second(40));
    let strangers = ["127.0.0.2", "127.0.0.3"].map(|address| Stranger::at(address, addr));
    for number in 0..10 {
        strangers.iter().for_each(|stranger| stranger.ask(number));
    }
    open.counted("faces_unproven_rate", 15).await;
    let elsewhere = Stranger::at("127.0.1.2", addr);
    elsewhere.ask(11);
    assert_eq!(elsewhere.0.recv(&mut [0; 100]).expect("an answer"), 5);
    let proven = Stranger::of(addr);
    (0..10).for_each(|number| proven.ask(number));
    (0..10).for_each(|_| assert_eq!(proven.0.recv(&mut [0; 100]).expect("an answer"), 5));
    assert_eq!(open.count("faces_unproven_allowance"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_addresses_keep_no_proven_face_out_and_end_none() {
    let (open, addr) = open_node(|config| but_for_others(config).with_faces_max(32));
    // The table of faces is full many times over.
    let forge = |from: u32| {
        for host in 0..100 {
            Stranger::at(&format!("127.{from}.0.{host}"), addr).ask(host);
        }
    };
    let answer = |stranger: &Stranger| stranger.0.recv(&mut [0; 100]).expect("an answer");
    forge(1);
    open.counted("faces_opened", 100).await;
    let first = Stranger::of(addr);
    first.ask(1);
    assert_eq!(answer(&first), 5);
    let face = NodeId(100);
    assert_eq!(open.node.addr(face), first.0.local_addr().ok());
    forge(2);
    open.counted("faces_opened", 201).await;
    assert_eq!(open.node.faces().len(), 32);
    assert_eq!(open.node.addr(face), first.0.local_addr().ok(), "it did not yield");
    // Once all are proven a forged one finds no room, however long they have been silent.
    let others: Vec<Stranger> = (0..31).map(|_| Stranger::of(addr)).collect();
    for other in &others {
        other.ask(2);
        assert_eq!(answer(other), 5);
    }
    assert_eq!(open.count("faces_full"), 0);
    forge(3);
    open.counted("faces_full", 100).await;
    assert_eq!(open.node.addr(face), first.0.local_addr().ok());
}

#[tokio::test]
async fn bad_bytes_are_counted_open_no_face_and_leave_the_good_ones_alone() {
    let (mut open, addr) = open_node(|config| config.with_datagram_bytes_max(1_000));
    let stranger = Stranger::of(addr);
    for garbage in [&[0; 40][..], &[QUESTION], &[QUESTION, 0, 0, 0], &[0xff; 1_000], b"GET /"] {
        stranger.send(garbage);
    }
    stranger.send(&[QUESTION; 1_001]);
    stranger.send(&[]);
    open.counted("faces_undecodable", 5).await;
    open.counted("faces_oversized", 1).await;
    assert_eq!(open.node.faces(), []);
    stranger.ask(9);
    assert_eq!(open.peer().await, (NodeId(0), UP));
    assert_eq!(open.next().await, Report::Asked(NodeId(0), 9));
    stranger.send(&[0; 40]);
    open.counted("faces_undecodable", 6).await;
    let mut answer = [0; 100];
    assert_eq!(stranger.0.recv(&mut answer).expect("an answer"), 5);
    assert_eq!(answer[..5], [ANSWER, 0, 0, 0, 9]);
}

#[tokio::test]
async fn a_face_that_the_protocol_closes_takes_its_number_with_it() {
    let (mut open, addr) = open_node(|config| config);
    let stranger = Stranger::of(addr);
    stranger.ask(1);
    assert_eq!(open.peer().await, (NodeId(0), UP));
    open.order(Order::Disconnect(NodeId(0)));
    assert_eq!(open.peer().await, (NodeId(0), PeerState::Down));
    stranger.ask(2);
    assert_eq!(open.peer().await, (NodeId(1), UP));
    // The application's own stay.
    let own = open.node.open("127.0.0.1:9".parse().unwrap()).await.expect("an address");
    assert_eq!((own, open.peer().await), (NodeId(2), (NodeId(2), UP)));
    open.order(Order::Disconnect(own));
    open.order(Order::Disconnect(NodeId(77)));
    assert_eq!(open.node.addr(own).map(|addr| addr.port()), Some(9));
    stranger.ask(3);
    open.find(|report| (*report == Report::Asked(NodeId(1), 3)).then_some(())).await;
    assert_eq!(open.count("faces_closed"), 1);
}

#[tokio::test]
async fn a_face_can_be_opened_while_the_node_runs() {
    let (mut open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[]);
    assert_eq!(asker.node.open(addr).await, Ok(NodeId(0)));
    assert_eq!(asker.node.open(addr).await, Ok(NodeId(0)), "the one that there is");
    assert_eq!(asker.ask(0, 3).await, (NodeId(0), 3));
    // That of a stranger becomes the application's.
    assert_eq!(open.peer().await, (NodeId(0), UP));
    assert_eq!(open.node.open(asker.node.local_addr()).await, Ok(NodeId(0)));
    let nowhere: SocketAddr = "0.0.0.0:7".parse().unwrap();
    let error = asker.node.open(nowhere).await.expect_err("there is no listener");
    let local = asker.node.local_addr();
    assert_eq!(error, FaceError::Address { addr: nowhere, local });
    asker.node.stop().await;
    assert_eq!(asker.node.open(addr).await, Err(FaceError::Closed));
}

#[tokio::test]
async fn a_face_that_the_application_closes_is_gone_and_its_address_opens_another() {
    let (_open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    assert_eq!(asker.ask(0, 3).await, (NodeId(0), 3));
    assert_eq!(asker.node.close(NodeId(0)).await, Ok(true));
    assert_eq!(asker.peer().await, (NodeId(0), PeerState::Down));
    assert_eq!(asker.node.addr(NodeId(0)), None);
    assert_eq!(asker.node.close(NodeId(0)).await, Ok(false), "it is closed");
    assert_eq!(asker.node.open(addr).await, Ok(NodeId(1)));
    assert_eq!(asker.ask(1, 4).await, (NodeId(1), 4));
    asker.node.stop().await;
    assert_eq!(asker.node.close(NodeId(1)).await, Err(Closed));
}

#[tokio::test]
async fn a_node_refuses_to_start_with_faces_that_cannot_be() {
    let addr: SocketAddr = "127.0.0.1:9".parse().unwrap();
    let wrong: SocketAddr = "127.0.0.1:0".parse().unwrap();
    for faces in [[addr, addr], [addr, wrong]] {
        let started = bind(loopback()).start(&faces, Oracle::default(), Arc::new(()));
        let error = started.err().expect("refused");
        let StartError::Face(error) = error else { panic!("{error}") };
        assert_eq!(matches!(error, FaceError::Twice { .. }), faces[1] == addr, "{error}");
    }
}

#[tokio::test]
async fn beyond_loopback_plaintext_must_be_allowed() {
    let anywhere = || FacesConfig::new("0.0.0.0:0".parse().unwrap());
    let error = BoundFaces::bind(anywhere()).expect_err("refused");
    assert!(matches!(error, BindError::Plaintext { .. }), "{error}");
    bind(anywhere().with_exposure(Exposure::InsecurePlaintext));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_is_taken_while_its_node_runs_and_free_once_it_has_stopped() {
    let mut bound = bind(loopback());
    let addr = bound.local_addr();
    for _ in 0..50 {
        let running = start(bound, &[]);
        let taken = BoundFaces::bind(FacesConfig::new(addr)).expect_err("it runs");
        assert!(matches!(taken, BindError::PortInUse { .. }), "{taken}");
        running.node.stop().await;
        bound = bind(FacesConfig::new(addr));
    }
}

#[tokio::test]
async fn dropping_all_handles_sends_what_is_queued_and_stops_the_node() {
    let (mut open, addr) = open_node(|config| config);
    let asker = start(bind(loopback()), &[addr]);
    asker.order(Order::Ask(NodeId(0), 1));
    drop(asker.node);
    assert_eq!(
        open.find(|report| match *report {
            Report::Asked(_, number) => Some(number),
            _ => None,
        })
        .await,
        1
    );
    let mut events = asker.events;
    let end = async { while events.recv().await.is_some() {} };
    tokio::time::timeout(PATIENCE, end).await.expect("it ends");
}

#[tokio::test]
async fn submission_blocks_at_the_bound_and_wakes_when_it_rises() {
    let (open, _) = open_node(|config| config);
    let refused = open.node.try_submit(Order::Admit(0), 1);
    assert!(matches!(refused, Err(TrySubmitError::WouldBlock(Order::Admit(0)))));
    let submitted = tokio::spawn({
        let node = open.node.clone();
        async move { node.submit(Order::Admit(0), 5).await }
    });
    tokio::task::yield_now().await;
    assert!(!submitted.is_finished());
    open.order(Order::Admit(10));
    submitted.await.expect("no panic").expect("the node runs");
}

#[tokio::test]
async fn many_datagrams_leave_in_trains_and_arrive_whole() {
    let (mut open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    // A burst at a time: a larger one overflows the receive buffer of some systems.
    let (bursts, burst) = (50, 200);
    for _ in 0..bursts {
        asker.order(Order::AskMany(NodeId(0), burst, 300));
        for number in 0..burst {
            assert_eq!(asker.answer().await, (NodeId(0), number, 300));
        }
    }
    open.find(|report| (*report == Report::Asked(NodeId(0), burst - 1)).then_some(())).await;
    for node in [&asker, &open] {
        let traffic = node.node.stats().traffic;
        assert_eq!((traffic.datagrams_out, traffic.datagrams_in), (10_000, 10_000));
        assert_eq!(traffic.datagram_bytes_out, 305 * 10_000);
        assert!(!cfg!(target_os = "linux") || traffic.datagram_sends <= 1_000, "{traffic:?}");
    }
}

#[tokio::test]
async fn the_longest_packets_pass_and_longer_ones_do_not_leave() {
    let (_open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    for bytes in [8_795, 8_796, 1_500, 8_795] {
        asker.order(Order::AskMany(NodeId(0), 3, bytes));
    }
    for bytes in [8_795, 1_500, 8_795] {
        for number in 0..3 {
            assert_eq!(asker.answer().await, (NodeId(0), number, bytes));
        }
    }
    assert_eq!(asker.count("datagram_unsendable"), 3);
}

#[tokio::test]
async fn a_socket_of_ipv6_has_faces_of_both_families() {
    let anywhere = FacesConfig::new("[::]:0".parse().unwrap());
    let anywhere = anywhere.with_exposure(Exposure::InsecurePlaintext).with_accepts_unknown(true);
    let Ok(bound) = BoundFaces::bind(anywhere) else {
        return eprintln!("skipped: this machine has no IPv6");
    };
    let port = bound.local_addr().port();
    let mut open = start(bound, &[]);
    for (face, family) in (0..).zip(["127.0.0.1", "::1"]) {
        let own = SocketAddr::new(family.parse().unwrap(), 0);
        let Ok(bound) = BoundFaces::bind(FacesConfig::new(own)) else { continue };
        let mut asker = start(bound, &[SocketAddr::new(own.ip(), port)]);
        assert_eq!(asker.ask(0, 4).await, (NodeId(0), 4));
        assert_eq!(open.peer().await, (NodeId(face), UP));
        assert_eq!(open.node.addr(NodeId(face)), Some(asker.node.local_addr()));
        assert_eq!(open.node.open(asker.node.local_addr()).await, Ok(NodeId(face)));
    }
}

#[tokio::test]
async fn timers_ring_in_order_and_never_early_while_datagrams_flow() {
    let (_open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    let gap = Duration::from_micros(200);
    let timers = (0..500).rev().map(|timer| (gap * timer, timer)).collect();
    asker.order(Order::SetTimers(timers));
    for _ in 0..10 {
        asker.order(Order::AskMany(NodeId(0), 50, 1_000));
    }
    for expected in 0..500 {
        let (timer, due, at) = asker
            .find(|report| match *report {
                Report::Rang { timer, due, at } => Some((timer, due, at)),
                _ => None,
            })
            .await;
        assert_eq!(timer, expected);
        assert!(at >= due, "{timer}: {at:?} before {due:?}");
    }
}

#[tokio::test]
async fn a_node_at_rest_makes_no_turns() {
    let (mut open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    assert_eq!(asker.ask(0, 1).await, (NodeId(0), 1));
    assert_eq!(open.peer().await, (NodeId(0), UP));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let turns = || [&asker, &open].map(|node| node.node.stats().traffic.turns);
    let before = turns();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(turns(), before);
}

#[tokio::test]
async fn emulated_faults_lose_and_delay_what_is_sent_to_a_face() {
    let (mut open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    let loss = LinkFaults { loss: Loss::Independent(1.0), ..LinkFaults::default() };
    asker.node.emulate(Peers::One(NodeId(0)), loss).expect("the node runs");
    asker.order(Order::AskMany(NodeId(0), 20, 0));
    asker.counted("emulated_loss", 20).await;
    let delay = Duration::from_millis(30);
    let slow = LinkFaults { delay, ..LinkFaults::default() };
    asker.node.emulate(Peers::All, slow).expect("the node runs");
    let from = std::time::Instant::now();
    assert_eq!(asker.ask(0, 1).await, (NodeId(0), 1));
    assert!(from.elapsed() >= delay);
    assert_eq!(
        open.find(|report| match *report {
            Report::Asked(_, number) => Some(number),
            _ => None,
        })
        .await,
        1,
        "the others never came"
    );
    asker.node.emulate(Peers::All, LinkFaults::default()).expect("the node runs");
    assert_eq!(asker.ask(0, 2).await, (NodeId(0), 2));
}

#[tokio::test]
#[cfg(not(debug_assertions))]
async fn what_only_streams_and_groups_have_is_counted_and_dropped() {
    use oracle::note;
    use paceline_proto::core::Lane;

    let (_open, addr) = open_node(|config| config);
    let mut asker = start(bind(loopback()), &[addr]);
    asker.order(Order::Send(NodeId(0), Lane::Stream, note(QUESTION, 1)));
    asker.order(Order::Send(NodeId(0), Lane::Datagram, note(QUESTION, 2)));
    assert_eq!(asker.answer().await, (NodeId(0), 2, 0));
    assert_eq!(asker.count("faces_unsupported"), 1);
}

#[test]
fn a_node_needs_a_runtime() {
    let started = bind(loopback()).start(&[], Oracle::default(), Arc::new(()));
    assert!(matches!(started.err(), Some(StartError::NoRuntime)));
}
