//! Strangers whose addresses may be forged: what a producer sends them, and whom they keep out.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use paceline_named::{AddressRange, FaceConfig, Forwarder, Interest, Name, Serving};
use paceline_proto::core::encode_to_bytes;
use paceline_proto::ndn::Packet;

/// Longer than anything here takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Requests that each row of the table is measured with.
const REQUESTS: u32 = 500;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// A producer of `/p/f` that believes one loopback address, and its folder.
fn producer(segment_bytes: usize) -> (Forwarder, Serving, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), vec![7; 20_000]).unwrap();
    let believed: AddressRange = "127.0.0.1/32".parse().unwrap();
    let forwarder = Forwarder::builder().name("producer").strangers(FaceConfig::default());
    let forwarder = forwarder.faces_allowed([believed]).start().unwrap();
    let serve = forwarder.serve(folder.path(), name("/p")).segment_bytes(segment_bytes);
    (forwarder.clone(), serve.start().unwrap(), folder)
}

/// Bytes of a UDP datagram over IPv4, in packets of Ethernet.
fn on_the_wire(payload: usize) -> usize {
    8 + payload + (8 + payload).div_ceil(1_480) * 20
}

/// What was sent, or came back: bytes of payload, and on the wire.
#[derive(Clone, Copy, Default)]
struct Bytes {
    payload: usize,
    wire: usize,
}

impl Bytes {
    fn add(&mut self, datagram: usize) {
        self.payload += datagram;
        self.wire += on_the_wire(datagram);
    }

    /// How many times as much this is.
    fn over(self, other: Bytes) -> (f64, f64) {
        let quotient = |these: usize, those: usize| these as f64 / those as f64;
        (quotient(self.payload, other.payload), quotient(self.wire, other.wire))
    }
}

/// A host that asks a producer from an address.
struct Asker<'a> {
    producer: &'a Forwarder,
    socket: UdpSocket,
    asked: Bytes,
    answered: Bytes,
}

impl Asker<'_> {
    fn new<'a>(producer: &'a Forwarder, from: &str) -> Asker<'a> {
        let socket = UdpSocket::bind((from, 0)).unwrap();
        socket.connect(producer.local_addr()).unwrap();
        socket.set_nonblocking(true).unwrap();
        Asker { producer, socket, asked: Bytes::default(), answered: Bytes::default() }
    }

    /// Answers that were sent or withheld until now.
    fn decided(&self) -> u64 {
        let stats = self.producer.stats();
        assert_eq!(
            stats.counters.count("faces_unproven_rate"),
            0,
            "another limit than is measured"
        );
        stats.traffic.datagrams_out + stats.counters.count("faces_unproven_allowance")
    }

    /// Asks, and waits until the answer has come or was withheld. Returns the answer's length.
    async fn ask(&mut self, interest: Interest) -> usize {
        let bytes = encoded(interest);
        let before = self.decided();
        self.socket.send(&bytes).unwrap();
        self.asked.add(bytes.len());
        let decision = async {
            while self.decided() == before {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        };
        tokio::time::timeout(PATIENCE, decision).await.expect("an answer, or none on purpose");
        let mut answer = [0; 9_000];
        // On loopback what was sent is here.
        let length = self.socket.recv(&mut answer).unwrap_or(0);
        if length > 0 {
            self.answered.add(length);
        }
        length
    }
}

fn encoded(interest: Interest) -> Vec<u8> {
    encode_to_bytes(&Packet::from(interest)).to_vec()
}

/// A row of the table: what is asked, and how.
struct Request {
    what: &'static str,
    segment_bytes: usize,
    interest: fn(u32) -> Interest,
}

fn about(uri: &str, number: u32) -> Interest {
    Interest { can_be_prefix: true, ..Interest::new(name(uri), number) }
}

fn requests() -> [Request; 7] {
    let row = |what, segment_bytes, interest| Request { what, segment_bytes, interest };
    [
        row("segment", 1_000, |number| about("/p/f", number)),
        row("segment, `--segment-bytes 8000`", 8_000, |number| about("/p/f", number)),
        row("metadata", 1_000, |number| about("/p/f/32=metadata", number)),
        row("metadata of what is not there", 1_000, |number| about("/p/g/32=metadata", number)),
        row("ping", 1_000, |number| Interest::new(name("/p/32=ping/1"), number)),
        row("trace", 1_000, |number| Interest::new(name("/p/32=trace/1"), number)),
        row("no route: a refusal", 1_000, |number| Interest::new(name("/q"), number)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unproven_stranger_gets_at_most_three_times_what_it_sent_whatever_it_asks() {
    let documented = include_str!("../../../../docs/protocols/mircc.md");
    let mut table = Vec::new();
    for (number, request) in (1..).zip(requests()) {
        let (producer, _serving, _folder) = producer(request.segment_bytes);
        let mut proven = Asker::new(&producer, "127.0.0.1");
        proven.ask((request.interest)(1)).await;
        // The digest of the file is computed once it is asked for.
        tokio::time::sleep(Duration::from_millis(200)).await;
        (proven.asked, proven.answered) = Default::default();
        let length = proven.ask((request.interest)(2)).await;
        assert!(length > 0, "{}: who is proven is answered", request.what);
        let mut forged = Asker::new(&producer, &format!("127.0.{number}.2"));
        for nonce in 0..REQUESTS {
            forged.ask((request.interest)(1_000 + nonce)).await;
        }
        let (times, unproven) =
            (proven.answered.over(proven.asked), forged.answered.over(forged.asked));
        assert!(unproven.0 <= 3.0 && unproven.1 <= 3.0, "{}: {unproven:?}", request.what);
        // The limit is used: what fits is sent.
        assert!(forged.answered.payload > 0 || length > 3 * forged.asked.payload);
        table.push(format!(
            "| {} | {} | {} | {:.1} | {:.1} | {:.2} | {:.2} |",
            request.what, proven.asked.payload, length, times.0, times.1, unproven.0, unproven.1
        ));
        producer.stop().await;
    }
    println!("{}", table.join("\n"));
    for row in table {
        assert!(documented.contains(&row), "docs/protocols/mircc.md has no row\n{row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_interests_keep_no_consumer_out() {
    let (producer, _serving, folder) = producer(1_000);
    let counted = async |counter: &str, at_least: u64| {
        let wait = async {
            while producer.stats().counters.count(counter) < at_least {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("it is counted");
    };
    // More addresses than there may be faces, each an Interest.
    for host in 0..1_100_u32 {
        let from = SocketAddr::from(([127, 1, (host / 250) as u8, (host % 250) as u8 + 1], 0));
        let interest = encoded(about("/p/f", host));
        UdpSocket::bind(from).unwrap().send_to(&interest, producer.local_addr()).unwrap();
        // No more at once than a socket holds everywhere.
        if host % 100 == 99 {
            counted("faces_opened", u64::from(host) + 1).await;
        }
    }
    assert_eq!(producer.report().await.unwrap().addresses.len(), 1_024);
    let consumer = Forwarder::builder().face(producer.local_addr(), FaceConfig::default());
    let consumer = consumer.route(Name::root(), producer.local_addr()).start().unwrap();
    let fetch = consumer.fetch(name("/p/f"), folder.path().join("out")).start().finish();
    let fetched = tokio::time::timeout(PATIENCE, fetch).await.expect("an end").unwrap();
    assert_eq!(fetched.bytes, 20_000);
    let stats = producer.stats();
    assert_eq!(stats.counters.count("faces_full"), 0, "nothing of the consumer was dropped");
    assert_eq!(stats.counters.count("faces_yielded"), 1_100 + 1 - 1_024);
    assert!(producer.report().await.unwrap().withheld() > 0);
}
