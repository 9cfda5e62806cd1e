//! Applications that do not read their events, and the memory of their hosts meanwhile.

use crate::support;

use std::time::Duration;

use bytes::Bytes;
use paceline::{Dht, Event, Events, Group, Host, NodeId};
use support::builder;

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(30);

async fn join(id: u32, peer: &str, events_bytes_max: usize) -> (Group, Events) {
    let host = Host::builder("test").id(NodeId::from(id)).events_bytes_max(events_bytes_max);
    host.start().await.unwrap().group("g").within(SOON).peers([peer]).join().await.unwrap()
}

async fn next(events: &mut Events) -> Event {
    let next = tokio::time::timeout(SOON, events.recv()).await;
    next.expect("in time").expect("the host runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_reads_no_views_holds_a_few_and_comes_back_once_it_reads() {
    const EVENTS_BYTES_MAX: usize = 3000;
    const JOINERS: u32 = 60;
    let host = Host::builder("test").id(NodeId(1)).start().await.unwrap();
    let (first, mut events) = host.group("g").bootstrap().await.unwrap();
    let peer = first.local_addr().to_string();
    let (_second, mut others) = join(2, &peer, 1 << 20).await;
    let (third, mut unread) = join(3, &peer, EVENTS_BYTES_MAX).await;
    for events in [&mut events, &mut others] {
        while !matches!(next(events).await, Event::View(view) if view.len() == 3) {}
    }
    // Two members read, while others join and leave: each of them causes two views.
    let reading = [events, others].map(|mut events| {
        let (told, heard) = tokio::sync::mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(event) = events.recv().await {
                // The test may be over.
                let _ = told.send(event);
            }
        });
        heard
    });
    let mut most = 0;
    for id in 10..10 + JOINERS {
        let (joiner, mut told) = join(id, &peer, 1 << 20).await;
        joiner.leave().await.unwrap();
        while next(&mut told).await != Event::Left {}
        joiner.stop().await;
        most = most.max(third.stats().held.events_bytes);
        if third.stats().counters.count("event_held_peers") > 0
            && !first.members().contains(&NodeId(3))
        {
            break;
        }
    }
    let stats = third.stats();
    assert!(stats.counters.count("event_held_peers") > 0, "{most} bytes at most");
    assert!((EVENTS_BYTES_MAX..2 * EVENTS_BYTES_MAX).contains(&most), "{most} bytes");
    let gone = async {
        while first.members().contains(&NodeId(3)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, gone).await.expect("a silent member is excluded");

    // It reads: none of its events is missing, and it is a member again.
    let mut views = Vec::new();
    loop {
        match next(&mut unread).await {
            Event::View(view) => views.push(view.id().0),
            Event::Excluded => break,
            _ => {}
        }
    }
    assert!(views.len() > 6, "{views:?}");
    assert!(views.windows(2).all(|pair| pair[1] == pair[0] + 1), "{views:?}");
    while !matches!(next(&mut unread).await, Event::View(_)) {}
    first.broadcast("welcome back").await.unwrap();
    let delivery = tokio::time::timeout(SOON, unread.delivery()).await.expect("in time");
    assert_eq!(delivery.expect("the host runs").payload, "welcome back");
    assert_eq!(third.stats().held.events_bytes, 0);
    drop(reading);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_payloads_that_stands_still_misses_the_oldest_and_is_told_how_many() {
    const PAYLOADS: u64 = 1300;
    const WAITING_MAX: u64 = 1024;
    let host: Dht = builder(1).await.bootstrap().await.unwrap();
    let client = builder(2).await.peers([host.local_addr().to_string()]).visit().await.unwrap();
    let mut reader = host.deliveries();
    for number in 0..PAYLOADS {
        let payload = Bytes::from(number.to_be_bytes().to_vec());
        let mut sent = client.send_all([Bytes::from_static(b"key")], payload);
        sent.next().await.unwrap().outcome.unwrap();
    }
    assert_eq!(host.stats().held.events_bytes, 0, "the host has taken all of them");
    host.put("key", "value").await.unwrap();
    for number in PAYLOADS - WAITING_MAX..PAYLOADS {
        let delivery = tokio::time::timeout(SOON, reader.recv()).await.expect("in time");
        assert_eq!(delivery.unwrap().payload[..], number.to_be_bytes());
    }
    assert_eq!(reader.missed(), PAYLOADS - WAITING_MAX);
}
