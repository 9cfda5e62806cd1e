//! The encoding: round trips, damage, and its bytes.

use paceline_proto::core::laws::{self, hex};
use paceline_proto::core::{DecodeError, encode_to_bytes};
use proptest::prelude::*;

use super::*;
use crate::bench::{any_data, any_names, any_of, any_supply};

laws::laws!(Message, any_of::<Message>(), 0u8..5);

/// Messages of members that know the groups and views of the one under test.
fn message_of_a_member() -> impl Strategy<Value = Message> {
    let origin = (0u16..6, 0u32..110, 0u32..60, prop::collection::vec(1u16..9, 1..6));
    let origin = origin.prop_map(|(rank, life, last, mut runs)| {
        runs.truncate(runs.len() - 1 + runs.len() % 2);
        Origin { rank, life, last, runs }
    });
    let origins = prop::collection::vec(origin, 1..5);
    prop_oneof![
        any_data().prop_map(Message::Data),
        (0u32..4, 0u64..2, 0u32..2, origins).prop_map(|(round, view, group, origins)| {
            Message::Digest { round, view: ViewId(view), group: GroupId(group), origins }
        }),
        (0u32..4, 0u64..2, any_names()).prop_map(|(round, view, names)| {
            Message::Solicit { round, view: ViewId(view), names }
        }),
        any_supply().prop_map(Message::Retransmission),
    ]
}

proptest! {
    #[test]
    fn no_message_of_a_member_makes_another_one_panic(
        messages in prop::collection::vec((0u32..5, message_of_a_member()), 1..30)
    ) {
        let mut bench = Bench::gossip(config(4));
        for (from, message) in messages {
            bench.message(from, message);
            bench.pass(ms(1));
        }
        prop_assert!(bench.node.packets_missing() <= 4096);
        bench.pass(ms(2_000));
        prop_assert_eq!(bench.node.packets_missing(), 0, "each was lost in the end");
        prop_assert_eq!(bench.node.packets_held(), (0, 0), "each left the buffer in the end");
        prop_assert!(bench.outbox.timers.is_empty(), "at rest");
    }
}

#[test]
fn each_bad_field_has_its_error() {
    let refused = |change: fn(&mut Vec<u8>)| {
        let mut bytes = encode_to_bytes(&digest(3, &[origin(1, 9, &[2, 1, 3])])).to_vec();
        change(&mut bytes);
        laws::decode::<Message>(&bytes)
    };
    let out_of_range = |field, value| Err(DecodeError::OutOfRange { field, value });
    assert_eq!(refused(|bytes| bytes[0] = 4), Err(DecodeError::UnknownTag(4)));
    assert_eq!(refused(|bytes| bytes[18] = 0), out_of_range("count", 0));
    // The runs begin at 29 with their count.
    assert_eq!(refused(|bytes| bytes[30] = 0), out_of_range("count", 0));
    assert_eq!(refused(|bytes| bytes[34] = 0), out_of_range("runs", 0));
    let of_two = |bytes: &mut Vec<u8>| {
        bytes[30] = 2;
        bytes.truncate(35);
    };
    assert_eq!(refused(of_two), out_of_range("runs", 2));
    let mut data = encode_to_bytes(&Message::Data(packet(G, 1, 1))).to_vec();
    *data.last_mut().unwrap() ^= 1;
    assert_eq!(laws::decode::<Message>(&data), Err(DecodeError::Checksum));
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let supply = Supply { view: ViewId(2), rank: 1, data: packet(G, 1, 0) };
    let golden = [
        (
            Message::Data(packet(G, 1, 0)),
            "00 00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
        ),
        (
            digest(3, &[origin(1, 9, &[2, 1, 3]), origin(2, 4, &[5])]),
            "01 00000003 0000000000000000 00000000 0002 \
             0001 00000065 00000009 0003 0002 0001 0003 0002 00000066 00000004 0001 0005",
        ),
        (
            solicit(3, &[(1, 7), (2, 5)]),
            "02 00000003 0000000000000000 01 00000000 02 \
             0001 00000007 00000000 0002 00000005 00000000",
        ),
        (
            Message::Retransmission(supply),
            "03 0000000000000002 0001 \
             00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
        ),
    ];
    for (message, expected) in golden {
        assert_eq!(hex(&message), expected.replace(' ', ""), "{message}");
    }
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/slingshot.md");
    let section = laws::section(page, "#### Messages of gossip");
    assert_eq!(laws::documented(&Message::rows(), section), Vec::from_iter(0..=3));
}
