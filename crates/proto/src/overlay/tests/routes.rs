//! Routes lead to the nodes that the oracle names, and steps are valid up to their `until`.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

for_each_router!(
    ideal_tables_route_like_the_oracle,
    joined_tables_route_like_the_oracle,
    oracle_names_those_at_the_least_distance,
    replicas_are_those_of_the_oracle,
    every_key_up_to_until_takes_the_same_hop,
    a_step_holds_for_many_keys,
    candidates_begin_with_the_next_hop,
    no_node_is_twice_on_a_path,
    contacts_are_each_named_once,
);

const SIZES: [u32; 6] = [1, 2, 3, 9, 17, 200];

fn ideal_tables_route_like_the_oracle<R: Checked>() {
    for (seed, count) in (1..).zip(SIZES) {
        Net::<R>::ideal(seed, count).check(200.min(4000 / count as usize));
    }
    Net::<R>::ideal(9, 1000).check(10);
}

fn joined_tables_route_like_the_oracle<R: Checked>() {
    for (seed, count) in (1..).zip(SIZES) {
        let mut net = Net::<R>::joined(seed, count);
        net.check(200.min(4000 / count as usize));
        let keys: Vec<Key> = net.nodes.keys().map(|&node| net.space.key(node)).collect();
        let oracle = net.oracle();
        for (number, key) in keys.into_iter().enumerate() {
            for key in [key - Key::from(1), key, key + Key::from(1)] {
                net.check_route(&oracle, NodeId::from(number as u32 * 7 % count), key);
            }
        }
        for key in [Key::ZERO, Key::MAX] {
            net.check_route(&oracle, NodeId(0), key);
        }
    }
}

fn oracle_names_those_at_the_least_distance<R: Checked>() {
    for count in [0, 1, 2, 5, 30, 700] {
        let mut net = Net::<R>::new(count);
        let mut oracle = Oracle::new(net.space, (1..count).map(NodeId));
        if count > 0 {
            oracle.insert(net.space, NodeId(0));
            oracle.insert(net.space, NodeId(count));
            oracle.remove(net.space, NodeId(count));
        }
        for number in 0..200 {
            let mut key = net.key();
            if number % 3 == 0 && count > 0 {
                key = net.space.key(NodeId(number % count)) + Key::from(number % 2);
            }
            let mut all: Vec<NodeId> = (0..count).map(NodeId).collect();
            all.sort_by_key(|&node| R::ALGORITHM.distance(key, net.space.key(node)));
            all.truncate(4);
            assert_eq!(oracle.holders(R::ALGORITHM, key, 4), all, "{key} of {count}");
        }
    }
}

fn replicas_are_those_of_the_oracle<R: Checked>() {
    for count in [1, 2, 3, 17, 200] {
        for mut net in [Net::<R>::ideal(3, count), Net::<R>::joined(4, count)] {
            let oracle = net.oracle();
            for _ in 0..2000 {
                let key = net.key();
                let holders = oracle.holders(R::ALGORITHM, key, 4);
                let mut replicas = Vec::new();
                net.nodes[&holders[0]].replicas(key, 4, &mut replicas);
                assert_eq!(replicas, holders, "{} of {count} for {key}", R::ALGORITHM);
            }
        }
    }
}

fn every_key_up_to_until_takes_the_same_hop<R: Checked>() {
    let config = Config { cases: 96, failure_persistence: None, ..Config::default() };
    let about = (1u32..300, any::<u64>(), any::<bool>(), any::<[u8; 20]>(), any::<[u8; 20]>());
    let claim = |(count, seed, has_crashes, key, within): (u32, u64, bool, [u8; 20], [u8; 20])| {
        let mut net = Net::<R>::ideal(seed, count);
        let all: Vec<NodeId> = net.nodes.keys().copied().collect();
        if has_crashes {
            // Tables that are not right make true claims about themselves as well.
            net.crash_a_third();
            net.settle(1);
        }
        let (key, within) = (Key::from_bytes(key), Key::from_bytes(within));
        // On its way from here, and as it arrives one hop on.
        for router in net.nodes.values().take(16) {
            let mut before = R::ALGORITHM.first_walk();
            for _ in 0..2 {
                let mut walk = before;
                let step = router.next_hop(key, &mut walk);
                prop_assert!(step.until >= key);
                let room = step.until - key;
                let keys = (0..160).flat_map(|bits| {
                    let some = within.shifted_right(bits).min(room);
                    [key + some, step.until - some, key + room.shifted_right(bits)]
                });
                // Where something may change.
                let around = all.iter().map(|&node| net.space.key(node));
                let around = around.flat_map(|at| [at - Key::from(1), at, at + Key::from(1)]);
                for other in keys.chain(around).filter(|&at| at >= key && at <= step.until) {
                    let mut after = before;
                    let hop = router.next_hop(other, &mut after).hop;
                    prop_assert_eq!(hop, step.hop, "{} to {} at {}", key, step.until, other);
                    prop_assert!(hop == Hop::Here || after == walk, "{} at {}", key, other);
                }
                before = walk;
            }
        }
        Ok(())
    };
    if let Err(error) = TestRunner::new(config).run(&about, claim) {
        panic!("{}: {error}", R::ALGORITHM);
    }
}

fn a_step_holds_for_many_keys<R: Checked>() {
    // Look-ups of a sorted bundle of 100 keys, where one for each would be 100: of keys from all
    // of the space, and of keys from a thousandth of it.
    let mut net = Net::<R>::ideal(5, 1000);
    let [mut apart, mut beside] = [0; 2];
    for _ in 0..100 {
        let (node, base) = (net.any(), net.key());
        let keys: Vec<Key> = (0..100).map(|_| net.key()).collect();
        let near = keys.iter().map(|key| base + key.shifted_right(10)).collect();
        for (mut keys, looks) in [(keys, &mut apart), (near, &mut beside)] {
            keys.sort_unstable();
            let mut until = None;
            for key in keys {
                if until.is_none_or(|until| key > until) {
                    *looks += 1;
                    until =
                        Some(net.nodes[&node].next_hop(key, &mut R::ALGORITHM.first_walk()).until);
                }
            }
        }
    }
    let [apart, beside] = [apart, beside].map(|looks| f64::from(looks) / 100.0);
    println!("{}: {apart} looks a hundred keys, {beside} of neighbours", R::ALGORITHM);
    // Koorde's walks begin with as many bits of the key as tell a thousand nodes apart.
    assert!(apart < 65.0 || R::ALGORITHM == Algorithm::Koorde);
    assert!(beside < 10.0);
}

fn candidates_begin_with_the_next_hop<R: Checked>() {
    for count in [1, 2, 12, 300] {
        let mut net = Net::<R>::ideal(6, count);
        for _ in 0..2000 {
            let (key, node) = (net.key(), net.any());
            let router = &net.nodes[&node];
            let (mut walk, mut same) = (R::ALGORITHM.first_walk(), R::ALGORITHM.first_walk());
            for leg in 0..2 {
                let came = walk;
                let hop = router.next_hop(key, &mut walk).hop;
                let mut candidates = vec![node];
                router.candidates(key, &mut same, 3, &mut candidates);
                assert!(candidates.len() <= 4);
                assert_eq!(candidates.get(1).copied().map_or(Hop::Here, Hop::Via), hop);
                for (number, &one) in candidates.iter().enumerate().skip(1) {
                    assert!(
                        !candidates[..number].contains(&one),
                        "{} {candidates:?}",
                        R::ALGORITHM
                    );
                    let (from, to) = ((net.space.key(node), came), (net.space.key(one), same));
                    assert!(
                        router.advances(key, from, to),
                        "{} {leg} {candidates:?}",
                        R::ALGORITHM
                    );
                }
                if hop == Hop::Here {
                    break;
                }
                assert_eq!(walk, same);
                let mut none = Vec::new();
                router.candidates(key, &mut same.clone(), 0, &mut none);
                assert!(none.is_empty());
            }
        }
    }
}

fn no_node_is_twice_on_a_path<R: Checked>() {
    let mut net = Net::<R>::ideal(7, 300);
    for _ in 0..3000 {
        let (key, node) = (net.key(), net.any());
        let mut path = net.route(node, key).path;
        let len = path.len();
        path.sort_unstable();
        path.dedup();
        // A walk through a de Bruijn graph may cross itself; it is bounded by the bits shifted in.
        assert!(path.len() == len || R::ALGORITHM == Algorithm::Koorde && len < 40, "{path:?}");
    }
}

fn contacts_are_each_named_once<R: Checked>() {
    for count in [1, 2, 7, 300] {
        let net = Net::<R>::ideal(8, count);
        for (&node, router) in &net.nodes {
            let mut contacts = vec![node];
            router.contacts(&mut contacts);
            let len = contacts.len();
            contacts.sort_unstable();
            contacts.dedup();
            assert_eq!(contacts.len(), len);
            assert!(count == 1 || len > 1);
        }
    }
}

#[test]
fn tables_of_other_sizes_route_like_the_oracle() {
    fn check<R: Checked>(shape: Shape) -> f64 {
        let mut net = Net::<R>::new(11);
        let oracle = Oracle::new(net.space, (0..300).map(NodeId));
        for node in (0..300).map(NodeId) {
            let mut router = R::new(net.space, node, shape);
            router.fill(oracle.ring());
            net.nodes.insert(node, router);
        }
        // With some upkeep, which has to leave such tables as they are.
        net.settle(2);
        let mut hops = 0;
        for _ in 0..1000 {
            let (node, key) = (net.any(), net.key());
            hops += net.check_route(&oracle, node, key);
        }
        hops as f64 / 1000.0
    }
    let usual = Shape::default();
    for successors in [2, 16] {
        check::<Chord>(Shape { successors, ..usual });
        check::<Koorde>(Shape { successors, ..usual });
    }
    for leaf_set in [2, 32] {
        check::<Pastry>(Shape { leaf_set, ..usual });
    }
    let hops = [2, 8, 32].map(|bucket| check::<Kademlia>(Shape { bucket, ..usual }));
    assert!(hops[0] > hops[1] && hops[1] > hops[2], "larger buckets, shorter ways: {hops:?}");
    let hops = [2, 4, 8].map(|degree| check::<Koorde>(Shape { degree, ..usual }));
    assert!(hops[0] > hops[1] && hops[1] > hops[2], "more edges, shorter ways: {hops:?}");
    println!("hops of Koorde with degree 2, 4 and 8: {hops:?}");
}

#[test]
fn sizes_outside_of_their_ranges_are_refused() {
    let usual = Shape::default();
    for shape in [
        Shape { successors: 1, ..usual },
        Shape { successors: 17, ..usual },
        Shape { leaf_set: 7, ..usual },
        Shape { leaf_set: 34, ..usual },
        Shape { bucket: 0, ..usual },
        Shape { bucket: 33, ..usual },
        Shape { degree: 3, ..usual },
        Shape { degree: 16, ..usual },
    ] {
        let config = crate::overlay::Config::new(Space::new(1)).with_shape(shape);
        assert!(config.build().is_err(), "{shape:?}");
    }
    assert!(crate::overlay::Config::new(Space::new(1)).with_shape(usual).build().is_ok());
}
