//! Walks over a graph that is a ring.

use std::sync::Arc;
use std::time::Duration;

use paceline::Walks;
use paceline::proto::walk::{Graph, Job, JobId, Kind, Length, Sources, Trail};
use paceline::walks::{SharedGraph, Walked};

const VERTICES: u32 = 400;
/// How long servers may take to take their parts.
const WITHIN: Duration = Duration::from_secs(60);

/// Supplies the graph to this many servers, such that each step leads to another one, and walks
/// from each vertex once.
pub async fn walk(client: &Walks, servers: u32) {
    let edges = (0..VERTICES).map(|vertex| (vertex, (vertex + 1) % VERTICES));
    let graph = Arc::new(Graph::from_edges(VERTICES, edges).unwrap());
    let owners = (0..VERTICES).map(|vertex| (vertex % servers) as u16).collect();
    let graph = SharedGraph { graph, weights: None, owners };
    client.supply(&graph, WITHIN).await.unwrap();
    let job = Job {
        id: JobId(0),
        seed: 3,
        kind: Kind::Uniform,
        length: Length::Steps(8),
        sources: Sources::Range(0..VERTICES),
        walks: 1,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    };
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
