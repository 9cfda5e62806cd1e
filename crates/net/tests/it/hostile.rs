//! What a node makes of bytes that no member would send.

use crate::support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use paceline_net::record::{ClusterTag, Header, Kind, ServiceNumber, Session};
use paceline_net::{NodeConfig, Roster};
use paceline_proto::core::{Lane, NodeId};
use support::{PATIENCE, Running, bind, config, start};

/// A node 0 in a roster with a member 1 that the test plays.
fn node_with(adjust: impl Fn(NodeConfig) -> NodeConfig) -> (Running, UdpSocket) {
    let bound = bind(adjust(config(0)));
    let played = UdpSocket::bind("127.0.0.1:0").expect("a port");
    played.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    let members = [(NodeId(0), bound.local_addr()), (NodeId(1), played.local_addr().unwrap())];
    (start(bound, &Roster::new(members).expect("two members")), played)
}

fn session() -> Session {
    Session::new(1000, 1)
}

fn header(kind: Kind, sequence: u64) -> Header {
    Header {
        kind,
        epoch: 0,
        service: kind.number(ServiceNumber::default()),
        cluster: ClusterTag::of("test"),
        sender: NodeId(1),
        session: session().tag(),
        sequence,
    }
}

fn record(header: Header, body: &[u8]) -> Vec<u8> {
    [&header.encode()[..], body].concat()
}

fn framed(record: &[u8]) -> Vec<u8> {
    [&(record.len() as u32).to_be_bytes()[..], record].concat()
}

fn hello() -> Vec<u8> {
    record(header(Kind::Hello, 0), session().as_bytes())
}

fn message(sequence: u64) -> Vec<u8> {
    record(header(Kind::Message, sequence), &[1, 0, 0, 0, 0, 0, 0, 0, sequence as u8])
}

/// Writes to the node and waits for it to close the stream.
fn closed_after(addr: SocketAddr, bytes: &[u8]) {
    let mut stream = TcpStream::connect(addr).expect("accepted");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    stream.write_all(bytes).expect("taken");
    let mut rest = Vec::new();
    // An end or a reset: both are a close.
    if let Err(error) = stream.read_to_end(&mut rest) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "{error}");
    }
}

async fn is_closed_and_counted(node: &Running, bytes: Vec<u8>, counter: &str) {
    let (addr, before) = (node.node.local_addr(), node.count(counter));
    tokio::task::spawn_blocking(move || closed_after(addr, &bytes)).await.expect("closed");
    node.counted(counter, before + 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_fault_on_a_stream_closes_it_and_raises_its_counter() {
    let (mut node, _played) = node_with(|config| config.with_record_bytes_max(1000));
    let good = framed(&hello());
    let spoilt = |place: usize, value: u8| {
        let mut bytes = hello();
        bytes[place] = value;
        framed(&bytes)
    };
    let after_hello = |bytes: Vec<u8>| [good.clone(), framed(&bytes)].concat();
    let cases = [
        (spoilt(0, 0x81), "record_foreign_version"),
        (spoilt(4, 0xff), "record_unknown_service"),
        (spoilt(8, 0xff), "record_foreign_cluster"),
        (spoilt(3, 1), "record_foreign_epoch"),
        (spoilt(23, 9), "record_unknown_sender"),
        (spoilt(1, 77), "record_malformed"),
        (spoilt(12, 0xff), "record_malformed"),
        (framed(&message(0)), "record_malformed"),
        (5u32.to_be_bytes().to_vec(), "record_malformed"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "record_oversized"),
        (1001u32.to_be_bytes().to_vec(), "record_oversized"),
        (after_hello(message(2)), "record_out_of_sequence"),
        (after_hello(hello()), "record_out_of_sequence"),
        (after_hello(record(header(Kind::Message, 1), &[9, 9])), "record_undecodable"),
        (after_hello(record(header(Kind::Who, 1), &[])), "record_malformed"),
        (after_hello(record(header(Kind::Group, 1), &[0; 20])), "record_malformed"),
    ];
    for (bytes, counter) in cases {
        is_closed_and_counted(&node, bytes, counter).await;
    }
    assert_eq!(node.count("post_received"), 0);
    // A good stream is taken as if nothing had happened, in any pieces.
    let addr = node.node.local_addr();
    let stream = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(addr).expect("accepted");
        for byte in [framed(&hello()), framed(&message(1)), framed(&message(2))].concat() {
            stream.write_all(&[byte]).expect("taken");
        }
        stream
    });
    assert_eq!(node.numbers(2).await, [1, 2]);
    drop(stream.await.expect("no panic"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn each_fault_of_a_datagram_drops_it_and_raises_its_counter() {
    let (node, played) = node_with(|config| config);
    let spoilt = |place: usize, value: u8| {
        let mut bytes = message(0);
        bytes[place] = value;
        bytes
    };
    played.connect(node.node.local_addr()).expect("connected");
    played.send(&hello()).expect("sent");
    let cases = [
        (spoilt(0, 0x01), "record_foreign_version"),
        (spoilt(4, 0xff), "record_unknown_service"),
        (spoilt(8, 0xff), "record_foreign_cluster"),
        (spoilt(23, 9), "record_unknown_sender"),
        (spoilt(12, 0xff), "record_unknown_session"),
        (spoilt(32, 9), "record_undecodable"),
        (message(0)[..20].to_vec(), "record_malformed"),
    ];
    for (bytes, counter) in cases {
        played.send(&bytes).expect("sent");
        node.counted(counter, 1).await;
    }
    // A group's number that is cut short.
    played.send(&record(header(Kind::Group, 0), &[0; 3])).expect("sent");
    node.counted("record_malformed", 2).await;
    assert_eq!(node.count("post_received"), 0);
    played.send(&message(1)).expect("sent");
    node.counted("post_received", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_bad_message_of_a_bundle_is_counted_and_the_others_are_taken() {
    let (mut node, played) = node_with(|config| config);
    let addr = node.node.local_addr();
    played.send_to(&hello(), addr).expect("sent");
    let entry = |service: ServiceNumber, body: &[u8]| {
        [&service.0.to_be_bytes()[..], &(body.len() as u16).to_be_bytes(), body].concat()
    };
    let own = ServiceNumber::default();
    let numbered = |number: u64| message(number)[32..].to_vec();
    let bundle = [
        entry(own, &numbered(1)),
        entry(ServiceNumber(own.0 ^ 1), &numbered(2)),
        entry(own, &[9; 9]),
        entry(ServiceNumber::NODE, &[255]),
        entry(own, &numbered(3)),
    ]
    .concat();
    let bundled = |body: &[u8]| record(header(Kind::Bundle, 0), body);
    // Cut in the length of the last message, and in that message.
    for (cut, malformed) in [(bundle.len(), 0), (bundle.len() - 14, 1), (bundle.len() - 1, 2)] {
        let before = node.count("post_received");
        played.send_to(&bundled(&bundle[..cut]), addr).expect("sent");
        assert_eq!(node.message().await.number, 1);
        if cut == bundle.len() {
            assert_eq!(node.message().await.number, 3);
        }
        node.counted("record_malformed", malformed).await;
        let taken = if cut == bundle.len() { 2 } else { 1 };
        node.counted("post_received", before + taken).await;
        assert_eq!(node.count("post_received"), before + taken);
    }
    node.counted("record_unknown_service", 3).await;
    node.counted("record_undecodable", 6).await;
    // Its header is checked as that of a message, and a stream takes none.
    let other = Header { session: 1, ..header(Kind::Bundle, 0) };
    played.send_to(&record(other, &bundle), addr).expect("sent");
    node.counted("record_unknown_session", 1).await;
    let named = Header { service: own, ..header(Kind::Bundle, 0) };
    played.send_to(&record(named, &bundle), addr).expect("sent");
    node.counted("record_unknown_service", 4).await;
    let stream = [framed(&hello()), framed(&record(header(Kind::Bundle, 1), &bundle))].concat();
    is_closed_and_counted(&node, stream, "record_malformed").await;
    assert_eq!(node.count("post_received"), 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_datagram_of_an_unknown_session_is_answered_by_one_question() {
    let (mut node, played) = node_with(|config| config);
    let addr = node.node.local_addr();
    for _ in 0..5 {
        played.send_to(&message(1), addr).expect("sent");
    }
    node.counted("record_unknown_session", 5).await;
    let mut asked = [0; 100];
    let length = played.recv(&mut asked).expect("a question");
    assert_eq!((length, asked[1]), (32, 3), "a Who without a body");
    played.send_to(&hello(), addr).expect("sent");
    played.send_to(&message(2), addr).expect("sent");
    assert_eq!(node.message().await.number, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_question_is_answered_by_a_hello() {
    let (node, played) = node_with(|config| config);
    let who = record(header(Kind::Who, 0), &[]);
    played.send_to(&who, node.node.local_addr()).expect("sent");
    let mut answer = [0; 100];
    let length = played.recv(&mut answer).expect("an answer");
    assert_eq!((length, answer[1]), (48, 2));
    let session = Session::from_body(&answer[32..48]).expect("a session");
    assert_eq!(session.incarnation(), node.node.incarnation());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_older_session_is_refused_for_ever() {
    let (mut node, played) = node_with(|config| config);
    let addr = node.node.local_addr();
    played.send_to(&hello(), addr).expect("sent");
    played.send_to(&message(1), addr).expect("sent");
    assert_eq!(node.message().await.number, 1);
    let newer = Session::new(2000, 5);
    let speak_newer = |kind| Header { session: newer.tag(), ..header(kind, 0) };
    let rejoined = record(speak_newer(Kind::Hello), newer.as_bytes());
    played.send_to(&rejoined, addr).expect("sent");
    node.counted("peer_restarted", 1).await;
    played.send_to(&message(2), addr).expect("sent");
    node.counted("record_unknown_session", 1).await;
    played.send_to(&hello(), addr).expect("sent");
    node.counted("record_old_session", 1).await;
    is_closed_and_counted(&node, framed(&hello()), "record_old_session").await;
    let fresh = record(speak_newer(Kind::Message), &[1, 0, 0, 0, 0, 0, 0, 0, 3]);
    played.send_to(&fresh, addr).expect("sent");
    assert_eq!(node.message().await.number, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_session_from_the_future_is_refused_and_shuts_nobody_out() {
    let (mut node, played) = node_with(|config| config);
    let addr = node.node.local_addr();
    // 2106, and the last moment that there is.
    for (count, start_ms) in [(1, 4_300_000_000_000), (2, u64::MAX)] {
        let future = Session::new(start_ms, 5);
        let head = Header { session: future.tag(), ..header(Kind::Hello, 0) };
        played.send_to(&record(head, future.as_bytes()), addr).expect("sent");
        node.counted("record_future_session", count).await;
    }
    played.send_to(&hello(), addr).expect("sent");
    played.send_to(&message(1), addr).expect("sent");
    assert_eq!(node.message().await.number, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_stream_of_a_peer_replaces_the_first() {
    let (mut node, _played) = node_with(|config| config);
    let addr = node.node.local_addr();
    let mut first = TcpStream::connect(addr).expect("accepted");
    first.write_all(&framed(&hello())).expect("taken");
    first.write_all(&framed(&message(1))).expect("taken");
    assert_eq!(node.message().await.number, 1);
    let mut second = TcpStream::connect(addr).expect("accepted");
    second.write_all(&framed(&hello())).expect("taken");
    second.write_all(&framed(&message(1))).expect("taken");
    assert_eq!(node.message().await.number, 1);
    let closed = tokio::task::spawn_blocking(move || {
        first.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let mut read = Vec::new();
        first.read_to_end(&mut read).map(|_| read.len())
    });
    match closed.await.expect("no panic") {
        Ok(read) => assert_eq!(read, 52, "its Hello, then the end"),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn streams_that_never_say_hello_are_few_and_short_lived() {
    let (node, _played) = node_with(|config| {
        config.with_half_open_max(4).with_hello_within(Duration::from_millis(200))
    });
    let addr = node.node.local_addr();
    let silent: Vec<_> = (0..10).map(|_| TcpStream::connect(addr).expect("accepted")).collect();
    node.counted("accept_evicted", 6).await;
    node.counted("accept_timed_out", 4).await;
    assert_eq!(node.count("accept_evicted"), 6);
    drop(silent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_record_that_never_ends_closes_its_stream_and_others_go_on() {
    let (mut node, _played) =
        node_with(|config| config.with_record_within(Duration::from_millis(300)));
    // Begun after the Hello, and before it.
    let mut after = framed(&hello());
    after.extend_from_slice(&framed(&[0; 5000])[..3000]);
    is_closed_and_counted(&node, after, "record_timed_out").await;
    is_closed_and_counted(&node, framed(&hello())[..20].to_vec(), "record_timed_out").await;
    // One that comes in pieces, each in time, and then rests, is whole.
    let mut slow = TcpStream::connect(node.node.local_addr()).expect("accepted");
    slow.write_all(&framed(&hello())).expect("taken");
    for number in 1..=3 {
        let record = framed(&message(number));
        slow.write_all(&record[..10]).expect("taken");
        tokio::time::sleep(Duration::from_millis(100)).await;
        slow.write_all(&record[10..]).expect("taken");
        assert_eq!(node.message().await.number, number);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    assert_eq!(node.count("record_timed_out"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_member_at_the_address_is_named_and_not_sent_to() {
    let (bound, roster) = support::bind_all(2, |config| config);
    let mut bound = bound.into_iter();
    let (zero, one) = (bound.next().expect("two"), bound.next().expect("two"));
    let one_addr = one.local_addr();
    let wrong = Roster::new([(NodeId(0), zero.local_addr()), (NodeId(2), one_addr)]);
    let a = start(zero, &wrong.expect("two members"));
    let b = start(one, &roster);
    a.send(2, Lane::Stream, 1, "for another");
    a.counted("record_wrong_member", 1).await;
    assert_eq!(b.count("post_received"), 0);
}
