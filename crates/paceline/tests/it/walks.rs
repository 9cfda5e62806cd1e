//! Walks over loopback sockets, all servers in this process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use paceline::proto::core::Rng;
use paceline::proto::graphshare::VertexChange;
use paceline::proto::walk::{
    Chance, Graph, Job, JobId, Kind, Length, Sources, Step, Trail, Walk, Walker,
};
use paceline::walks::{SharedGraph, Walked, Walking};
use paceline::{Host, JoinError, NodeId, WalkServer, Walks, WalksError};

/// Longer than anything takes on a machine that others use.
const SOON: Duration = Duration::from_secs(60);

async fn server(id: u32, address: &str) -> WalkServer {
    let host = Host::builder("test")
        .id(NodeId::from(id))
        .bind(address.parse().unwrap())
        .start()
        .await
        .unwrap();
    host.walks("walks").serve().await.unwrap()
}

async fn servers(count: u32) -> Vec<WalkServer> {
    let mut servers = Vec::new();
    for id in 1..=count {
        servers.push(server(id, "127.0.0.1:0").await);
    }
    servers
}

async fn client(servers: &[WalkServer]) -> Walks {
    let host = Host::builder("test").start().await.unwrap();
    let names = servers.iter().map(|server| server.local_addr().to_string());
    host.walks("walks").within(SOON).peers(names).connect().await.unwrap()
}

/// A ring with chords, with weights if `is_weighted`.
fn graph(vertices: u32, servers: u32, is_weighted: bool) -> SharedGraph {
    let mut rng = Rng::new(5, 1);
    let mut edges = Vec::new();
    for vertex in 0..vertices {
        edges.push((vertex, (vertex + 1) % vertices));
        edges.extend((0..4).map(|_| (vertex, rng.below(vertices))));
    }
    let mut graph = Graph::from_edges(vertices, edges).unwrap();
    let weights: Vec<f32> = (0..graph.edges()).map(|edge| 0.5 + (edge % 7) as f32).collect();
    if is_weighted {
        graph = graph.with_weights(&weights).unwrap();
    }
    let owners = (0..vertices).map(|_| rng.below(servers) as u16).collect();
    let weights = is_weighted.then(|| Arc::new(weights));
    SharedGraph { graph: Arc::new(graph), weights, owners }
}

fn job(vertices: u32, walks: u32) -> Job {
    Job {
        id: JobId(0),
        seed: 3,
        kind: Kind::Uniform,
        length: Length::Geometric { end: Chance::new(0.2).unwrap(), steps_max: 1000 },
        sources: Sources::Range(0..vertices),
        walks,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    }
}

fn in_memory(graph: &Graph, job: &Job, walk: &Walk) -> Vec<u32> {
    let mut walker = Walker::new(job.seed, walk.walk, walk.source, job.length);
    let mut path = Vec::new();
    while let Step::To(vertex) = job.kind.step(&mut walker, graph) {
        path.push(vertex);
    }
    path
}

/// All walks come, each once.
async fn all(mut walking: Walking, count: u64) -> Vec<Walk> {
    let mut numbers = BTreeSet::new();
    let mut walks = Vec::new();
    while let Some(walked) = tokio::time::timeout(SOON, walking.next()).await.unwrap().unwrap() {
        let Walked::Done(walk) = walked else { panic!("{walked:?}") };
        assert!(numbers.insert(walk.walk), "walk {} comes twice", walk.walk);
        walks.push(walk);
    }
    let (report, _) = walking.report().expect("it has ended");
    assert_eq!((report.finished, report.failed, numbers.len() as u64), (count, 0, count));
    walks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn walks_between_servers_take_the_paths_that_they_take_in_memory() {
    let servers = servers(3).await;
    let walks = client(&servers).await;
    for is_weighted in [false, true] {
        let shared = graph(2000, 3, is_weighted);
        // The second graph takes the place of the first.
        walks.replace_graph(&shared, SOON).await.unwrap();
        assert_eq!(walks.supplied(), 2000 * 3);
        let kind = if is_weighted { Kind::Weighted } else { Kind::Uniform };
        let job = Job { kind, ..job(2000, 10) };
        for walk in all(walks.run(job.clone()).unwrap(), 20_000).await {
            assert_eq!(walk.path, in_memory(&shared.graph, &job, &walk));
        }
    }
}

#[tokio::test]
async fn a_second_client_uses_the_graph_that_is_there_and_may_not_take_another_ones_place() {
    let servers = servers(2).await;
    let (first, second) = (client(&servers).await, client(&servers).await);
    let shared = graph(300, 2, false);
    first.supply(&shared, SOON).await.unwrap();
    second.supply(&shared, SOON).await.unwrap();
    let (one, other) = (first.run(job(300, 5)).unwrap(), second.run(job(300, 7)).unwrap());
    let (one, other) = tokio::join!(all(one, 1500), all(other, 2100));
    assert_eq!((one.len(), other.len()), (1500, 2100));
    let third = client(&servers).await;
    let refused = third.supply(&graph(301, 2, false), SOON).await.unwrap_err();
    assert!(matches!(refused, WalksError::OtherGraph(_)), "{refused}");
    assert!(refused.to_string().contains("replacing"), "{refused}");
    // The refusal has no effect on the other clients.
    all(first.run(job(300, 1)).unwrap(), 300).await;
}

#[tokio::test]
async fn walks_whose_graph_another_client_replaces_fail_and_say_so() {
    for replaces in [false, true] {
        let servers = servers(2).await;
        let (first, second) = (client(&servers).await, client(&servers).await);
        let shared = graph(300, 2, false);
        match replaces {
            true => first.replace_graph(&shared, SOON).await.unwrap(),
            false => first.supply(&shared, SOON).await.unwrap(),
        }
        let mut walking = first.run(job(300, 1_000_000)).unwrap();
        assert!(matches!(walking.next().await, Ok(Some(Walked::Done(_)))));
        let other = graph(301, 2, false);
        second.replace_graph(&other, SOON).await.unwrap();
        let lost = loop {
            match tokio::time::timeout(SOON, walking.next()).await.expect("it ends") {
                Ok(Some(_)) => {}
                Ok(None) => panic!("it cannot have ended"),
                Err(error) => break error,
            }
        };
        assert!(matches!(lost, WalksError::GraphLost(_)), "{lost}");
        assert!(lost.to_string().contains("has another graph"), "{lost}");
        // The other one's walks are not disturbed, and the first may ask for its graph again.
        all(second.run(job(301, 5)).unwrap(), 1505).await;
        let refused = first.run(job(300, 1)).unwrap().next().await.unwrap_err();
        assert!(matches!(refused, WalksError::Refused(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_server_that_takes_no_part_is_not_waited_for_for_ever() {
    let servers = servers(2).await;
    let walks = client(&servers).await;
    servers[1].stop().await;
    let within = Duration::from_millis(500);
    let late = walks.supply(&graph(3000, 2, false), within).await.unwrap_err();
    assert!(matches!(late, WalksError::SupplyTime(_)), "{late}");
    assert!(late.to_string().contains("no progress"), "{late}");
    assert_eq!(walks.supplied(), 3000, "the other one has its part");
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_loses_no_walk() {
    let mut servers = servers(3).await;
    let walks = client(&servers).await;
    let shared = graph(1000, 3, false);
    walks.supply(&shared, SOON).await.unwrap();
    let job = job(1000, 200);
    let mut walking = walks.run(job.clone()).unwrap();
    let mut told = 0;
    while told < 1000 {
        assert!(matches!(walking.next().await.unwrap(), Some(Walked::Done(_))));
        told += 1;
    }
    let address = servers[1].local_addr().to_string();
    servers[1].stop().await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    servers[1] = server(2, &address).await;
    while let Some(walked) = tokio::time::timeout(SOON, walking.next()).await.unwrap().unwrap() {
        let Walked::Done(walk) = walked else { panic!("{walked:?}") };
        assert_eq!(walk.path, in_memory(&shared.graph, &job, &walk));
        told += 1;
    }
    let (report, _) = walking.report().unwrap();
    assert_eq!((told, report.finished, report.failed), (200_000, 200_000, 0));
    assert!(report.timeouts > 0, "the server was not missed");
}

#[tokio::test]
async fn rows_change_and_vertices_move_while_walks_pass() {
    let servers = servers(3).await;
    let walks = client(&servers).await;
    let shared = graph(500, 3, true);
    walks.supply(&shared, SOON).await.unwrap();
    let walking = walks.run(Job { trail: Trail::Versions, ..job(500, 100) }).unwrap();
    let walking = tokio::spawn(all(walking, 50_000));
    let mut rng = Rng::new(1, 1);
    for _ in 0..20 {
        let edits: Vec<_> = (0..50)
            .map(|_| match rng.below(3) {
                0 => (rng.below(500), VertexChange::Move { to: rng.below(3) as u16 }),
                1 => (
                    rng.below(500),
                    VertexChange::Set { to: rng.below(600), weight: 9.0, label: 0 },
                ),
                _ => (rng.below(500), VertexChange::Cut { to: rng.below(500) }),
            })
            .collect();
        let results = walks.edit(edits).await.unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
    let told = walking.await.unwrap();
    assert!(told.iter().all(|walk| walk.versions.len() == walk.path.len()));
    // All rows lead to one vertex, which has no edges: every walk ends there.
    let edits = (0..500).flat_map(|vertex| {
        [
            (vertex, VertexChange::Clear),
            (vertex, VertexChange::Set { to: 1000, weight: 1.0, label: 0 }),
        ]
    });
    walks.edit(edits.collect()).await.unwrap();
    let ends = all(walks.run(job(500, 1)).unwrap(), 500).await;
    assert!(ends.iter().all(|walk| walk.steps < 2 && [walk.source, 1000].contains(&walk.end)));
    let bad =
        walks.edit(vec![(1, VertexChange::Set { to: 1, weight: -1.0, label: 0 })]).await.unwrap();
    assert!(bad[0].unwrap_err().to_string().contains("a weight is finite"));
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_reason() {
    let servers = servers(1).await;
    let name = servers[0].local_addr().to_string();
    let host = async || Host::builder("test").start().await.unwrap().walks("walks");
    let wait = Duration::from_millis(300);
    let silent_server = "127.0.0.1:9".to_owned();
    let silent = host()
        .await
        .within(wait)
        .peers([name.clone(), silent_server.clone()])
        .connect()
        .await
        .err()
        .unwrap();
    assert!(
        silent.to_string().contains("`walks walks` answered at 127.0.0.1:9 within"),
        "{silent}"
    );
    let twice = host().await.peers([name.clone(), name.clone()]).connect().await.err().unwrap();
    assert!(matches!(twice, JoinError::ServerTwice { .. }), "{twice}");
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("servers");
    std::fs::write(&list, format!("# one a line\n{name}\n")).unwrap();
    let listed = host().await.peers([format!("file:{}", list.display())]).connect().await.unwrap();
    assert_eq!(listed.servers(), [servers[0].local_addr()]);
    let unordered = host().await.peers(["dns:web:7001"]).connect().await.err().unwrap();
    let unordered = unordered.to_string();
    assert!(unordered.contains("dns:web:7001") && unordered.contains("have none"), "{unordered}");
    let none = host().await.peers([""; 0]).connect().await.err().unwrap();
    assert!(matches!(none, JoinError::Servers { servers: 0 }), "{none}");
    let walks = client(&servers).await;
    let refused = async |job| walks.run(job).unwrap().next().await.err().unwrap().to_string();
    assert!(refused(job(5, 1)).await.contains("no servers have been given a graph"));
    let shared = graph(300, 1, false);
    let odd = SharedGraph { owners: vec![0; 5], ..shared.clone() };
    let odd = walks.supply(&odd, SOON).await.unwrap_err();
    assert!(odd.to_string().contains("a graph of 300 vertices with a partition of 5"), "{odd}");
    walks.supply(&shared, SOON).await.unwrap();
    assert!(refused(job(300, 0)).await.contains("no walks are asked for"));
    assert!(refused(job(301, 1)).await.contains("source 300 is not a vertex"));
    let kind = Kind::Metapath(Arc::from([1]));
    assert!(refused(Job { kind, ..job(300, 1) }).await.contains("no labels"));
    let length = Length::Steps(20_000);
    assert!(refused(Job { length, ..job(300, 1) }).await.contains("more than a message holds"));
    servers[0].stop().await;
    walks.stop().await;
    assert!(matches!(walks.run(job(300, 1)), Err(WalksError::Closed)));
}

#[tokio::test]
async fn walks_that_nobody_reads_any_more_are_given_up() {
    let servers = servers(2).await;
    let walks = client(&servers).await;
    walks.supply(&graph(300, 2, false), SOON).await.unwrap();
    let mut walking = walks.run(job(300, 100_000)).unwrap();
    assert!(walking.next().await.unwrap().is_some());
    drop(walking);
    let walking = walks.run(job(300, 100_000)).unwrap();
    walking.cancel();
    let mut walking = walking;
    let mut told = 0;
    while tokio::time::timeout(SOON, walking.next()).await.unwrap().unwrap().is_some() {
        told += 1;
    }
    assert!(told < 30_000_000);
    all(walks.run(job(300, 2)).unwrap(), 600).await;
}
