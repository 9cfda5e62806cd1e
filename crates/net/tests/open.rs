//! Nodes that no roster names: who is let in, who is refused, and what each is told.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use paceline_net::Roster;
use paceline_net::record::{ClusterTag, HEADER_BYTES, Header, Kind, Session};
use paceline_proto::core::{Lane, NodeId};
use support::{PATIENCE, Running, bind, config, start};

/// A node 0 that is open to all, with only itself in its roster.
fn open_node() -> Running {
    let bound = bind(config(0).with_open_membership());
    let roster = Roster::new([(NodeId(0), bound.local_addr())]).expect("one member");
    start(bound, &roster)
}

/// A node that the test plays.
struct Stranger {
    socket: UdpSocket,
    id: u32,
    session: Session,
}

impl Stranger {
    fn new(id: u32, start_ms: u64) -> Stranger {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        Stranger { socket, id, session: Session::new(start_ms, u64::from(id) + 1) }
    }

    fn say(&self, to: SocketAddr, kind: Kind, body: &[u8]) {
        let header = Header {
            kind,
            cluster: ClusterTag::of("test"),
            sender: NodeId(self.id),
            session: self.session.tag(),
            sequence: 0,
        };
        let record = [&header.encode()[..], body].concat();
        self.socket.send_to(&record, to).expect("sent");
    }

    fn hello(&self, to: SocketAddr) {
        self.say(to, Kind::Hello, self.session.as_bytes());
    }

    /// Says hello with this nonce.
    fn repeat(&self, to: SocketAddr, nonce: &[u8]) {
        self.say(to, Kind::Hello, &[self.session.as_bytes(), nonce].concat());
    }

    /// Repeats the nonce of the next question, and returns it.
    fn answers(&self, to: SocketAddr) -> Vec<u8> {
        let nonce = self.hears(Kind::Who);
        self.repeat(to, &nonce);
        nonce
    }

    /// A new run of the same node, at another address.
    fn restarted(&self) -> Stranger {
        Stranger { session: Session::new(2000, 77), ..Stranger::new(self.id, 0) }
    }

    /// Says hello and answers questions until the node asks for it by its new address, as a node
    /// does that looks for members.
    async fn claims(&self, node: &Running) {
        let addr = node.node.local_addr();
        let moved = node.count("peer_moved");
        self.socket.set_nonblocking(true).expect("a socket");
        for _ in 0..200 {
            self.hello(addr);
            tokio::time::sleep(Duration::from_millis(50)).await;
            let mut buffer = [0; 2000];
            while let Ok((bytes, _)) = self.socket.recv_from(&mut buffer) {
                if buffer[1] == 3 && bytes > HEADER_BYTES {
                    self.repeat(addr, &buffer[HEADER_BYTES..bytes]);
                }
            }
            if node.count("peer_moved") > moved {
                return self.socket.set_nonblocking(false).expect("a socket");
            }
        }
        panic!("not moved: {:?}", node.node.stats().counters.sorted());
    }

    /// The next record of this kind that comes back, without its header.
    fn hears(&self, kind: Kind) -> Vec<u8> {
        let tag = {
            let header = Header {
                kind,
                cluster: ClusterTag::of("test"),
                sender: NodeId(0),
                session: 0,
                sequence: 0,
            };
            header.encode()[1]
        };
        let mut buffer = [0; 2000];
        loop {
            let (bytes, _) = self.socket.recv_from(&mut buffer).expect("an answer");
            if buffer[1] == tag {
                return buffer[HEADER_BYTES..bytes].to_vec();
            }
        }
    }
}

/// A datagram of the test's protocol.
const LETTER: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0, 7];

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stranger_is_let_in_once_it_has_said_hello() {
    let mut node = open_node();
    let (addr, stranger) = (node.node.local_addr(), Stranger::new(9, 1000));
    stranger.say(addr, Kind::Message, &LETTER);
    // Before that it is asked who it is, and no message is taken.
    assert!(stranger.hears(Kind::Who).is_empty());
    node.counted("record_unknown_session", 1).await;
    // Strangers are answered one at a time.
    tokio::time::sleep(Duration::from_millis(50)).await;
    stranger.say(addr, Kind::Who, &[]);
    assert_eq!(stranger.hears(Kind::Hello).len(), 16);
    stranger.hello(addr);
    stranger.say(addr, Kind::Message, &LETTER);
    node.letter().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn another_node_with_the_id_of_one_that_is_there_is_refused_and_told_so() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.hello(addr);
    first.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    let second = first.restarted();
    second.hello(addr);
    // It is where it says, but the first answers too.
    second.answers(addr);
    first.answers(addr);
    tokio::time::sleep(Duration::from_millis(50)).await;
    second.hello(addr);
    second.answers(addr);
    assert_eq!(second.hears(Kind::Taken), [0]);
    node.counted("record_id_in_use", 1).await;
    assert_eq!((node.count("peer_moved"), node.count("peer_restarted")), (0, 0));
    // The first goes on.
    first.say(addr, Kind::Message, &LETTER);
    node.letter().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_whose_clock_was_set_back_is_refused_and_told_so() {
    let node = open_node();
    let addr = node.node.local_addr();
    // Said hello, never heard of again.
    Stranger::new(9, 5000).hello(addr);
    let back = Stranger { session: Session::new(4000, 77), ..Stranger::new(9, 0) };
    tokio::time::sleep(Duration::from_millis(50)).await;
    back.hello(addr);
    assert_eq!(back.hears(Kind::Taken), [1]);
    node.counted("record_old_session", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_that_restarts_at_another_address_is_moved_there_once_it_has_answered() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.hello(addr);
    first.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    let second = first.restarted();
    drop(first);
    second.claims(&node).await;
    assert_eq!(node.count("peer_restarted"), 1);
    second.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    // What the node sends goes to the new address.
    node.send(9, Lane::Datagram, 1, "to you");
    assert_eq!(second.hears(Kind::Message)[9..], *b"to you");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_forger_who_cannot_see_the_nonce_moves_nobody() {
    let mut node = open_node();
    let (addr, victim) = (node.node.local_addr(), Stranger::new(9, 1000));
    victim.hello(addr);
    victim.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    let forger = victim.restarted();
    // For longer than silence needs to be; the victim does not answer either.
    for round in 0..40u8 {
        forger.hello(addr);
        forger.repeat(addr, &[round; 8]);
        forger.say(addr, Kind::Message, &LETTER);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(node.count("peer_challenged") > 0);
    assert_eq!((node.count("peer_moved"), node.count("peer_restarted")), (0, 0));
    // A nonce is for one address: what the victim was asked is worth nothing elsewhere.
    let probe = Stranger { session: forger.session, ..Stranger::new(9, 0) };
    probe.hello(addr);
    let nonce = probe.hears(Kind::Who);
    forger.repeat(addr, &nonce);
    victim.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    assert_eq!((node.count("peer_moved"), node.count("peer_restarted")), (0, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_address_that_has_proven_nothing_gets_no_more_than_three_times_what_it_sent() {
    let mut node = open_node();
    let (addr, victim) = (node.node.local_addr(), Stranger::new(9, 1000));
    victim.hello(addr);
    victim.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    let unproven = victim.restarted();
    let mut sent = 0;
    for _ in 0..20 {
        unproven.hello(addr);
        unproven.say(addr, Kind::Message, &LETTER);
        unproven.say(addr, Kind::Who, &[]);
        sent += 40 + 33 + 24;
    }
    node.send(9, Lane::Datagram, 1, vec![0; 1000]);
    tokio::time::sleep(Duration::from_millis(200)).await;
    unproven.socket.set_nonblocking(true).expect("a socket");
    let mut buffer = [0; 2000];
    let mut received = 0;
    while let Ok((bytes, _)) = unproven.socket.recv_from(&mut buffer) {
        received += bytes;
    }
    assert!(received > 0 && received <= 3 * sent, "{received} bytes for {sent}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_run_at_the_same_address_proves_it_too_and_waits_for_nothing() {
    let mut node = open_node();
    let (addr, first) = (node.node.local_addr(), Stranger::new(9, 1000));
    first.hello(addr);
    first.say(addr, Kind::Message, &LETTER);
    node.letter().await;
    let second = Stranger { session: Session::new(2000, 77), ..first };
    second.hello(addr);
    second.say(addr, Kind::Message, &LETTER);
    node.counted("record_unknown_session", 1).await;
    assert_eq!(node.count("peer_restarted"), 0, "a Hello alone says nothing");
    second.answers(addr);
    node.counted("peer_restarted", 1).await;
    second.say(addr, Kind::Message, &LETTER);
    node.letter().await;
}
