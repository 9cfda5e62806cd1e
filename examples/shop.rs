//! Five hosts, each of which runs a group, a multicast, a table and walks on its one port. One of
//! them is killed, and all four services go on at the others.
//!
//! `cargo run --release -p paceline --example shop`

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use paceline::proto::walk::{Graph, Job, JobId, Kind, Length, Sources, Trail};
use paceline::walks::{SharedGraph, WalkServer};
use paceline::{Dht, Events, Group, Host, KeyError, multicast};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A host, and what it runs. The last one asks for walks, the others serve them.
struct Branch {
    host: Host,
    orders: (Group, Events),
    prices: (multicast::Multicast, multicast::Events),
    stock: Dht,
    visits: Option<WalkServer>,
}

/// Founds a service, or joins it at a peer.
macro_rules! enter {
    ($service:expr, $peer:expr) => {
        match &$peer {
            None => $service.bootstrap().await?,
            Some(peer) => $service.join([peer]).await?,
        }
    };
}

async fn open(peer: Option<String>, is_last: bool) -> Result<Branch> {
    let host = Host::builder("shop").start()?;
    Ok(Branch {
        orders: enter!(host.group("orders"), peer),
        prices: enter!(host.multicast("prices"), peer),
        stock: enter!(host.dht("stock"), peer),
        visits: if is_last { None } else { Some(host.walks("visits").serve().await?) },
        host,
    })
}

/// Uses every service at every host.
async fn trade(shop: &mut [Branch], day: &str) -> Result<()> {
    for branch in shop.iter() {
        branch.orders.0.broadcast(day.to_owned()).await?;
        branch.prices.0.send(day.to_owned()).await?;
        // A put is not certain while the table has not noticed that a host is gone.
        let put = || branch.stock.put(branch.host.address().to_string(), day.to_owned());
        while let Err(KeyError::Unsettled) = put().await {}
    }
    let hosts: Vec<String> = shop.iter().map(|it| it.host.address().to_string()).collect();
    for branch in shop.iter_mut() {
        for host in &hosts {
            assert_eq!(branch.orders.1.delivery().await.ok_or("the end")?.payload, day);
            assert_eq!(branch.stock.get(host.as_str()).await?.ok_or("a key is missing")?, day);
        }
        for _other in &hosts[1..] {
            assert_eq!(branch.prices.1.packet().await.ok_or("the end")?.payload, day);
        }
    }
    println!("{day}: {} hosts, {} walks", hosts.len(), walk(shop).await?);
    Ok(())
}

/// Walks over a ring whose vertices are divided among all servers; how many came back.
async fn walk(shop: &[Branch]) -> Result<u64> {
    let servers: Vec<&WalkServer> = shop.iter().filter_map(|it| it.visits.as_ref()).collect();
    let names = servers.iter().map(|server| server.local_addr().to_string());
    let client = shop.last().ok_or("no host")?.host.walks("visits").connect(names).await?;
    let ring = Graph::from_edges(90, (0..90).map(|vertex| (vertex, (vertex + 1) % 90)))?;
    let owners = (0..90).map(|vertex| vertex % servers.len() as u16).collect();
    let graph = SharedGraph { graph: Arc::new(ring), weights: None, owners };
    client.replace_graph(&graph, Duration::from_secs(60)).await?;
    let (kind, length, trail) = (Kind::Uniform, Length::Steps(20), Trail::Vertices);
    let (id, sources, in_flight_max) = (JobId(0), Sources::Range(0..90), usize::MAX);
    let job = Job { id, seed: 1, kind, length, sources, walks: 1, trail, first: 0, in_flight_max };
    let mut walking = client.run(job)?;
    while walking.next().await?.is_some() {}
    client.stop().await;
    Ok(walking.report().ok_or("the walks have not ended")?.0.finished)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut shop = vec![open(None, false).await?];
    let first = shop[0].host.address().to_string();
    for number in 1..5 {
        shop.push(open(Some(first.clone()), number == 4).await?);
    }
    trade(&mut shop, "monday").await?;
    shop.remove(3).host.stop().await;
    trade(&mut shop, "tuesday").await
}
