//! Services of a host that share its link, with more to send than it takes.

use std::sync::Arc;
use std::time::Duration;

use paceline::walks::{Graph, Job, Length, SharedGraph, Sources};
use paceline::{Dht, Group, Host, Multicast, NodeId, WalkServer, Walks};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// The link of the host, bits a second.
const RATE: u64 = 4_000_000;
/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(8);
/// Of a graph in which each step leads to the other server.
const VERTICES: u32 = 1_000;

/// The services of the host whose link is measured.
struct Services {
    log: Group,
    feed: Multicast,
    stock: Dht,
    web: WalkServer,
}

impl Services {
    /// What each has sent, bytes.
    fn sent(&self) -> [u64; 4] {
        let stats = [self.log.stats(), self.feed.stats(), self.stock.stats(), self.web.stats()];
        stats.map(|stats| stats.counters.count("host_link_sent"))
    }
}

/// The services on both hosts, and a client of the walks; what they tell is read.
async fn start(
    hosts: &[Host; 2],
    weights: [u32; 4],
    readers: &mut JoinSet<()>,
) -> (Services, Walks) {
    let [a, b] = hosts;
    let peer = || [a.address().to_string()];
    let (log, events) = a.group("log").weight(weights[0]).bootstrap().await.unwrap();
    let mut all = vec![events];
    all.push(b.group("log").peers(peer()).join().await.unwrap().1);
    for mut events in all {
        readers.spawn(async move { while events.recv().await.is_some() {} });
    }
    let (feed, events) = a.multicast("feed").weight(weights[1]).bootstrap().await.unwrap();
    let mut all = vec![events];
    all.push(b.multicast("feed").peers(peer()).join().await.unwrap().1);
    for mut events in all {
        readers.spawn(async move { while events.recv().await.is_some() {} });
    }
    let stock = a.dht("stock").weight(weights[2]).bootstrap().await.unwrap();
    let other = b.dht("stock").peers(peer()).join().await.unwrap();
    let web = a.walks("web").weight(weights[3]).serve().await.unwrap();
    let other_web = b.walks("web").serve().await.unwrap();
    readers.spawn(async move {
        let _kept = (other, other_web);
        std::future::pending::<()>().await;
    });
    let servers = [a.address().to_string(), b.address().to_string()];
    let client = Host::builder("test").id(NodeId(3)).start().await.unwrap();
    let client = client.walks("web").within(SOON).peers(servers).connect().await.unwrap();
    let edges = (0..VERTICES).map(|vertex| (vertex, (vertex + 1) % VERTICES));
    let graph = Graph::from_edges(VERTICES, edges).unwrap();
    let owners = (0..VERTICES).map(|vertex| (vertex % 2) as u16).collect();
    client.supply(&SharedGraph::new(graph, owners), SOON).await.unwrap();
    (Services { log, feed, stock, web }, client)
}

/// Together they have more to send than the link of the first host takes.
fn saturate(services: &Arc<Services>, client: Walks, tasks: &mut JoinSet<()>) {
    let all = services.clone();
    tasks.spawn(async move { while all.log.broadcast(vec![1; 8_000]).await.is_ok() {} });
    let all = services.clone();
    tasks.spawn(async move {
        // Datagrams wait for nothing: several times the rate of the link.
        while all.feed.send(vec![2; 1_000]).await.is_ok() {
            sleep(Duration::from_micros(200)).await;
        }
    });
    for task in 0..64 {
        let all = services.clone();
        tasks.spawn(async move {
            for number in 0u64.. {
                // One that takes too long is one more that waits.
                _ = all.stock.put(format!("{task} {number}"), vec![3; 4_000]).await;
            }
        });
    }
    tasks.spawn(async move {
        for seed in 0.. {
            let job = Job::new(Length::Steps(500), Sources::Range(0..VERTICES));
            let mut walking = client.run(job.with_walks(20).with_seed(seed)).unwrap();
            while walking.next().await.unwrap().is_some() {}
        }
    });
}

async fn shares(weights: [u32; 4]) -> [f64; 4] {
    let rated = Host::builder("test").id(NodeId(1)).link_rate(RATE).start().await.unwrap();
    let hosts = [rated, Host::builder("test").id(NodeId(2)).start().await.unwrap()];
    let (mut readers, mut tasks) = (JoinSet::new(), JoinSet::new());
    let (services, client) = start(&hosts, weights, &mut readers).await;
    let services = Arc::new(services);
    saturate(&services, client, &mut tasks);
    sleep(WARM_UP).await;
    let before = services.sent();
    sleep(MEASURED).await;
    let after = services.sent();
    tasks.shutdown().await;
    readers.shutdown().await;
    for host in hosts {
        host.abort().await;
    }
    let sent: [f64; 4] = std::array::from_fn(|at| (after[at] - before[at]) as f64);
    let total: f64 = sent.iter().sum();
    let of_link = total * 8.0 / MEASURED.as_secs_f64() / RATE as f64;
    println!("{weights:?}: {sent:?} bytes, {of_link:.3} of the link");
    assert!((0.9..1.05).contains(&of_link), "they do not saturate it: {of_link}");
    sent.map(|sent| sent / total)
}

/// The group, the multicast and the walks always have something to send. The table does not: it has
/// some writes under way, and waits for their answers. What it leaves is the others' by weight.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn services_with_more_to_send_than_the_link_takes_get_their_weights() {
    const STOCK: usize = 2;
    for weights in [[1, 1, 1, 1], [1, 2, 3, 4], [4, 3, 2, 1]] {
        let shares = shares(weights).await;
        let others = |of: [f64; 4]| of.iter().sum::<f64>() - of[STOCK];
        let fair = weights.map(|weight| f64::from(weight) / f64::from(weights.iter().sum::<u32>()));
        let left = others(shares) / others(fair);
        for (service, (share, fair)) in shares.into_iter().zip(fair).enumerate() {
            if service == STOCK {
                assert!((0.3..=1.1).contains(&(share / fair)), "{weights:?}: {shares:?}");
            } else {
                assert!((share / fair / left - 1.0).abs() <= 0.1, "{weights:?}: {shares:?}");
            }
        }
    }
}
