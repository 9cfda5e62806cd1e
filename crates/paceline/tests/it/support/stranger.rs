//! A node that a test plays.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use paceline::NodeId;
use paceline::net::record::{
    ClusterTag, HEADER_BYTES, Header, Kind, LENGTH_BYTES, SESSION_BYTES, ServiceNumber, Session,
};
use paceline::proto::core::Wire;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A message as it goes into a record.
pub fn encoded(message: &impl Wire) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    if let Some(payload) = message.encode(&mut bytes) {
        bytes.extend_from_slice(&payload.to_bytes());
    }
    bytes.to_vec()
}

/// A node that the test plays: a UDP port, and the TCP port of the same number.
pub struct Stranger {
    pub udp: UdpSocket,
    pub tcp: TcpListener,
    pub service: ServiceNumber,
    pub id: u64,
    pub session: Session,
    /// The verification tags that it was told, by address.
    pub tags: Mutex<BTreeMap<SocketAddr, u32>>,
    /// The sessions of the nodes that it asked, by address.
    pub sessions: Mutex<BTreeMap<SocketAddr, Session>>,
}

/// The cluster of all hosts.
const CLUSTER: &str = "test";
/// The nonce of its questions.
const NONCE: &[u8; 8] = b"a nonce!";

impl Stranger {
    pub fn new(service: ServiceNumber, id: u64) -> Stranger {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let session = Session::new(since_1970.as_millis() as u64, id + 1);
        for _ in 0..64 {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                tcp.set_nonblocking(true).unwrap();
                udp.set_nonblocking(true).unwrap();
                let (tags, sessions) = (Mutex::default(), Mutex::default());
                return Stranger { udp, tcp, service, id, session, tags, sessions };
            }
        }
        panic!("no port is free for both");
    }

    pub fn addr(&self) -> SocketAddr {
        self.udp.local_addr().unwrap()
    }

    /// Sends a record under this id and session; returns its length.
    pub fn say_in(
        &self,
        session: Session,
        id: u64,
        to: SocketAddr,
        kind: Kind,
        body: &[u8],
    ) -> usize {
        let tag = match kind {
            Kind::Message | Kind::Group | Kind::Bundle | Kind::Service => {
                self.tags.lock().unwrap().get(&to).copied().unwrap_or_default()
            }
            Kind::Hello | Kind::Who | Kind::Taken => 0,
        };
        let header = Header {
            kind,
            epoch: 0,
            service: kind.number(self.service),
            cluster: ClusterTag::of(CLUSTER),
            sender: NodeId(id),
            session: session.tag() ^ tag,
            sequence: 0,
        };
        let record = [&header.encode()[..], body].concat();
        self.udp.send_to(&record, to).unwrap();
        record.len()
    }

    /// Sends a record under this id; returns its length.
    pub fn say_as(&self, id: u64, to: SocketAddr, kind: Kind, body: &[u8]) -> usize {
        self.say_in(self.session, id, to, kind, body)
    }

    pub fn say(&self, to: SocketAddr, kind: Kind, body: &[u8]) -> usize {
        self.say_as(self.id, to, kind, body)
    }

    /// Answers a record, if it is a question.
    pub fn answer_question(&self, to: SocketAddr, record: &[u8]) -> bool {
        let is_question = record[1] == 3;
        if is_question {
            let nonce = &record[HEADER_BYTES..];
            // What it is sent then carries no tag.
            self.say(to, Kind::Hello, &[&self.session.as_bytes()[..], nonce, &[0; 4]].concat());
        }
        is_question
    }

    /// Notes the verification tag and the session of this node, if they come with this record.
    fn note_tag(&self, of: SocketAddr, record: &[u8]) {
        let echo = record.get(HEADER_BYTES + SESSION_BYTES..).unwrap_or_default();
        if let Some(tag) = echo.strip_prefix(NONCE) {
            let session = Session::from_body(&record[HEADER_BYTES..][..SESSION_BYTES]);
            self.sessions.lock().unwrap().insert(of, session.expect("a session"));
            self.tags.lock().unwrap().insert(of, u32::from_be_bytes(tag.try_into().unwrap()));
        }
    }

    /// Says hello and sends a Who, and does not answer the question of the node. Returns the bytes
    /// and datagrams that it sent, and those that came back.
    pub async fn meets(&self, to: SocketAddr) -> [(usize, usize); 2] {
        let sent = self.say(to, Kind::Hello, self.session.as_bytes());
        let sent = sent + self.say(to, Kind::Who, NONCE);
        let mut received = (0, 0);
        let mut buffer = [0; 2000];
        for _ in 0..1000 {
            while let Ok((bytes, _)) = self.udp.recv_from(&mut buffer) {
                received = (received.0 + bytes, received.1 + 1);
                self.note_tag(to, &buffer[..bytes]);
            }
            if self.tags.lock().unwrap().contains_key(&to) {
                return [(sent, 2), received];
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not told a tag");
    }

    /// Answers all questions that have come.
    pub fn answer(&self, to: SocketAddr) -> usize {
        let mut buffer = [0; 2000];
        let mut answered = 0;
        while let Ok((bytes, _)) = self.udp.recv_from(&mut buffer) {
            self.note_tag(to, &buffer[..bytes]);
            answered += usize::from(self.answer_question(to, &buffer[..bytes]));
        }
        answered
    }

    /// Opens a stream. True if it is let in: the node answers the Hello.
    pub async fn dials(&self, to: SocketAddr) -> bool {
        let tag = self.tags.lock().unwrap().get(&to).copied().unwrap_or_default();
        let header = Header {
            kind: Kind::Hello,
            epoch: 0,
            service: ServiceNumber::NODE,
            cluster: ClusterTag::of(CLUSTER),
            sender: NodeId(self.id),
            session: self.session.tag() ^ tag,
            sequence: 0,
        };
        let record = [&header.encode()[..], self.session.as_bytes()].concat();
        let mut stream = tokio::net::TcpStream::connect(to).await.unwrap();
        let length = (record.len() as u32).to_be_bytes();
        stream.write_all(&[&length[..], &record].concat()).await.unwrap();
        stream.read_exact(&mut [0; LENGTH_BYTES + HEADER_BYTES + SESSION_BYTES]).await.is_ok()
    }

    /// Says hello, proves to be where it is, and asks who the node is.
    pub async fn proves_itself(&self, to: SocketAddr) {
        self.say(to, Kind::Hello, self.session.as_bytes());
        self.say(to, Kind::Who, NONCE);
        let mut answered = 0;
        for _ in 0..1000 {
            answered += self.answer(to);
            if answered > 0 && self.tags.lock().unwrap().contains_key(&to) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not asked");
    }
}
