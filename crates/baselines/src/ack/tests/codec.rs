//! The encoding: round trips, damage, and its bytes.

use paceline_proto::core::laws::{self, hex};
use paceline_proto::core::{DecodeError, encode_to_bytes};
use proptest::prelude::*;

use super::*;
use crate::bench::{any_data, codec_laws};

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any_data().prop_map(Message::Data),
        any_data().prop_map(Message::Again),
        (0u32..2, 0u64..110, 0..=u64::MAX / 2).prop_map(|(group, incarnation, seq)| {
            Message::Ack { group: GroupId(group), incarnation, seq }
        }),
    ]
}

codec_laws!(any_message(), 3);

proptest! {
    #[test]
    fn no_message_of_a_member_makes_another_one_panic(
        messages in prop::collection::vec((0u32..5, any_message()), 1..30)
    ) {
        let mut bench = Bench::ack(config(4));
        bench.command(Command::multicast("own"));
        for (from, message) in messages {
            bench.message(from, message);
            bench.pass(ms(1));
        }
        prop_assert!(bench.node.packets_missing() <= 4096);
        bench.pass(ms(1_000));
        prop_assert_eq!(bench.node.packets_missing(), 0, "each was lost in the end");
        prop_assert_eq!(bench.node.packets_pending(), 0, "each was given up in the end");
    }
}

#[test]
fn each_bad_field_has_its_error() {
    let ack = Message::Ack { group: G, incarnation: 1, seq: 1 };
    let mut bytes = encode_to_bytes(&ack).to_vec();
    bytes[13] = 0x80;
    let error = laws::decode::<Message>(&bytes);
    assert!(matches!(error, Err(DecodeError::OutOfRange { field: "seq", .. })), "{error:?}");
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let golden = [
        (
            Message::Data(packet(G, 1, 0)),
            "00 00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
        ),
        (
            Message::Again(packet(G, 1, 0)),
            "01 00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
        ),
        (
            Message::Ack { group: G, incarnation: 9, seq: 10 },
            "02 00000000 0000000000000009 000000000000000a",
        ),
    ];
    for (message, expected) in golden {
        assert_eq!(hex(&message), expected.replace(' ', ""), "{message}");
    }
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/slingshot.md");
    let section = laws::section(page, "#### Messages of ACK");
    assert_eq!(laws::documented(&Message::rows(), section), Vec::from_iter(0..=2));
}
