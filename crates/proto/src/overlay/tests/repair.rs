//! Tables recover after nodes join, and after nodes crash.

use super::*;

for_each_router!(
    crashes_of_a_third_are_repaired,
    settled_tables_say_what_ideal_ones_do,
    those_that_join_later_are_found,
    a_table_settles_and_then_stays,
    one_of_two_is_left_alone,
    founder_and_joiners_at_once,
    whatever_comes_and_goes_tables_are_right_in_the_end,
);

fn dead<R: Checked>(net: &Net<R>) -> usize {
    let contacts = |router: &R| {
        let mut contacts = Vec::new();
        router.contacts(&mut contacts);
        contacts
    };
    let gone = |node: &NodeId| !net.nodes.contains_key(node);
    net.nodes.values().map(|router| contacts(router).iter().filter(|node| gone(node)).count()).sum()
}

fn crashes_of_a_third_are_repaired<R: Checked>() {
    for seed in 1..3 {
        let mut net = Net::<R>::ideal(seed, 120);
        net.crash_a_third();
        assert!(dead(&net) > 0);
        net.settle(3 * TURNS);
        assert_eq!(dead(&net), 0, "{}", R::ALGORITHM);
        net.check(20);
    }
}

fn settled_tables_say_what_ideal_ones_do<R: Checked>() {
    for count in [1, 2, 8, 9, 10, 90] {
        let mut net = Net::<R>::joined(15, count);
        let oracle = net.oracle();
        for (&node, router) in &net.nodes {
            let mut ideal = R::new(net.space, node, Shape::default());
            ideal.fill(oracle.ring());
            router.check_same(&ideal, net.space, node);
        }
        net.nodes.remove(&NodeId(0));
        (100..100 + count / 3).for_each(|node| net.join(NodeId::from(node)));
        net.settle(3 * TURNS);
        let oracle = net.oracle();
        for (&node, router) in &net.nodes {
            let mut ideal = R::new(net.space, node, Shape::default());
            ideal.fill(oracle.ring());
            router.check_same(&ideal, net.space, node);
        }
    }
}

fn those_that_join_later_are_found<R: Checked>() {
    let mut net = Net::<R>::ideal(11, 100);
    (100..150).for_each(|node| net.join(NodeId(node)));
    net.settle(TURNS);
    net.check(20);
    net.crash_a_third();
    (200..240).for_each(|node| net.join(NodeId(node)));
    net.settle(3 * TURNS);
    net.check(20);
}

fn a_table_settles_and_then_stays<R: Checked>() {
    let mut net = Net::<R>::joined(12, 40);
    net.settle(3 * TURNS);
    let contacts = |net: &Net<R>| {
        net.nodes.values().fold(Vec::new(), |mut all, router| {
            let mut contacts = Vec::new();
            router.contacts(&mut contacts);
            contacts.sort_unstable();
            all.push(contacts);
            all
        })
    };
    let before = contacts(&net);
    net.settle(TURNS);
    assert_eq!(contacts(&net), before);
}

fn one_of_two_is_left_alone<R: Checked>() {
    let mut net = Net::<R>::joined(13, 2);
    net.check(50);
    net.nodes.remove(&NodeId(0));
    net.settle(4);
    net.check(50);
    let mut contacts = Vec::new();
    net.nodes[&NodeId(1)].contacts(&mut contacts);
    assert_eq!(contacts, []);
    net.join(NodeId(5));
    net.settle(8);
    net.check(50);
}

fn founder_and_joiners_at_once<R: Checked>() {
    // All of them know the founder before any of them has joined.
    let mut net = Net::<R>::new(14);
    net.join(NodeId(0));
    for node in (1..30).map(NodeId) {
        let mut router = R::new(net.space, node, Shape::default());
        let mut out = Vec::new();
        router.on_found(net.space.key(node), NodeId(0), &mut out);
        net.nodes.insert(node, router);
        net.work(node, out);
    }
    net.settle(3 * TURNS);
    net.check(50);
}

fn whatever_comes_and_goes_tables_are_right_in_the_end<R: Checked>() {
    for seed in 100..112 {
        let mut net = Net::<R>::joined(seed, 1 + seed as u32 % 24);
        let mut next = 100;
        for _ in 0..seed % 7 {
            for _ in 0..4 {
                net.join(NodeId(next));
                next += 1;
            }
            if net.nodes.len() > 20 {
                net.crash_a_third();
            }
            net.settle(seed % 3);
        }
        net.settle(3 * TURNS);
        net.check(30);
        assert_eq!(dead(&net), 0, "{} {seed}", R::ALGORITHM);
    }
}
