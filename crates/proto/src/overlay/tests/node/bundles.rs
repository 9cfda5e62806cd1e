//! Collective forwarding.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::super::bundle::{pieces, split};
use super::*;
use crate::core::PeerState;

/// Five routes of three hops: they share the first, then go three ways, then five.
const TREE: [(u32, &[u8], &[u32]); 6] = [
    (0, &[1, 2, 3, 4, 5], &[1]),
    (1, &[1, 2], &[2]),
    (1, &[3], &[3]),
    (1, &[4, 5], &[4]),
    (2, &[1], &[5]),
    (2, &[2], &[6]),
];
const TREE_REST: [(u32, &[u8], &[u32]); 3] = [(3, &[3], &[7]), (4, &[4], &[8]), (4, &[5], &[9])];

fn tree() -> Net {
    Net::new(config(), &[&TREE[..], &TREE_REST].concat())
}

fn keys() -> Vec<Key> {
    (1..=5).map(key).collect()
}

#[test]
fn fifteen_forwardings_become_nine() {
    let mut net = tree();
    net.request(0, 1, Operation::Locate(keys()), Style::Recursive);
    let routes: Vec<&String> = net.sent.iter().filter(|line| line.contains("route")).collect();
    let tree = [
        "n0 -> n1: route locate of n0 ttl 160: 01000000 02000000 03000000 04000000 05000000",
        "n1 -> n2: route locate of n0 ttl 159: 01000000 02000000",
        "n1 -> n3: route locate of n0 ttl 159: 03000000",
        "n1 -> n4: route locate of n0 ttl 159: 04000000 05000000",
        "n2 -> n5: route locate of n0 ttl 158: 01000000",
        "n2 -> n6: route locate of n0 ttl 158: 02000000",
        "n3 -> n7: route locate of n0 ttl 158: 03000000",
        "n4 -> n8: route locate of n0 ttl 158: 04000000",
        "n4 -> n9: route locate of n0 ttl 158: 05000000",
    ];
    assert_eq!(routes, tree);
    // An acknowledgement each hop, and a result from each node where targets end.
    assert_eq!((net.count("ack"), net.count("result"), net.sent.len()), (9, 5, 9 + 9 + 5));
    assert_eq!(net.counter("hops"), 15);
    let located: Vec<Outcome> = (5..10).map(|node| Outcome::Located(n(node))).collect();
    assert_eq!(net.outcomes().into_values().collect::<Vec<_>>(), located);

    let mut serial = super::bundles::tree();
    for (id, key) in (0..).zip(keys()) {
        serial.request(0, id, Operation::Locate(vec![key]), Style::Recursive);
    }
    assert_eq!((serial.count("route"), serial.count("ack"), serial.count("result")), (15, 15, 5));
}

#[test]
fn asking_each_hop_goes_the_same_ways() {
    let mut net = tree();
    net.request(0, 1, Operation::Locate(keys()), Style::Iterative);
    assert_eq!(net.sent[0], "n0 -> n1: find locate: 01000000 02000000 03000000 04000000 05000000");
    assert_eq!(net.sent[1], "n1 -> n0: found: 2 to n2 1 to n3 2 to n4");
    // Two messages an edge, and no result.
    assert_eq!((net.count("find"), net.count("found"), net.sent.len()), (9, 9, 18));
    assert_eq!(net.counter("hops"), 15);
    let located: Vec<Outcome> = (5..10).map(|node| Outcome::Located(n(node))).collect();
    assert_eq!(net.outcomes().into_values().collect::<Vec<_>>(), located);
}

#[test]
fn one_look_up_serves_all_targets_up_to_where_it_holds() {
    let mut net = Net::new(config(), &[(0, &[7], &[1])]);
    let mut keys = vec![key(7)];
    keys.extend((0..20u64).map(|low| key(7) + Key::from(low + 1)));
    net.request(0, 1, Operation::Locate(keys), Style::Recursive);
    assert_eq!(net.counter("lookups"), 2);
    assert_eq!(net.sent.len(), 3);
}

#[test]
fn a_put_goes_once_to_each_responsible_node() {
    for style in [Style::Recursive, Style::Iterative] {
        // Two ways lead to node 3.
        let ways: [(u32, &[u8], &[u32]); 4] =
            [(0, &[1], &[1]), (0, &[2], &[2]), (1, &[1], &[3]), (2, &[2], &[3])];
        let mut net = Net::new(config(), &ways);
        let items = vec![put(1, "one"), put(2, "two"), put(9, "mine")];
        net.request(0, 1, Operation::Put(items), style);
        assert_eq!(net.count("put: 01000000 02000000"), 1, "{:?}", net.sent);
        assert_eq!((net.count("put:"), net.count("put reply")), (1, 1));
        let stored = net.outcomes();
        assert!(stored.values().all(|outcome| *outcome == Outcome::Stored { copies: 1 }));
        net.request(0, 2, Operation::Get(vec![key(1), key(2), key(9), key(8)]), style);
        let mut found = net.outcomes();
        assert_eq!(found.remove(&key(8)), Some(Outcome::Absent));
        let values = [(1, "one"), (2, "two"), (9, "mine")];
        for (byte, text) in values {
            match found.remove(&key(byte)) {
                Some(Outcome::Found { value, .. }) => assert_eq!(value, Payload::from(text)),
                other => panic!("{byte}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_payload_is_delivered_once_where_its_keys_end() {
    for style in [Style::Recursive, Style::Iterative] {
        let mut net = tree();
        let payload = Payload::from("to all");
        net.request(0, 1, Operation::Send { keys: keys(), payload: payload.clone() }, style);
        let told: Vec<(NodeId, Event)> = net.events.clone();
        for (node, byte) in (5..10).zip(1..) {
            let (origin, keys) = (n(0), vec![key(byte)]);
            let delivered = Event::Delivered { origin, keys, payload: payload.clone() };
            let times = told.iter().filter(|it| **it == (n(node), delivered.clone())).count();
            assert_eq!(times, 1, "{style:?} {node}");
        }
        assert!(net.outcomes().values().all(|outcome| *outcome == Outcome::Delivered));
    }
}

/// A client that knows these members, outside of the tables.
fn visit(net: &mut Net, client: u32, members: &[u32]) {
    let mut node = Overlay::new(&net.config, n(client));
    node.router = Box::new(Scripted::new(n(client)));
    net.nodes.insert(n(client), node);
    let command = Command::Visit { address: Default::default() };
    net.call(n(client), |node, cx| node.handle_command(cx, command));
    for &member in members {
        let state = PeerState::Up { incarnation: 1 };
        net.call(n(client), |node, cx| node.handle_peer(cx, n(member), state));
    }
    net.deliver();
    net.events.clear();
}

#[test]
fn a_recursive_client_hands_over_its_bundle_and_is_in_no_table() {
    let ways: [(u32, &[u8], &[u32]); 2] = [(0, &[1, 2], &[1]), (1, &[2], &[2])];
    let config = config().with_ping(PingPolicy::Suppressed);
    let mut net = Net::new(config, &ways);
    // Node 0 has a full table: if it hears from a member, it pings node 2.
    for node in [0, 1, 2] {
        let mut router = net.table(node).clone();
        router.full = (node == 0).then_some(n(2));
        let member = Overlay::with_router(&net.config, n(node), Box::new(router));
        net.nodes.insert(n(node), member);
    }
    visit(&mut net, 9, &[0]);
    net.sent.clear();
    net.request(9, 1, Operation::Locate(vec![key(1), key(2), key(3)]), Style::Recursive);
    let located = [(key(1), n(1)), (key(2), n(2)), (key(3), n(0))];
    let located = located.map(|(key, node)| (key, Outcome::Located(node)));
    assert_eq!(net.outcomes(), located.into_iter().collect());
    assert_eq!(net.count("n9 -> n0: route"), 1, "{:#?}", net.sent);
    assert_eq!(net.count("n9 -> "), 1, "{:#?}", net.sent);
    assert_eq!(net.count("n1 -> n9: result") + net.count("n2 -> n9: result"), 2);
    assert_eq!(net.count("n0 -> n2: ping"), 0, "a client was taken for a member");
    net.request(9, 2, Operation::Put(vec![put(1, "a"), put(2, "b")]), Style::Recursive);
    let stored = Outcome::Stored { copies: 1 };
    assert!(net.outcomes().values().all(|outcome| *outcome == stored), "{:#?}", net.sent);
    net.request(9, 3, Operation::Get(vec![key(1), key(2)]), Style::Recursive);
    assert!(net.outcomes().values().all(|it| matches!(it, Outcome::Found { .. })));
}

#[test]
fn a_recursive_client_tries_another_member_where_one_is_silent() {
    let ways: [(u32, &[u8], &[u32]); 2] = [(0, &[], &[]), (1, &[], &[])];
    let mut net = Net::new(config(), &ways);
    visit(&mut net, 9, &[0, 1]);
    net.silent.push(n(0));
    for id in 0..8 {
        net.request(9, id, Operation::Locate(vec![key(id as u8 + 1)]), Style::Recursive);
    }
    net.wait(Duration::from_secs(30));
    let outcomes = net.outcomes();
    assert_eq!(outcomes.len(), 8);
    assert!(outcomes.values().all(|it| *it == Outcome::Located(n(1))), "{outcomes:?}");
    assert!(net.count("n9 -> n0: route") > 0, "chance chose n1 each time");
}

#[test]
fn a_node_that_does_not_answer_is_forgotten_and_another_one_tried() {
    for style in [Style::Recursive, Style::Iterative] {
        let ways: [(u32, &[u8], &[u32]); 2] = [(0, &[1, 2], &[1, 2]), (0, &[3], &[3])];
        let mut net = Net::new(config(), &ways);
        net.silent.push(n(1));
        net.request(0, 1, Operation::Locate(vec![key(1), key(2), key(3)]), style);
        assert_eq!(net.outcomes().into_keys().collect::<Vec<_>>(), [key(3)]);
        net.wait(Duration::from_secs(30));
        assert_eq!(net.count("n0 -> n1"), 3, "{:?}", net.sent);
        assert_eq!(net.count("n0 -> n2"), 1);
        assert_eq!(net.counter("forgotten"), 1);
        let outcomes: Vec<Outcome> = net.outcomes().into_values().collect();
        assert_eq!(outcomes, [Outcome::Located(n(2)), Outcome::Located(n(2))]);
    }
}

#[test]
fn a_node_that_says_it_is_no_member_is_forgotten_at_once() {
    let mut net = Net::new(config(), &[(0, &[1], &[1, 2])]);
    net.nodes.insert(n(1), Overlay::new(&net.config, n(1)));
    net.request(0, 1, Operation::Locate(vec![key(1)]), Style::Recursive);
    assert_eq!(net.sent[1], "n1 -> n0: no member");
    assert_eq!(net.outcomes()[&key(1)], Outcome::Located(n(2)));
}

#[test]
fn who_asked_tries_again_and_then_gives_up() {
    let mut net = Net::new(config(), &[(0, &[1], &[1]), (1, &[1], &[2])]);
    // Node 1 acknowledges the bundle and fails.
    net.request(0, 1, Operation::Locate(vec![key(9)]), Style::Recursive);
    net.table(1).ways.insert(1, vec![n(2)]);
    net.silent.push(n(2));
    net.events.clear();
    net.call(n(0), |node, cx| {
        let operation = Operation::Locate(vec![key(1)]);
        node.handle_command(cx, Command::Request { id: 2, operation, style: Style::Recursive });
    });
    for (from, to, message) in net.intercept() {
        net.call(to, |node, cx| node.handle_message(cx, from, message));
    }
    net.silent.push(n(1));
    net.deliver();
    net.wait(Duration::from_secs(60));
    assert!(net.counter("asked_again") > 0);
    let outcomes = net.outcomes();
    // Without node 1, node 0 is responsible for the key.
    assert_eq!(outcomes[&key(1)], Outcome::Located(n(0)));
    assert_eq!(net.nodes[&n(0)].in_flight(), 0);
}

#[test]
fn a_requester_goes_straight_to_a_range_that_it_was_told_of() {
    let mut net = Net::new(config().with_ranges(true), &[(0, &[1], &[1]), (1, &[1], &[2])]);
    net.request(0, 1, Operation::Locate(vec![key(1)]), Style::Recursive);
    assert_eq!(net.count("route"), 2);
    let next = key(1) + Key::from(1);
    net.request(0, 2, Operation::Locate(vec![next]), Style::Recursive);
    assert_eq!(net.count("route"), 3, "{:?}", net.sent);
    assert_eq!(net.counter("range_hits"), 1);
    // Once that is no longer true, the bundle goes on from there.
    net.table(2).ways.insert(1, vec![n(1)]);
    net.table(1).ways.remove(&1);
    net.events.clear();
    net.request(0, 3, Operation::Locate(vec![next]), Style::Recursive);
    assert_eq!(net.outcomes()[&next], Outcome::Located(n(1)));
}

fn divided(algorithm: Algorithm, node: u32, keys: &[Key]) {
    let space = Space::new(5);
    let oracle = Oracle::new(space, (0..50).map(NodeId));
    let mut router = algorithm.router(space, n(node % 50), Shape::default());
    router.fill(oracle.ring());
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let walk = algorithm.first_walk();
    let targets: Arc<[Target]> = sorted.iter().map(|&key| Target { key, walk }).collect();
    let parts = split(&*router, &targets);
    let mut all: Vec<Key> = Vec::new();
    let mut check = |hop: Hop, part: &[Target]| {
        for target in part {
            let mut walk = algorithm.first_walk();
            assert_eq!(router.next_hop(target.key, &mut walk).hop, hop, "{}", algorithm);
            assert!(hop == Hop::Here || walk == target.walk, "{}", algorithm);
            all.push(target.key);
        }
        assert!(part.is_sorted_by(|a, b| a.key < b.key));
    };
    if let Some(here) = &parts.here {
        check(Hop::Here, here);
    }
    for (next, part) in &parts.onward {
        check(Hop::Via(*next), part);
    }
    all.sort_unstable();
    assert_eq!(all, sorted);
    let hops: Vec<NodeId> = parts.onward.iter().map(|(next, _)| *next).collect();
    assert_eq!(hops.iter().collect::<std::collections::BTreeSet<_>>().len(), hops.len());
}

proptest! {
    #[test]
    fn parts_of_a_bundle_are_the_bundle_and_go_where_each_target_would(
        node in any::<u32>(),
        keys in proptest::collection::vec(any::<[u8; 20]>().prop_map(Key::from_bytes), 1..40),
    ) {
        Algorithm::ALL.iter().for_each(|&algorithm| divided(algorithm, node, &keys));
    }

    #[test]
    fn pieces_are_the_list_and_none_is_too_large(
        sizes in proptest::collection::vec(1usize..500, 0..200),
        items_max in 1usize..50,
        bytes_max in 1usize..2000,
    ) {
        let mut at = 0;
        for piece in pieces(&sizes, items_max, bytes_max, |&size| size) {
            prop_assert_eq!(piece.start, at);
            at = piece.end;
            let bytes: usize = sizes[piece.clone()].iter().sum();
            prop_assert!(piece.len() <= items_max && (bytes <= bytes_max || piece.len() == 1));
        }
        prop_assert_eq!(at, sizes.len());
    }
}
