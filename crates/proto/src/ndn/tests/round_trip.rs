//! Encoded values decode to the same values.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::names::any_name;
use super::*;
use crate::core::laws::{ends_where_it_ends, survives};

fn any_interest() -> impl Strategy<Value = Interest> {
    (
        (any_name(), option::of(any::<u64>())),
        any::<(bool, bool, u32)>(),
        any::<(Option<u32>, Option<u8>)>(),
        option::of(vec(any::<u8>(), 0..20)),
    )
        .prop_map(|((name, segment), flags, (lifetime_ms, hop_limit), parameters)| {
            let name = segment.map_or(name.clone(), |segment| name.with_segment(segment));
            let name = if name.is_root() { name.with_segment(0) } else { name };
            let plain = match parameters {
                Some(parameters) => Interest::with_parameters(&name, flags.2, &parameters),
                None => Ok(Interest::new(name, flags.2)),
            };
            Interest {
                can_be_prefix: flags.0,
                must_be_fresh: flags.1,
                lifetime_ms,
                hop_limit,
                ..plain.expect("a short name")
            }
        })
}

fn any_data() -> impl Strategy<Value = Data> {
    let content = prop_oneof![
        vec(any::<u8>(), 0..300).prop_map(Payload::from),
        (0u32..300).prop_map(Payload::Zeros),
    ];
    let meta = any::<(Option<u64>, Option<u32>, Option<u64>)>().prop_map(|meta| Meta {
        content_type: meta.0,
        freshness_ms: meta.1,
        final_segment: meta.2,
    });
    let signer = prop_oneof![
        Just(Signer::Null),
        Just(Signer::Digest),
        (any::<[u8; 32]>(), any_name()).prop_map(|(seed, name)| Signer::from_seed(&seed, name)),
    ];
    (any_name(), meta, content, signer)
        .prop_map(|(name, meta, content, signer)| Data::new(name, meta, content, &signer))
}

fn any_body() -> impl Strategy<Value = Body> {
    let reason = prop_oneof![Just(50), Just(100), Just(150), any::<u64>()];
    prop_oneof![
        any_interest().prop_map(Body::Interest),
        any_data().prop_map(Body::Data),
        (reason, any_interest()).prop_map(|(number, interest)| {
            Body::Nack(NackReason::of_number(number), Box::new(interest))
        }),
        any_fragment().prop_map(Body::Fragment),
    ]
}

fn any_fragment() -> impl Strategy<Value = Fragment> {
    let nack = option::of(any::<u64>().prop_map(NackReason::of_number));
    (any::<u64>(), (2u32.., any::<u32>()), nack, vec(any::<u8>(), 1..300)).prop_map(
        |(sequence, (count, index), nack, bytes)| Fragment {
            sequence,
            index: index % count,
            count,
            nack,
            bytes: bytes.into(),
        },
    )
}

fn any_header() -> impl Strategy<Value = Header> {
    let rate = || prop_oneof![Just(Stamps::NONE), Just(0), any::<u64>()];
    (
        (rate(), rate()),
        (vec(any::<NonZeroU16>(), 0..14), vec(any::<Option<u64>>(), 0..14)),
        (any::<bool>(), any::<bool>()),
        prop_oneof![Just(0), any::<u8>()],
        any::<Option<u32>>(),
        option::of(vec(any::<u8>(), 1..33)),
    )
        .prop_map(
            |((primary, secondary), (hops, joins), flags, mark, round_trip_micros, token)| {
                let (second, discovers) = flags;
                let mut join_rates = JoinRates::EMPTY;
                joins.into_iter().for_each(|rate| join_rates.push_front(rate));
                Header {
                    stamps: Stamps {
                        primary_bits_per_second: primary,
                        secondary_bits_per_second: secondary,
                    },
                    label: PathLabel::of_hops(&hops),
                    join_rates,
                    class: if second { Class::Secondary } else { Class::Primary },
                    congestion_mark: mark,
                    round_trip_micros,
                    discovers,
                    token: token.and_then(|token| Token::new(&token)),
                }
            },
        )
}

fn any_packet() -> impl Strategy<Value = Packet> {
    let header = prop_oneof![Just(Header::default()), any_header()];
    (header, any_body()).prop_map(|(header, body)| Packet { header, body })
}

proptest! {
    #[test]
    fn every_packet_survives_its_encoding(packet in any_packet()) {
        survives(&packet)?;
        settles(&encode_to_bytes(&packet)).expect("our own is read");
    }

    #[test]
    fn every_packet_ends_where_it_ends(packet in any_packet()) {
        ends_where_it_ends(&packet)?;
    }

    #[test]
    fn zeros_are_the_same_data_as_zeros_written_out(len in 0u32..3_000) {
        let of = |content| Data::new(name("/a/seg=1"), Meta::default(), content, &Signer::Null);
        let (held, written) = (of(Payload::Zeros(len)), of(vec![0; len as usize].into()));
        prop_assert_eq!(&held, &written);
        prop_assert_eq!(held.to_bytes(), written.to_bytes());
        prop_assert_eq!(held.implicit_digest(), written.implicit_digest());
        prop_assert_eq!(held.encoded_len(), held.to_bytes().len());
    }
}

#[test]
fn a_packet_with_nothing_for_a_hop_is_bare() {
    for (sample, outer) in samples().iter().zip([5u8, 0x64, 0x64, 5, 6, 6, 0x64, 0x64, 0x64]) {
        assert_eq!(encode_to_bytes(sample)[0], outer, "{sample}");
    }
}

#[test]
fn packets_are_small_where_they_are_moved() {
    assert!(size_of::<Packet>() <= 168, "{}", size_of::<Packet>());
    assert!(size_of::<Interest>() <= 72, "{}", size_of::<Interest>());
    assert_eq!(size_of::<Data>(), size_of::<usize>());
}

#[test]
fn a_clone_of_data_is_the_same_one() {
    for sample in samples() {
        if let Body::Data(data) = sample.body {
            assert!(data.clone().is_same(&data));
            assert!(
                !data.detached().is_same(&data) || data.signature_type() == SignatureType::Null
            );
        }
    }
}

#[test]
fn stamps_only_get_lower() {
    let of = |primary_bits_per_second, secondary_bits_per_second| Stamps {
        primary_bits_per_second,
        secondary_bits_per_second,
    };
    let mut stamps = Stamps::default();
    assert_eq!((stamps.primary(), stamps.secondary()), (None, None));
    stamps.lower_to(of(10, Stamps::NONE));
    stamps.lower_to(of(20, 5));
    stamps.lower_to(Stamps::default());
    assert_eq!((stamps.primary(), stamps.secondary()), (Some(10), Some(5)));
}

#[test]
fn a_packet_in_a_trace_is_a_line() {
    let lines: Vec<String> = samples().iter().map(Packet::to_string).collect();
    assert_eq!(lines[1], "interest /mircc/file/v=3/seg=70000 nonce 01020304 secondary path 7.500");
    assert_eq!(lines[2], "nack 50 /mircc/file/v=3/seg=70000 nonce 01020304");
    assert_eq!(
        lines[6],
        "data /mircc/file/v=3/seg=70000 3 B primary 12000000 bit/s secondary 0 bit/s path ? mark 1"
    );
}
