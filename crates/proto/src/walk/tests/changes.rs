//! Parts that come piece by piece, and what their servers answer.

use std::time::Duration;

use bytes::Bytes;
use smallvec::smallvec;

use super::bench::{Bench, job};
use super::*;
use crate::core::NodeId;
use crate::graphshare::{
    EditOutcome, GraphPlan, Holding, OpenRequest, OwnRow, PartChunk, PartPosition, TransferReply,
    VertexChange, VertexTransfer,
};

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);

fn set(to: Vertex) -> VertexChange {
    VertexChange::Set { to, weight: 1.0, label: 0 }
}

pub(super) fn plan(id: u64) -> GraphPlan {
    let servers = vec![(A, Bytes::new()), (B, Bytes::from_static(b"b"))];
    GraphPlan { id, vertices: 3, is_weighted: false, is_labelled: false, servers, pass: None }
}

/// 0 -> 1, 2; 2 -> 0: the rows of server A.
pub(super) fn chunk() -> PartChunk {
    PartChunk {
        owners: vec![0, 1, 0],
        degrees: vec![2, 1],
        targets: vec![1, 2, 0],
        ..PartChunk::default()
    }
}

fn say(bench: &mut Bench, plan: u64, upkeep: GraphMessage) -> Vec<GraphMessage> {
    bench.receive(Message::Graph(plan, Box::new(upkeep)));
    let said = |(_, message)| match message {
        Message::Graph(_, upkeep) => Some(*upkeep),
        _ => None,
    };
    bench.sent().into_iter().filter_map(said).collect()
}

pub(super) fn held(bench: &mut Bench, plan: u64, upkeep: GraphMessage) -> Holding {
    match &say(bench, plan, upkeep)[..] {
        [GraphMessage::Held(holding)] => *holding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_comes_in_pieces_of_any_size_and_none_counts_twice() {
    let mut bench = Bench::awaiting(Config::default());
    assert_eq!(held(&mut bench, 5, GraphMessage::Ask), Holding::Other(0));
    let start = PartPosition::default();
    let open = GraphMessage::Open(OpenRequest { plan: plan(5), replaces: false });
    assert_eq!(held(&mut bench, 5, open.clone()), Holding::Until(start));
    assert_eq!(bench.outbox.links.contacts, [(B, Bytes::from_static(b"b"))]);
    let first = PartChunk {
        owners: vec![0],
        degrees: vec![1],
        is_cut: true,
        targets: vec![1],
        ..PartChunk::default()
    };
    let middle = PartPosition { vertex: 0, edge: 1 };
    assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(first.clone())), Holding::Until(middle));
    assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(first)), Holding::Until(middle));
    assert_eq!(bench.count("walk_chunk_misplaced"), 1);
    assert_eq!(held(&mut bench, 5, open), Holding::Until(middle), "it goes on where it was");
    let rest = PartChunk { from: middle, degrees: vec![1, 1], targets: vec![2, 0], ..chunk() };
    assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(rest)), Holding::Whole);
    let part = bench.server.part();
    assert_eq!(part.row(0).map(|row| row.targets.to_vec()), Some(vec![1, 2]));
    assert_eq!(part.row(2).map(|row| row.targets.to_vec()), Some(vec![0]));
    assert!(part.row(1).is_none() && part.owner(1) == Some(B));
    // Another graph replaces it only on request.
    assert_eq!(
        held(&mut bench, 6, GraphMessage::Open(OpenRequest { plan: plan(6), replaces: false })),
        Holding::Other(5)
    );
    assert_eq!(
        held(&mut bench, 6, GraphMessage::Open(OpenRequest { plan: plan(6), replaces: true })),
        Holding::Until(start)
    );
    assert_eq!(held(&mut bench, 5, GraphMessage::Ask), Holding::Whole, "until it is whole");
    assert_eq!(held(&mut bench, 6, GraphMessage::Chunk(chunk())), Holding::Whole);
    assert_eq!(held(&mut bench, 5, GraphMessage::Ask), Holding::Other(6));
}

#[test]
fn pieces_that_do_not_fit_and_plans_that_cannot_be_are_refused() {
    let wrong: [fn(&mut PartChunk); 9] = [
        |chunk| chunk.owners[1] = 2,
        |chunk| chunk.owners.push(0),
        |chunk| chunk.degrees[0] = 1,
        |chunk| _ = chunk.degrees.pop(),
        |chunk| chunk.targets[2] = 3,
        |chunk| chunk.targets.swap(0, 1),
        |chunk| chunk.labels = vec![1, 2, 3],
        |chunk| chunk.weights = vec![1.0; 3],
        |chunk| (chunk.owners, chunk.is_cut) = (vec![0, 0, 1], true),
    ];
    for (place, spoil) in wrong.iter().enumerate() {
        let mut bench = Bench::awaiting(Config::default());
        held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: plan(5), replaces: false }));
        let mut bad = chunk();
        spoil(&mut bad);
        assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(bad)), Holding::Refused, "{place}");
        assert_eq!(held(&mut bench, 5, GraphMessage::Ask), Holding::Other(0), "{place}");
    }
    let mut bench = Bench::awaiting(Config { graph_bytes_max: 40, ..Config::default() });
    held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: plan(5), replaces: false }));
    assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(chunk())), Holding::Refused, "no room");
    let without_it = GraphPlan { servers: vec![(B, Bytes::new())], ..plan(5) };
    assert_eq!(
        held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: without_it, replaces: false })),
        Holding::Refused
    );
    let twice = GraphPlan { servers: vec![(A, Bytes::new()); 2], ..plan(5) };
    assert_eq!(
        held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: twice, replaces: false })),
        Holding::Refused
    );
    // A server that had its part from the start takes no other.
    let mut fixed = Bench::new(Config::default(), &kite(), &[0; 4]);
    assert_eq!(
        held(&mut fixed, 5, GraphMessage::Open(OpenRequest { plan: plan(5), replaces: true })),
        Holding::Refused
    );
    assert_eq!(say(&mut fixed, 0, GraphMessage::Who), []);
    let edits = GraphMessage::Edits(1, vec![(0, VertexChange::Clear)]);
    assert_eq!(held(&mut fixed, 0, edits), Holding::Whole, "and none of its rows changes");
    assert_eq!(fixed.server.part().row(0).map(|row| row.targets.len()), Some(2));
}

#[test]
fn edits_that_are_asked_for_twice_are_made_once_and_a_stranger_moves_nothing() {
    let mut bench = Bench::awaiting(Config::default());
    held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: plan(5), replaces: false }));
    held(&mut bench, 5, GraphMessage::Chunk(chunk()));
    let edits = vec![(0, set(0)), (1, set(0)), (2, VertexChange::Move { to: 1 })];
    let done = vec![EditOutcome::Done(1), EditOutcome::Elsewhere(B, 0), EditOutcome::Busy];
    let said = say(&mut bench, 5, GraphMessage::Edits(9, edits.clone()));
    let given =
        VertexTransfer { vertex: 2, epoch: 1, version: 0, row: OwnRow::of(&[0], None, None) };
    assert_eq!(said, [GraphMessage::Give(given.clone()), GraphMessage::Edited(9, done.clone())]);
    let again = say(&mut bench, 5, GraphMessage::Edits(9, edits));
    assert_eq!(again, [GraphMessage::Edited(9, done)], "the first answer got lost");
    // No server acknowledges the vertex: it is sent again.
    bench.until(Duration::from_secs(3));
    let again = bench.sent().into_iter().filter(|(to, _)| *to == B).count();
    assert!((1..=3).contains(&again), "{again}");
    let before = bench.server.part().clone();
    bench.receive_from(NodeId(7), Message::Graph(5, Box::new(GraphMessage::Give(given))));
    let taken = GraphMessage::Received(2, TransferReply::Taken(1));
    bench.receive_from(NodeId(7), Message::Graph(5, Box::new(taken.clone())));
    bench
        .receive_from(NodeId(7), Message::Graph(5, Box::new(GraphMessage::Moved(vec![(0, B, 9)]))));
    assert_eq!(bench.count("walk_upkeep_refused"), 3);
    assert_eq!(bench.server.part().owner(2), before.owner(2));
    assert_eq!(say(&mut bench, 5, taken), []);
    assert_eq!(bench.server.part().owner(2), Some(B));
}

#[test]
fn walkers_over_another_graph_are_turned_away_and_their_home_hears_of_it() {
    let mut bench = Bench::awaiting(Config::default());
    held(&mut bench, 5, GraphMessage::Open(OpenRequest { plan: plan(5), replaces: false }));
    held(&mut bench, 5, GraphMessage::Chunk(chunk()));
    let home = NodeId(9);
    let head = |plan| {
        let trail = Trail::Vertices;
        Arc::new(Head { home, job: 1, plan, kind: Kind::Uniform, trail })
    };
    let walker = Walker::new(1, 1, 0, Length::Steps(1));
    let traveller =
        Traveller { token: 1, walker, path: vec![], drawn: 0, is_marked: false, detours: 0 };
    let walkers = |head| Message::Walkers { head, walkers: smallvec![traveller.clone()] };
    bench.receive(walkers(head(6)));
    let told = Message::Graph(6, Box::new(GraphMessage::Held(Holding::Other(5))));
    assert_eq!(bench.sent(), [(home, told)]);
    assert_eq!(bench.server.census().refused, 1);
    bench.receive(walkers(head(5)));
    assert_eq!(bench.server.queue_len(), 1);
    // A graph that takes this one's place takes the walkers over it along.
    held(&mut bench, 6, GraphMessage::Open(OpenRequest { plan: plan(6), replaces: true }));
    held(&mut bench, 6, GraphMessage::Chunk(chunk()));
    assert_eq!((bench.server.held(), bench.server.census().lost), (0, 1));
}

#[test]
fn a_node_without_a_graph_refuses_jobs() {
    let mut bench = Bench::awaiting(Config::default());
    bench.run(&job(1, 0, 1, 1));
    assert_eq!(bench.told(), ["job 1 refused: no servers have been given a graph"]);
    let mut bench = Bench::new(Config::default(), &kite(), &[0; 4]);
    bench.run(&Job { first: 3, ..job(1, 0, 3, 1) });
    assert_eq!(bench.told(), ["job 1 refused: walk 3 is to be the first of 3"]);
    bench.run(&Job { first: 1, ..job(1, 0, 3, 1) });
    bench.until(Duration::from_secs(1));
    let told = bench.told();
    assert_eq!(told.last().map(String::as_str), Some("job 1 ended: 2 + 0 of 2"), "{told:?}");
}

/// What a server that is set to marks does with ten walkers at once, by what its client asks for.
#[test]
fn the_discipline_that_a_client_asks_for_is_the_one_that_acts() {
    let pass = |discipline| {
        // From the second walker on some are dropped or marked early, the third at the latest.
        let queue = QueueConfig {
            discipline,
            min_th: 0,
            max_th: 4,
            max_p: 1.0,
            limit: 4,
            ..QueueConfig::default()
        };
        Some(PassConfig { queue, ..PassConfig::default() })
    };
    let counts = |pass: Option<PassConfig>| {
        let mut bench = Bench::awaiting(Config::default());
        // First with another graph and discipline: the later one counts.
        let before = GraphPlan { pass: Some(PassConfig::default()), ..plan(4) };
        held(&mut bench, 4, GraphMessage::Open(OpenRequest { plan: before, replaces: false }));
        assert_eq!(held(&mut bench, 4, GraphMessage::Chunk(chunk())), Holding::Whole);
        held(
            &mut bench,
            5,
            GraphMessage::Open(OpenRequest { plan: GraphPlan { pass, ..plan(5) }, replaces: true }),
        );
        assert_eq!(held(&mut bench, 5, GraphMessage::Chunk(chunk())), Holding::Whole);
        let walker = |walk| Traveller {
            token: walk,
            walker: Walker::new(1, walk, 0, Length::Steps(3)),
            ..Traveller::NONE
        };
        let head = Head { home: B, job: 1, plan: 5, kind: Kind::Uniform, trail: Trail::None };
        let walkers = (0..10).map(walker).collect();
        bench.receive(Message::Walkers { head: Arc::new(head), walkers });
        let census = bench.server.census();
        (census.dropped_early > 0, census.dropped_full, census.marked > 0)
    };
    assert_eq!(counts(pass(Discipline::TailDrop)), (false, 6, false));
    assert_eq!(counts(pass(Discipline::RedMark)), (false, 6, true));
    let (early, full, marked) = counts(pass(Discipline::RedDrop));
    assert!(early && full <= 6 && !marked, "{full} dropped by a full queue");
    assert_eq!(counts(None), (false, 0, false), "what the server is set to has room");
}
