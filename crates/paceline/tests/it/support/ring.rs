//! Walks over a graph that is a ring.

use std::time::Duration;

use paceline::Walks;
use paceline::walks::{Graph, Job, Length, SharedGraph, Sources, Walked};

const VERTICES: u32 = 400;
/// How long servers may take to take their parts.
const WITHIN: Duration = Duration::from_secs(60);

/// Supplies the graph to this many servers, such that each step leads to another one, and walks
/// from each vertex once.
pub async fn walk(client: &Walks, servers: u32) {
    let edges = (0..VERTICES).map(|vertex| (vertex, (vertex + 1) % VERTICES));
    let graph = Graph::from_edges(VERTICES, edges).unwrap();
    let owners = (0..VERTICES).map(|vertex| (vertex % servers) as u16).collect();
    client.supply(&SharedGraph::new(graph, owners), WITHIN).await.unwrap();
    let job = Job::new(Length::Steps(8), Sources::Range(0..VERTICES)).with_seed(3);
    let mut walking = client.run(job).unwrap();
    let mut count = 0;
    while let Some(walked) = walking.next().await.unwrap() {
        let Walked::Done(walk) = walked else { panic!("{walked:?}") };
        let ring: Vec<u32> = (1..=8).map(|step| (walk.source + step) % VERTICES).collect();
        assert_eq!(walk.path, ring);
        count += 1;
    }
    assert_eq!(count, VERTICES);
}
