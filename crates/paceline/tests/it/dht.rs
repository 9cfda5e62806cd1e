//! A distributed hash table over loopback sockets, all hosts in this process.

use crate::support;

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use paceline::dht::{
    DhtStat, Expect, HostStat, Key, PutIfOutcome, Results, ScanEntry, Style, VALUE_BYTES_MAX,
    Versioned,
};
use paceline::{Algorithm, Dht, DhtBuilder, Host, JoinError, KeyError, Refusal};
use support::builder;

const HOSTS: u32 = 16;
/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(30);

fn address(dht: &Dht) -> String {
    dht.local_addr().to_string()
}

async fn table(hosts: u32, change: impl Fn(DhtBuilder) -> DhtBuilder) -> Vec<Dht> {
    let mut dhts = vec![change(builder(0).await).bootstrap().await.unwrap()];
    for id in 1..hosts {
        let peer = address(&dhts[0]);
        dhts.push(change(builder(id).await).peers([peer]).join().await.unwrap());
    }
    dhts
}

fn key(number: usize) -> Bytes {
    Bytes::from(format!("key {number}"))
}

fn value(number: usize) -> Bytes {
    Bytes::from(format!("value {number} ").repeat(1 + number % 40))
}

fn entries(count: usize) -> impl Iterator<Item = (Bytes, Bytes)> + Send + 'static {
    (0..count).map(|number| (key(number), value(number)))
}

/// All results went well; each place came once.
async fn all_done<T: std::fmt::Debug>(mut results: Results<T>, count: usize) -> Vec<T> {
    let mut values: Vec<Option<T>> = (0..count).map(|_| None).collect();
    while let Some(result) = results.next().await {
        let value = result.outcome.unwrap_or_else(|error| panic!("{:?}: {error}", result.key));
        assert!(values[result.place as usize].replace(value).is_none(), "told twice");
    }
    values.into_iter().map(|value| value.expect("each is told")).collect()
}

async fn read_all(dht: &Dht, count: usize) {
    let read = all_done(dht.get_all((0..count).map(key)), count).await;
    for (number, read) in read.into_iter().enumerate() {
        assert_eq!(read, Some(value(number)), "{number}");
    }
}

/// Waits until the hosts together hold `count` values.
async fn held(dhts: &[Dht], count: usize) {
    let mut values = 0;
    let all_held = async {
        loop {
            values = 0;
            for dht in dhts {
                values += dht.stat().await.unwrap().values;
            }
            if values == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = tokio::time::timeout(SOON, all_held).await;
    assert!(in_time.is_ok(), "{values} values are held instead of {count}");
}

#[tokio::test]
async fn what_is_put_at_one_host_is_read_and_removed_at_others() {
    for algorithm in Algorithm::ALL {
        let dhts = table(5, |builder| builder.algorithm(algorithm)).await;
        assert_eq!(dhts[1].put("apples", "17").await.unwrap(), 3, "{algorithm}");
        assert_eq!(dhts[2].get("apples").await.unwrap().unwrap(), "17");
        assert_eq!(dhts[2].put("apples", "").await.unwrap(), 3);
        assert_eq!(dhts[3].get("apples").await.unwrap().unwrap(), "");
        assert_eq!(dhts[3].get("pears").await.unwrap(), None);
        dhts[4].remove("apples").await.unwrap();
        assert_eq!(dhts[1].get("apples").await.unwrap(), None);

        let peer = address(&dhts[3]);
        let client = builder(77).await.algorithm(algorithm).peers([peer]).visit().await.unwrap();
        assert_eq!(client.put("plums", "5").await.unwrap(), 3, "{algorithm}");
        assert_eq!(dhts[0].get("plums").await.unwrap().unwrap(), "5");
        all_done(client.put_all(entries(200)), 200).await;
        read_all(&client, 200).await;
        read_all(&dhts[1], 200).await;
        all_done(client.remove_all((0..200).map(key)), 200).await;
        assert_eq!(dhts[2].get(key(7)).await.unwrap(), None);
        client.leave().await.unwrap();
        assert_eq!(dhts[2].get("plums").await.unwrap().unwrap(), "5");
    }
}

#[tokio::test]
async fn two_of_sixteen_stop_at_once_and_everything_acknowledged_is_read_and_copied_anew() {
    const COUNT: usize = 2000;
    let mut dhts = table(HOSTS, |builder| builder).await;
    let copies = all_done(dhts[5].put_all(entries(COUNT)), COUNT).await;
    assert!(copies.iter().all(|&copies| copies == 3));
    read_all(&dhts[11], COUNT).await;
    for place in [9, 3] {
        dhts.remove(place).stop().await;
    }
    read_all(&dhts[0], COUNT).await;
    held(&dhts, 3 * COUNT).await;
    read_all(&dhts[7], COUNT).await;
}

#[tokio::test]
async fn a_host_that_leaves_hands_over_what_it_holds() {
    let mut dhts = table(4, |builder| builder.copies(1)).await;
    all_done(dhts[0].put_all(entries(500)), 500).await;
    held(&dhts, 500).await;
    let leaver = dhts.remove(2);
    assert!(leaver.stat().await.unwrap().values > 0);
    leaver.leave().await.unwrap();
    assert_eq!(leaver.get("key 1").await, Err(KeyError::Closed));
    read_all(&dhts[1], 500).await;
    held(&dhts, 500).await;
}

#[tokio::test]
async fn a_host_that_starts_with_its_file_hands_back_what_it_held() {
    let folder = tempfile::tempdir().unwrap();
    let file = |id: u32| folder.path().join(format!("{id}.redb"));
    let durable = async |id: u32| builder(id).await.copies(1).durable(file(id));
    let first = durable(0).await.bootstrap().await.unwrap();
    let second = durable(1).await.peers([address(&first)]).join().await.unwrap();
    all_done(first.put_all(entries(300)), 300).await;
    first.remove(key(8)).await.unwrap();
    // What was written before it had its place comes to it.
    let some = async {
        while second.stat().await.unwrap().values == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, some).await.expect("it holds its part");
    assert!(matches!(
        durable(1).await.peers([address(&first)]).join().await.err(),
        Some(JoinError::Disk(error)) if error.reason.contains("its own file")
    ));
    second.stop().await;

    // Another host with the same file: what it held belongs elsewhere in part.
    let again =
        builder(9).await.copies(1).durable(file(1)).peers([address(&first)]).join().await.unwrap();
    held(&[first.clone(), again.clone()], 299).await;
    let kept = || (0..300).filter(|&number| number != 8);
    let read = all_done(first.get_all(kept().map(key)), 299).await;
    assert!(read.into_iter().eq(kept().map(|number| Some(value(number)))));
    // The host that is gone may have taken another value under the removed key, for all they know.
    let removed = async {
        while first.get(key(8)).await != Ok(None) {
            for dht in [&first, &again] {
                dht.accept_losses().unwrap();
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, removed).await.expect("it is absent once the loss is accepted");

    // And all of them, from their files alone.
    again.stop().await;
    first.stop().await;
    let first = durable(0).await.bootstrap().await.unwrap();
    let second =
        builder(9).await.copies(1).durable(file(1)).peers([address(&first)]).join().await.unwrap();
    held(&[first.clone(), second.clone()], 299).await;
    assert_eq!(second.get(key(8)).await.unwrap(), None);
    assert_eq!(second.get(key(9)).await.unwrap(), Some(value(9)));
}

#[tokio::test]
async fn keys_and_values_of_wrong_sizes_and_keys_named_twice_are_refused_and_the_rest_is_done() {
    let dhts = table(2, |builder| builder).await;
    let dht = &dhts[0];
    assert_eq!(dht.put("", "x").await, Err(KeyError::Empty));
    assert_eq!(dht.get([0; 513]).await, Err(KeyError::TooLong { bytes: 513 }));
    let largest = vec![7; VALUE_BYTES_MAX + 1];
    let bytes = largest.len();
    assert_eq!(dht.put("k", &largest).await, Err(KeyError::ValueTooLarge { bytes }));
    assert_eq!(dht.put([1; 512], &largest[1..]).await, Ok(2));
    assert_eq!(dhts[1].get([1; 512]).await.unwrap().unwrap(), largest[1..]);

    let pairs = [("a", "1"), ("", "2"), ("b", "3"), ("a", "4"), ("c", "5")];
    let pairs = pairs.map(|(key, value)| (Bytes::from(key), Bytes::from(value)));
    let mut results = dht.put_all(pairs);
    let mut failed = Vec::new();
    while let Some(result) = results.next().await {
        failed.extend(result.outcome.err().map(|error| (result.place, error)));
    }
    failed.sort_by_key(|(place, _)| *place);
    assert_eq!(failed, [(1, KeyError::Empty), (3, KeyError::Duplicate { window: 1024 })]);
    assert_eq!(dht.get("a").await.unwrap().unwrap(), "1", "the first of them is written");
    // Beyond the window the later one is written later.
    let apart = (0..1500).map(|number| (key(number % 1200), value(number)));
    let written = all_done(dht.put_all(apart), 1500).await;
    assert_eq!(written.len(), 1500);
    assert_eq!(dhts[1].get(key(250)).await.unwrap(), Some(value(1450)));
}

#[tokio::test]
async fn a_caller_that_does_not_read_results_holds_up_nobody_else() {
    let dhts = table(3, |builder| builder.bundles_in_flight(2).window(64).bundle(8)).await;
    let (told, asked) = tokio::sync::mpsc::channel(1);
    let mut results = dhts[0].put_all_from(asked);
    let mut fed = 0;
    let fill = async {
        for entry in entries(10_000) {
            told.send(entry).await.unwrap();
            fed += 1;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(1), fill).await.is_err());
    // Results that wait, two bundles, one window, and what waits in the channel.
    assert!(fed < 256 + 2 * 8 + 2 * 64 + 64, "{fed} were taken");
    dhts[0].put("another", "call").await.unwrap();
    drop(told);
    let mut places = HashSet::new();
    while let Some(result) = results.next().await {
        result.outcome.unwrap();
        places.insert(result.place);
    }
    assert_eq!(places.len(), fed);
}

#[tokio::test]
async fn who_cannot_join_is_told_why() {
    let dhts = table(2, |builder| builder).await;
    let peer = address(&dhts[0]);
    let soon = Duration::from_millis(700);
    let error = |joined: Result<Dht, JoinError>| joined.err().expect("not in").to_string();
    let text = error(builder(5).await.within(soon).peers(["127.0.0.1:1"]).join().await);
    assert!(text.contains("127.0.0.1:1") && text.contains("is one running"), "{text}");
    let other =
        builder(5).await.algorithm(Algorithm::Pastry).within(soon).peers([&peer]).join().await;
    assert!(error(other).contains("its kind is `dht/chord` there"));
    assert!(error(builder(5).await.peers([] as [&str; 0]).join().await).contains("no peer"));
    assert!(
        error(builder(5).await.peers(["127.0.0.1"]).join().await).contains("expected HOST:PORT")
    );
    let text = error(builder(5).await.bundle(0).peers([&peer]).join().await);
    assert_eq!(text, "bundle is 0, expected 1 to 1024");
    assert!(error(builder(5).await.copies(0).peers([&peer]).join().await).contains("copies is 0"));
    let nowhere = builder(5).await.durable(Path::new("/no/such/folder/file"));
    assert!(error(nowhere.bootstrap().await).contains("/no/such/folder/file"));
    let client = builder(5).await.durable("file").peers([&peer]).visit().await;
    assert!(matches!(client.err(), Some(JoinError::DurableClient)));
    let twin = builder(1).await.within(Duration::from_secs(2)).peers([&peer]).join().await;
    assert!(matches!(twin.err(), Some(JoinError::Refused { refusal: Refusal::IdInUse })));
    dhts[0].put("still", "here").await.unwrap();
}

#[tokio::test]
async fn recursive_clients_read_and_write_like_iterative_ones() {
    for algorithm in Algorithm::ALL {
        let dhts = table(6, |builder| builder.algorithm(algorithm)).await;
        let visit = async |style| {
            let host = Host::builder("test").start().await.unwrap();
            host.dht("table")
                .algorithm(algorithm)
                .style(style)
                .peers([address(&dhts[2])])
                .visit()
                .await
        };
        let recursive = visit(Style::Recursive).await.unwrap();
        let iterative = visit(Style::Iterative).await.unwrap();
        let stored = all_done(recursive.put_all(entries(200)), 200).await;
        assert!(stored.iter().all(|&copies| copies == 3), "{algorithm}");
        read_all(&recursive, 200).await;
        read_all(&iterative, 200).await;
        // One asks for the next hop, the other hands its bundles over.
        let counted = |dht: &Dht, name: &str| dht.stats().counters.count(name);
        assert_eq!(counted(&recursive, "overlay_find"), 0, "{algorithm}");
        assert!(counted(&recursive, "overlay_route") > 0, "{algorithm}");
        assert_eq!(counted(&iterative, "overlay_route"), 0, "{algorithm}");
        for dht in &dhts {
            assert!(dht.stat().await.unwrap().contacts < 6, "a client stands in a table");
        }
    }
}

#[tokio::test]
async fn a_payload_is_delivered_once_for_each_key_at_its_host() {
    let dhts = table(6, |builder| builder).await;
    let mut readers: Vec<_> = dhts.iter().map(Dht::deliveries).collect();
    let host = Host::builder("test").start().await.unwrap();
    let client =
        host.dht("table").style(Style::Recursive).peers([address(&dhts[0])]).visit().await.unwrap();
    let payload = Bytes::from("for all");
    for sender in [&dhts[1], &client] {
        all_done(sender.send_all((0..60).map(key), payload.clone()), 60).await;
        let mut reached = HashSet::new();
        while reached.len() < 60 {
            for reader in &mut readers {
                let soon = Duration::from_millis(50);
                while let Ok(Some(delivery)) = tokio::time::timeout(soon, reader.recv()).await {
                    assert_eq!((delivery.origin, &delivery.payload), (sender.id(), &payload));
                    let fresh = delivery.keys.iter().all(|&key| reached.insert(key));
                    assert!(fresh, "a key was delivered twice");
                }
            }
        }
        let keys: HashSet<Key> = (0..60).map(|number| Key::of(&key(number))).collect();
        assert_eq!(reached, keys);
    }
    let large = Bytes::from(vec![0; VALUE_BYTES_MAX + 1]);
    let refused = dhts[0].send_all([key(1)], large).next().await.unwrap().outcome;
    assert!(matches!(refused, Err(KeyError::ValueTooLarge { .. })), "{refused:?}");
    let mut ended = dhts[3].deliveries();
    dhts[3].stop().await;
    assert!(ended.recv().await.is_none());
}

/// Changes a bit of each `pattern`, wherever it stands. Returns in how many places.
fn damage(bytes: &mut [u8], pattern: &[u8]) -> usize {
    let windows = bytes.windows(pattern.len()).enumerate();
    let places: Vec<usize> =
        windows.filter(|(_, window)| *window == pattern).map(|(place, _)| place).collect();
    for &place in &places {
        bytes[place] ^= 1;
    }
    places.len()
}

#[tokio::test]
async fn a_host_whose_file_is_damaged_is_filled_again_by_the_others() {
    const COUNT: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let file = |id: u32| folder.path().join(format!("{id}.redb"));
    let first = builder(0).await.durable(file(0)).bootstrap().await.unwrap();
    let mut dhts = vec![first];
    for id in 1..3 {
        let peer = address(&dhts[0]);
        dhts.push(builder(id).await.durable(file(id)).peers([peer]).join().await.unwrap());
    }
    let copies = all_done(dhts[0].put_all(entries(COUNT)), COUNT).await;
    assert!(copies.iter().all(|&copies| copies == 3));
    dhts.remove(2).stop().await;
    let mut bytes = std::fs::read(file(2)).unwrap();
    assert!(damage(&mut bytes, b"value ") >= COUNT, "values stand in the file as they are");
    std::fs::write(file(2), bytes).unwrap();
    let again = builder(2).await.durable(file(2)).peers([address(&dhts[0])]).join().await.unwrap();
    let damaged = again.damaged_file().expect("its file is damaged").clone();
    assert!(damaged.file == file(2) && damaged.kept_as.exists(), "{damaged}");
    dhts.push(again);
    held(&dhts, 3 * COUNT).await;
    read_all(&dhts[2], COUNT).await;
    assert_eq!(dhts[0].damaged_file(), None);
}

#[tokio::test]
async fn hosts_that_are_left_say_on_how_many_hosts_a_value_is_and_fail_if_that_is_too_few() {
    let mut dhts = table(3, |builder| builder).await;
    dhts.truncate(1);
    let alone = &dhts[0];
    let left = async {
        while alone.stat().await.unwrap().contacts > 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, left).await.expect("it notices that the others are gone");
    assert_eq!(alone.put("k", "v").await, Err(KeyError::FewCopies { copies: 1 }));
    assert_eq!(alone.get("k").await.unwrap().unwrap(), "v", "it is written all the same");
    assert_eq!(alone.remove("k").await, Err(KeyError::FewCopies { copies: 1 }));
    // What is left is all there is.
    alone.accept_losses().unwrap();
    assert_eq!(alone.put("k", "v").await, Ok(1));
    assert_eq!(alone.get("other").await, Ok(None));
}

/// Adds one to the counter by conditional writes, whatever others do meanwhile.
async fn count(dht: &Dht) {
    loop {
        let (expect, number) = match dht.get_versioned("counter").await.unwrap() {
            None => (Expect::Absent, 0),
            Some(Versioned { version, value }) => {
                let number: u32 = std::str::from_utf8(&value).unwrap().parse().unwrap();
                (Expect::Version(version), number)
            }
        };
        let put = dht.put_if("counter", (number + 1).to_string(), expect);
        if let PutIfOutcome::Stored { copies, .. } = put.await.unwrap() {
            assert_eq!(copies, 3);
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_count_by_conditional_writes_count_each_time_once() {
    let dhts = table(4, |builder| builder).await;
    assert_eq!(dhts[1].get_versioned("counter").await, Ok(None));
    // The first write waits until the neighbours of hosts have settled.
    count(&dhts[0]).await;
    let counting = dhts.iter().cloned().map(|dht| {
        tokio::spawn(async move {
            for _ in 0..10 {
                count(&dht).await;
            }
        })
    });
    for counting in counting.collect::<Vec<_>>() {
        tokio::time::timeout(4 * SOON, counting).await.unwrap().unwrap();
    }
    assert_eq!(dhts[3].get("counter").await, Ok(Some("41".into())));
    let read = dhts[2].get_versioned("counter").await.unwrap().expect("it is there");
    let refused = dhts[0].put_if("counter", "0", Expect::Absent).await;
    assert_eq!(refused, Ok(PutIfOutcome::Differs { found: Some(read.version) }));
    dhts[0].remove("counter").await.unwrap();
    let refused = dhts[1].put_if("counter", "0", Expect::Version(read.version)).await;
    assert_eq!(refused, Ok(PutIfOutcome::Differs { found: None }));
    assert_eq!(dhts[1].put_if("", "0", Expect::Absent).await, Err(KeyError::Empty));
}

/// All entries, in the order of the scan.
async fn scanned(dht: &Dht) -> Vec<ScanEntry> {
    let (mut scan, mut entries) = (dht.scan(), Vec::new());
    while let Some(entry) = scan.next().await {
        entries.push(entry.unwrap_or_else(|error| panic!("at {:?}: {error}", scan.position())));
    }
    assert_eq!((scan.position(), scan.foreign()), (None, 0));
    entries
}

async fn hosts_of(dht: &Dht) -> Vec<HostStat> {
    let (mut hosts, mut told) = (dht.hosts(), Vec::new());
    while let Some(host) = hosts.next().await {
        told.push(host.unwrap());
    }
    told.sort_by_key(|told| told.host);
    told
}

#[tokio::test(flavor = "multi_thread")]
async fn all_entries_are_scanned_and_all_hosts_asked_by_hosts_and_clients() {
    const COUNT: usize = 1500;
    for algorithm in Algorithm::ALL {
        let dhts = table(5, |builder| builder.algorithm(algorithm)).await;
        all_done(dhts[1].put_all(entries(COUNT)), COUNT).await;
        dhts[2].remove(key(3)).await.unwrap();
        let mut expected: Vec<(Key, Bytes, Bytes)> = (0..COUNT)
            .filter(|&number| number != 3)
            .map(|number| (Key::of(&key(number)), key(number), value(number)))
            .collect();
        expected.sort();
        let peer = address(&dhts[3]);
        let client = builder(77).await.algorithm(algorithm).peers([peer]).visit().await.unwrap();
        for dht in [&dhts[0], &client] {
            let read = scanned(dht).await.into_iter();
            let read: Vec<_> =
                read.map(|entry| (Key::of(&entry.key), entry.key, entry.value)).collect();
            assert!(read == expected, "{algorithm}: {} entries", read.len());
        }
        // A part of it, and the rest from where the part ended.
        let (first, middle) = (expected[0].0, expected[700].0);
        let mut part = client.scan_range(first..=middle);
        let version = part.next().await.unwrap().unwrap().version;
        let named = client.get_versioned(&expected[0].1).await.unwrap().expect("it is there");
        assert_eq!(version, named.version);
        assert_eq!(part.position(), Some(expected[1].0));
        let mut rest = 1;
        while part.next().await.is_some_and(|entry| entry.is_ok()) {
            rest += 1;
        }
        assert_eq!(rest, 701);
        #[allow(clippy::reversed_empty_ranges, reason = "it is what is tested")]
        let mut none = client.scan_range(middle..=first);
        assert_eq!(none.next().await, None);

        held(&dhts, 3 * (COUNT - 1)).await;
        let told = hosts_of(&client).await;
        assert_eq!(told.len(), 5, "{algorithm}");
        for (dht, told) in dhts.iter().zip(&told) {
            let stat = dht.stat().await.unwrap();
            let of = |stat: &DhtStat| (stat.role, stat.values, stat.bytes);
            assert_eq!((told.host, of(&told.stat)), (dht.id(), of(&stat)), "{algorithm}");
            assert!(!told.neighbours.is_empty() && !told.neighbours.contains(&told.host));
            let asked = client.stat_of(dht.id()).await.unwrap().expect("it is a host");
            assert_eq!(asked.host, dht.id());
        }
        assert!(told.iter().any(|told| told.removed > 0), "{algorithm}");
        assert_eq!(dhts[0].stat_of(client.id()).await, Ok(None));
        client.leave().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_lives_as_long_as_its_own_write_says() {
    let dhts = table(3, |builder| builder).await;
    let brief = dhts[0].with_lifetime(Duration::from_secs(2));
    brief.put("brief", "v").await.unwrap();
    dhts[0].put("lasting", "v").await.unwrap();
    let put = brief.put_if("once", "v", Expect::Absent).await;
    assert!(matches!(put, Ok(PutIfOutcome::Stored { copies: 3, .. })), "{put:?}");
    let none = dhts[0].with_lifetime(Duration::ZERO);
    assert_eq!(none.put("none", "v").await, Err(KeyError::Expired));
    for key in ["brief", "once"] {
        let ended = async {
            while dhts[1].get(key).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(SOON, ended).await.unwrap();
    }
    assert_eq!(dhts[1].get("lasting").await, Ok(Some("v".into())));
    // The next writer may have the key.
    let put = dhts[2].put_if("once", "w", Expect::Absent).await;
    assert!(matches!(put, Ok(PutIfOutcome::Stored { .. })), "{put:?}");
}
