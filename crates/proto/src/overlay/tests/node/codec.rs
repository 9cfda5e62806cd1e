//! The form of messages in bytes.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::core::{DecodeError, Wire, encode_to_bytes, laws};

/// What a driver makes of bytes for a node of an overlay with this algorithm.
fn decode(algorithm: Algorithm, bytes: Bytes) -> Result<Message, DecodeError> {
    Overlay::decode(&config().with_algorithm(algorithm), bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(text: &'static str) -> Payload {
    Payload::from(text)
}

fn stamp() -> Stamp {
    Stamp { version: Version { count: 2, by: 3 }, writer: 4, write: 5 }
}

fn records() -> Vec<Record> {
    vec![
        Record { key: key(1), stamp: stamp(), lifetime_ms: 6, value: Some(value("ab")) },
        Record { key: key(2), stamp: stamp(), lifetime_ms: 7, value: None },
        Record { key: key(3), stamp: stamp(), lifetime_ms: 8, value: Some(value("c")) },
    ]
}

fn targets() -> Arc<[Target]> {
    [1, 2].map(|byte| Target { key: key(byte), walk: Walk::None }).into()
}

/// One message of each kind, and its bytes. `K1` to `K3` stand for keys.
fn messages() -> Vec<(Message, &'static str)> {
    let range = Some(Box::new((key(1), key(2))));
    let route = |purpose| Route {
        exchange: 0x0102_0304,
        ttl: 160,
        initiator: n(7),
        is_member: true,
        tag: 0x0900_0000_000a,
        purpose,
        targets: targets(),
    };
    let found = Found {
        exchange: 5,
        segments: vec![Segment { targets: 1, nodes: 2 }, Segment { targets: 2, nodes: 0 }],
        ended: vec![Answer::Here, Answer::Found { version: stamp().version, value: value("v") }],
        nodes: vec![n(8), n(9)],
        walks: vec![Walk::None],
        range: None,
    };
    let answers = vec![
        (key(1), Answer::Delivered),
        (key(2), Answer::Found { version: stamp().version, value: value("xy") }),
        (key(3), Answer::NoRoute),
    ];
    let put = |byte, text: Option<&'static str>| PutItem {
        key: key(byte),
        lifetime_ms: 9,
        after: 16,
        value: text.map(value),
    };
    let bodies: Vec<(Body, &'static str)> = vec![
        (
            Body::Route(route(Purpose::Get)),
            "00 01020304 a0 0000000000000007 01 000009000000000a 01 0002 K1 K2",
        ),
        (
            Body::Route(route(Purpose::Send(Arc::new(value("hi"))))),
            "00 01020304 a0 0000000000000007 01 000009000000000a 03 00000002 0002 K1 K2 6869",
        ),
        (Body::Ack { exchange: 5 }, "01 00000005"),
        (
            Body::Result { tag: 6, answers, range },
            "02 0000000000000006 01 K1 K2 0003 K1 01 K2 02 0000000000000002 0000000000000003 \
             00000002 K3 06 7879",
        ),
        (
            Body::Find {
                exchange: 5,
                is_member: true,
                tag: 6,
                purpose: Purpose::Upkeep,
                targets: targets(),
            },
            "03 00000005 01 0000000000000006 02 0002 K1 K2",
        ),
        (
            Body::Found(Box::new(found)),
            "04 00000005 00 0002 0001 02 0000000000000008 0000000000000009 0002 00 00 02 \
             0000000000000002 0000000000000003 00000001 76",
        ),
        (
            Body::Put {
                exchange: 5,
                is_member: true,
                write: 6,
                items: [put(1, Some("ab")), put(2, None)].into(),
            },
            "05 00000005 01 0000000000000006 0002 K1 00000009 0000000000000010 00000002 \
             K2 00000009 0000000000000010 ffffffff 6162",
        ),
        (
            Body::PutReply {
                exchange: 5,
                answers: vec![
                    PutAnswer::Stored(3),
                    PutAnswer::Elsewhere,
                    PutAnswer::TooLarge,
                    PutAnswer::OverQuota,
                    PutAnswer::Unreplicated,
                    PutAnswer::Superseded,
                    PutAnswer::Busy,
                ],
            },
            "06 00000005 0007 0003 0100 0200 0300 0400 0500 0600",
        ),
        (
            Body::PutReply { exchange: 5, answers: vec![PutAnswer::Unsettled] },
            "06 00000005 0001 0700",
        ),
        (
            Body::PutReply { exchange: 5, answers: vec![PutAnswer::Short(1)] },
            "06 00000005 0001 0801",
        ),
        (
            Body::Result { tag: 6, answers: vec![(key(1), Answer::Unsettled)], range: None },
            "02 0000000000000006 00 0001 K1 08",
        ),
        (
            Body::Copy { exchange: 5, records: records().into() },
            "07 00000005 0003 K1 0000000000000002 0000000000000003 0000000000000004 \
             0000000000000005 00000006 00000002 K2 0000000000000002 0000000000000003 \
             0000000000000004 0000000000000005 00000007 ffffffff K3 0000000000000002 \
             0000000000000003 0000000000000004 0000000000000005 00000008 00000001 6162 63",
        ),
        (
            Body::CopyReply {
                exchange: 5,
                answers: vec![
                    CopyAnswer::Held,
                    CopyAnswer::Newer(stamp()),
                    CopyAnswer::OverQuota,
                    CopyAnswer::Far,
                ],
            },
            "08 00000005 0004 00 01 0000000000000002 0000000000000003 0000000000000004 \
             0000000000000005 02 03",
        ),
        (Body::Fetch { exchange: 5, keys: [key(1), key(3)].into() }, "09 00000005 0002 K1 K3"),
        (
            Body::Fetched { exchange: 5, records: records()[1..2].to_vec(), is_whole: true },
            "0a 00000005 01 0001 K2 0000000000000002 0000000000000003 0000000000000004 \
             0000000000000005 00000007 ffffffff",
        ),
        (
            Body::Summary { exchange: 5, entries: [(key(1), stamp().version)].into() },
            "0b 00000005 0001 K1 0000000000000002 0000000000000003",
        ),
        (
            Body::SummaryReply {
                exchange: 5,
                lacking: vec![0, 2],
                newer: vec![],
                surplus: vec![1],
            },
            "0c 00000005 0002 0000 0002 0000 0001 0001",
        ),
        (
            Body::Ask { exchange: 5, is_member: false, query: TableQuery::Neighbours },
            "0d 00000005 00 00",
        ),
        (
            Body::Ask { exchange: 5, is_member: true, query: TableQuery::Row(3, key(1)) },
            "0d 00000005 01 01 03 K1",
        ),
        (
            Body::Ask { exchange: 5, is_member: true, query: TableQuery::Nearest(key(2)) },
            "0d 00000005 01 02 K2",
        ),
        (
            Body::Answer { exchange: 5, nodes: vec![n(1), n(2)] },
            "0e 00000005 0002 0000000000000001 0000000000000002",
        ),
        (Body::Notify, "0f"),
        (Body::Ping { exchange: 5 }, "10 00000005"),
        (Body::Pong { exchange: 5 }, "11 00000005"),
        (Body::NotMember { exchange: 5 }, "12 00000005"),
        (Body::Goodbye, "13"),
        (Body::Missing { nodes: vec![n(8), n(9)] }, "14 0002 0000000000000008 0000000000000009"),
        (
            Body::PutIf {
                exchange: 5,
                is_member: true,
                write: 6,
                items: [
                    PutIfItem { expect: Expect::Absent, item: put(1, Some("ab")) },
                    PutIfItem { expect: Expect::Version(stamp().version), item: put(2, None) },
                ]
                .into(),
            },
            "15 00000005 01 0000000000000006 0002 00 K1 00000009 0000000000000010 00000002 \
             01 0000000000000002 0000000000000003 K2 00000009 0000000000000010 ffffffff 6162",
        ),
        (
            Body::PutIfReply {
                exchange: 5,
                answers: vec![
                    PutIfAnswer::Stored { version: stamp().version, copies: 3 },
                    PutIfAnswer::Short { version: stamp().version, copies: 1 },
                    PutIfAnswer::Differs(stamp().version),
                    PutIfAnswer::Absent,
                    PutIfAnswer::Elsewhere,
                    PutIfAnswer::TooLarge,
                    PutIfAnswer::OverQuota,
                    PutIfAnswer::Unreplicated,
                    PutIfAnswer::Busy,
                    PutIfAnswer::Unsettled,
                    PutIfAnswer::Conflict,
                ],
            },
            "16 00000005 000b 00 0000000000000002 0000000000000003 03 \
             01 0000000000000002 0000000000000003 01 02 0000000000000002 0000000000000003 \
             03 04 05 06 07 08 09 0a",
        ),
        (
            Body::CopyIf {
                exchange: 5,
                records: [Successor { base: stamp().version, record: records().remove(0) }].into(),
            },
            "17 00000005 0001 0000000000000002 0000000000000003 K1 0000000000000002 \
             0000000000000003 0000000000000004 0000000000000005 00000006 00000002 6162",
        ),
        (
            Body::Scan { exchange: 5, is_member: true, range: (key(1), key(3)) },
            "18 00000005 01 K1 K3",
        ),
        (
            Body::ScanReply {
                exchange: 5,
                answer: ScanAnswer::Page { until: key(2), is_whole: false },
                records: records()[..1].to_vec(),
            },
            "19 00000005 00 K2 00 0001 K1 0000000000000002 0000000000000003 0000000000000004 \
             0000000000000005 00000006 00000002 6162",
        ),
        (
            Body::ScanReply { exchange: 5, answer: ScanAnswer::Elsewhere, records: vec![] },
            "19 00000005 01 0000",
        ),
        (
            Body::ScanReply { exchange: 5, answer: ScanAnswer::Busy, records: vec![] },
            "19 00000005 02 0000",
        ),
        (
            Body::ScanReply { exchange: 5, answer: ScanAnswer::Unsettled, records: vec![] },
            "19 00000005 03 0000",
        ),
        (Body::List { exchange: 5, range: (key(1), key(1)) }, "1a 00000005 K1 K1"),
        (
            Body::Listed { exchange: 5, until: key(3), entries: vec![(key(1), stamp().version)] },
            "1b 00000005 K3 0001 K1 0000000000000002 0000000000000003",
        ),
        (Body::Stat { exchange: 5, is_member: false, key: key(1) }, "1c 00000005 00 K1"),
        (
            Body::StatReply {
                exchange: 5,
                until: Some(key(2)),
                stat: Box::new(NodeStat {
                    contacts: 1,
                    is_settled: true,
                    missing: 2,
                    values: 3,
                    removed: 4,
                    bytes: 6,
                    neighbours: vec![n(8), n(9)],
                }),
            },
            "1d 00000005 01 K2 00000001 01 00000002 00000003 00000004 0000000000000006 0002 \
             0000000000000008 0000000000000009",
        ),
    ];
    let mut messages: Vec<(Message, &'static str)> =
        bodies.into_iter().map(|(body, bytes)| (body.into(), bytes)).collect();
    let address = (n(4), Bytes::from_static(b"a:1"));
    let addresses = Addresses(Some([address].into()));
    messages
        .push((Message { body: Body::Notify, addresses }, "8f 0001 0000000000000004 03 613a31"));
    messages
}

#[test]
fn every_message_has_the_bytes_it_always_had() {
    for (message, expected) in messages() {
        let mut expected = expected.replace(' ', "");
        for byte in 1..=3 {
            expected = expected.replace(&format!("K{byte}"), &hex(&key(byte).to_bytes()));
        }
        let bytes = encode_to_bytes(&message);
        assert_eq!(hex(&bytes), expected, "{message}");
        assert_eq!(bytes.len(), message.wire_len(), "{message}");
        assert_eq!(decode(Algorithm::Kademlia, bytes).as_ref(), Ok(&message), "{message}");
    }
}

/// A bundle of two targets and an answer that names one node, with these walks.
fn with_walks([first, second]: [Walk; 2]) -> [Message; 2] {
    let targets = [(1, first), (2, second)].map(|(byte, walk)| Target { key: key(byte), walk });
    let (exchange, tag, purpose) = (5, 6, Purpose::Get);
    let found = Found {
        exchange,
        segments: vec![Segment { targets: 2, nodes: 1 }],
        ended: vec![],
        nodes: vec![n(8)],
        walks: vec![first, second],
        range: None,
    };
    let find = Body::Find { exchange, is_member: true, tag, purpose, targets: targets.into() };
    [find, Body::Found(Box::new(found))].map(Message::from)
}

#[test]
fn walks_have_the_bytes_they_always_had() {
    let leg = [Leg::Way, Leg::Last].map(Walk::Leg);
    let imaginary = KoordeWalk::Imaginary { prefix: 0x2a5, left: 10, side: Side::Behind };
    let forms = [
        (Algorithm::Chord, leg, ["00", "01"]),
        (Algorithm::Pastry, leg, ["00", "01"]),
        (Algorithm::Koorde, [imaginary, KoordeWalk::Last].map(Walk::Koorde), ["8a02a5", "ff"]),
        (Algorithm::Tapestry, [Walk::None; 2], ["", ""]),
        (Algorithm::Kademlia, [Walk::None; 2], ["", ""]),
    ];
    for (algorithm, walks, [first, second]) in forms {
        let [k1, k2] = [1, 2].map(|byte| hex(&key(byte).to_bytes()));
        let expected = [
            format!("03 00000005 01 0000000000000006 01 0002 {k1} {first} {k2} {second}"),
            format!("04 00000005 00 0001 0002 01 0000000000000008 {first} {second}"),
        ];
        for (message, expected) in with_walks(walks).into_iter().zip(expected) {
            let bytes = encode_to_bytes(&message);
            assert_eq!(hex(&bytes), expected.replace(' ', ""), "{algorithm} {message}");
            assert_eq!(bytes.len(), message.wire_len(), "{algorithm} {message}");
            assert_eq!(decode(algorithm, bytes).as_ref(), Ok(&message), "{algorithm}");
        }
    }
}

#[test]
fn a_message_that_was_cut_short_or_goes_on_is_refused() {
    for (message, _) in messages() {
        let bytes = encode_to_bytes(&message);
        for length in 0..bytes.len() {
            let cut = decode(Algorithm::Kademlia, bytes.slice(..length));
            assert!(cut.is_err(), "{message} cut to {length}");
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        let refused = decode(Algorithm::Kademlia, longer);
        assert_eq!(refused, Err(DecodeError::Trailing(1)), "{message}");
    }
}

fn refusal(bytes: &[u8]) -> DecodeError {
    let decoded = decode(Algorithm::Kademlia, Bytes::copy_from_slice(bytes));
    decoded.expect_err("it must not decode")
}

#[test]
fn each_bad_field_is_named() {
    let bad = |field: &'static str, value: u64| DecodeError::OutOfRange { field, value };
    assert_eq!(refusal(&[30]), DecodeError::UnknownTag(30));
    let fetch = |count: [u8; 2], keys: &[Key]| {
        let mut bytes = vec![9, 0, 0, 0, 5];
        bytes.extend(count);
        keys.iter().for_each(|key| bytes.extend(key.to_bytes()));
        refusal(&bytes)
    };
    // Counts that promise more than there is cost no memory.
    assert_eq!(fetch([0xff, 0xff], &[]), bad("count", 0xffff));
    assert_eq!(fetch([4, 1], &[]), bad("count", 1025));
    assert_eq!(fetch([4, 0], &[]), DecodeError::Truncated { need: 1024 * 20, have: 0 });
    assert_eq!(fetch([0, 2], &[key(2), key(1)]), bad("order", 1));
    assert_eq!(fetch([0, 2], &[key(1), key(1)]), bad("order", 1));
    assert_eq!(refusal(&[13, 0, 0, 0, 5, 2, 0]), bad("member", 2));
    assert_eq!(refusal(&[13, 0, 0, 0, 5, 1, 3]), bad("table query", 3));
    assert_eq!(refusal(&[13, 0, 0, 0, 5, 1, 1, 40]), bad("row", 40));
    assert_eq!(refusal(&[6, 0, 0, 0, 5, 0, 1, 9, 0]), bad("put answer", 9));
    assert_eq!(refusal(&[6, 0, 0, 0, 5, 0, 1, 1, 1]), bad("copies", 1));
    assert_eq!(refusal(&[8, 0, 0, 0, 5, 0, 1, 4]), bad("copy answer", 4));
    let put_if = [21, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0, 6, 0, 1];
    let no_room = [&put_if[..], &[2]].concat();
    assert_eq!(refusal(&no_room), DecodeError::Truncated { need: 37, have: 1 });
    assert_eq!(refusal(&[&put_if[..], &[2; 40]].concat()), bad("condition", 2));
    assert_eq!(refusal(&[22, 0, 0, 0, 5, 0, 1, 11]), bad("conditional answer", 11));
    let range =
        |tag: &[u8], keys: [Key; 2]| refusal(&[tag, &keys.map(Key::to_bytes).concat()].concat());
    assert_eq!(range(&[24, 0, 0, 0, 5, 1], [key(2), key(1)]), bad("range", 0));
    assert_eq!(range(&[26, 0, 0, 0, 5], [key(2), key(1)]), bad("range", 0));
    assert_eq!(refusal(&[25, 0, 0, 0, 5, 4]), bad("scan answer", 4));
    assert_eq!(refusal(&[25, 0, 0, 0, 5, 2, 4, 1]), bad("count", 1025));
    let stat = [&[29, 0, 0, 0, 5, 0][..], &[0; 4], &[1], &[0; 20], &[0, 65]].concat();
    assert_eq!(refusal(&stat), bad("count", 65));
    assert_eq!(refusal(&[0x8f, 0, 0]), bad("addresses", 0));
    assert_eq!(refusal(&[0x8f, 0, 1, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0]), bad("address", 0));
    assert_eq!(refusal(&[10, 0, 0, 0, 5, 3]), bad("whole", 3));
    assert_eq!(refusal(&[0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 7, 2]), bad("member", 2));
    let head = [0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(refusal(&[&head[..], &[4]].concat()), bad("purpose", 4));
    assert_eq!(refusal(&[&head[..], &[0, 0, 0]].concat()), bad("targets", 0));
    let too_long = [&head[..], &[3, 0, 1, 0, 1]].concat();
    assert_eq!(refusal(&too_long), bad("value", 65_537));
    let found = [4, 0, 0, 0, 5, 0, 0, 1];
    assert_eq!(refusal(&[&found[..], &[0, 0, 0]].concat()), bad("targets", 0));
    assert_eq!(refusal(&[&found[..], &[0, 1, 9]].concat()), bad("nodes", 9));
    assert_eq!(refusal(&[&found[..], &[0, 1, 0, 9]].concat()), bad("answer", 9));
    assert_eq!(refusal(&[4, 0, 0, 0, 5, 2]), bad("range", 2));
}

fn any_key() -> impl Strategy<Value = Key> {
    any::<[u8; 20]>().prop_map(Key::from_bytes)
}

fn any_value() -> impl Strategy<Value = Payload> {
    proptest::collection::vec(any::<u8>(), 0..50).prop_map(Payload::from)
}

fn any_stamp() -> impl Strategy<Value = Stamp> {
    let stamp =
        |(count, by, writer, write)| Stamp { version: Version { count, by }, writer, write };
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(stamp)
}

proptest! {
    #[test]
    fn records_survive_their_encoding(
        items in proptest::collection::btree_map(
            any_key(),
            (any_stamp(), any::<u32>(), proptest::option::of(any_value())),
            0..20,
        ),
        exchange in any::<u32>(),
        is_whole in any::<bool>(),
    ) {
        let record = |(key, (stamp, lifetime_ms, value))| {
            Record { key, stamp, lifetime_ms, value }
        };
        let records: Vec<Record> = items.into_iter().map(record).collect();
        let message: Message = Body::Fetched { exchange, records, is_whole }.into();
        let bytes = encode_to_bytes(&message);
        prop_assert_eq!(bytes.len(), message.wire_len());
        prop_assert_eq!(decode(Algorithm::Kademlia, bytes), Ok(message));
    }

    #[test]
    fn targets_with_walks_survive_their_encoding(
        keys in proptest::collection::btree_set(any_key(), 1..30),
        lefts in proptest::collection::vec(0u8..=64, 30),
        prefix in any::<u64>(),
    ) {
        let space = Space::new(5);
        let oracle = Oracle::new(space, (0..200).map(NodeId));
        let mut router = Koorde::new(space, n(3), Shape::default());
        router.fill(oracle.ring());
        let target = |(key, _): (Key, u8)| {
            let mut walk = Algorithm::Koorde.first_walk();
            router.next_hop(key, &mut walk);
            Target { key, walk }
        };
        let _ = prefix;
        let targets: Arc<[Target]> = keys.into_iter().zip(lefts).map(target).collect();
        let (exchange, tag, purpose) = (1, 2, Purpose::Get);
        let body = Body::Find { exchange, is_member: true, tag, purpose, targets };
        let message: Message = body.into();
        let bytes = encode_to_bytes(&message);
        prop_assert_eq!(bytes.len(), message.wire_len());
        prop_assert_eq!(decode(Algorithm::Koorde, bytes), Ok(message));
    }

    #[test]
    fn whatever_decodes_encodes_to_the_same_bytes(
        tag in 0u8..30,
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1u8), any::<u8>()], 0..120),
    ) {
        let bytes = Bytes::from([&[tag][..], &bytes].concat());
        if let Ok(message) = decode(Algorithm::Kademlia, bytes.clone()) {
            prop_assert_eq!(encode_to_bytes(&message), bytes);
        }
    }
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../../docs/protocols/overlay.md");
    assert_eq!(laws::documented(&Body::rows::<()>(), page), Vec::from_iter(0..=29));
}
