use super::*;

for_each_router!(
    ideal_tables_route_like_the_oracle,
    joined_tables_route_like_the_oracle,
    oracle_names_those_at_the_least_distance,
    replicas_are_those_of_the_oracle,
    every_key_up_to_until_takes_the_same_hop,
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
                net.check_route(&oracle, NodeId(number as u32 * 7 % count), key);
            }
        }
        for key in [Key::ZERO, Key::MAX] {
            net.check_route(&oracle, NodeId(0), key);
        }
    }
}

fn oracle_names_those_at_the_least_distance<R: Checked>() {
    for count in [0, 1, 2, 5, 30, 700] {
        let mut net = Net::<R>::new(u64::from(count));
        let mut oracle = Oracle::new(net.space, (1..count).map(NodeId));
        if count > 0 {
            oracle.insert(net.space, NodeId(0));
            oracle.insert(net.space, NodeId(count));
            oracle.remove(net.space, NodeId(count));
        }
        for number in 0..200 {
            let mut key = net.key();
            if number % 3 == 0 && count > 0 {
                key = net.space.key(NodeId(number % count)) + Key::from(u64::from(number % 2));
            }
            let mut all: Vec<NodeId> = (0..count).map(NodeId).collect();
            all.sort_by_key(|&node| R::distance(key, net.space.key(node)));
            all.truncate(4);
            assert_eq!(oracle.holders::<R>(key, 4), all, "{key} of {count}");
        }
    }
}

fn replicas_are_those_of_the_oracle<R: Checked>() {
    for count in [1, 2, 3, 17, 200] {
        for mut net in [Net::<R>::ideal(3, count), Net::<R>::joined(4, count)] {
            let oracle = net.oracle();
            for _ in 0..2000 {
                let key = net.key();
                let holders = oracle.holders::<R>(key, 4);
                let mut replicas = Vec::new();
                net.nodes[&holders[0]].replicas(key, 4, &mut replicas);
                assert_eq!(replicas, holders, "{} of {count} for {key}", R::NAME);
            }
        }
    }
}

fn every_key_up_to_until_takes_the_same_hop<R: Checked>() {
    for count in [1, 2, 3, 12, 200, 1000] {
        let mut net = Net::<R>::ideal(5, count);
        if count == 12 {
            net = Net::<R>::joined(5, count);
            net.crash_a_third();
        }
        let mut wide = 0;
        for _ in 0..200 {
            let (key, node) = (net.key(), net.any());
            let router = &net.nodes[&node];
            // On its way from here, and as it arrives one hop on.
            let mut arrived = R::Walk::default();
            let mut walks = vec![(router, arrived)];
            if let Hop::Via(next) = router.next_hop(key, &mut arrived).hop {
                walks.extend(net.nodes.get(&next).map(|router| (router, arrived)));
                walks.push((router, arrived));
            }
            for (router, before) in walks {
                let mut walk = before;
                let step = router.next_hop(key, &mut walk);
                assert!(step.until >= key);
                let room = step.until - key;
                wide += u32::from(room > Key::ZERO);
                let far: Vec<Key> = (0..=160).map(|bits| room.shifted_right(bits)).collect();
                let contacts = net.nodes.keys().map(|&node| net.space.key(node));
                let edges = contacts.filter(|&at| at >= key && at <= step.until);
                let keys = far.iter().map(|&far| key + far).chain(edges);
                for other in keys.chain(far.iter().map(|&far| step.until - far)) {
                    let mut after = before;
                    let same = router.next_hop(other, &mut after);
                    assert_eq!(
                        same.hop,
                        step.hop,
                        "{} {key} to {} at {other}",
                        R::NAME,
                        step.until
                    );
                    if step.hop != Hop::Here {
                        assert_eq!(after, walk, "{} {key} at {other}", R::NAME);
                    }
                }
            }
        }
        assert!(wide > 0);
    }
}

fn candidates_begin_with_the_next_hop<R: Checked>() {
    for count in [1, 2, 12, 300] {
        let mut net = Net::<R>::ideal(6, count);
        for _ in 0..2000 {
            let (key, node) = (net.key(), net.any());
            let router = &net.nodes[&node];
            let (mut walk, mut same) = (R::Walk::default(), R::Walk::default());
            for leg in 0..2 {
                let came = walk;
                let hop = router.next_hop(key, &mut walk).hop;
                let mut candidates = vec![node];
                router.candidates(key, &mut same, 3, &mut candidates);
                assert!(candidates.len() <= 4);
                assert_eq!(candidates.get(1).copied().map_or(Hop::Here, Hop::Via), hop);
                for (number, &one) in candidates.iter().enumerate().skip(1) {
                    assert!(!candidates[..number].contains(&one), "{} {candidates:?}", R::NAME);
                    let old = R::remaining(net.space, node, key, came);
                    let new = R::remaining(net.space, one, key, same);
                    assert!(new < old, "{} {leg} {candidates:?}", R::NAME);
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
        assert!(path.len() == len || R::NAME == Koorde::NAME && len < 40, "{path:?}");
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
