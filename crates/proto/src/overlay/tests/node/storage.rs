//! Records: versions, room, copies and removals.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn record(byte: u8, count: u64, value: Option<&'static str>) -> Record {
    let version = Version { count, by: 1 };
    Record {
        key: key(byte),
        stamp: Stamp { version, writer: 9, write: count },
        lifetime_ms: 60_000,
        value: value.map(Payload::from),
    }
}

#[test]
fn there_is_room_for_so_many_records_and_bytes() {
    let mut net = Net::new(
        config().with_store_records_max(2).with_store_bytes_max(70),
        &[(0, &[1, 2, 3, 4], &[1])],
    );
    let items = vec![put(1, "one"), put(2, "two"), put(3, "three")];
    net.request(0, 1, Operation::Put(items), Style::Recursive);
    let outcomes = net.outcomes();
    assert_eq!(outcomes[&key(3)], Outcome::Failed(FailReason::OverQuota));
    assert_eq!(outcomes[&key(2)], Outcome::Stored { copies: 1 });
    let long = put(2, "longer than there is room for in it");
    net.request(0, 2, Operation::Put(vec![long]), Style::Recursive);
    assert_eq!(net.outcomes()[&key(2)], Outcome::Failed(FailReason::OverQuota));
    assert!(net.counter("over_quota") == 2);
    // Removing makes room.
    net.request(0, 3, Operation::Remove(vec![key(1)]), Style::Recursive);
    assert_eq!(net.outcomes()[&key(1)], Outcome::Removed);
    net.request(0, 4, Operation::Get(vec![key(1)]), Style::Recursive);
    assert_eq!(net.outcomes()[&key(1)], Outcome::Absent);
    let store = net.nodes[&n(1)].store().expect("it stores");
    assert!(store.bytes() <= 70 && store.len() == 2);
}

/// Node 1 is responsible, nodes 2 and 3 hold copies.
fn replicated() -> Net {
    let mut net =
        Net::new(config().with_copies(3), &[(0, &[1], &[1]), (2, &[1], &[1]), (3, &[1], &[1])]);
    for node in 1..4 {
        let router = net.table(node);
        router.replicas = vec![n(1), n(2), n(3)];
    }
    net
}

#[test]
fn a_write_is_acknowledged_once_all_replicas_hold_it() {
    let mut net = replicated();
    net.silent.push(n(3));
    net.request(0, 1, Operation::Put(vec![put(1, "v")]), Style::Recursive);
    assert_eq!((net.count("copy:"), net.count("copy reply"), net.count("put reply")), (2, 1, 0));
    assert_eq!(net.events, []);
    net.silent.clear();
    net.wait(Duration::from_secs(10));
    assert_eq!(net.outcomes()[&key(1)], Outcome::Stored { copies: 3 });
    for node in 1..4 {
        let held = net.nodes[&n(node)].store().and_then(|store| store.get(key(1), net.now));
        assert_eq!(held.map(|held| held.stamp.version), Some(Version { count: 1, by: 1 }));
    }
}

#[test]
fn a_replica_that_is_gone_is_not_waited_for_for_ever() {
    let mut net = replicated();
    net.silent.push(n(3));
    net.request(0, 1, Operation::Put(vec![put(1, "v")]), Style::Recursive);
    net.wait(Duration::from_secs(30));
    assert_eq!(net.outcomes()[&key(1)], Outcome::Stored { copies: 2 });
}

#[test]
fn a_responsible_node_that_knew_less_goes_higher() {
    let mut net = replicated();
    let newer = record(1, 5, Some("old"));
    net.forge(1, 2, Body::Copy { exchange: 0, records: [newer].into() });
    net.sent.clear();
    net.request(0, 1, Operation::Put(vec![put(1, "new")]), Style::Recursive);
    assert_eq!(net.outcomes()[&key(1)], Outcome::Stored { copies: 3 });
    let copies: Vec<&String> = net.sent.iter().filter(|line| line.contains("copy:")).collect();
    assert_eq!(
        copies,
        [
            "n1 -> n2: copy: 01000000 v1.1",
            "n1 -> n3: copy: 01000000 v1.1",
            "n1 -> n2: copy: 01000000 v6.1",
            "n1 -> n3: copy: 01000000 v6.1",
        ]
    );
}

#[test]
fn what_is_missing_here_is_asked_for_elsewhere() {
    for style in [Style::Recursive, Style::Iterative] {
        let mut net = replicated();
        net.forge(1, 3, Body::Copy { exchange: 0, records: [record(1, 5, Some("there"))].into() });
        net.request(0, 1, Operation::Get(vec![key(1)]), style);
        match net.outcomes().remove(&key(1)) {
            Some(Outcome::Found { value, .. }) => assert_eq!(value, Payload::from("there")),
            other => panic!("{other:?}"),
        }
        // It is here from now on.
        net.sent.clear();
        net.request(0, 2, Operation::Get(vec![key(1)]), style);
        assert_eq!(net.count("fetch"), 0);
        // If a node that may have it does not answer, the outcome stays open.
        net.silent.extend([n(2), n(3)]);
        let other = key(1) + Key::from(1);
        net.request(0, 3, Operation::Get(vec![other]), style);
        net.outcomes();
        net.wait(Duration::from_secs(60));
        assert_eq!(net.outcomes()[&other], Outcome::Absent, "only node 1 is left");
    }
}

#[test]
fn a_write_that_comes_again_is_the_same_write_and_one_that_is_late_is_none() {
    let mut net = Net::new(config(), &[(0, &[1], &[1])]);
    let item = |value: &'static str| PutItem {
        key: key(1),
        lifetime_ms: 1000,
        after: 0,
        value: Some(Payload::from(value)),
    };
    let write = |number: u64| 8 << 32 | number;
    let mut send = |exchange, number, value| {
        net.sent.clear();
        let items = [item(value)].into();
        net.forge(9, 1, Body::Put { exchange, is_member: true, write: write(number), items });
        let held = net.nodes[&n(1)].store().and_then(|store| store.get(key(1), net.now)).cloned();
        (net.sent.remove(0), held.map(|held| held.stamp.version.count))
    };
    assert_eq!(send(1, 4, "a"), ("n1 -> n9: put reply: [Stored(1)]".into(), Some(1)));
    assert_eq!(send(2, 4, "a"), ("n1 -> n9: put reply: [Stored(1)]".into(), Some(1)));
    assert_eq!(send(3, 5, "b"), ("n1 -> n9: put reply: [Stored(1)]".into(), Some(2)));
    assert_eq!(send(4, 4, "a"), ("n1 -> n9: put reply: [Superseded]".into(), Some(2)));
    // Keys of others are not taken.
    net.forge(
        9,
        0,
        Body::Put { exchange: 5, is_member: true, write: write(6), items: [item("c")].into() },
    );
    assert_eq!(net.sent.last().map(String::as_str), Some("n0 -> n9: put reply: [Elsewhere]"));
}

#[test]
fn records_that_cannot_be_are_refused() {
    let mut net = replicated();
    let huge = Record { value: Some(Payload::Zeros(65_000)), ..record(1, 1, None) };
    let eternal = Record { lifetime_ms: u32::MAX, ..record(1, 1, Some("v")) };
    let last = record(1, u64::MAX, Some("v"));
    for bad in [huge, eternal, last] {
        net.forge(9, 2, Body::Copy { exchange: 0, records: [bad].into() });
    }
    assert_eq!(net.counter("bad_record"), 3);
    net.table(2).replicas = vec![n(1)];
    net.forge(9, 2, Body::Copy { exchange: 0, records: [record(1, 1, Some("v"))].into() });
    assert_eq!(net.counter("far_record"), 1);
    assert!(net.nodes[&n(2)].store().is_none_or(Store::is_empty));
}

#[test]
fn a_version_far_beyond_what_is_known_is_refused_and_the_key_stays_writable() {
    let mut net = replicated();
    let forged = |after, value: &'static str| PutItem {
        key: key(1),
        lifetime_ms: 1000,
        after,
        value: Some(Payload::from(value)),
    };
    // By a put, by a copy, and by a replica's summary of its records.
    for (exchange, after) in [(1, u64::MAX), (2, u64::MAX / 2), (3, 1 << 50)] {
        let items = [forged(after, "forged")].into();
        net.forge(9, 1, Body::Put { exchange, is_member: true, write: 1, items });
        let record = Record { lifetime_ms: 1000, ..record(1, after, Some("forged")) };
        net.forge(9, 2, Body::Copy { exchange, records: [record].into() });
    }
    assert_eq!(net.counter("version_refused"), 6);
    net.silent.push(n(3));
    net.request(0, 1, Operation::Put(vec![put(1, "v")]), Style::Recursive);
    let exchange = net.nodes[&n(1)].exchanges.iter().find_map(|(number, exchange)| {
        (exchange.to == n(3) && matches!(exchange.body, Body::Copy { .. })).then_some(number)
    });
    let exchange = exchange.expect("node 3 is asked to hold a copy");
    let version = Version { count: u64::MAX, by: 3 };
    let answers = vec![CopyAnswer::Newer(Stamp { version, writer: 9, write: 1 })];
    net.forge(3, 1, Body::CopyReply { exchange, answers });
    assert_eq!(net.counter("version_refused"), 7);
    net.silent.clear();
    net.wait(Duration::from_secs(30));
    assert_eq!(net.outcomes()[&key(1)], Outcome::Stored { copies: 3 });
    // Honest writes can exceed any count that a forger reaches.
    let items = [forged(1 << 48, "forged")].into();
    net.forge(9, 1, Body::Put { exchange: 4, is_member: true, write: 1, items });
    for round in 0..3 {
        net.request(0, 10 + round, Operation::Put(vec![put(1, "w")]), Style::Recursive);
        assert_eq!(net.outcomes()[&key(1)], Outcome::Stored { copies: 3 });
        net.request(0, 20 + round, Operation::Get(vec![key(1)]), Style::Recursive);
        assert!(matches!(net.outcomes()[&key(1)], Outcome::Found { .. }));
        net.request(0, 30 + round, Operation::Remove(vec![key(1)]), Style::Recursive);
        assert_eq!(net.outcomes()[&key(1)], Outcome::Removed);
    }
}

#[test]
fn what_goes_to_disk_is_told_and_comes_back() {
    let mut net = Net::new(config().with_durable(true), &[(0, &[1], &[1])]);
    net.request(0, 1, Operation::Put(vec![put(1, "v")]), Style::Recursive);
    let persisted = net.events.iter().find_map(|(node, event)| match event {
        Event::Persist { record, .. } if *node == n(1) => Some(record.clone()),
        _ => None,
    });
    let record = persisted.expect("it is to be written");
    assert_eq!(record.value, Some(Payload::from("v")));
    let table = net.table(1).clone();
    net.nodes.insert(n(1), Overlay::with_router(&net.config, n(1), Box::new(table)));
    net.events.clear();
    net.call(n(1), |node, cx| {
        node.handle_command(cx, Command::Restore { records: vec![record] });
    });
    net.request(0, 2, Operation::Get(vec![key(1)]), Style::Recursive);
    assert!(matches!(net.outcomes()[&key(1)], Outcome::Found { .. }));
}

/// The same, and each answers once it has its records on disk.
fn replicated_on_disk() -> Net {
    let mut net = replicated();
    net.config = net.config.clone().with_durable(true).with_awaits_disk(true);
    net
}

#[test]
fn a_write_is_acknowledged_once_all_its_holders_have_it_on_disk() {
    let mut net = replicated_on_disk();
    net.request(0, 1, Operation::Put(vec![put(1, "v")]), Style::Recursive);
    let persisted = |net: &mut Net, node: u32| {
        let command = Command::Persisted { number: 1 };
        net.call(n(node), |node, cx| node.handle_command(cx, command));
        net.deliver();
    };
    let is_silent = |net: &mut Net| net.outcomes().is_empty() && net.counter("asked_again") == 0;
    assert_eq!(net.count("copy reply"), 0, "the copies are on no disk");
    persisted(&mut net, 2);
    assert_eq!((net.count("copy reply"), net.count("put reply")), (1, 0));
    // A repeated request meanwhile is not written twice, and its sender keeps waiting.
    net.wait(Duration::from_secs(30));
    assert!(is_silent(&mut net), "it is on one disk");
    assert!(net.counter("duplicate") > 0);
    assert!(net.count("n3 -> n1: copy reply: []") > 0 && net.count("put reply: []") > 0);
    persisted(&mut net, 3);
    net.wait(Duration::from_secs(29));
    assert!(is_silent(&mut net), "it is not on the disk of the responsible node");
    persisted(&mut net, 1);
    assert_eq!(net.outcomes()[&key(1)], Outcome::Stored { copies: 3 });
    assert_eq!(net.counter("unanswered"), 0);
}

#[test]
fn a_write_that_gets_to_no_disk_is_given_up_in_time() {
    for slow in [1, 3] {
        let mut net = replicated_on_disk();
        net.request(0, 1, Operation::Put(vec![put(1, "v")]), Style::Recursive);
        for node in (1..4).filter(|&node| node != slow) {
            let command = Command::Persisted { number: 1 };
            net.call(n(node), |node, cx| node.handle_command(cx, command));
            net.deliver();
        }
        net.wait(Duration::from_secs(59));
        assert!(net.outcomes().is_empty());
        net.wait(Duration::from_secs(6));
        let failed = Outcome::Failed(FailReason::TimedOut);
        assert_eq!(net.outcomes()[&key(1)], failed, "n{slow} is slow");
        // No node asks again.
        let sent = net.sent.len();
        net.wait(Duration::from_secs(60));
        assert_eq!(net.sent.len(), sent);
    }
}

#[test]
fn only_so_much_is_read_with_one_bundle_and_the_rest_with_the_next() {
    let mut net = Net::new(config().with_answer_bytes_max(1000), &[(0, &[1], &[1])]);
    let keys: Vec<Key> = (0..5u64).map(|low| key(1) + Key::from(low)).collect();
    let item = |&key: &Key| Item { key, value: Payload::Zeros(400), lifetime: MINUTE };
    net.request(0, 1, Operation::Put(keys.iter().map(item).collect()), Style::Recursive);
    net.outcomes();
    net.request(0, 2, Operation::Get(keys.clone()), Style::Recursive);
    assert_eq!(net.events.len(), 1);
    net.wait(Duration::from_secs(10));
    let outcomes = net.outcomes();
    assert_eq!(outcomes.len(), 5);
    assert!(outcomes.values().all(|outcome| matches!(outcome, Outcome::Found { .. })));
}
