//! Bytes that are no packet: one test for each reason.

use super::*;
use crate::ndn::tlv::kind;

const NONCE: [u8; 6] = [0x0a, 4, 1, 2, 3, 4];

fn interest_of(elements: &[&[u8]]) -> Vec<u8> {
    element(kind::INTEREST, &elements.concat())
}

fn named() -> Vec<u8> {
    element(kind::NAME, &element(kind::GENERIC, b"a"))
}

fn plain_interest() -> Vec<u8> {
    interest_of(&[&named(), &NONCE])
}

fn data_of(elements: &[&[u8]]) -> Vec<u8> {
    element(kind::DATA, &elements.concat())
}

fn lp_of(fields: &[&[u8]]) -> Vec<u8> {
    element(field::LP_PACKET, &fields.concat())
}

fn fragment(value: &[u8]) -> Vec<u8> {
    element(field::FRAGMENT, value)
}

fn out_of_range(field: &'static str, value: u64) -> DecodeError {
    DecodeError::OutOfRange { field, value }
}

const INFO: [u8; 5] = [0x16, 3, 0x1b, 1, 0];
const VALUE: [u8; 2] = [0x17, 0];

#[test]
fn an_interest_without_what_it_must_have_is_refused() {
    for (bytes, error) in [
        (interest_of(&[]), DecodeError::Missing("name")),
        (interest_of(&[&NONCE]), DecodeError::Missing("name")),
        (interest_of(&[&[7, 0], &NONCE]), DecodeError::Missing("name component")),
        (interest_of(&[&named()]), DecodeError::Missing("Nonce")),
    ] {
        assert_eq!(packet(&bytes), Err(error), "{bytes:02x?}");
    }
}

#[test]
fn fields_of_an_interest_have_their_lengths() {
    for (bytes, error) in [
        (interest_of(&[&named(), &[0x0a, 3, 1, 2, 3]]), out_of_range("Nonce", 3)),
        (interest_of(&[&named(), &[0x21, 1, 1], &NONCE]), out_of_range("CanBePrefix", 1)),
        (interest_of(&[&named(), &[0x12, 1, 1], &NONCE]), out_of_range("MustBeFresh", 1)),
        (
            interest_of(&[&named(), &NONCE, &[0x0c, 3, 0, 0, 1]]),
            out_of_range("InterestLifetime", 3),
        ),
        (interest_of(&[&named(), &NONCE, &[0x22, 2, 0, 1]]), out_of_range("HopLimit", 2)),
        (interest_of(&[&named(), &NONCE, &[0x22, 0]]), out_of_range("HopLimit", 0)),
    ] {
        assert_eq!(packet(&bytes), Err(error), "{bytes:02x?}");
    }
}

/// Critical types are those up to 31 and the odd ones.
#[test]
fn what_is_unknown_or_out_of_place_is_skipped_where_it_is_not_critical() {
    let plain = packet(&plain_interest()).unwrap();
    for skipped in [&[32, 0][..], &[0x70, 2, 1, 2], &[253, 1, 2, 0]] {
        assert_eq!(packet(&interest_of(&[&named(), skipped, &NONCE])).as_ref(), Ok(&plain));
        assert_eq!(packet(&interest_of(&[&named(), &NONCE, skipped])).as_ref(), Ok(&plain));
    }
    for (critical, number) in [(&[29, 0][..], 29), (&[0x71, 0], 0x71), (&[253, 1, 1, 0], 257)] {
        let bytes = interest_of(&[&named(), critical, &NONCE]);
        assert_eq!(packet(&bytes), Err(DecodeError::Unexpected(number)));
    }
    // Known ones in the wrong order, or twice.
    for (bytes, number) in [
        (interest_of(&[&named(), &NONCE, &[0x12, 0]]), 0x12),
        (interest_of(&[&named(), &NONCE, &NONCE]), 0x0a),
        (interest_of(&[&named(), &named(), &NONCE]), 7),
    ] {
        assert_eq!(packet(&bytes), Err(DecodeError::Unexpected(number)));
    }
    // A hop limit may be skipped, and so is the second.
    let bytes = interest_of(&[&named(), &NONCE, &[0x22, 1, 3], &[0x22, 1, 9]]);
    let Ok(Packet { body: Body::Interest(interest), .. }) = packet(&bytes) else { panic!() };
    assert_eq!(interest.hop_limit, Some(3));
}

#[test]
fn data_without_what_it_must_have_is_refused() {
    let info = DecodeError::Missing("SignatureInfo");
    for (bytes, error) in [
        (data_of(&[]), DecodeError::Missing("name")),
        (data_of(&[&named()]), info),
        (data_of(&[&named(), &[0x15, 0]]), info),
        (data_of(&[&named(), &INFO]), DecodeError::Missing("SignatureValue")),
        (data_of(&[&named(), &VALUE, &INFO]), DecodeError::Unexpected(0x17)),
        (data_of(&[&named(), &[0x16, 0], &VALUE]), DecodeError::Missing("SignatureType")),
        (data_of(&[&named(), &[0x16, 2, 0x1c, 0], &VALUE]), DecodeError::Missing("SignatureType")),
        (data_of(&[&named(), &[0x16, 2, 0x1b, 0], &VALUE]), out_of_range("SignatureType", 0)),
        (data_of(&[&named(), &[0x14, 2, 0x18, 0], &INFO, &VALUE]), out_of_range("ContentType", 0)),
        (
            data_of(&[&named(), &[0x14, 5, 0x19, 3, 0, 0, 0], &INFO, &VALUE]),
            out_of_range("FreshnessPeriod", 3),
        ),
        (data_of(&[&named(), &[0x15, 0], &[0x14, 0], &INFO, &VALUE]), DecodeError::Unexpected(20)),
        (data_of(&[&named(), &[0x14, 2, 0x1f, 0], &INFO, &VALUE]), DecodeError::Unexpected(0x1f)),
    ] {
        assert_eq!(packet(&bytes), Err(error), "{bytes:02x?}");
    }
    let least = data_of(&[&named(), &INFO, &VALUE]);
    let Ok(Packet { body: Body::Data(data), .. }) = packet(&least) else { panic!() };
    assert_eq!((data.content().len(), data.meta()), (0, &Meta::default()));
}

#[test]
fn a_final_block_that_is_no_segment_number_is_left_to_the_consumer() {
    let last = |component: &[u8]| {
        let meta = element(kind::META_INFO, &element(kind::FINAL_BLOCK_ID, component));
        let bytes = data_of(&[&named(), &meta, &INFO, &VALUE]);
        let Ok(Packet { body: Body::Data(data), .. }) = packet(&bytes) else { panic!() };
        assert_eq!(data.to_bytes(), bytes);
        data.final_segment()
    };
    assert_eq!(last(&[0x32, 1, 9]), Some(9));
    assert_eq!([last(&[8, 1, 9]), last(&[0x32, 3, 0, 0, 9]), last(&[])], [None; 3]);
}

#[test]
fn a_packet_of_neither_kind_is_refused() {
    assert_eq!(packet(&[]), Err(DecodeError::Truncated { need: 1, have: 0 }));
    assert_eq!(packet(&named()), Err(DecodeError::Unexpected(7)));
    assert_eq!(packet(&[0x80, 0]), Err(DecodeError::Unexpected(0x80)));
    let mut two = plain_interest();
    two.extend(plain_interest());
    assert_eq!(packet(&two), Err(DecodeError::Trailing(two.len() / 2)));
}

#[test]
fn a_link_packet_holds_one_whole_packet_at_its_end() {
    let inside = fragment(&plain_interest());
    for (bytes, error) in [
        (lp_of(&[]), DecodeError::Idle),
        (lp_of(&[&[0x62, 1, 1]]), DecodeError::Idle),
        (lp_of(&[&fragment(&[])]), DecodeError::Idle),
        (lp_of(&[&inside, &[0x62, 1, 1]]), DecodeError::Trailing(3)),
        (lp_of(&[&inside, &inside]), DecodeError::Trailing(inside.len())),
        (lp_of(&[&fragment(&[&plain_interest()[..], &[1]].concat())]), DecodeError::Trailing(1)),
        (lp_of(&[&fragment(&lp_of(&[&inside]))]), DecodeError::Unexpected(100)),
        (lp_of(&[&fragment(&named())]), DecodeError::Unexpected(7)),
    ] {
        assert_eq!(packet(&bytes), Err(error), "{bytes:02x?}");
    }
    assert_eq!(packet(&lp_of(&[&inside])), packet(&plain_interest()));
}

#[test]
fn one_of_several_fragments_is_told_from_a_whole_packet() {
    let inside = fragment(&plain_interest());
    let sequence = element(field::SEQUENCE, &7u64.to_be_bytes());
    let whole = lp_of(&[&sequence, &[0x52, 1, 0], &[0x53, 1, 1], &inside]);
    assert_eq!(packet(&whole), packet(&plain_interest()));
    for (fields, index) in [(&[0x52, 1, 1, 0x53, 1, 2][..], 1), (&[0x53, 1, 2], 0)] {
        let found = packet(&lp_of(&[&sequence, fields, &inside])).unwrap();
        let Body::Fragment(part) = found.body else { panic!("{found:?}") };
        assert_eq!((part.sequence, part.index, part.count), (7, index, 2));
        assert_eq!((part.first(), part.nack), (7 - u64::from(index), None));
        assert_eq!(part.bytes, plain_interest());
    }
}

#[test]
fn fragments_have_a_number_a_place_and_bytes() {
    let inside = fragment(&plain_interest());
    let sequence = element(field::SEQUENCE, &7u64.to_be_bytes());
    let many = element(field::FRAG_COUNT, &(1u64 << 32).to_be_bytes());
    let two = [0x53, 1, 2];
    for (bytes, error) in [
        (lp_of(&[&sequence, &[0x52, 1, 1], &inside]), out_of_range("FragIndex", 1)),
        (lp_of(&[&sequence, &[0x52, 1, 2], &two, &inside]), out_of_range("FragIndex", 2)),
        (lp_of(&[&sequence, &[0x53, 1, 0], &inside]), out_of_range("FragIndex", 0)),
        (lp_of(&[&sequence, &[0x53, 0], &inside]), out_of_range("FragCount", 0)),
        (lp_of(&[&sequence, &many, &inside]), out_of_range("FragCount", 1 << 32)),
        (lp_of(&[&element(field::SEQUENCE, &[0; 3]), &two, &inside]), out_of_range("Sequence", 3)),
        (lp_of(&[&two, &inside]), DecodeError::Missing("Sequence")),
        (lp_of(&[&sequence, &two, &fragment(&[])]), DecodeError::Idle),
        (lp_of(&[&sequence, &two]), DecodeError::Idle),
        (lp_of(&[&sequence, &two, &inside, &inside]), DecodeError::Trailing(inside.len())),
    ] {
        assert_eq!(packet(&bytes), Err(error), "{bytes:02x?}");
    }
}

#[test]
fn unknown_fields_of_a_hop_are_skipped_only_in_their_range() {
    let inside = fragment(&plain_interest());
    let with = |number: u32| packet(&lp_of(&[&element(number, &[1]), &inside]));
    for number in [800 + 4, 816, 844, 896, 928, 956] {
        assert_eq!(with(number), packet(&plain_interest()), "{number}");
    }
    for number in [0x54, 0x63, 796, 801, 802, 803, 901, 959, 960, 964, 70_000] {
        assert_eq!(with(number), Err(DecodeError::Unexpected(number.into())), "{number}");
    }
}

#[test]
fn fields_of_a_hop_have_their_ranges() {
    let inside = fragment(&plain_interest());
    let with = |number: u32, value: &[u8]| packet(&lp_of(&[&element(number, value), &inside]));
    for (number, value, error) in [
        (field::PIT_TOKEN, &[][..], out_of_range("PitToken", 0)),
        (field::PIT_TOKEN, &[0; 33], out_of_range("PitToken", 33)),
        (field::CONGESTION_MARK, &[], out_of_range("CongestionMark", 0)),
        (field::PRIMARY_STAMP, &[0; 3], out_of_range("primary stamp", 3)),
        (field::SECONDARY_STAMP, &[0; 9], out_of_range("secondary stamp", 9)),
        (field::CLASS, &[2], out_of_range("class", 2)),
        (field::PATH_LABEL, &[0, 1, 2], out_of_range("path label", 3)),
        (field::PATH_LABEL, &[0, 1, 0, 0], out_of_range("path label", 0)),
        (field::PATH_LABEL, &[1; 26], out_of_range("path label", 26)),
        (field::ROUND_TRIP, &[], out_of_range("round trip", 0)),
        (field::JOIN_RATES, &[], out_of_range("join rates", 0)),
        (field::JOIN_RATES, &[0, 1, 2], out_of_range("join rates", 3)),
        (field::JOIN_RATES, &[0; 26], out_of_range("join rates", 26)),
        (field::DISCOVERY, &[1], out_of_range("discovery", 1)),
    ] {
        assert_eq!(with(number, value), Err(error), "{number} {value:?}");
    }
}

#[test]
fn numbers_beyond_what_is_kept_count_as_the_largest() {
    let most = u64::MAX.to_be_bytes();
    let interest = interest_of(&[&named(), &NONCE, &element(kind::LIFETIME, &most)]);
    let mark = element(field::CONGESTION_MARK, &[1, 0]);
    let round_trip = element(field::ROUND_TRIP, &most);
    let found = packet(&lp_of(&[&mark, &round_trip, &fragment(&interest)])).unwrap();
    assert_eq!(found.header.congestion_mark, 255);
    assert_eq!(found.header.round_trip_micros, Some(u32::MAX));
    let Body::Interest(interest) = found.body else { panic!() };
    assert_eq!(interest.lifetime_ms, Some(u32::MAX));
}

#[test]
fn a_nack_refuses_an_interest_and_nothing_else() {
    let nack = element(field::NACK, &element(field::NACK_REASON, &[50]));
    let inside = data_of(&[&named(), &INFO, &VALUE]);
    let refused = packet(&lp_of(&[&nack, &fragment(&inside)]));
    assert_eq!(refused, Err(DecodeError::Unexpected(field::NACK.into())));
    // Without a reason it is one all the same.
    for nack in [element(field::NACK, &[]), element(field::NACK, &[253, 3, 33, 1, 0])] {
        let found = packet(&lp_of(&[&nack, &fragment(&plain_interest())])).unwrap();
        assert!(matches!(found.body, Body::Nack(NackReason::Other(0), _)), "{found:?}");
        let form = lp_of(&[&element(field::NACK, &[]), &fragment(&plain_interest())]);
        assert_eq!(encode_to_bytes(&found), form);
    }
    let odd = element(field::NACK, &element(0x0323, &[]));
    let refused = packet(&lp_of(&[&odd, &fragment(&plain_interest())]));
    assert_eq!(refused, Err(DecodeError::Unexpected(0x0323)));
}
