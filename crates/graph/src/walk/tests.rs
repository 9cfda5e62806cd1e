//! The walks of many threads beside those of a plain loop.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use paceline_proto::core::Rng;
use paceline_proto::walk::{Chance, Graph, Kind, Length, NOWHERE, Node2Vec, Step, Vertex, Walker};

use super::ground::Ground;
use super::kernel::Kernel;
use super::waiting::Block;
use super::*;
use crate::csr::{self, Edges, Options};

/// A graph with hubs, dead ends, isolated vertices, self-loops and duplicates, and with weights
/// (some of them 0) and labels if wanted.
fn graph(vertices: u32, edges: u32, is_weighted: bool) -> Graph {
    let mut rng = Rng::new(11, u64::from(vertices));
    let hub = |rng: &mut Rng, bound| {
        let narrow = rng.below(bound) + 1;
        rng.below(narrow)
    };
    let ends = (0..edges).map(|_| (hub(&mut rng, vertices - 9), hub(&mut rng, vertices - 5)));
    let ends: Vec<_> = ends.collect();
    let weights = (0..edges).map(|_| rng.below(5) as f32).collect();
    let labels = (0..edges).map(|_| rng.below(3) as u8).collect();
    let edges = Edges { ends, weights: is_weighted.then_some(weights), labels: Some(labels) };
    csr::Rows::new(vertices, edges, Options::default()).into_graph().unwrap().0
}

fn kinds() -> Vec<Kind> {
    vec![
        Kind::Uniform,
        Kind::Weighted,
        Kind::Node2Vec(Node2Vec::new(0.5, 2.0).unwrap()),
        Kind::Node2Vec(Node2Vec::new(4.0, 0.25).unwrap()),
        Kind::Metapath(Arc::from([0, 1, 1, 2])),
        Kind::Restart(Chance::new(0.15).unwrap()),
    ]
}

fn lengths() -> [Length; 4] {
    let end = Chance::new(0.1).unwrap();
    let geometric = Length::Geometric { end, steps_max: 50 };
    [Length::Steps(0), Length::Steps(1), Length::Steps(30), geometric]
}

/// A walk as its definition has it.
fn reference(
    graph: &Graph,
    kind: &Kind,
    length: Length,
    seed: u64,
    walk: u64,
    source: Vertex,
) -> Vec<Vertex> {
    let mut walker = Walker::new(seed, walk, source, length);
    let mut path = vec![source];
    loop {
        match kind.step(&mut walker, graph) {
            Step::To(vertex) => path.push(vertex),
            Step::Need(_) => {}
            Step::Done | Step::DeadEnd => return path,
        }
    }
}

#[test]
fn every_walk_of_every_kind_takes_the_path_of_the_plain_loop() {
    for is_weighted in [false, true] {
        let graph = graph(300, 3000, is_weighted);
        let sources: Vec<Vertex> = [299, 0, 7, 7].into_iter().chain(0..300).collect();
        for kind in kinds() {
            for length in lengths() {
                let job = Job::new(&graph, &kind, length, 5).unwrap();
                let job = job.with_sources(&sources).unwrap().with_walks_per_source(7);
                let mut due = 0;
                let each = |walk: u64, path: &[Vertex]| {
                    let source = sources[walk as usize / 7];
                    assert_eq!(job.source(walk), source);
                    let wanted = reference(&graph, &kind, length, 5, walk, source);
                    assert_eq!(path, wanted, "walk {walk} of {kind:?}, {length:?}");
                };
                let streamed = job.paths(|paths| {
                    for (walk, path) in paths.iter() {
                        assert_eq!(walk, due);
                        due += 1;
                        each(walk, path);
                    }
                    Ok::<(), Infallible>(())
                });
                let (kept, summary) = job.with_threads(3).keep().unwrap();
                kept.iter().for_each(|(walk, path)| each(walk, path));
                let steps: usize = kept.iter().map(|(_, path)| path.len() - 1).sum();
                assert_eq!(due, job.walks());
                assert_eq!((summary.walks, summary.steps), (job.walks(), steps as u64));
                assert_eq!(streamed, Ok(summary));
                assert!(summary.is_complete);
            }
        }
    }
}

#[test]
fn offsets_of_64_bits_give_the_same_paths() {
    let graph = graph(300, 3000, true);
    for kind in kinds() {
        let job = Job::new(&graph, &kind, Length::Steps(20), 5).unwrap();
        let (kept, summary) = job.keep().unwrap();
        let wide = Ground::wide(&graph);
        let mut vertices = vec![0; kept.vertices().len()];
        let steps =
            Kernel::new(&job, &wide).fill(Block::new(0..300, kept.rows(), 0), &mut vertices);
        assert_eq!((&*vertices, steps), (kept.vertices(), summary.steps), "{kind:?}");
    }
}

#[test]
fn many_blocks_come_in_order_from_any_number_of_threads() {
    let graph = graph(5000, 40_000, false);
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(80), 2).unwrap();
    let job = job.with_walks_per_source(30);
    let (kept, _) = job.keep().unwrap();
    for threads in [1, 2, 5] {
        let (mut due, mut blocks) = (0, 0);
        let summary = job.with_threads(threads).paths(|paths| {
            for (walk, path) in paths.iter() {
                assert!((walk, path) == (due, kept.path(due as usize)), "with {threads} threads");
                due += 1;
            }
            blocks += 1;
            Ok::<(), Infallible>(())
        });
        assert!(summary.unwrap().is_complete && blocks > 10 && due == job.walks());
    }
}

#[test]
fn a_walk_takes_room_for_its_steps_but_not_if_its_source_is_a_dead_end() {
    // 0 leads to 1, and 1 nowhere.
    let graph = Graph::new(vec![0, 1, 1], vec![1]).unwrap();
    let keep = |kind: &Kind, steps, sources: &[Vertex]| {
        let job = Job::new(&graph, kind, Length::Steps(steps), 1).unwrap();
        let job = job.with_sources(sources).unwrap().with_walks_per_source(2);
        let (kept, summary) = job.keep().unwrap();
        for (walk, path) in kept.iter() {
            let length = Length::Steps(steps);
            assert_eq!(path, reference(&graph, kind, length, 1, walk, job.source(walk)));
        }
        (kept, summary.steps)
    };
    let (regular, steps) = keep(&Kind::Uniform, 3, &[0, 0, 0, 1]);
    assert_eq!((regular.rows(), steps), (&Rows::Stride(4), 6));
    assert_eq!(regular.vertices()[..5], [0, 1, NOWHERE, NOWHERE, 0]);
    assert_eq!(regular.vertices()[24..29], [1, NOWHERE, NOWHERE, NOWHERE, 1]);
    let (spared, steps) = keep(&Kind::Uniform, 30, &[1, 0, 1]);
    assert_eq!((spared.rows(), steps), (&Rows::At(vec![0, 1, 2, 33, 64, 65, 66]), 2));
    assert_eq!(spared.vertices()[..5], [1, 1, 0, 1, NOWHERE]);
    // These go back to their source at a dead end.
    let (back, steps) = keep(&Kind::Restart(Chance::new(0.15).unwrap()), 30, &[1, 0, 1]);
    assert_eq!((back.rows(), steps), (&Rows::Stride(31), 180));
}

#[test]
fn walks_from_any_number_on_are_those_of_the_whole_job() {
    let graph = graph(5000, 40_000, false);
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(80), 2).unwrap();
    let job = job.with_walks_per_source(5);
    let (kept, whole) = job.keep().unwrap();
    for first in [0, 1, 12_945, 24_999, 25_000, 30_000] {
        let mut due = first;
        let summary = job.paths_from(first, |paths| {
            for (walk, path) in paths.iter() {
                assert_eq!((walk, path), (due, kept.path(walk as usize)));
                due += 1;
            }
            Ok::<(), Infallible>(())
        });
        assert_eq!(due, whole.walks.max(first));
        let summary = summary.unwrap();
        assert!(summary.is_complete && summary.walks == due - first, "{summary:?}");
    }
}

#[test]
fn tallies_are_those_of_the_paths() {
    let graph = graph(500, 4000, true);
    let end = Chance::new(0.2).unwrap();
    let length = Length::Geometric { end, steps_max: 100 };
    let job = Job::new(&graph, &Kind::Uniform, length, 3).unwrap().with_walks_per_source(400);
    let (kept, summary) = job.keep().unwrap();
    let (ends, of_ends) = job.ends();
    let (visits, of_visits) = job.visits();
    assert_eq!((of_ends, of_visits), (summary, summary));
    let mut expected = vec![0u64; 500];
    for (walk, path) in kept.iter() {
        path.iter().for_each(|&vertex| expected[vertex as usize] += 1);
        assert_eq!(ends.vertices()[walk as usize], path[path.len() - 1]);
    }
    assert_eq!(visits, expected);
    let top: Vec<_> = ends.top(3).collect();
    assert_eq!(top.len(), 500);
    let mut counts = [0u32; 500];
    ends.vertices()[..400].iter().for_each(|&vertex| counts[vertex as usize] += 1);
    let mut order: Vec<u32> = (0..500).collect();
    order.sort_by_key(|&vertex| std::cmp::Reverse(counts[vertex as usize]));
    for (rank, ranked) in top[0].iter().enumerate() {
        assert_eq!((ranked.vertex, ranked.walks), (order[rank], counts[order[rank] as usize]));
    }
}

#[test]
fn a_failing_sink_and_a_stop_end_a_job_early() {
    let graph = graph(5000, 40_000, false);
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(80), 2).unwrap();
    let job = job.with_walks_per_source(100).with_threads(3);
    let mut blocks = 0;
    let failed = job.paths(|_| {
        blocks += 1;
        if blocks == 2 { Err("disk full") } else { Ok(()) }
    });
    assert_eq!((failed, blocks), (Err("disk full"), 2));

    let stop = AtomicBool::new(false);
    let stopped = job.with_stop(&stop);
    let mut walks = 0;
    let summary = stopped.paths(|paths| {
        walks += paths.len() as u64;
        stop.store(true, Ordering::Relaxed);
        Ok::<(), Infallible>(())
    });
    let summary = summary.unwrap();
    assert!(!summary.is_complete && summary.walks == walks && walks < job.walks());
    let (kept, summary) = stopped.keep().unwrap();
    assert_eq!((summary.walks, kept.len() as u64), (0, job.walks()));
    assert!(kept.path(0).is_empty());
    assert_eq!(stopped.visits().1.walks, 0);
}

#[test]
fn progress_ends_with_all_walks_and_steps() {
    let graph = graph(5000, 40_000, false);
    let (walks, steps) = (AtomicU64::new(0), AtomicU64::new(0));
    let progress = |progress: Progress| {
        assert!(progress.walks <= progress.walks_total);
        walks.fetch_max(progress.walks, Ordering::Relaxed);
        steps.fetch_max(progress.steps, Ordering::Relaxed);
    };
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(80), 2).unwrap();
    let job = job.with_walks_per_source(20).with_progress(&progress);
    let (_, summary) = job.visits();
    assert_eq!((walks.into_inner(), steps.into_inner()), (summary.walks, summary.steps));
}

#[test]
fn no_walks_and_no_edges_are_jobs_too() {
    let empty = Graph::new(vec![0; 4], vec![]).unwrap();
    let job = Job::new(&empty, &Kind::Uniform, Length::Steps(3), 1).unwrap();
    let (kept, summary) = job.keep().unwrap();
    assert_eq!((kept.vertices(), kept.path(2), summary.steps), (&[0, 1, 2][..], &[2][..], 0));
    for none in [job.with_walks_per_source(0), job.with_sources(&[]).unwrap()] {
        let (kept, summary) = none.keep().unwrap();
        assert!(kept.is_empty() && summary.is_complete);
        assert_eq!(none.ends().0.vertices(), [0; 0]);
        assert_eq!(none.visits().0, [0; 3]);
    }
}

#[test]
fn a_job_that_cannot_be_is_refused() {
    let graph = Graph::new(vec![0, 1], vec![0]).unwrap();
    let job = |kind: &Kind, length| {
        Job::new(&graph, kind, length, 1).map(|_| ()).map_err(|e| e.to_string())
    };
    assert!(job(&Kind::Metapath(Arc::from([1])), Length::Steps(1)).unwrap_err().contains("labels"));
    assert!(job(&Kind::Uniform, Length::Steps(2 << 20)).unwrap_err().contains("1048576"));
    let job = Job::new(&graph, &Kind::Uniform, Length::Steps(1), 1).unwrap();
    let refused = job.with_sources(&[0, 1]).map(|_| ()).unwrap_err();
    assert_eq!(refused.to_string(), "a walk starts at vertex 1, but there are only 1 vertices");
    // An edge of each vertex to itself: 600 x 2^32 x 2^20 vertices.
    let loops = Graph::new((0..=600).collect(), (0..600).collect()).unwrap();
    let job = Job::new(&loops, &Kind::Uniform, Length::Steps(1 << 20), 1).unwrap();
    let refused = job.with_walks_per_source(u32::MAX).keep().map(|_| ()).unwrap_err();
    assert_eq!(refused, JobError::TooLong(600 * u128::from(u32::MAX) * ((1 << 20) + 1)));
}
