//! The encoding: round trips, damaged input, and fixed bytes.

use paceline_proto::core::laws::{self, hex};
use paceline_proto::core::{DecodeError, encode_to_bytes};
use proptest::prelude::*;

use super::*;
use crate::bench::{any_data, any_names, any_supply, codec_laws};

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any_data().prop_map(Message::Data),
        (0u64..2, any_names(), any_data()).prop_map(|(view, names, data)| Message::Digest {
            view: ViewId(view),
            names,
            data
        }),
        (0u64..2, any_names()).prop_map(|(view, names)| Message::Ask { view: ViewId(view), names }),
        (0u32..2, 0u64..110, 0..=u64::MAX / 2).prop_map(|(group, incarnation, next)| {
            Message::Heartbeat(Heartbeat { group: GroupId(group), incarnation, next })
        }),
        any_supply().prop_map(Message::Supply),
    ]
}

fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    laws::decode(bytes)
}

codec_laws!(any_message(), 5);

proptest! {
    #[test]
    fn no_message_of_a_member_makes_another_one_panic(
        messages in prop::collection::vec((0u32..5, any_message()), 1..30)
    ) {
        let mut bench = Bench::nak(Config::digest(base(4)));
        for (from, message) in messages {
            bench.message(from, message);
            bench.pass(ms(1));
        }
        prop_assert!(bench.node.packets_missing() <= 4096);
        bench.pass(ms(1_000));
        prop_assert_eq!(bench.node.packets_missing(), 0, "each was lost in the end");
    }
}

#[test]
fn each_bad_field_has_its_error() {
    let beat = Message::Heartbeat(Heartbeat { group: G, incarnation: 1, next: 1 });
    let mut bytes = encode_to_bytes(&beat).to_vec();
    bytes[13] = 0x80;
    assert!(matches!(decode(&bytes), Err(DecodeError::OutOfRange { field: "seq", .. })));
    let mut data = encode_to_bytes(&Message::Data(packet(G, 1, 1))).to_vec();
    *data.last_mut().unwrap() ^= 1;
    assert_eq!(decode(&data), Err(DecodeError::Checksum));
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let (view, data) = (ViewId(1), packet(G, 1, 0));
    let golden = [
        (Message::Data(data.clone()), GOLDEN[0]),
        (Message::Digest { view, names: names(&[(2, 3)]), data: data.clone() }, GOLDEN[1]),
        (Message::Ask { view, names: names(&[(2, 3), (4, 5)]) }, GOLDEN[2]),
        (Message::Heartbeat(Heartbeat { group: G, incarnation: 9, next: 10 }), GOLDEN[3]),
        (Message::Supply(Supply { view, rank: 6, data }), GOLDEN[4]),
    ];
    for (message, expected) in golden {
        assert_eq!(hex(&message), expected.replace(' ', ""), "{message}");
    }
}

const GOLDEN: [&str; 5] = [
    "00 00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
    "01 0000000000000001 01 00000000 01 0002 00000003 c03d64b5 \
     00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
    "02 0000000000000001 01 00000000 02 0002 00000003 c03d64b5 0004 00000005 823792a0",
    "03 00000000 0000000000000009 000000000000000a",
    "04 0000000000000001 0006 \
     00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
];

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/slingshot.md");
    let section = laws::section(page, "#### Messages of NAK");
    assert_eq!(laws::documented(&Message::rows(), section), Vec::from_iter(0..=4));
}
