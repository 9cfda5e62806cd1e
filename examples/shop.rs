//! Five hosts, each of which runs a group, a multicast, a table and walks on its one port. One of
//! them is killed, and all four services go on at the others; then the others stop in order.
//!
//! `cargo run --release -p paceline --example shop`

use std::error::Error;
use std::time::Duration;

use paceline::prelude::*;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A host, and what it runs. The last one asks for walks, the others serve them.
struct Branch {
    host: Host,
    orders: (Group, Events),
    prices: (Multicast, multicast::Events),
    stock: Dht,
    visits: Option<WalkServer>,
}

/// The first host creates a service, the others join it.
async fn enter<S: Joins>(
    service: ServiceBuilder<S>,
    is_first: bool,
) -> std::result::Result<S::Joined, JoinError> {
    if is_first { service.bootstrap().await } else { service.join().await }
}

async fn open(peer: &Option<String>, is_last: bool) -> Result<Branch> {
    let host = Host::builder("shop").peers(peer).start().await?;
    let is_first = peer.is_none();
    Ok(Branch {
        orders: enter(host.group("orders"), is_first).await?,
        prices: enter(host.multicast("prices"), is_first).await?,
        stock: enter(host.dht("stock"), is_first).await?,
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
    let visits = shop.last().ok_or("no host")?.host.walks("visits");
    let client = visits.peers(names).connect().await?;
    let ring = Graph::from_edges(90, (0..90).map(|vertex| (vertex, (vertex + 1) % 90)))?;
    let owners = (0..90).map(|vertex| vertex % servers.len() as u16).collect();
    client.replace_graph(&SharedGraph::new(ring, owners), Duration::from_secs(60)).await?;
    let mut walking = client.run(Job::new(Length::Steps(20), Sources::Range(0..90)))?;
    while walking.next().await?.is_some() {}
    client.stop().await;
    Ok(walking.report().ok_or("the walks have not ended")?.0.finished)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut shop = vec![open(&None, false).await?];
    let first = Some(shop[0].host.address().to_string());
    for number in 1..5 {
        shop.push(open(&first, number == 4).await?);
    }
    trade(&mut shop, "monday").await?;
    shop.remove(3).host.abort().await;
    trade(&mut shop, "tuesday").await?;
    for branch in shop {
        let stopped = branch.host.stop().await;
        assert!(stopped.is_orderly(), "{stopped:?}");
    }
    Ok(())
}
