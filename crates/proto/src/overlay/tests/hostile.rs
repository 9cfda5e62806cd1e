//! Answers that are wrong on purpose.

use super::*;

for_each_router!(absurd_answers_do_no_harm, a_stranger_in_every_answer_is_not_taken_in);

fn absurd_answers_do_no_harm<R: Checked>() {
    for count in [1, 2, 3, 40] {
        let mut net = Net::<R>::joined(21, count);
        for node in (0..count).map(NodeId::from) {
            let key = net.space.key(node);
            let other = NodeId((node.0 + 1) % u64::from(count));
            let lists: [Vec<NodeId>; 6] = [
                vec![],
                vec![node],
                vec![node; 40],
                vec![other; 40],
                vec![other, node, other, node],
                (0..500).map(|n| NodeId::from((n * 7919) % count.max(2))).collect(),
            ];
            let queries =
                [TableQuery::Neighbours, TableQuery::Row(0, key), TableQuery::Row(255, key)]
                    .into_iter()
                    .chain(
                        [key, Key::ZERO, Key::MAX, key.shifted_left(1)].map(TableQuery::Nearest),
                    );
            for query in queries {
                for list in &lists {
                    for from in [other, node, NodeId::from(count)] {
                        let router = net.nodes.get_mut(&node).expect("one of them");
                        let mut out = Vec::new();
                        router.on_answer(from, query, list, &mut out);
                        router.on_found(key, from, &mut out);
                        router.on_found(Key::MAX, from, &mut out);
                        router.on_notify(node, &mut out);
                        router.learn(node);
                        router.check_form(net.space, node);
                        for action in &out {
                            if let RouterAction::Ask(whom, _) | RouterAction::Notify(whom) = action
                            {
                                assert_ne!(*whom, node, "{} asks itself", R::ALGORITHM);
                            }
                        }
                        let mut nodes = Vec::new();
                        router.answer_query(query, &mut nodes);
                    }
                }
            }
        }
        net.settle(3 * TURNS);
        net.check(50);
    }
}

fn a_stranger_in_every_answer_is_not_taken_in<R: Checked>() {
    let mut net = Net::<R>::joined(22, 40);
    // No node ever heard from these.
    let strangers: Vec<NodeId> = (1000..1100).map(NodeId).collect();
    for node in (0..40).map(NodeId) {
        let key = net.space.key(node);
        for query in [TableQuery::Neighbours, TableQuery::Row(0, key), TableQuery::Nearest(key)] {
            let from = NodeId((node.0 + 1) % 40);
            let mut out = Vec::new();
            net.nodes
                .get_mut(&node)
                .expect("one of them")
                .on_answer(from, query, &strangers, &mut out);
            net.work(node, out);
        }
    }
    net.settle(3 * TURNS);
    net.check(50);
    for router in net.nodes.values() {
        let mut contacts = Vec::new();
        router.contacts(&mut contacts);
        assert!(contacts.iter().all(|node| node.0 < 40), "{} {contacts:?}", R::ALGORITHM);
    }
}

#[test]
fn a_koorde_walk_with_no_fewer_bits_left_is_no_progress() {
    let space = Space::new(3);
    let (from, to, key) = (space.key(NodeId(1)), space.key(NodeId(2)), space.key(NodeId(3)));
    let walk = |left, side| KoordeWalk::Imaginary { prefix: 0, left, side };
    let came = walk(5, Side::Ahead);
    let koorde = Koorde::new(space, NodeId(1), Shape::default());
    let advances = |from: (Key, KoordeWalk), to: (Key, KoordeWalk)| {
        koorde.advances(key, (from.0, Walk::Koorde(from.1)), (to.0, Walk::Koorde(to.1)))
    };
    let goes = |walk| advances((from, came), (to, walk));
    assert!(goes(walk(4, Side::Ahead)) && goes(walk(4, Side::Behind)) && goes(KoordeWalk::Last));
    assert!(
        !goes(walk(6, Side::Ahead)) && !goes(walk(5, Side::Behind)) && !goes(KoordeWalk::Start)
    );
    // With as many bits left the next node has to be nearer to the imaginary node.
    let imaginary = key.shifted_right(5);
    let is_nearer = to.clockwise_to(imaginary) < from.clockwise_to(imaginary);
    assert_eq!(goes(came), is_nearer);
    assert!(!advances((from, came), (from, came)), "it stands still");
    let last = |from, to| advances((from, KoordeWalk::Last), (to, KoordeWalk::Last));
    assert_ne!(last(from, to), last(to, from));
    assert!(!advances((from, KoordeWalk::Last), (to, came)));
}
