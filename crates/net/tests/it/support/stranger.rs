//! Nodes that a test plays, and the open node that they speak to.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use paceline_net::Roster;
use paceline_net::record::{
    ClusterTag, HEADER_BYTES, Header, Kind, LENGTH_BYTES, SESSION_BYTES, ServiceNumber, Session,
};
use paceline_proto::core::NodeId;

use super::{PATIENCE, Running, bind, config, start};

/// A node 0 that is open to all, with only itself in its roster.
pub fn open_node() -> Running {
    let bound = bind(config(0).with_open_membership());
    let roster = Roster::new([(NodeId(0), bound.local_addr())]).expect("one member");
    start(bound, &roster)
}

/// A node that the test plays.
pub struct Stranger {
    pub socket: UdpSocket,
    pub id: u64,
    pub session: Session,
    /// The verification tag that it was told.
    pub tag: Cell<u32>,
}

impl Stranger {
    pub fn new(id: u64, start_ms: u64) -> Stranger {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
        let session = Session::new(start_ms, id + 1);
        Stranger { socket, id, session, tag: Cell::default() }
    }

    pub fn record(&self, kind: Kind, tag: u32, sequence: u64, body: &[u8]) -> Vec<u8> {
        let header = Header {
            kind,
            epoch: 0,
            service: kind.number(ServiceNumber::default()),
            cluster: ClusterTag::of("test"),
            sender: NodeId(self.id),
            session: self.session.tag() ^ tag,
            sequence,
        };
        [&header.encode()[..], body].concat()
    }

    pub fn say(&self, to: SocketAddr, kind: Kind, body: &[u8]) {
        let tag = match kind {
            Kind::Message | Kind::Group | Kind::Bundle | Kind::Service => self.tag.get(),
            Kind::Hello | Kind::Who | Kind::Taken => 0,
        };
        self.socket.send_to(&self.record(kind, tag, 0, body), to).expect("sent");
    }

    /// Opens a stream with the tag that it was told; an error if it is not let in.
    pub fn dials(&self, to: SocketAddr) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(to)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let hello = self.record(Kind::Hello, self.tag.get(), 0, self.session.as_bytes());
        stream.write_all(&framed(&hello))?;
        stream.read_exact(&mut [0; LENGTH_BYTES + HEADER_BYTES + SESSION_BYTES])?;
        Ok(stream)
    }

    /// Answers the Hello of a node that has dialled.
    pub fn answers_hello(&self, stream: &mut TcpStream) {
        stream
            .read_exact(&mut [0; LENGTH_BYTES + HEADER_BYTES + SESSION_BYTES])
            .expect("its Hello");
        let hello = self.record(Kind::Hello, 0, 0, self.session.as_bytes());
        stream.write_all(&framed(&hello)).expect("taken");
    }

    /// Writes a message as the first message of a stream.
    pub fn writes_message(&self, stream: &mut TcpStream) {
        let record = self.record(Kind::Message, 0, 1, &MESSAGE);
        stream.write_all(&framed(&record)).expect("written");
    }

    pub fn hello(&self, to: SocketAddr) {
        self.say(to, Kind::Hello, self.session.as_bytes());
    }

    /// Says hello with this nonce. What it is sent then carries no tag.
    pub fn repeat(&self, to: SocketAddr, nonce: &[u8]) {
        self.say(to, Kind::Hello, &[self.session.as_bytes(), nonce, &[0; 4]].concat());
    }

    /// Sends a Who, and so learns its verification tag.
    pub fn asks(&self, to: SocketAddr) {
        self.say(to, Kind::Who, b"a nonce!");
        loop {
            let hello = self.hears(Kind::Hello);
            if let Some(tag) = hello[SESSION_BYTES..].strip_prefix(b"a nonce!") {
                return self.tag.set(u32::from_be_bytes(tag.try_into().expect("a tag")));
            }
        }
    }

    /// Says hello, and asks who the node is.
    pub fn meets(&self, to: SocketAddr) {
        self.hello(to);
        self.asks(to);
    }

    /// Repeats the nonce of the next question, and returns it.
    pub fn answers(&self, to: SocketAddr) -> Vec<u8> {
        let nonce = self.hears(Kind::Who);
        self.repeat(to, &nonce);
        nonce
    }

    /// Repeats the nonces of all questions that have come.
    pub fn answers_all(&self, to: SocketAddr) {
        self.socket.set_nonblocking(true).expect("a socket");
        let mut buffer = [0; 2000];
        while let Ok((bytes, _)) = self.socket.recv_from(&mut buffer) {
            if buffer[1] == 3 && bytes > HEADER_BYTES {
                self.repeat(to, &buffer[HEADER_BYTES..bytes]);
            }
        }
        self.socket.set_nonblocking(false).expect("a socket");
    }

    /// Says hello and repeats the nonce that it is asked for.
    pub async fn proves_itself(&self, node: &Running) {
        let addr = node.node.local_addr();
        let proven = node.count("peer_proven");
        self.hello(addr);
        self.answers(addr);
        node.counted("peer_proven", proven + 1).await;
        self.asks(addr);
    }

    /// A new run of the same node, at another address.
    pub fn restarted(&self) -> Stranger {
        Stranger { session: Session::new(2000, 77), ..Stranger::new(self.id, 0) }
    }

    /// Says hello and answers questions until the node asks for it by its new address, as a node
    /// does that looks for members.
    pub async fn claims(&self, node: &Running) {
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
                self.socket.set_nonblocking(false).expect("a socket");
                return self.asks(addr);
            }
        }
        panic!("not moved: {:?}", node.node.stats().counters.sorted());
    }

    /// The next record of this kind that comes back, without its header.
    pub fn hears(&self, kind: Kind) -> Vec<u8> {
        let tag = {
            let header = Header {
                kind,
                epoch: 0,
                service: kind.number(ServiceNumber::default()),
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

fn framed(record: &[u8]) -> Vec<u8> {
    [&(record.len() as u32).to_be_bytes()[..], record].concat()
}

/// A datagram of the test's protocol.
pub const MESSAGE: [u8; 9] = [0, 0, 0, 0, 0, 0, 0, 0, 7];
