//! Rows that change, vertices that move, parts that come piece by piece: each by hand.

use std::time::Duration;

use bytes::Bytes;
use smallvec::smallvec;

use super::bench::{Bench, job};
use super::*;
use crate::core::NodeId;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const MAX: usize = usize::MAX;

fn owners(of: &[u16]) -> Arc<Owners> {
    Arc::new(Owners::new(vec![A, B], of.to_vec()).expect("two servers"))
}

/// Two servers' parts of the kite, each with its view of the other's.
fn parts() -> (super::super::Part, super::super::Part) {
    let part = |me| super::super::Part::new(me, Arc::new(kite()), owners(&[0, 0, 1, 1]));
    (part(A), part(B))
}

fn set(to: Vertex) -> Change {
    Change::Set { to, weight: 1.0, label: 0 }
}

#[test]
fn a_row_keeps_its_order_and_says_whether_it_has_changed() {
    let mut row = OwnRow::of(&[1, 3, 3], Some(&[1.0, 2.0, 3.0]), Some(&[0, 1, 4]));
    let edge = |to, weight, label| Change::Set { to, weight, label };
    assert!(row.apply(&edge(3, 9.0, 2)), "another label is another edge");
    assert_eq!((row.targets(), row.labels()), (&[1, 3, 3, 3][..], Some(&[0, 1, 2, 4][..])));
    assert!(!row.apply(&edge(3, 9.0, 2)), "it is there");
    assert!(row.apply(&edge(3, 8.0, 2)), "its weight is another");
    assert_eq!(row.weights(), Some(&[1.0, 2.0, 8.0, 3.0][..]));
    assert!(row.apply(&edge(0, 0.0, 0)));
    assert_eq!(row.row().aliases.map(<[_]>::len), Some(5));
    assert!(row.apply(&Change::Cut { to: 3 }) && !row.apply(&Change::Cut { to: 3 }));
    assert_eq!((row.targets(), row.weights()), (&[0, 1][..], Some(&[0.0, 1.0][..])));
    assert!(row.apply(&Change::Clear) && !row.apply(&Change::Clear));
    assert_eq!(row.row().aliases, Some(&[][..]));
    let mut plain = OwnRow::new(false, false);
    assert!(plain.apply(&set(5)) && !plain.apply(&set(5)));
    assert!(plain.has(false, false) && !plain.has(true, false));
}

#[test]
fn versions_count_changes_and_others_are_told_who_has_a_vertex() {
    let (mut a, _) = parts();
    assert_eq!(a.edit(0, &set(3), MAX), Outcome::Done(1));
    assert_eq!(a.edit(0, &set(3), MAX), Outcome::Done(1), "nothing was to be done");
    assert_eq!(a.row(0).map(|row| row.targets.to_vec()), Some(vec![1, 2, 3]));
    assert_eq!(a.edit(0, &Change::Cut { to: 1 }, MAX), Outcome::Done(2));
    assert_eq!(a.edit(2, &set(0), MAX), Outcome::Elsewhere(B, 0));
    // A vertex beyond the last one is one of a server's own.
    assert_eq!(a.edit(6, &set(0), MAX), Outcome::Done(1));
    assert_eq!((a.vertices(), a.owner(7)), (7, Some(B)));
    assert_eq!(a.row(4).map(|row| row.targets.len()), Some(0), "no server has given it edges");
    let bad = Change::Set { to: 1, weight: 2.0, label: 0 };
    assert_eq!(a.edit(0, &bad, MAX), Outcome::Refused(EditFault::Weight));
    let bad = Change::Set { to: 1, weight: 1.0, label: 1 };
    assert_eq!(a.edit(0, &bad, MAX), Outcome::Refused(EditFault::Label));
    let to_nobody = Change::Move { to: 2 };
    assert_eq!(a.edit(0, &to_nobody, MAX), Outcome::Refused(EditFault::NoSuchServer));
    let room = a.changed_bytes();
    assert_eq!(a.edit(1, &set(3), room), Outcome::Refused(EditFault::Full));
    assert_eq!(a.edit(0, &Change::Clear, room), Outcome::Done(3), "what shrinks has room");
}

#[test]
fn rows_whose_weights_are_not_known_stay_as_they_are() {
    let graph = Graph::from_edges(2, [(0, 1)]).unwrap().with_weights(&[2.0]).unwrap();
    let graph = Arc::new(graph);
    let part = super::super::Part::new(A, graph, owners(&[0, 0]));
    let heavy = Change::Set { to: 1, weight: 3.0, label: 0 };
    assert_eq!(part.clone().edit(0, &heavy, MAX), Outcome::Refused(EditFault::Fixed));
    let mut part = part.with_weights(Arc::new(vec![2.0]));
    assert_eq!(part.edit(0, &heavy, MAX), Outcome::Done(1));
    let negative = Change::Set { to: 1, weight: -1.0, label: 0 };
    assert_eq!(part.edit(0, &negative, MAX), Outcome::Refused(EditFault::Weight));
}

/// Moves a vertex of the first to the second.
fn hand_over(from: &mut super::super::Part, to: &mut super::super::Part, vertex: Vertex) {
    let (giver, taker) = if from.owner(vertex) == Some(A) { (A, 1) } else { (B, 0) };
    assert_eq!(from.edit(vertex, &Change::Move { to: taker }, MAX), Outcome::Busy);
    let (receiver, given) = from.given(vertex).expect("it is on its way");
    let reception = to.install(giver, given, MAX);
    from.on_reception(receiver, vertex, reception);
}

#[test]
fn a_vertex_moves_with_its_row_and_is_nowhere_twice_for_long() {
    let (mut a, mut b) = parts();
    a.edit(1, &set(3), MAX);
    assert_eq!(a.edit(1, &Change::Move { to: 1 }, MAX), Outcome::Busy);
    assert_eq!(a.edit(1, &set(0), MAX), Outcome::Busy, "a row on its way stays as it is");
    assert!(a.row(1).is_some(), "walks go on over it");
    let (to, given) = a.given(1).unwrap();
    assert_eq!((to, given.epoch, given.version), (B, 1, 1));
    assert_eq!(b.install(A, given.clone(), MAX), Reception::Taken(1));
    assert_eq!(b.install(A, given, MAX), Reception::Taken(1), "it was told once more");
    a.on_reception(B, 1, Reception::Taken(1));
    assert!(a.row(1).is_none() && a.given(1).is_none());
    assert_eq!(a.edit(1, &set(0), MAX), Outcome::Elsewhere(B, 1));
    assert_eq!(b.row(1).map(|row| row.targets.to_vec()), Some(vec![0, 2, 3]));
    assert_eq!(b.edit(1, &Change::Cut { to: 3 }, MAX), Outcome::Done(2));
    hand_over(&mut b, &mut a, 1);
    assert_eq!((a.version(1), a.epoch(1), b.owner(1)), (2, 2, Some(A)));
    // A late answer to an earlier move changes nothing.
    b.on_reception(A, 1, Reception::Taken(1));
    a.learn(1, B, 1, MAX);
    b.learn(1, B, 9, MAX);
    assert_eq!((a.owner(1), b.owner(1)), (Some(A), Some(A)));
}

#[test]
fn who_has_begun_anew_learns_how_often_a_vertex_has_moved() {
    let (mut a, mut b) = parts();
    hand_over(&mut a, &mut b, 0);
    hand_over(&mut b, &mut a, 0);
    // A client that does not know of the moves gives it its part again.
    let (mut a, _) = parts();
    assert_eq!(a.edit(0, &Change::Move { to: 1 }, MAX), Outcome::Busy);
    let (_, given) = a.given(0).unwrap();
    let reception = b.install(A, given, MAX);
    assert_eq!(reception, Reception::Moves(2));
    a.on_reception(B, 0, reception);
    let (_, given) = a.given(0).unwrap();
    assert_eq!(b.install(A, given, MAX), Reception::Taken(3));
    let (mut a, mut b) = parts();
    a.edit(0, &Change::Move { to: 1 }, MAX);
    let (_, mut given) = a.given(0).unwrap();
    given.row = OwnRow::of(&[3, 1], None, None);
    assert_eq!(b.install(A, given, MAX), Reception::Refused, "a row out of order");
    a.on_reception(B, 0, Reception::Refused);
    assert_eq!(a.edit(0, &set(3), MAX), Outcome::Done(1), "it stays");
}

pub(super) fn plan(id: u64) -> Plan {
    let servers = vec![(A, Bytes::new()), (B, Bytes::from_static(b"b"))];
    Plan { id, vertices: 3, is_weighted: false, is_labelled: false, servers, pass: None }
}

/// 0 -> 1, 2; 2 -> 0: the rows of server A.
pub(super) fn chunk() -> Chunk {
    Chunk { owners: vec![0, 1, 0], degrees: vec![2, 1], targets: vec![1, 2, 0], ..Chunk::default() }
}

fn say(bench: &mut Bench, plan: u64, upkeep: Upkeep) -> Vec<Upkeep> {
    bench.receive(Message::Upkeep(plan, Box::new(upkeep)));
    let said = |(_, message)| match message {
        Message::Upkeep(_, upkeep) => Some(*upkeep),
        _ => None,
    };
    bench.sent().into_iter().filter_map(said).collect()
}

pub(super) fn held(bench: &mut Bench, plan: u64, upkeep: Upkeep) -> Holding {
    match &say(bench, plan, upkeep)[..] {
        [Upkeep::Held(holding)] => *holding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_part_comes_in_pieces_of_any_size_and_none_counts_twice() {
    let mut bench = Bench::awaiting(Config::default());
    assert_eq!(held(&mut bench, 5, Upkeep::Ask), Holding::Other(0));
    let start = Position::default();
    let open = Upkeep::Open(Opening { plan: plan(5), replaces: false });
    assert_eq!(held(&mut bench, 5, open.clone()), Holding::Until(start));
    assert_eq!(bench.outbox.contacts, [(B, Bytes::from_static(b"b"))]);
    let first = Chunk {
        owners: vec![0],
        degrees: vec![1],
        is_cut: true,
        targets: vec![1],
        ..Chunk::default()
    };
    let middle = Position { vertex: 0, edge: 1 };
    assert_eq!(held(&mut bench, 5, Upkeep::Chunk(first.clone())), Holding::Until(middle));
    assert_eq!(held(&mut bench, 5, Upkeep::Chunk(first)), Holding::Until(middle));
    assert_eq!(bench.count("walk_chunk_misplaced"), 1);
    assert_eq!(held(&mut bench, 5, open), Holding::Until(middle), "it goes on where it was");
    let rest = Chunk { from: middle, degrees: vec![1, 1], targets: vec![2, 0], ..chunk() };
    assert_eq!(held(&mut bench, 5, Upkeep::Chunk(rest)), Holding::Whole);
    let part = bench.server.part();
    assert_eq!(part.row(0).map(|row| row.targets.to_vec()), Some(vec![1, 2]));
    assert_eq!(part.row(2).map(|row| row.targets.to_vec()), Some(vec![0]));
    assert!(part.row(1).is_none() && part.owner(1) == Some(B));
    // Another graph replaces it only on request.
    assert_eq!(
        held(&mut bench, 6, Upkeep::Open(Opening { plan: plan(6), replaces: false })),
        Holding::Other(5)
    );
    assert_eq!(
        held(&mut bench, 6, Upkeep::Open(Opening { plan: plan(6), replaces: true })),
        Holding::Until(start)
    );
    assert_eq!(held(&mut bench, 5, Upkeep::Ask), Holding::Whole, "until it is whole");
    assert_eq!(held(&mut bench, 6, Upkeep::Chunk(chunk())), Holding::Whole);
    assert_eq!(held(&mut bench, 5, Upkeep::Ask), Holding::Other(6));
}

#[test]
fn pieces_that_do_not_fit_and_plans_that_cannot_be_are_refused() {
    let wrong: [fn(&mut Chunk); 9] = [
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
        held(&mut bench, 5, Upkeep::Open(Opening { plan: plan(5), replaces: false }));
        let mut bad = chunk();
        spoil(&mut bad);
        assert_eq!(held(&mut bench, 5, Upkeep::Chunk(bad)), Holding::Refused, "{place}");
        assert_eq!(held(&mut bench, 5, Upkeep::Ask), Holding::Other(0), "{place}");
    }
    let mut bench = Bench::awaiting(Config { graph_bytes_max: 40, ..Config::default() });
    held(&mut bench, 5, Upkeep::Open(Opening { plan: plan(5), replaces: false }));
    assert_eq!(held(&mut bench, 5, Upkeep::Chunk(chunk())), Holding::Refused, "no room");
    let without_it = Plan { servers: vec![(B, Bytes::new())], ..plan(5) };
    assert_eq!(
        held(&mut bench, 5, Upkeep::Open(Opening { plan: without_it, replaces: false })),
        Holding::Refused
    );
    let twice = Plan { servers: vec![(A, Bytes::new()); 2], ..plan(5) };
    assert_eq!(
        held(&mut bench, 5, Upkeep::Open(Opening { plan: twice, replaces: false })),
        Holding::Refused
    );
    // A server that had its part from the start takes no other.
    let mut fixed = Bench::new(Config::default(), &kite(), &[0; 4]);
    assert_eq!(
        held(&mut fixed, 5, Upkeep::Open(Opening { plan: plan(5), replaces: true })),
        Holding::Refused
    );
    assert_eq!(say(&mut fixed, 0, Upkeep::Who), []);
    let edits = Upkeep::Edits(1, vec![(0, Change::Clear)]);
    assert_eq!(held(&mut fixed, 0, edits), Holding::Whole, "and none of its rows changes");
    assert_eq!(fixed.server.part().row(0).map(|row| row.targets.len()), Some(2));
}

#[test]
fn edits_that_are_asked_for_twice_are_made_once_and_a_stranger_moves_nothing() {
    let mut bench = Bench::awaiting(Config::default());
    held(&mut bench, 5, Upkeep::Open(Opening { plan: plan(5), replaces: false }));
    held(&mut bench, 5, Upkeep::Chunk(chunk()));
    let edits = vec![(0, set(0)), (1, set(0)), (2, Change::Move { to: 1 })];
    let done = vec![Outcome::Done(1), Outcome::Elsewhere(B, 0), Outcome::Busy];
    let said = say(&mut bench, 5, Upkeep::Edits(9, edits.clone()));
    let given = Given { vertex: 2, epoch: 1, version: 0, row: OwnRow::of(&[0], None, None) };
    assert_eq!(said, [Upkeep::Give(given.clone()), Upkeep::Edited(9, done.clone())]);
    let again = say(&mut bench, 5, Upkeep::Edits(9, edits));
    assert_eq!(again, [Upkeep::Edited(9, done)], "the first answer got lost");
    // No server acknowledges the vertex: it is sent again.
    bench.until(Duration::from_secs(3));
    let again = bench.sent().into_iter().filter(|(to, _)| *to == B).count();
    assert!((1..=3).contains(&again), "{again}");
    let before = bench.server.part().clone();
    bench.receive_from(NodeId(7), Message::Upkeep(5, Box::new(Upkeep::Give(given))));
    let taken = Upkeep::Received(2, Reception::Taken(1));
    bench.receive_from(NodeId(7), Message::Upkeep(5, Box::new(taken.clone())));
    bench.receive_from(NodeId(7), Message::Upkeep(5, Box::new(Upkeep::Moved(vec![(0, B, 9)]))));
    assert_eq!(bench.count("walk_upkeep_refused"), 3);
    assert_eq!(bench.server.part().owner(2), before.owner(2));
    assert_eq!(say(&mut bench, 5, taken), []);
    assert_eq!(bench.server.part().owner(2), Some(B));
}

#[test]
fn walkers_over_another_graph_are_turned_away_and_their_home_hears_of_it() {
    let mut bench = Bench::awaiting(Config::default());
    held(&mut bench, 5, Upkeep::Open(Opening { plan: plan(5), replaces: false }));
    held(&mut bench, 5, Upkeep::Chunk(chunk()));
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
    let told = Message::Upkeep(6, Box::new(Upkeep::Held(Holding::Other(5))));
    assert_eq!(bench.sent(), [(home, told)]);
    assert_eq!(bench.server.census().refused, 1);
    bench.receive(walkers(head(5)));
    assert_eq!(bench.server.queue_len(), 1);
    // A graph that takes this one's place takes the walkers over it along.
    held(&mut bench, 6, Upkeep::Open(Opening { plan: plan(6), replaces: true }));
    held(&mut bench, 6, Upkeep::Chunk(chunk()));
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
        let before = Plan { pass: Some(PassConfig::default()), ..plan(4) };
        held(&mut bench, 4, Upkeep::Open(Opening { plan: before, replaces: false }));
        assert_eq!(held(&mut bench, 4, Upkeep::Chunk(chunk())), Holding::Whole);
        held(
            &mut bench,
            5,
            Upkeep::Open(Opening { plan: Plan { pass, ..plan(5) }, replaces: true }),
        );
        assert_eq!(held(&mut bench, 5, Upkeep::Chunk(chunk())), Holding::Whole);
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
