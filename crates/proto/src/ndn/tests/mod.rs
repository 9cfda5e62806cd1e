//! Properties of NDN packets, for arbitrary bytes.

mod golden;
mod hostile;
mod names;
mod refused;
mod round_trip;
mod signatures;

use std::num::NonZeroU16;

use super::*;
use crate::core::laws::decode;
use crate::core::{DecodeError, Payload, Wire, encode_to_bytes};

fn unhex(hex: &str) -> Vec<u8> {
    let digits = hex.as_bytes().chunks_exact(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// An element, and one of elements.
fn element(kind: u32, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    tlv::put_element(&mut bytes, kind, value);
    bytes
}

fn elements(kind: u32, values: &[Vec<u8>]) -> Vec<u8> {
    element(kind, &values.concat())
}

fn data(uri: &str, content: &'static str, signer: &Signer) -> Data {
    let meta = Meta { freshness_ms: Some(1_000), final_segment: Some(299), content_type: None };
    Data::new(name(uri), meta, Payload::from(content), signer)
}

fn packet(bytes: &[u8]) -> Result<Packet, DecodeError> {
    decode(bytes)
}

/// Packets that have all there is, one or the other.
fn samples() -> Vec<Packet> {
    let mut interest = Interest::new(name("/mircc/file/v=3/seg=70000"), 0x0102_0304);
    interest.lifetime_ms = Some(300);
    interest.must_be_fresh = true;
    interest.can_be_prefix = true;
    interest.hop_limit = Some(9);
    let mut steered = Packet::from(interest.clone());
    steered.header.class = Class::Secondary;
    steered.header.round_trip_micros = Some(28_000);
    steered.header.label = PathLabel::of_hops(&[7, 500].map(|hop| NonZeroU16::new(hop).unwrap()));
    steered.header.token = Token::new(&[1, 2, 3, 4]);
    let mut discovering = Packet::from(interest.clone());
    discovering.header.discovers = true;
    let mut stamped = Packet::from(data("/mircc/file/v=3/seg=70000", "xyz", &Signer::Digest));
    stamped.header.stamps.primary_bits_per_second = 12_000_000;
    stamped.header.stamps.secondary_bits_per_second = 0;
    stamped.header.label = PathLabel::UNUSABLE;
    stamped.header.congestion_mark = 1;
    let mut joined = Packet::from(data("/mircc/file/v=3/seg=1", "xyz", &Signer::Digest));
    joined.header.add_hop(NonZeroU16::MIN, Some(9_500_000));
    joined.header.add_hop(NonZeroU16::MAX, None);
    let refused = Body::Nack(NackReason::Congestion, Box::new(interest.clone()));
    let signer = Signer::from_seed(&[7; 32], name("/mircc/KEY/1"));
    vec![
        Packet::from(interest.clone()),
        steered,
        Packet { header: Header::default(), body: refused },
        Packet::from(Interest::with_parameters(&name("/a/b"), 5, b"parameters").unwrap()),
        Packet::from(data("/mircc/file/seg=0", "x", &Signer::Null)),
        Packet::from(data("/mircc/file/seg=1", "", &signer)),
        stamped,
        joined,
        discovering,
    ]
}

/// If bytes decode to a packet, its encoding decodes to the same packet and is stable.
fn settles(bytes: &[u8]) -> Option<Packet> {
    let found = packet(bytes).ok()?;
    let form = encode_to_bytes(&found);
    assert_eq!(form.len(), found.wire_len(), "{bytes:02x?}");
    let again =
        packet(&form).unwrap_or_else(|error| panic!("{bytes:02x?} as {form:02x?}: {error}"));
    assert_eq!(again, found);
    assert_eq!(encode_to_bytes(&again), form);
    Some(found)
}
