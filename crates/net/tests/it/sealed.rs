//! Nodes that seal: what they exchange, and what others can do to them.

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use paceline_net::record::{ClusterTag, HEADER_BYTES, Kind};
use paceline_net::{NodeConfig, Roster};
use paceline_proto::core::{Lane, NodeId, Payload, PeerState};
use paceline_seal::identity::{ClusterKey, Grant, HostKey, Identity, Role, UnixTime};
use paceline_seal::{Secret, Suite};
use support::relay::Relay;
use support::stranger::{MESSAGE, Stranger};
use support::{Order, Report, Running, TestMessage, bind, config, start};

fn cluster(byte: u8, suite: Suite) -> ClusterKey {
    ClusterKey::generate(Secret::new([byte; 32]), suite)
}

fn identity(cluster: &ClusterKey, host: u8) -> Identity {
    let key = HostKey::generate(&Secret::new([host; 32]));
    Identity::self_certified(cluster, key, UnixTime::now()).expect("a certificate")
}

/// A host with a certificate that ended an hour ago.
fn over(cluster: &ClusterKey, host: u8) -> Identity {
    let key = HostKey::generate(&Secret::new([host; 32]));
    let ago = |seconds| {
        let now = Duration::from_secs(UnixTime::now().as_secs());
        UnixTime::since_unix_epoch(now - Duration::from_secs(seconds))
    };
    let label = "late".parse().expect("a label");
    let (not_before, not_after) = (ago(7200), ago(3600));
    let grant = Grant { role: Role::Member, label, not_before, not_after };
    let certificate = cluster.ca().sign(&key.public(), &grant).expect("a certificate");
    Identity::signed(key, certificate, cluster.ca().authority(), not_before).expect("valid then")
}

fn sealed(identity: &Identity) -> NodeConfig {
    config(0).with_identity(identity).expect("this processor can")
}

fn node_of(identity: &Identity) -> NodeId {
    NodeId(identity.id().get())
}

/// A node that knows itself only.
fn run(identity: &Identity) -> Running {
    let bound = bind(sealed(identity));
    let roster = Roster::new([(node_of(identity), bound.local_addr())]).expect("one member");
    start(bound, &roster)
}

fn tell(from: &Running, to: NodeId, lane: Lane, number: u64, payload: impl Into<Payload>) {
    let payload = payload.into();
    from.order(Order::Send(to, TestMessage { lane, number, payload }));
}

async fn up(node: &mut Running) -> NodeId {
    node.find(|report| match report {
        Report::Peer(node, PeerState::Up { .. }) => Some(*node),
        _ => None,
    })
    .await
}

fn here() -> ClusterKey {
    cluster(1, Suite::fastest())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn messages_arrive_on_both_lanes_by_either_cipher_and_none_is_readable_on_the_way() {
    for suite in Suite::ALL {
        let cluster = cluster(1, suite);
        let (one, two) = (identity(&cluster, 2), identity(&cluster, 3));
        let (from, mut to) = (run(&one), run(&two));
        let mut from = from;
        let relay = Relay::to(to.node.local_addr());
        from.node.seek(vec![relay.addr]).unwrap();
        assert_eq!(up(&mut from).await, node_of(&two));
        let marker = b"a marker that only the receiver can read".repeat(20);
        let mut long = marker.repeat(1000);
        long.truncate(700_000);
        tell(&from, node_of(&two), Lane::Datagram, 1, marker.clone());
        assert_eq!(to.message().await.number, 1);
        for (number, payload) in [(2, marker.clone()), (3, long), (4, marker.clone())] {
            tell(&from, node_of(&two), Lane::Stream, number, payload.clone());
            let arrived = to.message().await;
            assert_eq!((arrived.number, arrived.payload), (number, Payload::from(payload)));
        }
        assert!(!relay.has_passed(&marker[..16]), "{suite}");
        let passed = relay.passed.lock().unwrap();
        assert!(passed.streams.iter().map(Vec::len).sum::<usize>() > 700_000);
        assert!(passed.datagrams.iter().any(|datagram| datagram.len() > marker.len()));
        assert_eq!((from.count("handshake_made"), to.count("handshake_made")), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn hosts_that_look_for_each_other_at_once_end_with_one_session() {
    for round in 0..5 {
        let (one, two) = (identity(&here(), 2 + round), identity(&here(), 100 + round));
        let (mut here, mut there) = (run(&one), run(&two));
        here.node.seek(vec![there.node.local_addr()]).unwrap();
        there.node.seek(vec![here.node.local_addr()]).unwrap();
        assert_eq!((up(&mut here).await, up(&mut there).await), (node_of(&two), node_of(&one)));
        for number in 0..20 {
            for lane in [Lane::Datagram, Lane::Stream] {
                tell(&here, node_of(&two), lane, number, "to there");
                tell(&there, node_of(&one), lane, number, "to here");
                assert_eq!(here.message().await.number, number);
                assert_eq!(there.message().await.number, number);
            }
        }
        for node in [&here, &there] {
            assert!((1..=2).contains(&node.count("handshake_made")));
            let refused = ["record_forged", "record_replayed", "session_ended_dropped"];
            assert_eq!(refused.map(|counter| node.count(counter)), [0; 3]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_without_a_key_or_with_another_clusters_is_not_let_in() {
    let mut node = run(&identity(&here(), 2));
    let addr = node.node.local_addr();
    // The key of another cluster: even its Hello is refused.
    let other = run(&identity(&cluster(9, Suite::fastest()), 3));
    other.node.seek(vec![addr]).unwrap();
    node.counted("record_foreign_cluster", 3).await;
    assert_eq!(other.count("handshake_made") + other.count("handshake_failed"), 0);
    // A certificate that is over: the node refuses it, and says so.
    let late = run(&over(&here(), 5));
    late.node.seek(vec![addr]).unwrap();
    late.counted("handshake_failed", 1).await;
    node.counted("handshake_failed", 1).await;
    // No key, but the tag of the cluster, which anyone on the path sees: what it says under its own
    // session is not opened.
    let stranger = Stranger::new(9, 1000);
    let tag = ClusterTag::of_sealed("test", here().ca().authority().public_key());
    let record = |kind, body: &[u8]| {
        let mut record = stranger.record(kind, 0, 0, body);
        record[8..12].copy_from_slice(&tag.0.to_be_bytes());
        record
    };
    let hello = record(Kind::Hello, stranger.session.as_bytes());
    for record in [&hello, &record(Kind::Message, &MESSAGE)] {
        stranger.socket.send_to(record, addr).unwrap();
    }
    node.counted("record_unknown_session", 1).await;
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.write_all(&[&(48u32).to_be_bytes()[..], &hello].concat()).unwrap();
    assert_eq!(stream.read(&mut [0; 100]).unwrap(), 0, "closed without an answer");
    // Its members go on.
    let member = run(&identity(&here(), 4));
    member.node.seek(vec![addr]).unwrap();
    member.counted("handshake_made", 1).await;
    tell(&member, node_of(&identity(&here(), 2)), Lane::Stream, 5, "hello");
    assert_eq!(node.message().await.number, 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_datagram_that_was_changed_or_received_before_is_refused_and_counted() {
    let (one, two) = (identity(&here(), 2), identity(&here(), 3));
    let (mut from, mut to) = (run(&one), run(&two));
    let relay = Relay::to(to.node.local_addr());
    from.node.seek(vec![relay.addr]).unwrap();
    up(&mut from).await;
    let is_sealed = |datagram: &[u8]| datagram[1] == 1;
    // Each is followed by a copy of itself.
    relay.change(|datagram| vec![datagram.clone(), datagram]);
    for number in 0..10 {
        tell(&from, node_of(&two), Lane::Datagram, number, "once");
        assert_eq!(to.message().await.number, number);
    }
    to.counted("record_replayed", 10).await;
    // Each bit of a datagram, in turn, behind the one that was not changed.
    let mut bit = 0;
    relay.change(move |datagram| {
        if !is_sealed(&datagram) {
            return vec![datagram];
        }
        let mut changed = datagram.clone();
        changed[bit / 8 % datagram.len()] ^= 1 << (bit % 8);
        bit += 1;
        vec![changed, datagram]
    });
    let bits = 8 * (HEADER_BYTES + 9 + 4 + 16) as u64;
    for number in 10..10 + bits {
        tell(&from, node_of(&two), Lane::Datagram, number, "once");
        assert_eq!(to.message().await.number, number);
    }
    let refused: u64 = [
        "record_forged",
        "record_replayed",
        "record_foreign_version",
        "record_foreign_cluster",
        "record_foreign_epoch",
        "record_unknown_session",
        "record_malformed",
    ]
    .map(|counter| to.count(counter))
    .into_iter()
    .sum();
    // A changed kind can make it one of the plain ones, which changes nothing.
    assert!(refused >= 10 + bits - 3, "{refused} of {bits}");
    assert!(to.count("record_forged") > 8 * (9 + 4 + 16), "body and tag");
    relay.stop_changes();
    tell(&from, node_of(&two), Lane::Datagram, 1000, "once");
    assert_eq!(to.message().await.number, 1000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_recorded_stream_opens_nothing_and_ends_none() {
    let (one, two) = (identity(&here(), 2), identity(&here(), 3));
    let (mut from, mut to) = (run(&one), run(&two));
    let relay = Relay::to(to.node.local_addr());
    from.node.seek(vec![relay.addr]).unwrap();
    up(&mut from).await;
    tell(&from, node_of(&two), Lane::Stream, 1, "recorded");
    assert_eq!(to.message().await.number, 1);
    let recorded = {
        let passed = relay.passed.lock().unwrap();
        passed.streams.iter().find(|stream| stream.first() == Some(&0)).expect("a stream").clone()
    };
    for _ in 0..3 {
        let mut repeated = TcpStream::connect(to.node.local_addr()).unwrap();
        repeated.write_all(&recorded).unwrap();
        let mut reply = Vec::new();
        // Its Hello, and then the end: another key, and the record does not open.
        let _ = repeated.read_to_end(&mut reply);
        assert!(reply.len() <= 4 + HEADER_BYTES + 32);
    }
    to.counted("record_forged", 3).await;
    // The stream that stands goes on.
    tell(&from, node_of(&two), Lane::Stream, 2, "later");
    assert_eq!(to.message().await.number, 2);
    assert_eq!(from.count("stream_broken"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_restarts_has_another_session_and_what_was_recorded_before_is_refused() {
    let (one, two) = (identity(&here(), 2), identity(&here(), 3));
    let mut from = run(&one);
    let to = run(&two);
    let addr = to.node.local_addr();
    from.node.seek(vec![addr]).unwrap();
    up(&mut from).await;
    tell(&from, node_of(&two), Lane::Stream, 1, "before");
    let mut to = to;
    assert_eq!(to.message().await.number, 1);
    to.node.stop().await;
    drop(to);
    let bound = paceline_net::Bound::bind(addr, sealed(&two)).expect("the port is free");
    let roster = Roster::new([(node_of(&two), addr)]).unwrap();
    let mut again = start(bound, &roster);
    // What is sent to it makes it ask for a session.
    let mut number = 2;
    let arrived = loop {
        tell(&from, node_of(&two), Lane::Datagram, number, "after");
        tokio::time::sleep(Duration::from_millis(100)).await;
        if let Some(report) = again.events.try_recv() {
            break report;
        }
        number += 1;
        assert!(number < 100, "{:?}", from.node.stats().counters.sorted());
    };
    assert!(matches!(arrived, Report::TestMessage(..)), "{arrived:?}");
    assert_eq!(from.count("peer_restarted"), 1);
    tell(&from, node_of(&two), Lane::Stream, 1000, "on a stream");
    while again.message().await.number != 1000 {}
}

/// Says that it is another host, proves its address, accepts connections, and never answers there.
struct Impostor {
    stranger: Stranger,
    listener: TcpListener,
    tag: ClusterTag,
}

impl Impostor {
    fn of(id: NodeId, cluster: &ClusterKey) -> Impostor {
        let tag = ClusterTag::of_sealed("test", cluster.ca().authority().public_key());
        loop {
            let stranger = Stranger::new(id.0, 1000);
            let addr = stranger.socket.local_addr().expect("bound");
            if let Ok(listener) = TcpListener::bind(addr) {
                return Impostor { stranger, listener, tag };
            }
        }
    }

    fn say(&self, to: SocketAddr, nonce: &[u8]) {
        let body = [self.stranger.session.as_bytes(), nonce, &[0; 4][..nonce.len() / 2]].concat();
        let mut record = self.stranger.record(Kind::Hello, 0, 0, &body);
        record[8..12].copy_from_slice(&self.tag.0.to_be_bytes());
        self.stranger.socket.send_to(&record, to).expect("sent");
    }

    fn addr(&self) -> SocketAddr {
        self.listener.local_addr().expect("bound")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn impostors_that_stall_handshakes_do_not_keep_out_the_host_of_the_id() {
    let (one, two) = (identity(&here(), 2), identity(&here(), 3));
    let node = run(&one);
    let addr = node.node.local_addr();
    let impostors: Vec<Impostor> = (0..6).map(|_| Impostor::of(node_of(&two), &here())).collect();
    node.order(Order::Learn(node_of(&two), impostors[0].addr().to_string()));
    tell(&node, node_of(&two), Lane::Stream, 1, "for the host itself");
    for impostor in &impostors {
        impostor.say(addr, &[]);
        let nonce = impostor.stranger.hears(Kind::Who);
        impostor.say(addr, &nonce);
    }
    // The node dials some of them, at most as many as it may at once.
    let (mut stalled, end) = (Vec::new(), std::time::Instant::now() + Duration::from_millis(500));
    while std::time::Instant::now() < end {
        for impostor in &impostors {
            impostor.listener.set_nonblocking(true).unwrap();
            stalled.extend(impostor.listener.accept());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!((1..=4).contains(&stalled.len()), "{} dialled", stalled.len());
    let mut host = run(&two);
    host.node.seek(vec![addr]).unwrap();
    assert_eq!(host.message().await.payload, Payload::from("for the host itself"));
    assert_eq!(node.count("stream_bytes_lost"), 0);
}
