//! Files under names, on loopback: served, forwarded and fetched.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use paceline_named::{
    FaceConfig, Fetch, FetchError, Fetched, Forwarder, ForwarderError, Multipath, Name, Pace,
    PathLabel, RegisterError, Serve, ServeError, Serving, Trust, Whole,
};
use sha2::{Digest as _, Sha256};

/// Rate of a link that nothing waits long for.
const FAST: u64 = 400_000_000;

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// Bytes that look like nothing else, the same each time.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut rng = paceline_proto::core::Rng::new(seed, 0);
    (0..bytes.div_ceil(8)).flat_map(|_| rng.next_u64().to_le_bytes()).take(bytes).collect()
}

/// A folder with files to serve, and one to fetch into.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("served")).unwrap();
        Place { folder }
    }

    fn served(&self) -> PathBuf {
        self.folder.path().join("served")
    }

    fn write(&self, path: &str, content: &[u8]) {
        let path = self.served().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn got(&self) -> Vec<u8> {
        std::fs::read(self.out()).unwrap()
    }

    /// What lies beside the files that are served.
    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A producer that answers any consumer.
fn producer(place: &Place, change: impl FnOnce(Serve) -> Serve) -> (Forwarder, Serving) {
    let forwarder = Forwarder::builder().name("producer").strangers(FaceConfig::default());
    let forwarder = forwarder.start().unwrap();
    let serving = change(forwarder.serve(place.served(), name("/p"))).start().unwrap();
    (forwarder, serving)
}

/// A forwarder of a link with this rate to where names with the prefix are.
fn relay(called: &str, rate: u64, to: SocketAddr) -> Forwarder {
    let builder = Forwarder::builder().name(called).strangers(FaceConfig::default());
    builder.face(to, FaceConfig::of_rate(rate)).route(name("/p"), to).start().unwrap()
}

fn consumer(faces: &[SocketAddr]) -> Forwarder {
    let mut builder = Forwarder::builder().name("consumer");
    for &face in faces {
        builder = builder.face(face, FaceConfig::default()).route(Name::root(), face);
    }
    builder.start().unwrap()
}

async fn fetched(fetch: Fetch) -> Result<Fetched, FetchError> {
    tokio::time::timeout(Duration::from_secs(60), fetch.start().finish()).await.expect("an end")
}

#[tokio::test]
async fn a_file_comes_through_a_forwarder_as_it_is_at_the_rate_that_is_stamped() {
    let place = Place::new();
    let content = noise(5_000_777, 1);
    place.write("some/where/big file.bin", &content);
    let (producer, serving) = producer(&place, |serve| serve);
    let relay = relay("relay", FAST, producer.local_addr());
    let consumer = consumer(&[relay.local_addr()]);
    let fetch = consumer.fetch(name("/p/some/where/big%20file.bin"), place.out());
    let fetched = fetched(fetch).await.unwrap();
    assert!(place.got() == content, "the file is another one");
    assert_eq!((fetched.bytes, fetched.resumed_bytes), (5_000_777, 0));
    assert_eq!(fetched.whole, Whole::Digest(Sha256::digest(&content).into()));
    assert_eq!(fetched.counts.segments, 5_001);
    let versioned = name("/p/some/where/big%20file.bin");
    assert!(versioned.is_prefix_of(&fetched.name) && fetched.name != versioned);
    assert_eq!(place.left(), ["out", "served"]);
    assert!(serving.counts().segments >= 5_001);
    let report = relay.report().await.unwrap();
    let (_, up) = report.faces().find(|(to, _)| *to == producer.local_addr()).unwrap();
    let (primary, _) = up.rates_bits_per_second.expect("it has a rate, and stamps it");
    assert!(primary > 0.0 && up.counts.data_in >= 5_001);
    assert_eq!(report.state.pending, 0, "all was answered");
}

#[tokio::test]
async fn a_small_and_an_empty_file_and_names_of_versions_and_segments_are_fetched() {
    let place = Place::new();
    place.write("small", b"hello");
    place.write("empty", b"");
    let (producer, _serving) = producer(&place, |serve| serve.segment_bytes(3));
    let consumer = consumer(&[producer.local_addr()]);
    let get = async |uri: &str| {
        let fetched = fetched(consumer.fetch(name(uri), place.out())).await.unwrap();
        (place.got(), fetched)
    };
    let (content, small) = get("/p/small").await;
    assert_eq!((content, small.counts.segments), (b"hello".to_vec(), 2));
    let (content, empty) = get("/p/empty").await;
    assert_eq!((content.len(), empty.bytes), (0, 0));
    let (content, version) = get(&small.name.to_string()).await;
    assert_eq!((content, version.whole), (b"hello".to_vec(), Whole::Unsaid));
    let (content, _) = get(&small.name.with_segment(1).to_string()).await;
    assert_eq!(content, b"lo");
}

#[tokio::test]
async fn a_fetch_that_was_cut_off_goes_on_from_there() {
    let place = Place::new();
    let content = noise(3_000_000, 2);
    place.write("file", &content);
    let (producer, serving) = producer(&place, |serve| serve);
    // Slow enough to be stopped on the way.
    let relay = relay("relay", 20_000_000, producer.local_addr());
    let first = consumer(&[relay.local_addr()]);
    let fetching = first.fetch(name("/p/file"), place.out()).start();
    let mut progress = fetching.progress();
    progress.wait_for(|progress| progress.bytes > 300_000).await.unwrap();
    // As when the process is killed: without a farewell.
    first.stop().await;
    let stopped = fetching.finish().await.unwrap_err();
    assert!(matches!(stopped, FetchError::Closed), "{stopped}");
    assert_eq!(place.left(), ["out.part", "out.part.json", "served"]);

    let before = serving.counts().segments;
    let second = consumer(&[relay.local_addr()]);
    let fetching = second.fetch(name("/p/file"), place.out()).start();
    let mut progress = fetching.progress();
    let at = *progress.wait_for(|progress| progress.resumed_bytes > 0).await.unwrap();
    assert!(at.resumed_bytes > 300_000 && at.bytes_total == Some(3_000_000), "{at:?}");
    let fetched = fetching.finish().await.unwrap();
    assert!(place.got() == content, "the file is another one");
    assert_eq!(fetched.bytes, 3_000_000);
    let again = fetched.counts.segments;
    assert_eq!(again, 3_000 - fetched.resumed_bytes / 1_000, "what was there is not asked for");
    assert!(serving.counts().segments - before < 3_000);
    assert_eq!(place.left(), ["out", "served"]);
}

#[tokio::test]
async fn what_was_left_of_another_version_is_not_mixed_with_the_present_one() {
    let place = Place::new();
    place.write("file", &noise(50_000, 3));
    let (producer, _serving) = producer(&place, |serve| serve);
    let consumer = consumer(&[producer.local_addr()]);
    let half = noise(25_000, 3);
    std::fs::write(place.folder.path().join("out.part"), &half).unwrap();
    let note = r#"{"format":1,"name":"/p/file/v=7","segment_bytes":1000,"segments":50,
                   "bytes":50000,"had":[[0,25]]}"#;
    std::fs::write(place.folder.path().join("out.part.json"), note).unwrap();
    let fetched = fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap();
    assert_eq!((fetched.resumed_bytes, fetched.counts.segments), (0, 50));
    assert!(place.got() == noise(50_000, 3));
}

#[tokio::test]
async fn a_file_whose_digest_is_not_the_one_that_is_said_is_thrown_away() {
    let place = Place::new();
    place.write("file", &noise(50_000, 4));
    let (producer, _serving) = producer(&place, |serve| serve);
    let consumer = consumer(&[producer.local_addr()]);
    let whole = fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap();
    // Half of it there already, and wrong: what a broken disk leaves.
    std::fs::write(place.folder.path().join("out.part"), noise(25_000, 5)).unwrap();
    let note = format!(
        r#"{{"format":1,"name":"{}","segment_bytes":1000,"segments":50,"bytes":50000,
            "had":[[0,25]]}}"#,
        whole.name
    );
    std::fs::write(place.folder.path().join("out.part.json"), note).unwrap();
    std::fs::remove_file(place.out()).unwrap();
    let refused = fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap_err();
    assert!(matches!(refused, FetchError::Digest { .. }), "{refused}");
    assert_eq!(place.left(), ["served"], "nothing of it is left");
    fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap();
    assert!(place.got() == noise(50_000, 4));
}

#[tokio::test]
async fn two_faces_carry_more_than_either_and_one_object_comes_of_it() {
    let place = Place::new();
    let content = noise(2_000_000, 6);
    place.write("file", &content);
    let (producer, _serving) = producer(&place, |serve| serve);
    let upstream = producer.local_addr();
    let relays = [relay("a", 30_000_000, upstream), relay("b", 20_000_000, upstream)];
    for multipath in [Multipath::Dual, Multipath::Sum] {
        let consumer = consumer(&relays.each_ref().map(Forwarder::local_addr));
        let fetch = consumer.fetch(name("/p/file"), place.out()).multipath(multipath);
        let fetched = fetched(fetch).await.unwrap();
        assert!(place.got() == content, "the file is another one");
        assert_eq!(fetched.counts.segments, 2_000);
        let report = consumer.report().await.unwrap();
        for (address, face) in report.faces() {
            assert!(face.counts.data_in > 200, "{multipath:?} {address}: {:?}", face.counts);
        }
    }
}

#[tokio::test]
async fn a_face_that_leads_nowhere_does_not_keep_the_other_one_from_it() {
    let place = Place::new();
    place.write("file", &noise(100_000, 11));
    let (producer, _serving) = producer(&place, |serve| serve);
    let nowhere = Forwarder::builder().strangers(FaceConfig::default()).start().unwrap();
    for rate in [None, Some(FAST)] {
        let face = rate.map_or(FaceConfig::default(), FaceConfig::of_rate);
        let consumer = Forwarder::builder()
            .face(nowhere.local_addr(), face)
            .route(Name::root(), nowhere.local_addr())
            .face(producer.local_addr(), face)
            .route(Name::root(), producer.local_addr())
            .start()
            .unwrap();
        for _ in 0..8 {
            fetched(consumer.fetch(name("/p/file"), place.out()).from_start()).await.unwrap();
            assert!(place.got() == noise(100_000, 11));
        }
    }
}

#[tokio::test]
async fn without_stamps_a_window_paces() {
    let place = Place::new();
    let content = noise(1_000_000, 7);
    place.write("file", &content);
    let (producer, _serving) = producer(&place, |serve| serve);
    for pace in [Pace::Rates, Pace::Aimd, Pace::Cubic] {
        let consumer = consumer(&[producer.local_addr()]);
        let fetch = consumer.fetch(name("/p/file"), place.out()).pace(pace).from_start();
        let fetched = fetched(fetch).await.unwrap();
        assert!(place.got() == content, "the file is another one");
        assert_eq!(fetched.counts.segments, 1_000, "{pace:?}");
    }
}

const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n\
    -----END PRIVATE KEY-----\n";
const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=\n\
    -----END PUBLIC KEY-----\n";
const ANOTHER: &str = "-----BEGIN PUBLIC KEY-----\n\
    MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
    -----END PUBLIC KEY-----\n";

#[tokio::test]
async fn a_file_that_is_signed_is_fetched_with_its_key_and_with_no_other() {
    let place = Place::new();
    place.write("file", &noise(50_000, 8));
    let (signing, _serving) = producer(&place, |serve| serve.key_pem(PRIVATE).unwrap());
    let consumer_of_signing = consumer(&[signing.local_addr()]);
    let get = async |trust: Trust| {
        fetched(consumer_of_signing.fetch(name("/p/file"), place.out()).trust(trust)).await
    };
    get(Trust::from_pem(PUBLIC).unwrap()).await.unwrap();
    assert!(place.got() == noise(50_000, 8));
    for trust in [Trust::from_pem(ANOTHER).unwrap(), Trust::Digest] {
        let refused = get(trust).await.unwrap_err();
        assert!(matches!(refused, FetchError::Unverified { .. }), "{refused}");
    }
    get(Trust::Anything).await.unwrap();

    let (plain, _serving) = producer(&place, |serve| serve);
    let consumer_of_plain = consumer(&[plain.local_addr()]);
    let fetch = consumer_of_plain.fetch(name("/p/file"), place.out());
    let refused = fetched(fetch.trust(Trust::from_pem(PUBLIC).unwrap())).await.unwrap_err();
    assert!(matches!(refused, FetchError::Unverified { .. }), "a digest is too weak: {refused}");
}

#[tokio::test]
async fn what_is_not_there_or_not_in_the_folder_is_refused_at_once() {
    let place = Place::new();
    place.write("file", b"x");
    std::fs::write(place.folder.path().join("secret"), "s").unwrap();
    let (producer, serving) = producer(&place, |serve| serve);
    let relay = relay("relay", FAST, producer.local_addr());
    let consumer = consumer(&[relay.local_addr()]);
    let get = async |name: Name| {
        let fetch = consumer.fetch(name, place.out()).answer_within(Duration::from_secs(30));
        fetched(fetch).await.unwrap_err()
    };
    let absent = get(name("/p/none")).await;
    assert!(matches!(absent, FetchError::Absent { .. }), "{absent}");
    // `.....` is how a URI writes two dots.
    for uri in ["/p/...../secret", "/p/.....", "/p/..%2Fsecret", "/p/%2Fetc%2Fpasswd", "/p"] {
        let refused = get(name(uri)).await;
        assert!(matches!(refused, FetchError::NoRoute { .. }), "{uri}: {refused}");
    }
    let nowhere = get(name("/q/file")).await;
    assert!(matches!(nowhere, FetchError::NoRoute { .. }), "{nowhere}");
    let beyond = get(name("/p/file/v=7/seg=0")).await;
    assert!(matches!(beyond, FetchError::NoRoute { .. }), "no such version: {beyond}");
    assert_eq!(serving.counts().segments, 0);
    assert_eq!(place.left(), ["secret", "served"]);
}

#[tokio::test]
async fn nobody_at_the_other_end_is_said_so() {
    let place = Place::new();
    // Bound, but never read.
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let consumer = consumer(&[socket.local_addr().unwrap()]);
    let fetch = consumer.fetch(name("/p/file"), place.out());
    let silent = fetched(fetch.answer_within(Duration::from_millis(1))).await.unwrap_err();
    assert!(matches!(silent, FetchError::Unanswered { .. }), "{silent}");
}

#[tokio::test]
async fn two_fetches_into_one_file_do_not_meet() {
    let place = Place::new();
    place.write("file", &noise(2_000_000, 9));
    let (producer, _serving) = producer(&place, |serve| serve);
    let relay = relay("relay", 10_000_000, producer.local_addr());
    let consumer = consumer(&[relay.local_addr()]);
    let first = consumer.fetch(name("/p/file"), place.out()).start();
    first.progress().wait_for(|progress| progress.bytes > 0).await.unwrap();
    let second = fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap_err();
    assert!(matches!(second, FetchError::Busy { .. }), "{second}");
    first.stop();
    let stopped = first.finish().await.unwrap_err();
    assert!(matches!(stopped, FetchError::Stopped), "{stopped}");
}

#[tokio::test]
async fn the_second_consumer_is_served_by_the_store_on_the_way() {
    let place = Place::new();
    let content = noise(200_000, 10);
    place.write("file", &content);
    let (producer, serving) = producer(&place, |serve| serve);
    let builder = Forwarder::builder().strangers(FaceConfig::default()).store_bytes(8 << 20);
    let upstream = producer.local_addr();
    let builder = builder.face(upstream, FaceConfig::of_rate(FAST)).route(name("/p"), upstream);
    let relay = builder.start().unwrap();
    for _ in 0..3 {
        let consumer = consumer(&[relay.local_addr()]);
        fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap();
        assert!(place.got() == content);
    }
    // The second one's are kept, so the third one's are not the producer's affair.
    let report = relay.report().await.unwrap();
    assert!(report.stats.counters.count("mircc_stored") >= 190, "{:?}", report.stats.counters);
    assert!(serving.counts().segments < 450, "{:?}", serving.counts());
    assert!(report.state.stored.1 > 200_000);
}

#[tokio::test]
async fn ping_and_trace_show_every_hop_of_every_path() {
    let place = Place::new();
    place.write("file", b"x");
    let (producer, _serving) = producer(&place, |serve| serve);
    let far = relay("far", FAST, producer.local_addr());
    let builder = Forwarder::builder().name("near").strangers(FaceConfig::default());
    let direct = producer.local_addr();
    let builder = [far.local_addr(), direct].into_iter().fold(builder, |builder, to| {
        builder.face(to, FaceConfig::of_rate(FAST)).route(name("/p"), to)
    });
    let near = builder.start().unwrap();
    let consumer = consumer(&[near.local_addr()]);
    let file = name("/p/file");

    let paths = consumer.paths(&file).await.unwrap();
    let mut lengths: Vec<usize> = paths.iter().map(|reply| reply.path.len()).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [2, 3], "one straight and one by `far`");
    for reply in &paths {
        assert_eq!(reply.node.as_deref(), Some("producer"));
        let again = consumer.ping(&file, reply.path).await.unwrap();
        assert_eq!((again.path, again.node.as_deref()), (reply.path, Some("producer")));
        let hops = consumer.trace(&file, reply.path).await.unwrap();
        let nodes: Vec<_> = hops.iter().map(|hop| hop.reply.as_ref().unwrap()).collect();
        let names: Vec<&str> = nodes.iter().filter_map(|reply| reply.node.as_deref()).collect();
        match reply.path.len() {
            2 => assert_eq!(names, ["near", "producer"]),
            _ => assert_eq!(names, ["near", "far", "producer"]),
        }
        assert!(hops.iter().map(|hop| hop.number).eq(1..=hops.len() as u8));
        assert!(nodes.last().unwrap().stamps.primary().is_some(), "the rate of the way there");
    }
    let any = consumer.trace(&file, PathLabel::EMPTY).await.unwrap();
    assert!(any.len() == 2 || any.len() == 3);
    let nowhere = consumer.trace(&name("/q"), PathLabel::EMPTY).await.unwrap_err();
    assert!(nowhere.to_string().contains("no route"), "{nowhere}");
}

#[tokio::test]
async fn a_producer_registers_where_it_may_and_its_route_ends_with_it() {
    let place = Place::new();
    place.write("file", b"hello");
    let open = || Forwarder::builder().strangers(FaceConfig::default());
    let taking = open().accept_registrations(Name::root()).start().unwrap();
    let refusing = open().start().unwrap();
    let producer = Forwarder::builder()
        .face(taking.local_addr(), FaceConfig::default())
        .face(refusing.local_addr(), FaceConfig::default())
        .start()
        .unwrap();
    let _serving = producer.serve(place.served(), name("/p")).start().unwrap();

    let error = producer.register(name("/p"), refusing.local_addr()).await.unwrap_err();
    assert!(matches!(error, RegisterError::Unanswered { .. }), "{error}");
    let error = producer.register(name("/p"), producer.local_addr()).await.unwrap_err();
    assert!(matches!(error, RegisterError::NoFace(_)), "{error}");
    let registration = producer.register(name("/p"), taking.local_addr()).await.unwrap();
    let consumer = consumer(&[taking.local_addr()]);
    fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap();
    assert_eq!(place.got(), b"hello");

    registration.end().await.unwrap();
    let gone = fetched(consumer.fetch(name("/p/file"), place.out())).await.unwrap_err();
    assert!(matches!(gone, FetchError::NoRoute { .. }), "{gone}");
}

#[tokio::test]
async fn a_route_of_the_operator_withdraws_registrations_that_it_covers() {
    let (good, forged) = (Place::new(), Place::new());
    good.write("file", b"good");
    forged.write("file", b"forged");
    let relay = Forwarder::builder()
        .strangers(FaceConfig::default())
        .accept_registrations(Name::root())
        .start()
        .unwrap();
    let forger = Forwarder::builder().face(relay.local_addr(), FaceConfig::default());
    let forger = forger.start().unwrap();
    let _forging = forger.serve(forged.served(), name("/p")).start().unwrap();
    let registration = forger.register(name("/p/file"), relay.local_addr()).await.unwrap();
    let consumer = consumer(&[relay.local_addr()]);
    fetched(consumer.fetch(name("/p/file"), good.out())).await.unwrap();
    assert_eq!(good.got(), b"forged", "no other producer has the prefix");

    let (producer, _serving) = producer(&good, |serve| serve);
    relay.add_face(producer.local_addr(), FaceConfig::default()).await.unwrap();
    relay.add_route(name("/p"), producer.local_addr()).unwrap();
    let get = async || {
        fetched(consumer.fetch(name("/p/file"), good.out())).await.unwrap();
        good.got()
    };
    let withdrawn = async { while get().await != b"good" {} };
    tokio::time::timeout(Duration::from_secs(60), withdrawn).await.expect("the route is used");
    let again = forger.register(name("/p/file"), relay.local_addr()).await.unwrap_err();
    assert!(matches!(again, RegisterError::Refused { code: 403, .. }), "{again}");
    for _ in 0..4 {
        assert_eq!(get().await, b"good");
    }
    drop(registration);
}

#[tokio::test]
async fn faces_and_routes_come_and_go_while_it_runs() {
    let place = Place::new();
    place.write("file", b"hello");
    let (producer, serving) = producer(&place, |serve| serve);
    let relay = Forwarder::builder().strangers(FaceConfig::default()).start().unwrap();
    let consumer = consumer(&[relay.local_addr()]);
    let get = async || fetched(consumer.fetch(name("/p/file"), place.out())).await;
    assert!(matches!(get().await, Err(FetchError::NoRoute { .. })));
    let to = producer.local_addr();
    let none = relay.add_route(name("/p"), to).unwrap_err();
    assert!(matches!(none, ForwarderError::NoFace { .. }), "{none}");
    relay.add_face(to, FaceConfig::of_rate(FAST)).await.unwrap();
    relay.add_route(name("/p"), to).unwrap();
    get().await.unwrap();
    relay.remove_route(name("/p"), to).unwrap();
    assert!(matches!(get().await, Err(FetchError::NoRoute { .. })));
    relay.add_route(name("/p"), to).unwrap();
    get().await.unwrap();
    assert!(relay.remove_face(to).await.unwrap() && !relay.remove_face(to).await.unwrap());
    assert!(matches!(get().await, Err(FetchError::NoRoute { .. })));
    relay.add_face(to, FaceConfig::of_rate(FAST)).await.unwrap();
    relay.add_route(name("/p"), to).unwrap();
    drop(serving);
    assert!(
        matches!(get().await, Err(FetchError::NoRoute { .. })),
        "no producer serves it any \
        longer"
    );
}

#[tokio::test]
async fn what_cannot_be_served_or_bound_is_refused_before_anything_happens() {
    let place = Place::new();
    let forwarder = Forwarder::builder().start().unwrap();
    let serve = |folder: &Path, prefix: &str| forwarder.serve(folder, name(prefix));
    let error = serve(&place.folder.path().join("none"), "/p").start().err().unwrap();
    assert!(matches!(error, ServeError::Folder { .. }), "{error}");
    let error = serve(&place.served(), "/p").segment_bytes(0).start().err().unwrap();
    assert!(matches!(error, ServeError::SegmentBytes { .. }), "{error}");
    for reserved in ["/", "/localhost", "/localhop/x"] {
        let error = serve(&place.served(), reserved).start().err().unwrap();
        assert!(matches!(error, ServeError::Reserved { .. }), "{reserved}: {error}");
    }
    let _serving = serve(&place.served(), "/p").start().unwrap();
    let error = serve(&place.served(), "/p").start().err().unwrap();
    assert!(matches!(error, ServeError::Taken { .. }), "{error}");
    assert!(serve(&place.served(), "/q").key_pem("no key").is_err());

    let builder = Forwarder::builder().bind("0.0.0.0:0".parse().unwrap());
    let error = builder.start().err().unwrap();
    assert!(error.to_string().contains("--insecure-plaintext"), "{error}");
    let builder = Forwarder::builder().route(name("/p"), "127.0.0.1:9".parse().unwrap());
    let error = builder.start().err().unwrap();
    assert!(matches!(error, ForwarderError::NoFace { .. }), "{error}");
}
