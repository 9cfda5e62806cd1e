//! What goes on the wire.

use bytes::Bytes;

use super::Message;
use crate::core::laws::{self, hex};
use crate::core::{DecodeError, GroupId, Payload, ViewId, Wire, decode_exact, encode_to_bytes};
use crate::{group, slingshot};

fn messages() -> [(Message, &'static str); 2] {
    let payload = Payload::from("packet");
    let checksum = slingshot::checksum(GroupId(3), 0x66, 300, &payload);
    let (group, framing) = (GroupId(3), slingshot::Framing::Whole);
    let data = slingshot::Data { group, incarnation: 0x66, seq: 300, framing, checksum, payload };
    [
        (Message::Group(group::Message::Excluded { view: ViewId(7) }), GOLDEN[0]),
        (Message::Slingshot(slingshot::Message::Data(data)), GOLDEN[1]),
    ]
}

const GOLDEN: [&str; 2] = [
    "00 0e 0000000000000007",
    "01 00 00000003 0000000000000066 000000000000012c b795028a 7061636b6574",
];

#[test]
fn the_encoding_is_what_it_always_was() {
    for (message, golden) in messages() {
        let bytes = encode_to_bytes(&message);
        assert_eq!(bytes.len(), message.wire_len());
        assert_eq!(hex(&message), golden.replace(' ', ""), "{message}");
        assert_eq!(decode_exact::<Message>(bytes).unwrap(), message);
    }
}

#[test]
fn other_tags_and_short_messages_are_refused() {
    let decoded = decode_exact::<Message>(Bytes::from_static(&[2, 0, 0]));
    assert_eq!(decoded.unwrap_err(), DecodeError::UnknownTag(2));
    for (message, _) in messages() {
        let bytes = encode_to_bytes(&message);
        for end in 0..bytes.len() {
            assert!(decode_exact::<Message>(bytes.slice(..end)).is_err(), "{message} cut at {end}");
        }
    }
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../docs/protocols/slingshot.md");
    let section = laws::section(page, "### Messages of members that agree on views");
    assert_eq!(laws::documented(&Message::rows(), section), [0, 1]);
}
