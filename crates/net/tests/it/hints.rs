//! Where others say that a node is: it is asked there, and gets nothing else before it has
//! answered.

use crate::support;

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::Duration;

use paceline_net::record::{HEADER_BYTES, Kind, SESSION_BYTES};
use paceline_proto::core::{Lane, NodeId, PeerState};
use support::stranger::{MESSAGE, Stranger, open_node};
use support::{Order, Report, Running};

/// A question with a nonce.
const WHO_BYTES: usize = HEADER_BYTES + 8;
/// Questions to an address that does not answer, the first time.
const QUESTIONS: usize = 3;

/// A host that has nothing to do with the node: it notes what arrives.
struct Bystander {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl Bystander {
    fn at(ip: std::net::IpAddr) -> Bystander {
        for _ in 0..64 {
            let tcp = TcpListener::bind((ip, 0)).expect("a port");
            let addr = tcp.local_addr().expect("bound");
            if let Ok(udp) = UdpSocket::bind(addr) {
                tcp.set_nonblocking(true).expect("a socket");
                udp.set_nonblocking(true).expect("a socket");
                return Bystander { udp, tcp };
            }
        }
        panic!("no port is free for both");
    }

    fn new() -> Bystander {
        Bystander::at([127, 0, 0, 1].into())
    }

    fn addr(&self) -> SocketAddr {
        self.udp.local_addr().expect("bound")
    }

    /// The datagrams that have come, each by its kind and length.
    fn datagrams(&self) -> Vec<(u8, usize)> {
        let mut buffer = [0; 2000];
        let mut got = Vec::new();
        while let Ok((bytes, _)) = self.udp.recv_from(&mut buffer) {
            got.push((buffer[1], bytes));
        }
        got
    }

    fn is_dialled(&self) -> bool {
        self.tcp.accept().is_ok()
    }
}

fn learn(node: &Running, id: u32, addr: impl ToString) {
    node.order(Order::Learn(NodeId::from(id), addr.to_string()));
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_hint_is_asked_three_times_and_gets_no_message_and_no_connection() {
    let mut node = open_node();
    let bystander = Bystander::new();
    learn(&node, 9, bystander.addr());
    for number in 0..20 {
        node.send(9, Lane::Datagram, number, vec![0; 1000]);
        node.send(9, Lane::Stream, number, vec![0; 10_000]);
    }
    let down =
        |report: &Report| (*report == Report::Peer(NodeId(9), PeerState::Down)).then_some(());
    node.find(down).await;
    // Once more, after it did not answer: nothing until a wait is over.
    node.send(9, Lane::Datagram, 20, vec![0; 1000]);
    node.send(9, Lane::Stream, 20, vec![0; 1000]);
    wait(Duration::from_millis(200)).await;
    let got = bystander.datagrams();
    assert_eq!(got, [(3, WHO_BYTES); QUESTIONS], "questions and nothing else");
    assert!(!bystander.is_dialled());
    assert_eq!(node.count("proof_failed"), 1);
    assert!(node.count("proof_waited_for") >= 40, "{:?}", node.node.stats().counters.sorted());
    assert!(node.count("proof_dropped") >= 21);
    assert_eq!(node.count("stream_dial_failed"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_only_asks_is_asked_twelve_times_and_gets_less_than_three_times_as_much() {
    let node = open_node();
    let (addr, asker) = (node.node.local_addr(), Stranger::new(9, 1000));
    learn(&node, 9, asker.socket.local_addr().expect("bound"));
    node.send(9, Lane::Datagram, 1, vec![0; 1000]);
    asker.socket.set_nonblocking(true).expect("a socket");
    let (mut sent, mut received, mut questions) = (0, 0, 0);
    let mut buffer = [0; 2000];
    while node.count("proof_failed") == 0 {
        asker.say(addr, Kind::Who, b"a nonce!");
        sent += WHO_BYTES;
        wait(Duration::from_millis(100)).await;
        while let Ok((bytes, _)) = asker.socket.recv_from(&mut buffer) {
            received += bytes;
            questions += usize::from(buffer[1] == 3);
        }
        assert!(questions <= 12 && received < 3 * sent, "{received} bytes for {sent}");
    }
    assert_eq!(questions, 12);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_for_a_proof_leaves_with_it_in_order_and_at_once() {
    let node = open_node();
    let bystander = Bystander::new();
    let udp = bystander.udp.try_clone().expect("a socket");
    udp.set_nonblocking(false).expect("a socket");
    let nine = Stranger { socket: udp, ..Stranger::new(9, 1000) };
    learn(&node, 9, bystander.addr());
    node.send(9, Lane::Datagram, 1, "first");
    node.send(9, Lane::Datagram, 2, "second");
    node.send(9, Lane::Stream, 3, "third");
    nine.answers(node.node.local_addr());
    // The Hello comes first: it names the sender.
    assert_eq!(nine.hears(Kind::Hello).len(), SESSION_BYTES);
    assert_eq!(nine.hears(Kind::Message)[9..], *b"first");
    assert_eq!(nine.hears(Kind::Message)[9..], *b"second");
    while !bystander.is_dialled() {
        wait(Duration::from_millis(5)).await;
    }
    assert_eq!((node.count("peer_proven"), node.count("proof_failed")), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_latest_hint_is_tried_and_an_answer_to_an_earlier_one_still_counts() {
    let node = open_node();
    let (true_one, bystander) = (Stranger::new(9, 1000), Bystander::new());
    learn(&node, 9, true_one.socket.local_addr().expect("bound"));
    node.send(9, Lane::Datagram, 1, "to you");
    let nonce = true_one.hears(Kind::Who);
    learn(&node, 9, bystander.addr());
    wait(Duration::from_millis(50)).await;
    assert_eq!(bystander.datagrams(), [(3, WHO_BYTES)]);
    true_one.repeat(node.node.local_addr(), &nonce);
    assert_eq!(true_one.hears(Kind::Message)[9..], *b"to you");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_hint_replaces_no_address_that_is_proven() {
    let node = open_node();
    let (nine, bystander) = (Stranger::new(9, 1000), Bystander::new());
    nine.proves_itself(&node).await;
    // Longer than the silence after which another run may take over.
    wait(Duration::from_millis(1200)).await;
    for number in 0..50 {
        learn(&node, 9, bystander.addr());
        node.send(9, Lane::Datagram, number, vec![7; 1000]);
        node.send(9, Lane::Stream, number, vec![7; 1000]);
        wait(Duration::from_millis(40)).await;
    }
    for _ in 0..50 {
        nine.hears(Kind::Message);
    }
    let got = bystander.datagrams();
    assert!(!got.is_empty() && got.len() <= 2 * QUESTIONS, "{got:?}");
    assert!(got.iter().all(|&it| it == (3, WHO_BYTES)), "{got:?}");
    assert!(!bystander.is_dialled());
    assert_eq!(node.count("peer_moved"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_hint_leads_to_a_member_that_restarted_elsewhere_and_waits_to_be_asked() {
    let node = open_node();
    let first = Stranger::new(9, 1000);
    first.proves_itself(&node).await;
    let second = first.restarted();
    drop(first);
    let addr = node.node.local_addr();
    learn(&node, 9, second.socket.local_addr().expect("bound"));
    for _ in 0..100 {
        second.answers_all(addr);
        if node.count("peer_moved") == 1 {
            node.send(9, Lane::Datagram, 1, "to you");
            assert_eq!(second.hears(Kind::Message)[9..], *b"to you");
            return;
        }
        wait(Duration::from_millis(50)).await;
    }
    panic!("not moved: {:?}", node.node.stats().counters.sorted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_limited_to_loopback_sends_and_dials_nowhere_else() {
    let node = open_node();
    // An address of this machine that is not loopback; none of it is sent there to find out.
    let probe = UdpSocket::bind("0.0.0.0:0").expect("a port");
    let outside = probe.connect("198.51.100.1:9").and_then(|()| probe.local_addr());
    let outside = outside.ok().filter(|addr| !addr.ip().is_loopback());
    let bystander = outside.map(|addr| Bystander::at(addr.ip()));
    let addr = match &bystander {
        Some(bystander) => bystander.addr(),
        None => "192.0.2.1:9".parse().expect("an address"),
    };
    let mapped = format!("[::ffff:192.0.2.1]:{}", addr.port());
    for (id, hint) in [(9, addr.to_string()), (10, mapped), (11, "[2001:db8::1]:9".to_owned())] {
        learn(&node, id, hint);
        node.send(id, Lane::Datagram, 1, "not there");
        node.send(id, Lane::Stream, 1, "nor there");
    }
    for hint in ["255.255.255.255:9", "224.0.0.1:9", "0.0.0.0:9", "127.0.0.1:0", "nowhere"] {
        learn(&node, 12, hint);
        node.send(12, Lane::Datagram, 1, "not there");
    }
    // A member that is proven is not looked for there either.
    let member = Stranger::new(20, 1000);
    member.proves_itself(&node).await;
    learn(&node, 20, addr);
    node.send(20, Lane::Datagram, 1, "to you");
    assert_eq!(member.hears(Kind::Message)[9..], *b"to you");
    wait(Duration::from_millis(500)).await;
    assert_eq!(node.count("peer_hint_not_loopback"), 4);
    assert_eq!(node.count("peer_bad_address"), 5);
    assert_eq!(node.count("send_unknown_member"), 11, "no place in the table is taken");
    assert_eq!((node.count("stream_dial_failed"), node.count("datagram_send_failed")), (0, 0));
    if let Some(bystander) = bystander {
        assert_eq!((bystander.datagrams(), bystander.is_dialled()), (Vec::new(), false));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_waits_for_proofs_is_bounded_and_so_are_the_questions() {
    let node = open_node();
    let bystander = Bystander::new();
    // More than wait for one node.
    learn(&node, 9, bystander.addr());
    for number in 0..100 {
        node.send(9, Lane::Stream, number, vec![0; 50_000]);
    }
    node.counted("proof_dropped", 1).await;
    // More than are asked at once.
    for id in 1000..2500 {
        learn(&node, id, bystander.addr());
        node.send(id, Lane::Datagram, 1, "x");
    }
    node.counted("proof_table_full", 400).await;
    let asked = node.count("peer_challenged");
    assert!((200..=300).contains(&asked), "{asked} at once");
    assert!(node.count("proof_delayed") > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn strangers_that_are_asked_at_once_all_answer_at_once() {
    // Sixteen nodes ask a node that knows none of them.
    let node = open_node();
    let addr = node.node.local_addr();
    let strangers: Vec<Stranger> = (100..116).map(|id| Stranger::new(id, 1000)).collect();
    for stranger in &strangers {
        stranger.say(addr, Kind::Who, &[1, 2, 3, 4, 5, 6, 7, 8]);
    }
    for stranger in &strangers {
        let echo = stranger.hears(Kind::Hello)[SESSION_BYTES..].to_vec();
        assert!(echo.starts_with(&[1, 2, 3, 4, 5, 6, 7, 8]) && echo.len() == 12, "{echo:?}");
    }
    assert_eq!(node.count("stranger_unanswered"), 0);
    strangers[0].say(addr, Kind::Message, &MESSAGE);
    assert!(strangers[0].hears(Kind::Who).is_empty());
}
