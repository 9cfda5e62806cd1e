//! Conditional writes: decisions, repetitions, and replicas that hold something else.

use super::*;

const MINUTE: Duration = Duration::from_secs(60);

fn version(count: u64) -> Version {
    Version { count, by: 1 }
}

/// Node 1 is responsible; `copies` nodes from it on hold copies. Node 0 writes.
fn net(copies: u32) -> Net {
    let ways: [(u32, &[u8], &[u32]); 3] = [(0, &[1], &[1]), (2, &[1], &[1]), (3, &[1], &[1])];
    let mut net = Net::new(config().with_copies(copies as usize), &ways);
    for node in 1..=copies {
        net.table(node).replicas = (1..=copies).map(n).collect();
    }
    net
}

fn put_if(net: &mut Net, id: u64, expect: Expect, value: &'static str) -> Outcome {
    net.request(0, id, Operation::PutIf(vec![(expect, put(1, value))]), Style::Recursive);
    net.outcomes().remove(&key(1)).expect("it has its outcome")
}

fn held(net: &Net, node: u32) -> Option<Version> {
    let store = net.nodes[&n(node)].store()?;
    store.get(key(1), net.now).map(|held| held.stamp.version)
}

/// A record of node 2's, as a node has it that took writes in node 1's place.
fn foreign(count: u64) -> Record {
    let version = Version { count, by: 2 };
    Record {
        key: key(1),
        stamp: Stamp { version, writer: 9, write: count },
        lifetime_ms: 60_000,
        value: Some("other".into()),
    }
}

#[test]
fn a_write_is_stored_only_if_the_version_is_the_expected_one() {
    for copies in [1, 3] {
        let mut net = net(copies);
        let stored = |count| Outcome::StoredAs { version: version(count), copies: copies as usize };
        let differs = |found: Option<u64>| Outcome::Differs { found: found.map(version) };
        let expected = Expect::Version(version(1));
        assert_eq!(put_if(&mut net, 1, expected, "a"), differs(None));
        assert_eq!(held(&net, 1), None);
        assert_eq!(put_if(&mut net, 2, Expect::Absent, "b"), stored(17));
        assert_eq!(put_if(&mut net, 3, Expect::Absent, "c"), differs(Some(17)));
        assert_eq!(put_if(&mut net, 4, expected, "d"), differs(Some(17)));
        assert_eq!(put_if(&mut net, 5, Expect::Version(version(17)), "e"), stored(65));
        for node in 1..=copies {
            assert_eq!(held(&net, node), Some(version(65)));
        }
        net.request(0, 6, Operation::Get(vec![key(1)]), Style::Recursive);
        let found = Outcome::Found { version: version(65), value: "e".into() };
        assert_eq!(net.outcomes()[&key(1)], found);
        // What was removed has no value, and the next one is newer than what was there.
        net.request(0, 7, Operation::Remove(vec![key(1)]), Style::Recursive);
        assert_eq!(net.outcomes()[&key(1)], Outcome::Removed);
        assert_eq!(put_if(&mut net, 8, Expect::Version(version(65)), "f"), differs(None));
        let Outcome::StoredAs { version: last, .. } = put_if(&mut net, 9, Expect::Absent, "g")
        else {
            panic!("not stored");
        };
        assert!(last > version(65), "{last}");
    }
}

#[test]
fn a_node_decides_only_once_all_replicas_said_what_they_hold() {
    let mut net = net(3);
    net.forge(1, 3, Body::Copy { exchange: 0, records: [foreign(5)].into() });
    let found = Some(Version { count: 5, by: 2 });
    assert_eq!(put_if(&mut net, 1, Expect::Absent, "a"), Outcome::Differs { found });
    net.silent.push(n(3));
    let expected = Expect::Version(Version { count: 5, by: 2 });
    net.request(0, 2, Operation::PutIf(vec![(expected, put(1, "b"))]), Style::Recursive);
    assert_eq!(net.events, []);
    assert_eq!(held(&net, 1), found, "nothing is written before node 3 has answered");
    net.wait(MINUTE);
    // Node 3 is taken for failed.
    assert_eq!(net.outcomes()[&key(1)], Outcome::StoredAs { version: version(17), copies: 2 });
}

fn forge_put_if(net: &mut Net, exchange: u32, number: u64, expect: Expect) -> String {
    let value = Some(Payload::from("v"));
    let item = PutItem { key: key(1), lifetime_ms: 60_000, after: 0, value };
    let items = [PutIfItem { expect, item }].into();
    net.sent.clear();
    let write = 8 << 32 | number;
    net.forge(9, 1, Body::PutIf { exchange, is_member: true, write, items });
    net.sent.last().cloned().unwrap_or_default()
}

#[test]
fn a_write_that_comes_again_gets_the_same_answer_whatever_came_between() {
    let mut net = net(1);
    let stored = |copies, count| {
        format!(
            "n1 -> n9: put if reply: [Stored {{ version: {:?}, copies: {copies} }}]",
            version(count)
        )
    };
    let differs = |count| format!("n1 -> n9: put if reply: [Differs({:?})]", version(count));
    assert_eq!(forge_put_if(&mut net, 1, 1, Expect::Absent), stored(1, 1));
    assert_eq!(forge_put_if(&mut net, 1, 1, Expect::Absent), stored(1, 1));
    assert_eq!(forge_put_if(&mut net, 2, 1, Expect::Absent), stored(1, 1));
    assert_eq!(forge_put_if(&mut net, 3, 2, Expect::Absent), differs(1));
    assert_eq!(forge_put_if(&mut net, 4, 3, Expect::Version(version(1))), stored(1, 2));
    // The first was replaced, and was carried out all the same.
    assert_eq!(forge_put_if(&mut net, 5, 1, Expect::Absent), stored(1, 1));
    net.request(0, 1, Operation::Remove(vec![key(1)]), Style::Recursive);
    // The second was refused, and is not carried out although its condition holds now.
    assert_eq!(forge_put_if(&mut net, 6, 2, Expect::Absent), differs(1));
    assert_eq!(net.counter("duplicate"), 4);
}

#[test]
fn a_writer_whose_acknowledgement_was_lost_learns_that_its_write_was_done() {
    let mut net = net(3);
    let write = Operation::PutIf(vec![(Expect::Absent, put(1, "a"))]);
    let command = Command::Request { id: 1, operation: write, style: Style::Recursive };
    net.call(n(0), |node, cx| node.handle_command(cx, command));
    // All but the answer arrives.
    loop {
        let messages = net.intercept();
        if messages.is_empty() {
            break;
        }
        for (from, to, message) in messages {
            if !matches!(message.body, Body::PutIfReply { .. }) {
                net.call(to, |node, cx| node.handle_message(cx, from, message));
            }
        }
    }
    assert_eq!((net.events.len(), held(&net, 3)), (0, Some(version(1))));
    net.wait(MINUTE);
    assert_eq!(net.outcomes()[&key(1)], Outcome::StoredAs { version: version(1), copies: 3 });
}

#[test]
fn a_writer_in_doubt_is_not_told_that_its_write_was_not_done() {
    let mut net = net(1);
    let write = Operation::PutIf(vec![(Expect::Absent, put(1, "a"))]);
    let command = Command::Request { id: 1, operation: write, style: Style::Recursive };
    net.call(n(0), |node, cx| node.handle_command(cx, command));
    // Whether the write arrives is not known: the node leaves.
    let mut is_sent = false;
    while !is_sent {
        for (from, to, message) in net.intercept() {
            match message.body {
                Body::PutIf { exchange, .. } => {
                    is_sent = true;
                    net.forge(1, 0, Body::NotMember { exchange });
                }
                _ => net.call(to, |node, cx| node.handle_message(cx, from, message)),
            }
        }
    }
    assert_eq!(net.events, []);
    // Another write is there when the writer asks again.
    net.forge(2, 1, Body::Copy { exchange: 0, records: [foreign(5)].into() });
    net.wait(MINUTE);
    assert_eq!(net.outcomes()[&key(1)], Outcome::Failed(FailReason::Indeterminate));
}

#[test]
fn a_write_is_not_acknowledged_beside_one_of_another_node() {
    let mut net = net(3);
    let write = Operation::PutIf(vec![(Expect::Absent, put(1, "a"))]);
    let command = Command::Request { id: 1, operation: write, style: Style::Recursive };
    net.call(n(0), |node, cx| node.handle_command(cx, command));
    let mut is_refused = false;
    while !is_refused {
        let messages = net.intercept();
        assert!(!messages.is_empty(), "the write has not ended");
        for (from, to, message) in messages {
            // Another node writes at a replica between the question and the copy.
            if matches!(message.body, Body::CopyIf { .. }) && to == n(3) && held(&net, 3).is_none()
            {
                let records = [foreign(1)].into();
                net.call(n(3), |node, cx| {
                    node.handle_message(cx, n(2), Body::Copy { exchange: 0, records }.into());
                });
            }
            is_refused |= match &message.body {
                Body::PutIfReply { answers, .. } => {
                    assert_eq!(answers[..], [PutIfAnswer::Conflict]);
                    true
                }
                _ => false,
            };
            net.call(to, |node, cx| node.handle_message(cx, from, message));
        }
    }
    // Whether the record of node 1 or of node 2 stays is not known.
    assert_eq!(net.outcomes()[&key(1)], Outcome::Failed(FailReason::Indeterminate));
}

#[test]
fn a_condition_on_a_key_that_failed_nodes_may_hold_is_not_settled() {
    let mut net = net(2);
    let item = put(1, "a");
    let too_large = Item { value: Payload::Zeros(60_000), ..put(2, "") };
    let expired = Item { lifetime: Duration::ZERO, ..put(3, "a") };
    let items = [item, too_large, expired].map(|item| (Expect::Absent, item));
    net.config = net.config.clone().with_value_bytes_max(50_000).build().expect("in range");
    net.request(0, 1, Operation::PutIf(items.to_vec()), Style::Recursive);
    net.wait(MINUTE);
    let outcomes = net.outcomes();
    assert!(matches!(outcomes[&key(1)], Outcome::StoredAs { copies: 2, .. }));
    assert_eq!(outcomes[&key(2)], Outcome::Failed(FailReason::TooLarge));
    assert_eq!(outcomes[&key(3)], Outcome::Failed(FailReason::Expired));
}

#[test]
fn a_version_is_read_as_it_is_written() {
    for version in [Version::default(), Version { count: u64::MAX, by: 17 }] {
        assert_eq!(version.to_string().parse(), Ok(version));
    }
    for text in ["", "v", "v1", "1.2", "v1.2.3", "v+1.2", "v.1", "v1.", "v18446744073709551616.1"] {
        assert_eq!(text.parse::<Version>(), Err(InvalidVersion), "{text}");
    }
}
