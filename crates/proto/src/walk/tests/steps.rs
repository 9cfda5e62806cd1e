//! Servers that walk in supersteps, driven by hand over streams that are slow in turn.

use std::collections::{BTreeMap, VecDeque};

use super::bench::Bench;
use super::*;
use crate::core::{NodeId, Rng};

const SERVERS: u32 = 8;

/// Eight servers, each the home of walks from its two vertices, and what is on its way.
struct Cluster {
    benches: Vec<Bench>,
    streams: BTreeMap<(u32, u32), VecDeque<Message>>,
    rng: Rng,
    walks: BTreeMap<(u32, u64), Vec<Vertex>>,
    ended: usize,
    /// By server: the superstep that it was last told to begin.
    superstep: Vec<u32>,
}

/// A ring of 16 vertices with chords; vertex 15 is a dead end.
fn ring() -> Graph {
    let edges = (0..15u32).flat_map(|vertex| [(vertex, (vertex + 1) % 16), (vertex, vertex / 2)]);
    Graph::from_edges(16, edges).unwrap()
}

fn job_of(server: u32) -> Job {
    Job {
        id: JobId(1),
        seed: 100 + u64::from(server),
        kind: Kind::Node2Vec(Node2Vec::new(0.5, 2.0).unwrap()),
        length: Length::Geometric { end: Chance::new(0.1).unwrap(), steps_max: 40 },
        sources: Sources::List(Arc::from([server, server + 8])),
        walks: 30,
        trail: Trail::Vertices,
        first: 0,
        in_flight_max: usize::MAX,
    }
}

fn config(active_max: usize) -> Config {
    Config {
        generation: Generation::Supersteps(StepConfig { active_max }),
        turn_hops: 5,
        ..Config::default()
    }
}

impl Cluster {
    fn new(seed: u64, active_max: usize) -> Cluster {
        let owners: Vec<u16> = (0..16).map(|vertex| vertex % SERVERS as u16).collect();
        let bench = |node| Bench::at(NodeId::from(node), config(active_max), &ring(), &owners);
        Cluster {
            benches: (0..SERVERS).map(bench).collect(),
            streams: BTreeMap::new(),
            rng: Rng::new(1, seed),
            walks: BTreeMap::new(),
            ended: 0,
            superstep: vec![0; SERVERS as usize],
        }
    }

    /// Collects the messages and events of a server.
    fn collect(&mut self, server: u32) {
        let bench = &mut self.benches[server as usize];
        for (to, message) in bench.sent() {
            self.streams.entry((server, to.index() as u32)).or_default().push_back(message);
        }
        for event in bench.outbox.events.drain(..) {
            match event {
                Event::Walks(_, walks) => {
                    for walk in walks {
                        let known = self.walks.insert((server, walk.walk), walk.path);
                        assert_eq!(known, None, "walk {} was told twice", walk.walk);
                    }
                }
                Event::Ended(_, report, _) => {
                    assert_eq!((report.finished, report.generated), (60, 60));
                    self.ended += 1;
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Lets one drawn thing happen; false if nothing is left to happen.
    fn step(&mut self) -> bool {
        let links: Vec<(u32, u32)> = self.streams.keys().copied().collect();
        let busy: Vec<u32> = (0..SERVERS)
            .filter(|&at| !self.benches[at as usize].outbox.timers.is_empty())
            .collect();
        let all = links.len() + busy.len();
        if all == 0 {
            return false;
        }
        let drawn = self.rng.below(all as u32) as usize;
        let Some(&(from, to)) = links.get(drawn) else {
            let server = busy[drawn - links.len()];
            self.benches[server as usize].turn();
            self.collect(server);
            return true;
        };
        let stream = self.streams.get_mut(&(from, to)).unwrap();
        let message = stream.pop_front().unwrap();
        if stream.is_empty() {
            self.streams.remove(&(from, to));
        }
        match &message {
            Message::Barrier(Barrier::Go { superstep }) => {
                self.superstep[to as usize] = *superstep;
                let spread = self.superstep.iter().skip(1).map(|at| superstep.abs_diff(*at)).max();
                assert!(spread <= Some(1), "{:?}", self.superstep);
            }
            // A walker takes one step in each superstep at most: one that is ahead of the receiver
            // waits there. The coordinator begins a superstep by itself, before it tells the
            // others.
            Message::Walkers { walkers, .. } if to != 0 => {
                for walker in walkers {
                    assert!(walker.walker.steps <= self.superstep[to as usize] + 1);
                }
            }
            _ => {}
        }
        self.benches[to as usize].receive_from(NodeId::from(from), message);
        self.collect(to);
        true
    }

    fn run(&mut self) {
        for server in 0..SERVERS {
            self.benches[server as usize].run(&job_of(server));
            self.collect(server);
        }
        while self.step() {}
    }
}

#[test]
fn walks_in_supersteps_take_the_paths_in_memory_whatever_the_streams_delay() {
    let graph = ring();
    for seed in 0..10 {
        let mut cluster = Cluster::new(seed, if seed % 2 == 0 { 7 } else { 1000 });
        cluster.run();
        assert_eq!((cluster.ended, cluster.walks.len()), (8, 480), "seed {seed}");
        for ((server, walk), found) in &cluster.walks {
            let job = job_of(*server);
            let source = job.sources.vertex((walk / 30) as usize);
            let walker = Walker::new(job.seed, *walk, source, job.length);
            assert_eq!(path(&job.kind, &graph, walker)[1..], found[..], "walk {walk}");
        }
        let held: usize = cluster.benches.iter().map(|bench| bench.server.held()).sum();
        assert_eq!(held, 0, "walkers are left");
    }
}

#[test]
fn a_home_has_no_more_walks_under_way_than_it_may() {
    let mut cluster = Cluster::new(1, 7);
    for server in 0..SERVERS {
        cluster.benches[server as usize].run(&job_of(server));
        cluster.collect(server);
    }
    while cluster.step() {
        let held: usize = cluster.benches.iter().map(|bench| bench.server.held()).sum();
        assert!(held <= 7 * SERVERS as usize, "{held}");
    }
}

#[test]
fn barriers_that_do_not_fit_are_counted_and_change_nothing() {
    let mut cluster = Cluster::new(1, 7);
    let bench = &mut cluster.benches[1];
    bench.run(&job_of(1));
    bench.sent();
    let stray = [
        (NodeId(0), Barrier::Go { superstep: 2 }),
        (NodeId(2), Barrier::Go { superstep: 1 }),
        (NodeId(2), Barrier::Sent { superstep: 2, walkers: 0 }),
        (NodeId(2), Barrier::Ready { superstep: 0, left: 1 }),
        (NodeId(77), Barrier::Sent { superstep: 1, walkers: 0 }),
    ];
    for (from, barrier) in stray {
        bench.receive_from(from, Message::Barrier(barrier));
    }
    assert_eq!(bench.count("walk_barrier_refused"), 5);
    assert!(bench.sent().is_empty() && bench.outbox.timers.is_empty());
    bench.receive_from(NodeId(0), Message::Barrier(Barrier::Go { superstep: 1 }));
    assert_eq!(bench.outbox.timers.len(), 1, "it serves its walkers");
    bench.run(&job_of(1));
    assert_eq!(bench.told(), ["job 1 refused: 1 jobs are running, which is the most"]);
    let mut asynchronous = Bench::new(Config::default(), &ring(), &[0; 16]);
    asynchronous.receive(Message::Barrier(Barrier::Go { superstep: 1 }));
    assert_eq!(asynchronous.count("walk_barrier_refused"), 1);
}
