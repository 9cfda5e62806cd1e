//! The encoding: round trips, damage, and what it always was.

use proptest::prelude::*;

use super::*;
use crate::core::laws::{self, hex};
use crate::core::{DecodeError, encode_to_bytes};

fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    laws::decode(bytes)
}

laws::laws!(Message, laws::any_of::<Message>(), 0u8..10);

proptest! {
    #[test]
    fn a_flipped_bit_in_what_is_the_same_on_every_hop_is_noticed(
        frame in laws::any_of::<Frame>(), place in any::<prop::sample::Index>(), bit in 0u8..8
    ) {
        let mut bytes = encode_to_bytes(&Message::Data(frame)).to_vec();
        // Bytes 38 to 53 change from hop to hop; the stream guards them.
        let covered: Vec<usize> = (1..38).chain(54..bytes.len()).collect();
        bytes[covered[place.index(covered.len())]] ^= 1 << bit;
        let refused = matches!(
            decode(&bytes),
            Err(
                DecodeError::Checksum
                    | DecodeError::OutOfRange { .. }
                    | DecodeError::Truncated { .. }
            )
        );
        prop_assert!(refused);
    }
}

#[test]
fn a_damaged_payload_is_a_checksum_error() {
    let mut bytes = encode_to_bytes(&Message::Data(frame(0, 0, 0))).to_vec();
    *bytes.last_mut().unwrap() ^= 1;
    assert_eq!(decode(&bytes), Err(DecodeError::Checksum));
}

#[test]
fn the_encoding_is_what_it_always_was() {
    let frame = signed(Frame {
        view: ViewId(1),
        origin: 2,
        incarnation: 0x0102_0304_0506_0708,
        seq: 300,
        index: 4,
        count: 5,
        topology: Topology::Tree,
        checksum: 0,
        stable_lag: 6,
        link: 7,
        hops_left: 8,
        lengths: Lengths::default(),
        payload: Payload::from("block"),
    });
    let bundle =
        signed(Frame { index: 0, count: 1, lengths: Lengths::of(vec![2, 0, 3]), ..frame.clone() });
    let view = ViewId(1);
    let golden = [
        (Message::Data(frame), GOLDEN[0]),
        (Message::Ack { view, incarnation: 2, received: 3, consumed: 0x0400 }, GOLDEN[1]),
        (Message::Stable { view, incarnation: 2, stable: 3 }, GOLDEN[2]),
        (Message::LinkAck { view, next: 2 }, GOLDEN[3]),
        (Message::Resync { view, next: 2 }, GOLDEN[4]),
        (Message::Resume { view, next: 2 }, GOLDEN[5]),
        (Message::Skip { view, link: 2 }, GOLDEN[6]),
        (Message::Probe { view, incarnation: 2 }, GOLDEN[7]),
        (Message::Unconsumed { view, incarnation: 2, blocks: 3, bytes: 0x0400 }, GOLDEN[8]),
        (Message::Data(bundle), GOLDEN[9]),
    ];
    for (message, expected) in golden {
        assert_eq!(hex(&message), expected.replace(' ', ""), "{message}");
    }
}

const GOLDEN: [&str; 10] = [
    "00 0000000000000001 00000002 0102030405060708 000000000000012c 0004 0005 02 c00d8f55 \
     00000006 0000000000000007 00000008 0000 626c6f636b",
    "01 0000000000000001 0000000000000002 0000000000000003 0000000000000400",
    "02 0000000000000001 0000000000000002 0000000000000003",
    "03 0000000000000001 0000000000000002",
    "04 0000000000000001 0000000000000002",
    "05 0000000000000001 0000000000000002",
    "06 0000000000000001 0000000000000002",
    "07 0000000000000001 0000000000000002",
    "08 0000000000000001 0000000000000002 0000000000000003 0000000000000400",
    "00 0000000000000001 00000002 0102030405060708 000000000000012c 0000 0001 02 632c39fc \
     00000006 0000000000000007 00000008 0003 0002 0000 0003 626c6f636b",
];

#[test]
fn lengths_that_do_not_fit_the_block_are_refused() {
    let block = |lengths: Vec<u16>, count: u16| {
        let lengths = Lengths::of(lengths);
        let payload = Payload::Zeros(10);
        signed(Frame { count, lengths, payload, ..frame(0, 1, 0) })
    };
    let decoded = |frame| decode(&encode_to_bytes(&Message::Data(frame)));
    assert!(decoded(block(vec![4, 0, 6], 1)).is_ok());
    let out_of_range = Err(DecodeError::OutOfRange { field: "lengths", value: 10 });
    for (lengths, count) in
        [(vec![4, 5], 1), (vec![4, 7], 1), (vec![u16::MAX; 2], 1), (vec![4, 6], 2)]
    {
        assert_eq!(decoded(block(lengths, count)), out_of_range);
    }
    // A bundle of one message, and one of more messages than are there.
    let mut bytes = encode_to_bytes(&Message::Data(block(vec![4, 6], 1))).to_vec();
    for (count, error) in [
        (1, DecodeError::OutOfRange { field: "count", value: 1 }),
        (1025, DecodeError::OutOfRange { field: "count", value: 1025 }),
        (1000, DecodeError::Truncated { need: 2000, have: 14 }),
    ] {
        bytes[54..56].copy_from_slice(&u16::to_be_bytes(count));
        assert_eq!(decode(&bytes), Err(error));
    }
}

#[test]
fn lines_of_a_trace_are_these() {
    let view = ViewId(1);
    let lines = [
        (
            Message::Data(frame(0, 0, 0)),
            "data v0 origin 0 seq 0 (1/1) chain link 0 hops 2 stable -0 10 B",
        ),
        (Message::LinkAck { view, next: 2 }, "link-ack v1 next 2"),
        (
            Message::Unconsumed { view, incarnation: 2, blocks: 3, bytes: 4 },
            "unconsumed v1 3 blocks 4 B",
        ),
    ];
    for (message, line) in lines {
        assert_eq!(message.to_string(), line);
    }
}

#[test]
fn the_documentation_has_all_messages_as_they_are() {
    let page = include_str!("../../../../../docs/protocols/chain.md");
    assert_eq!(laws::documented(&Message::rows(), page), Vec::from_iter(0..=8));
}
