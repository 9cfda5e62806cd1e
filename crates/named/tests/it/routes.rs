//! Several routes to a name, on loopback: dead ones are left, and paths that answered are used.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use paceline_named::{FaceConfig, Fetch, Fetched, Forwarder, Name, Pace, Strategy, Whole};
use paceline_proto::core::decode_exact;
use paceline_proto::ndn::{Body, Packet};

const FAST: u64 = 400_000_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut rng = paceline_proto::core::Rng::new(7, 0);
    (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

fn folder(content: &[u8]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), content).unwrap();
    folder
}

fn open() -> paceline_named::ForwarderBuilder {
    Forwarder::builder().strangers(FaceConfig::default())
}

fn consumer(of: SocketAddr) -> Forwarder {
    let builder = Forwarder::builder().face(of, FaceConfig::default());
    builder.route(Name::root(), of).start().unwrap()
}

async fn fetched(fetch: Fetch) -> Fetched {
    let ended = tokio::time::timeout(Duration::from_secs(60), fetch.start().finish()).await;
    ended.expect("an end").unwrap()
}

#[tokio::test]
async fn a_client_without_labels_gets_all_through_a_relay_with_a_route_that_leads_to_nobody() {
    let content = noise(3_000_000);
    let served = folder(&content);
    let producer = open().start().unwrap();
    let _serving = producer.serve(served.path(), name("/p")).start().unwrap();
    // The socket is bound, so no ICMP error reveals that it is never read.
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (dead, alive) = (silent.local_addr().unwrap(), producer.local_addr());
    for strategy in [Strategy::BestRoute, Strategy::Adaptive, Strategy::Multicast] {
        let relay = open()
            .face(dead, FaceConfig::default())
            .face(alive, FaceConfig::default())
            .route(name("/p"), dead)
            .route_with_cost(name("/p"), alive, 10)
            .strategy(name("/p"), strategy)
            .start()
            .unwrap();
        let out = served.path().join("out");
        let consumer = consumer(relay.local_addr());
        let fetch = consumer.fetch(name("/p/file"), &out).pace(Pace::Cubic).from_start();
        let fetched = fetched(fetch).await;
        assert!(std::fs::read(&out).unwrap() == content);
        assert!(matches!(fetched.whole, Whole::Digest(_)), "{strategy:?}");
        let report = relay.report().await.unwrap();
        let (_, to_dead) = report.faces().find(|(to, _)| *to == dead).unwrap();
        let (_, to_alive) = report.faces().find(|(to, _)| *to == alive).unwrap();
        let sent = [to_dead, to_alive].map(|face| face.counts.interests_out);
        let counters = &report.stats.counters;
        match strategy {
            Strategy::Multicast => assert!(sent[0] >= 3_000 && sent[1] >= 3_000, "{sent:?}"),
            // What had left before the first was overdue, and probes.
            _ => assert!(sent[0] < 100 && sent[1] >= 3_000, "{strategy:?}: {sent:?}"),
        }
        if strategy == Strategy::BestRoute {
            assert!(counters.count("mircc_hop_down") >= 1, "{counters:?}");
        }
    }
}

#[tokio::test]
async fn a_producer_that_is_gone_with_its_route_registered_is_left_for_another() {
    let content = noise(200_000);
    let served = folder(&content);
    let relay = open().accept_registrations(name("/p")).start().unwrap();
    let producers = [0, 1].map(|_| {
        let face = (relay.local_addr(), FaceConfig::default());
        Forwarder::builder().face(face.0, face.1).start().unwrap()
    });
    let mut held = Vec::new();
    for producer in &producers {
        held.push(producer.serve(served.path(), name("/p")).start().unwrap());
        let registration = producer.register(name("/p"), relay.local_addr()).await.unwrap();
        // As when the process is killed: the route is not withdrawn.
        std::mem::forget(registration);
    }
    producers[0].stop().await;
    let out = served.path().join("out");
    let consumer = consumer(relay.local_addr());
    fetched(consumer.fetch(name("/p/file"), &out).pace(Pace::Cubic)).await;
    assert!(std::fs::read(&out).unwrap() == content);
    let counters = relay.stats().counters;
    assert!(counters.count("mircc_hop_down") >= 1, "{counters:?}");
}

/// The labels of the metadata Interests that pass between a consumer and a relay.
fn watched(relay: SocketAddr) -> (SocketAddr, Arc<Mutex<Vec<usize>>>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    // It ends with the test's process.
    std::thread::spawn(move || {
        let (mut consumer, mut buffer) = (None, vec![0; 10_000]);
        while let Ok((bytes, from)) = socket.recv_from(&mut buffer) {
            let datagram = &buffer[..bytes];
            if from == relay {
                consumer.map(|to| socket.send_to(datagram, to));
                continue;
            }
            consumer = Some(from);
            let packet = decode_exact::<Packet>(Bytes::copy_from_slice(datagram));
            if let Ok(Packet { header, body: Body::Interest(interest) }) = packet
                && interest.name.to_string().contains("metadata")
            {
                told.lock().unwrap().push(header.label.len());
            }
            let _ = socket.send_to(datagram, relay);
        }
    });
    (address, seen)
}

#[tokio::test]
async fn a_digest_that_was_not_ready_is_asked_for_by_the_path_that_said_so() {
    // Large enough that its digest is computed while it is being fetched.
    let content = noise(2_000_000);
    let served = folder(&content);
    let producer = open().start().unwrap();
    let _serving = producer.serve(served.path(), name("/p")).start().unwrap();
    let to = producer.local_addr();
    let relay = open().face(to, FaceConfig::of_rate(FAST)).route(name("/p"), to).start().unwrap();
    let (between, seen) = watched(relay.local_addr());
    let out = served.path().join("out");
    let fetched = fetched(consumer(between).fetch(name("/p/file"), &out)).await;
    assert!(matches!(fetched.whole, Whole::Digest(_)));
    let labels = seen.lock().unwrap().clone();
    // The consumer's own label is used up where it leaves; the relay's is left.
    assert_eq!(labels[0], 0, "{labels:?}");
    assert!(labels[1..].contains(&1), "{labels:?}");
}
