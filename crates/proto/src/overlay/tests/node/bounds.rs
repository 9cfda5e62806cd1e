//! Nonsense of peers and of the application: counted, dropped, or refused with the reason.

use std::sync::Arc;

use super::*;

fn route(exchange: u32, ttl: u8, keys: &[Key]) -> Route {
    let targets: Arc<[Target]> = keys.iter().map(|&key| Target { key, walk: Walk::None }).collect();
    let (initiator, purpose) = (n(7), Purpose::Locate);
    Route { exchange, ttl, initiator, is_member: true, tag: 5, purpose, targets }
}

#[test]
fn requests_that_cannot_be_are_rejected_with_the_reason() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    let many: Vec<Key> = (0..1025u64).map(Key::from).collect();
    let large = Payload::Zeros(70_000);
    let cases = [
        (Operation::Get(vec![]), RejectReason::Empty),
        (Operation::Get(many), RejectReason::TooManyItems),
        (Operation::Get(vec![key(1), key(2), key(1)]), RejectReason::DuplicateKey),
        (Operation::Put(vec![put(1, "a"), put(1, "b")]), RejectReason::DuplicateKey),
        (Operation::Send { keys: vec![key(1)], payload: large.clone() }, RejectReason::TooLarge),
    ];
    for (operation, reason) in cases {
        net.request(0, 3, operation, Style::Recursive);
        assert_eq!(net.events, [(n(0), Event::Rejected { id: 3, reason })]);
        assert_eq!(net.sent.len(), 0);
        net.events.clear();
    }
    net.nodes.insert(n(4), Overlay::new(&net.config, n(4)));
    net.request(4, 3, Operation::Get(vec![key(1)]), Style::Recursive);
    let reason = RejectReason::NotMember;
    assert_eq!(net.events, [(n(4), Event::Rejected { id: 3, reason })]);
    net.events.clear();
    // Of a bundle, only the items that cannot be fail.
    let expired = Item { lifetime: Duration::ZERO, ..put(2, "b") };
    let items = vec![put(1, "a"), expired, Item { value: large, ..put(3, "") }];
    net.request(0, 4, Operation::Put(items), Style::Recursive);
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&key(1)], Outcome::Stored { copies: 1 });
    assert_eq!(outcomes[&key(2)], Outcome::Failed(FailReason::Expired));
    assert_eq!(outcomes[&key(3)], Outcome::Failed(FailReason::TooLarge));
}

#[test]
fn a_bundle_that_comes_twice_is_acknowledged_twice_and_forwarded_once() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    for _ in 0..2 {
        net.forge(9, 0, Body::Route(route(3, 100, &[key(1)])));
    }
    assert_eq!((net.count("n0 -> n9: ack"), net.count("n0 -> n1")), (2, 1));
    assert_eq!(net.counter("duplicate"), 1);
}

#[test]
fn a_bundle_ends_with_its_hops() {
    let mut net = Net::new(config(), &[(0, &[1], &[1]), (1, &[1], &[0])]);
    // Two nodes that take each other for nearer.
    net.forge(9, 0, Body::Route(route(3, 255, &[key(1)])));
    assert_eq!(net.count(": route"), 159);
    assert_eq!(net.counter("ttl"), 1);
    assert_eq!(net.sent.last().map(String::as_str), Some("n1 -> n7: result: 01000000 no route"));
    net.sent.clear();
    net.forge(9, 0, Body::Route(route(4, 0, &[key(1)])));
    assert_eq!(net.sent, ["n0 -> n9: ack", "n0 -> n7: result: 01000000 no route"]);
}

#[test]
fn a_large_bundle_is_cut_to_datagrams() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    let keys: Vec<Key> = (0..1024u64).map(|low| key(1) + Key::from(low)).collect();
    net.call(n(0), |node, cx| {
        let operation = Operation::Locate(keys.clone());
        node.handle_command(cx, Command::Request { id: 1, operation, style: Style::Recursive });
    });
    let sent = net.intercept();
    assert!(sent.len() == 1024usize.div_ceil(58), "{}", sent.len());
    let mut all = Vec::new();
    for (from, to, message) in sent {
        assert!(crate::core::Wire::wire_len(&message) <= 1200);
        let Body::Route(route) = &message.body else { panic!("{message}") };
        all.extend(route.targets.iter().map(|target| target.key));
        net.call(to, |node, cx| node.handle_message(cx, from, message));
    }
    assert_eq!(all, keys);
    net.deliver();
    assert_eq!(net.outcomes().len(), 1024);
}

#[test]
fn a_full_node_refuses_bundles_and_a_peer_gets_no_more_than_its_share() {
    let mut net = Net::new(config().with_in_flight_max(16), &[(0, &[1], &[1])]);
    net.silent.push(n(1));
    for exchange in 0..30 {
        net.forge(9, 0, Body::Route(route(exchange, 100, &[key(1)])));
    }
    // Half of it is for anybody; after that the peer has more than an eighth.
    assert_eq!(net.nodes[&n(0)].in_flight(), 8);
    assert_eq!(net.counter("peer_in_flight_full"), 22);
    for from in 20..40 {
        net.forge(from, 0, Body::Route(route(1, 100, &[key(1)])));
    }
    assert_eq!(net.nodes[&n(0)].in_flight(), 16);
    assert!(net.counter("in_flight_full") > 0);
    assert_eq!(net.count("n7: result: 01000000 busy"), 34);
}

#[test]
fn a_node_that_is_no_nearer_is_not_asked() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    let space = net.config.space();
    let is_far = |node: &NodeId| space.key(*node).to_bytes()[0] == 0xff;
    let far = (10..).map(NodeId).find(is_far).expect("one in 256");
    net.table(1).ways.insert(1, vec![far]);
    net.request(0, 1, Operation::Locate(vec![key(1)]), Style::Iterative);
    assert_eq!(net.count(&format!("-> {far}:")), 0);
    assert!(net.counter("no_progress") > 0);
    net.wait(Duration::from_secs(60));
    assert_eq!(net.outcomes()[&key(1)], Outcome::Failed(FailReason::NoRoute));
}

#[test]
fn answers_that_were_not_asked_for_change_nothing() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    net.silent.push(n(1));
    net.request(0, 1, Operation::Locate(vec![key(1)]), Style::Recursive);
    net.sent.clear();
    for from in [1, 2] {
        net.forge(
            from,
            0,
            Body::Result { tag: 3, answers: vec![(key(1), Answer::Here)], range: None },
        );
        net.forge(from, 0, Body::PutReply { exchange: 9, answers: vec![PutAnswer::Stored(3)] });
        net.forge(from, 0, Body::Answer { exchange: 9, nodes: vec![n(5); 100] });
        net.forge(from, 0, Body::Pong { exchange: 9 });
        net.forge(from, 0, Body::NotMember { exchange: 9 });
        net.forge(from, 0, Body::CopyReply { exchange: 9, answers: vec![CopyAnswer::Held] });
    }
    assert_eq!((net.sent.len(), net.events.len()), (0, 0));
    assert_eq!(net.counter("stale"), 12);
    assert_eq!(net.counter("forgotten"), 0);
}

#[test]
fn who_said_goodbye_is_a_neighbour_again_once_it_answers() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    let notices = |net: &mut Net| net.table(0).notices.clone();
    net.forge(1, 0, Body::Notify);
    assert_eq!(notices(&mut net), [n(1)]);
    net.silent.push(n(1));
    for _ in 0..3 {
        net.forge(1, 0, Body::Goodbye);
        net.forge(1, 0, Body::Notify);
    }
    assert_eq!(notices(&mut net), [n(1)], "it does not answer");
    assert_eq!(net.count(&format!("-> {}: ping", n(1))), 1, "one question at a time");
    net.silent.clear();
    net.wait(Duration::from_secs(5));
    assert_eq!(net.counter("found_again"), 1);
    net.forge(1, 0, Body::Notify);
    assert_eq!(notices(&mut net), [n(1), n(1)]);
}

#[test]
fn an_answer_of_the_wrong_shape_is_no_answer() {
    let mut net = Net::new(config(), &[(0, &[1], &[1, 2])]);
    net.silent.push(n(1));
    net.call(n(0), |node, cx| {
        let operation = Operation::Locate(vec![key(1)]);
        node.handle_command(cx, Command::Request { id: 1, operation, style: Style::Iterative });
    });
    let sent = net.intercept();
    let Body::Find { exchange, .. } = sent[0].2.body else { panic!("{}", sent[0].2) };
    let found = Found {
        exchange,
        segments: vec![Segment { targets: 2, nodes: 0 }],
        ended: vec![Answer::Here; 2],
        nodes: vec![],
        walks: vec![],
        range: None,
    };
    net.forge(1, 0, Body::Found(Box::new(found)));
    assert_eq!(net.counter("bad_answer"), 1);
    assert_eq!(net.events, []);
}

#[test]
fn full_tables_ping_once_a_message_or_each_time_that_somebody_is_named() {
    // Its sender, again as that, and the requester, who is the same.
    for (policy, pings) in
        [(PingPolicy::Suppressed, 1), (PingPolicy::EachMention, 3), (PingPolicy::Off, 0)]
    {
        let mut net = Net::new(config().with_ping(policy), &[(0, &[1], &[1])]);
        net.table(0).full = Some(n(1));
        net.forge(9, 0, Body::Route(route(1, 9, &[key(5), key(6), key(7)])));
        assert_eq!(net.count("n0 -> n1: ping"), pings, "{policy:?}");
        assert_eq!(net.count("pong"), pings);
    }
}

#[test]
fn targets_of_a_result_and_senders_of_pings_are_mentions() {
    for (policy, of_result, of_ping) in
        [(PingPolicy::Suppressed, 1, 0), (PingPolicy::EachMention, 3, 1), (PingPolicy::Off, 0, 0)]
    {
        let mut net = Net::new(config().with_ping(policy), &[(0, &[1], &[1])]);
        net.table(0).full = Some(n(1));
        let answers = [key(5), key(6)].map(|key| (key, Answer::Absent)).to_vec();
        net.forge(9, 0, Body::Result { tag: 0, answers, range: None });
        assert_eq!(net.count("n0 -> n1: ping"), of_result, "{policy:?}");
        net.forge(9, 0, Body::Ping { exchange: 1 });
        assert_eq!(net.count("n0 -> n1: ping"), of_result + of_ping, "{policy:?}");
    }
}

#[test]
fn knobs_out_of_range_are_named() {
    let knob = |config: Config| match config.build() {
        Err(error) => error.knob().to_owned(),
        Ok(_) => "none".to_owned(),
    };
    assert_eq!(knob(config()), "none");
    assert_eq!(knob(config().with_ttl(0)), "ttl");
    assert_eq!(knob(config().with_copies(17)), "copies");
    assert_eq!(knob(config().with_in_flight_max(70_000)), "in_flight_max");
    assert_eq!(knob(config().with_value_bytes_max(65_000)), "value_bytes_max");
    assert_eq!(knob(config().with_answer_within(Duration::ZERO)), "answer_within");
    assert_eq!(knob(config().with_lifetime_max(Duration::from_secs(1 << 40))), "lifetime_max");
}

#[test]
fn hops_and_look_ups_of_upkeep_are_not_those_of_requests() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    let counters = ["hops", "targets_ended", "lookups"];
    let upkeep = Route { purpose: Purpose::Upkeep, ..route(1, 160, &[key(1), key(2)]) };
    net.forge(7, 0, Body::Route(upkeep));
    assert_eq!(counters.map(|name| net.counter(name)), [0; 3], "{:?}", net.sent);
    assert_eq!(net.counter("upkeep_lookups"), 3);
    // The same for a request: one key ends here after a hop, the other one after two.
    net.forge(7, 0, Body::Route(route(2, 160, &[key(1), key(2)])));
    assert_eq!(counters.map(|name| net.counter(name)), [3, 2, 3]);
    assert_eq!(net.counter("upkeep_lookups"), 3);
}
