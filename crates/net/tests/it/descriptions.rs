//! Services of one name that differ: no message passes, and both ends learn why.

use crate::support;

use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use paceline_net::record::{ClusterTag, Header, Kind, ServiceNumber, Session};
use paceline_net::{Endpoint, Events, Mismatch, Node, ServiceDifference};
use paceline_proto::core::{Context, Lane, NodeId, Protocol, Terms};
use support::{Order, PATIENCE, Post, TestMessage, bind, bind_all, config};

/// A protocol whose messages have this version. A command makes it send messages, and each message
/// that arrives is an event.
struct Versioned<const VERSION: u16>;

impl<const VERSION: u16> Protocol for Versioned<VERSION> {
    type Message = TestMessage;
    type Timer = u32;
    type Command = Vec<(NodeId, TestMessage)>;
    type Event = TestMessage;
    type Shared = ();

    fn terms((): &()) -> Terms {
        Terms { version: VERSION, ..Terms::default() }
    }

    fn handle_message(&mut self, cx: &mut Context<'_, Self>, _: NodeId, message: TestMessage) {
        cx.deliver(message);
    }

    fn handle_command(&mut self, cx: &mut Context<'_, Self>, sends: Vec<(NodeId, TestMessage)>) {
        sends.into_iter().for_each(|(to, message)| cx.send(to, message.lane, message));
    }
}

type Service<const VERSION: u16> = (Node<Versioned<VERSION>>, Events<Versioned<VERSION>>);

fn start<const VERSION: u16>(endpoint: &Endpoint, kind: &str, name: &str) -> Service<VERSION> {
    endpoint.start_named((kind, name), Versioned, Arc::new(())).expect("started")
}

fn pair() -> [Endpoint; 2] {
    let (bound, roster) = bind_all(2, |config| config);
    let opened = bound.into_iter().map(|bound| bound.open(roster.clone()).expect("opened"));
    opened.collect::<Vec<_>>().try_into().expect("two")
}

fn to_other(lane: Lane, count: u64) -> Vec<(NodeId, TestMessage)> {
    let message = |number| TestMessage { lane, number, payload: "hello".into() };
    (0..count).map(|number| (NodeId(1), message(number))).collect()
}

/// Sends until the other node has said how its service differs.
async fn mismatch<const VERSION: u16>(
    node: &Node<Versioned<VERSION>>,
    (lane, count): (Lane, u64),
) -> Mismatch {
    let asked = tokio::time::timeout(PATIENCE, async {
        loop {
            node.command(to_other(lane, count)).expect("it runs");
            tokio::time::sleep(Duration::from_millis(50)).await;
            let known = node.mismatches();
            assert!(known.len() <= 1, "one node alone answers: {known:?}");
            let differs = known.into_iter().find(|peer| peer.mismatch != Mismatch::NotRun);
            if let Some(peer) = differs {
                break peer.mismatch;
            }
        }
    });
    asked.await.expect("an answer in time")
}

/// Alone in a datagram, with others in one, and on a stream.
const WAYS: [(Lane, u64); 3] = [(Lane::Datagram, 1), (Lane::Datagram, 3), (Lane::Stream, 1)];

#[tokio::test]
async fn nodes_with_other_versions_of_a_service_say_so_and_deliver_nothing() {
    for way in WAYS {
        let [one, other] = pair();
        let (first, _events) = start::<1>(&one, "probe", "p");
        let (_second, mut second_events) = start::<2>(&other, "probe", "p");
        let differs = Mismatch::Differs(ServiceDifference::Version { ours: 1, theirs: 2 });
        assert_eq!(mismatch(&first, way).await, differs);
        for endpoint in [&one, &other] {
            assert!(endpoint.stats().counters.count("service_other_version") > 0);
        }
        assert!(second_events.try_recv().is_none(), "a message of another version");
        assert!(other.stats().counters.count("record_unknown_service") > 0);
    }
}

#[tokio::test]
async fn nodes_with_another_kind_of_service_under_a_name_say_so() {
    for way in WAYS {
        let [one, other] = pair();
        let (first, _events) = start::<1>(&one, "probe", "p");
        let _second = start::<1>(&other, "sample", "p");
        let differs = Mismatch::Differs(ServiceDifference::Kind { theirs: "sample".to_owned() });
        assert_eq!(mismatch(&first, way).await, differs);
        for endpoint in [&one, &other] {
            assert!(endpoint.stats().counters.count("service_other_kind") > 0);
        }
    }
}

#[tokio::test]
async fn a_node_without_a_service_of_the_name_says_so_and_may_start_it() {
    let [one, other] = pair();
    let (first, _events) = start::<1>(&one, "probe", "p");
    let _unlike = start::<1>(&other, "probe", "q");
    first.command(to_other(Lane::Datagram, 1)).expect("it runs");
    let told = tokio::time::timeout(PATIENCE, async {
        while first.mismatches().is_empty() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    told.await.expect("an answer in time");
    assert_eq!(first.mismatches()[0].mismatch, Mismatch::NotRun);
    assert_eq!(
        (first.mismatches()[0].node, first.mismatches()[0].address),
        (NodeId(1), other.local_addr())
    );
    let (_second, mut events) = start::<1>(&other, "probe", "p");
    first.command(to_other(Lane::Datagram, 1)).expect("it runs");
    let received = tokio::time::timeout(PATIENCE, events.recv()).await.expect("in time");
    assert_eq!(received.expect("it runs").number, 0);
}

#[tokio::test]
async fn a_node_runs_one_service_of_a_kind_and_name_whatever_its_terms() {
    let [one, _] = pair();
    let first = start::<1>(&one, "probe", "p");
    let refused = one.start_named(("probe", "p"), Versioned::<2>, Arc::new(()));
    assert!(refused.err().expect("refused").to_string().contains("service"));
    let _other_kind = start::<2>(&one, "sample", "p");
    first.0.stop().await;
    let again = tokio::time::timeout(PATIENCE, async {
        while one.start_named(("probe", "p"), Versioned::<2>, Arc::new(())).is_err() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    again.await.expect("free once it has ended");
}

/// The test plays a member, which sends malformed notices and messages of 200 services that the
/// node does not run.
#[tokio::test]
async fn a_peer_cannot_make_a_node_say_more_than_it_sends() {
    let bound = bind(config(0));
    let played = UdpSocket::bind("127.0.0.1:0").expect("a port");
    played.set_read_timeout(Some(Duration::from_millis(300))).expect("a time-out");
    let members = [(NodeId(0), bound.local_addr()), (NodeId(1), played.local_addr().unwrap())];
    let roster = paceline_net::Roster::new(members).expect("two members");
    let endpoint = bound.open(roster).expect("opened");
    let (node, mut events) =
        endpoint.start(ServiceNumber(9), Post::default(), Arc::new(())).expect("started");
    let session = Session::start().expect("random bytes");
    let record = |kind, service, body: &[u8]| {
        let cluster = ClusterTag::of("test");
        let (sender, session) = (NodeId(1), session.tag());
        let header = Header { kind, epoch: 0, service, cluster, sender, session, sequence: 0 };
        [&header.encode()[..], body].concat()
    };
    let to = endpoint.local_addr();
    let send = |record: &[u8]| played.send_to(record, to).expect("sent");
    // Unknown to the node: it says nothing of its services.
    let unknown = record(Kind::Message, ServiceNumber(5), b"");
    send(&unknown);
    send(&record(Kind::Hello, ServiceNumber::NODE, session.as_bytes()));
    let mut sent = 0;
    for number in 0..200_u32 {
        sent += send(&record(Kind::Message, ServiceNumber(100 + number), b""));
    }
    for body in [&b""[..], b"\x00", b"\x01\x00", b"\x02\x00\x00\x00\x09", b"\x09", &[1; 900]] {
        sent += send(&record(Kind::Service, ServiceNumber::NODE, body));
    }
    // It still runs.
    node.command(Order::SetTimer(Duration::from_millis(1), 7)).expect("it runs");
    assert!(events.recv().await.is_some());
    let (mut received, mut buffer) = (0, [0; 2_000]);
    let mut notices = 0;
    while let Ok(bytes) = played.recv(&mut buffer) {
        let mut record = Bytes::copy_from_slice(&buffer[..bytes]);
        let header = Header::decode(&mut record, ClusterTag::of("test")).expect("a record");
        notices += usize::from(header.kind == Kind::Service);
        received += bytes;
    }
    assert!((1..=20).contains(&notices), "{notices} in well under 0.3 s");
    assert!(received < sent, "{received} bytes for {sent}");
    assert!(endpoint.stats().counters.count("record_malformed") >= 6);
}
