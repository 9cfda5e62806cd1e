//! The encoding: round trips, damage, and what it always was.

use proptest::prelude::*;

use super::*;
use crate::core::{DecodeError, encode_to_bytes, laws};

fn any_frame() -> impl Strategy<Value = Frame> {
    let place = (1u16.., any::<u16>(), 0..=u64::MAX / 2 - u64::from(u16::MAX));
    let hop = (any::<u32>(), any::<u64>(), any::<u32>());
    let payload = prop::collection::vec(any::<u8>(), 0..200);
    (any::<u64>(), any::<u32>(), any::<u64>(), place, 0u8..4, hop, payload).prop_map(
        |(view, origin, incarnation, (count, index, seq), topology, hop, payload)| {
            let index = index % count;
            let (stable_lag, link, hops_left) = hop;
            signed(Frame {
                view: ViewId(view),
                origin,
                incarnation,
                seq: seq + u64::from(index),
                index,
                count,
                topology: Topology::from_code(topology).expect("below 4"),
                checksum: 0,
                stable_lag,
                link,
                hops_left,
                payload: Payload::from(payload),
            })
        },
    )
}

fn any_message() -> impl Strategy<Value = Message> {
    let word = any::<u64>();
    prop_oneof![
        any_frame().prop_map(Message::Data),
        (word, word, word, word).prop_map(|(view, incarnation, received, consumed)| {
            Message::Ack { view: ViewId(view), incarnation, received, consumed }
        }),
        (word, word, word).prop_map(|(view, incarnation, stable)| Message::Stable {
            view: ViewId(view),
            incarnation,
            stable
        }),
        (word, word).prop_map(|(view, next)| Message::LinkAck { view: ViewId(view), next }),
        (word, word).prop_map(|(view, next)| Message::Resync { view: ViewId(view), next }),
        (word, word).prop_map(|(view, next)| Message::Resume { view: ViewId(view), next }),
        (word, word).prop_map(|(view, link)| Message::Skip { view: ViewId(view), link }),
        (word, word)
            .prop_map(|(view, incarnation)| Message::Probe { view: ViewId(view), incarnation }),
        (word, word, word, word).prop_map(|(view, incarnation, blocks, bytes)| {
            Message::Owed { view: ViewId(view), incarnation, blocks, bytes }
        }),
    ]
}

fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
    laws::decode(bytes)
}

proptest! {
    #[test]
    fn every_message_survives_its_encoding(message in any_message()) {
        laws::survives(&message)?;
    }

    #[test]
    fn a_message_cut_short_or_too_long_is_refused(message in any_message()) {
        laws::ends_where_it_ends(&message)?;
    }

    #[test]
    fn arbitrary_bytes_are_a_message_in_its_only_form_or_refused(
        tag in 0u8..10, tail in prop::collection::vec(any::<u8>(), 0..120)
    ) {
        laws::has_one_form::<Message>(&[&[tag][..], &tail].concat())?;
    }

    #[test]
    fn a_flipped_bit_in_what_is_the_same_on_every_hop_is_noticed(
        frame in any_frame(), place in any::<prop::sample::Index>(), bit in 0u8..8
    ) {
        let mut bytes = encode_to_bytes(&Message::Data(frame)).to_vec();
        // Bytes 38 to 53 change from hop to hop; the stream guards them.
        let covered: Vec<usize> = (1..38).chain(54..bytes.len()).collect();
        bytes[covered[place.index(covered.len())]] ^= 1 << bit;
        let refused = matches!(
            decode(&bytes),
            Err(DecodeError::Checksum | DecodeError::OutOfRange { .. })
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
        payload: Payload::from("block"),
    });
    let ack = Message::Ack { view: ViewId(1), incarnation: 2, received: 3, consumed: 0x0400 };
    let hex = |message: &Message| -> String {
        encode_to_bytes(message).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let expected = [
        "00 0000000000000001 00000002 0102030405060708 000000000000012c 0004 0005 02 21686a61",
        "00000006 0000000000000007 00000008 626c6f636b",
    ];
    assert_eq!(hex(&Message::Data(frame)), expected.concat().replace(' ', ""));
    let expected = "01 0000000000000001 0000000000000002 0000000000000003 0000000000000400";
    assert_eq!(hex(&ack), expected.replace(' ', ""));
    let owed = Message::Owed { view: ViewId(1), incarnation: 2, blocks: 3, bytes: 0x0400 };
    let expected = "08 0000000000000001 0000000000000002 0000000000000003 0000000000000400";
    assert_eq!(hex(&owed), expected.replace(' ', ""));
}
