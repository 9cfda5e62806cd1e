//! A node that a test plays.

use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use paceline::NodeId;
use paceline::net::record::{ClusterTag, HEADER_BYTES, Header, Kind, Session};
use paceline::proto::core::Wire;

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
    pub cluster: String,
    pub id: u32,
    pub session: Session,
}

impl Stranger {
    pub fn new(cluster: &str, id: u32) -> Stranger {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let session = Session::new(since_1970.as_millis() as u64, u64::from(id) + 1);
        for _ in 0..64 {
            let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()) {
                tcp.set_nonblocking(true).unwrap();
                udp.set_nonblocking(true).unwrap();
                return Stranger { udp, tcp, cluster: cluster.to_owned(), id, session };
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
        id: u32,
        to: SocketAddr,
        kind: Kind,
        body: &[u8],
    ) -> usize {
        let header = Header {
            kind,
            cluster: ClusterTag::of(&self.cluster),
            sender: NodeId(id),
            session: session.tag(),
            sequence: 0,
        };
        let record = [&header.encode()[..], body].concat();
        self.udp.send_to(&record, to).unwrap();
        record.len()
    }

    /// Sends a record under this id; returns its length.
    pub fn say_as(&self, id: u32, to: SocketAddr, kind: Kind, body: &[u8]) -> usize {
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
            self.say(to, Kind::Hello, &[&self.session.as_bytes()[..], nonce].concat());
        }
        is_question
    }

    /// Answers all questions that have come.
    pub fn answer(&self, to: SocketAddr) -> usize {
        let mut buffer = [0; 2000];
        let mut answered = 0;
        while let Ok((bytes, _)) = self.udp.recv_from(&mut buffer) {
            answered += usize::from(self.answer_question(to, &buffer[..bytes]));
        }
        answered
    }

    /// Says hello and proves to be where it is.
    pub async fn proves_itself(&self, to: SocketAddr) {
        self.say(to, Kind::Hello, self.session.as_bytes());
        for _ in 0..1000 {
            if self.answer(to) > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("not asked");
    }
}
