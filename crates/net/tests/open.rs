//! Nodes that no roster names: who is let in, who is refused, and what each is told.

mod support;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use paceline_net::Roster;
use paceline_net::record::{ClusterTag, HEADER_BYTES, Header, Kind, Session};
use paceline_proto::core::NodeId;
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
    let second = Stranger { session: Session::new(2000, 77), ..Stranger::new(9, 0) };
    second.hello(addr);
    assert_eq!(second.hears(Kind::Taken), [0]);
    node.counted("record_id_in_use", 1).await;
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
