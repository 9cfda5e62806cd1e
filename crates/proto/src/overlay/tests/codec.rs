//! The encoding of walks: round trips, refused input, and fixed bytes.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::core::{DecodeError, decode_exact, encode_to_bytes};

fn walk() -> impl Strategy<Value = KoordeWalk> {
    prop_oneof![
        Just(KoordeWalk::Start),
        Just(KoordeWalk::Last),
        (0u8..=64, any::<u64>(), any::<bool>()).prop_map(|(left, prefix, ahead)| {
            let prefix = prefix.checked_shr(64 - u32::from(left)).unwrap_or(0);
            KoordeWalk::Imaginary {
                prefix,
                left,
                side: if ahead { Side::Ahead } else { Side::Behind },
            }
        }),
    ]
}

proptest! {
    #[test]
    fn a_walk_survives_its_encoding_and_no_other_length(walk in walk()) {
        let bytes = encode_to_bytes(&walk);
        prop_assert_eq!(bytes.len(), crate::core::Wire::wire_len(&walk));
        prop_assert_eq!(decode_exact::<KoordeWalk>(bytes.clone()).unwrap(), walk);
        prop_assert!(decode_exact::<KoordeWalk>(bytes.slice(..bytes.len() - 1)).is_err());
        prop_assert!(decode_exact::<KoordeWalk>([&bytes[..], &[0]].concat().into()).is_err());
    }

    #[test]
    fn bytes_are_a_walk_of_this_form_or_none(bytes in prop::collection::vec(any::<u8>(), 0..11)) {
        let bytes = Bytes::from(bytes);
        if let Ok(walk) = decode_exact::<KoordeWalk>(bytes.clone()) {
            prop_assert_eq!(encode_to_bytes(&walk), bytes.clone());
        }
        if let Ok(leg) = decode_exact::<Leg>(bytes.clone()) {
            prop_assert_eq!(encode_to_bytes(&leg), bytes);
        }
    }
}

#[test]
fn forms_are_these() {
    let hex = |bytes: Bytes| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let imaginary = |prefix, left, side| KoordeWalk::Imaginary { prefix, left, side };
    assert_eq!(hex(encode_to_bytes(&Leg::Way)), "00");
    assert_eq!(hex(encode_to_bytes(&Leg::Last)), "01");
    assert_eq!(hex(encode_to_bytes(&KoordeWalk::Start)), "fe");
    assert_eq!(hex(encode_to_bytes(&KoordeWalk::Last)), "ff");
    assert_eq!(hex(encode_to_bytes(&imaginary(0, 0, Side::Ahead))), "00");
    assert_eq!(hex(encode_to_bytes(&imaginary(0x2a5, 10, Side::Ahead))), "0a02a5");
    assert_eq!(hex(encode_to_bytes(&imaginary(0x2a5, 10, Side::Behind))), "8a02a5");
}

#[test]
fn each_bad_field_has_its_error() {
    let walk =
        |bytes: &'static [u8]| decode_exact::<KoordeWalk>(Bytes::from_static(bytes)).unwrap_err();
    let leg = |bytes: &'static [u8]| decode_exact::<Leg>(Bytes::from_static(bytes)).unwrap_err();
    let out_of_range = |field, value| DecodeError::OutOfRange { field, value };
    assert_eq!(walk(&[65]), out_of_range("bits left", 65));
    assert_eq!(walk(&[0xc1]), out_of_range("bits left", 65));
    assert_eq!(walk(&[10, 4, 0]), out_of_range("prefix", 0x400));
    assert_eq!(walk(&[10, 4]), DecodeError::Truncated { need: 2, have: 1 });
    assert_eq!(walk(&[]), DecodeError::Truncated { need: 1, have: 0 });
    assert_eq!(leg(&[2]), out_of_range("leg", 2));
    assert_eq!(leg(&[0, 0]), DecodeError::Trailing(1));
}
