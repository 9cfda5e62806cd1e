//! The encoding: round trips, damaged input, and fixed bytes.

use paceline_proto::core::laws::{self, hex};
use paceline_proto::core::{DecodeError, GroupId, encode_to_bytes};
use proptest::prelude::*;

use super::*;
use crate::bench::{any_data, any_names, any_supply, codec_laws};

fn any_session() -> impl Strategy<Value = Session> {
    let reached = (0u16..5, 0u32..110, any::<u32>()).prop_map(|(rank, life, last)| Reached {
        rank,
        life,
        last,
    });
    let echo = (any::<u16>(), any::<u64>(), any::<u32>()).prop_map(|(rank, stamp, held_us)| Echo {
        rank,
        stamp,
        held_us,
    });
    let head = (0u64..2, 0u32..2, 0u64..110, 0..=u64::MAX / 2, any::<u64>());
    let lists = (prop::collection::vec(reached, 0..9), prop::collection::vec(echo, 0..9));
    (head, lists).prop_map(|((view, group, incarnation, next, stamp), (reached, echoes))| {
        let (view, group) = (ViewId(view), GroupId(group));
        Session { view, group, incarnation, next, stamp, reached, echoes }
    })
}

fn any_message() -> impl Strategy<Value = Message> {
    prop_oneof![
        any_data().prop_map(Message::Data),
        any_session().prop_map(Message::Session),
        (0u64..2, any::<u32>(), any_names()).prop_map(|(view, distance_us, names)| {
            Message::Request { view: ViewId(view), distance_us, names }
        }),
        (any::<u32>(), any_supply())
            .prop_map(|(distance_us, supply)| Message::Repair { distance_us, supply }),
    ]
}

fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    laws::decode(bytes)
}

codec_laws!(any_message(), 4);

proptest! {
    #[test]
    fn no_message_of_a_member_makes_another_one_panic(
        messages in prop::collection::vec((0u32..5, any_message()), 1..30)
    ) {
        let mut bench = Bench::srm(config(4));
        for (from, message) in messages {
            bench.message(from, message);
            bench.pass(ms(700));
        }
        prop_assert!(bench.node.packets_missing() <= 4096);
    }
}

#[test]
fn each_bad_field_has_its_error() {
    let mut bytes = encode_to_bytes(&Message::Session(session(1, 1))).to_vec();
    bytes[37] = 0xff;
    let refused = decode(&bytes);
    assert!(matches!(refused, Err(DecodeError::OutOfRange { field: "reached", .. })));
    (bytes[37], bytes[39]) = (0, 0xff);
    let refused = decode(&bytes);
    assert!(matches!(refused, Err(DecodeError::OutOfRange { field: "echoes", .. })));
    (bytes[39], bytes[21]) = (0, 0x80);
    assert!(matches!(decode(&bytes), Err(DecodeError::OutOfRange { field: "seq", .. })));
    let mut data = encode_to_bytes(&Message::Data(packet(G, 1, 1))).to_vec();
    *data.last_mut().unwrap() ^= 1;
    assert_eq!(decode(&data), Err(DecodeError::Checksum));
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let reached = vec![Reached { rank: 2, life: 3, last: 4 }];
    let echoes = vec![Echo { rank: 5, stamp: 6, held_us: 7 }];
    let supply = Supply { view: ViewId(1), rank: 6, data: packet(G, 1, 0) };
    let golden = [
        (Message::Data(packet(G, 1, 0)), GOLDEN[0]),
        (Message::Session(Session { reached, echoes, stamp: 8, ..session(1, 9) }), GOLDEN[1]),
        (request(2, 3), GOLDEN[2]),
        (Message::Repair { distance_us: 10, supply }, GOLDEN[3]),
    ];
    for (message, expected) in golden {
        assert_eq!(hex(&message), expected.replace(' ', ""), "{message}");
    }
}

const GOLDEN: [&str; 4] = [
    "00 00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
    "01 0000000000000000 00000000 0000000000000065 0000000000000009 0000000000000008 0001 0001 \
     0002 00000003 00000004 0005 0000000000000006 00000007",
    "02 0000000000000000 00000001 01 00000000 01 0002 00000003 00000000",
    "03 0000000a 0000000000000001 0006 \
     00000000 0000000000000065 0000000000000000 e6b481d8 10101010101010101010",
];

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/slingshot.md");
    let section = laws::section(page, "#### Messages of SRM");
    assert_eq!(laws::documented(&Message::rows(), section), Vec::from_iter(0..=3));
}
