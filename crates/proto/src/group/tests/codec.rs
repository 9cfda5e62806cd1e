//! The encoding: round trips, damage, and what it always was.

use proptest::prelude::*;

use super::{Message, messages};
use crate::core::laws::{self, decode, documented, hex};
use crate::core::{DecodeError, encode_to_bytes};

fn any_message() -> impl Strategy<Value = Message> {
    // The detector's packets end with the message: its own tests cut them short.
    let has_end = |message: &Message| !matches!(message, Message::Detector(_));
    laws::any_of::<Message>().prop_filter("has an end", has_end)
}

laws::laws!(Message, any_message(), 0u8..23);

#[test]
fn the_encoding_is_what_it_always_was() {
    let forms: Vec<String> = messages().iter().map(|(message, _)| hex(message)).collect();
    assert_eq!(forms, GOLDEN.map(|form| form.replace(' ', "")));
}

#[test]
fn lines_of_a_trace_are_these() {
    let lines: Vec<String> = messages().iter().map(|(message, _)| message.to_string()).collect();
    assert_eq!(lines, LINES);
}

#[test]
fn each_bad_field_has_its_error() {
    let out_of_range = |field, value| DecodeError::OutOfRange { field, value };
    let refused = |bytes: &[u8]| decode::<Message>(bytes).unwrap_err();
    assert_eq!(refused(&[22]), DecodeError::UnknownTag(22));
    assert_eq!(refused(&[3, 0, 0, 0, 0, 0, 0, 0, 1, 3]), out_of_range("refusal", 3));
    let view = [20, 0, 0, 0, 0, 0, 0, 0, 1];
    assert_eq!(refused(&[&view[..], &[4, 1]].concat()), out_of_range("count", 1025));
    let cut = DecodeError::Truncated { need: 8, have: 1 };
    assert_eq!(refused(&[&view[..], &[0, 2, 0]].concat()), cut);
    let (promise, _) = &messages()[8];
    let mut bytes = encode_to_bytes(promise).to_vec();
    bytes[29] = 2;
    assert_eq!(refused(&bytes), out_of_range("accepted", 2));
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/group.md");
    let mut tags = documented(&Message::rows(), page);
    tags.sort_unstable();
    assert_eq!(tags, Vec::from_iter(0..=21));
}

const GOLDEN: [&str; 26] = [
    "000300000000000000050000000000000001",
    "017377696d",
    "02000000000000000200000200000000000000000080000000000000000020000003613a31",
    "03000000000000000700",
    "03000000000000000701",
    "030000000000000007020000000000000009",
    "0400000000000000050000000000000009",
    "0500000000000000050102030405060708000000030000000000000007",
    "06000000000000000501020304050607080000000300000000000000070100000003000000000000000700 \
     00000300000000000000070100020000000000000002000200000000000000070000070000000000000000 \
     01c000000000000000007000000d31302e302e302e373a3739343600000000000000090000090000000000 \
     0000000240000000000000000090000000000100000002000000000000004d000000020000000000000000 \
     000100000001000000000000000800000000000000020000000000000009",
    "06000000000000000501020304050607080000000300000000000000070000010000000100000000000000 \
     0800000000000000020000000000000009",
    "07000000000000000500000003000000000000000700000003000000000000000701000200000000000000 \
     0200020000000000000007000007000000000000000001c000000000000000007000000d31302e302e302e \
     373a3739343600000000000000090000090000000000000000024000000000000000009000000000010000 \
     0002000000000000004d000000020000000000000000",
    "080000000000000005000000030000000000000007",
    "090000000000000005000000030000000000000007",
    "0a000000000000000500000003000000000000000700010000000000000001000001000000000000000000 \
     40000000000000000010000000",
    "0b0000000000000005",
    "150000000000000005",
    "0c00000000000000050000000100000000000000020000000000000003",
    "0d000000000000000500000001000000000000000400000000000000060000000101eac2b4e80000000000 \
     0000000000000000000001626c6f636b",
    "0e0000000000000005",
    "0f000000000000000501020304050607081112131415161718000000000000012c0001000302faceef626c \
     6f636b",
    "100000000000000001000000000000000200000000000000090000000000000008",
    "1100000000000000010000000000000002",
    "1200000000000000010000000000000002",
    "130000000000000002",
    "14000000000000000500020000000200000103",
    "1400000000000000050000",
];

const LINES: [&str; 26] = [
    "link-ack v5 next 1",
    "detector 4 B",
    "join n2",
    "refused IdInUse",
    "refused Full",
    "refused LinkDead { peer: NodeId(9) }",
    "leave v5",
    "prepare v5 b3.n7",
    "promise v5 b3.n7, accepted b3.n7",
    "promise v5 b3.n7",
    "accept v5 b3.n7: 2 members",
    "accepted v5 b3.n7",
    "rejected v5, b3.n7",
    "install after v5: 1 members",
    "installed v5",
    "present v5",
    "fetch v5 origin 1 2..3",
    "flushed v5 origin 1 seq 6",
    "excluded, v5",
    "direct v5 number 300 (2/3) 5 B",
    "direct-ack received 9 consumed 8",
    "direct-probe",
    "challenge",
    "response",
    "unreachable v5 [2, 259]",
    "unreachable v5 []",
];
