//! Bytes made to break a decoder: none causes a panic or an excessive allocation, and what decodes
//! is encoded in a form that decodes to the same.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[test]
fn a_packet_cut_at_any_byte_is_refused() {
    for sample in samples() {
        let bytes = encode_to_bytes(&sample);
        for len in 0..bytes.len() {
            assert!(packet(&bytes[..len]).is_err(), "{sample}: {len} of {}", bytes.len());
        }
        assert_eq!(packet(&[&bytes[..], &[0]].concat()), Err(DecodeError::Trailing(1)));
    }
}

#[test]
fn any_byte_changed_to_any_other_gives_a_packet_or_an_error() {
    let mut read = 0;
    for sample in samples() {
        let mut bytes = encode_to_bytes(&sample).to_vec();
        for at in 0..bytes.len() {
            let right = bytes[at];
            for wrong in 0..=255 {
                bytes[at] = wrong;
                read += usize::from(settles(&bytes).is_some());
            }
            bytes[at] = right;
        }
    }
    // Most bytes are contents, numbers and signatures, which this test does not check.
    assert!(read > 50_000, "{read}");
}

#[test]
fn a_huge_number_at_any_place_is_refused_or_skipped() {
    let numbers: [&[u8]; 6] = [
        &[255; 9],
        &[255, 127, 255, 255, 255, 255, 255, 255, 255],
        &[255, 0, 0, 0, 1, 0, 0, 0, 0],
        &[254, 255, 255, 255, 255],
        &[253, 255, 255],
        &[255, 0, 0, 0, 0, 0, 0, 0, 1],
    ];
    for sample in samples() {
        let bytes = encode_to_bytes(&sample);
        for at in 0..bytes.len() {
            for number in numbers {
                let (before, after) = bytes.split_at(at);
                settles(&[before, number, after].concat());
                settles(&[before, number, &after[1..]].concat());
            }
        }
    }
}

#[test]
fn packets_in_packets_are_not_followed() {
    let mut bytes = encode_to_bytes(&samples()[0]).to_vec();
    for _ in 0..10_000 {
        bytes = element(field::LP_PACKET, &element(field::FRAGMENT, &bytes));
        if bytes.len() > 60_000 {
            break;
        }
    }
    assert_eq!(packet(&bytes), Err(DecodeError::Unexpected(100)));
    // The same in a name, a signature and parameters: what is inside is not looked at.
    let mut inside = Vec::new();
    for _ in 0..2_000 {
        inside = element(tlv::kind::NAME, &inside);
    }
    for kind in [tlv::kind::KEY_LOCATOR, 0x70] {
        let info = [vec![0x1b, 1, 5], element(kind, &inside)].concat();
        let parts = [vec![7, 3, 8, 1, 0x61], element(0x16, &info), vec![0x17, 0]];
        let Some(Packet { body: Body::Data(data), .. }) = settles(&elements(6, &parts)) else {
            panic!()
        };
        // A name whose one component has the type of a name.
        assert_eq!(data.key_locator().is_some(), kind == tlv::kind::KEY_LOCATOR);
    }
}

#[test]
fn a_key_locator_of_junk_is_none() {
    for locator in [&[0x1c, 0][..], &[0x1c, 2, 0x1d, 0], &[0x1c, 1, 7], &[0x1c, 3, 7, 9, 9]] {
        let info = [&[0x1b, 1, 5][..], locator].concat();
        let parts = [vec![7, 3, 8, 1, 0x61], element(0x16, &info), vec![0x17, 0]];
        let Some(Packet { body: Body::Data(data), .. }) = settles(&elements(6, &parts)) else {
            panic!()
        };
        assert_eq!(data.key_locator(), None);
        assert_eq!(data.detached(), data);
    }
}

/// Elements of elements, with types that mean something and lengths that are right.
fn junk() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![
        prop_oneof![Just(5u32), Just(6), Just(7), Just(8), Just(50), Just(0x64), Just(0x50)],
        prop_oneof![Just(0x0au32), Just(0x0c), Just(0x12), Just(0x14), Just(0x15), Just(0x16)],
        prop_oneof![Just(0x17u32), Just(0x1a), Just(0x1b), Just(0x1c), Just(0x1e), Just(0x24)],
        prop_oneof![Just(0x320u32), Just(0x321), Just(0x340), Just(900), Just(912), Just(916)],
        Just(920),
        1u32..1_000,
    ];
    let leaf = vec(any::<u8>(), 0..10);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        vec((kind.clone(), inner), 0..6).prop_map(|parts| {
            parts.iter().flat_map(|(kind, value)| element(*kind, value)).collect()
        })
    })
}

/// An Interest, Data or an LpPacket that has what it needs, and junk at every place.
fn packet_with_junk() -> impl Strategy<Value = Vec<u8>> {
    (junk(), junk(), junk(), 0..4u8).prop_map(|(one, two, three, which)| {
        let name = vec![7, 3, 8, 1, 0x61];
        let nonce = vec![0x0a, 4, 1, 2, 3, 4];
        let interest = elements(5, &[name.clone(), one.clone(), nonce, two.clone()]);
        let signature = [vec![0x16, 3, 0x1b, 1, 0], vec![0x17, 0]].concat();
        let data = elements(6, &[name, one.clone(), signature, two]);
        match which {
            0 => interest,
            1 => data,
            2 => elements(0x64, &[three, element(0x50, &interest)]),
            _ => elements(0x64, &[three, element(0x50, &data)]),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn any_bytes_give_a_packet_or_an_error(bytes in vec(any::<u8>(), 0..200)) {
        settles(&bytes);
        settles(&element(5, &bytes));
        settles(&element(6, &bytes));
        settles(&element(0x64, &bytes));
    }

    #[test]
    fn any_elements_give_a_packet_or_an_error(bytes in junk(), packet in packet_with_junk()) {
        settles(&bytes);
        settles(&element(0x64, &bytes));
        settles(&packet);
    }

    #[test]
    fn what_is_read_shares_the_datagram(at in 0usize..7, before in 0usize..100) {
        // As it lies in a buffer of several datagrams.
        let bytes = encode_to_bytes(&samples()[at]);
        let buffer = Bytes::from([&vec![0; before][..], &bytes, &[0; 9]].concat());
        let mut datagram = buffer.slice(before..before + bytes.len());
        let found = Packet::decode(&mut datagram).unwrap();
        prop_assert!(datagram.is_empty());
        let (name, whole) = match &found.body {
            Body::Interest(interest) => (interest.name.clone(), None),
            Body::Nack(_, interest) => (interest.name.clone(), None),
            Body::Data(data) => (data.name().clone(), Some(data.to_bytes())),
            Body::Fragment(fragment) => (Name::root(), Some(fragment.bytes.clone())),
        };
        for shared in [Some(name.prefix_bytes().clone()), whole].into_iter().flatten() {
            prop_assert!(buffer.as_ptr_range().contains(&shared.as_ptr()));
        }
        if let Body::Data(data) = &found.body {
            let detached = data.detached();
            prop_assert!(!buffer.as_ptr_range().contains(&detached.to_bytes().as_ptr()));
            prop_assert!(!buffer.as_ptr_range().contains(&detached.name().prefix_bytes().as_ptr()));
            prop_assert_eq!(&detached, data);
        }
        prop_assert_eq!(encode_to_bytes(&found), bytes);
    }
}
