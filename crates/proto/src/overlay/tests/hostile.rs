//! Answers that are wrong on purpose.

use super::*;

for_each_router!(absurd_answers_do_no_harm, a_stranger_in_every_answer_is_not_taken_in);

fn absurd_answers_do_no_harm<R: Checked>() {
    for count in [1, 2, 3, 40] {
        let mut net = Net::<R>::joined(21, count);
        for node in (0..count).map(NodeId) {
            let key = net.space.key(node);
            let other = NodeId((node.0 + 1) % count);
            let lists: [Vec<NodeId>; 6] = [
                vec![],
                vec![node],
                vec![node; 40],
                vec![other; 40],
                vec![other, node, other, node],
                (0..500).map(|n| NodeId((n * 7919) % count.max(2))).collect(),
            ];
            let topics = [Topic::Neighbours, Topic::Row(0, key), Topic::Row(255, key)]
                .into_iter()
                .chain([key, Key::ZERO, Key::MAX, key.shifted_left(1)].map(Topic::Nearest));
            for topic in topics {
                for list in &lists {
                    for from in [other, node, NodeId(count)] {
                        let router = net.nodes.get_mut(&node).expect("one of them");
                        let mut out = Vec::new();
                        router.told(from, topic, list, &mut out);
                        router.found(key, from, &mut out);
                        router.found(Key::MAX, from, &mut out);
                        router.notified(node, &mut out);
                        router.learn(node);
                        router.check_form(net.space, node);
                        for chore in &out {
                            if let Chore::Ask(whom, _) | Chore::Notify(whom) = chore {
                                assert_ne!(*whom, node, "{} asks itself", R::NAME);
                            }
                        }
                        let mut told = Vec::new();
                        router.tell(topic, &mut told);
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
    // Nobody ever heard from these.
    let strangers: Vec<NodeId> = (1000..1100).map(NodeId).collect();
    for node in (0..40).map(NodeId) {
        let key = net.space.key(node);
        for topic in [Topic::Neighbours, Topic::Row(0, key), Topic::Nearest(key)] {
            let from = NodeId((node.0 + 1) % 40);
            let mut out = Vec::new();
            net.nodes.get_mut(&node).expect("one of them").told(from, topic, &strangers, &mut out);
            net.work(node, out);
        }
    }
    net.settle(3 * TURNS);
    net.check(50);
    for router in net.nodes.values() {
        let mut contacts = Vec::new();
        router.contacts(&mut contacts);
        assert!(contacts.iter().all(|node| node.0 < 40), "{} {contacts:?}", R::NAME);
    }
}
