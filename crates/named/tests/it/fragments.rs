//! Producers of other people's: Data in fragments of NDNLPv2, and what cannot be decoded.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use paceline_named::{
    Data, FaceConfig, FetchError, Forwarder, Interest, Name, Signer, UndecodedFrom,
};
use paceline_proto::core::{DecodeError, Payload, Rng, decode_exact, encode_to_bytes};
use paceline_proto::ndn::{Body, Fragment, Header, Meta, Packet};

/// ndnd's default.
const MTU: usize = 1_420;
const SEGMENT_BYTES: usize = 8_000;

/// A UDP socket that answers Interests in whatever way is asked for.
struct Producer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Producer {
    /// Each Interest is answered with these datagrams.
    fn new(mut answer: impl FnMut(&Interest, &Header) -> Vec<Bytes> + Send + 'static) -> Producer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 9_000];
            while !ends.load(Ordering::Relaxed) {
                let Ok((len, from)) = socket.recv_from(&mut buffer) else { continue };
                let packet: Packet = decode_exact(Bytes::copy_from_slice(&buffer[..len])).unwrap();
                let Body::Interest(interest) = &packet.body else { continue };
                for datagram in answer(interest, &packet.header) {
                    socket.send_to(&datagram, from).unwrap();
                }
            }
        });
        Producer { address, is_over, thread: Some(thread) }
    }

    fn consumer(&self) -> Forwarder {
        let face = FaceConfig::default();
        let builder = Forwarder::builder().face(self.address, face);
        builder.route(Name::root(), self.address).start().unwrap()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        let ended = self.thread.take().expect("it runs until now").join();
        assert!(std::thread::panicking() || ended.is_ok(), "the producer panicked");
    }
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(5, 0);
    (0..bytes).map(|_| rng.next_u32() as u8).collect()
}

/// The segment of `/p/file/v=1` that an Interest asks for; none for anything else, metadata too.
fn segment(content: &[u8], interest: &Interest) -> Option<Data> {
    let version = name("/p/file/v=1");
    let number = match interest.name.segment() {
        Some(number) if interest.name.without_segment() == version => number as usize,
        None if interest.name == name("/p/file") => 0,
        _ => return None,
    };
    let last = content.len().div_ceil(SEGMENT_BYTES) - 1;
    let part = content.chunks(SEGMENT_BYTES).nth(number)?;
    let meta = Meta { final_segment: Some(last as u64), ..Meta::default() };
    let part = Payload::from(part.to_vec());
    Some(Data::new(version.with_segment(number as u64), meta, part, &Signer::Digest))
}

/// Data as ndnd sends it on a face whose MTU is shorter: fields for the hop go with each fragment.
fn split(data: Data, header: &Header, sequence: &mut u64) -> Vec<Bytes> {
    let header = Header { token: header.token.clone(), ..Header::default() };
    let bytes = encode_to_bytes(&Packet::from(data));
    let parts: Vec<Bytes> = bytes.chunks(MTU).map(Bytes::copy_from_slice).collect();
    let count = parts.len() as u32;
    if count == 1 {
        return parts;
    }
    let part = |(index, bytes): (u32, Bytes)| {
        *sequence += 1;
        let fragment = Fragment { sequence: *sequence, index, count, nack: None, bytes };
        encode_to_bytes(&Packet { header: header.clone(), body: Body::Fragment(fragment) })
    };
    (0..count).zip(parts).map(part).collect()
}

async fn fetch(consumer: &Forwarder, within: Duration) -> Result<Vec<u8>, FetchError> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let fetch = consumer.fetch(name("/p/file"), &out).answer_within(within).give_up_after(within);
    let ended = tokio::time::timeout(Duration::from_secs(60), fetch.start().finish());
    ended.await.expect("an end").map(|_| std::fs::read(&out).unwrap())
}

#[tokio::test]
async fn data_that_a_producer_sends_in_fragments_is_fetched_whole() {
    let content = noise(400_000);
    let (served, mut sequence) = (content.clone(), 1 << 40);
    let producer = Producer::new(move |interest, header| {
        let data = segment(&served, interest);
        data.map_or(vec![], |data| split(data, header, &mut sequence))
    });
    let consumer = producer.consumer();
    assert!(fetch(&consumer, Duration::from_secs(10)).await.unwrap() == content);
    let stats = consumer.stats();
    assert!(stats.counters.count("mircc_reassembled") >= 50, "{stats:?}");
    assert_eq!(stats.counters.count("faces_undecodable"), 0);
}

#[tokio::test]
async fn fragments_may_be_lost_come_twice_and_in_any_order() {
    let content = noise(200_000);
    let served = content.clone();
    let (mut sequence, mut rng) = (u64::MAX - 40, Rng::new(9, 9));
    let producer = Producer::new(move |interest, header| {
        let Some(data) = segment(&served, interest) else { return vec![] };
        let mut next = sequence.min(u64::MAX - 20);
        let mut parts = split(data, header, &mut next);
        sequence = if next > u64::MAX - 20 { 0 } else { next };
        for place in (1..parts.len()).rev() {
            parts.swap(place, rng.next_u64() as usize % (place + 1));
        }
        match rng.next_u32() % 4 {
            0 => _ = parts.pop(),
            1 => parts.extend(parts.first().cloned()),
            _ => {}
        }
        parts
    });
    let consumer = producer.consumer();
    assert!(fetch(&consumer, Duration::from_secs(30)).await.unwrap() == content);
    let count = |name| consumer.stats().counters.count(name);
    assert!(count("mircc_reassembled") >= 25);
    assert_eq!(count("mircc_reassembled_undecodable"), 0);
}

#[tokio::test]
async fn what_cannot_be_decoded_is_named_where_nothing_else_comes() {
    // An LpPacket with a field of type 99, which receivers must not ignore.
    let producer = Producer::new(|interest, _| {
        let data = segment(b"x", interest).map(Packet::from);
        let inside =
            data.map_or_else(|| Bytes::from_static(&[5, 0]), |data| encode_to_bytes(&data));
        let mut packet = vec![0x64, inside.len() as u8 + 5, 99, 1, 7, 0x50, inside.len() as u8];
        packet.extend_from_slice(&inside);
        vec![packet.into()]
    });
    let consumer = producer.consumer();
    let error = fetch(&consumer, Duration::from_millis(300)).await.unwrap_err();
    let text = error.to_string();
    let FetchError::Undecodable { received, .. } = error else { panic!("{error}") };
    let [UndecodedFrom { address, packets, reasons }] = &received.senders[..] else {
        panic!("{received}")
    };
    assert_eq!(*address, producer.address);
    assert!(*packets > 0 && reasons[..] == [(DecodeError::Unexpected(99), *packets)], "{received}");
    let expected = format!(
        "no Data for /p/file could be decoded: {packets} packets from {address} could not be \
         decoded: element of type 99 is unknown or misplaced ({packets})"
    );
    assert_eq!(text, expected);
    // What came before a fetch is not what this one got.
    drop(producer);
    let error = fetch(&consumer, Duration::from_millis(50)).await.unwrap_err();
    assert!(matches!(error, FetchError::Unanswered { .. }), "{error}");
}

#[tokio::test]
async fn a_signature_of_an_unknown_type_is_named() {
    let producer = Producer::new(|interest, _| {
        let Some(data) = segment(b"x", interest) else { return vec![] };
        let mut bytes = data.to_bytes().to_vec();
        let info = [0x16, 3, 0x1b, 1, 0];
        let place = bytes.windows(5).position(|window| window == info).expect("it is signed");
        bytes[place + 4] = 77;
        vec![bytes.into()]
    });
    let error = fetch(&producer.consumer(), Duration::from_secs(5)).await.unwrap_err();
    assert!(matches!(error, FetchError::Unverified { .. }), "{error}");
    assert!(error.to_string().ends_with("signature of type 77 is not supported"), "{error}");
}
