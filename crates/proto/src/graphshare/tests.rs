//! Rows that change and vertices that move, one by one.

use std::sync::Arc;

use super::*;

const A: NodeId = NodeId(0);
const B: NodeId = NodeId(1);
const MAX: usize = usize::MAX;

/// A triangle 0-1-2 with a tail 2-3, both ways.
fn kite() -> Graph {
    let ways = [(0, 1), (1, 2), (0, 2), (2, 3)];
    Graph::from_edges(4, ways.iter().flat_map(|&(a, b)| [(a, b), (b, a)])).unwrap()
}

fn owners(of: &[u16]) -> Arc<Owners> {
    Arc::new(Owners::new(vec![A, B], of.to_vec()).expect("two servers"))
}

/// Two servers' parts of the kite, each with its view of the other's.
fn parts() -> (Part, Part) {
    let part = |me| Part::new(me, Arc::new(kite()), owners(&[0, 0, 1, 1]));
    (part(A), part(B))
}

fn set(to: Vertex) -> VertexChange {
    VertexChange::Set { to, weight: 1.0, label: 0 }
}

#[test]
fn a_row_keeps_its_order_and_says_whether_it_has_changed() {
    let mut row = OwnRow::of(&[1, 3, 3], Some(&[1.0, 2.0, 3.0]), Some(&[0, 1, 4]));
    let edge = |to, weight, label| VertexChange::Set { to, weight, label };
    assert!(row.apply(&edge(3, 9.0, 2)), "another label is another edge");
    assert_eq!((row.targets(), row.labels()), (&[1, 3, 3, 3][..], Some(&[0, 1, 2, 4][..])));
    assert!(!row.apply(&edge(3, 9.0, 2)), "it is there");
    assert!(row.apply(&edge(3, 8.0, 2)), "its weight is another");
    assert_eq!(row.weights(), Some(&[1.0, 2.0, 8.0, 3.0][..]));
    assert!(row.apply(&edge(0, 0.0, 0)));
    assert_eq!(row.row().aliases.map(<[_]>::len), Some(5));
    assert!(row.apply(&VertexChange::Cut { to: 3 }) && !row.apply(&VertexChange::Cut { to: 3 }));
    assert_eq!((row.targets(), row.weights()), (&[0, 1][..], Some(&[0.0, 1.0][..])));
    assert!(row.apply(&VertexChange::Clear) && !row.apply(&VertexChange::Clear));
    assert_eq!(row.row().aliases, Some(&[][..]));
    let mut plain = OwnRow::new(false, false);
    assert!(plain.apply(&set(5)) && !plain.apply(&set(5)));
    assert!(plain.has(false, false) && !plain.has(true, false));
}

#[test]
fn versions_count_changes_and_others_are_told_who_has_a_vertex() {
    let (mut a, _) = parts();
    assert_eq!(a.edit(0, &set(3), MAX), EditOutcome::Done(1));
    assert_eq!(a.edit(0, &set(3), MAX), EditOutcome::Done(1), "nothing was to be done");
    assert_eq!(a.row(0).map(|row| row.targets.to_vec()), Some(vec![1, 2, 3]));
    assert_eq!(a.edit(0, &VertexChange::Cut { to: 1 }, MAX), EditOutcome::Done(2));
    assert_eq!(a.edit(2, &set(0), MAX), EditOutcome::Elsewhere(B, 0));
    // A vertex beyond the last one is one of a server's own.
    assert_eq!(a.edit(6, &set(0), MAX), EditOutcome::Done(1));
    assert_eq!((a.vertices(), a.owner(7)), (7, Some(B)));
    assert_eq!(a.row(4).map(|row| row.targets.len()), Some(0), "no server has given it edges");
    let bad = VertexChange::Set { to: 1, weight: 2.0, label: 0 };
    assert_eq!(a.edit(0, &bad, MAX), EditOutcome::Refused(EditFault::Weight));
    let bad = VertexChange::Set { to: 1, weight: 1.0, label: 1 };
    assert_eq!(a.edit(0, &bad, MAX), EditOutcome::Refused(EditFault::Label));
    let to_nobody = VertexChange::Move { to: 2 };
    assert_eq!(a.edit(0, &to_nobody, MAX), EditOutcome::Refused(EditFault::NoSuchServer));
    let room = a.changed_bytes();
    assert_eq!(a.edit(1, &set(3), room), EditOutcome::Refused(EditFault::Full));
    assert_eq!(
        a.edit(0, &VertexChange::Clear, room),
        EditOutcome::Done(3),
        "what shrinks has room"
    );
}

#[test]
fn rows_whose_weights_are_not_known_stay_as_they_are() {
    let graph = Graph::from_edges(2, [(0, 1)]).unwrap().with_weights(&[2.0]).unwrap();
    let graph = Arc::new(graph);
    let part = Part::new(A, graph, owners(&[0, 0]));
    let heavy = VertexChange::Set { to: 1, weight: 3.0, label: 0 };
    assert_eq!(part.clone().edit(0, &heavy, MAX), EditOutcome::Refused(EditFault::Fixed));
    let mut part = part.with_weights(Arc::new(vec![2.0]));
    assert_eq!(part.edit(0, &heavy, MAX), EditOutcome::Done(1));
    let negative = VertexChange::Set { to: 1, weight: -1.0, label: 0 };
    assert_eq!(part.edit(0, &negative, MAX), EditOutcome::Refused(EditFault::Weight));
}

/// Moves a vertex of the first to the second.
fn hand_over(from: &mut Part, to: &mut Part, vertex: Vertex) {
    let (giver, taker) = if from.owner(vertex) == Some(A) { (A, 1) } else { (B, 0) };
    assert_eq!(from.edit(vertex, &VertexChange::Move { to: taker }, MAX), EditOutcome::Busy);
    let (receiver, given) = from.transfer_of(vertex).expect("it is on its way");
    let reception = to.install(giver, given, MAX);
    from.on_reply(receiver, vertex, reception);
}

#[test]
fn a_vertex_moves_with_its_row_and_is_nowhere_twice_for_long() {
    let (mut a, mut b) = parts();
    a.edit(1, &set(3), MAX);
    assert_eq!(a.edit(1, &VertexChange::Move { to: 1 }, MAX), EditOutcome::Busy);
    assert_eq!(a.edit(1, &set(0), MAX), EditOutcome::Busy, "a row on its way stays as it is");
    assert!(a.row(1).is_some(), "walks go on over it");
    let (to, given) = a.transfer_of(1).unwrap();
    assert_eq!((to, given.epoch, given.version), (B, 1, 1));
    assert_eq!(b.install(A, given.clone(), MAX), TransferReply::Taken(1));
    assert_eq!(b.install(A, given, MAX), TransferReply::Taken(1), "the transfer was repeated");
    a.on_reply(B, 1, TransferReply::Taken(1));
    assert!(a.row(1).is_none() && a.transfer_of(1).is_none());
    assert_eq!(a.edit(1, &set(0), MAX), EditOutcome::Elsewhere(B, 1));
    assert_eq!(b.row(1).map(|row| row.targets.to_vec()), Some(vec![0, 2, 3]));
    assert_eq!(b.edit(1, &VertexChange::Cut { to: 3 }, MAX), EditOutcome::Done(2));
    hand_over(&mut b, &mut a, 1);
    assert_eq!((a.version(1), a.epoch(1), b.owner(1)), (2, 2, Some(A)));
    // A late answer to an earlier move changes nothing.
    b.on_reply(A, 1, TransferReply::Taken(1));
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
    assert_eq!(a.edit(0, &VertexChange::Move { to: 1 }, MAX), EditOutcome::Busy);
    let (_, given) = a.transfer_of(0).unwrap();
    let reception = b.install(A, given, MAX);
    assert_eq!(reception, TransferReply::Moves(2));
    a.on_reply(B, 0, reception);
    let (_, given) = a.transfer_of(0).unwrap();
    assert_eq!(b.install(A, given, MAX), TransferReply::Taken(3));
    let (mut a, mut b) = parts();
    a.edit(0, &VertexChange::Move { to: 1 }, MAX);
    let (_, mut given) = a.transfer_of(0).unwrap();
    given.row = OwnRow::of(&[3, 1], None, None);
    assert_eq!(b.install(A, given, MAX), TransferReply::Refused, "a row out of order");
    a.on_reply(B, 0, TransferReply::Refused);
    assert_eq!(a.edit(0, &set(3), MAX), EditOutcome::Done(1), "it stays");
}
