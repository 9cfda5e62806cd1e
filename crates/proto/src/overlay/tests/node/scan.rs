//! Pages of records, and the states of nodes.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// Node 1 is responsible for all keys but those that begin with 9, which are node 2's; `copies`
/// nodes from node 1 on are its neighbours. Node 0 asks.
fn net(copies: u32) -> Net {
    let most: Vec<u8> = (0..=255).filter(|&byte| byte != 9).collect();
    let ways: [(u32, &[u8], &[u32]); 4] =
        [(0, &most, &[1]), (0, &[9], &[2]), (1, &[9], &[2]), (2, &most, &[1])];
    let mut net = Net::new(config().with_copies(copies as usize), &ways);
    for node in 1..=copies {
        net.nodes.entry(n(node)).or_insert_with(|| {
            Overlay::with_router(&net.config, n(node), Box::new(Scripted::new(n(node))))
        });
        net.table(node).replicas = (1..=copies).map(n).collect();
    }
    net
}

fn record(byte: u8, count: u64, value: Option<&'static str>) -> Record {
    let version = Version { count, by: 1 };
    Record {
        key: key(byte),
        stamp: Stamp { version, writer: 9, write: count },
        lifetime_ms: 6_000_000,
        value: value.map(Payload::from),
    }
}

/// A node holds these, and others know nothing of it.
fn hold(net: &mut Net, node: u32, records: &[Record]) {
    net.forge(7, node, Body::Copy { exchange: 0, records: records.into() });
    net.intercept();
}

fn scan(net: &mut Net, id: u64, first: Key, at: Option<NodeId>) -> Outcome {
    let scan = Scan { first, last: Key::MAX, at };
    net.request(0, id, Operation::Scan(scan), Style::Recursive);
    net.wait(MINUTE);
    net.outcomes().remove(&first).expect("it has its outcome")
}

fn page(outcome: Outcome) -> Page {
    match outcome {
        Outcome::Page(page) => *page,
        other => panic!("no page: {other:?}"),
    }
}

fn keys_of(page: &Page) -> Vec<Key> {
    page.records.iter().map(|record| record.key).collect()
}

#[test]
fn pages_end_where_the_keys_of_a_node_do_and_the_next_begins_there() {
    let mut net = net(1);
    let [one, two] = [
        [record(3, 1, Some("a")), record(20, 1, Some("c"))],
        [record(9, 1, Some("b")), record(12, 1, Some("not its own"))],
    ];
    hold(&mut net, 1, &one);
    hold(&mut net, 2, &two);
    let first = page(scan(&mut net, 1, Key::ZERO, None));
    assert_eq!((keys_of(&first), first.more_at), (vec![key(3)], None));
    assert_eq!(first.until, Key::from_bytes([8; 20]).last_of_prefix(8));
    let second = page(scan(&mut net, 2, first.until + Key::from(1), None));
    assert_eq!((keys_of(&second), second.more_at), (vec![key(9)], None));
    let third = page(scan(&mut net, 3, second.until + Key::from(1), None));
    assert_eq!((keys_of(&third), third.more_at), (vec![key(20)], None));
    // One page covers several consecutive ranges of the table, 64 at most.
    assert_eq!(third.until, Key::from_bytes([73; 20]).last_of_prefix(8));
    let empty = Scan { first: key(2), last: key(1), at: None };
    net.request(0, 4, Operation::Scan(empty), Style::Recursive);
    let rejected = Event::Rejected { id: 4, reason: RejectReason::Empty };
    assert_eq!(net.events, [(n(0), rejected)]);
}

#[test]
fn a_page_fits_a_message_and_the_next_is_asked_for_at_the_same_node() {
    let mut net = net(1);
    let long = |byte| Record { value: Some(Payload::Zeros(30_000)), ..record(byte, 1, None) };
    for byte in 10..15 {
        hold(&mut net, 1, &[long(byte)]);
    }
    let (mut next, mut at, mut found) = (key(9) + Key::power_of_two(152), None, Vec::new());
    for id in 1..=3 {
        net.sent.clear();
        let page = page(scan(&mut net, id, next, at));
        assert_eq!(net.count("route"), usize::from(at.is_none()), "{:?}", net.sent);
        found.extend(keys_of(&page));
        (next, at) = (page.until + Key::from(1), page.more_at);
        assert_eq!(at.is_some(), id < 3, "page {id}");
    }
    assert_eq!(found, (10..15).map(key).collect::<Vec<_>>());
    // At most 1,024 records, removed ones included.
    let count = ITEMS_MAX + 10;
    let many = |number: usize| Record {
        key: key(100) + Key::from(number as u64),
        ..record(0, 1, (number.is_multiple_of(2)).then_some("v"))
    };
    let records: Vec<Record> = (0..count).map(many).collect();
    records.chunks(500).for_each(|records| hold(&mut net, 1, records));
    let first = page(scan(&mut net, 4, key(100), None));
    assert_eq!((first.records.len(), first.more_at), (ITEMS_MAX / 2, Some(n(1))));
    assert_eq!(first.until, key(100) + Key::from(ITEMS_MAX as u64 - 1));
    let rest = page(scan(&mut net, 5, first.until + Key::from(1), first.more_at));
    assert_eq!((rest.records.len(), rest.more_at), (5, None));
}

#[test]
fn a_page_has_what_neighbours_hold_and_the_responsible_node_lacks() {
    let mut net = net(3);
    hold(&mut net, 1, &[record(10, 2, Some("new")), record(11, 1, Some("old"))]);
    hold(&mut net, 2, &[record(10, 1, Some("stale")), record(12, 1, Some("stale"))]);
    let removed = [record(11, 2, None), record(12, 2, Some("newest"))];
    hold(&mut net, 3, &removed);
    let page = page(scan(&mut net, 1, key(10), None));
    let expected = [record(10, 2, Some("new")), record(12, 2, Some("newest"))];
    let read = |records: &[Record]| -> Vec<(Key, Version, Option<Payload>)> {
        records.iter().map(|it| (it.key, it.stamp.version, it.value.clone())).collect()
    };
    assert_eq!(read(&page.records), read(&expected));
    // It keeps what it fetched.
    assert_eq!(net.nodes[&n(1)].store().expect("it stores").len(), 3);
}

#[test]
fn a_record_without_room_at_the_responsible_node_is_in_the_page_all_the_same() {
    let mut net = net(2);
    let small = net.config.clone().with_store_records_max(1).build().expect("in range");
    hold(&mut net, 1, &[record(10, 1, Some("a"))]);
    hold(&mut net, 2, &[record(11, 1, Some("b"))]);
    net.config = small;
    let page = page(scan(&mut net, 1, key(10), None));
    assert_eq!(keys_of(&page), [key(10), key(11)]);
    assert_eq!(net.nodes[&n(1)].store().expect("it stores").len(), 1);
}

#[test]
fn a_neighbour_that_does_not_answer_puts_the_page_off() {
    let mut net = net(3);
    hold(&mut net, 1, &[record(10, 1, Some("a"))]);
    net.silent.push(n(3));
    let page = page(scan(&mut net, 1, key(10), None));
    assert_eq!(keys_of(&page), [key(10)]);
    assert!(net.count("scan reply, busy") > 0, "{:?}", net.sent);
}

#[test]
fn a_node_that_is_asked_directly_and_is_not_responsible_says_so() {
    let mut net = net(1);
    hold(&mut net, 1, &[record(10, 1, Some("a"))]);
    let page = page(scan(&mut net, 1, key(10), Some(n(2))));
    assert_eq!(keys_of(&page), [key(10)]);
    assert_eq!(net.count("scan reply, elsewhere"), 1, "{:?}", net.sent);
}

#[test]
fn answers_that_fit_no_question_are_counted_and_asked_for_again() {
    let until = key(10);
    let page = |until, records| (ScanAnswer::Page { until, is_whole: true }, records);
    let bad = [
        page(key(9), vec![]),
        page(until, vec![record(11, 1, Some("beyond"))]),
        page(until, vec![record(9, 1, Some("before"))]),
        page(until, vec![record(10, 1, None)]),
        (ScanAnswer::Busy, vec![record(10, 1, Some("no page"))]),
    ];
    for (answer, records) in bad {
        let mut net = net(1);
        hold(&mut net, 1, &[record(10, 1, Some("a"))]);
        let scan = Scan { first: key(10), last: key(10), at: Some(n(1)) };
        let command =
            Command::Request { id: 1, operation: Operation::Scan(scan), style: Style::Recursive };
        net.call(n(0), |node, cx| node.handle_command(cx, command));
        let asked = net.intercept();
        let [(_, _, Message { body: Body::Scan { exchange, .. }, .. })] = asked[..] else {
            panic!("{asked:?}");
        };
        net.forge(1, 0, Body::ScanReply { exchange, answer, records });
        assert_eq!(net.counter("bad_answer"), 1, "{answer:?}");
        net.wait(MINUTE);
        let Some(Outcome::Page(page)) = net.outcomes().remove(&key(10)) else {
            panic!("no page after {answer:?}");
        };
        assert_eq!(keys_of(&page), [key(10)]);
    }
}

#[test]
fn an_answer_of_another_kind_ends_no_question() {
    let questions = [
        Operation::Scan(Scan { first: key(10), last: key(10), at: Some(n(1)) }),
        Operation::Put(vec![put(10, "b")]),
        Operation::Stat(key(10)),
    ];
    for operation in questions {
        let mut net = net(1);
        hold(&mut net, 1, &[record(10, 1, Some("a"))]);
        let said = format!("{operation:?}");
        let command = Command::Request { id: 1, operation, style: Style::Iterative };
        net.call(n(0), |node, cx| node.handle_command(cx, command));
        // The responsible node is looked up first.
        let (question, exchange) = loop {
            let (from, to, message) = net.queue.pop_front().expect("the question");
            match message.body {
                Body::Scan { exchange, .. }
                | Body::Put { exchange, .. }
                | Body::Stat { exchange, .. } => break ((from, to, message), exchange),
                _ => net.call(to, |node, cx| node.handle_message(cx, from, message)),
            }
        };
        let others = [
            Body::Ack { exchange },
            Body::Pong { exchange },
            Body::Answer { exchange, nodes: Vec::new() },
            Body::CopyReply { exchange, answers: Vec::new() },
            Body::PutIfReply { exchange, answers: Vec::new() },
        ];
        for (count, other) in (1..).zip(others) {
            net.forge(1, 0, other);
            assert_eq!(net.counter("bad_answer"), count, "{said}");
        }
        net.queue.push_back(question);
        net.deliver();
        let outcome = net.outcomes().remove(&key(10));
        let is_done = !matches!(outcome, None | Some(Outcome::Failed(_)));
        assert!(is_done, "{said}: {outcome:?}");
    }
}

#[test]
fn lists_that_fit_no_question_are_counted_and_the_page_is_put_off() {
    let entry = |byte| vec![(key(byte), Version { count: 1, by: 1 })];
    for (until, entries) in [(key(9), vec![]), (key(10), entry(11)), (Key::MAX, vec![])] {
        let mut net = net(2);
        let range = (key(10), key(10));
        let scan = Body::Scan { exchange: 3, is_member: true, range };
        net.call(n(1), |node, cx| node.handle_message(cx, n(7), scan.into()));
        let asked = net.intercept();
        let [(_, to, Message { body: Body::List { exchange, .. }, .. })] = asked[..] else {
            panic!("{asked:?}");
        };
        net.forge(to.index() as u32, 1, Body::Listed { exchange, until, entries });
        assert_eq!((net.counter("bad_answer"), net.count("scan reply, busy")), (1, 1));
    }
}

#[test]
fn a_node_collects_64_pages_at_once_and_each_once() {
    let mut net = net(2);
    net.silent.push(n(2));
    let ask = |net: &mut Net, exchange| {
        let scan = Body::Scan { exchange, is_member: true, range: (key(10), key(10)) };
        net.forge(7, 1, scan);
    };
    (0..64).for_each(|exchange| ask(&mut net, exchange));
    ask(&mut net, 5);
    assert_eq!((net.counter("duplicate"), net.counter("jobs_full")), (1, 0));
    ask(&mut net, 64);
    assert_eq!((net.counter("jobs_full"), net.count("scan reply, busy")), (1, 1));
    assert_eq!(net.count("list "), 64);
}

#[test]
fn a_node_tells_any_other_what_it_holds() {
    let mut net = net(2);
    hold(&mut net, 1, &[record(10, 1, Some("abc")), record(11, 1, None)]);
    net.request(0, 1, Operation::Stat(key(10)), Style::Iterative);
    let Some(Outcome::Described(described)) = net.outcomes().remove(&key(10)) else {
        panic!("no state");
    };
    let NodeDescription { node, until, stat } = *described;
    assert_eq!((node, until), (n(1), Key::from_bytes([73; 20]).last_of_prefix(8)));
    let expected = NodeStat {
        contacts: 1,
        is_settled: true,
        values: 1,
        removed: 1,
        bytes: 43,
        neighbours: vec![n(2)],
        ..NodeStat::default()
    };
    assert_eq!(stat, expected);
    // The same of itself.
    net.request(1, 2, Operation::Stat(key(10)), Style::Iterative);
    let Some(Outcome::Described(own)) = net.outcomes().remove(&key(10)) else {
        panic!("no state of its own");
    };
    assert_eq!(own.stat, expected);
    // A node that is not responsible is not taken for the one that is.
    net.sent.clear();
    net.forge(7, 2, Body::Stat { exchange: 1, is_member: true, key: key(10) });
    assert_eq!(net.count("stat reply"), 1);
}
