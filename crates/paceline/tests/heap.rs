//! What clients of a table leave behind in the memory of its hosts. Alone in its file: it counts
//! all that the process allocates.

#[allow(dead_code, reason = "the other tests use the rest")]
#[path = "it/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use paceline::Dht;
use support::builder;

/// Counts the bytes that are allocated at present.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes every call on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const KEYS: usize = 200;
const VALUE_BYTES: usize = 1000;
const AT_ONCE: u32 = 8;

fn key(number: usize) -> Bytes {
    Bytes::from(format!("key {number}"))
}

/// Clients that read everything and leave.
async fn visits(hosts: &[Dht], ids: std::ops::Range<u32>) {
    let mut ids = ids.into_iter();
    loop {
        let visits: Vec<_> = ids
            .by_ref()
            .take(AT_ONCE as usize)
            .map(|id| {
                let peer = hosts[id as usize % hosts.len()].local_addr().to_string();
                tokio::spawn(async move {
                    let client = builder(id).await.peers([peer]).visit().await.unwrap();
                    let mut values = client.get_all((0..KEYS).map(key));
                    let mut read = 0;
                    while let Some(result) = values.next().await {
                        assert_eq!(result.outcome.unwrap().unwrap().len(), VALUE_BYTES);
                        read += 1;
                    }
                    assert_eq!(read, KEYS);
                    client.stop().await;
                })
            })
            .collect();
        if visits.is_empty() {
            return;
        }
        for visit in visits {
            visit.await.unwrap();
        }
    }
}

/// What is allocated once hosts have given up what waits for clients that are gone.
async fn settled(hosts: &[Dht]) -> usize {
    for _ in 0..600 {
        let waits = |host: &Dht| host.stats().held.of_peers() > 0;
        if !hosts.iter().any(waits) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    LIVE.load(Relaxed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_clients_that_read_in_bulk_leave_nothing_behind_but_their_names() {
    const CLIENTS: u32 = 1000;
    /// What the tables of three hosts may remember of a client. It has read 200 kB.
    const NAME_BYTES_MAX: usize = 12 << 10;
    let mut hosts = vec![builder(0).await.bootstrap().await.unwrap()];
    for id in 1..3 {
        let peer = hosts[0].local_addr().to_string();
        hosts.push(builder(id).await.peers([peer]).join().await.unwrap());
    }
    for number in 0..KEYS {
        hosts[0].put(key(number), vec![7; VALUE_BYTES]).await.unwrap();
    }
    visits(&hosts, 1000..1100).await;
    let before = settled(&hosts).await;
    visits(&hosts, 2000..2000 + CLIENTS).await;
    let after = settled(&hosts).await;
    let left = after.saturating_sub(before) / CLIENTS as usize;
    println!("{before} bytes before, {after} after: {left} a client");
    for host in &hosts {
        let held = host.stats().held;
        assert_eq!((held.of_peers(), held.events_bytes), (0, 0), "{held:?}");
    }
    assert!(left < NAME_BYTES_MAX, "{left} bytes a client");
}
